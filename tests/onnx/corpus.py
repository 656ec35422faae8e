"""Makes the first inputs of the fuzz target `onnx` from the cases in `data`: the smallest model for each set of operators.

    python3 tests/onnx/corpus.py       # writes native/interop/fuzz/corpus/onnx
"""

import json
import pathlib

import onnx

HERE = pathlib.Path(__file__).parent
CORPUS = HERE.parent.parent / "native/interop/fuzz/corpus/onnx"


def operators(graph):
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            yield from operators(attribute.g)


smallest = {}
for file in sorted((HERE / "data").glob("*.jsonl")):
    for line in file.open():
        model = bytes.fromhex(json.loads(line)["model"])
        used = "+".join(sorted(set(operators(onnx.load_from_string(model).graph))))
        if len(model) <= 2000 and len(model) < len(smallest.get(used, b"x" * 9999)):
            smallest[used] = model
CORPUS.mkdir(parents=True, exist_ok=True)
for used, model in smallest.items():
    (CORPUS / f"{used[:60]}.onnx").write_bytes(model)
