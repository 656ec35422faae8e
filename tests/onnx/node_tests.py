"""Runs the node tests of the package onnx in FerroMX, and the models that FerroMX exports again in ONNX Runtime.

    python3 tests/onnx/node_tests.py DIR [PATTERN]      # writes the cases to DIR and runs `target/debug/ferromx onnx run --export`

Cases whose inputs or outputs are not tensors (sequences, optionals, strings) are left out. A line describes each case that fails; the last
lines are totals. Results are compared with the expected outputs of the package, or with those of ONNX Runtime where it passes the case.
"""

import collections
import fnmatch
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
from onnx.backend.test.loader import load_model_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
FERROMX = os.environ.get("FERROMX", str(ROOT / "target/debug/ferromx"))


def arrays(values):
    """The inputs or outputs of a case as NumPy writes them; None where one is not a tensor or has an element type that NumPy has not."""
    found = []
    for value in values:
        if isinstance(value, (list, dict)) or value is None:
            return None
        array = widened(np.asarray(value))
        if array.dtype.kind not in "biuf" or array.dtype.name not in np.sctypeDict:
            return None
        found.append(array)
    return found


def widened(array):
    """bfloat16 as float32, which NumPy can write."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def agree(found, expected):
    if len(found) != len(expected):
        return f"{len(found)} outputs instead of {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected)):
        if a.shape != b.shape:
            return f"output {i} has shape {a.shape} instead of {b.shape}"
        if a.dtype != b.dtype:
            return f"output {i} is {a.dtype} instead of {b.dtype}"
        if not np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-3, atol=1e-5, equal_nan=True):
            return f"output {i} differs by {np.nanmax(np.abs(a.astype(np.float64) - b.astype(np.float64))):.3g}"
    return None


def runtime(model, inputs):
    """The outputs of a model in ONNX Runtime, or its error as a string."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        return [widened(np.asarray(y)) for y in session.run(None, dict(zip(names, inputs)))]
    except Exception as e:
        return f"{type(e).__name__}: {e}".splitlines()[0][:200]


def make(out, pattern):
    cases = {}
    shutil.rmtree(out, ignore_errors=True)
    for test in load_model_tests(kind="node"):
        if not fnmatch.fnmatch(test.name, pattern):
            continue
        inputs, outputs = (arrays(values) for values in test.data_sets[0])
        if inputs is None or outputs is None:
            continue
        case = out / test.name
        case.mkdir(parents=True)
        (case / "model.onnx").write_bytes(test.model.SerializeToString())
        for i, array in enumerate(inputs):
            np.save(case / f"input_{i}.npy", array)
        cases[test.name] = (case, inputs, outputs)
    return cases


def results(case):
    found = []
    while (case / f"output_{len(found)}.npy").exists():
        found.append(np.load(case / f"output_{len(found)}.npy"))
    return found


def main(out, pattern="*"):
    cases = make(pathlib.Path(out), pattern)
    subprocess.run([FERROMX, "onnx", "run", out, "--export"], check=True)
    count = collections.Counter()
    for name, (case, inputs, outputs) in cases.items():
        count["cases"] += 1
        theirs = runtime(case / "model.onnx", inputs)
        takes = not isinstance(theirs, str)
        count["ONNX Runtime runs"] += takes
        error = case / "error.txt"
        if error.exists():
            print(f"{name}: {'ONNX Runtime runs it: ' if takes else ''}{error.read_text().strip()[:400]}")
            continue
        why = agree(results(case), outputs)
        if why and takes and agree(theirs, outputs) and not agree(results(case), theirs):
            why = None
        if why:
            print(f"{name}: {why}")
            continue
        count["right"] += 1
        failed = case / "export_error.txt"
        if failed.exists():
            if "node by node" not in failed.read_text():
                count["not exported"] += 1
                print(f"{name}: no export: {failed.read_text().strip()[:400]}")
            else:
                count["executed node by node"] += 1
            continue
        count["exported"] += 1
        again = runtime(case / "exported.onnx", inputs)
        why = again if isinstance(again, str) else agree(again, results(case))
        if why:
            print(f"{name}: export: {'' if takes else '(not the original either) '}{why}")
            continue
        count["export right in ONNX Runtime"] += 1
    for key, n in count.items():
        print(f"{key}: {n}")


main(*sys.argv[1:])
