"""Runs workloads in PyTorch, eager, on the processor."""

import os
import shutil

import numpy as np
import torch

import torch_networks
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
    "Dropout": lambda args, *_: lambda data: functional.dropout(data, args["attrs"]["p"], True),
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


def training_step(args, channels_last=False, **options):
    module, shapes = torch_networks.classifier(args["model"]), workloads.network_shapes(args)
    data, label = values(shapes["data"]), torch.tensor(workloads.labels(args)).long()
    if channels_last:
        module, data = module.to(memory_format=torch.channels_last), data.contiguous(memory_format=torch.channels_last)
    sgd = torch.optim.SGD(module.parameters(), lr=workloads.LEARNING_RATE, momentum=workloads.MOMENTUM, **options)
    loss = torch.nn.CrossEntropyLoss()

    def step():
        sgd.zero_grad()
        loss(module(data), label).backward()
        sgd.step()

    return step


def training_steps(args):
    steps = {"foreach": training_step(args, foreach=True), "fused": training_step(args, fused=True)}
    if has_images(args):
        steps["channels_last"] = training_step(args, channels_last=True, fused=True)
    return steps


def has_images(args):
    return len(workloads.network_shapes(args)["data"]) == 4


def network_inference(args):
    module, data = torch_networks.classifier(args["model"]).eval(), values(workloads.network_shapes(args)["data"])
    steps = {"": inference(lambda: module(data))}
    if has_images(args):
        last = torch_networks.classifier(args["model"]).eval().to(memory_format=torch.channels_last)
        images = data.contiguous(memory_format=torch.channels_last)
        steps["channels_last"] = inference(lambda: last(images))
    return steps


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
    if workload.kind == "inference":
        return network_inference(args)
    if workload.kind == "step":
        return training_steps(args)
    if workload.kind == "copy":
        return copy(args["size"])
    return {}  # an eager framework binds nothing


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve(prepare)
