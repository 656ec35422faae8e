"""The workloads. As in `networks`, graphs are written once for any `net` with `variable(name)` and `apply(op, name, inputs, **attrs)`."""

from array import array
from collections import namedtuple

from networks import NETWORKS

# `kind` selects what a worker does: `gemm`, `layer` (forward, or forward and backward, of one operator), `chain` (elementwise
# operators in a bound graph), `operator` (one operator with the given inputs and parameters), `inference` of a network, `step` (forward,
# backward and an SGD update with momentum of every parameter of a network), `bind` or `copy`. `goal` is the ratio to the best peer.
Workload = namedtuple("Workload", "name kind args goal")

LEARNING_RATE = 0.05
MOMENTUM = 0.9


def convolution(data, filters, kernel, stride=1, groups=1, backward=False):
    return dict(
        op="Convolution", data=data, filters=filters, kernel=kernel, stride=stride, groups=groups, backward=backward
    )


def depthwise(data, kernel, backward=False):
    return convolution(data, data[1], kernel, groups=data[1], backward=backward)


def dense(data, units, backward=False):
    return dict(op="FullyConnected", data=data, filters=units, backward=backward)


def both(name, layer, arguments, goals):
    forward = Workload(name + ", forward", "layer", layer(*arguments), goals[0])
    return [forward, Workload(name + ", forward and backward", "layer", layer(*arguments, backward=True), goals[1])]


def operator(op, inputs, backward=False, **attrs):
    return dict(op=op, inputs=inputs, attrs=attrs, backward=backward)


MILLION = {"data": (1_000_000,)}
IMAGES = {"data": (32, 64, 56, 56)}
WORDS = {"data": (512, 768)}
# Steps, samples, features (which are also the number of hidden units).
SEQUENCE = {"data": (32, 64, 256)}
LSTM = dict(mode="lstm", state_size=256, num_layers=1)
ROWS = {"data": (4096, 1024)}

OPERATORS = [
    ("broadcast_add (1024,1024) + (1,1024)", operator("broadcast_add", {"lhs": (1024, 1024), "rhs": (1, 1024)}), 1.0),
    ("sum (4096,1024), axis 0", operator("sum", ROWS, axis=0), 1.3),
    ("sum (4096,1024), axis 1", operator("sum", ROWS, axis=1), 1.0),
    ("softmax (4096,1000)", operator("softmax", {"data": (4096, 1000)}), 1.0),
    ("transpose (1024,1024)", operator("transpose", {"data": (1024, 1024)}), 1.0),
    ("BatchNorm (32,64,56,56), forward and backward", operator("BatchNorm", IMAGES, True, fix_gamma=False), 1.5),
    (
        "Max pooling 2x2 (32,64,56,56), forward and backward",
        operator("Pooling", IMAGES, True, kernel=(2, 2), stride=(2, 2), pool_type="max"),
        2.0,
    ),
    ("LayerNorm (512,768)", operator("LayerNorm", WORDS), 1.0),
    ("Dropout (1024,1024), forward and backward", operator("Dropout", {"data": (1024, 1024)}, True, p=0.5), 3.0),
    ("100 largest of 1M", operator("topk", MILLION, k=100, ret_typ="value"), 1.0),
    ("sort 1M", operator("sort", MILLION), 8.0),
    ("argsort 1M", operator("argsort", MILLION), 8.0),
    ("LSTM (32,64,256), forward", operator("RNN", SEQUENCE, **LSTM), 1.0),
    ("LSTM (32,64,256), forward and backward", operator("RNN", SEQUENCE, True, **LSTM), 1.1),
]



def step(title, model, batch, goal):
    return Workload(f"{title} training step", "step", dict(model=model, batch=batch), goal)


def inference(title, model, batch, goal):
    return Workload(f"{title} inference", "inference", dict(model=model, batch=batch), goal)


WORKLOADS = [
    *(Workload(f"GEMM {n}", "gemm", dict(n=n), 1.0) for n in (256, 1024, 2048)),
    *both("FullyConnected 128x1024 -> 1024", dense, ((128, 1024), 1024), (1.0, 1.05)),
    *both("Convolution 3x3 (32,64,56,56) -> 64", convolution, ((32, 64, 56, 56), 64, 3), (1.4, 1.2)),
    *both("Convolution 3x3 (32,256,14,14) -> 256", convolution, ((32, 256, 14, 14), 256, 3), (1.6, 1.2)),
    *both("Convolution 1x1 (32,64,56,56) -> 256", convolution, ((32, 64, 56, 56), 256, 1), (1.1, 1.0)),
    Workload("Convolution 7x7/2 (1,3,224,224) -> 64, forward", "layer", convolution((1, 3, 224, 224), 64, 7, 2), 1.0),
    *both("Depthwise convolution 3x3 (8,128,56,56)", depthwise, ((8, 128, 56, 56), 3), (1.0, 1.0)),
    Workload("tanh(a*b+c)*exp(-d), 4M elements", "chain", dict(size=4 << 20), 2.0),
    *(Workload(name, "operator", args, goal) for name, args, goal in OPERATORS),
    step("LeNet", "lenet", 32, 2.0),
    step("MLP 64-128-64-10", "mlp", 32, 2.0),
    Workload("LeNet simple_bind for training", "bind", dict(model="lenet", batch=32), 1.0),
    Workload("Copy 1M floats to the caller", "copy", dict(size=1_000_000), 1.0),
    inference("ResNet-50, batch 1,", "resnet50", 1, 1.15),
    inference("ResNet-50, batch 16,", "resnet50", 16, 1.15),
    inference("MobileNet, batch 1,", "mobilenet", 1, 1.0),
    inference("BERT, 4 layers, 128 words,", "bert", 1, 1.1),
    step("ResNet-50, batch 8,", "resnet50", 8, 1.15),
    step("MobileNet, batch 8,", "mobilenet", 8, 1.15),
    step("LSTM, 2 layers, 32 steps, batch 64,", "lstm", 64, 1.15),
    step("BERT, 4 layers, 128 words, batch 2,", "bert", 2, 1.15),
]

# Each of these runs in its own process, so that its peak memory is known.
NETWORK_KINDS = ("inference", "step")


def layer_graph(net, args):
    """One operator on `data`, with its parameters as variables."""
    return net.apply(args["op"], "layer", [net.variable("data")], **layer_attrs(args))


def layer_attrs(args):
    if args["op"] == "FullyConnected":
        return dict(num_hidden=args["filters"])
    k = args["kernel"]
    sizes = dict(kernel=(k, k), stride=(args["stride"],) * 2, pad=(k // 2,) * 2)
    return dict(num_filter=args["filters"], num_group=args["groups"], **sizes)


def operator_graph(net, args):
    """The operator on variables named as its inputs; missing parameters become variables too."""
    return net.apply(args["op"], "operator", [net.variable(name) for name in args["inputs"]], **args["attrs"])


CHAIN_INPUTS = ("a", "b", "c", "d")


def chain_graph(net):
    """tanh(a * b + c) * exp(-d)."""
    a, b, c, d = map(net.variable, CHAIN_INPUTS)
    total = net.apply("elemwise_add", "sum", [net.apply("elemwise_mul", "product", [a, b]), c])
    decay = net.apply("exp", "decay", [net.apply("negative", "minus", [d])])
    return net.apply("elemwise_mul", "result", [net.apply("tanh", "tanh", [total]), decay])


def network_shapes(args):
    """The inputs of a network for one call."""
    network = NETWORKS[args["model"]]
    return {"data": network.input_shape(args["batch"]), "softmax_label": (args["batch"],)}


def labels(args):
    """The class of each sample."""
    return array("f", (i % NETWORKS[args["model"]].classes for i in range(args["batch"])))


def numbers(count):
    """32-bit floats between -0.5 and 0.5, the same in all libraries."""
    period = array("f", ((i * 7919 % 1009) / 1009 - 0.5 for i in range(1009)))
    return (period * (count // len(period) + 1))[:count]
