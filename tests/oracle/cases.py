"""Conformance cases and their input data. Does not depend on MXNet."""

import zlib
from dataclasses import dataclass, field
from typing import Optional

import numpy as np

FLOATS = ("float16", "float32", "float64")
INTS = ("uint8", "int8", "int32", "int64")
ALL = FLOATS + INTS + ("bool",)


@dataclass
class OpCase:
    """One call of one operator: the executor binds it, runs forward, and backward where `grad` asks for it."""

    op: str
    inputs: list
    attrs: dict = field(default_factory=dict)
    train: bool = False
    grad: object = None
    """Gradients wanted: None, "all", or a list of input names."""
    req: str = "write"
    np_shape: bool = False
    """NumPy shape semantics: zero-size and zero-dimensional arrays exist."""
    compare: str = "data"
    """`data` compares all values, `first` those of the first output, `shape` none (for random results)."""
    rtol: Optional[float] = None
    atol: Optional[float] = None
    head: Optional[list] = None
    """Gradients of the outputs; made from the outputs' shapes when absent."""
    imperative: bool = False
    """Called on arrays directly, for operators that the executor cannot infer."""
    states: Optional[list] = None
    """Indices of the inputs that an imperative call mutates; inputs and outputs then have numbers instead of names."""
    like: Optional[list] = None
    """Indices of the inputs whose shapes the outputs of an imperative call have, if MXNet needs preallocated outputs."""
    stypes: Optional[tuple] = None
    """Storage types of the inputs, for a call on arrays of which some are sparse."""
    grad_stypes: tuple = ()
    """Storage types of the gradients that `grad` lists, in such a call."""
    changed: tuple = ()
    """Inputs that such a call mutates."""
    in_place: bool = False
    """Whether the output of such a call is written to the first input."""
    nameless: bool = False
    """True if MXNet cannot create a symbol of such a call without inputs, so that inputs and outputs have numbers."""
    refuse: bool = False
    """Not run, because MXNet reads foreign memory or crashes: an engine must reject the call."""
    why: str = ""

    kind = "op"


@dataclass
class InferCase:
    """Inference of shapes or types from partly known arguments and outputs, without data."""

    op: str
    attrs: dict = field(default_factory=dict)
    shapes: Optional[dict] = None
    types: Optional[dict] = None
    np_shape: bool = False
    why: str = ""

    kind = "infer"


@dataclass
class GraphCase:
    """A composed network: `build(mx)` returns the symbol; its lists, attributes, JSON and inference are recorded."""

    name: str
    build: object
    shapes: dict
    types: dict = field(default_factory=dict)
    why: str = ""

    kind = "graph"


def data(shape, dtype="float32", seed=0, lo=-2.0, hi=2.0):
    """Values that every type holds exactly: multiples of 1/16 for floats, whole numbers for integers."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    rng = np.random.RandomState(zlib.crc32(repr((shape, seed, lo, hi)).encode()) & 0x7FFFFFFF)
    if dtype in FLOATS:
        return (rng.randint(int(lo * 16), int(hi * 16) + 1, shape) / 16.0).astype(dtype)
    if dtype == "bool":
        return rng.randint(0, 2, shape).astype(bool)
    low = int(np.ceil(lo * 2))
    values = rng.randint(max(low, 0) if dtype == "uint8" else low, int(hi * 2) + 1, shape)
    return values.astype(dtype)


def whole(shape, dtype="float32", seed=0, lo=0, hi=5):
    """Whole numbers lo..hi (both included), for indices, labels and ties."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    rng = np.random.RandomState(zlib.crc32(repr((shape, seed, lo, hi, "w")).encode()) & 0x7FFFFFFF)
    return rng.randint(lo, hi + 1, shape).astype(dtype)


def distinct(shape, dtype="float32", seed=0):
    """All different values, in random order, for sorting and extrema."""
    count = int(np.prod(shape))
    rng = np.random.RandomState(seed + 17)
    values = rng.permutation(count) - (0 if dtype == "uint8" else count // 2)
    return (values / (4.0 if dtype in FLOATS else 1)).astype(dtype).reshape(shape)


def special(dtype="float32"):
    """Zeros of both signs, infinities, NaN, and values near one."""
    return np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-4], dtype)


def layer(op, inputs, attrs=None, **more):
    """A case in training mode with gradients of all inputs, where they are of a floating type."""
    floating = inputs[0].dtype.name in FLOATS
    more.setdefault("train", floating)
    more.setdefault("grad", "all" if floating else None)
    return OpCase(op, inputs, attrs or {}, **more)


def attr(value):
    """An attribute as MXNet's front ends print it."""
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, list):
        value = tuple(value)
    return str(value)
