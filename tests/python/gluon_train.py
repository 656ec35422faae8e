"""Training with Gluon: every optimizer through Trainer, schedules, saved states, a DataLoader with workers."""

import os
import tempfile

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

from record import record

random = np.random.RandomState(3)
data = random.randn(64, 8).astype("float32")
target = (data @ random.randn(8, 1) > 0).astype("float32").reshape(-1)


def network():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(16, activation="relu", in_units=8), nn.Dense(2, in_units=16))
    net.initialize()
    values = np.random.RandomState(5)
    for name in sorted(net.collect_params()):
        parameter = net.collect_params()[name]
        parameter.set_data(nd.array(values.uniform(-0.3, 0.3, parameter.shape)))
    return net


def train(net, trainer, steps=8):
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for step in range(steps):
        rows = slice(step % 4 * 16, step % 4 * 16 + 16)
        x, y = nd.array(data[rows]), nd.array(target[rows])
        with autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(16)
        losses.append(value.mean().asscalar())
    return losses


OPTIMIZERS = {
    "sgd": {"momentum": 0.9, "wd": 0.01},
    "nag": {"momentum": 0.9},
    "adam": {},
    "adamax": {},
    "nadam": {},
    "adagrad": {},
    "adadelta": {},
    "rmsprop": {"centered": True},
    "ftrl": {},
    "ftml": {},
    "signum": {"momentum": 0.9},
    "lamb": {},
    "lars": {"momentum": 0.9},
    "adabelief": {},
    "lans": {},
    "dcasgd": {},
}
for name, options in OPTIMIZERS.items():
    net = network()
    net.hybridize()
    try:
        trainer = gluon.Trainer(net.collect_params(), name, dict(options, learning_rate=0.05))
    except (ValueError, TypeError) as e:
        record(f"{name}/refused", type(e).__name__)
        continue
    record(f"{name}/losses", train(net, trainer))
    record(f"{name}/weight", net[0].weight.data())

# A learning rate schedule, a saved and restored trainer, accumulated gradients.
net = network()
schedule = mx.lr_scheduler.FactorScheduler(step=3, factor=0.5, base_lr=0.1)
trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9, "lr_scheduler": schedule})
train(net, trainer, 5)
with tempfile.TemporaryDirectory() as folder:
    trainer.save_states(os.path.join(folder, "trainer"))
    net.save_parameters(os.path.join(folder, "net.params"))
    other = network()
    other.load_parameters(os.path.join(folder, "net.params"))
    again = gluon.Trainer(other.collect_params(), "sgd", {"momentum": 0.9, "lr_scheduler": schedule})
    train(other, again, 1)
    other.load_parameters(os.path.join(folder, "net.params"))
    again.load_states(os.path.join(folder, "trainer"))
    record("resumed/first", train(net, trainer, 3))
    net.hybridize()
    net(nd.array(data[:2]))
    net.export(os.path.join(folder, "exported"), epoch=4)
    loaded = gluon.SymbolBlock.imports(
        os.path.join(folder, "exported-symbol.json"), ["data"], os.path.join(folder, "exported-0004.params")
    )
    record("exported", loaded(nd.array(data[:2])))
    np.testing.assert_allclose(loaded(nd.array(data[:2])).asnumpy(), net(nd.array(data[:2])).asnumpy(), rtol=1e-5)

net = network()
for parameter in net.collect_params().values():
    parameter.grad_req = "add"
for _ in range(2):
    with autograd.record():
        value = net(nd.array(data[:4])).sum()
    value.backward()
record("added", net[1].weight.grad())

dataset = gluon.data.ArrayDataset(data, target)
record("dataset/sum", sum(x.sum().asscalar() for x, _ in gluon.data.DataLoader(dataset, batch_size=10)))
record("dataset/sizes", [len(y) for _, y in gluon.data.DataLoader(dataset, batch_size=10, last_batch="rollover")])
transformed = dataset.transform_first(lambda x: x * 2)
record("dataset/transformed", sum(float(x.sum().asscalar()) for x, _ in gluon.data.DataLoader(transformed, 16)))
loader = gluon.data.DataLoader(dataset, batch_size=16, num_workers=2, thread_pool=True)
record("dataset/threads", [x.sum().asscalar() for x, _ in loader])

clipped = [nd.array([3.0, 4.0]), nd.array([12.0])]
record("clip", gluon.utils.clip_global_norm(clipped, 1.0))
record("clip/arrays", np.concatenate([x.asnumpy() for x in clipped]))
parts = gluon.utils.split_and_load(nd.array(data), [mx.cpu(0), mx.cpu(1)])
record("split", [p.sum().asscalar() for p in parts])

# Two devices that share a store.
net = network()
net.collect_params().reset_ctx([mx.cpu(0), mx.cpu(1)])
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore="device")
loss = gluon.loss.SoftmaxCrossEntropyLoss()
for step in range(3):
    xs = gluon.utils.split_and_load(nd.array(data[:32]), [mx.cpu(0), mx.cpu(1)])
    ys = gluon.utils.split_and_load(nd.array(target[:32]), [mx.cpu(0), mx.cpu(1)])
    with autograd.record():
        values = [loss(net(x), y) for x, y in zip(xs, ys)]
    autograd.backward(values)
    trainer.step(32)
record("devices/weight", net[0].weight.data(mx.cpu(0)))
np.testing.assert_array_equal(net[0].weight.data(mx.cpu(0)).asnumpy(), net[0].weight.data(mx.cpu(1)).asnumpy())
