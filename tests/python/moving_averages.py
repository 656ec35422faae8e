"""When batch normalization layers update their moving averages: called, recorded, hybridized, bound and in a module."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

from record import record

random = np.random.RandomState(4)
x = random.randn(4, 3, 2, 2).astype("float32") * 2 + 1
head = nd.array(random.randn(4, 3, 2, 2))

OPERATORS = {
    "plain": lambda F, *a, **k: F.BatchNorm(*a, **k),
    "first": lambda F, *a, **k: F.BatchNorm_v1(*a, **k),
    "sync": lambda F, *a, **k: F.contrib.SyncBatchNorm(*a, ndev=1, key="key", **k),
}


def arrays():
    made = [nd.array(x), nd.array([1.5, 2, 0.5]), nd.array([0.1, 0.2, 0.3]), nd.array([0.0, 1, 2]), nd.array([1.0, 2, 3])]
    for array in made[:3]:
        array.attach_grad()
    return made


def keep(name, made):
    # MXNet's executors do not make readers of the states wait for the backward pass.
    nd.waitall()
    record(f"{name}/mean", made[3])
    record(f"{name}/var", made[4])


def called(name, norm):
    made = arrays()
    with autograd.train_mode():
        norm(nd, *made).wait_to_read()
    keep(f"{name}/train mode", made)
    with autograd.record():
        norm(nd, *made).wait_to_read()
    keep(f"{name}/recorded", made)
    with autograd.record():
        y, _ = norm(nd, *made), norm(nd, *made)
    y.backward(head, retain_graph=True)
    keep(f"{name}/backward", made)
    y.backward(head)
    keep(f"{name}/backward twice", made)
    with autograd.record():
        y = norm(nd, *made)
    y.backward(head, train_mode=False)
    keep(f"{name}/backward outside of training", made)
    for i, array in enumerate(made[:3]):
        record(f"{name}/gradient {i} outside of training", array.grad)


def bound(name, norm):
    symbol = norm(mx.sym, mx.sym.var("data"), name="bn")[0]
    for title, requests in {
        "write": "write",
        "null": "null",
        "add": "add",
        "data": {"data": "write", "bn_gamma": "null", "bn_beta": "null"},
        "gamma": {"data": "null", "bn_gamma": "write", "bn_beta": "null"},
    }.items():
        executor = symbol.simple_bind(mx.cpu(), data=x.shape, grad_req=requests)
        for target, source in zip(executor.arg_arrays + executor.aux_arrays, arrays()):
            target[:] = source
        made = [None] * 3 + executor.aux_arrays
        executor.forward(is_train=True)
        executor.forward(is_train=True)
        keep(f"{name}/{title}/forward", made)
        executor.backward([head])
        keep(f"{name}/{title}/backward", made)
        executor.backward([head])
        keep(f"{name}/{title}/backward twice", made)
        executor.forward(is_train=False)
        keep(f"{name}/{title}/inference", made)


for kind, operator in OPERATORS.items():
    for settings in ({}, {"fix_gamma": False}, {"fix_gamma": False, "use_global_stats": True}):
        def norm(F, *inputs, **more):
            return operator(F, *inputs, eps=1e-3, momentum=0.9, **settings, **more)

        title = f"{kind} {settings}"
        # Python calls the first version with the data only.
        if kind != "first":
            called(title, norm)
        bound(title, norm)

for mode, flags in (("imperative", None), ("hybrid", {}), ("static", {"static_alloc": True, "static_shape": True})):
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Conv2D(3, 1, in_channels=3), gluon.nn.BatchNorm(in_channels=3))
    net.initialize(mx.init.One())
    if flags is not None:
        net.hybridize(**flags)
    data = nd.array(x)
    mean = net[1].running_mean

    with autograd.record():
        y = net(data)
    record(f"{mode}/recorded", mean.data())
    y.backward()
    nd.waitall()
    record(f"{mode}/backward", mean.data())
    with autograd.record():
        net(data).detach().wait_to_read()
    record(f"{mode}/detached", mean.data())
    with autograd.record():
        y = net(data).sum()
    autograd.grad(y, [net[0].weight.data()], retain_graph=True)
    autograd.grad(y, [net[0].weight.data()])
    nd.waitall()
    record(f"{mode}/grad twice", mean.data())
    # Frozen layers keep their averages unless a gradient flows through them.
    net.collect_params().setattr("grad_req", "null")
    with autograd.record():
        net(data).wait_to_read()
    record(f"{mode}/frozen", mean.data())
    data.attach_grad()
    with autograd.record():
        y = net(data)
    y.backward()
    nd.waitall()
    record(f"{mode}/passed through", mean.data())

# Layers that are called several times before their backward pass, as discriminators are: the order of the updates matters.
for flags in (None, {}):
    for title, order in {"in order": (0, 1), "swapped": (1, 0), "three": (1, 2, 0)}.items():
        layer = gluon.nn.BatchNorm(in_channels=3, prefix="bn_")
        layer.initialize()
        if flags is not None:
            layer.hybridize()
        inputs = [nd.array(x * scale + scale) for scale in (1, 5, -3)]
        with autograd.record():
            outputs = [layer(data) for data in inputs]
            loss = sum((outputs[k] ** 2).sum() * (k + 1) for k in order)
        loss.backward()
        nd.waitall()
        record(f"several calls/{flags}/{title}/mean", layer.running_mean.data())
        record(f"several calls/{flags}/{title}/var", layer.running_var.data())
# The same in one graph.
shared = [mx.sym.var(f"bn_{name}") for name in ("gamma", "beta", "moving_mean", "moving_var")]
first, second = (mx.sym.BatchNorm(mx.sym.var(name), *shared) for name in "ab")
for title, total in {"in order": first**2 + second**2, "swapped": second**2 + first**2}.items():
    executor = total.simple_bind(mx.cpu(), a=x.shape, b=x.shape)
    for name, scale in (("a", 1), ("b", 5)):
        executor.arg_dict[name][:] = nd.array(x * scale + scale)
    executor.forward(is_train=True)
    executor.backward([head])
    nd.waitall()
    record(f"shared averages/{title}/mean", executor.aux_dict["bn_moving_mean"])

# No gradient flows through BlockGrad, but the averages before it are updated.
blocked = mx.sym.BlockGrad(mx.sym.BatchNorm(mx.sym.var("data"), name="bn"))
for requests in ("write", {"data": "write", "bn_gamma": "null", "bn_beta": "null"}):
    executor = blocked.simple_bind(mx.cpu(), data=x.shape, grad_req=requests)
    executor.arg_arrays[0][:] = x
    executor.forward(is_train=True)
    executor.backward([head])
    nd.waitall()
    record(f"blocked/{requests}", executor.aux_arrays[0])

penalty = mx.sym.IdentityAttachKLSparseReg(mx.sym.var("data"), name="kl", momentum=0.5, penalty=0.1)
executor = penalty.simple_bind(mx.cpu(), data=(2, 2), grad_req="write")
executor.arg_arrays[0][:] = nd.array([[0.2, 0.4], [0.6, 0.8]])
executor.aux_arrays[0][:] = nd.array([0.1, 0.2])
for is_train in (True, False):
    executor.forward(is_train=is_train)
    record(f"penalty {is_train}/forward", executor.aux_arrays[0])
    executor.backward([nd.ones((2, 2))], is_train=is_train)
    nd.waitall()
    record(f"penalty {is_train}/backward", executor.aux_arrays[0])
    record(f"penalty {is_train}/gradient", executor.grad_arrays[0])
