"""Operators whose output shapes depend on data, and sparse arrays: hybridized blocks, executors, training."""

import os
import tempfile

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

from record import record

data = np.array([[1, 0, 2], [0, 3, 0], [4, 5, 0]], "float32")
mask = np.array([1, 0, 1], "float32")


class Masked(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.inner, self.outer = nn.Dense(4, in_units=3), nn.Dense(2, in_units=4)

    def hybrid_forward(self, F, x, m):
        return self.outer(F.relu(F.contrib.boolean_mask(self.inner(x), m)))


net = Masked()
net.initialize(mx.init.One())
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
for _ in range(3):
    with autograd.record():
        loss = (net(nd.array(data), nd.array(mask)) ** 2).sum()
    loss.backward()
    trainer.step(1)
record("masked/loss", loss)
for i, parameter in enumerate(net.collect_params().values()):
    record(f"masked/parameter{i}", parameter.data())
record("masked/all", net(nd.array(data), nd.array([1, 1, 1])))
with tempfile.TemporaryDirectory() as folder:
    net.export(os.path.join(folder, "net"))
    files = [os.path.join(folder, name) for name in ("net-symbol.json", "net-0000.params")]
    loaded = gluon.SymbolBlock.imports(files[0], ["data0", "data1"], files[1])
    record("masked/imported", loaded(nd.array(data), nd.array(mask)))

symbol = mx.sym.contrib.boolean_mask(mx.sym.var("x"), mx.sym.var("m")) * 3
gradient = nd.zeros((3, 3))
executor = symbol.bind(mx.cpu(), {"x": nd.array(data), "m": nd.array(mask)}, {"x": gradient})
record("bound/output", executor.forward(is_train=True)[0])
executor.backward([nd.ones((2, 3))])
record("bound/gradient", gradient)


def numpy_block(name, function, *inputs):
    block = nn.HybridLambda(function)
    block.hybridize()
    arrays = [mx.np.array(x, dtype=x.dtype) for x in inputs]
    outputs = block(*arrays)
    for i, y in enumerate(outputs if isinstance(outputs, (list, tuple)) else [outputs]):
        record(f"{name}/{i}", y)


mx.npx.set_np()
numpy_block("nonzero", lambda F, x: F.npx.nonzero(F.np.abs(x)) + 1, data)
numpy_block("unique", lambda F, x: list(F.np.unique(x, return_index=True, return_inverse=True, return_counts=True)), data)
numpy_block("bincount", lambda F, x: F.np.bincount(x, minlength=2), np.array([0, 1, 5, 1]))
mx.npx.reset_np()


def stored(name, array):
    record(f"{name}/stype", array.stype)
    record(f"{name}/values", array)
    if array.stype != "default":
        record(f"{name}/indices", array.indices)


for stype in ("row_sparse", "csr"):
    sparse = nd.array(data).tostype(stype)
    for dtype in ("float64", "float16", "int32", "int8"):
        stored(f"{stype}/{dtype}", sparse.astype(dtype))
    stored(f"{stype}/quadratic", nd.contrib.quadratic(sparse, a=1, b=2))
    for op in ("relu", "sqrt", "exp", "sign", "square"):
        x = mx.sym.var("x", stype=stype)
        bound = getattr(mx.sym, op)(x).bind(mx.cpu(), {"x": sparse})
        stored(f"{stype}/{op}", bound.forward()[0])
    for other in ("row_sparse", "default"):
        if stype == "row_sparse" or other == "default":
            names = {"a": sparse, "b": nd.array(data * 2 + 1).tostype(other)}
            a, b = (mx.sym.var(name, stype=array.stype) for name, array in names.items())
            for op in (mx.sym.elemwise_add, mx.sym.elemwise_mul):
                stored(f"{stype}/{other}/{op.__name__}", op(a, b).bind(mx.cpu(), names).forward()[0])
    stored(f"{stype}/like", nd._internal._identity_with_attr_like_rhs(nd.array(data), sparse))
filled = nd.sparse.zeros("row_sparse", (3, 2))
filled[:] = 2
stored("filled", filled)


class Linear(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(3, 2), init="one", grad_stype="row_sparse")

    def hybrid_forward(self, F, x, weight):
        return F.sparse.dot(x, weight)


for hybridize in (False, True):
    net = Linear()
    net.initialize()
    if hybridize:
        net.hybridize()
    with autograd.record():
        y = net(nd.array(data).tostype("csr"))
        loss = (y * y).sum()
    loss.backward()
    record(f"linear/{hybridize}", y)
    stored(f"linear/{hybridize}/gradient", net.weight.grad())
