"""User operators with sparse arrays: inferred storage types, imperatively, in executors and in hybridized blocks."""

import contextlib
import io

import mxnet as mx
import numpy as np

from record import record

nd, sym, sparse = mx.nd, mx.sym, mx.nd.sparse
calls = []


class Scale(mx.operator.CustomOp):
    """Multiplies by a number, and keeps the storage type."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, is_train, req, in_data, out_data, aux):
        calls.append("forward " + " ".join(a.stype for a in in_data + out_data))
        out_data[0][:] = in_data[0] * self.factor

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        calls.append("backward " + " ".join(a.stype for a in out_grad + in_data + out_data + in_grad))
        in_grad[0][:] = out_grad[0] * self.factor


@mx.operator.register("scale")
class ScaleProp(mx.operator.CustomOpProp):
    def __init__(self, factor="2"):
        super().__init__()
        self.factor = float(factor)

    def infer_storage_type(self, in_stype):
        return in_stype, [in_stype[0]], []

    def infer_storage_type_backward(self, ograd_stype, in_stype, out_stype, igrad_stype, aux_stype):
        return ograd_stype, in_stype, out_stype, [ograd_stype[0]], aux_stype

    def create_operator(self, ctx, shapes, dtypes):
        return Scale(self.factor)


class Compress(mx.operator.CustomOp):
    """Stores a dense matrix as csr, and its gradient as rows."""

    def forward(self, is_train, req, in_data, out_data, aux):
        calls.append("forward " + " ".join(a.stype for a in in_data + out_data))
        out_data[0][:] = in_data[0].tostype("csr")

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        calls.append("backward " + " ".join(a.stype for a in out_grad + in_grad))
        in_grad[0][:] = out_grad[0].tostype("default").tostype("row_sparse")


@mx.operator.register("compress")
class CompressProp(mx.operator.CustomOpProp):
    def infer_storage_type(self, in_stype):
        return in_stype, ["csr"], []

    def infer_storage_type_backward(self, ograd_stype, in_stype, out_stype, igrad_stype, aux_stype):
        return ograd_stype, in_stype, out_stype, ["row_sparse"], aux_stype

    def create_operator(self, ctx, shapes, dtypes):
        return Compress()


@mx.operator.register("dense_only")
class DenseOnlyProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Scale(3.0)


def keep(name, **arrays):
    for key, array in arrays.items():
        record(f"{name}/{key}", array)
        record(f"{name}/{key}/storage", array.stype)
    record(f"{name}/calls", "; ".join(calls))
    calls.clear()


values = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, -3]], "float32")
for storage in ("default", "row_sparse", "csr"):
    x = nd.array(values).tostype(storage)
    keep(f"imperative/{storage}", y=nd.Custom(x, op_type="scale", factor=3))
    y = sym.Custom(sym.Variable("x", stype=storage), op_type="scale", name="scale")
    arrays = {"x": x}, {"x": nd.zeros((3, 3)).tostype(storage)}
    executor = y.bind(mx.cpu(), *arrays)
    executor.forward(is_train=True)
    executor.backward(nd.array(values * values).tostype(storage))
    keep(f"executor/{storage}", y=executor.outputs[0], dx=executor.grad_dict["x"])
    executor = y.simple_bind(mx.cpu(), x=(3, 3))
    record(f"simple_bind/{storage}", [a.stype for a in executor.arg_arrays + executor.outputs + executor.grad_arrays])
    calls.clear()

x = nd.array(values)
keep("compress", matrix=nd.Custom(x, op_type="compress"))
x.attach_grad(stype="row_sparse")
with mx.autograd.record():
    matrix = nd.Custom(x, op_type="compress")
matrix.backward(nd.array(values).tostype("csr"))
keep("compress/recorded", matrix=matrix, dx=x.grad)
network = sym.sparse.dot(sym.Custom(sym.Variable("x"), op_type="compress", name="c"), sym.Variable("w"))
executor = network.bind(mx.cpu(), {"x": nd.array(values), "w": nd.ones((3, 2))})
executor.forward()
keep("compress/executor", y=executor.outputs[0])


def outcome(function):
    """The type of the error. MXNet's client also prints it."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            function().wait_to_read()
        except Exception as error:
            return type(error).__name__
    return "none"


keep("dense_only", y=nd.Custom(nd.array(values), op_type="dense_only"))
record("dense_only/csr", outcome(lambda: nd.Custom(nd.array(values).tostype("csr"), op_type="dense_only")))
