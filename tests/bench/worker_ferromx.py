"""Runs workloads in FerroMX, through its C API. The library's path is the argument."""

import ctypes
import sys
from array import array

import networks
import workloads
from ferromx import Executor, Library
from protocol import serve


def gemm(library, n):
    """The product of two matrices as a layer without bias: the executor keeps the constant one prepacked."""
    graph = library.apply("FullyConnected", "layer", [library.variable("data")], num_hidden=n, no_bias=True)
    bound = Executor(library, graph, {"data": (n, n)}, training=False)
    bound.fill(workloads.numbers)
    left, right, out = (library.array((n, n), workloads.numbers(n * n)) for _ in range(3))
    return {
        "FullyConnected": lambda: bound.forward(False),
        "dot": library.invoke("dot", [left, right], out, {}),
    }


def layer(library, args):
    return bound_step(library, workloads.layer_graph(library, args), {"data": args["data"]}, args["backward"])


def bound_step(library, graph, shapes, training):
    bound = Executor(library, graph, shapes, training)
    bound.fill(workloads.numbers)
    if not training:
        return {"": lambda: bound.forward(False)}
    bound.forward(True)
    output = bound.outputs()[0]
    head = library.array(bound.shape(output), workloads.numbers(bound.size(output)))

    def step():
        bound.forward(True)
        bound.backward([head])

    return {"": step}


def chain(library, size):
    shapes = {name: (size,) for name in workloads.CHAIN_INPUTS}
    bound = Executor(library, workloads.chain_graph(library), shapes, training=False)
    bound.fill(workloads.numbers)
    return {"": lambda: bound.forward(False)}


def bind_network(library, args, training):
    """The network bound to small numbers, its states to ones."""
    shapes = workloads.network_shapes(args)
    bound = Executor(library, networks.classifier(library, args["model"]), shapes, training, fixed=shapes)
    for name, argument in bound.args.items():
        scale = 1 if name == "data" else 10
        library.write(argument, array("f", (v / scale for v in workloads.numbers(bound.size(argument)))))
    for state in bound.aux.values():
        library.write(state, array("f", [1.0]) * bound.size(state))
    library.write(bound.args["softmax_label"], workloads.labels(args))
    return bound


def inference(library, args):
    bound = bind_network(library, args, False)
    return {"": lambda: bound.forward(False)}


def training_step(library, args):
    bound = bind_network(library, args, True)
    attrs = dict(lr=workloads.LEARNING_RATE, momentum=workloads.MOMENTUM, rescale_grad=1 / args["batch"])
    updates = []
    for name, gradient in bound.grads.items():
        weight = bound.args[name]
        momentum = library.array(bound.shape(weight), array("f", bytes(4 * bound.size(weight))))
        updates.append(library.invoke("sgd_mom_update", [weight, gradient, momentum], weight, attrs))

    def step():
        bound.forward(True)
        bound.backward()
        for update in updates:
            update()

    return {"": step}


def copy(library, size):
    source, buffer = library.array((size,), workloads.numbers(size)), (ctypes.c_float * size)()
    return {"": lambda: library.MXNDArraySyncCopyToCPU(source, buffer, ctypes.c_size_t(size))}


def prepare(library, workload):
    args = workload.args
    if workload.kind == "gemm":
        return gemm(library, args["n"])
    if workload.kind == "layer":
        return layer(library, args)
    if workload.kind == "operator":
        return bound_step(library, workloads.operator_graph(library, args), args["inputs"], args["backward"])
    if workload.kind == "chain":
        return chain(library, args["size"])
    if workload.kind == "inference":
        return inference(library, args)
    if workload.kind == "step":
        return training_step(library, args)
    if workload.kind == "bind":
        graph, shapes = networks.classifier(library, args["model"]), workloads.network_shapes(args)
        return {"": lambda: Executor(library, graph, shapes, True).free()}
    return copy(library, args["size"])


if __name__ == "__main__":
    loaded = Library(sys.argv[1])
    serve(lambda workload: prepare(loaded, workload))
