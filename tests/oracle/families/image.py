"""Images: transformations for training, scaling, borders."""

import numpy as np

from cases import ALL, FLOATS, INTS, OpCase, data

NUMERIC = FLOATS + INTS


def cases():
    yield from transforms()
    yield from colors()
    yield from scaling()
    yield from borders()


def image(shape=(4, 6, 3), dtype="uint8", seed=0):
    """Pixels over the whole range of bytes (of int8 for that type)."""
    values = np.random.RandomState(seed + 11).randint(0, 256, shape)
    return (values // 2 if dtype == "int8" else values).astype(dtype)


def transforms():
    for dtype in NUMERIC:
        yield OpCase("_image_to_tensor", [image(dtype=dtype)], rtol=2e-3 if dtype == "float16" else None)
        yield OpCase("_image_normalize", [image((3, 2, 4), dtype)], {"mean": (1, 2, 3), "std": (2, 4, 8)})
        yield OpCase("_image_crop", [image(dtype=dtype)], {"x": 1, "y": 2, "width": 3, "height": 1})
        yield OpCase("_image_flip_top_bottom", [image(dtype=dtype)])
        yield OpCase("_image_flip_left_right", [image(dtype=dtype)])
    for shape in ((4, 5, 1), (2, 4, 5, 3), (4, 5, 2), (4, 5), (1, 1, 3)):
        yield OpCase("_image_to_tensor", [image(shape)])
    yield OpCase("_image_to_tensor", [data((2, 3, 2))])

    def normalize(shape, attrs=None, dtype="float32", **more):
        floating = dtype in FLOATS
        return OpCase("_image_normalize", [data(shape, dtype)], attrs or {}, train=floating,
                      grad="all" if floating else None, **more)

    for dtype in FLOATS:
        yield normalize((2, 3, 2, 2), {"mean": (0.5, 0.25, 1), "std": (0.5, 2, 4)}, dtype)
    for attrs in ({"mean": (0.5,), "std": (2,)}, {"mean": 0.5, "std": 4}):
        for shape in ((1, 2, 3), (3, 2, 2), (2, 1, 2, 2)):
            yield normalize(shape, attrs)
    yield normalize((3, 2, 2), {"mean": (1, 2, 3), "std": (2, 4, 8)}, req="add")
    yield OpCase("_image_normalize", [data((3, 2, 2))], {"std": (0, 1, 1), "mean": (1, 2, 3)}, why="no deviation")
    yield OpCase("_image_normalize", [data((3, 2, 2))], {"mean": (1, 2), "std": (1,)}, why="two means, three channels")
    yield OpCase("_image_normalize", [data((4, 2, 2))], {"mean": (1,), "std": (1,)}, why="four channels")
    yield OpCase("_image_normalize", [data((2, 2))], {"mean": (1,), "std": (1,)}, why="a matrix")

    def crop(shape, attrs, **more):
        return OpCase("_image_crop", [data(shape)], dict(zip(("x", "y", "width", "height"), attrs)), **more)

    for shape in ((4, 5, 3), (2, 4, 5, 1)):
        yield crop(shape, (1, 2, 3, 2), train=True, grad="all")
        yield crop(shape, (0, 0, 5, 4))
        yield crop(shape, (4, 3, 1, 1), train=True, grad="all", req="add")
    yield crop((4, 5, 3), (3, 0, 3, 2), why="beyond the right edge")
    yield crop((4, 5, 3), (0, 3, 3, 2), why="beyond the lower edge")
    yield crop((4, 5, 3), (-1, 0, 3, 2), refuse=True, why="before the left edge")
    yield crop((4, 5, 3), (0, 0, 0, 2), why="no columns")
    yield crop((4, 5, 2), (0, 0, 2, 2), why="two channels")
    for op in ("_image_flip_top_bottom", "_image_flip_left_right"):
        for shape in ((4, 4, 1), (2, 6, 3), (2, 2, 3)):
            yield OpCase(op, [data(shape)])
        yield OpCase(op, [data((2, 4, 4, 3))], why="a batch")
        yield OpCase(op, [data((4, 4, 2))], why="two channels")
    for op in ("_image_random_flip_top_bottom", "_image_random_flip_left_right"):
        yield OpCase(op, [image((4, 4, 3))], compare="shape")
        yield OpCase(op, [np.full((2, 2, 3), 5, "float32")], why="the same either way")
        yield OpCase(op, [data((4, 4, 2))], why="two channels")


def colors():
    def factors(low, high=None):
        return {"min_factor": low, "max_factor": low if high is None else high}

    for op in ("brightness", "contrast", "saturation", "hue"):
        name = "_image_random_" + op
        for dtype in NUMERIC:
            if op != "hue" or dtype in FLOATS:
                yield OpCase(name, [image(dtype=dtype)], factors("0.5"), rtol=1e-3, atol=0.25 if dtype == "float16" else 1e-2)
        for factor in ("0", "1", "1.75", "0.3"):
            yield OpCase(name, [image(dtype="float32", seed=1)], factors(factor), rtol=1e-3, atol=1e-2)
            if op != "hue":
                yield OpCase(name, [image(seed=1)], factors(factor))
        yield OpCase(name, [image()], factors("0.2", "1.5"), compare="shape")
        if op != "hue":
            yield OpCase(name, [image((3, 2, 1), "float32")], factors("0.5"), rtol=1e-4)
        yield OpCase(name, [image((3, 3, 2), "float32")], factors("0.5"), why="two channels")
        yield OpCase(name, [image((2, 3, 3, 3), "float32")], factors("0.5"), why="a batch")
        yield OpCase(name, [image()], factors("-0.5", "0.5"), why="a negative factor")
        yield OpCase(name, [image()], {"min_factor": 1}, why="max_factor left out")
        yield OpCase(name, [data((2, 2, 3))], factors("1"), train=True, grad="all", rtol=1e-3, atol=1e-3)
    gray = np.repeat(image((3, 3, 1), "float32"), 3, axis=2)
    yield OpCase("_image_random_hue", [gray], factors("0.4"), rtol=1e-4, atol=1e-3, why="no hue to turn")
    yield OpCase("_image_random_color_jitter", [image()],
                 {"brightness": "0.1", "contrast": "0.2", "saturation": "0.3", "hue": "0.1"}, compare="shape")
    for dtype in NUMERIC:
        yield OpCase("_image_adjust_lighting", [image(dtype=dtype)], {"alpha": (0.5, -0.25, 0.125)}, rtol=1e-3)
    yield OpCase("_image_adjust_lighting", [image()], {"alpha": (2, 1, 1)}, why="beyond the range of bytes")
    yield OpCase("_image_adjust_lighting", [data((2, 2, 3))], {"alpha": (0.5, 1, 1)}, train=True, grad="all")
    yield OpCase("_image_adjust_lighting", [image()], {"alpha": (0.5, 1)}, why="two weights")
    yield OpCase("_image_random_lighting", [image()], {"alpha_std": "0.1"}, compare="shape")
    yield OpCase("_image_random_lighting", [image()], {"alpha_std": "0"})


def scaling():
    for interp in range(5):
        for dtype in ("uint8", "float32", "float64"):
            for size in ((3, 2), (9, 7), (6, 4), (4, 9)):
                yield OpCase("_image_resize", [image((5, 8, 3), dtype)], {"size": size, "interp": interp},
                             rtol=1e-4, atol=1e-2)
        yield OpCase("_image_resize", [image((4, 6, 1))], {"size": (3, 2), "interp": interp}, why="half the size")
        yield OpCase("_image_resize", [image((6, 9, 3))], {"size": (3, 2), "interp": interp}, why="a third of the size")
        yield OpCase("_cvimresize", [image((5, 8, 3))], {"w": 3, "h": 4, "interp": interp}, imperative=True)
    for size in (2, (3,), (2, 5)):
        for keep in (False, True):
            for shape in ((4, 6, 3), (6, 4, 1), (2, 4, 5, 3)):
                yield OpCase("_image_resize", [image(shape, "float32")], {"size": size, "keep_ratio": keep}, rtol=1e-4, atol=1e-3)
    for size in ((), (0, 2), (-1, 3), (1, 2, 3)):
        yield OpCase("_image_resize", [image()], {"size": size}, why="no size")
    yield OpCase("_image_resize", [image()], {"size": 2, "interp": 9}, why="no such interpolation")
    yield OpCase("_image_resize", [image((4, 5))], {"size": 2}, why="a matrix")
    for dtype in ("float16", "int32"):
        yield OpCase("_image_resize", [image(dtype=dtype)], {"size": 2})
    yield OpCase("_cvimresize", [image()], {"w": 0, "h": 4}, imperative=True, why="no width")
    yield OpCase("_cvimresize", [image((4, 5))], {"w": 2, "h": 4}, imperative=True, why="a matrix")


def borders():
    def border(x, attrs, **more):
        return OpCase("_cvcopyMakeBorder", [x], attrs, imperative=True, **more)

    size = {"top": 1, "bot": 2, "left": 3, "right": 0}
    for kind in range(5):
        for dtype in ("uint8", "float32", "float64", "int32"):
            yield border(image((4, 5, 3), dtype), dict(size, type=kind))
        yield border(image((2, 2, 1)), {"top": 5, "bot": 4, "left": 5, "right": 6, "type": kind}, why="wider than the image")
        yield border(image((1, 1, 3)), dict(size, type=kind), why="one pixel")
    yield border(image((4, 5, 3)), dict(size, value=7))
    yield border(image((4, 5, 3)), dict(size, values=(7, 8, 9)))
    yield border(image((4, 5, 1)), dict(size, value=7))
    yield border(image((4, 5, 3)), {"top": 0, "bot": 0, "left": 0, "right": 0})
    for dtype in ("uint8", "int32", "float32"):
        for value in (-1, 300, 2.5, 3.5, -2.5, 127.7, 1e10, -1e10):
            yield border(image((2, 2, 3), dtype), dict(size, value=value))
    yield border(image((4, 5, 3)), dict(size, top=-1), why="a negative border")
    yield border(image((4, 5, 3)), dict(size, type=7), why="no such border")
    yield border(image((4, 5)), size, why="a matrix")
