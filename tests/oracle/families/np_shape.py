"""NumPy's operators on shapes: other shapes, permutations, diagonals, joining, cutting apart."""

import numpy as np

from cases import ALL, OpCase, data


def cases():
    yield from views()
    yield from moves()
    yield from diagonals()
    yield from joins()
    yield from splits()


def graded(op, inputs, attrs=None, **more):
    return OpCase(op, inputs, attrs or {}, np_shape=True, train=True, grad="all", **more)


def plain(op, inputs, attrs=None):
    return OpCase(op, inputs, attrs or {}, np_shape=True)


def views():
    a, b = data((2, 3)), data((2, 3, 4))
    for to in ((3, -1), (-1,), 6, (1, 6, 1)):
        yield graded("_np_reshape", [a], {"newshape": to})
    for to in ((0, -1), (-1, -1), (4, -1), (-2, 3), (7,)):
        yield plain("_np_reshape", [a], {"newshape": to})
    yield plain("_np_reshape", [a[:1, :1]], {"newshape": "()"})
    for to in ((0, -1), (-1, 0), (5, 0), (-1, 3)):
        yield plain("_np_reshape", [np.zeros((0, 3), "float32")], {"newshape": to})
    for to in ((-2, -1), (-2, -2, -2), (-5, -4), (-5, 4), (-6, 1, 2, -4), (-6, -1, 1, -4), (-4,), (-2, -5), (6, 4), (2, -4)):
        yield graded("_npx_reshape", [b], {"newshape": to})
    for to in ((-6, -1, -1, -4), (-3,), (-2, -2, 4, -3), (-1, -1), (-4, 3), (0, -1), (-7,), (-3, -4)):
        yield plain("_npx_reshape", [b], {"newshape": to})
    yield graded("_npx_reshape", [b], {"newshape": (-1, -2), "reverse": True})
    yield plain("_npx_reshape", [b], {"newshape": (-5, -4), "reverse": True})
    yield graded("_npx_reshape", [b[:1]], {"newshape": (-3, -4)})
    yield plain("_npx_reshape", [data(())], {"newshape": (1,)})
    yield plain("_npi_reshape", [b], {"newshape": (-2, -1)})
    for attrs in ({}, {"axis": 0}, {"axis": (0, -2)}):
        yield graded("_np_squeeze", [b[:1, :1]], attrs)
    yield plain("_np_squeeze", [b[:1, :1, :1]])
    yield plain("_np_squeeze", [b], {"axis": 0})
    for n in (1, 2, 3):
        op = "_np_atleast_%dd" % n
        yield plain(op, [data(()), a[0], a, b], {"num_args": 4})
        yield plain(op, [np.zeros((0,), "float32")], {"num_args": 1})
        for dtype in ALL:
            yield plain(op, [data((3,), dtype)], {"num_args": 1})
    for op, attrs in (("_np_reshape", {"newshape": (3, 2)}), ("_npx_reshape", {"newshape": (-5,)}), ("_np_squeeze", {})):
        for dtype in ALL:
            yield plain(op, [data((2, 3), dtype)], attrs)


def moves():
    a, b = data((2, 3)), data((2, 3, 4))
    for attrs in ({}, {"axes": (1, 0, 2)}, {"axes": (-1, 0, 1)}, {"axes": "None"}):
        yield graded("_np_transpose", [b], attrs)
    yield plain("_np_transpose", [data(())])
    yield plain("_np_transpose", [data(())], {"axes": "()"})
    for axes in ("()", (0, 0), (0, 2)):
        yield plain("_np_transpose", [a], {"axes": axes})
    for source, destination in ((0, -1), ((0, 1), (-1, 0)), ((2, 0), (0, 1)), ("()", "()")):
        yield graded("_np_moveaxis", [b], {"source": source, "destination": destination})
    for source, destination in (((0, 1), (-1,)), ((0, 0), (-1, 0)), ((0, 1), (1, 1)), (3, 0)):
        yield plain("_np_moveaxis", [b], {"source": source, "destination": destination})
    for axis in ((0, 2), (1,), "()"):
        yield graded("_npi_flip", [b], {"axis": axis})
    yield plain("_npi_flip", [data(())], {"axis": "()"})
    yield plain("_npi_flip", [b], {"axis": 3})
    for k in (0, 1, 2, 3, -1, 5):
        yield graded("_npi_rot90", [a], {"k": k, "axes": (0, 1)})
    for attrs in ({"k": 1, "axes": (0, 2)}, {"k": 3, "axes": (-1, 1)}, {"k": 2, "axes": (2, 0)}):
        yield graded("_npi_rot90", [b], attrs)
    for attrs in ({"k": 1}, {"k": 1, "axes": (0, 0)}, {"k": 1, "axes": (0, 3)}):
        yield plain("_npi_rot90", [a], attrs)
    for attrs in ({"shift": 1}, {"shift": -2, "axis": 1}, {"shift": (1, 2), "axis": (0, 1)}, {"shift": 1, "axis": (0, 1)},
                  {"shift": 7, "axis": -1}):
        yield graded("_np_roll", [a], attrs)
    for attrs in ({}, {"shift": (1, 2)}, {"shift": (1, 2), "axis": 0}, {"shift": (1, 2), "axis": (0, 0)}, {"shift": 1, "axis": 4}):
        yield plain("_np_roll", [a], attrs)
    yield plain("_np_roll", [data(())], {"shift": 1})
    yield plain("_np_roll", [np.zeros((0, 3), "float32")], {"shift": 1})
    for x, to in ((a[:1], (2, 3)), (a, (2, 2, 3)), (data(()), (2, 2)), (a[:1], (-2, 3)), (data(()), "()")):
        yield graded("_npi_broadcast_to", [x], {"shape": to})
    for x, to in ((a, (2, -1, -1)), (a, (2, 0)), (a, (3,)), (a[:1], (0, 3))):
        yield plain("_npi_broadcast_to", [x], {"shape": to})
    for x, k in ((a, 0), (a, -1), (b, 1), (a[0], 0), (a[0], 1), (a, -9)):
        yield graded("_npi_tril", [x], {"k": k})
    yield plain("_npi_tril", [np.zeros((0, 3))])
    for op, attrs in (("_np_transpose", {}), ("_np_moveaxis", {"source": 0, "destination": 1}), ("_npi_flip", {"axis": 1}),
                      ("_npi_rot90", {"axes": (0, 1)}), ("_np_roll", {"shift": 1}), ("_npi_broadcast_to", {"shape": (2, 2, 3)})):
        for dtype in ALL:
            yield plain(op, [data((2, 3), dtype)], attrs)
    for dtype in ALL[:-1]:
        yield plain("_npi_tril", [data((2, 3), dtype)])


def diagonals():
    a, b = data((2, 3)), data((2, 3, 4))
    for k in (0, 1, -1):
        for op in ("_np_diag", "_np_diagflat"):
            yield graded(op, [a[0]], {"k": k})
            yield graded(op, [a], {"k": k})
        yield graded("_np_diagonal", [a], {"offset": k})
        yield graded("_np_trace", [a], {"offset": k})
        yield graded("_np_trace", [b], {"offset": k, "axis1": -1, "axis2": 0})
        yield graded("_np_diagonal", [b], {"offset": k, "axis1": -1, "axis2": 0})
    yield plain("_np_diag", [a], {"k": 5})
    yield plain("_np_diag", [b])
    yield plain("_np_diagonal", [a], {"offset": 7})
    yield graded("_np_trace", [a], {"offset": 9})
    for op in ("_np_diagonal", "_np_trace"):
        yield plain(op, [a[0]])
        yield plain(op, [a], {"axis1": 0, "axis2": 0})
    yield plain("_npi_diag_indices_from", [a[:, :2]])
    yield plain("_npi_diag_indices_from", [data((3, 3, 3))])
    yield plain("_npi_diag_indices_from", [b])
    yield plain("_npi_diag_indices_from", [a[0]])
    for op in ("_np_diag", "_np_diagflat", "_np_diagonal", "_np_trace"):
        for dtype in ALL[:-1]:
            yield plain(op, [data((2, 3), dtype)])


def joins():
    a, b = data((2, 3)), data((2, 3, 4))
    two = {"num_args": 2}
    for name in ("stack", "vstack", "hstack", "dstack", "column_stack", "concatenate"):
        op = "_npi_" + name
        yield graded(op, [a, data((2, 3), seed=1)], two)
        yield graded(op, [a[0], a[1]], two)
        yield plain(op, [data(()), data((), seed=1)], two)
        yield plain(op, [b, b], two)
        for x in (a[:, :1], a[:1], a[:0]):
            yield plain(op, [x, a], two)
        yield plain(op, [a, a.astype("int32")], two)
        for dtype in ALL:
            yield plain(op, [data((2, 3), dtype)], {"num_args": 1})
    yield graded("_npi_column_stack", [a[:, 0].copy(), a], two)
    yield graded("_npi_vstack", [a[0], a], two)
    yield graded("_npi_hstack", [a[0], data(())], two)
    for axis in (-1, 2, 3):
        yield OpCase("_npi_stack", [a, a], {"num_args": 2, "axis": axis}, np_shape=True)
    for axis in (0, 1, -1, 2, "None"):
        yield OpCase("_npi_concatenate", [a, data((2, 3), seed=1)], {"num_args": 2, "axis": axis}, np_shape=True, train=True,
                     grad="all")
    yield plain("_npi_concatenate", [a, b], {"num_args": 2, "axis": "None"})


def splits():
    b = data((2, 3, 4))
    for attrs in ({"indices": "()", "sections": 2}, {"indices": (0, 1)}, {"indices": (0, 1, 3)}):
        yield graded("_npi_hsplit", [b], attrs)
    yield graded("_npi_hsplit", [b[0, 0]], {"indices": (0, 1)})
    yield graded("_npi_hsplit", [b[0]], {"indices": "()", "sections": 3})
    for attrs in ({"indices": (0, 5, 9)}, {"indices": (1, 2)}, {"indices": "()", "sections": 4, "squeeze_axis": True}):
        yield plain("_npi_hsplit", [b], attrs)
    yield graded("_npi_dsplit", [b], {"indices": (0, 1), "axis": 2})
    yield graded("_npi_dsplit", [b], {"indices": "()", "sections": 3, "axis": 2})
    yield plain("_npi_dsplit", [b[0]], {"indices": (0, 1), "axis": 2})
    for dtype in ALL:
        yield plain("_npi_hsplit", [data((2, 3), dtype)], {"indices": (0, 1)})
