"""Composed networks: their lists, attributes, saved JSON, and inference through the whole graph."""

from cases import GraphCase


def lenet(mx):
    sym = mx.sym
    data = sym.Variable("data")
    conv1 = sym.Convolution(data, kernel=(3, 3), num_filter=20, name="conv1")
    act1 = sym.Activation(conv1, act_type="tanh", name="act1")
    pool1 = sym.Pooling(act1, pool_type="max", kernel=(2, 2), stride=(2, 2), name="pool1")
    conv2 = sym.Convolution(pool1, kernel=(3, 3), num_filter=50, pad=(1, 1), name="conv2")
    act2 = sym.Activation(conv2, act_type="tanh")
    pool2 = sym.Pooling(act2, pool_type="max", kernel=(2, 2), stride=(2, 2))
    flat = sym.Flatten(pool2)
    hidden = sym.FullyConnected(flat, num_hidden=128, name="fc1")
    act3 = sym.Activation(hidden, act_type="tanh")
    return sym.SoftmaxOutput(sym.FullyConnected(act3, num_hidden=10, name="fc2"), name="softmax")


def batch_norm(mx):
    sym = mx.sym
    net = sym.Variable("data", shape=(2, 3, 8, 8), lr_mult=0.5)
    for index in range(2):
        net = sym.Convolution(net, num_filter=4, kernel=(3, 3), pad=(1, 1), no_bias=True, name="c%d" % index)
        net = sym.Activation(sym.BatchNorm(net, name="bn%d" % index, fix_gamma=False), act_type="relu")
    return sym.mean(net, axis=(2, 3), name="pooled")


def branches(mx):
    """One node used twice, several outputs, group, and a slice of an output list."""
    sym = mx.sym
    left, right = sym.Variable("left"), sym.Variable("right")
    total = left + right
    parts = sym.SliceChannel(total, num_outputs=2, axis=1, name="parts")
    joined = sym.Concat(parts[1], parts[0], total, dim=1, name="joined")
    return sym.Group([joined, sym.BlockGrad(total, name="stop"), parts[0] * 2 - 1])


def shared(mx):
    """The same weight in two layers."""
    sym = mx.sym
    weight = sym.Variable("weight")
    net = sym.Variable("data")
    for index in range(2):
        net = sym.FullyConnected(net, weight=weight, num_hidden=4, no_bias=True, name="fc%d" % index)
    return net


def scopes(mx):
    with mx.AttrScope(ctx_group="stage1", lr_mult="0.1"):
        data = mx.sym.Variable("data")
        first = mx.sym.FullyConnected(data, num_hidden=3, name="first", attr={"__mood__": "good"})
    with mx.AttrScope(ctx_group="stage2"):
        weight = mx.sym.Variable("w2", wd_mult=2.0, init=mx.init.One(), dtype="float32")
        return mx.sym.FullyConnected(first, weight=weight, num_hidden=2, name="second")


def prefixed(mx):
    with mx.name.Prefix("block_"):
        net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3)
        net = mx.sym.Activation(net, act_type="relu")
    return mx.sym.Dropout(net, p=0.25)


def composed(mx):
    """A symbol composed with another one instead of a variable."""
    first = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="inner")
    second = mx.sym.Activation(mx.sym.Variable("hole"), act_type="tanh", name="outer")
    return second(hole=first, name="whole")


def arithmetic(mx):
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    return 1 - (a + b) * (a - 2) / (b ** 2) + 3 / a - (2 ** b) % 3 + abs(-a) + (a > b) * (a != 0)


def recurrent(mx):
    """Unrolled over three steps, with variables of unknown batch size."""
    sym = mx.sym
    steps = sym.SliceChannel(sym.Variable("data"), num_outputs=3, axis=1, squeeze_axis=True, name="steps")
    weight, state = sym.Variable("i2h_weight"), None
    for step in range(3):
        net = sym.FullyConnected(steps[step], weight=weight, num_hidden=4, no_bias=True, name="i2h%d" % step)
        state = sym.Activation(net if state is None else net + state, act_type="tanh", name="state%d" % step)
    return state


# Inference from a known output shape: operator, parameters, names of inputs, output shape, known inputs.
FROM_OUTPUT = (
    ("FullyConnected", {"num_hidden": 4}, (2, 4), {}),
    ("FullyConnected", {"num_hidden": 4}, (2, 4), {"data": (0, 3)}),
    ("FullyConnected", {"num_hidden": 4, "flatten": False}, (2, 5, 4), {"data": (0, 0, 3)}),
    ("FullyConnected", {"num_hidden": 4}, (2, 5), {"data": (2, 3)}),
    ("Activation", {"act_type": "relu"}, (2, 4), {}),
    ("elemwise_mul", {}, (2, 4), {}),
    ("broadcast_add", {}, (2, 4), {}),
    ("_plus_scalar", {"scalar": 1}, (2, 4), {}),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4}, (2, 4, 6, 6), {}),
    ("Convolution", {"kernel": (3, 3), "num_filter": 4}, (2, 4, 6, 6), {"data": (0, 3, 0, 0)}),
    ("Pooling", {"kernel": (2, 2)}, (2, 4, 6, 6), {}),
    ("BatchNorm", {}, (2, 4, 6), {}),
    ("Dropout", {}, (2, 4), {}),
    ("softmax", {}, (2, 4), {}),
    ("Flatten", {}, (2, 12), {"data": (0, 3, 4)}),
    ("Reshape", {"shape": (0, -1)}, (2, 12), {"data": (0, 3, 4)}),
    ("transpose", {"axes": (1, 0)}, (2, 4), {}),
    ("transpose", {}, (2, 4), {}),
    ("expand_dims", {"axis": 1}, (2, 1, 4), {}),
    ("squeeze", {"axis": 1}, (2, 4), {}),
    ("Concat", {"num_args": 2}, (2, 7), {"arg0": (0, 3), "arg1": (0, 4)}),
    ("stack", {"num_args": 2, "axis": 1}, (3, 2, 4), {}),
    ("add_n", {"num_args": 2}, (2, 4), {}),
    ("slice_axis", {"axis": 1, "begin": 0, "end": 4}, (2, 4), {}),
    ("dot", {}, (2, 4), {"lhs": (2, 3)}),
    ("sum", {"axis": 1, "keepdims": True}, (2, 1), {}),
    ("Cast", {"dtype": "float32"}, (2, 4), {}),
    ("BlockGrad", {}, (2, 4), {}),
    ("where", {}, (2, 4), {}),
    ("Embedding", {"input_dim": 5, "output_dim": 4}, (2, 4), {}),
    ("swapaxes", {"dim1": 0, "dim2": 1}, (2, 4), {}),
    ("tile", {"reps": (1, 2)}, (2, 4), {}),
    ("clip", {"a_min": 0, "a_max": 1}, (2, 4), {}),
)


def from_output(op, attrs):
    """The operator's result added to a variable, whose shape will be the known one."""
    def build(mx):
        result = getattr(mx.sym, op, None) or getattr(mx.sym._internal, op)
        names = {"add_n": 2, "Concat": 2, "stack": 2}.get(op)
        more = {k: v for k, v in attrs.items() if k != "num_args"}
        if names:
            node = result(*[mx.sym.Variable("op_arg%d" % i) for i in range(names)], name="op", **more)
        else:
            node = result(name="op", **more)
        return mx.sym.elemwise_add(node, mx.sym.Variable("known"), name="sum")

    return build


def cases():
    for index, (op, attrs, output, inputs) in enumerate(FROM_OUTPUT):
        known = dict({"op_" + name: shape for name, shape in inputs.items()}, known=output)
        yield GraphCase("from_output_%d_%s" % (index, op), from_output(op, attrs), known, {"known": "float64"})
    yield GraphCase("lenet", lenet, {"data": (32, 1, 8, 8)}, {"data": "float32"})
    yield GraphCase("lenet_without_shapes", lenet, {})
    yield GraphCase("batch_norm", batch_norm, {}, {"data": "float16"})
    yield GraphCase("branches", branches, {"left": (2, 4)}, {"right": "float64"})
    yield GraphCase("shared", shared, {"data": (2, 4)})
    yield GraphCase("scopes", scopes, {"data": (5, 4)})
    yield GraphCase("prefixed", prefixed, {"data": (5, 4)}, {"data": "float32"})
    yield GraphCase("composed", composed, {"data": (5, 4)})
    yield GraphCase("arithmetic", arithmetic, {"a": (2, 2)}, {"b": "float32"})
    yield GraphCase("recurrent", recurrent, {"data": (2, 3, 5)})
    yield GraphCase("backwards", lenet, {"softmax_label": (16,)}, why="from the label")
