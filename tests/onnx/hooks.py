"""Makes hooks.onnx, a model with operators that only hooks of a program map: OnnxHooksSuite imports it.

    python3 tests/onnx/hooks.py jvm/src/test/resources/hooks.onnx      # needs onnx
"""

import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOATS = onnx.TensorProto.FLOAT


def main(path):
    nodes = [
        helper.make_node("TestScale", ["x"], ["scaled"], name="scale", domain="org.example", factor=2.5),
        # Of an older operator set: the limits are attributes.
        helper.make_node("Clip", ["scaled"], ["clipped"], name="clip", min=-4.0, max=4.0),
        helper.make_node("Squash", ["clipped", "bias"], ["squashed"], name="squash", domain="org.example", power=2),
        # A parameter without dimensions.
        helper.make_node("Mul", ["squashed", "gain"], ["raised"], name="raise"),
        helper.make_node("Relu", ["raised"], ["y"], name="relu"),
    ]
    bias = numpy_helper.from_array(np.array([0.5, -0.5, 1.0], np.float32), "bias")
    graph = helper.make_graph(
        nodes,
        "hooks",
        [helper.make_tensor_value_info("x", FLOATS, ["batch", 3])],
        [helper.make_tensor_value_info("y", FLOATS, ["batch", 3])],
        [bias, numpy_helper.from_array(np.float32(1), "gain")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("org.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


main(sys.argv[1])
