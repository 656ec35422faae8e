"""Draws small networks of a few layers and elementwise operators."""

from call import Graph
from cases import data
from parameters import pick

UNARY = ("relu", "sigmoid", "tanh", "exp", "square", "abs", "negative", "sqrt", "log", "softsign", "erf", "floor", "BlockGrad", "identity")
BINARY = ("broadcast_add", "broadcast_mul", "broadcast_sub", "broadcast_div", "broadcast_maximum", "elemwise_add", "elemwise_mul", "broadcast_greater")

CONTROL_FLOW = ("foreach", "nested", "while_loop", "cond")
FLAGS = (
    {},
    {"static_alloc": True},
    {"static_alloc": True, "static_shape": True},
    {"inline_limit": 0},
    {"inline_limit": 100},
    {"forward_bulk_size": 2, "backward_bulk_size": 2},
)


def draw_graph(rng):
    """A chain of two to seven nodes from one array, with side inputs and skips."""
    rank = pick(rng, (2, 2, 3, 4, 4))
    shape = tuple(pick(rng, (1, 2, 3, 4, 5, 6)) for _ in range(rank))
    dtype = pick(rng, ("float32", "float32", "float64"))
    builder = Builder(rng, {"x": data(shape, dtype, rng.randint(1000))})
    for _ in range(rng.randint(2, 8)):
        pick(rng, STEPS)(builder)
    np_shape = rng.rand() < 0.2
    request = pick(rng, ("write", "write", "add", "null" if rng.rand() < 0.3 else "write"))
    graph = Graph(builder.nodes, builder.arrays, request, pick(rng, (0, 2)), rng.rand() < 0.8, np_shape, why="network")
    graph.way = pick(rng, ("bind", "bind", "reshape", "record", "hybrid", "hybrid", "imperative"))
    # MXNet reshapes neither branches nor, with NumPy shape semantics, to smaller batches.
    if graph.way == "reshape" and (graph.has_branches or np_shape):
        graph.way = "bind"
    # Nor does it infer their shapes with NumPy shape semantics.
    graph.np_shape = np_shape and not graph.has_branches
    graph.requests = {n: pick(rng, ("write", "add", "null")) for n in builder.arrays if rng.rand() < 0.2}
    if graph.way in ("record", "hybrid"):
        graph.flags = pick(rng, FLAGS)
    if graph.way == "bind" and not graph.has_branches and rng.rand() < 0.3:
        graph.groups = tuple(pick(rng, ("", "first", "second")) for _ in builder.nodes)
    # The first backward pass of MXNet's executors overwrites their memory, so there is only one.
    graph.forwards, graph.passes = pick(rng, (1, 1, 1, 2)), 1 if graph.way in ("bind", "reshape") else pick(rng, (1, 2))
    # MXNet does not differentiate loops and branches that ran for inference, or twice.
    if any(op in CONTROL_FLOW for op, _, _ in graph.nodes) and rng.rand() < 0.9:
        graph.train, graph.passes = True, 1
    graph.outputs = min(pick(rng, (1, 1, 2)), len(builder.nodes))
    return graph


class Builder:
    """The nodes so far. `last` is the name of the input of the next node, and `shapes` has the known shapes by name."""

    def __init__(self, rng, arrays):
        self.rng, self.arrays, self.nodes = rng, arrays, []
        self.last, self.shapes = "x", {"x": arrays["x"].shape}

    @property
    def shape(self):
        return self.shapes[self.last]

    def add(self, op, attrs, inputs, shape):
        self.nodes.append((op, attrs, inputs))
        self.last = "n%d" % (len(self.nodes) - 1)
        self.shapes[self.last] = tuple(shape)

    def side(self, shape):
        """Adds an argument, which several nodes may read."""
        name = "y%d" % len(self.arrays)
        self.arrays[name] = data(shape, self.arrays["x"].dtype.name, self.rng.randint(1000))
        self.shapes[name] = tuple(shape)
        return name


def unary(b):
    b.add(pick(b.rng, UNARY), {}, [b.last], b.shape)


def scalar(b):
    op = pick(b.rng, ("_plus_scalar", "_mul_scalar", "_rminus_scalar", "_maximum_scalar", "_power_scalar"))
    b.add(op, {"scalar": pick(b.rng, ("2", "-0.5", "1"))}, [b.last], b.shape)


def binary(b):
    same = [n for n, s in b.shapes.items() if s == b.shape]
    op = pick(b.rng, BINARY)
    if op.startswith("elemwise") or b.rng.rand() < 0.5:
        b.add(op, {}, [b.last, pick(b.rng, same)], b.shape)
    else:
        b.add(op, {}, [b.last, b.side([1 if b.rng.rand() < 0.5 else n for n in b.shape])], b.shape)


def reduction(b):
    if len(b.shape) < 2:
        return unary(b)
    axis = b.rng.randint(len(b.shape))
    keep = b.rng.rand() < 0.5
    shape = [1 if i == axis else n for i, n in enumerate(b.shape) if keep or i != axis]
    b.add(pick(b.rng, ("sum", "mean", "max", "min", "prod")), {"axis": axis, "keepdims": keep}, [b.last], shape)


def transpose(b):
    axes = tuple(int(a) for a in b.rng.permutation(len(b.shape)))
    b.add("transpose", {"axes": axes}, [b.last], [b.shape[a] for a in axes])


def flatten(b):
    count = 1
    for n in b.shape[1:]:
        count *= n
    b.add("Flatten", {}, [b.last], (b.shape[0], count))


def dense(b):
    units = pick(b.rng, (1, 3, 5))
    flat = b.rng.rand() < 0.5 or len(b.shape) < 2
    attrs = {"num_hidden": units, "flatten": flat, "no_bias": b.rng.rand() < 0.3}
    b.add("FullyConnected", attrs, [b.last], (b.shape[0], units) if flat else b.shape[:-1] + (units,))


def convolution(b):
    if len(b.shape) != 4:
        return dense(b)
    filters, stride = pick(b.rng, (2, 4)), pick(b.rng, (1, 2))
    attrs = {"num_filter": filters, "kernel": (3, 3), "pad": (1, 1), "stride": (stride, stride), "no_bias": b.rng.rand() < 0.5}
    b.add("Convolution", attrs, [b.last], (b.shape[0], filters) + tuple((n - 1) // stride + 1 for n in b.shape[2:]))


def normalization(b):
    op = pick(b.rng, ("BatchNorm", "LayerNorm", "softmax", "log_softmax", "L2Normalization"))
    if len(b.shape) < 2:
        return unary(b)
    b.add(op, {"fix_gamma": pick(b.rng, (True, False))} if op == "BatchNorm" else {}, [b.last], b.shape)


def pooling(b):
    if len(b.shape) != 4:
        return normalization(b)
    attrs = {"kernel": (2, 2), "pad": (1, 1), "pool_type": pick(b.rng, ("max", "avg"))}
    b.add("Pooling", attrs, [b.last], b.shape[:2] + tuple(n + 1 for n in b.shape[2:]))


def join(b):
    b.add("concat", {"dim": 0}, [b.last, b.side(b.shape)], (2 * b.shape[0],) + tuple(b.shape[1:]))


def cut(b):
    if b.shape[0] < 2:
        return unary(b)
    b.add("slice_axis", {"axis": 0, "begin": 1, "end": None}, [b.last], (b.shape[0] - 1,) + tuple(b.shape[1:]))


def foreach(b):
    """A loop over the first axis, with a state like its rows."""
    if len(b.shape) < 2:
        return unary(b)
    b.add(pick(b.rng, ("foreach", "nested")), {}, [b.last, b.side(b.shape[1:])], b.shape)


def while_loop(b):
    b.add("while_loop", {"steps": pick(b.rng, (1, 2, 3))}, [b.last, b.side(b.shape)], b.shape)


def branch(b):
    # MXNet cannot infer branches in double precision.
    if b.arrays["x"].dtype != "float32":
        return unary(b)
    b.add("cond", {}, [b.last, b.side(b.shape)], b.shape)


def custom(b):
    b.add("Custom", {"op_type": "differ", "scale": pick(b.rng, ("2", "-0.5"))}, [b.last, b.side(b.shape)], b.shape)


STEPS = (unary, unary, unary, scalar, binary, binary, binary, reduction, transpose, flatten, dense, convolution, normalization, pooling, join, cut, foreach, while_loop, branch, custom)
