"""Arrays without elements or dimensions in the legacy semantics, rows of vectors, and unusual calls that MXNet accepts."""

import mxnet as mx
import numpy as np
from mxnet import autograd, nd

from record import record

for name, array in (
    ("nothing", nd.array([])),
    ("empty", nd.empty((2, 0))),
    ("no_rows", nd.array(np.zeros((0, 3)))),
    ("full", nd.full((0,), 3)),
    ("scalar", nd.array(3.0)),
    ("reshaped", nd.array(np.zeros((0, 3))).reshape((-1, 3))),
    ("sum", nd.array(np.zeros((0, 3))).sum(axis=0)),
    ("csr", nd.sparse.csr_matrix(([], [], [0, 0, 0]), shape=(2, 3))),
    ("numpy_scalar", mx.np.array(3.0)),
    ("numpy_integer", mx.np.array(5, dtype="int32")),
    ("numpy_nothing", mx.np.array([])),
    ("legacy_row", nd.array([1, 2, 3])[1]),
):
    record(name, array)
    record(name + "_shape", array.shape)
record("float", float(mx.np.array(2.5)))
record("length", len(nd.empty((0, 2))))
x = nd.array([])
x[:] = 3
record("filled_nothing", x)

record("rounded", nd.amp_cast(nd.array([1.5, -2.7, 300, -5, 2.5]), dtype="int32"))
record("rounded_int8", nd.amp_cast(nd.array([1.5, -2.7, 300, -500, 2.5]), dtype="int8"))
record("rounded_uint8", nd.amp_cast(nd.array([1.5, -2.7, 300, -5, 2.5]), dtype="uint8"))
record("lrn_window_of_4", nd.LRN(nd.arange(32).reshape((1, 8, 2, 2)), nsize=4))
record("lrn_window_of_2", nd.LRN(nd.arange(32).reshape((1, 8, 2, 2)), nsize=2))
record("unknown_parameter", nd.broadcast_maximum(nd.array([1, 2]), nd.array([2, 1]), axis=1))
loss = mx.gluon.loss.CosineEmbeddingLoss()
record("cosine_embedding", loss(nd.array([[1.0, 2]]), nd.array([[2.0, 1]]), nd.array([1])))
record("ctc_padding", nd.CTCLoss(nd.arange(40).reshape((4, 2, 5)) / 10, nd.array([[1, -1, -1], [2, 1, -1]]), blank_label="last"))

beyond = nd.array([1e30, -1e30, np.nan, np.inf, 3e9, -3e9, 300, 200.5, -129])
for dtype in ("int8", "uint8", "int32", "int64"):
    record("beyond_" + dtype, beyond.astype(dtype))
for name, slopes in (("rows", nd.array([0.5, 2])), ("matrix", nd.array([[1, 2, 3], [4, 5, 6]]))):
    record("slopes_of_" + name, nd.LeakyReLU(-nd.arange(6).reshape((2, 3)), slopes, act_type="prelu"))
for name, call in (
    ("named_count", lambda: nd.stack(nd.ones(2), nd.ones(2), num_args=8)),
    ("empty_result", lambda: nd.log1p(nd.array([]))),
    ("fraction_beyond_the_end", lambda: nd.gather_nd(nd.arange(6).reshape((2, 3)), nd.array([[1.06], [0]]))),
):
    try:
        call().wait_to_read()
        record(name + "_refused", False)
    except (mx.base.MXNetError, IndexError):
        record(name + "_refused", True)

weight, history = nd.array([[1.0, 2], [3, 4]]).tostype("row_sparse"), nd.zeros((2, 2)).tostype("row_sparse")
step = mx.optimizer.create("adagrad", learning_rate=0.1, eps=1.0)
step.update(0, weight, nd.array([[0.5, 0.25], [1, 1]]).tostype("row_sparse"), history)
record("adagrad", weight)

for name, value in (("zero", 0), ("two", 2)):
    rows = nd.array([[0.0, 0], [1, 2]]).tostype("row_sparse")
    rows[:] = value
    record("rows_of_" + name, rows.data)
    record("indices_of_" + name, rows.indices)


def gamma_after(call):
    """The gamma after a batch normalization with fix_gamma."""
    gamma = nd.full((3,), 2)
    call(nd.arange(24).reshape((2, 3, 4)), gamma, nd.ones(3), nd.zeros(3), nd.ones(3))
    nd.waitall()
    return gamma


def in_training(*arrays):
    arrays[0].attach_grad()
    with autograd.record():
        result = nd.BatchNorm(*arrays)
    result.backward()


def bound(with_gradient, is_train, *arrays):
    symbol = mx.sym.BatchNorm(name="norm")
    args, aux = arrays[:3], arrays[3:]
    grads = [nd.zeros_like(a) for a in args] if with_gradient else None
    symbol.bind(mx.cpu(), list(args), grads, "write" if with_gradient else "null", list(aux)).forward(is_train=is_train)


record("gamma_called", gamma_after(lambda *arrays: nd.BatchNorm(*arrays)))
record("gamma_differentiated", gamma_after(in_training))
for with_gradient in (True, False):
    for is_train in (True, False):
        record("gamma_bound_%d%d" % (with_gradient, is_train), gamma_after(lambda *arrays: bound(with_gradient, is_train, *arrays)))

mx.npx.set_np()
from mxnet import np as mnp  # noqa: E402

row = mnp.arange(5)[2]
record("row", row)
record("row_shape", row.shape)
record("element_shape", mnp.arange(6).reshape(2, 3)[1, 2].shape)
x = mnp.arange(4.0)
x.attach_grad()
with autograd.record():
    y = x[1] * x[2]
y.backward()
record("product_of_rows", y)
record("product_of_rows_grad", x.grad)
record("parts", [p.shape for p in mnp.split(mnp.zeros((0, 3)), [1, 2])])

# Parameters that MXNet's metadata does not list.
values = np.random.RandomState(5)
factor = values.randn(2, 4, 4)
matrices = nd.array(factor @ factor.transpose(0, 2, 1) + 2 * np.eye(4) + np.tril(values.randn(4, 4), -1) / 10, dtype="float64")
head = nd.array(values.randn(2, 4, 4), dtype="float64")
for name, factorize in (("potrf", nd.linalg.potrf), ("potri", nd.linalg.potri)):
    for lower in (True, False):
        matrices.attach_grad()
        with autograd.record():
            result = factorize(matrices, lower=lower)
        result.backward(head)
        record(f"{name}_lower_{lower}", result)
        record(f"{name}_lower_{lower}_gradient", matrices.grad)
record("smooth_l1_is_int", nd.smooth_l1(nd.array([-2, 0.5, 3]), scalar=2, is_int=False))
