"""Calls that autograd rejects, and when errors of kernels are reported: once, at the first wait that depends on them."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

from record import record


def outcome(call):
    try:
        result = call()
    except Exception as error:
        return type(error).__name__
    return "ok" if result is None else str(result.asnumpy().tolist())


def variable():
    x = nd.array([[1.0, 2, 3], [4, 5, 6]])
    x.attach_grad()
    return x


def backward_twice(**first):
    x = variable()
    with autograd.record():
        y = (x * x).sum()
    y.backward(**first)
    y.backward()
    return x.grad


def backward_through_freed():
    x = variable()
    with autograd.record():
        z = x * x
        y, w = z.sum(), (z * 2).sum()
    y.backward()
    w.backward()
    return x.grad


def backward_both():
    x = variable()
    with autograd.record():
        z = x * x
        y, w = z.sum(), (z * 2).sum()
    autograd.backward([y, w])
    return x.grad


def grad_twice():
    x = variable()
    with autograd.record():
        y = x * 2
    autograd.grad(y, [x])
    return autograd.grad(y, [x])[0]


record("twice", outcome(backward_twice))
record("twice/retained", outcome(lambda: backward_twice(retain_graph=True)))
record("freed", outcome(backward_through_freed))
record("both", outcome(backward_both))
record("grad twice", outcome(grad_twice))


def while_recording(change):
    def call():
        x = variable()
        with autograd.record():
            y = x * 2
            change(x, y)
        y.backward()
        return x.grad

    return call


def assign(target, value):
    target[:] = value


for name, change in {
    "add": lambda x, y: y.__iadd__(1),
    "fill": lambda x, y: assign(y, 1),
    "element": lambda x, y: y.__setitem__(0, 1),
    "variable": lambda x, y: assign(x, nd.ones((2, 3))),
    "out": lambda x, y: nd.elemwise_add(y, y, out=y),
    "random": lambda x, y: nd.random.normal(out=y, shape=(2, 3)),
    "copy": lambda x, y: nd.ones((2, 3)).copyto(y),
    "other": lambda x, y: assign(nd.zeros((2, 3)), 1),
}.items():
    record(f"in place/{name}", outcome(while_recording(change)))

for name in ("all_finite", "argmax_channel", "shuffle"):

    def differentiate(name=name):
        x = variable()
        with autograd.record():
            y = getattr(nd, name)(x)
        y.backward()

    if name != "shuffle":
        record(f"no gradient/{name}", outcome(differentiate))


@mx.operator.register("failing")
class FailingProp(mx.operator.CustomOpProp):
    def __init__(self, where):
        super().__init__(True)
        self.where = where

    def create_operator(self, ctx, shapes, dtypes):
        where = self.where

        class Failing(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                if where == "forward":
                    raise RuntimeError("no forward")
                self.assign(out_data[0], req[0], in_data[0])

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                raise RuntimeError("no backward")

        return Failing()


def failing(where):
    x = variable()
    with autograd.record():
        y = nd.Custom(x, op_type="failing", where=where)
    if where == "backward":
        y.backward()
    return x.grad if where == "backward" else y


class Same(autograd.Function):
    def forward(self, x):
        return x

    def backward(self, gradient):
        return gradient * 3


def function_of(argument):
    x = variable()
    with autograd.record():
        y = Same()(argument(x)) * 2
    y.backward()
    return x.grad


class TwoOutputs(gluon.HybridBlock):
    """The first output depends on no variable."""

    def __init__(self):
        super().__init__()
        self.dense = gluon.nn.Dense(2, in_units=3)

    def hybrid_forward(self, F, x):
        return F.sin(x * 2), self.dense(x)


def backward_of_both(**flags):
    block = TwoOutputs()
    block.initialize(mx.init.One())
    if flags:
        block.hybridize(**flags)
    with autograd.record():
        outputs = block(nd.ones((2, 3)))
    autograd.backward(outputs)
    return block.dense.weight.grad()


record("function/of a variable", outcome(lambda: function_of(lambda x: x)))
record("function/of a result", outcome(lambda: function_of(lambda x: x * 2)))
record("two outputs", outcome(backward_of_both))
record("two outputs/hybridized", outcome(lambda: backward_of_both(active=True)))
record("two outputs/static", outcome(lambda: backward_of_both(static_alloc=True, static_shape=True)))


def hybridized():
    block = gluon.nn.HybridLambda(lambda F, x: F.take(x, F.ones((1,)) * 9, mode="raise") * 2)
    block.hybridize()
    return block(nd.ones((2, 3)))


for name, call in {
    "normal": lambda: nd.random.normal(0, -1, shape=(2,)),
    "chain": lambda: nd.random.normal(0, -1, shape=(2,)) * 2 + 1,
    "view": lambda: nd.random.normal(0, -1, shape=(2, 2)).reshape((4,))[1:3],
    "take": lambda: nd.take(nd.ones((3, 2)), nd.array([7]), mode="raise"),
    "out": lambda: nd.take(nd.ones((3, 2)), nd.array([7]), mode="raise", out=nd.zeros((1, 2))),
    "gather": lambda: nd.gather_nd(nd.zeros((2, 2)), nd.array([[5], [5]])),
    "poisson": lambda: nd.random.poisson(-1, shape=(2,)),
    "potrf": lambda: nd.linalg.potrf(nd.array([[-1.0, 0], [0, 1]])),
    "hybridized": hybridized,
    "forward": lambda: failing("forward"),
    "backward": lambda: failing("backward"),
}.items():
    for wait in ("read", "all"):
        x = call()
        record(f"wait/{name}/{wait}", outcome(x.wait_to_read if wait == "read" else nd.waitall))
        record(f"wait/{name}/{wait}/again", outcome(x.wait_to_read))
        record(f"wait/{name}/{wait}/all", outcome(nd.waitall))

# An operator need not have gradients for inputs whose gradients are not requested.
indices, table = nd.array([[0, 1]]), nd.array([[1.0, 2], [3, 4], [5, 6]])
gradients = [nd.zeros_like(indices), nd.zeros_like(table)]
autograd.mark_variables([indices, table], gradients, ["null", "write"])
with autograd.record():
    rows = nd.Embedding(indices, table, input_dim=3, output_dim=2)
rows.backward()
record("embedding of unwanted indices", gradients[1])

# The forward pass in inference mode, the backward pass in training mode.
x = nd.array([1.0, 2, 3, 4])
x.attach_grad()
with autograd.record(train_mode=False):
    kept = nd.Dropout(x, p=0.5) * 2
kept.backward()
record("dropout in inference", kept)
record("dropout in inference/gradient", x.grad)


# A backward pass takes a variable with a null request off the tape, unless it retains the graph.
for retain in (False, True):
    x, y = variable(), variable()
    x.attach_grad("null")
    for k in range(2):
        with autograd.record():
            z = x * y
        z.backward(retain_graph=retain)
        record(f"null/{retain}/{k}/has no gradient", x.grad is None)
        record(f"null/{retain}/{k}/gradient of another", y.grad)
    with autograd.record():
        w = x * 2
    record(f"null/{retain}/alone", outcome(w.backward))
    record(f"null/{retain}/changed", outcome(lambda: x.__setitem__(slice(None), 3)))
x, y = variable(), variable()
x.attach_grad("null")
with autograd.record():
    z = x * y
record("null/grad of another", autograd.grad(z, [y])[0])
record("null/grad of another/has no gradient", x.grad is None)


# Inputs of recorded operators may be heads beside others, whether or not they are on the tape.
def heads_of(names, previous=0):
    x, w, other = variable(), variable(), mx.nd.ones((2, 3))
    x.attach_grad("null")
    constant = mx.nd.ones(w.shape) * 3
    for _ in range(previous + 1):
        with autograd.record():
            y = x * 2
            z = y * w + constant
        arrays = {"constant": constant, "w": w, "x": x, "y": y, "z": z, "other": other}
        autograd.backward([arrays[name] for name in names.split()])
    return w.grad


for names in ("constant z", "z constant", "z y", "w constant", "constant", "z other", "y"):
    for previous in (0, 1):
        record(f"heads {names}/{previous}", outcome(lambda: heads_of(names, previous)))
x = variable()
constant = mx.nd.ones(x.shape)
with autograd.record():
    z = x * constant
z.backward()
record("heads of an older graph", outcome(lambda: autograd.backward([x, constant])))
record("constants can be assigned", outcome(lambda: constant.__setitem__(slice(None), 2)))

# Head gradients are converted to the types of their heads.
for dtype in ("float16", "float32", "float64", "int32", "uint8"):
    for given in ("float16", "float32", "float64", "int32", "int64", "int8", "uint8", "bool"):
        for name, op in (("reshape", lambda x: x.reshape((-1,))), ("sum", lambda x: x.sum(axis=0)), ("twice", lambda x: x * 3)):
            if name == "twice" and given != "bool":
                continue  # MXNet fails.
            x = mx.nd.array([[1, 2], [3, 4]], dtype=dtype)
            x.attach_grad()
            with autograd.record():
                y = op(x)
            y.backward(mx.nd.array(np.resize([1.25, 0.75, 3.5, 0], y.shape), dtype=given))
            record(f"head gradient/{name}/{dtype}/{given}", x.grad)
