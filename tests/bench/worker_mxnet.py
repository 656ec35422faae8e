"""Runs workloads in MXNet 1.9.1, with the oneDNN sub-graph backend that it binds with by itself."""

import ctypes

import mxnet as mx
import numpy as np

import workloads
from protocol import serve


class Net:
    """Symbols of MXNet, as the graphs of `workloads` want them."""

    @staticmethod
    def variable(name):
        return mx.sym.Variable(name)

    @staticmethod
    def apply(op, name, inputs, **attrs):
        return getattr(mx.sym, op)(*inputs, name=name, **attrs)


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


def bind_model(model):
    return workloads.model_graph(Net, model).simple_bind(
        mx.cpu(), grad_req="write", data=workloads.model_input(model), softmax_label=(workloads.BATCH,)
    )


def training_step(model):
    bound = bind_model(model)
    parameters = []
    for name, array in bound.arg_dict.items():
        if name == "softmax_label":
            array[:] = mx.nd.array([i % 10 for i in range(workloads.BATCH)])
        elif name == "data":
            array[:] = values(array.shape)
        else:
            array[:] = values(array.shape, 0.1)
            parameters.append((array, bound.grad_dict[name], mx.nd.zeros(array.shape)))
    rate, momentum, scale = workloads.LEARNING_RATE, workloads.MOMENTUM, 1 / workloads.BATCH

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
    if workload.kind == "step":
        return training_step(args["model"])
    if workload.kind == "bind":
        return {"": lambda: bind_model(args["model"])}
    return copy(args["size"])


if __name__ == "__main__":
    serve(prepare)
