"""The unit of comparison: a call of one operator, or a small network. Does not depend on MXNet."""

import copy
from dataclasses import dataclass, field
from typing import Optional

import numpy as np


@dataclass
class Call:
    """One operator on arrays. With `requests`, one for each input, it is differentiated too."""

    op: str
    attrs: dict
    inputs: list
    requests: Optional[list] = None
    """`write`, `add` or `null` for each input, or None for no backward pass."""
    added_to: int = 2
    """The previous content of gradient arrays with request `add`."""
    train: bool = False
    np_shape: bool = False
    """NumPy shape semantics: zero-size and zero-dimensional arrays exist."""
    bound: bool = False
    """True to run it in an executor, False to invoke it on arrays."""
    stypes: Optional[tuple] = None
    """The storage type of each input, None if all are dense."""
    in_place: bool = False
    """Whether the output is written to the first input."""
    out: str = ""
    """Where an invoked call writes its results: to arrays that the library creates, or that the caller gives: `new`, `view` for a part of
    a larger array, `first` for the first input, or the name of an element type."""
    views: bool = False
    """Whether the inputs of an invoked call are parts of larger arrays."""
    passes: int = 1
    """Number of backward passes."""
    second: bool = False
    """Whether an invoked call is differentiated twice. The gradients are then those of the first ones, which are among the outputs."""
    why: str = field(default="", compare=False)
    """Where the call comes from."""

    @property
    def size(self):
        """Sort key: simpler calls are smaller."""
        plain = not self.np_shape + self.train + self.bound
        elements = sum(x.size + x.ndim for x in self.inputs)
        return elements + 4 * len(self.attrs) + (0 if plain else 2) + 3 * len(self.requests or ())

    def source(self):
        arrays = ", ".join(array_source(x) for x in self.inputs)
        words = ["%r, %r, [%s]" % (self.op, self.attrs, arrays)]
        defaults = Call("", {}, [])
        for name in ("requests", "added_to", "train", "np_shape", "bound", "stypes", "in_place", "out", "views", "passes", "second"):
            if getattr(self, name) != getattr(defaults, name):
                words.append("%s=%r" % (name, getattr(self, name)))
        return "Call(%s)" % ", ".join(words)


@dataclass
class Graph:
    """A network, run forward and backward. A node is (operator, attributes, names of inputs); they are called n0, n1, ...; every other
    name is an argument with an array. The last nodes are the outputs."""

    nodes: list
    arrays: dict
    request: str = "write"
    """The gradient request of all arguments but those in `requests`."""
    added_to: int = 2
    train: bool = True
    np_shape: bool = False
    way: str = "bind"
    """`bind`: by `simple_bind`; `reshape`: then reshaped to half the batch; `record`: as a hybridized `SymbolBlock`; `hybrid`: as a
    hybridized block that composes it; `imperative`: as that block, not hybridized."""
    flags: dict = field(default_factory=dict)
    """Flags of `hybridize`."""
    requests: dict = field(default_factory=dict)
    """Other gradient requests, by argument."""
    groups: tuple = ()
    """The context group of each node, for `bind` over two devices."""
    forwards: int = 1
    """Number of forward passes before them."""
    passes: int = 1
    """Number of backward passes."""
    outputs: int = 1
    """Number of outputs: the last nodes."""
    why: str = field(default="", compare=False)

    @property
    def op(self):
        return " ".join(op for op, _, _ in self.nodes)

    @property
    def size(self):
        return 100 * len(self.nodes) + sum(x.size for x in self.arrays.values())

    @property
    def has_branches(self):
        return any(op in ("while_loop", "cond") for op, _, _ in self.nodes)

    def source(self):
        arrays = ", ".join("%r: %s" % (n, array_source(x)) for n, x in self.arrays.items())
        names = ("request", "added_to", "train", "np_shape", "way", "flags", "requests", "groups", "forwards", "passes", "outputs")
        defaults = Graph([], {})
        told = [n for n in names if getattr(self, n) != getattr(defaults, n)]
        return "Graph(%r, {%s}%s)" % (self.nodes, arrays, "".join(", %s=%r" % (n, getattr(self, n)) for n in told))


def array_source(x):
    """Python source of an array; long ones show their first elements, repeated."""
    flat = x.reshape(-1)
    values = np.array2string(flat[:64], separator=", ", threshold=100, max_line_width=10**6, floatmode="unique")
    values = values.replace("nan", "np.nan").replace("inf", "np.inf")
    if x.ndim == 1 and x.size <= 64:
        return "np.array(%s, %r)" % (values, x.dtype.name)
    if x.size <= 64:
        return "np.array(%s, %r).reshape(%s)" % (values, x.dtype.name, x.shape)
    return "np.resize(np.array(%s, %r), %s)" % (values, x.dtype.name, x.shape)


def gradient_requests(call, actual):
    """The request of each gradient in an answer."""
    if "requests" in actual:
        return actual["requests"]
    return [r for r in call.requests if r != "null"] if call.bound else call.requests


def without_add(call):
    """The call with request `write` for `add`."""
    call = copy.copy(call)
    if isinstance(call, Graph):
        call.request, call.requests = written(call.request), {n: written(r) for n, r in call.requests.items()}
    else:
        call.requests = [written(r) for r in call.requests]
    return call


def written(request):
    return "write" if request == "add" else request


def with_previous(call, gradients, actual):
    """What the gradient arrays hold at the end: with request `add` the gradients of all passes, added to the previous content."""
    sums = []
    for gradient, request in zip(gradients, gradient_requests(call, actual)):
        if gradient is None or request == "null":
            sums.append(None)
        elif request == "add":
            with np.errstate(all="ignore"):
                sums.append(gradient.astype("float64") * call.passes + call.added_to)
        else:
            sums.append(gradient)
    return sums
