"""Runs the models of `exports.jsonl` in ONNX Runtime: `check_exports.py FOLDER`.

The test of `native/interop` writes them: `FERROMX_EXPORTED=FOLDER cargo test -p ferromx-interop exported_operators`. Needs the packages of
`requirements.txt`.
"""

import json
import pathlib
import sys

import numpy as np
import onnxruntime

HERE = pathlib.Path(__file__).parent


def array(v):
    return np.array([float(x) for x in v["data"]]).reshape(v["shape"]).astype(v["dtype"])


def difference(case, path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options)
    wanted = {i.name for i in session.get_inputs()}
    given = {f"x{i}": array(v) for i, v in enumerate(case["inputs"]) if f"x{i}" in wanted}
    outputs = session.run(None, given)
    expected = [array(v) for v in case["outputs"]]
    for i, (got, want) in enumerate(zip(outputs, expected, strict=True)):
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"output {i} is {got.dtype} {got.shape} instead of {want.dtype} {want.shape}"
        if not case.get("random") and not np.allclose(got.astype(float), want.astype(float), 1e-5, 2e-5, equal_nan=True):
            return f"output {i} differs by {np.abs(got.astype(float) - want.astype(float)).max()}"
    return None


def main():
    cases = [json.loads(line) for line in (HERE / "data" / "exports.jsonl").read_text().splitlines()]
    wrong = 0
    for i, case in enumerate(cases):
        try:
            found = difference(case, pathlib.Path(sys.argv[1]) / f"{i}.onnx")
        except Exception as e:
            found = str(e).splitlines()[0][:200]
        if found:
            wrong += 1
            print(i, case["op"], case["attrs"], "|", found)
    print(len(cases) - wrong, "of", len(cases), "agree")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
