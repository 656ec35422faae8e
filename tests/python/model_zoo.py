"""Networks of Gluon's model zoo with random weights in double precision: eager, hybridized, with gradients, exported and loaded.

In single precision, gradients of the first layers differ between any two implementations by percents, because batch normalization of a
few pixels amplifies rounding; in double precision, they agree to 10 digits. Networks named in the environment variable GLUONCV, such as
"resnest14 dla34", come from the package gluoncv, which the check does not install."""

import os
import tempfile
import zlib

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon.model_zoo import vision

from record import record

# The smallest network of each kind, and the smallest image that it takes.
NETWORKS = {
    "resnet18_v1": 64,
    "resnet18_v2": 64,
    "vgg11_bn": 32,
    "alexnet": 80,
    "densenet121": 224,
    "squeezenet1.1": 224,
    "inceptionv3": 299,
    "mobilenet0.25": 64,
    "mobilenetv2_0.25": 64,
}


def fill(parameters):
    """Gives each parameter random values that depend on its shape only."""
    for name, parameter in parameters.items():
        shape = parameter.shape
        random = np.random.RandomState(zlib.crc32(str(shape).encode()))
        if name.endswith(("gamma", "var")):
            values = random.uniform(0.8, 1.2, shape)
        elif name.endswith("weight"):
            values = random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        else:
            values = random.uniform(-0.1, 0.1, shape)
        parameter.set_data(mx.nd.array(values, dtype="float64"))


def flat(outputs):
    """The arrays of nested lists and tuples."""
    return [outputs] if isinstance(outputs, mx.nd.NDArray) else [array for part in outputs for array in flat(part)]


def reloaded(network, x):
    """The network after it was exported and loaded, without its Python code."""
    with tempfile.TemporaryDirectory() as folder:
        network.export(os.path.join(folder, "network"))
        files = [os.path.join(folder, name) for name in ("network-symbol.json", "network-0000.params")]
        return gluon.SymbolBlock.imports(files[0], ["data"], files[1])(x)


def gradients(network, x):
    """The sums of the gradients' absolute values, relative to the largest."""
    with autograd.record():
        loss = sum((output * output).mean() for output in flat(network(x)))
    loss.backward()
    sums = [p.grad().abs().sum().asscalar() for p in network.collect_params().values() if p.grad_req != "null"]
    return np.array(sums) / max(sums)


def run(name, network, size):
    network.initialize()
    x = mx.nd.array(np.random.RandomState(1).uniform(-1, 1, (1 if size > 200 else 2, 3, size, size)))
    network(x)
    network.cast("float64")
    fill(network.collect_params())
    x = x.astype("float64")
    results = {"eager": network(x)}
    network.hybridize()
    results["hybridized"] = network(x)
    results["reloaded"] = reloaded(network, x)
    for way, outputs in results.items():
        for k, output in enumerate(flat(outputs)):
            record(f"{name}/{way}/{k}", output)
    for layer in dropouts(network):
        layer._rate = 0
    network.hybridize()  # compiles again without dropout
    record(f"{name}/gradients", gradients(network, x))


def dropouts(block):
    """The dropout layers of a network: their random masks differ from MXNet's."""
    children = [layer for child in block._children.values() for layer in dropouts(child)]
    return children + ([block] if isinstance(block, gluon.nn.Dropout) else [])


for name, size in NETWORKS.items():
    run(name, vision.get_model(name, classes=10), size)
for name in os.environ.get("GLUONCV", "").split():
    from gluoncv.model_zoo import get_model

    try:
        network = get_model(name, pretrained=False, pretrained_base=False)
    except TypeError:  # a classifier, without a base network
        network = get_model(name, pretrained=False)
    run(name, network, 128)
