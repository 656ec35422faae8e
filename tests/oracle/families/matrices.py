"""Linear algebra on the last two axes: products, triangular equations, factorizations, determinants, diagonals, triangles."""

import numpy as np

from cases import InferCase, OpCase, data

REAL = ("float32", "float64")


def cases():
    yield from products()
    yield from triangular()
    yield from cholesky()
    yield from factors()
    yield from determinants()
    yield from diagonals()
    yield from refusals()


def case(op, inputs, attrs=None, dtype="float32", **more):
    """With gradients; in single precision factorizations differ by their rounding errors. Where MXNet takes the array of the
    gradient for working memory (gemm2, gelqf, syevd, inverse), adding to it gives anything, so these are not asked to."""
    inputs = [np.asarray(x, dtype) for x in inputs]
    tolerance = {"rtol": 2e-3, "atol": 2e-4} if dtype == "float32" else {"rtol": 1e-6, "atol": 1e-8}
    return OpCase(op, inputs, attrs or {}, train=True, grad="all", **dict(tolerance, **more))


def regular(shape, seed=0):
    """Matrices with large diagonals, hence far from singular."""
    a = data(shape, "float64", seed=seed, lo=-1, hi=1)
    return a + 3 * np.eye(shape[-1])


def definite(shape, seed=0):
    a = regular(shape, seed)
    return a @ np.swapaxes(a, -1, -2)


def transposed(shape, wanted):
    return shape[:-2] + (shape[-1], shape[-2]) if wanted else shape


def products():
    for dtype in REAL:
        yield case("linalg_gemm2", [data((2, 3)), data((3, 4), seed=1)], dtype=dtype)
        yield case("linalg_gemm", [data((2, 3)), data((3, 4), seed=1), data((2, 4), seed=2)], dtype=dtype)
        yield case("linalg_syrk", [data((2, 3))], dtype=dtype)
    for a in (False, True):
        for b in (False, True):
            attrs = {"transpose_a": a, "transpose_b": b, "alpha": "1.5"}
            inputs = [data(transposed((2, 2, 3), a)), data(transposed((2, 3, 4), b), seed=1)]
            yield case("_linalg_gemm2", inputs, attrs)
            yield case("_linalg_gemm", inputs + [data((2, 2, 4), seed=2)], dict(attrs, beta="-0.5"))
            # Other axes between rows and columns.
            swapped = [np.swapaxes(x, 0, 1) for x in inputs]
            yield case("_linalg_gemm2", swapped, dict(attrs, axis=0))
    deep = [data((2, 3, 2, 4)), data((2, 4, 2, 5), seed=1), data((2, 3, 2, 5), seed=2)]
    yield case("_linalg_gemm", deep, {"axis": 1, "beta": 2})
    yield case("_linalg_gemm2", deep[:2], {"axis": -3})
    for turn in (False, True):
        yield case("_linalg_syrk", [data((2, 3, 4))], {"transpose": turn, "alpha": "0.5"}, req="add")
    yield InferCase("_linalg_gemm2", {"transpose_b": True}, {"A": (2, 3, 4), "B": (2, 5, 4)})
    yield InferCase("_linalg_syrk", {}, {"A": (2, 3, 4)})


def triangular():
    for op in ("trmm", "trsm"):
        for dtype in REAL:
            yield case("linalg_" + op, [regular((3, 3)), data((3, 2))], dtype=dtype)
        for right in (False, True):
            for turn in (False, True):
                for lower in (False, True):
                    attrs = {"rightside": right, "transpose": turn, "lower": lower, "alpha": "1.5"}
                    yield case("_linalg_" + op, [regular((2, 3, 3)), data(transposed((2, 3, 2), right), seed=1)], attrs)
        yield InferCase("_linalg_" + op, {}, {"B": (2, 3, 4)})
    yield case("_linalg_trsm", [regular((70, 70)) / 3, data((70, 2), seed=1)], why="across blocks", dtype="float64")
    yield OpCase("_linalg_trsm", [np.array([[0, 1], [1, 1]], "float32"), data((2, 2))], why="a zero on the diagonal")


def cholesky():
    for dtype in REAL:
        yield case("linalg_potrf", [definite((3, 3))], dtype=dtype)
        yield case("linalg_potri", [regular((3, 3))], dtype=dtype)
    yield case("_linalg_potrf", [definite((2, 2, 4, 4))], req="add")
    yield case("_linalg_potri", [regular((2, 4, 4))], req="add")
    yield case("_linalg_potrf", [definite((1, 1))])
    yield OpCase("_linalg_potrf", [definite((70, 70)).astype("float64")], rtol=1e-8, why="across blocks")
    yield OpCase("_linalg_potrf", [np.array([[4, 99], [2, 5]], "float32")], why="only the lower triangle is read")
    yield OpCase("_linalg_potrf", [np.array([[1, 2], [2, 1]], "float32")], why="not positive definite")
    yield OpCase("_linalg_potri", [np.array([[0, 0], [1, 2]], "float32")], why="singular")


def factors():
    for dtype in REAL:
        yield case("linalg_gelqf", [regular((3, 3))], dtype=dtype)
        yield case("_linalg_syevd", [definite((3, 3))], dtype=dtype)
        yield case("linalg_inverse", [regular((3, 3))], dtype=dtype)
    for shape in ((2, 3), (1, 4), (1, 1), (2, 3, 5), (2, 2, 2, 3)):
        yield case("_linalg_gelqf", [data(shape, seed=3)])
    yield case("_linalg_syevd", [definite((2, 4, 4), seed=1)], dtype="float64")
    yield case("_linalg_syevd", [definite((1, 1))])
    yield OpCase("_linalg_syevd", [np.array([[4, 99], [2, 5]], "float32")], rtol=1e-4, why="only the lower triangle is read")
    yield OpCase("_linalg_syevd", [np.diag([3.0, -1, 2])], rtol=1e-8)
    yield case("_linalg_inverse", [regular((2, 2, 4, 4), seed=2)])
    yield OpCase("_linalg_inverse", [np.ones((2, 2), "float32")], why="singular")


def determinants():
    for op in ("det", "slogdet"):
        for dtype in REAL:
            yield case("linalg_" + op, [regular((3, 3))], dtype=dtype)
        yield case("_linalg_" + op, [regular((2, 2, 3, 3), seed=1)], req="add" if op == "det" else "write")
        yield case("_linalg_" + op, [np.array([[0, 1], [1, 0]])])
        yield case("_linalg_" + op, [-regular((2, 1, 1))])
    singular = np.array([[1, 2], [2, 4]], "float32")
    yield OpCase("_linalg_det", [singular])
    yield OpCase("_linalg_slogdet", [singular])
    for op in ("_npi_det", "_npi_slogdet"):
        yield OpCase(op, [regular((3, 3))], np_shape=True, why="one matrix gives a number without axes")


def diagonals():
    for dtype in REAL:
        for op in ("extractdiag", "extracttrian", "sumlogdiag"):
            yield case("linalg_" + op, [regular((3, 3))], dtype=dtype)
        yield case("linalg_makediag", [data((3,))], dtype=dtype)
        yield case("linalg_maketrian", [data((6,))], dtype=dtype)
    yield case("_linalg_sumlogdiag", [regular((2, 2, 3, 3), seed=1)], req="add")
    for offset in (-2, -1, 0, 1, 2):
        yield case("_linalg_extractdiag", [data((2, 4, 4))], {"offset": offset})
        yield case("_linalg_makediag", [data((2, 3))], {"offset": offset})
        for lower in (False, True):
            attrs = {"offset": offset, "lower": lower}
            yield case("_linalg_extracttrian", [data((2, 4, 4))], attrs)
            yield case("_linalg_maketrian", [data((2, 6))], attrs)
    yield InferCase("_linalg_extracttrian", {"offset": 1}, {"A": (2, 4, 4)})
    yield InferCase("_linalg_maketrian", {"offset": 1}, {"A": (2, 6)})


def refusals():
    for op in ("potrf", "potri", "inverse", "det", "slogdet", "syevd", "sumlogdiag", "extractdiag", "extracttrian"):
        yield OpCase("_linalg_" + op, [data((2, 3))], why="not square")
        yield OpCase("_linalg_" + op, [data((2, 2), "float16")], why="half precision")
    yield OpCase("_linalg_gelqf", [data((3, 2))], why="more rows than columns")
    yield OpCase("_linalg_gemm2", [data((2, 3)), data((2, 3))], why="inner sizes differ")
    yield OpCase("_linalg_gemm2", [data((2, 2, 2)), data((1, 2, 2))], why="other axes differ")
    yield OpCase("_linalg_gemm2", [data((2, 2)), data((2, 2))], {"axis": -1}, why="rows along the last axis")
    yield OpCase("_linalg_trmm", [data((2, 2)), data((3, 2))], why="sizes differ")
    yield OpCase("_linalg_extractdiag", [data((3, 3))], {"offset": 3}, why="no such diagonal")
    yield OpCase("_linalg_maketrian", [data((4,))], why="no triangle has four elements")
