"""Layers of Gluon, called one operator at a time and as a compiled graph, with gradients."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

from record import record

random = np.random.RandomState(7)


def fill(block):
    for name in sorted(block.collect_params()):
        parameter = block.collect_params()[name]
        values = random.uniform(-0.5, 0.5, parameter.shape)
        if "var" in name or "gamma" in name:
            values = np.abs(values) + 0.5
        parameter.set_data(nd.array(values, dtype=parameter.dtype))


def run(name, block, *inputs, inputs_need_grad=True):
    block.initialize()
    arrays = [nd.array(x) for x in inputs]
    block(*arrays)
    fill(block)
    results = {}
    for mode in ("imperative", "hybrid", "static"):
        if mode == "hybrid":
            block.hybridize()
        if mode == "static":
            block.hybridize(static_alloc=True, static_shape=True)
        for x in arrays if inputs_need_grad else []:
            x.attach_grad()
        record(f"{name}/{mode}/predict", block(*arrays))
        with autograd.record():
            y = block(*arrays)
            loss = (y * y).sum()
        loss.backward()
        results[mode] = [x.grad.asnumpy() for x in arrays if inputs_need_grad]
        for parameter in block.collect_params().values():
            if parameter.grad_req != "null":
                results[mode].append(parameter.grad().asnumpy())
        record(f"{name}/{mode}/loss", loss)
        for i, gradient in enumerate(results[mode]):
            record(f"{name}/{mode}/gradient{i}", gradient)


x2 = random.randn(4, 6)
x4 = random.randn(2, 3, 9, 9)
run("dense", nn.Dense(5, activation="tanh", prefix="d_"), x2)
run("conv", nn.Conv2D(4, 3, strides=2, padding=1, activation="relu", prefix="c_"), x4)
run("conv1d", nn.Conv1D(4, 3, prefix="c1_"), random.randn(2, 3, 9))
run("deconv", nn.Conv2DTranspose(4, 3, strides=2, prefix="t_"), x4)
run("norm", nn.BatchNorm(prefix="b_"), x4)
run("layernorm", nn.LayerNorm(prefix="l_"), x2)
run("instancenorm", nn.InstanceNorm(prefix="i_"), x4)
run("groupnorm", nn.GroupNorm(num_groups=1, prefix="g_"), x4)
run("pool", nn.MaxPool2D(3, 2), x4)
run("average", nn.GlobalAvgPool2D(), x4)
run("embedding", nn.Embedding(10, 3, prefix="e_"), random.randint(0, 10, (3, 4)), inputs_need_grad=False)
for kind in ("PReLU", "ELU", "GELU", "Swish"):
    run(kind, getattr(nn, kind)(prefix=kind.lower() + "_"), x2)
net = nn.HybridSequential(prefix="net_")
with net.name_scope():
    net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.Flatten(), nn.Dense(3))
run("sequential", net, x4)
seq = random.randn(5, 2, 4)
run("lstm", rnn.LSTM(3, num_layers=2, bidirectional=True, prefix="lstm_"), seq)
run("gru", rnn.GRU(3, prefix="gru_"), seq)
run("rnn", rnn.RNN(3, activation="tanh", prefix="rnn_"), seq)


class Residual(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.Dense(6, flatten=False)
            self.scale = self.params.get("scale", shape=(6,))

    def hybrid_forward(self, F, x, scale):
        return F.broadcast_mul(F.relu(self.body(x)), scale) + x


run("residual", Residual(prefix="r_"), x2)

cell = rnn.LSTMCell(3, prefix="cell_")
cell.initialize()
inputs = nd.array(random.randn(2, 5, 4))
cell.unroll(5, inputs)
fill(cell)
outputs, states = cell.unroll(5, inputs, merge_outputs=True)
record("cell/outputs", outputs)
for i, state in enumerate(states):
    record(f"cell/state{i}", state)

for loss in ("L2Loss", "L1Loss", "SoftmaxCrossEntropyLoss", "SigmoidBinaryCrossEntropyLoss", "KLDivLoss", "HuberLoss"):
    function = getattr(gluon.loss, loss)()
    prediction = nd.array(np.abs(random.rand(4, 3)))
    label = nd.array([0, 1, 2, 1]) if loss.startswith("Softmax") else nd.array(np.abs(random.rand(4, 3)))
    record(f"loss/{loss}", function(prediction, label))

# Dropout is the identity outside of training.
dropout = nn.Dropout(0.5)
record("dropout", dropout(nd.array(x2)))
with autograd.record():
    kept = (dropout(nd.ones((1000,))) != 0).mean().asscalar()
assert 0.4 < kept < 0.6, kept

# The names of arrays and operators that a hook of a hybridized network sees.
block = nn.HybridSequential(prefix="net_")
with block.name_scope():
    block.add(nn.Conv2D(2, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Dense(3))
    block.add(nn.HybridLambda(lambda F, x: F.concat(x * 2, F.split(x, 3, axis=1)[0], F.softmax(x), F.sum(x, axis=1, keepdims=True))))
block.initialize(mx.init.One())
for inputs_too in (False, True):
    seen = []
    block.register_op_hook(lambda name, op, _, seen=seen: seen.append((name.decode(), op.decode())), inputs_too)
    block.hybridize()
    block(nd.ones((1, 2, 6, 6)))
    nd.waitall()
    record(f"hooks/{inputs_too}", seen)

block = nn.Dense(2, in_units=3)
block.initialize()
block.hybridize(static_shape=True)
try:
    block(nd.ones((1, 3)))
    record("static shapes without static memory", "accepted")
except mx.MXNetError:
    record("static shapes without static memory", "refused")
