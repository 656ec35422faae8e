"""Sparse arrays in executors, modules and hybridized blocks: results, storage types, and how many elements are stored."""

import os
import tempfile

import mxnet as mx
import numpy as np

from record import error_of, record

sym = mx.sym
random = np.random.RandomState(5)
FEATURES = 40


def holes(shape, density=0.3, seed=0):
    values = np.random.RandomState(seed)
    return (values.randn(*shape) * (values.rand(*shape) < density)).astype("float32")


def with_empty_rows(shape, seed=0):
    values = np.random.RandomState(seed)
    return (values.randn(*shape) * (values.rand(shape[0], *[1] * (len(shape) - 1)) < 0.5)).astype("float32")


def keep(name, array):
    """Records an array with its storage: of a row_sparse array, the stored rows."""
    if array is None:
        record(name, "none")
        return
    record(name, array)
    record(f"{name}/stype", array.stype)
    if array.stype == "row_sparse":
        record(f"{name}/rows", array.indices)


def fill(executor, seed=0, full=()):
    """Random values, with empty rows and elements, for all arguments but indices and those in `full`."""
    for i, (name, array) in enumerate(sorted(executor.arg_dict.items())):
        if len(array.shape) == 1:
            values = np.sort(np.random.RandomState(seed + i).permutation(5)[: array.shape[0]])
        elif name in full:
            values = np.random.RandomState(seed + i).randn(*array.shape)
        else:
            values = (holes if array.stype == "csr" else with_empty_rows)(array.shape, seed=seed + i)
        mx.nd.array(values).tostype(array.stype).copyto(array)
    return executor


def heads(executor, seed=20):
    return [mx.nd.array(np.random.RandomState(seed).randn(*y.shape)).tostype(y.stype) for y in executor.outputs]


# Single and composed operators, for several requests and passes.
a, b, c = (sym.Variable(n) for n in "abc")
MATRIX, PRODUCT = (6, 5), {"a": (6, 5), "b": (5, 3)}
SAME = {"a": MATRIX, "b": MATRIX}
FOUND = sym.Embedding(a, b, input_dim=5, output_dim=3, sparse_grad=True)
SQUARES = sym._internal._square_sum(b, axis=1, keepdims=True)
GRAPHS = {
    "csr dense": (sym.dot(a, b), PRODUCT, ("csr", "default"), "b"),
    "csr rows": (sym.dot(a, b), PRODUCT, ("csr", "row_sparse"), "b"),
    "csr transposed": (sym.dot(a, b, transpose_a=True), {"a": (5, 6), "b": (5, 3)}, ("csr", "row_sparse"), ""),
    "csr transposed dense": (sym.dot(a, b, transpose_a=True), {"a": (5, 6), "b": (5, 3)}, ("csr", "default"), "b"),
    "dense csr": (sym.dot(a, b), PRODUCT, ("default", "csr"), ""),
    "twice": (sym.dot(a, b) + sym.dot(a, b * 2), PRODUCT, ("csr", "row_sparse"), "b"),
    "two readers": (sym.Group([sym.dot(a, b), sym.square(b)]), PRODUCT, ("csr", "row_sparse"), "b"),
    "square sum": (sym.dot(sym.square(a), SQUARES), PRODUCT, ("csr", "row_sparse"), "b"),
    "sum": (a + b, SAME, ("row_sparse", "row_sparse"), "ab"),
    "sum of csr": (a + b, SAME, ("csr", "csr"), ""),
    "mixed sum": (a + b, SAME, ("row_sparse", "default"), "ab"),
    "product": (a * b, SAME, ("row_sparse", "row_sparse"), "ab"),
    "product with dense": (a * b, SAME, ("csr", "default"), "b"),
    "chain": (sym.relu(sym.square(a * 3) - b), SAME, ("row_sparse", "row_sparse"), "ab"),
    "fallback": (sym.exp(a) * b, SAME, ("row_sparse", "row_sparse"), "ab"),
    "add_n": (sym.add_n(a, b, a), SAME, ("row_sparse", "row_sparse"), "ab"),
    "stop": (sym.BlockGrad(a) + b, SAME, ("row_sparse", "row_sparse"), "ab"),
    "retain": (sym.sparse.retain(a, b), {"a": MATRIX, "b": (2,)}, ("row_sparse", "default"), ""),
    "cast rows": (sym.sparse.cast_storage(a, "row_sparse") + b, SAME, ("default", "row_sparse"), "ab"),
    "cast csr": (sym.dot(sym.sparse.cast_storage(a, "csr"), b), PRODUCT, ("default", "row_sparse"), "b"),
    "embedding": (FOUND, {"a": (4,), "b": (5, 3)}, ("default", "row_sparse"), "b"),
    "embedding, dense weight": (FOUND, {"a": (4,), "b": (5, 3)}, ("default", "default"), "b"),
    "layer": (sym.FullyConnected(a, b, num_hidden=3, no_bias=True), {"a": MATRIX, "b": (3, 5)}, ("csr", "default"), "b"),
    "regression": (sym.LinearRegressionOutput(sym.dot(a, b), c), dict(PRODUCT, c=(6, 3)), ("csr", "row_sparse", "default"), "b"),
    "csr label": (sym.LogisticRegressionOutput(a, b), SAME, ("default", "csr"), "a"),
    "reductions": (sym.Group([sym.sum(a, axis=0), sym.mean(a, axis=1), sym.norm(b)]), SAME, ("csr", "row_sparse"), ""),
    "slice": (sym.dot(sym.slice(a, begin=(1, 0), end=(4, 5)), b), PRODUCT, ("csr", "default"), "b"),
    "take": (sym.dot(sym.take(a, c), b), dict(PRODUCT, c=(3,)), ("csr", "row_sparse", "default"), "b"),
    "normalized": (sym.dot(sym.broadcast_div(a, c), b), dict(PRODUCT, c=(6, 1)), ("csr", "row_sparse", "default"), "b"),
    "where": (sym.where(a, b, c), dict(SAME, c=MATRIX), ("csr", "default", "default"), "bc"),
    "constant": (sym.dot(a, b) + sym.zeros_like(c), dict(PRODUCT, c=(6, 3)), ("csr", "row_sparse", "row_sparse"), "bc"),
}
# For the others, MXNet refuses to add to the gradient, or adds to uninitialized memory.
ADDED = ("product", "product with dense", "fallback", "layer", "csr transposed dense")
FULL = {"square sum": "b", "normalized": "c"}
for name, (symbol, shapes, types, wanted) in GRAPHS.items():
    for request in ("write", "add") if name in ADDED else ("write",):
        requests = {n: request if n in wanted else "null" for n in shapes}
        executor = symbol.simple_bind(mx.cpu(), requests, stype_dict=dict(zip("abc", types)), **shapes)
        for number in range(2):
            fill(executor, 3 * number, FULL.get(name, ""))
            outputs = executor.forward(is_train=True)
            for attempt in range(2 if request == "write" else 1):
                executor.backward(heads(executor, 20 + number + attempt))
                for n in wanted:
                    keep(f"{name}/{request}/{number}/gradient {attempt} of {n}", executor.grad_dict[n])
            for k, output in enumerate(outputs):
                keep(f"{name}/{request}/{number}/output{k}", output)
    keep(f"{name}/inference", executor.forward(is_train=False)[0])

# Monitors get sparse arrays unconverted; executors of a group of devices; executors for other batch sizes.
table = sym.Variable("table", stype="row_sparse")
table = sym.Embedding(sym.Variable("words"), table, input_dim=8, output_dim=3, sparse_grad=True, name="look")
pair = sym.dot(sym.Variable("x", stype="csr"), sym.Variable("w", stype="row_sparse"), name="wide")
network = sym.LinearRegressionOutput(sym.sum(table, axis=1) + pair, sym.Variable("y"), name="loss")
shapes = {"words": (4, 2), "x": (4, 6), "w": (6, 3), "y": (4, 3)}
requests = {n: "write" if n in ("table", "w") else "null" for n in network.list_arguments()}
for inputs_too in (False, True):
    executor = network.simple_bind(mx.cpu(), requests, **shapes)
    for key, array in executor.arg_dict.items():
        mx.nd.array(np.arange(np.prod(array.shape)).reshape(array.shape) % 5).tostype(array.stype).copyto(array)
    seen = []

    def see(key, array, seen=seen):
        array = mx.nd.sparse._ndarray_cls(mx.base.ctypes.cast(array, mx.base.NDArrayHandle), writable=False)
        seen.append(f"{key if isinstance(key, str) else key.decode()} {array.stype} {array.shape}")

    executor.set_monitor_callback(see, inputs_too)
    executor.forward(is_train=True)
    record(f"monitor/{inputs_too}/forward", seen)
    del seen[:]
    executor.backward()
    if not inputs_too:
        # MXNet reports a dense array for the gradient of x, which nobody requested.
        record("monitor/backward", [line for line in seen if "wide_backward_output0" not in line])
del requests["y"], shapes["y"]
executor = sym.Group([table, pair]).simple_bind(mx.cpu(), requests, **shapes)
record("reshape/csr", error_of(lambda: executor.reshape(words=(4, 2), x=(2, 6), w=(6, 3))))
smaller = executor.reshape(words=(2, 2), x=(4, 6), w=(6, 3))
fill(executor)
smaller.arg_dict["words"][:] = mx.nd.array([[1, 4], [4, 6]])
for k, output in enumerate(smaller.forward(is_train=True)):
    keep(f"reshape/output{k}", output)
smaller.backward(heads(smaller))
keep("reshape/gradient of table", smaller.grad_dict["table"])
keep("reshape/shared gradient of w", executor.grad_dict["w"])
with mx.AttrScope(ctx_group="first"):
    wide = sym.dot(sym.Variable("x", stype="csr"), sym.Variable("w", stype="row_sparse"))
with mx.AttrScope(ctx_group="second"):
    grouped = sym.FullyConnected(wide, num_hidden=2, name="fc")
requests = {"x": "null", "w": "write", "fc_weight": "write", "fc_bias": "write"}
executor = fill(grouped.simple_bind(mx.cpu(0), requests, group2ctx={"first": mx.cpu(1), "second": mx.cpu(2)}, x=(4, 6), w=(6, 3)))
keep("groups/output", executor.forward(is_train=True)[0])
record("groups/output/context", str(executor.outputs[0].context))
executor.backward(heads(executor))
for n, array in sorted(executor.grad_dict.items()):
    if array is not None:
        keep(f"groups/gradient of {n}", array)
        record(f"groups/gradient of {n}/context", str(array.context))

# Wide models: training with batches that store different numbers of elements.


class WeightedLoss(mx.operator.CustomOp):
    """Softmax whose gradient is larger for examples of the second class."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], mx.nd.softmax(in_data[0]))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        label = in_data[1]
        weight = (1 + label).reshape((-1, 1))
        self.assign(in_grad[0], req[0], (out_data[0] - mx.nd.one_hot(label, 2)) * weight)
        self.assign(in_grad[1], req[1], mx.nd.zeros_like(label))


@mx.operator.register("weighted_loss")
class WeightedLossProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return WeightedLoss()


def linear():
    x, w = sym.Variable("data", stype="csr"), sym.Variable("w", stype="row_sparse", shape=(FEATURES, 2))
    scores = sym.broadcast_add(sym.sparse.dot(x, w), sym.Variable("bias", shape=(2,)))
    return sym.Custom(scores, sym.Variable("softmax_label"), op_type="weighted_loss", name="softmax")


def factorization_machine():
    x, v = sym.Variable("data", stype="csr"), sym.Variable("v", stype="row_sparse", shape=(FEATURES, 4))
    w = sym.Variable("w", stype="row_sparse", shape=(FEATURES, 1))
    first = sym.broadcast_add(sym.sparse.dot(x, w), sym.Variable("bias", shape=(1,)))
    squares = sym.sparse.dot(sym.sparse.square(x), sym._internal._square_sum(v, axis=1, keepdims=True))
    both = sym.concat(first, 0.5 * sym.square(sym.sparse.dot(x, v)), dim=1)
    score = sym.sum(both, axis=1, keepdims=True) - 0.5 * squares
    return sym.LogisticRegressionOutput(sym.reshape(score, shape=(-1,)), sym.Variable("softmax_label"), name="softmax")


def wide_and_deep():
    x, ids = sym.Variable("data", stype="csr"), sym.Variable("ids")
    w = sym.Variable("w", stype="row_sparse", shape=(FEATURES, 2))
    tables = [sym.Variable(f"table{i}", stype="row_sparse", shape=(9, 3)) for i in range(2)]
    columns = sym.split(ids, num_outputs=2, axis=1)
    found = [sym.flatten(sym.Embedding(columns[i], tables[i], input_dim=9, output_dim=3, sparse_grad=True)) for i in range(2)]
    deep = sym.Activation(sym.FullyConnected(sym.concat(*found, dim=1), num_hidden=5, name="fc1"), act_type="relu")
    scores = sym.sparse.dot(x, w) + sym.FullyConnected(deep, num_hidden=2, name="fc2")
    return sym.SoftmaxOutput(scores, sym.Variable("softmax_label"), name="softmax")


def matrix_factorization():
    def rows_of(name):
        weight = sym.Variable(f"{name}_weight", stype="row_sparse", shape=(30, 4))
        return sym.Embedding(sym.Variable(name), weight, input_dim=30, output_dim=4, sparse_grad=True)

    score = sym.sum(rows_of("user") * rows_of("item"), axis=1)
    return sym.LinearRegressionOutput(score, sym.Variable("softmax_label"), name="softmax")


N = 60
examples = holes((N, FEATURES), 0.15, 1)
examples[7:9] = 0
classes = random.randint(0, 2, N).astype("float32")
ids = random.randint(0, 9, (N, 2)).astype("float32")
users, items = random.randint(0, 30, (2, N)).astype("float32")
stored = mx.nd.array(examples).tostype("csr")
sources = {
    "linear": (linear, {"data": stored}, ("w",)),
    "factorization machine": (factorization_machine, {"data": stored}, ("v", "w")),
    "wide and deep": (wide_and_deep, {"data": stored, "ids": ids}, ("w", "table0", "table1")),
    "matrix factorization": (matrix_factorization, {"user": users, "item": items}, ("user_weight", "item_weight")),
}


def rows(batch):
    """The rows of each row_sparse parameter that a batch reads."""
    named = dict(zip((d.name for d in batch.provide_data or provided), batch.data))
    found = {}
    if "data" in named:
        found = {"w": named["data"].indices, "v": named["data"].indices}
    if "ids" in named:
        found.update({f"table{i}": named["ids"][:, i].astype("int64") for i in range(2)})
    if "user" in named:
        found.update({f"{n}_weight": named[n].astype("int64") for n in ("user", "item")})
    return {n: r for n, r in found.items() if n in wide_weights}


for name, (model, inputs, wide_weights) in sources.items():
    for optimizer, kvstore in (("sgd", "local"), ("adam", "local"), ("adagrad", "device"), ("ftrl", "local")):
        batches = mx.io.NDArrayIter(inputs, {"softmax_label": classes}, 20, last_batch_handle="discard")
        provided = batches.provide_data
        module = mx.mod.Module(model(), sorted(inputs), ["softmax_label"])
        values = np.random.RandomState(4)
        found = dict(zip(model().list_arguments(), model().infer_shape(**{d.name: d.shape for d in provided})[0]))
        names = sorted(set(found) - set(inputs) - {"softmax_label"})
        parameters = {n: mx.nd.array(values.uniform(-0.3, 0.3, found[n])) for n in names}
        parameters = {n: p.tostype("row_sparse") if n in wide_weights else p for n, p in parameters.items()}
        module.fit(
            batches,
            eval_metric="mse" if "factorization" in name else "acc",
            num_epoch=3,
            optimizer=optimizer,
            optimizer_params={"learning_rate": 0.1},
            arg_params=parameters,
            kvstore=kvstore,
            sparse_row_id_fn=rows,
        )
        learned = module.get_params()[0]
        for key in sorted(learned):
            record(f"{name}/{optimizer}/{key}", learned[key])
            record(f"{name}/{optimizer}/{key}/stype", learned[key].stype)
        gradients = module._exec_group.execs[0].grad_dict
        for key in sorted(k for k, g in gradients.items() if g is not None):
            keep(f"{name}/{optimizer}/gradient of {key}", gradients[key])
    record(f"{name}/predictions", module.predict(batches, sparse_row_id_fn=rows))

# Batches of a LibSVM file, on two devices.
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "examples")
    with open(path, "w") as file:
        for label, row in zip(classes, examples):
            file.write(" ".join([str(int(label))] + [f"{c}:{row[c]:.9g}" for c in np.flatnonzero(row)]) + "\n")
    batches = mx.io.LibSVMIter(data_libsvm=path, data_shape=(FEATURES,), batch_size=12)
    provided, wide_weights = batches.provide_data, ("w",)
    for devices in (1, 2):
        module = mx.mod.Module(linear(), context=[mx.cpu(i) for i in range(devices)])
        module.bind(batches.provide_data, batches.provide_label)
        module.init_params(arg_params={"w": mx.nd.ones((FEATURES, 2)).tostype("row_sparse"), "bias": mx.nd.zeros(2)}, initializer=None)
        module.init_optimizer("local", "sgd", {"learning_rate": 0.05, "momentum": 0.9})
        for _ in range(2):
            batches.reset()
            for batch in batches:
                module.prepare(batch, sparse_row_id_fn=lambda batch: {"w": batch.data[0].indices})
                module.forward_backward(batch)
                module.update()
        record(f"file/{devices}/w", module.get_params()[0]["w"])
        record(f"file/{devices}/outputs", module.get_outputs()[0])


# Blocks called with csr arrays, or with parameters that have row_sparse gradients.
class Wide(mx.gluon.HybridBlock):
    def __init__(self):
        super().__init__(prefix="wide_")
        with self.name_scope():
            self.w = self.params.get("w", shape=(FEATURES, 3), init=mx.init.One(), grad_stype="row_sparse")
            self.table = mx.gluon.nn.Embedding(9, 3, sparse_grad=True, weight_initializer=mx.init.One())
            self.out = mx.gluon.nn.Dense(2, in_units=3, weight_initializer=mx.init.One())

    def hybrid_forward(self, F, x, ids, w):
        return self.out(F.sparse.dot(x, w) + F.sum(self.table(ids), axis=1))


for options in (None, {}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}):
    block = Wide()
    block.initialize()
    if options is not None:
        block.hybridize(**options)
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    for start in (0, 20, 30):
        x, batch = stored[start : start + 10], mx.nd.array(ids[start : start + 10])
        with mx.autograd.record():
            loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(block(x, batch), mx.nd.array(classes[start : start + 10]))
        loss.backward()
        trainer.step(10)
        record(f"block/{options}/{start}/loss", loss)
        for key, parameter in sorted(block.collect_params().items()):
            keep(f"block/{options}/{start}/{key}", parameter.grad())
    record(f"block/{options}/w", block.w.data())
    record(f"block/{options}/inference", block(stored[:10], mx.nd.array(ids[:10])))

# The gradient of a table of `SparseEmbedding` is row_sparse without `sparse_grad`.
for weight in ("default", "row_sparse"):
    table = mx.sym.contrib.SparseEmbedding(mx.sym.Variable("data"), mx.sym.Variable("table", stype=weight), input_dim=5, output_dim=2,
                                           deterministic=True)
    executor = table.simple_bind(mx.cpu(), grad_req={"data": "null", "table": "write"}, data=(3,))
    executor.arg_dict["data"][:] = mx.nd.array([1, 3, 3])
    executor.arg_dict["table"][:] = mx.nd.ones((5, 2)).tostype(weight)
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((3, 2))])
    record(f"sparse_embedding_{weight}_storage", executor.grad_dict["table"].stype)
    record(f"sparse_embedding_{weight}", executor.grad_dict["table"].asnumpy())
