#!/usr/bin/env python3
"""Writes `fixtures/operator-names.jsonl`: the names of the inputs, outputs and auxiliary states of every operator in MXNet 1.9.1.

Usage: names.py

Each operator is composed without inputs, with the least parameters, then with each value of each enumeration and boolean, and with one and
two arrays where their number is a parameter. A line is [operator, parameters, inputs, outputs, auxiliary states]; calls with the same names
as an earlier one of the same operator are left out, and so are those that MXNet refuses.
"""

import ctypes
import json
import os
import pathlib

import mxnet  # noqa: F401  loads the library
from mxnet.base import _LIB, SymbolHandle, c_str, c_str_array, check_call, py_str

HERE = pathlib.Path(__file__).resolve().parent
COUNTS = ("num_args", "num_weights", "num_outputs", "num_arrays", "num_tensors")
LISTS = ("MXSymbolListArguments", "MXSymbolListOutputs", "MXSymbolListAuxiliaryStates")


def listed(symbol, function):
    count, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(getattr(_LIB, function)(symbol, ctypes.byref(count), ctypes.byref(names)))
    return [py_str(names[i]) for i in range(count.value)]


def names(operator, parameters):
    creator, symbol = ctypes.c_void_p(), SymbolHandle()
    check_call(_LIB.NNGetOpHandle(c_str(operator), ctypes.byref(creator)))
    keys, values = c_str_array(list(parameters)), c_str_array([str(v) for v in parameters.values()])
    check_call(_LIB.MXSymbolCreateAtomicSymbol(creator, len(parameters), keys, values, ctypes.byref(symbol)))
    check_call(_LIB.MXSymbolCompose(symbol, c_str("n"), 0, None, None))
    return [listed(symbol, function) for function in LISTS]


def in_child(operator, parameters):
    """The names, or None. Some calls end the process, so each runs in its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.write(writer, json.dumps(names(operator, parameters)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def enumerated(kind):
    return [value.strip().strip("'") for value in kind[1:kind.index("}")].split(",")]


def calls(arguments):
    """Parameters for calls of an operator."""
    least = {}
    for name, kind, _ in arguments:
        if "optional" in kind or "NDArray" in kind or "Symbol" in kind:
            continue
        if kind.startswith("{"):
            least[name] = enumerated(kind)[0]
        elif "Shape" in kind or "tuple" in kind.lower():
            least[name] = "(1,1)"
        else:
            least[name] = "x" if "string" in kind else "1"
    yield least
    for name, kind, _ in arguments:
        values = [1, 2] if name in COUNTS else enumerated(kind) if kind.startswith("{") else [0, 1] if "bool" in kind else []
        for value in values:
            yield dict(least, **{name: value})


def main():
    with open(HERE.parent.parent / "codegen" / "ops.jsonl") as operators, open(HERE / "fixtures" / "operator-names.jsonl", "w") as out:
        for operator in map(json.loads, operators):
            seen = []
            for parameters in calls(operator["args"]):
                found = in_child(operator["name"], parameters)
                if found is not None and found not in seen:
                    seen.append(found)
                    print(json.dumps([operator["name"], {k: str(v) for k, v in parameters.items()}] + found), file=out)


if __name__ == "__main__":
    main()
