"""Runs workloads in PyTorch, eager, on the processor."""

import os
import shutil

import numpy as np
import torch

import workloads
from protocol import serve


def values(shape, scale=1.0):
    return torch.from_numpy(np.array(workloads.numbers(int(np.prod(shape))))).reshape(shape) * scale


def inference(function):
    def step():
        with torch.inference_mode():
            function()

    return step


def gemm(n):
    left, right, out = (values((n, n)) for _ in range(3))
    linear = torch.nn.functional.linear
    return {
        "mm": inference(lambda: torch.mm(left, right, out=out)),
        "linear": inference(lambda: linear(left, right)),
    }


def make_layer(args):
    if args["op"] == "FullyConnected":
        return torch.nn.Linear(args["data"][1], args["filters"])
    k = args["kernel"]
    channels, sizes = args["data"][1], dict(stride=args["stride"], padding=k // 2)
    return torch.nn.Conv2d(channels, args["filters"], k, groups=args["groups"], **sizes)


def layer_step(args, memory_format):
    module = make_layer(args)
    data = values(args["data"])
    if memory_format is not None:
        module, data = module.to(memory_format=memory_format), data.contiguous(memory_format=memory_format)
    if not args["backward"]:
        return inference(lambda: module(data))
    data.requires_grad_()
    head = torch.empty_like(module(data)).copy_(values(module(data).shape))

    def step():
        data.grad = None
        module.zero_grad()
        module(data).backward(head)

    return step


def layer(args):
    steps = {"": layer_step(args, None)}
    if args["op"] == "Convolution":
        steps["channels_last"] = layer_step(args, torch.channels_last)
    return steps


def operator(args):
    """The function of the same meaning."""
    inputs = [values(shape) for shape in args["inputs"].values()]
    function = FUNCTIONS[args["op"]](args, *inputs)
    if not args["backward"]:
        return {"": inference(lambda: function(*inputs))}
    data = inputs[0].requires_grad_()
    head = torch.empty_like(function(data)).copy_(values(function(data).shape))

    def step():
        data.grad = None
        function(data).backward(head)

    return {"": step}


def lstm(args, data):
    size = args["attrs"]["state_size"]
    module = torch.nn.LSTM(data.shape[2], size)
    return lambda data: module(data)[0]


functional = torch.nn.functional
# From an operator's arguments and inputs to a function of the inputs.
FUNCTIONS = {
    "broadcast_add": lambda args, *_: torch.add,
    "sum": lambda args, *_: lambda data: data.sum(args["attrs"]["axis"]),
    "softmax": lambda args, *_: lambda data: functional.softmax(data, -1),
    "transpose": lambda args, *_: lambda data: data.t().contiguous(),
    "BatchNorm": lambda args, data: torch.nn.BatchNorm2d(data.shape[1]),
    "Pooling": lambda args, *_: lambda data: functional.max_pool2d(data, 2),
    "LayerNorm": lambda args, data: torch.nn.LayerNorm(data.shape[-1]),
    "topk": lambda args, *_: lambda data: torch.topk(data, args["attrs"]["k"]).values,
    "sort": lambda args, *_: lambda data: torch.sort(data).values,
    "argsort": lambda args, *_: torch.argsort,
    "RNN": lstm,
}


def chain(size):
    """Eager, and compiled, which needs a C++ compiler."""
    inputs = [values((size,)) for _ in workloads.CHAIN_INPUTS]

    def run(a, b, c, d):
        return torch.tanh(a * b + c) * torch.exp(-d)

    variants = {"eager": inference(lambda: run(*inputs))}
    if shutil.which("g++"):
        compiled = torch.compile(run)
        variants["compiled"] = inference(lambda: compiled(*inputs))
    return variants


def model_modules(model):
    if model == "lenet":
        features = 50 * 2 * 2
        for channels, filters in ((1, 20), (20, 50)):
            yield torch.nn.Conv2d(channels, filters, 3, padding=1)
            yield torch.nn.ReLU()
            yield torch.nn.MaxPool2d(2)
        yield torch.nn.Flatten()
    else:
        features = 64
    for units in workloads.hidden_units(model):
        yield torch.nn.Linear(features, units)
        yield torch.nn.ReLU()
        features = units
    yield torch.nn.Linear(features, 10)


def training_step(model, **options):
    module = torch.nn.Sequential(*model_modules(model))
    data, label = values(workloads.model_input(model)), torch.arange(workloads.BATCH) % 10
    sgd = torch.optim.SGD(module.parameters(), lr=workloads.LEARNING_RATE, momentum=workloads.MOMENTUM, **options)
    loss = torch.nn.CrossEntropyLoss()

    def step():
        sgd.zero_grad()
        loss(module(data), label).backward()
        sgd.step()

    return step


def copy(size):
    array, buffer = values((size,)), np.empty(size, dtype=np.float32)
    return {"": lambda: np.copyto(buffer, array.numpy())}


def prepare(workload):
    args = workload.args
    if workload.kind == "gemm":
        return gemm(args["n"])
    if workload.kind == "layer":
        return layer(args)
    if workload.kind == "operator":
        return operator(args)
    if workload.kind == "chain":
        return chain(args["size"])
    if workload.kind == "step":
        return {"foreach": training_step(args["model"], foreach=True), "fused": training_step(args["model"], fused=True)}
    if workload.kind == "copy":
        return copy(args["size"])
    return {}  # an eager framework binds nothing


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve(prepare)
