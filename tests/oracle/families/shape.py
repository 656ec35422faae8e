"""Operators that move or rearrange elements without computing with them."""

import numpy as np

from cases import ALL, FLOATS, OpCase, data

MOVES = {
    "Flatten": ({}, (2, 3, 2)), "flatten": ({}, (2, 3)), "Reshape": ({"shape": (3, -1)}, (2, 6)),
    "reshape": ({"shape": (-1,)}, (2, 3)), "transpose": ({}, (2, 3)), "expand_dims": ({"axis": 1}, (2, 3)),
    "squeeze": ({}, (2, 1, 3)), "slice": ({"begin": (0, 1), "end": (2, 3)}, (2, 4)),
    "slice_axis": ({"axis": 1, "begin": 1, "end": 3}, (2, 4)), "SwapAxis": ({"dim1": 0, "dim2": 1}, (2, 3)),
    "swapaxes": ({"dim1": 0, "dim2": 2}, (2, 3, 2)), "tile": ({"reps": (2, 2)}, (2, 3)),
    "repeat": ({"repeats": 2, "axis": 1}, (2, 3)), "reverse": ({"axis": 1}, (2, 3)), "flip": ({"axis": 0}, (2, 3)),
    "broadcast_to": ({"shape": (2, 3)}, (1, 3)), "broadcast_axis": ({"axis": 0, "size": 2}, (1, 3)),
    "broadcast_axes": ({"axis": (0, 2), "size": (2, 2)}, (1, 3, 1)),
}


def moved(op, attrs, *arrays, **more):
    """A case with gradients of all its inputs."""
    return OpCase(op, list(arrays), attrs, train=True, grad="all", **more)


def cases():
    for op, (attrs, shape) in MOVES.items():
        for dtype in ALL:
            grad = "all" if dtype in FLOATS else None
            yield OpCase(op, [data(shape, dtype)], attrs, train=grad is not None, grad=grad)
        yield moved(op, attrs, data(shape), req="add")
    for dtype in ALL:
        yield OpCase("_copyto", [data((2, 3), dtype)], imperative=True)
    yield from reshape()
    yield from transpose()
    yield from axes()
    yield from slices()
    yield from repetition()
    yield from joining()
    yield from splitting()
    yield from broadcasting()
    yield from empty()


def reshape():
    shape = (2, 3, 4)
    for target in ((4, 6), (-1,), (0, -1), (0, 0, 4), (4, 0, 2), (-2,), (2, -2), (-3, 4), (0, -3), (-4, 1, 2, -2),
                   (-4, -1, 2, -2), (2, -4, -1, 3, 4), (-3, -2), (0, -4, -1, 3, 0), (6, 1, -1), (1, 24), (24, 1)):
        yield moved("Reshape", {"shape": target}, data(shape))
    for target in ((-1, 0), (-3, 0), (4, 0, -1)):
        yield moved("Reshape", {"shape": target, "reverse": True}, data(shape))
    for target in ((-1, -1), (-4, 3, 2, -2), (-5,), (0, 0, 0, 0)):
        yield OpCase("Reshape", [data(shape)], {"shape": target}, why="impossible")
    for target in ((5, 5), (7, -1)):
        yield OpCase("Reshape", [data(shape)], {"shape": target}, refuse=True, why="another number of elements")
    yield moved("Reshape", {"target_shape": (4, 6)}, data(shape))
    yield moved("Reshape", {"target_shape": (0, 12), "keep_highest": True}, data(shape))
    yield OpCase("Reshape", [data(shape)], why="no shape given")
    yield moved("reshape_like", {}, data((2, 6)), data((3, 4)))
    yield moved("reshape_like", {"lhs_begin": 1, "lhs_end": 2, "rhs_begin": 0, "rhs_end": 2}, data((2, 6)),
                data((3, 2)))
    yield OpCase("reshape_like", [data((2, 6)), data((5,))], why="sizes differ")
    for tensor in ((2, 1, 3), (1,), (2, 3, 1, 2)):
        yield moved("Flatten", {}, data(tensor))


def transpose():
    for perm in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0)):
        yield moved("transpose", {"axes": perm}, data((2, 3, 4)))
    for perm in ((0, 1), (0, 1, 3)):
        yield OpCase("transpose", [data((2, 3, 4))], {"axes": perm}, why="not a permutation")
    yield OpCase("transpose", [data((2, 3, 4))], {"axes": (0, 0, 1)}, refuse=True, why="not a permutation")
    yield moved("transpose", {}, data((2, 3, 4)))
    yield moved("transpose", {}, data((5,)))
    yield moved("transpose", {"axes": (0, 2, 3, 1)}, data((2, 3, 2, 2)))
    yield moved("transpose", {"axes": (-1, 0, 1)}, data((2, 3, 4)))
    yield moved("transpose", {"axes": (4, 2, 0, 3, 1)}, data((2, 3, 1, 2, 2)))
    yield moved("transpose", {"axes": (5, 0, 4, 1, 3, 2)}, data((2, 1, 2, 3, 1, 2)))


def axes():
    for axis in (0, 1, 2, -1, -3, 3, -4):
        yield moved("expand_dims", {"axis": axis}, data((2, 3)))
    for axis in (None, 0, 2, -2, (0, 2), (0, 0), 1, 5):
        yield moved("squeeze", {"axis": axis}, data((1, 3, 1)))
    yield moved("squeeze", {}, data((1, 1)), why="every axis has one element")
    for first, second in ((0, 1), (1, 2), (0, 2), (1, 1), (-1, 0), (0, 3)):
        yield moved("SwapAxis", {"dim1": first, "dim2": second}, data((2, 3, 4)))
    for axis in (0, 1, 2, -1, (0, 2), (0, 1, 2), 3):
        yield moved("reverse", {"axis": axis}, data((2, 3, 4)))


def slices():
    full = (3, 4)
    for begin, end, step in (((1, 0), (3, 2), None), ((0,), (2,), None), (("None", 1), (2, "None"), None),
                             ((-2, -3), (-1, -1), None), ((0, 0), (3, 4), (2, 3)), ((2, 3), ("None", 0), (-1, -2)),
                             ((0, 0), (10, 10), None), ((0, 0), (3, 4), (0, 1)),
                             ((0, 0, 0), (1, 1, 1), None), (("None", "None"), ("None", "None"), (-1, -1))):
        text = {"begin": spelled(begin), "end": spelled(end)}
        if step is not None:
            text["step"] = spelled(step)
        yield moved("slice", text, data(full))
    for axis, begin, end in ((0, 0, 2), (0, 1, None), (-1, 1, 3), (1, -2, None), (1, 0, -1), (1, -3, -1), (2, 0, 1),
                             (1, 3, 2), (1, 0, 9), (1, 2, 2)):
        yield moved("slice_axis", {"axis": axis, "begin": begin, "end": end}, data(full))
    for attrs, like in (({}, (2, 3)), ({"axes": (0,)}, (2, 9)), ({"axes": (-1,)}, (7, 2)), ({"axes": (0, 1)}, (1, 1)),
                        ({}, (4, 4)), ({}, (3, 4))):
        yield moved("slice_like", attrs, data(full), data(like, seed=3))
    for dtype in ALL:
        yield OpCase("slice_like", [data(full, dtype), data((2, 2), dtype)])


def spelled(values):
    return "(%s%s)" % (",".join(str(v) for v in values), "," if len(values) == 1 else "")


def repetition():
    for shape, reps in (((2, 3), (2,)), ((2, 3), (2, 1)), ((3,), (2, 2)), ((2, 3), (1, 2, 2)), ((2, 1, 2), (2,)),
                        ((2, 3), (1, 1)), ((2, 3), (0, 2)), ((2, 3), ())):
        yield moved("tile", {"reps": reps}, data(shape))
    for axis in (None, 0, 1, -1, 2, -3, 3):
        yield moved("repeat", {"repeats": 3, "axis": axis}, data((2, 1, 3)))
    yield moved("repeat", {"repeats": 1}, data((2, 3)))
    yield OpCase("repeat", [data((2, 3))], {"repeats": -1}, why="negative count")


def joining():
    for op in ("Concat", "concat"):
        for dtype in ALL:
            arrays = [data((2, 2), dtype), data((2, 1), dtype, seed=1)]
            yield OpCase(op, arrays, {"num_args": 2}, train=True, grad="all" if dtype in FLOATS else None)
    for dim, shapes in ((0, ((1, 2), (3, 2))), (1, ((2, 2), (2, 1), (2, 3))), (-1, ((2, 2, 1), (2, 2, 2))),
                        (2, ((2, 1, 1), (2, 1, 3))), (0, ((2,), (3,))), (0, ((2, 3),)), (3, ((1, 1, 2, 1), (1, 1, 2, 2)))):
        arrays = [data(s, seed=i) for i, s in enumerate(shapes)]
        yield moved("Concat", {"num_args": len(arrays), "dim": dim}, *arrays)
    yield moved("Concat", {"num_args": 2, "dim": 0}, data((2, 2)), data((1, 2)), req="add")
    yield OpCase("Concat", [data((2, 2)), data((3, 2))], {"num_args": 2, "dim": 1}, why="shapes differ")
    yield OpCase("Concat", [data((2, 2)), data((2, 2))], {"num_args": 2, "dim": 2}, why="no such axis")
    yield OpCase("Concat", [data((2, 2)), data((2, 2, 1))], {"num_args": 2}, why="ranks differ")
    yield OpCase("Concat", [data((2, 2)), data((2, 2), "float64")], {"num_args": 2}, why="types differ")
    for dtype in ALL:
        arrays = [data((2, 2), dtype), data((2, 2), dtype, seed=1)]
        yield OpCase("stack", arrays, {"num_args": 2}, train=True, grad="all" if dtype in FLOATS else None)
    for axis in (0, 1, 2, -1, -3, 3):
        yield moved("stack", {"num_args": 3, "axis": axis}, *[data((2, 3), seed=i) for i in range(3)])
    yield moved("stack", {"num_args": 1}, data((2, 3)))
    yield OpCase("stack", [data((2, 2)), data((2, 3))], {"num_args": 2}, why="shapes differ")


def splitting():
    for op in ("SliceChannel", "split"):
        for dtype in ALL:
            yield OpCase(op, [data((2, 4), dtype)], {"num_outputs": 2}, train=True,
                         grad="all" if dtype in FLOATS else None)
    for attrs, shape in (({"num_outputs": 3, "axis": 0}, (3, 2)), ({"num_outputs": 2, "axis": -1}, (2, 3, 4)),
                         ({"num_outputs": 3, "axis": 1, "squeeze_axis": True}, (2, 3, 2)),
                         ({"num_outputs": 1}, (2, 3)), ({"num_outputs": 2, "axis": 2}, (1, 2, 4, 1))):
        yield moved("SliceChannel", attrs, data(shape))
    yield moved("SliceChannel", {"num_outputs": 2}, data((2, 4)), req="add")
    yield OpCase("SliceChannel", [data((2, 3))], {"num_outputs": 2}, why="does not divide")
    yield OpCase("SliceChannel", [data((2, 6))], {"num_outputs": 3, "squeeze_axis": True}, why="axis is not one")
    yield OpCase("SliceChannel", [data((2, 3))], {"num_outputs": 0}, why="no outputs")
    yield OpCase("SliceChannel", [data((2, 3))], {"num_outputs": 2, "axis": 4}, why="no such axis")
    for attrs in ({"indices": (0, 1, 3), "axis": 1}, {"indices": (0, 2), "axis": 0},
                  {"indices": (), "sections": 2, "axis": 1}, {"indices": (0, 1), "axis": 0, "squeeze_axis": True}):
        yield moved("_split_v2", attrs, data((2, 4)))


def broadcasting():
    for shape, target in (((1, 3), (2, 3)), ((2, 1, 1), (2, 3, 2)), ((1, 1), (3, 2)), ((2, 1), (0, 3)), ((1,), (4,)),
                          ((2, 3), (2, 3))):
        yield moved("broadcast_to", {"shape": target}, data(shape))
    yield OpCase("broadcast_to", [data((2, 3))], {"shape": (2, 4)}, why="axis is not one")
    yield OpCase("broadcast_to", [data((3,))], {"shape": (2, 3)}, why="ranks differ")
    for axis, size in ((1, 3), ((1, 2), (2, 3)), (-1, 2), (0, 2), ((0, 1), (2,))):
        yield moved("broadcast_axis", {"axis": axis, "size": size}, data((2, 1, 1)))
    for attrs, left, right in (({}, (1, 3), (2, 3)), ({}, (2, 1, 1), (2, 3, 2)), ({}, (1, 3), (2, 4)),
                               ({"lhs_axes": (0,), "rhs_axes": (1,)}, (1, 3), (5, 2)),
                               ({"lhs_axes": (-2,), "rhs_axes": (-1,)}, (1, 3), (5, 2))):
        yield moved("broadcast_like", attrs, data(left), data(right, seed=3))
    for dtype in ALL:
        yield OpCase("broadcast_like", [data((1, 3), dtype), data((2, 3), dtype)])


def empty():
    """Arrays without elements and without axes, which numpy shape semantics allows."""
    nothing = np.zeros((0, 3), "float32")
    for op, attrs in (("Flatten", {}), ("Reshape", {"shape": (3, 0)}), ("transpose", {}), ("expand_dims", {"axis": 0}),
                      ("slice_axis", {"axis": 1, "begin": 0, "end": 2}), ("reverse", {"axis": 0}),
                      ("tile", {"reps": (2, 1)}), ("repeat", {"repeats": 2, "axis": 0}), ("SwapAxis", {"dim2": 1})):
        yield OpCase(op, [nothing], attrs, np_shape=True)
    for begin, end in (((1, 1), (1, 2)), ((5, 0), (6, 1)), ((1, 0), (0, 2))):
        yield OpCase("slice", [data((2, 3))], {"begin": begin, "end": end}, np_shape=True, why="nothing is left")
    yield OpCase("Concat", [nothing, data((2, 3))], {"num_args": 2, "dim": 0}, np_shape=True)
    yield OpCase("stack", [nothing, nothing], {"num_args": 2}, np_shape=True)
    yield OpCase("expand_dims", [data(())], {"axis": 0}, np_shape=True)
    yield OpCase("squeeze", [data((1, 1))], np_shape=True)
    yield OpCase("transpose", [data(())], np_shape=True)
