"""NumPy's products: dot, matmul, tensordot, einsum."""

import numpy as np

from cases import ALL, OpCase, data

PAIRS = (
    ((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((), (2, 3)), ((2, 3), ()), ((), ()), ((2, 2, 3), (3,)), ((2, 2, 3), (3, 4)),
    ((2, 3), (2, 3, 2)), ((4, 2, 3), (2, 3, 2)), ((3,), (2, 3, 2)), ((3,), (3, 2)), ((2, 2, 3), (2, 3, 2)),
    ((2, 1, 2, 3), (1, 2, 3, 2)), ((2, 3), (2, 3)), ((2, 3), (4,)),
)
EINSUMS = (
    ("ij,jk->ik", (2, 3), (3, 2)), ("ij,jk", (2, 3), (3, 2)), ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("ij->j", (2, 3)),
    ("ij,ij->ij", (2, 3), (2, 3)), ("i,j->ij", (2,), (3,)), ("...ij,...jk->...ik", (2, 2, 3), (2, 3, 2)),
    ("...ij,...jk->...ik", (2, 3), (2, 3, 2)), ("ij,jk,kl->il", (2, 3), (3, 2), (2, 2)), ("i,i", (3,), (3,)), (",ij->ij", (), (2, 3)),
    ("ba", (2, 3)), ("ij,k->ij", (2, 3), (2,)), ("...", (2, 3)), ("...i->...", (2, 3)), ("i...->...", (2, 3)),
    ("ij, jk -> ik", (2, 3), (3, 2)), ("", ()), ("Ab,bA->A", (2, 3), (3, 2)), ("a->a", (3,)), ("ijk->k", (2, 3, 4)),
    ("ij,ik,il->jkl", (2, 2), (2, 3), (2, 2)), ("ij,kj->ik", (2, 1), (2, 3)), ("i...,j...->ij...", (2, 3), (2, 1)),
)
DIAGONALS = (("ii->i", (3, 3)), ("ii", (3, 3)), ("iij->j", (2, 2, 3)), ("iij,jk->ik", (2, 2, 3), (3, 2)))
WRONG = (
    ("ij,jk->iq", (2, 3), (3, 2)), ("ij,jk->ik", (2, 3), (2, 2)), ("ij", (2, 3, 4)), ("ij->ii", (2, 3)),
    ("ij,1j->i1", (2, 3), (1, 3)), ("ij->ij", (2, 3), (2, 3)), ("i.j->ij", (2, 3)),
)


def cases():
    for op in ("_np_dot", "_npi_matmul"):
        for a, b in PAIRS:
            yield graded(op, [data(a, seed=1), data(b, seed=2)])
        yield graded(op, [data((2, 3), "float64", 1), data((3, 2), "float64", 2)])
        yield plain(op, [np.zeros((2, 0), "float32"), np.zeros((0, 3), "float32")])
        yield plain(op, [data((2, 2)), data((2, 2), "float64")])
        for dtype in ("uint8", "int8", "int32", "int64"):
            yield plain(op, [data((2, 2), dtype), data((2, 2), dtype)])
    yield from tensordots()
    yield from einsums()


def graded(op, inputs, attrs=None, **more):
    return OpCase(op, inputs, attrs or {}, np_shape=True, train=True, grad="all", **more)


def plain(op, inputs, attrs=None):
    return OpCase(op, inputs, attrs or {}, np_shape=True)


def tensordots():
    a = data((2, 3, 4), seed=1)
    for axes, shape in ((0, (2,)), (1, (4, 2)), (2, (3, 4, 2)), (3, (2, 3, 4))):
        yield graded("_npi_tensordot_int_axes", [a, data(shape, seed=2)], {"axes": axes})
    yield plain("_npi_tensordot_int_axes", [data((2, 3)), data((4, 3))], {"axes": 1})
    yield plain("_npi_tensordot_int_axes", [data(()), data((3, 3))], {"axes": 0})
    for shapes in (((), (3, 3)), ((3, 3), ()), ((), ())):
        yield plain("_npi_tensordot_int_axes", [data(shape) for shape in shapes], {"axes": 2})
    yield plain("_npi_tensordot_int_axes", [np.zeros((2, 0), "float32"), np.zeros((0, 3), "float32")], {"axes": 1})
    for sa, sb in (((1, 2), (1, 0)), ((0,), (-1,)), ("()", "()")):
        yield graded("_npi_tensordot", [a, data((4, 3, 2), seed=2)], {"a_axes_summed": sa, "b_axes_summed": sb})
    yield plain("_npi_tensordot", [data((2, 3)), data((4, 3))], {"a_axes_summed": (0,), "b_axes_summed": (1,)})
    yield plain("_npi_tensordot", [data((2, 3)), data((4, 3))], {"a_axes_summed": (1,), "b_axes_summed": "()"})


def einsums():
    for subscripts, *shapes in EINSUMS:
        arrays = [data(s, seed=i + 1) for i, s in enumerate(shapes)]
        yield graded("_npi_einsum", arrays, {"num_args": len(shapes), "subscripts": subscripts})
    for subscripts, *shapes in DIAGONALS + WRONG:  # MXNet does not write the gradient off the diagonal.
        arrays = [data(s, seed=i + 1) for i, s in enumerate(shapes)]
        yield plain("_npi_einsum", arrays, {"num_args": len(shapes), "subscripts": subscripts})
    for dtype in ALL:
        yield plain("_npi_einsum", [data((2, 3), dtype, 1), data((3, 2), dtype, 2)], {"num_args": 2, "subscripts": "ij,jk->ik"})
    for optimize in (1, 2):
        arrays = [data((2, 3), seed=1), data((3, 2), seed=2), data((2, 2), seed=3)]
        yield graded("_npi_einsum", arrays, {"num_args": 3, "subscripts": "ij,jk,kl->il", "optimize": optimize})
    yield plain("_npi_einsum", [np.zeros((2, 0), "float32"), np.zeros((0, 3), "float32")],
                {"num_args": 2, "subscripts": "ij,jk->ik"})
