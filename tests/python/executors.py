"""Executors: devices and groups, head gradients, requests, reshape, shared memory, monitors."""

import re

import mxnet as mx
import numpy as np

from record import error_of, record

sym = mx.sym


def network(grouped=False):
    """Two layers, in separate groups if `grouped`."""

    def scope(name):
        return mx.AttrScope(ctx_group=name) if grouped else mx.AttrScope()

    with scope("first"):
        data = sym.Variable("data")
        h = sym.Activation(sym.FullyConnected(data, num_hidden=4, name="fc1"), act_type="relu", name="relu1")
    with scope("second"):
        return sym.SoftmaxOutput(sym.FullyConnected(h, num_hidden=2, name="fc2"), name="softmax")


def filled(executor, seed=0):
    values = np.random.RandomState(seed)
    for _, array in sorted(executor.arg_dict.items()):
        array[:] = values.randn(*array.shape)
    for _, array in sorted(executor.aux_dict.items()):
        array[:] = np.abs(values.randn(*array.shape))
    return executor


def keep(name, arrays):
    for key in sorted(arrays):
        if arrays[key] is None:
            record(f"{name}/{key}", "none")
        else:
            record(f"{name}/{key}", arrays[key])
            record(f"{name}/{key}/context", str(arrays[key].context))
            record(f"{name}/{key}/type", np.dtype(arrays[key].dtype).name)


def step(executor, *heads):
    executor.forward(is_train=True)
    executor.backward(list(heads))
    return executor


# Devices of arrays, graphs on several devices, and invalid combinations.
contexts = [mx.cpu(-1), mx.cpu(0), mx.cpu(3)]
record("contexts", [str(mx.nd.zeros(2, ctx=c).context) for c in contexts])
record("contexts/copies", [str(mx.nd.ones(2, ctx=c).as_in_context(mx.cpu(2)).context) for c in contexts])
record("contexts/results", [str((mx.nd.ones((4, 2), ctx=c) + 1)[1:2].context) for c in contexts])
record("contexts/mixed", (mx.nd.ones(2, ctx=mx.cpu(1)) + mx.nd.ones(2)).context.device_id)
groups = {"first": mx.cpu(1), "second": mx.cpu(2)}
requests = {n: "null" if n in ("data", "softmax_label") else "write" for n in network().list_arguments()}
executor = filled(network(True).simple_bind(mx.cpu(), grad_req=requests, group2ctx=groups, data=(3, 3)))
keep("groups/outputs", step(executor).output_dict)
keep("groups/gradients", executor.grad_dict)
record("groups/arguments", [str(a.context) for a in executor.arg_arrays])
keep("groups/reshaped", executor.reshape(data=(2, 3), softmax_label=(2,)).arg_dict)
module = mx.mod.Module(network(True), context=[mx.cpu(0), mx.cpu(3)], group2ctxs=groups)
module.bind([("data", (4, 3))], [("softmax_label", (4,))])
module.init_params(mx.init.One())
module.forward(mx.io.DataBatch([mx.nd.ones((4, 3))], [mx.nd.ones(4)]), is_train=True)
module.backward()
record("groups/module", module.get_outputs()[0])
record("groups/module/contexts", [str(o.context) for o in module.get_outputs(merge_multi_context=False)[0]])
a, b = sym.Variable("a"), sym.Variable("b")
ones = mx.nd.ones(3)
record("devices/bind", error_of(lambda: (a * b).bind(mx.cpu(1), [ones, ones])))
record("devices/gradient", error_of(lambda: (a * b).bind(mx.cpu(), [ones, ones], [mx.nd.ones(3, ctx=mx.cpu(1))] * 2)))
record("devices/group", error_of(lambda: network(True).simple_bind(mx.cpu(), group2ctx={"x": mx.cpu(1)}, data=(2, 3))))
cached = mx.nd.CachedOp(a * b)
record("devices/cached", error_of(lambda: cached(ones, mx.nd.ones(3, ctx=mx.cpu(1)))))
record("devices/gpu", error_of(lambda: mx.nd.ones(2).as_in_context(mx.gpu(0))))

# Head gradients and requests.
for dtype in ("float16", "float64", "int32", "uint8"):
    executor = filled((a * b).simple_bind(mx.cpu(), a=(3,), b=(3,)))
    keep(f"heads/{dtype}", step(executor, mx.nd.array([1, 2, 3], dtype=dtype)).grad_dict)
executor = filled((a * b).simple_bind(mx.cpu(), a=(3,), b=(3,)))
keep("heads/extra", step(executor, ones, ones * 2, ones * 3).grad_dict)
record("heads/missing", error_of(lambda: executor.backward([])))
record("heads/shape", error_of(lambda: executor.backward([mx.nd.ones((1, 3))])))
keep("heads/loss", step(filled(network().simple_bind(mx.cpu(), data=(2, 3))), mx.nd.ones((2, 2)), ones).grad_dict)
executor = (a * b).bind(mx.cpu(), [ones * 2, ones * 3], [ones * 7, ones * 8], {"a": "null", "b": "write"})
record("requests/null", [str(g is None) for g in step(executor, ones).grad_arrays])
shared = mx.nd.ones(3)
step((a * b).bind(mx.cpu(), [ones * 2, ones * 3], [shared, shared], "add"), ones)
record("requests/one array", shared)

# Reshape, and memory that executors share.
executor = filled(network().simple_bind(mx.cpu(), data=(4, 3)))
step(executor)
smaller = executor.reshape(data=(2, 3), softmax_label=(2,))
smaller.arg_dict["data"][:] = 5
smaller.arg_dict["fc1_weight"][:] = 1
keep("reshape/base", executor.arg_dict)
step(smaller)
keep("reshape/outputs", smaller.output_dict)
keep("reshape/gradients", {k: v for k, v in executor.grad_dict.items() if k.startswith("fc")})
base = (a + b).simple_bind(mx.cpu(), a=(4, 2), b=(4, 2))
base.arg_dict["a"][:] = 1
output = base.forward()[0]
base.reshape(a=(2, 2), b=(2, 2)).forward(b=mx.nd.ones((2, 2)) * 10)
record("reshape/shared output", output)
for name, shapes in {
    "larger": {"data": (8, 3), "softmax_label": (8,)},
    "not given": {"data": (8, 3), "allow_up_sizing": True},
    "other weights": {"data": (4, 2)},
    "partial": {"data": (4, 2), "partial_shaping": True},
    "same": {},
}.items():
    record(f"reshape/{name}", error_of(lambda shapes=shapes: executor.reshape(**shapes)))
for name, wrong in {"list": ["write"] * 5, "word": "replace"}.items():
    record(f"simple_bind/{name}", error_of(lambda wrong=wrong: network().simple_bind(mx.cpu(), wrong, data=(2, 3))))
executor = network().simple_bind(mx.cpu(), data=(2, 3), label_of_another_network=(2,))
record("simple_bind/other names", [list(array.shape) for array in executor.forward()])
types = {"data": "float64", "label_of_another_network": "float32"}
executor = network().simple_bind(mx.cpu(), type_dict=types, data=(2, 3))
record("simple_bind/types of other names", [array.dtype.__name__ for array in executor.forward()])
buffer = {}
first = network().simple_bind(mx.cpu(), shared_buffer=buffer, data=(4, 3))
first.arg_dict["data"][:] = 3
second = network().simple_bind(mx.cpu(), shared_buffer=buffer, data=(2, 3))
second.arg_dict["data"][:] = 8
record("buffer", first.arg_dict["data"])
record("buffer/shapes", [str((k, buffer[k].shape)) for k in sorted(buffer)])

# Monitors get MXNet's names in its order, and the values.
data = sym.Variable("data")
convolution = sym.Convolution(data, kernel=(3, 3), num_filter=2, name="conv")
image = {"data": (1, 2, 5, 5)}
pair = {"a": (3,), "b": (3,)}
monitored = {
    "layers": (network(), {"data": (2, 3)}),
    "products": ((a * b + a) * a, pair),
    "two outputs": (sym.Group([a * b, a + b]), pair),
    "batch norm": (sym.BatchNorm(convolution, name="bn"), image),
    "dropout": (sym.Dropout(a * 2, p=0.5, name="drop"), {"a": (3,)}),
    "split": (sum(sym.split(data, num_outputs=2, name="split")), {"data": (2, 4)}),
    "broadcast": (sym.broadcast_add(a, b, name="sum"), {"a": (3, 1), "b": (1, 2)}),
    "unary": (sym.exp(sym.sqrt(sym.abs(sym.sin(a)))), {"a": (3,)}),
    "reshape": (sym.transpose(sym.reshape(data, shape=(3, 2), name="rs"), name="tr"), {"data": (2, 3)}),
    "layer norm": (sym.LayerNorm(data, name="ln"), {"data": (2, 3)}),
    "scalars": (1 - (2 / (a**2 + 3) - 1) * 0.5, {"a": (3,)}),
    "repeated": (sym.square(a) * sym.square(a), {"a": (3,)}),
    "instance norm": (sym.InstanceNorm(data, name="in"), {"data": (2, 3, 2)}),
}
for name, (symbol, shapes) in monitored.items():
    for inputs_too in (False, True):
        executor = filled(symbol.simple_bind(mx.cpu(), **shapes))
        seen = []
        executor.set_monitor_callback(lambda key, _, seen=seen: seen.append(str(key)), inputs_too)
        executor.forward(is_train=True)
        record(f"monitor/{name}/{inputs_too}", seen)
        if not inputs_too:
            del seen[:]
            executor.backward([mx.nd.ones(o.shape) for o in executor.outputs])
            record(f"monitor/{name}/backward", seen)
for kind in ("forward", "sort", "pattern"):
    executor = filled(network().simple_bind(mx.cpu(), data=(2, 3)))
    options = {"sort": {"sort": True}, "pattern": {"pattern": ".*fc.*"}}.get(kind, {})
    monitor = mx.monitor.Monitor(1, **options)
    monitor.install(executor)
    monitor.tic()
    step(executor)
    for number, (_, key, value) in enumerate(monitor.toc()):
        record(f"monitor class/{kind}/{number}", key)
        record(f"monitor class/{kind}/{number}/value", float(value.split()[0]))

# Graphs that binding simplifies, and their files.
for name, symbol in {
    "twice": sym.exp(a * b) + sym.exp(a * b),
    "different": sym.exp(a * b) + sym.exp(a + b),
    "outputs": sym.Group([a * b, a * b]),
}.items():
    executor = symbol.simple_bind(mx.cpu(), a=(2,), b=(2,))
    record(f"optimized/{name}", len(executor.get_optimized_symbol().get_internals().list_outputs()))


def megabytes(symbol, **options):
    text = symbol.simple_bind(mx.cpu(), data=(10, 3, 256, 256), **options).debug_str()
    return int(re.search(r"Total (\d+) MB allocated", text).group(1))


squared = data
for _ in range(10):
    squared = squared * squared
record("memory/without gradients", megabytes(squared) > megabytes(squared, grad_req="null"))
record("memory/stopped", megabytes(squared, grad_req="null") == megabytes(sym.stop_gradient(squared)))
record("listing", sym.Activation(sym.FullyConnected(data, num_hidden=3, name="fc"), act_type="relu", name="act").debug_str())
with mx.util.np_shape(True):
    empty = sym.Variable("a", shape=(2, 0)) + 1
    record("json/mark", "is_np_shape" in empty.tojson())
    record("json/shapes", [str(s) for s in empty.infer_shape()[1]])
record("json/no mark", "is_np_shape" in (a + b).tojson())
record("loss", sym.make_loss(data, name="end").list_outputs())


# Several backward passes after one forward pass, with different head gradients.
x, w = sym.Variable("x"), sym.Variable("w")
hidden = sym.tanh(sym.FullyConnected(x, w, num_hidden=4, no_bias=True, name="hidden"))
for request in ("write", "add"):
    executor = filled(sym.sum(hidden * sym.exp(hidden), axis=1).simple_bind(mx.cpu(), grad_req=request, x=(3, 5)))
    executor.forward(is_train=True)
    for scale in (1, -2, 0.5):
        executor.backward([scale * mx.nd.ones(executor.outputs[0].shape)])
        keep(f"passes/{request}/{scale}", executor.grad_dict)
    record(f"passes/{request}/outputs", executor.outputs[0])

# The storage types of gradients of sparse arguments.
a, b = sym.Variable("a"), sym.Variable("b")
for name, result, types in (
    ("square", sym.square(a) + b, ("row_sparse", "default")),
    ("floor", sym.floor(a) + b, ("csr", "default")),
    ("constant", sym.zeros_like(a) + b, ("row_sparse", "default")),
):
    executor = result.simple_bind(mx.cpu(), stype_dict=dict(zip("ab", types)), a=(3, 3), b=(3, 3))
    record(f"gradient_storage/{name}", [executor.grad_dict[n].stype for n in "ab"])

# A backward pass after a pass for inference uses the random numbers of that pass, and leaves its outputs as they are.
for mode in ("training", "always"):
    dropout = sym.Dropout(sym.Variable("data"), p=0.5, mode=mode).simple_bind(mx.cpu(), data=(100,))
    dropout.arg_dict["data"][:] = 1
    for passes in ("T", "F", "TF", "FT"):
        for is_train in passes:
            dropout.forward(is_train=is_train == "T")
            output = dropout.outputs[0].asnumpy()
        dropout.backward([mx.nd.ones(100)])
        record(f"dropout_{mode}_after_{passes}", (dropout.grad_dict["data"].asnumpy() == output).all())
        record(f"dropout_{mode}_after_{passes}_output", (dropout.outputs[0].asnumpy() == output).all())
