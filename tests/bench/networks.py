"""Networks, written once for any `net` that has `variable(name)` and `apply(op, name, inputs, **attrs)`."""

from typing import Callable, NamedTuple


class Network(NamedTuple):
    """`features(net, data)` is everything before the last dense layer. `sample` is the shape of one input."""

    features: Callable
    sample: tuple
    classes: int
    # The axis of the input that counts samples.
    batch_axis: int = 0

    def input_shape(self, batch):
        return (*self.sample[: self.batch_axis], batch, *self.sample[self.batch_axis :])


class Builder:
    """Adds operators with unique names."""

    def __init__(self, net):
        self.net, self.count = net, 0

    def add(self, op, *inputs, **attrs):
        self.count += 1
        return self.net.apply(op, f"{op.strip('_').lower()}{self.count}", list(inputs), **attrs)

    def dense(self, data, units, **attrs):
        return self.add("FullyConnected", data, num_hidden=units, **attrs)

    def relu(self, data):
        return self.add("Activation", data, act_type="relu")

    def convolution(self, data, filters, kernel, stride=1, groups=1):
        """Without bias, followed by batch normalization."""
        sizes = dict(kernel=(kernel, kernel), stride=(stride, stride), pad=(kernel // 2, kernel // 2))
        data = self.add("Convolution", data, num_filter=filters, num_group=groups, no_bias=True, **sizes)
        return self.add("BatchNorm", data, fix_gamma=False, eps=1e-5)

    def global_average(self, data):
        pooled = self.add("Pooling", data, pool_type="avg", kernel=(1, 1), global_pool=True)
        return self.add("Flatten", pooled)


def lenet(net, data):
    """The network of the example."""
    build = Builder(net)
    for filters in (20, 50):
        data = build.add("Convolution", data, kernel=(3, 3), pad=(1, 1), num_filter=filters)
        data = build.add("Pooling", build.relu(data), pool_type="max", kernel=(2, 2), stride=(2, 2))
    return build.relu(build.dense(build.add("Flatten", data), 128))


def mlp(net, data):
    build = Builder(net)
    for units in (128, 64):
        data = build.relu(build.dense(data, units))
    return data


# Channels of the narrow layers, number of blocks, stride of the first.
RESNET50 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))


def resnet50(net, data):
    """He et al. 2015, with the stride in the 3x3 convolution."""
    build = Builder(net)
    data = build.relu(build.convolution(data, 64, 7, 2))
    data = build.add("Pooling", data, pool_type="max", kernel=(3, 3), stride=(2, 2), pad=(1, 1))
    for width, blocks, first_stride in RESNET50:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            body = build.relu(build.convolution(data, width, 1))
            body = build.relu(build.convolution(body, width, 3, stride))
            body = build.convolution(body, 4 * width, 1)
            shortcut = build.convolution(data, 4 * width, 1, stride) if block == 0 else data
            data = build.relu(build.add("elemwise_add", body, shortcut))
    return build.global_average(data)


# Output channels and stride of each pair of a depthwise and a pointwise convolution.
MOBILENET = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))


def mobilenet(net, data):
    """Howard et al. 2017."""
    build = Builder(net)
    data, channels = build.relu(build.convolution(data, 32, 3, 2)), 32
    for filters, stride in MOBILENET:
        data = build.relu(build.convolution(data, channels, 3, stride, channels))
        data, channels = build.relu(build.convolution(data, filters, 1)), filters
    return build.global_average(data)


def lstm(net, data):
    """Two layers over (steps, batch, features); the state after the last step."""
    build = Builder(net)
    data = build.add("RNN", data, mode="lstm", state_size=256, num_layers=2)
    return build.add("SequenceLast", data)


BERT_WIDTH, BERT_HEADS, BERT_LAYERS = 768, 12, 4


def bert(net, data):
    """Four layers of the base size (Devlin et al. 2018) on embedded words; the first word's state."""
    build = Builder(net)

    def normalized(data):
        return build.add("LayerNorm", data, eps=1e-12)

    def heads(data):
        data = build.add("reshape", build.dense(data, BERT_WIDTH, flatten=False), shape=(0, 0, BERT_HEADS, -1))
        return build.add("reshape", build.add("transpose", data, axes=(0, 2, 1, 3)), shape=(-3, 0, 0))

    for _ in range(BERT_LAYERS):
        query, key, value = heads(data), heads(data), heads(data)
        scores = build.add("batch_dot", query, key, transpose_b=True)
        weights = build.add("softmax", build.add("_mul_scalar", scores, scalar=(BERT_WIDTH / BERT_HEADS) ** -0.5))
        joined = build.add("reshape", build.add("batch_dot", weights, value), shape=(-4, -1, BERT_HEADS, 0, 0))
        joined = build.add("reshape", build.add("transpose", joined, axes=(0, 2, 1, 3)), shape=(0, 0, -3))
        data = normalized(build.add("elemwise_add", data, build.dense(joined, BERT_WIDTH, flatten=False)))
        wide = build.add("LeakyReLU", build.dense(data, 4 * BERT_WIDTH, flatten=False), act_type="gelu")
        data = normalized(build.add("elemwise_add", data, build.dense(wide, BERT_WIDTH, flatten=False)))
    return build.add("Flatten", build.add("slice_axis", data, axis=1, begin=0, end=1))


NETWORKS = {
    "lenet": Network(lenet, (1, 8, 8), 10),
    "mlp": Network(mlp, (64,), 10),
    "resnet50": Network(resnet50, (3, 224, 224), 1000),
    "mobilenet": Network(mobilenet, (3, 224, 224), 1000),
    "lstm": Network(lstm, (32, 256), 10, batch_axis=1),
    "bert": Network(bert, (128, BERT_WIDTH), 10),
}


def classifier(net, model):
    """The network with a dense layer and SoftmaxOutput at its end."""
    network = NETWORKS[model]
    scores = net.apply("FullyConnected", "scores", [network.features(net, net.variable("data"))], num_hidden=network.classes)
    return net.apply("SoftmaxOutput", "softmax", [scores])
