"""Runs workloads in MXNet 1.9.1, with its default oneDNN subgraph backend."""

import ctypes

import mxnet as mx
import numpy as np

import networks
import workloads
from protocol import serve


class Net:
    """The `net` of `workloads` for MXNet's symbols."""

    @staticmethod
    def variable(name):
        return mx.sym.Variable(name)

    @staticmethod
    def apply(op, name, inputs, **attrs):
        function = getattr(mx.sym, op, None) or getattr(mx.sym._internal, op)
        return function(*inputs, name=name, **attrs)


def values(shape, scale=1.0):
    return mx.nd.array(np.array(workloads.numbers(int(np.prod(shape)))).reshape(shape) * np.float32(scale))


def fill(bound):
    for array in bound.arg_arrays:
        array[:] = values(array.shape)


def gemm(n):
    graph = Net.apply("FullyConnected", "layer", [Net.variable("data")], num_hidden=n, no_bias=True)
    bound = graph.simple_bind(mx.cpu(), grad_req="null", data=(n, n))
    fill(bound)
    left, right, out = (values((n, n)) for _ in range(3))

    def layer():
        bound.forward(is_train=False)
        bound.outputs[0].wait_to_read()

    def dot():
        mx.nd.dot(left, right, out=out)
        out.wait_to_read()

    return {"FullyConnected": layer, "dot": dot}


def layer(args):
    return bound_step(workloads.layer_graph(Net, args), {"data": args["data"]}, args["backward"])


def bound_step(graph, shapes, training):
    bound = graph.simple_bind(mx.cpu(), grad_req="write" if training else "null", **shapes)
    fill(bound)
    if training:
        head = values(bound.outputs[0].shape)

        def step():
            bound.forward(is_train=True)
            bound.backward([head])
            mx.nd.waitall()

        return {"": step}

    def forward():
        bound.forward(is_train=False)
        bound.outputs[0].wait_to_read()

    return {"": forward}


def chain(size):
    shapes = {name: (size,) for name in workloads.CHAIN_INPUTS}
    bound = workloads.chain_graph(Net).simple_bind(mx.cpu(), grad_req="null", **shapes)
    fill(bound)

    def forward():
        bound.forward(is_train=False)
        bound.outputs[0].wait_to_read()

    return {"": forward}


def bind_network(args, training):
    """The network bound to small numbers, its states to ones."""
    graph, shapes = networks.classifier(Net, args["model"]), workloads.network_shapes(args)
    requests = {name: "write" for name in graph.list_arguments() if training and name not in shapes}
    bound = graph.simple_bind(mx.cpu(), grad_req=requests or "null", **shapes)
    for name, array in bound.arg_dict.items():
        array[:] = values(array.shape, 1.0 if name == "data" else 0.1)
    for state in bound.aux_arrays:
        state[:] = 1
    bound.arg_dict["softmax_label"][:] = mx.nd.array(workloads.labels(args))
    return bound


def inference(args):
    bound = bind_network(args, False)

    def forward():
        bound.forward(is_train=False)
        bound.outputs[0].wait_to_read()

    return {"": forward}


def training_step(args):
    bound = bind_network(args, True)
    parameters = [
        (bound.arg_dict[name], gradient, mx.nd.zeros(gradient.shape))
        for name, gradient in bound.grad_dict.items()
        if gradient is not None
    ]
    rate, momentum, scale = workloads.LEARNING_RATE, workloads.MOMENTUM, 1 / args["batch"]

    def step():
        bound.forward(is_train=True)
        bound.backward()
        for weight, gradient, state in parameters:
            mx.nd.sgd_mom_update(weight, gradient, state, lr=rate, momentum=momentum, rescale_grad=scale, out=weight)
        mx.nd.waitall()

    return {"": step}


def copy(size):
    array, buffer = values((size,)), np.empty(size, dtype=np.float32)
    address = buffer.ctypes.data_as(ctypes.c_void_p)
    return {"": lambda: mx.base._LIB.MXNDArraySyncCopyToCPU(array.handle, address, ctypes.c_size_t(size))}


def prepare(workload):
    args = workload.args
    if workload.kind == "gemm":
        return gemm(args["n"])
    if workload.kind == "layer":
        return layer(args)
    if workload.kind == "operator":
        return bound_step(workloads.operator_graph(Net, args), args["inputs"], args["backward"])
    if workload.kind == "chain":
        return chain(args["size"])
    if workload.kind == "inference":
        return inference(args)
    if workload.kind == "step":
        return training_step(args)
    if workload.kind == "bind":
        graph, shapes = networks.classifier(Net, args["model"]), workloads.network_shapes(args)
        return {"": lambda: graph.simple_bind(mx.cpu(), grad_req="write", **shapes)}
    return copy(args["size"])


if __name__ == "__main__":
    serve(prepare)
