"""Every optimizer for some steps, with a change of the learning rate, its states saved and loaded; sparse gradients."""

import os
import tempfile

import mxnet as mx
import numpy as np
import scipy.sparse
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

from record import record

random = np.random.RandomState(5)
inputs, labels = nd.array(random.randn(16, 5)), nd.array(random.randint(0, 3, 16))
weights = [nd.array(random.uniform(-0.4, 0.4, shape)) for shape in ((8, 5), (3, 8))]
states = os.path.join(tempfile.mkdtemp(), "states")


def network():
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="tanh", in_units=5), nn.Dense(3, in_units=8))
    net.initialize(mx.init.Zero())
    for layer, weight in zip(net, weights):
        layer.weight.set_data(weight)
    net.hybridize()
    return net


def train(name, optimizer, **options):
    net = network()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.05, **options})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for step in range(6):
        if step == 3:
            trainer.set_learning_rate(0.02)
            trainer.save_states(states)
            trainer.load_states(states)
        with autograd.record():
            loss = loss_of(net(inputs), labels)
        loss.backward()
        trainer.step(16)
    record(f"{name}/loss", loss)
    for i, layer in enumerate(net):
        record(f"{name}/weight{i}", layer.weight.data())
        record(f"{name}/bias{i}", layer.bias.data())


for name in ("sgd", "nag", "adam", "adagrad", "rmsprop", "adadelta", "adamax", "nadam", "ftrl", "ftml", "signum", "dcasgd", "lars", "lamb"):
    train(name, name)
train("momentum", "sgd", momentum=0.9, wd=1e-3)
train("nesterov", "nag", momentum=0.9)
train("centered", "rmsprop", centered=True)
train("decay", "adam", wd=0.01, lazy_update=False)
train("clipped", "sgd", clip_gradient=0.01)

embedding = nn.Embedding(8, 3, sparse_grad=True)
embedding.initialize()
for name, options in (("sgd", {"momentum": 0.9}), ("adam", {}), ("ftrl", {}), ("sgd", {"lazy_update": False})):
    embedding.weight.set_data(nd.array(random.randn(8, 3)))
    trainer = gluon.Trainer(embedding.collect_params(), name, {"learning_rate": 0.1, "wd": 0.01, **options}, kvstore=None)
    for step in range(3):
        with autograd.record():
            loss = (embedding(nd.array([1, 3, 3, 1 + step])) ** 2).sum()
        loss.backward()
        trainer.step(1)
    record(f"sparse/{name}{sorted(options)}", embedding.weight.data())
    record(f"sparse/{name}{sorted(options)}/rows", embedding.weight.grad().indices)

# A module on csr data with a row_sparse weight.
data = mx.sym.var("data", stype="csr")
product = mx.sym.sparse.dot(data, mx.sym.var("row_weight", stype="row_sparse", shape=(6, 2)))
network = mx.sym.SoftmaxOutput(mx.sym.broadcast_add(product, mx.sym.var("row_bias", shape=(2,))), name="softmax")
matrix = nd.sparse.csr_matrix(scipy.sparse.random(20, 6, 0.4, "csr", dtype="float32", random_state=1))
batches = mx.io.NDArrayIter(matrix, random.randint(0, 2, 20).astype("float32"), 5, last_batch_handle="discard")
module = mx.mod.Module(network)
module.bind(batches.provide_data, batches.provide_label)
module.init_params(mx.init.Constant(0.1))
module.init_optimizer(kvstore="local", optimizer="sgd", optimizer_params={"learning_rate": 0.5})
for batch in batches:
    module.prepare(batch, sparse_row_id_fn=lambda b: {"row_weight": b.data[0].indices})
    module.forward_backward(batch)
    module.update()
for name, array in module.get_params()[0].items():
    record(f"module/{name}", array)
