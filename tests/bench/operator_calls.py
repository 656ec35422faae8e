"""Selects the call of each operator that is timed: goldens with larger inputs.

A case is made larger in one of these ways, whichever the operator takes: every length but 1 grows by the same factor; the first
axis grows, of all inputs that share its length; the first axis of the first input grows. Numbers repeat, so that indices stay
within bounds and labels among the classes."""

import glob
import json
import math
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDENS = os.path.join(HERE, "..", "oracle", "goldens")
METADATA = os.path.join(HERE, "..", "..", "native", "ops", "tests", "data", "mxnet-1.9.1-ops.jsonl")
WIDTHS = {"float64": 8, "int64": 8, "float16": 2, "uint8": 1, "int8": 1, "bool": 1}

# Layers with the sizes of a network, where enlarged cases would have a few channels only.
LAYERS = {
    "Convolution": (((8, 64, 46, 46), (64, 64, 3, 3), (64,)), {"kernel": (3, 3), "num_filter": 64, "pad": (1, 1)}),
    "Deconvolution": (((8, 64, 46, 46), (64, 64, 3, 3), (64,)),
                      {"kernel": (3, 3), "num_filter": 64, "pad": (1, 1), "no_bias": False}),
    "FullyConnected": (((256, 1024), (1024, 1024), (1024,)), {"num_hidden": 1024}),
    "Pooling": (((16, 64, 32, 32),), {"kernel": (2, 2), "stride": (2, 2), "pool_type": "max"}),
    "LRN": (((16, 64, 32, 32),), {"nsize": 5, "beta": 0.6}),
    "Correlation": (((2, 32, 128, 128), (2, 32, 128, 128)), {"max_displacement": 4, "pad_size": 4}),
    "BatchNorm": (((16, 64, 32, 32), (64,), (64,), (64,), (64,)), {}),
    "LayerNorm": (((1024, 1024), (1024,), (1024,)), {}),
    "InstanceNorm": (((16, 64, 32, 32), (64,), (64,)), {}),
    "GroupNorm": (((16, 64, 32, 32), (64,), (64,)), {"num_groups": 8}),
    "SoftmaxOutput": (((1024, 1024), (1024,)), {}),
    "softmax": (((1024, 1024),), {}),
    "log_softmax": (((1024, 1024),), {}),
    "Embedding": (((1024,), (1024, 1024)), {"input_dim": 1024, "output_dim": 1024}),
    "dot": (((1024, 1024), (1024, 1024)), {}),
    "batch_dot": (((16, 256, 256), (16, 256, 256)), {}),
    "transpose": (((1024, 1024),), {}),
    "CTCLoss": (((64, 64, 256), (64, 16)), {}),
    "linalg_gemm2": (((1024, 1024), (1024, 1024)), {}),
}
# Operators that create arrays from their parameters only.
SOURCES = {
    "_zeros": {}, "_ones": {}, "_full": {"value": 2}, "_random_uniform": {}, "_random_normal": {}, "_random_gamma": {"alpha": 2.5},
    "_random_exponential": {}, "_random_poisson": {"lam": 4}, "_random_negative_binomial": {"k": 3, "p": 0.4},
    "_random_generalized_negative_binomial": {"mu": 2, "alpha": 0.3}, "_random_randint": {"low": 0, "high": 100},
    "_npi_zeros": {}, "_npi_ones": {},
}
INDEXED = {"Embedding": 0, "SoftmaxOutput": 1, "CTCLoss": 1}


def operators():
    """Name of each operator, with its aliases."""
    names = {}
    with open(METADATA) as lines:
        for entry in map(json.loads, lines):
            main = entry.get("alias_of", entry["name"])
            names.setdefault(main, [main])
            if entry["name"] != main:
                names[main].append(entry["name"])
    return names


def recorded():
    """The cases with dense arrays and values, by the name of the operator in the call."""
    cases = {}
    for path in sorted(glob.glob(os.path.join(GOLDENS, "*.jsonl"))):
        with open(path[: -len("jsonl")] + "bin", "rb") as f:
            store = f.read()
        with open(path) as lines:
            for case in map(json.loads, lines):
                if case["kind"] == "op" and "error" not in case and "stypes" not in case:
                    cases.setdefault(case["op"], []).append((case, store))
    return cases


def elements(shape):
    return math.prod(shape)


def request(case, store, shapes):
    """The case with other shapes of its inputs."""
    inputs = []
    for x, shape in zip(case["inputs"], shapes):
        size = elements(x["shape"]) * WIDTHS.get(x["dtype"], 4)
        at = x.get("at", 0)
        inputs.append(dict(dtype=x["dtype"], shape=list(shape), pattern=store[at : at + size].hex()))
    names = [x["name"] for x in case["inputs"]]
    wrt = [names.index(n) for n in case.get("wrt", ()) if n in names and n not in {x["name"] for x in case.get("aux", ())}]
    return dict(op=case["op"], attrs=case.get("attrs", {}), inputs=inputs, wrt=wrt, train=case.get("train", False),
                np_shape=case.get("np_shape", False))


def layer(op, scale):
    shapes, attrs = LAYERS[op]
    inputs = []
    for i, shape in enumerate(shapes):
        shape = [max(1, shape[0] // scale), *shape[1:]] if shape[0] == shapes[0][0] else list(shape)
        numbers = range(1, 16) if INDEXED.get(op) == i else (x / 64 for x in range(1, 98))
        inputs.append(dict(dtype="float32", shape=shape, pattern=b"".join(map(single, numbers)).hex()))
    wrt = [i for i in range(len(shapes)) if INDEXED.get(op) != i and not (op == "BatchNorm" and i > 2)]
    return dict(op=op, attrs={k: str(v) for k, v in attrs.items()}, inputs=inputs, wrt=wrt, train=True, np_shape=False)


def source(op, target):
    """A square array."""
    side = math.isqrt(target)
    attrs = {**SOURCES[op], "shape": (side, side)}
    return dict(op=op, attrs={k: str(v) for k, v in attrs.items()}, inputs=[], wrt=[], train=False, np_shape=op.startswith("_np"))


def single(x):
    return struct.pack("<f", x)


def everywhere(shapes, target):
    """Every length but 1 grows by one factor."""
    def grown(factor):
        return [[d if d <= 1 else d * factor for d in s] for s in shapes]

    if not any(d > 1 and elements(s) for s in shapes for d in s):
        return None
    factor = 1
    while max(map(elements, grown(2 * factor))) <= target:
        factor *= 2
    while max(map(elements, grown(factor + max(1, factor // 8)))) <= target:
        factor += max(1, factor // 8)
    return grown(factor)


def along_first_axis(shapes, target, of_all):
    """Enlarges the first axis, of all inputs that share its length or of the first input only."""
    if not shapes or not shapes[0] or not elements(shapes[0]):
        return None
    length = shapes[0][0]
    factor = max(1, target // max(elements(s) for s in shapes if s and s[0] == length))
    return [[s[0] * factor, *s[1:]] if s and s[0] == length and (of_all or i == 0) else list(s)
            for i, s in enumerate(shapes)]


def candidates(names, cases, target):
    """Calls to try, the most natural one first."""
    for name in names:
        if name in LAYERS:
            yield layer(name, max(1, (1 << 20) // target))
        if name in SOURCES:
            yield source(name, target)
    found = [c for name in names for c in cases.get(name, ())]
    large = sorted(found, key=lambda c: (not c[0].get("wrt"), not is_single(c[0]), c[0].get("req") == "add"))[:8]
    for enlarge in (everywhere, lambda s, t: along_first_axis(s, t, True), lambda s, t: along_first_axis(s, t, False)):
        for case, store in large:
            shapes = enlarge([x["shape"] for x in case["inputs"]], target)
            if shapes and max(map(elements, shapes)) > target // 8:
                yield request(case, store, shapes)
    for case, store in large[:2]:
        yield request(case, store, [x["shape"] for x in case["inputs"]])


def is_single(case):
    """Single precision throughout, and nothing empty."""
    return all(x["dtype"] == "float32" and elements(x["shape"]) for x in case["inputs"])
