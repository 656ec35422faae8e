"""Networks with loops and branches: lists, saved JSON, inference through their graphs."""

from cases import GraphCase


def foreach(mx):
    sym = mx.sym
    data, state, weight = sym.Variable("data"), sym.Variable("state"), sym.Variable("weight")
    scale = sym.exp(weight, name="scale")

    def body(row, before):
        hidden = sym.FullyConnected(row, weight=weight, num_hidden=3, no_bias=True, name="fc") + before
        return [sym.tanh(hidden), hidden * 2], sym.broadcast_add(hidden, sym.sum(scale, keepdims=True))

    outputs, last = sym.contrib.foreach(body, data, state)
    return sym.Group(outputs + [last])


def nested(mx):
    sym = mx.sym
    rows, total = sym.Variable("rows"), sym.Variable("total")

    def inner(cell, sum_):
        return cell + sum_, cell + sum_

    def outer(row, sum_):
        outputs, last = sym.contrib.foreach(inner, row, sum_)
        return outputs * 2, last

    outputs, last = sym.contrib.foreach(outer, rows, total)
    return sym.Group([outputs, last])


def while_loop(mx):
    sym = mx.sym
    count, value, step = sym.Variable("count"), sym.Variable("value"), sym.Variable("step")
    outputs, last = sym.contrib.while_loop(
        lambda i, x: i < 3,
        lambda i, x: (x * 2, [i + 1, sym.broadcast_add(x, step * i)]),
        [count, value],
        max_iterations=5,
    )
    return sym.Group([outputs] + last)


def branch(mx):
    sym = mx.sym
    a, b = sym.Variable("a"), sym.Variable("b")
    return sym.contrib.cond(sym.sum(a) < sym.sum(b), lambda: a * 2 + b, lambda: sym.broadcast_mul(a, b))


def cases():
    yield GraphCase("foreach", foreach, {"data": (4, 2, 5), "state": (2, 3)})
    yield GraphCase("foreach_types", foreach, {"data": (4, 2, 5)}, {"data": "float64"})
    yield GraphCase("foreach_mismatch", foreach, {"data": (4, 2, 5), "state": (3, 3)})
    yield GraphCase("nested", nested, {"rows": (3, 4, 2), "total": (2,)})
    yield GraphCase("while_loop", while_loop, {"count": (1,), "value": (2, 3), "step": (1,)}, {"value": "float32"})
    yield GraphCase("while_loop_without_shapes", while_loop, {})
    yield GraphCase("cond", branch, {"a": (2, 3), "b": (2, 3)}, {"a": "float32"})
