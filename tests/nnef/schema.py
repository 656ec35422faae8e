"""Writes the operator descriptors of NNEF: `schema.py` writes `native/interop/data/nnef-operators.txt`.

The declarations are those of the standard, which the package `nnef` contains. `external`, `variable` and `update` are left out, because
they are not operators of the neutral form. There, `constant` has a tensor, and `cast` has the element type, which in NNEF is a parameter in
angle brackets.
"""

import importlib.metadata
import pathlib
import re

import nnef

HERE = pathlib.Path(__file__).parent
SPECIAL = {"external", "variable", "constant", "update", "cast"}
KINDS = {
    "integer": "int",
    "scalar": "float",
    "logical": "bool",
    "string": "string",
    "integer[]": "ints",
    "(integer,integer)[]": "pairs",
}
HEADER = """# Operators of NNEF 1.0, made by tests/nnef/schema.py from the package nnef {version}.
opset 1
cast@1(input) -> (output) element: string
constant@1() -> (output) value: tensor
"""


def split(text):
    """The parts between commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([<") - (c in ")]>")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in parts + [text[start:]] if p.strip()]


def parameter(text):
    name, rest = (t.strip() for t in text.split(":", 1))
    kind, _, default = (t.strip() for t in rest.partition("="))
    return name, kind.replace(" ", ""), default


def argument(name, kind, default):
    return name + ("*" if kind.endswith("[]") else "?" if default else "")


def literal(text):
    return text.replace("'", '"')


def describe(name, inputs, outputs):
    parameters = [parameter(p) for p in split(inputs)]
    tensors = [argument(*p) for p in parameters if p[1].startswith("tensor")]
    attributes = [f"{n}: {KINDS[k]}" + (f" = {literal(d)}" if d else "") for n, k, d in parameters if not k.startswith("tensor")]
    results = [argument(*parameter(p)) for p in split(outputs)]
    return f"{name}@1({', '.join(tensors)}) -> ({', '.join(results)}) {', '.join(attributes)}".rstrip()


def main():
    text = (pathlib.Path(nnef.__file__).parent / "cpp/include/nnef/comp/stdlib_source.h").read_text()
    found = re.findall(r"fragment (\w+)(?:<[^>]*>)?\(((?:[^()]|\([^()]*\))*)\)\s*->\s*\(((?:[^()]|\([^()]*\))*)\)", text)
    lines = sorted(describe(*f) for f in found if f[0] not in SPECIAL)
    path = HERE.parent.parent / "native/interop/data/nnef-operators.txt"
    path.write_text(HEADER.format(version=importlib.metadata.version("nnef")) + "\n".join(lines) + "\n")
    print(f"{path.name}: {len(lines)} operators")


if __name__ == "__main__":
    main()
