"""Writes the graphs and parameters that capi_start.c measures: python3 start_graphs.py FOLDER, with a Python that has mxnet 1.9.1."""

import os
import sys

import mxnet as mx
from mxnet.gluon.model_zoo import vision

WIDTH, HEADS = 256, 4


def resnet50(folder):
    network = vision.resnet50_v1()
    network.initialize(mx.init.Xavier())
    network.hybridize()
    network(mx.nd.zeros((1, 3, 224, 224)))
    network.export(os.path.join(folder, "resnet50"), 0)
    return mx.sym.load(os.path.join(folder, "resnet50-symbol.json"))


def unrolled_lstm(steps):
    outputs, _ = mx.rnn.LSTMCell(128, prefix="lstm_").unroll(steps, mx.sym.var("data"), layout="NTC", merge_outputs=True)
    return mx.sym.FullyConnected(outputs, num_hidden=10, name="classes")


def encoder_layer(x, i):
    def dense(data, name, num_hidden):
        return mx.sym.FullyConnected(data, num_hidden=num_hidden, flatten=False, name=f"layer{i}_{name}")

    def split(data):
        heads = mx.sym.transpose(mx.sym.reshape(data, shape=(0, 0, HEADS, -1)), axes=(0, 2, 1, 3))
        return mx.sym.reshape(heads, shape=(-3, 0, 0))

    query, key, value = (split(dense(x, name, WIDTH)) for name in ("query", "key", "value"))
    scale = (WIDTH // HEADS) ** -0.5
    attention = mx.sym.Dropout(mx.sym.softmax(mx.sym.batch_dot(query, key, transpose_b=True) * scale), p=0.1)
    context = mx.sym.reshape(mx.sym.batch_dot(attention, value), shape=(-4, -1, HEADS, 0, 0))
    context = mx.sym.reshape(mx.sym.transpose(context, axes=(0, 2, 1, 3)), shape=(0, 0, -3))
    x = mx.sym.LayerNorm(x + dense(context, "projection", WIDTH), name=f"layer{i}_norm1")
    hidden = mx.sym.LeakyReLU(dense(x, "hidden", 4 * WIDTH), act_type="gelu")
    return mx.sym.LayerNorm(x + dense(hidden, "output", WIDTH), name=f"layer{i}_norm2")


def encoder(num_layers):
    x = mx.sym.var("data")
    for i in range(num_layers):
        x = encoder_layer(x, i)
    return mx.sym.FullyConnected(x, num_hidden=2, name="classes")


def chain(num_nodes):
    x = mx.sym.var("data")
    for i in range(num_nodes // 4):
        x = mx.sym.elemwise_add(mx.sym.tanh(x), mx.sym.var(f"w{i}"))
        if i % 8 == 7:
            x = mx.sym.FullyConnected(x, num_hidden=16, no_bias=True, name=f"dense{i}")
    return x


def main(folder):
    graphs = {  # shapes of `data`: 1,3,224,224 / 8,200,128 / 2,32,256 / 2,16
        "resnet50-training": mx.sym.SoftmaxOutput(resnet50(folder), name="softmax"),
        "lstm200": mx.sym.SoftmaxOutput(unrolled_lstm(200), name="softmax"),
        "encoder12": mx.sym.SoftmaxOutput(encoder(12), name="softmax"),
        "chain1000": mx.sym.LinearRegressionOutput(chain(1000), name="softmax"),
        "chain10000": mx.sym.LinearRegressionOutput(chain(10000), name="softmax"),
    }
    for name, graph in graphs.items():
        graph.save(os.path.join(folder, f"{name}-symbol.json"))


if __name__ == "__main__":
    main(sys.argv[1])
