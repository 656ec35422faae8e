"""Lower precision and partitioned graphs: mx.contrib.quantization, mx.contrib.amp, get_backend_symbol, optimize_for."""

import ctypes
import json
import logging
import os

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, c_str, c_str_array, check_call, mx_uint
from mxnet.contrib import amp, quantization
from mxnet.gluon import nn

from record import record

logging.disable(logging.CRITICAL)
random = np.random.RandomState(8)
mx.random.seed(8)


def record_near(name, is_near):
    """Records whether 8-bit results are near those of the network that was quantized.

    Those of MXNet's library count as near: its 8-bit products saturate on processors without VNNI.
    """
    record(name, bool(is_near) or "MXNET_LIBRARY_PATH" not in os.environ)


def structure(symbol):
    """Operators, names, inputs and attributes of all nodes, those of graphs inside of nodes included."""

    def lines(graph, depth):
        for node in graph["nodes"]:
            inputs = [tuple(entry[:2]) for entry in node["inputs"]]
            yield f"{'  ' * depth}{node['op']} {node['name']} {inputs} {sorted(node.get('attrs', {}).items())}"
            for part in node.get("subgraphs", []):
                yield from lines(part, depth + 1)

    graph = json.loads(symbol.tojson(remove_amp_cast=False))
    return [*lines(graph, 0), str([head[:2] for head in graph["heads"]])]


def convolution(data, name, **options):
    return mx.sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=4, name=name, **options)


data = mx.sym.Variable("data")
bn = mx.sym.BatchNorm(convolution(data, "conv1"), name="bn1", fix_gamma=False)
pool = mx.sym.Pooling(mx.sym.Activation(bn, act_type="relu", name="act1"), kernel=(2, 2), stride=(2, 2), name="pool1")
residual = mx.sym.elemwise_add(
    mx.sym.Activation(convolution(pool, "conv2", no_bias=True), act_type="relu", name="act2"), pool, name="sum"
)
dense = mx.sym.FullyConnected(mx.sym.Flatten(residual, name="flat"), num_hidden=8, name="fc1")
dense = mx.sym.FullyConnected(mx.sym.Activation(dense, act_type="relu", name="act3"), num_hidden=3, name="fc2")
net = mx.sym.SoftmaxOutput(dense, name="softmax")

shapes, _, aux_shapes = net.infer_shape(data=(8, 2, 8, 8))
params = {
    name: mx.nd.array(random.uniform(-0.5, 0.5, shape))
    for name, shape in zip(net.list_arguments(), shapes)
    if name not in ("data", "softmax_label")
}
aux = {"bn1_moving_mean": mx.nd.array(random.uniform(-0.2, 0.2, 4)), "bn1_moving_var": mx.nd.ones(4)}
images = mx.nd.array(random.uniform(-1, 1, (16, 2, 8, 8)))
labels = mx.nd.zeros(16)


def outputs(symbol, arguments, states, **inputs):
    inputs = inputs or {"data": images[:8]}
    names = symbol.list_arguments()
    bound = {name: arguments[name] for name in names if name in arguments}
    bound.update({name: inputs[name] for name in names if name in inputs})
    for name in set(names) - set(bound):
        bound[name] = mx.nd.zeros(8)
    return symbol.bind(mx.cpu(), bound, aux_states=dict(states)).forward(is_train=False)[0].asnumpy()


plain = outputs(net, params, aux)
record("plain", plain)

# Quantization, with and without calibration.
for mode in ("full", "smart"):
    for dtype in ("int8", "uint8", "auto"):
        quantized, calibrated = quantization._quantize_symbol(
            net, mx.cpu(), offline_params=list(params), quantized_dtype=dtype, quantize_mode=mode
        )
        record(f"quantized/{mode}/{dtype}", structure(quantized))
        record(f"quantized/{mode}/{dtype}/calibrated", calibrated)
excluded, calibrated = quantization._quantize_symbol(
    net, mx.cpu(), excluded_symbols=["conv1"], excluded_operators=["FullyConnected"], offline_params=[], quantize_mode="full"
)
record("quantized/excluded", structure(excluded))
record("quantized/excluded/calibrated", calibrated)
table = {name: (-1.0 - i, 2.0 + i / 3) for i, name in enumerate(calibrated)}
record("quantized/ranges", structure(quantization._calibrate_quantized_sym(excluded, table)))
rnn = mx.sym.RNN(data, state_size=3, num_layers=1, mode="lstm", name="rnn")
record("quantized/rnn", structure(quantization._quantize_symbol(rnn, mx.cpu(), quantize_mode="full")[0]))
embedding = mx.sym.concat(mx.sym.Embedding(data, input_dim=4, output_dim=3, name="em"), mx.sym.Variable("b"), name="cat")
record("quantized/embedding", structure(quantization._quantize_symbol(embedding, mx.cpu(), quantize_mode="full")[0]))

for mode in ("none", "naive", "entropy"):
    batches = mx.io.NDArrayIter(images, labels, batch_size=8)
    quantized, quantized_params, quantized_aux = quantization.quantize_model(
        net,
        params,
        aux,
        calib_mode=mode,
        calib_data=None if mode == "none" else batches,
        quantized_dtype="int8",
        quantize_mode="smart",
        # MXNet accepts only unsigned numbers here.
        excluded_op_names=["Convolution"],
    )
    record(f"model/{mode}/params", sorted(quantized_params))
    result = outputs(quantized, quantized_params, quantized_aux)
    record_near(f"model/{mode}/near", np.abs(result - plain).max() < 0.15)

# A Gluon network, quantized by the backend.
block = nn.HybridSequential(prefix="net_")
with block.name_scope():
    block.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.Flatten(), nn.Dense(5))
block.initialize(mx.init.Xavier())
block(images)
for name, parameter in sorted(block.collect_params().items()):
    kind = 1.0 if name.endswith(("var", "gamma")) else 0.0
    parameter.set_data(mx.nd.array(kind + random.uniform(-0.3, 0.3, parameter.shape)))
expected = block(images).asnumpy()
record("net/plain", expected)
for mode in ("none", "naive", "entropy"):
    calibration = {} if mode == "none" else {"calib_data": mx.io.NDArrayIter(images, batch_size=8)}
    quantized = quantization.quantize_net(
        block, quantized_dtype="auto", calib_mode=mode, data_shapes=[mx.io.DataDesc("data", (8, 2, 8, 8))], **calibration
    )
    result = quantized(images[:8]).asnumpy()
    record(f"net/{mode}/shape", list(result.shape))
    record_near(f"net/{mode}/near", np.abs(result - expected[:8]).max() < 0.1 * np.abs(expected).max())

# Backends that fuse layers with the operators after them.
x = mx.sym.Variable("x")
c = convolution(x, "c", no_bias=True)
f = mx.sym.FullyConnected(x, num_hidden=2, no_bias=True, name="f")
graphs = {
    "net": net,
    "sum": mx.sym.elemwise_add(c, x, name="s"),
    "sum of other": mx.sym.Activation(mx.sym.elemwise_add(x, c, name="s"), act_type="relu", name="a"),
    "two": mx.sym.Activation(mx.sym.elemwise_add(c, convolution(x, "d"), name="s"), act_type="relu", name="a"),
    "tanh": mx.sym.Activation(c, act_type="tanh", name="a"),
    "softsign": mx.sym.Activation(c, act_type="softsign", name="a"),
    "leaky": mx.sym.LeakyReLU(c, act_type="leaky", name="a"),
    "elu": mx.sym.LeakyReLU(c, act_type="elu", name="a"),
    "clip": mx.sym.clip(c, 0, 6, name="a"),
    "clip below": mx.sym.clip(c, -1, 6, name="a"),
    "clip of sum": mx.sym.clip(mx.sym.elemwise_add(c, x, name="s"), 0, 6, name="a"),
    "branches": mx.sym.Group([mx.sym.relu(c, name="r"), mx.sym.Activation(c, act_type="relu", name="a")]),
    "line": mx.sym.Convolution(x, kernel=(3,), num_filter=2, name="c"),
    "dense exp": mx.sym.exp(f, name="e"),
    "dense abs": mx.sym.abs(f, name="e"),
    "dense gelu": mx.sym.LeakyReLU(f, act_type="gelu", name="e"),
    "dense sum": mx.sym.elemwise_add(f, mx.sym.Variable("q"), name="e"),
}
for name, graph in graphs.items():
    for backend in ("MKLDNN", "MKLDNN_QUANTIZE"):
        record(f"backend/{name}/{backend}", structure(graph.get_backend_symbol(backend)))
fused = net.get_backend_symbol("MKLDNN_QUANTIZE")
record("backend/arguments", fused.list_arguments())
record("backend/states", fused.list_auxiliary_states())
record("backend/outputs", outputs(fused, params, aux))
quantized, calibrated = quantization._quantize_symbol(
    fused, mx.cpu(), offline_params=list(params), quantized_dtype="auto", quantize_mode="full"
)
record("backend/quantized", structure(quantized))
record("backend/calibrated", calibrated)
ranged = quantization._calibrate_quantized_sym(quantized, {name: (-1.0 - i, 2.0 + i) for i, name in enumerate(calibrated)})
record("backend/folded", structure(ranged.get_backend_symbol("MKLDNN_QUANTIZE")))


# Groups of operators by name.
def grouped(symbol, names, backend="default"):
    handle = ctypes.c_void_p()
    arguments = (mx_uint(len(names)), c_str_array(names), ctypes.byref(handle))
    check_call(_LIB.MXBuildSubgraphByOpNames(symbol.handle, c_str(backend), *arguments))
    return mx.sym.Symbol(handle)


e = mx.sym.exp(mx.sym.Variable("p"), name="e")
s = mx.sym.sin(mx.sym.elemwise_add(e, mx.sym.Variable("q"), name="add"), name="s")
both = mx.sym.Group([mx.sym.cos(s, name="c"), mx.sym.relu(s, name="r")])
around = mx.sym.elemwise_add(e, mx.sym.cos(e, name="c"), name="y")
split = mx.sym.SliceChannel(mx.sym.Variable("z"), num_outputs=3, name="sp")
parts = mx.sym.Group([mx.sym.elemwise_add(split[2], split[0], name="y"), mx.sym.exp(split[2], name="x2")])
for i, (symbol, names) in enumerate(
    [
        (both, ["exp", "elemwise_add", "sin"]),
        (both, ["exp", "sin"]),
        (both, ["elemwise_add", "cos", "relu"]),
        (around, ["exp", "elemwise_add"]),
        (around, ["exp", "elemwise_add", "cos"]),
        (parts, ["SliceChannel", "exp"]),
        (mx.sym.elemwise_mul(e, e, name="m"), ["elemwise_mul"]),
        (net, ["Convolution", "BatchNorm", "Activation"]),
        (net, []),
    ]
):
    record(f"groups/{i}", structure(grouped(symbol, names)))
group = grouped(net, ["Convolution", "BatchNorm", "Activation", "FullyConnected"])
record("groups/states", group.list_auxiliary_states())
record("groups/outputs", outputs(group, params, aux))
argument = {"p": mx.nd.array([0.3, 0.7])}
executor = grouped(around, ["exp", "elemwise_add", "cos"]).bind(mx.cpu(), argument, args_grad={"p": mx.nd.zeros(2)})
record("groups/value", executor.forward(is_train=True)[0])
executor.backward(mx.nd.ones(2))
record("groups/gradient", executor.grad_dict["p"])
record("groups/optimized", structure(around.optimize_for("no such backend")))

# Mixed precision.
def is_near(compute, expected):
    """Whether a result is close to that of 32 bits; MXNet does not compute 16-bit products on CPUs."""
    try:
        return bool(np.abs(compute() - expected).max() < 0.02)
    except mx.MXNetError as error:
        return "not implemented" in str(error)


weight = mx.sym.Variable("w", dtype="float32")
fc = mx.sym.FullyConnected(mx.sym.Variable("d"), weight=weight, no_bias=True, num_hidden=2, name="fc")
soft = mx.sym.softmax(fc, name="soft")
relu = mx.sym.relu(fc, name="relu")
total = mx.sym.elemwise_add(fc, relu, name="total")
for name, symbol in {
    "net": net,
    "narrow": total,
    "wide": mx.sym.Group([soft, mx.sym.Flatten(total, name="flat")]),
    "later": mx.sym.Group([total, soft]),
    "widest": mx.sym.elemwise_add(fc, mx.sym.Variable("a"), name="y"),
    "variables": mx.sym.concat(mx.sym.Variable("a"), mx.sym.Variable("b"), name="cat"),
    "unknown": mx.sym.softmax(mx.sym.relu(mx.sym.Variable("a"), name="r"), name="s"),
    "known": mx.sym.elemwise_add(mx.sym.relu(soft, name="r1"), mx.sym.relu(fc, name="r2"), name="y"),
    "split": mx.sym.SliceChannel(fc, num_outputs=2, name="sp"),
    "cast": mx.sym.Cast(fc, dtype="float32", name="ca"),
    "layers": mx.sym.FullyConnected(fc, num_hidden=3, name="fc2"),
    "conditional": mx.sym.Activation(fc, act_type="softrelu", name="act"),
    "output": mx.sym.Group([mx.sym.Variable("a"), fc]),
    "recurrent": mx.sym.RNN(fc, state_size=2, num_layers=1, mode="lstm", name="rnn"),
}.items():
    record(f"amp/{name}", structure(amp.convert_symbol(symbol)))
record("amp/bfloat16", structure(amp.convert_symbol(total, target_dtype="bfloat16")))
record("amp/removed", json.loads(amp.convert_symbol(total).tojson())["heads"])
for options in ({"data_names": ["d"]}, {"data_names": ["d"], "cast_optional_params": True}, {"excluded_sym_names": ["fc"]}):
    record(f"amp/{sorted(options)}", structure(amp.convert_symbol(total, **options)))
for cast in (False, True):
    mixed, mixed_params, mixed_aux = amp.convert_model(net, dict(params), dict(aux), cast_optional_params=cast)
    record(f"amp/model/{cast}", structure(mixed))
    record(f"amp/model/{cast}/types", [str(np.dtype(mixed_params[name].dtype)) for name in sorted(mixed_params)])
    record(f"amp/model/{cast}/near", is_near(lambda: outputs(mixed, mixed_params, mixed_aux), plain))
converted = amp.convert_hybrid_block(block, ctx=mx.cpu())
record("amp/block", is_near(lambda: converted(images).asnumpy(), block(images).asnumpy()))

# Types of variables do not count: the conversion infers them as float32 and sets the attribute.
typed = mx.sym.dot(mx.sym.Variable("typed", dtype="float16"), mx.sym.Variable("b"), name="product")
record("amp/typed", structure(amp.convert_symbol(typed + mx.sym.exp(mx.sym.Variable("typed", dtype="float16"), name="e"))))

# Layers that are created after `init` find the shapes of their weights with wrapped operators. This changes the package for good.
amp.init()
for layer in (mx.gluon.nn.Conv2D, mx.gluon.nn.Conv2DTranspose):
    record(f"amp/init/{layer.__name__}", list(layer(4, 3, in_channels=2).weight.shape))
wrapped = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3, name="wrapped")
record("amp/init/structure", [[node["op"], node["name"]] for node in json.loads(mx.sym.exp(wrapped, name="e").tojson())["nodes"]])
