"""Outputs with a built-in loss, and the operators that start or stop gradients."""

import numpy as np

from cases import ALL, FLOATS, OpCase, data, whole


def cases():
    yield from softmax_output()
    for op in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
        yield from regression(op)
    yield from make_loss()
    yield from cross_entropy()


def softmax_output():
    for op in ("SoftmaxOutput", "Softmax"):
        for dtype in FLOATS:
            yield loss(op, data((3, 4), dtype), whole((3,), dtype, hi=3))
    for dtype in ("uint8", "int32", "int64", "bool"):
        yield OpCase("SoftmaxOutput", [data((3, 4), dtype), whole((3,), dtype, hi=1)])
    batch = data((4, 3)), np.array([0, 2, 1, 2], "float32")
    for attrs in ({"grad_scale": "0.5"}, {"normalization": "batch"}, {"normalization": "valid"},
                  {"use_ignore": True, "ignore_label": 2}, {"smooth_alpha": "0.1"}, {"out_grad": True},
                  {"use_ignore": True, "ignore_label": 2, "normalization": "valid"},
                  {"use_ignore": True, "ignore_label": 2, "normalization": "batch", "grad_scale": 3},
                  {"ignore_label": 2}, {"smooth_alpha": "0.1", "use_ignore": True, "ignore_label": 0},
                  {"out_grad": True, "grad_scale": "0.5"}):
        yield loss("SoftmaxOutput", *batch, attrs=attrs)
    volume = data((2, 3, 2)), whole((2, 2), hi=2)
    for attrs in ({"multi_output": True}, {"multi_output": True, "normalization": "valid"},
                  {"multi_output": True, "use_ignore": True, "ignore_label": 1, "normalization": "valid"},
                  {"multi_output": True, "normalization": "batch"}, {"multi_output": True, "out_grad": True},
                  {"multi_output": True, "smooth_alpha": "0.2"}):
        yield loss("SoftmaxOutput", *volume, attrs=attrs)
    yield loss("SoftmaxOutput", data((2, 3, 2)), whole((2, 3), hi=1), attrs={"preserve_shape": True})
    yield loss("SoftmaxOutput", data((2, 3, 2)), whole((2,), hi=2), why="axes after the first are flattened")
    yield loss("SoftmaxOutput", data((3, 4)), data((3, 4), lo=0, hi=1), why="label is a distribution")
    yield loss("SoftmaxOutput", *batch, req="add")
    yield OpCase("SoftmaxOutput", list(batch))
    yield loss("SoftmaxOutput", data((2, 3)), np.array([0, 5], "float32"), why="label outside")
    yield loss("SoftmaxOutput", data((2, 3)), np.array([-1, 1], "float32"), why="label below zero")
    yield loss("SoftmaxOutput", data((2, 3)), np.array([1.75, 1.25], "float32"), why="label between")
    yield OpCase("SoftmaxOutput", [data((2, 3)), data((3,))], why="label of another length")
    yield OpCase("SoftmaxOutput", list(batch), {"normalization": "sum"}, why="no such normalization")
    yield OpCase("SoftmaxOutput", list(batch), {"smooth_alpha": 2}, why="smoothing above one")
    for normalization in ("null", "valid"):
        yield loss("SoftmaxOutput", *volume, attrs={"multi_output": True, "preserve_shape": True, "normalization": normalization})


def loss(op, values, label, attrs=None, **more):
    """A case in training mode. MXNet leaves the gradient of the label as it was, so it is not asked for."""
    return OpCase(op, [values, label], attrs or {}, train=True, grad=["data"], **more)


def regression(op):
    for dtype in FLOATS:
        yield loss(op, data((3, 2), dtype), data((3, 2), dtype, seed=1))
    for dtype in ("uint8", "int32", "int64", "bool"):
        yield OpCase(op, [data((3, 2), dtype), data((3, 2), dtype, seed=1)])
    for scale in ("0.5", 0, -2):
        yield loss(op, data((3, 2)), data((3, 2), seed=1), attrs={"grad_scale": scale})
    for values, label in (((3, 1), (3,)), ((4,), (4,)), ((2, 3, 2), (2, 3, 2)), ((3, 1), (3, 1)), ((2, 3), (2, 3, 1)),
                          ((2, 3), (6,)), ((2, 3), (2,))):
        yield loss(op, data(values), data(label, seed=1))
    yield loss(op, data((3, 2)), data((3, 2), seed=1), req="add")
    yield loss(op, data((3, 2)), data((3, 2)), why="no error at all")
    yield OpCase(op, [data((3, 2)), data((3, 2), seed=1)])


def make_loss():
    for dtype in ALL:
        yield OpCase("MakeLoss", [data((3, 2), dtype)], train=True, grad="all" if dtype in FLOATS else None)
    for attrs in ({"grad_scale": "0.5"}, {"normalization": "batch"}, {"normalization": "valid"},
                  {"normalization": "valid", "valid_thresh": "0.5", "grad_scale": 2}, {"grad_scale": -1}):
        yield OpCase("MakeLoss", [data((3, 2))], attrs, train=True, grad="all")
    yield OpCase("MakeLoss", [data((3, 2))], train=True, grad="all", req="add")
    yield OpCase("MakeLoss", [data((3, 2))])
    for shape in [(4,), (2, 3, 2), (2, 1, 3, 2)]:
        yield OpCase("MakeLoss", [data(shape)], {"normalization": "batch", "grad_scale": 2}, train=True, grad="all")
    for op in ("make_loss", "BlockGrad", "stop_gradient", "_sparse_make_loss"):
        yield OpCase(op, [data((3, 2))], train=True, grad="all")
        yield OpCase(op, [data((3, 2))], train=True, grad="all", req="add")


def cross_entropy():
    for dtype in ("float32", "float64"):
        yield OpCase("softmax_cross_entropy", [data((3, 4), dtype), whole((3,), dtype, hi=3)], train=True,
                     grad=["data"])
