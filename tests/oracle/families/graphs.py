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
    """A symbol called with another in place of a variable."""
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


def cases():
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
