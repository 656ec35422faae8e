"""NumPy's linear algebra, and gradients that MXNet lists under names."""

import itertools

import numpy as np

from cases import OpCase, data, special, whole
from families.matrices import definite, regular

REAL = ("float32", "float64")
TYPES = REAL + ("float16", "int32", "int8", "bool")


def cases():
    yield from cholesky()
    yield from eigenvalues()
    yield from singular_values()
    yield from equations()
    yield from norms()
    yield from named_gradients()


def case(op, inputs, attrs=None, dtype="float32", grad="all", **more):
    """In single precision factorizations differ by their rounding errors."""
    inputs = [np.asarray(x, dtype) for x in inputs]
    tolerance = {"rtol": 2e-3, "atol": 2e-4} if dtype == "float32" else {"rtol": 1e-6, "atol": 1e-8}
    return OpCase(op, inputs, attrs or {}, np_shape=True, train=True, grad=grad, **dict(tolerance, **more))


def plain(op, inputs, attrs=None, **more):
    return OpCase(op, inputs, attrs or {}, np_shape=True, **more)


def symmetric(shape, seed=0):
    a = data(shape, "float64", seed=seed, lo=-1, hi=1)
    return a + np.swapaxes(a, -1, -2) + np.diag(np.arange(shape[-1]) * 3.0)


def cholesky():
    for dtype, shape in itertools.product(REAL, ((1, 1), (3, 3), (2, 3, 3))):
        yield case("_npi_cholesky", [definite(shape)], dtype=dtype)
    yield plain("_npi_cholesky", [-np.eye(3)], why="not positive definite")
    yield plain("_npi_cholesky", [np.ones((2, 3))], why="not square")
    yield plain("_npi_cholesky", [np.ones((0, 3, 3))])
    for dtype in TYPES[2:]:
        yield plain("_npi_cholesky", [definite((2, 2)).astype(dtype)])


def eigenvalues():
    for dtype, shape in itertools.product(REAL, ((1, 1), (3, 3), (2, 4, 4))):
        a = symmetric(shape)
        for letter in ("L", "U", "X"):
            yield case("_npi_eigh", [a + np.triu(np.ones(shape), 1)], {"UPLO": letter}, dtype)
            yield case("_npi_eigvalsh", [a + np.triu(np.ones(shape), 1)], {"UPLO": letter}, dtype)
        upper = np.triu(a)
        yield case("_npi_eig", [upper], dtype=dtype, compare="first")
        yield case("_npi_eigvals", [upper], dtype=dtype)
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    for op in ("_npi_eig", "_npi_eigvals"):
        yield plain(op, [turn], why="complex eigenvalues")
    for op in ("_npi_eig", "_npi_eigvals", "_npi_eigh", "_npi_eigvalsh"):
        yield plain(op, [np.ones((2, 3))], why="not square")
        yield plain(op, [np.ones((0, 2, 2))])
        for dtype in TYPES[2:]:
            yield plain(op, [np.array([[2, 0], [0, 5]], dtype)], compare="first" if op == "_npi_eig" else "data")


def singular_values():
    for dtype, shape in itertools.product(REAL, ((1, 1), (2, 3), (2, 3, 3))):
        yield plain("_npi_svd", [data(shape, dtype)], compare="shape", why="signs differ")
        yield case("_npi_pinv_scalar_rcond", [regular(shape) if shape[-1] == shape[-2] else data(shape)], dtype=dtype)
    for shape in ((3, 2), (2, 2, 4, 3)):
        yield case("_npi_pinv_scalar_rcond", [data(shape)])
    yield plain("_npi_svd", [data((3, 2))], why="more rows than columns")
    wide = np.diag([4.0, 1.0, 0.25]).astype("float32")
    for rcond in (0.1, 0.5, 1e-3):
        yield case("_npi_pinv_scalar_rcond", [wide], {"rcond": rcond})
        yield case("_npi_pinv", [wide, np.array(rcond)])
        yield case("_npi_pinv_scalar_rcond", [wide], {"rcond": rcond, "hermitian": True})
    yield case("_npi_pinv", [data((2, 3, 4)), np.array([1e-3, 0.5])])
    yield case("_npi_pinv", [data((2, 2, 3, 4)), np.array([[1e-3], [0.5]])])
    yield plain("_npi_pinv", [data((2, 3, 4)), np.array([1e-3, 0.5, 1], "float32")], why="three limits for two matrices")
    for dtype in TYPES[2:]:
        yield plain("_npi_svd", [np.eye(2, dtype=dtype)])
        yield plain("_npi_pinv_scalar_rcond", [np.eye(2, dtype=dtype)])


def equations():
    for dtype in REAL:
        for a, b in (((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 1)), ((1, 1), (1, 1))):
            yield case("_npi_solve", [regular(a), data(b, seed=3)], dtype=dtype)
        yield case("_npi_solve", [regular((3, 3)), data((3,))], dtype=dtype, grad=None)
        yield case("_npi_solve", [regular((2, 3, 3)), data((2, 3))], dtype=dtype, grad=None)
        yield case("_npi_tensorinv", [regular((6, 6)).reshape(2, 3, 6)], dtype=dtype)
        yield case("_npi_tensorinv", [regular((6, 6)).reshape(6, 3, 2)], {"ind": 1}, dtype)
        yield case("_npi_tensorsolve", [regular((6, 6)).reshape(2, 3, 6), data((2, 3))], dtype=dtype)
        yield case("_npi_tensorsolve", [regular((6, 6)).reshape(2, 3, 3, 2), data((2, 3))], dtype=dtype)
        yield case("_npi_tensorsolve", [np.moveaxis(regular((6, 6)).reshape(2, 3, 6), 2, 0), data((2, 3))], {"a_axes": (0,)}, dtype)
    yield plain("_npi_solve", [np.zeros((2, 2)), np.ones((2, 2))], why="singular")
    yield plain("_npi_solve", [regular((2, 3, 3)), data((3, 3), "float64")], why="batches differ")
    yield plain("_npi_tensorinv", [np.ones((2, 3, 5))], why="not square")
    yield plain("_npi_tensorinv", [np.ones((2, 2))], {"ind": 0})
    yield plain("_npi_tensorinv", [np.zeros((2, 2))], {"ind": 1}, why="singular")
    yield plain("_npi_tensorsolve", [np.ones((2, 3, 5)), np.ones((2, 3))], why="not square")
    for left, right in itertools.product(("float32", "float64", "int32", "float16", "bool"), repeat=2):
        a, b = np.array([[4, 1], [1, 3]], left), np.array([[1, 2], [0, 1]], right)
        yield plain("_npi_solve", [a, b])
        yield plain("_npi_tensorsolve", [a, b[0]])


def norms():
    x = data((2, 3, 4), seed=5)
    for dtype in REAL:
        for keepdims in (False, True):
            yield case("_npi_norm", [x], {"flag": -2, "keepdims": keepdims}, dtype)
            yield case("_npi_norm", [x], {"axis": (1, 2), "flag": 1, "keepdims": keepdims}, dtype)
            for order in (2, -2, 1, -1):
                yield case("_npi_norm", [x], {"ord": order, "axis": (1, 2), "keepdims": keepdims}, dtype)
        for order, axis in itertools.product((2, 1, 3, 0, -1, 0.5), ((0,), (1,), (-1,))):
            yield case("_npi_norm", [x + 4], {"ord": order, "axis": axis}, dtype)
        for axis in ((0, 1), (0, 2), (1, 0)):
            yield case("_npi_norm", [x], {"axis": axis, "flag": 1}, dtype)
        for axis in ((0, 1), (0, 2)):
            yield case("_npi_norm", [x], {"axis": axis, "flag": 2}, dtype)
            yield case("_npi_norm", [x], {"axis": axis, "flag": 0}, dtype)
        yield case("_npi_norm", [x], dtype=dtype)
        yield case("_npi_norm", [x[0, 0]], dtype=dtype)
    yield plain("_npi_norm", [x], {"axis": (0, 1, 2)}, why="three axes")
    yield plain("_npi_norm", [x], {"axis": (0,), "flag": 2}, why="singular values of vectors")
    for flag in (-2, 1):
        yield plain("_npi_norm", [data((2, 3), "float16")], {"flag": flag, "axis": (0, 1) if flag == 1 else None})
    yield plain("_npi_norm", [whole((3, 4), "int32")], {"flag": -2})


def named_gradients():
    """They are called on arrays, with outputs that are given: MXNet infers no shapes."""
    def call(op, inputs, like, attrs=None, **more):
        return OpCase(op, inputs, attrs or {}, imperative=True, states=[], like=like, **more)

    for dtype in REAL:
        x, g = data((2, 3), dtype), data((2, 3), dtype, seed=1)
        yield call("_contrib_backward_quadratic", [g, x], [1], {"a": 2, "b": -0.5, "c": 1})
        yield call("_npi_backward_nan_to_num", [data((12,), dtype), special(dtype)], [1])
        yield call("_npi_backward_polyval", [g, data((4,), dtype, seed=2), x], [1, 2])
        rows = np.array([2, 0], dtype)
        yield call("_contrib_backward_index_copy", [data((3, 2), dtype), data((3, 2), dtype), rows, data((2, 2), dtype)], [1, 2, 3])
        y = data((4,), dtype)
        yield call("_npi_backward_ediff1d", [data((3,), dtype), y], [1])
        yield call("_npi_backward_ediff1d", [data((5,), dtype), y], [1], {"to_begin_scalar": 1, "to_end_scalar": 2})
        ends = [data((2,), dtype), data((1,), dtype)]
        yield call("_npi_backward_ediff1d", [data((6,), dtype), y] + ends, [1, 2, 3],
                   {"to_begin_arr_given": True, "to_end_arr_given": True})
