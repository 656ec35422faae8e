"""Recurrent layers and cells inside hybridized blocks, whose first states are of unknown batch size, trained for a step."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

from record import record

x = np.random.RandomState(3).randn(5, 3, 4).astype("float32")


class Unrolled(gluon.HybridBlock):
    def __init__(self, cell, layout, merge, length, **kwargs):
        super().__init__(**kwargs)
        self.cell, self.layout, self.merge, self.length = cell, layout, merge, length

    def hybrid_forward(self, F, x):
        outputs, _ = self.cell.unroll(self.length, x, layout=self.layout, merge_outputs=self.merge)
        return outputs if self.merge else F.concat(*outputs, dim=-1)


def train(name, block, **flags):
    block.initialize()
    block.hybridize(**flags)
    data = nd.array(x)
    block(data)
    for i, parameter in enumerate(block.collect_params().values()):
        parameter.set_data(nd.array(np.random.RandomState(i).uniform(-0.5, 0.5, parameter.shape)))
    data.attach_grad()
    with autograd.record():
        y = block(data)
        loss = (y * y).sum()
    loss.backward()
    record(f"{name}/loss", loss)
    record(f"{name}/data", data.grad)
    for i, parameter in enumerate(block.collect_params().values()):
        record(f"{name}/gradient{i}", parameter.grad())


for kind in ("LSTM", "GRU", "RNN"):
    for layout in ("TNC", "NTC"):
        for static in (False, True):
            block = nn.HybridSequential()
            layer = getattr(rnn, kind)(6, num_layers=2, layout=layout, bidirectional=True)
            block.add(layer, nn.Dense(2, flatten=False))
            train(f"{kind}/{layout}/{static}", block, static_alloc=static, static_shape=static)


def stack():
    cells = rnn.HybridSequentialRNNCell()
    cells.add(rnn.LSTMCell(6))
    cells.add(rnn.GRUCell(5))
    return cells


for name, cell in {
    "lstm": lambda: rnn.LSTMCell(6),
    "gru": lambda: rnn.GRUCell(6),
    "rnn": lambda: rnn.RNNCell(6),
    "projected": lambda: gluon.contrib.rnn.LSTMPCell(6, 3),
    "residual": lambda: rnn.ResidualCell(rnn.GRUCell(4)),
    "zoneout": lambda: rnn.ZoneoutCell(rnn.LSTMCell(6), 0.0, 0.0),
    "stack": stack,
    "both": lambda: rnn.BidirectionalCell(rnn.LSTMCell(6), rnn.GRUCell(5)),
}.items():
    for layout, length in (("NTC", 3), ("TNC", 5)):
        for merge in (True, False):
            train(f"{name}/{layout}/{merge}", Unrolled(cell(), layout, merge, length))

# The symbols of the older cells, from which shapes are inferred only.
for cell in (mx.rnn.LSTMCell(6), mx.rnn.GRUCell(6), mx.rnn.FusedRNNCell(6, 2, "lstm", bidirectional=True)):
    outputs, _ = cell.unroll(3, mx.sym.var("data"), layout="NTC", merge_outputs=True)
    arguments, results, _ = outputs.infer_shape(data=(2, 3, 4))
    record(f"{type(cell).__name__}/shapes", str((arguments, results)))
