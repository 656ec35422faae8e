"""Loops and branches: mx.nd.contrib and mx.sym.contrib, called, hybridized and bound; operators that Python defines."""

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

from record import record

random = np.random.RandomState(3)


class Recurrence(gluon.HybridBlock):
    """A layer over the steps of a sequence, then growth to a bound, then a branch."""

    def __init__(self, **options):
        super().__init__(**options)
        with self.name_scope():
            self.dense = nn.Dense(4, in_units=4, flatten=False)

    def hybrid_forward(self, F, x, state):
        def step(row, states):
            out = self.dense(row) + states[0]
            return out, [F.tanh(out)]

        def is_small(count, value):
            return F.broadcast_lesser(F.sum(value * value).reshape((1,)), F.ones((1,)) * 50) * (count < 5)

        def grow(count, value):
            return None, (count + 1, value * 1.5)

        rows, last = F.contrib.foreach(step, x, [state])
        _, (count, value) = F.contrib.while_loop(is_small, grow, (F.zeros((1,)), last[0]), max_iterations=6)
        result = F.contrib.cond(F.sum(value) > 0, lambda: value * 2, lambda: value - 1)
        return rows, result, count


x, state = nd.array(random.randn(5, 2, 4)), nd.array(random.randn(2, 4))
weight = nd.array(random.uniform(-0.4, 0.4, (4, 4)))
for mode, options in (("imperative", None), ("hybrid", {}), ("static", {"static_alloc": True, "static_shape": True})):
    net = Recurrence(prefix="net_")
    net.initialize()
    net.dense.weight.set_data(weight)
    if options is not None:
        net.hybridize(**options)
    with autograd.record():
        rows, result, count = net(x, state)
        loss = (rows * rows).sum() + result.sum()
    loss.backward()
    record(f"{mode}/rows", rows)
    record(f"{mode}/result", result)
    record(f"{mode}/count", count)
    # MXNet leaves gradients through a hybridized while_loop undefined.
    if mode == "imperative":
        record(f"{mode}/gradient", net.dense.weight.grad())

data, first, second = (mx.sym.var(name) for name in ("data", "first", "second"))
rows, states = mx.sym.contrib.foreach(lambda d, s: (d * s[0] + s[1], [s[0] + d, s[1] * 0.5]), data, [first, second])
group = mx.sym.Group([rows] + states)
record("foreach/arguments", group.list_arguments())
executor = group.simple_bind(mx.cpu(), data=(3, 2), first=(2,), second=(2,), grad_req="add")
for array in executor.arg_arrays:
    array[:] = nd.array(random.randn(*array.shape))
for _ in range(2):
    executor.forward(is_train=True)
    executor.backward([nd.ones_like(o) for o in executor.outputs])
for name, arrays in (("outputs", executor.outputs), ("gradients", executor.grad_arrays)):
    for i, array in enumerate(arrays):
        record(f"foreach/{name}/{i}", array)
loaded = mx.sym.load_json(group.tojson())
record("foreach/loaded", loaded.bind(mx.cpu(), executor.arg_dict).forward()[0])


class Scale(mx.operator.CustomOp):
    def __init__(self, scale):
        self.scale = scale

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * self.scale)
        self.assign(out_data[1], req[1], in_data[0] > 0)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * self.scale)


@mx.operator.register("scale_and_sign")
class ScaleProp(mx.operator.CustomOpProp):
    def __init__(self, scale="1"):
        super().__init__(need_top_grad=True)
        self.scale = float(scale)

    def list_outputs(self):
        return ["scaled", "is_positive"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0], in_shape[0]], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Scale(self.scale)


class Scaled(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        scaled, is_positive = F.Custom(F.tanh(x), op_type="scale_and_sign", scale=3)
        return F.relu(scaled) + is_positive


x = nd.array(random.randn(3, 4))
x.attach_grad()
for mode in ("imperative", "hybrid"):
    net = Scaled()
    if mode == "hybrid":
        net.hybridize()
    with autograd.record():
        y = net(x)
    y.backward()
    record(f"custom/{mode}", y)
    record(f"custom/{mode}/gradient", x.grad)
symbol = mx.sym.Custom(mx.sym.var("data") * 2, op_type="scale_and_sign", name="mine", scale=0.5)
record("custom/outputs", symbol.list_outputs())
for request in ("write", "add"):
    executor = symbol.simple_bind(mx.cpu(), data=(3, 4), grad_req=request)
    executor.arg_dict["data"][:] = x
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward([nd.ones((3, 4)), nd.zeros((3, 4))])
    record(f"custom/{request}", executor.outputs[0])
    record(f"custom/{request}/gradient", executor.grad_arrays[0])
try:
    nd.Custom(x, op_type="nonesuch").wait_to_read()
    record("custom/unknown", "accepted")
except mx.MXNetError:
    record("custom/unknown", "refused")

# Nested loops and branches: both bodies read a variable of the outer loop, and a variable outside of both.


def grow_by_branch(count, value):
    halved = mx.sym.contrib.cond(mx.sym.sum(value) > 10, lambda: value / 2, lambda: value * 3 + second)
    return [halved], [count + 1, halved]


def sum_rows(row, total):
    rows, last = mx.sym.contrib.foreach(lambda d, s: (d * s + total + first, s + d), row, second)
    return rows, total + last


branches, _ = mx.sym.contrib.while_loop(lambda count, value: count < 4, grow_by_branch, [data, first], max_iterations=4)
rows, total = mx.sym.contrib.foreach(sum_rows, data, first)
for name, nested, shapes in (
    ("branch in loop", branches[0], {"data": (1,), "first": (2,), "second": (2,)}),
    ("loop in loop", mx.sym.Group([rows, total]), {"data": (3, 2, 4), "first": (4,), "second": (4,)}),
):
    record(f"{name}/arguments", nested.list_arguments())
    for way, symbol in (("composed", nested), ("loaded", mx.sym.load_json(nested.tojson()))):
        values = np.random.RandomState(1)
        given = {key: nd.array(values.uniform(0, 1, shape)) for key, shape in shapes.items()}
        if name == "branch in loop":
            given["data"][:] = 0
        # MXNet cannot differentiate nested loops and branches.
        for k, output in enumerate(symbol.bind(mx.cpu(), given, grad_req="null").forward()):
            record(f"{name}/{way}/output {k}", output)
