"""Computes the expected values of the cases in `cases.py`: `generate.py [FAMILY ...]`.

ONNX Runtime computes them, or the reference implementation of ONNX where the case asks for it or there is no kernel for the type. (The
reference implementation takes old versions of some operators for new ones and differs from the specification in LRN; ONNX Runtime differs
from it in Resize with a region of interest.) Each family becomes a file
`data/FAMILY.jsonl` with a case a line: name, model (hexadecimal), inputs, outputs. Needs the packages of `requirements.txt`.
"""

import json
import pathlib
import sys

import numpy as np
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

import cases

HERE = pathlib.Path(__file__).parent


def plain(array):
    array = np.asarray(array)
    if array.dtype.kind == "f":
        # Nine digits determine a single-precision number uniquely.
        values = [v if np.isfinite(v) else str(v) for v in (float(f"{x:.9g}") for x in array.ravel())]
    else:
        values = array.ravel().tolist()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": values}


def value_info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def compute(model, given, reference):
    if reference:
        return ReferenceEvaluator(model).run(None, given)
    options = onnxruntime.SessionOptions()
    # At the extended levels, products with quantized weights also quantize the data.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, given)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return ReferenceEvaluator(model).run(None, given)


def record(case):
    given = {name: np.asarray(array) for name, array in case.inputs.items()}
    outputs = [helper.make_empty_tensor_value_info(name) for name in case.outputs]
    constants = [helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.tobytes(), raw=True) for n, a in case.constants.items()]
    graph = helper.make_graph(case.nodes, case.name, [value_info(n, a) for n, a in given.items()], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    results = compute(model, given, case.reference)
    for info, result in zip(graph.output, results):
        info.CopyFrom(value_info(info.name, np.asarray(result)))
    return {
        "name": case.name,
        "model": model.SerializeToString().hex(),
        "inputs": [plain(a) for a in given.values()],
        "outputs": [plain(r) for r in results],
    }


def main():
    wanted = sys.argv[1:] or sorted(cases.FAMILIES)
    (HERE / "data").mkdir(exist_ok=True)
    for family in wanted:
        lines = [json.dumps(record(case), separators=(",", ":")) for case in cases.FAMILIES[family]()]
        (HERE / "data" / f"{family}.jsonl").write_text("\n".join(lines) + "\n")
        print(f"{family}: {len(lines)} cases")


if __name__ == "__main__":
    main()
