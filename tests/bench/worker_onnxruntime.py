"""Runs workloads in ONNX Runtime: inference with constant weights, on the processor."""

import io
import os

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import workloads
from protocol import serve


def values(shape):
    return np.array(workloads.numbers(int(np.prod(shape))), dtype=np.float32).reshape(shape)


def session(nodes, inputs, weights, kind=TensorProto.FLOAT):
    """A session for operators on inputs of these shapes, whose weights (values, or their shapes) are part of the model, as a
    function that runs it."""
    arrays = {name: w if isinstance(w, np.ndarray) else values(w) for name, w in weights.items()}
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("output", kind, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return run_model(model.SerializeToString(), inputs)


def run_model(model, inputs):
    """A function that runs a serialized model on inputs of these shapes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    running = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = running.io_binding()
    for name, shape in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(values(shape)))
    binding.bind_output("output")
    return {"": lambda: running.run_with_iobinding(binding)}


def gemm(n):
    node = helper.make_node("MatMul", ["data", "weight"], ["output"])
    return session([node], {"data": (n, n)}, {"weight": (n, n)})


def layer(args):
    data, filters = args["data"], args["filters"]
    if args["op"] == "FullyConnected":
        node = helper.make_node("Gemm", ["data", "weight", "bias"], ["output"], transB=1)
        return session([node], {"data": data}, {"weight": (filters, data[1]), "bias": (filters,)})
    k, groups = args["kernel"], args.get("groups", 1)
    node = helper.make_node(
        "Conv",
        ["data", "weight", "bias"],
        ["output"],
        kernel_shape=[k, k],
        strides=[args["stride"]] * 2,
        pads=[k // 2] * 4,
        group=groups,
    )
    return session([node], {"data": data}, {"weight": (filters, data[1] // groups, k, k), "bias": (filters,)})


def operator(args):
    """The operators of the same meaning, for those without a backward pass."""
    inputs, attrs = args["inputs"], args["attrs"]
    data = next(iter(inputs.values()))
    nodes, weights = {
        "broadcast_add": lambda: ([("Add", ["lhs", "rhs"], {})], {}),
        "sum": lambda: ([("ReduceSum", ["data", "axes"], dict(keepdims=0))], {"axes": np.array([attrs["axis"]])}),
        "softmax": lambda: ([("Softmax", ["data"], {})], {}),
        "transpose": lambda: ([("Transpose", ["data"], {})], {}),
        "LayerNorm": lambda: ([("LayerNormalization", ["data", "gamma", "beta"], {})], dict(gamma=data[-1:], beta=data[-1:])),
        "topk": lambda: ([("TopK", ["data", "k"], {})], {"k": np.array([attrs.get("k")])}),
        "sort": lambda: ([("TopK", ["data", "k"], {})], {"k": np.array([data[0]])}),
        "argsort": lambda: ([("TopK", ["data", "k"], {})], {"k": np.array([data[0]])}),
        "RNN": lambda: lstm(data, attrs["state_size"]),
    }[args["op"]]()
    indices = args["op"] == "argsort"
    kind = TensorProto.INT64 if indices else TensorProto.FLOAT
    outputs = ["values", "output"] if indices else ["output", "indices"] if nodes[0][0] == "TopK" else ["output"]
    nodes = [helper.make_node(op, names, outputs, **options) for op, names, options in nodes]
    return session(nodes, inputs, weights, kind)


def lstm(data, size):
    weights = dict(W=(1, 4 * size, data[2]), R=(1, 4 * size, size), B=(1, 8 * size))
    return [("LSTM", ["data", *weights], dict(hidden_size=size))], weights


def chain(size):
    nodes = [
        helper.make_node("Mul", ["a", "b"], ["product"]),
        helper.make_node("Add", ["product", "c"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["tanh"]),
        helper.make_node("Neg", ["d"], ["minus"]),
        helper.make_node("Exp", ["minus"], ["decay"]),
        helper.make_node("Mul", ["tanh", "decay"], ["output"]),
    ]
    return session(nodes, {name: (size,) for name in workloads.CHAIN_INPUTS}, {})


def network(args):
    """The exported PyTorch network, or nothing if PyTorch is not installed."""
    try:
        import torch
        import torch_networks
    except ImportError:
        return {}
    shape, file = workloads.network_shapes(args)["data"], io.BytesIO()
    torch.onnx.export(
        torch_networks.classifier(args["model"]).eval(), (torch.zeros(shape),), file,
        dynamo=False, input_names=["data"], output_names=["output"], opset_version=17,
    )  # fmt: skip
    return run_model(file.getvalue(), {"data": shape})


def prepare(workload):
    args = workload.args
    if workload.kind == "inference":
        return network(args)
    if workload.kind == "gemm":
        return gemm(args["n"])
    if workload.kind == "chain":
        return chain(args["size"])
    if workload.kind == "operator" and not args["backward"]:
        return operator(args)
    if workload.kind == "layer" and not args["backward"]:
        return layer(args)
    return {}  # ONNX Runtime does not train, and its sessions are created from files


if __name__ == "__main__":
    serve(prepare)
