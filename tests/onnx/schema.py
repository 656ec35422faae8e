"""Writes the operator descriptors of ONNX, which `native/interop` compiles in: `schema.py FILE`.

One line describes one version of an operator, all versions in ascending order:

    Conv@11(X, W, B?) -> (Y) auto_pad: string = "NOTSET", dilations: ints?, group: int = 1

`?` marks optional inputs and attributes, `*` any number of inputs. Needs the package `onnx`.
"""

import sys

import onnx
from onnx import AttributeProto
from onnx.defs import OpSchema

KINDS = {
    AttributeProto.INT: "int",
    AttributeProto.INTS: "ints",
    AttributeProto.FLOAT: "float",
    AttributeProto.FLOATS: "floats",
    AttributeProto.STRING: "string",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSOR: "tensor",
    AttributeProto.GRAPH: "graph",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "type",
}
MARKS = {
    OpSchema.FormalParameterOption.Single: "",
    OpSchema.FormalParameterOption.Optional: "?",
    OpSchema.FormalParameterOption.Variadic: "*",
}


def literal(value):
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        return '"' + value + '"'
    if isinstance(value, (list, tuple)) or hasattr(value, "__iter__"):
        return "[" + ", ".join(literal(v) for v in value) + "]"
    if isinstance(value, float):
        # Attributes are stored in single precision: the shortest text that gives the same number.
        import numpy

        text = str(numpy.float32(value))
        return text if any(c in text for c in ".en") else text + ".0"
    return str(value)


def attribute(name, attr):
    kind = KINDS[AttributeProto.AttributeType.Value(attr.type.name) if hasattr(attr.type, "name") else attr.type]
    default = onnx.helper.get_attribute_value(attr.default_value) if attr.default_value.name else None
    if default is not None:
        return f"{name}: {kind} = {literal(default)}"
    return f"{name}: {kind}" + ("" if attr.required else "?")


def line(schema):
    parameters = lambda ps: ", ".join(p.name.rstrip(".") + MARKS[p.option] for p in ps)
    head = f"{schema.name}@{schema.since_version}({parameters(schema.inputs)}) -> ({parameters(schema.outputs)})"
    attributes = ", ".join(attribute(n, a) for n, a in sorted(schema.attributes.items()))
    return head + (" " + attributes if attributes else "")


def main():
    # The first GroupNormalization is deprecated but still in use; other deprecated versions mark removed operators.
    kept = lambda s: s.domain == "" and (not s.deprecated or s.name == "GroupNormalization")
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if kept(s)]
    schemas.sort(key=lambda s: (s.name, s.since_version))
    with open(sys.argv[1], "w") as f:
        f.write(f"# Operators of ONNX, made by tests/onnx/schema.py from the package onnx {onnx.__version__}.\n")
        f.write(f"opset {onnx.defs.onnx_opset_version()}\n")
        f.writelines(line(s) + "\n" for s in schemas)


if __name__ == "__main__":
    main()
