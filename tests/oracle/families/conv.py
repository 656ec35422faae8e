"""Convolution and Pooling in one, two and three dimensions."""

import itertools

import numpy as np

from cases import ALL, FLOATS, OpCase, data


def cases():
    yield from convolution()
    yield from pooling()


def conv(shape, attrs, dtype="float32", **more):
    """Inputs of the sizes that the attributes ask for."""
    layout = attrs.get("layout")
    channels = shape[-1] if layout in ("NHWC", "NWC", "NDHWC") else shape[1]
    kernel, filters, groups = tuple(attrs["kernel"]), attrs["num_filter"], attrs.get("num_group", 1)
    weight = (filters, channels // groups) + kernel
    if layout in ("NHWC", "NWC", "NDHWC"):
        weight = (filters,) + kernel + (channels // groups,)
    inputs = [data(shape, dtype), data(weight, dtype, seed=1, lo=-1, hi=1)]
    if not attrs.get("no_bias"):
        inputs.append(data((filters,), dtype, seed=2))
    floating = dtype in FLOATS
    more.setdefault("train", floating)
    more.setdefault("grad", "all" if floating else None)
    return OpCase("Convolution", inputs, attrs, **more)


def convolution():
    plain = {"kernel": (3, 3), "num_filter": 2}
    for dtype in ALL:
        yield conv((1, 2, 4, 4), plain, dtype)
    for kernel, stride, pad in itertools.product((1, 2, 3), (1, 2), (0, 1)):
        yield conv((2, 2, 5, 4), {"kernel": (kernel, kernel), "stride": (stride, stride), "pad": (pad, pad),
                                  "num_filter": 3})
    for attrs in ({"dilate": (2, 2)}, {"dilate": (2, 1), "pad": (1, 0)}, {"no_bias": True}, {"stride": (2, 1)},
                  {"pad": (2, 0), "dilate": (1, 2)}, {"workspace": 256, "cudnn_off": True, "cudnn_tune": "off"},
                  {"layout": "NCHW"}):
        yield conv((1, 2, 5, 5), dict(plain, **attrs))
    for groups, filters in ((2, 4), (4, 4), (4, 8)):
        yield conv((1, 4, 4, 4), {"kernel": (3, 3), "num_filter": filters, "num_group": groups, "pad": (1, 1)})
    yield conv((2, 4, 3, 3), {"kernel": (1, 1), "num_filter": 2, "num_group": 2, "no_bias": True, "stride": (2, 2)})
    yield conv((2, 3, 7), {"kernel": (3,), "num_filter": 2})
    yield conv((2, 2, 7), {"kernel": (3,), "num_filter": 2, "stride": (2,), "pad": (1,), "dilate": (2,)})
    yield conv((1, 2, 3, 4, 3), {"kernel": (2, 2, 2), "num_filter": 2})
    yield conv((1, 2, 3, 3, 3), {"kernel": (3, 3, 3), "num_filter": 2, "pad": (1, 1, 1), "stride": (2, 2, 2),
                                 "num_group": 2})
    yield conv((1, 1, 9, 9), {"kernel": (7, 7), "num_filter": 1, "stride": (2, 2), "pad": (3, 3)})
    yield conv((1, 1, 8, 8), {"kernel": (5, 3), "num_filter": 2, "pad": (2, 1)})
    yield conv((1, 3, 6, 6), plain, train=True, req="add")
    yield conv((1, 3, 6, 6), plain, train=False, grad=None)
    yield conv((1, 5, 6, 6), {"kernel": (3, 3), "num_filter": 18, "pad": (1, 1)}, why="more filters than a tile")
    for dtype in ("float16", "float64"):
        yield conv((1, 2, 5, 5), dict(plain, stride=(2, 2), pad=(1, 1)), dtype)
    yield from wrong_convolution(plain)


def wrong_convolution(plain):
    good = [data((1, 2, 4, 4)), data((2, 2, 3, 3)), data((2,))]
    yield OpCase("Convolution", [good[0], data((2, 3, 3, 3)), good[2]], plain, why="weight of another size")
    yield OpCase("Convolution", [good[0], good[1], data((3,))], plain, why="bias of another size")
    yield OpCase("Convolution", [data((1, 2, 2, 2)), good[1], good[2]], plain, why="kernel larger than the image")
    yield OpCase("Convolution", [data((2, 4)), good[1], good[2]], plain, why="rank does not suit the kernel")
    yield OpCase("Convolution", [data((1, 3, 4, 4)), data((2, 1, 3, 3)), good[2]], dict(plain, num_group=2),
                 why="groups do not divide the channels")
    yield OpCase("Convolution", good, dict(plain, stride=(0, 0)), why="no stride")
    yield OpCase("Convolution", good, dict(plain, layout="NHWC"), why="layout without a kernel on the CPU")
    yield OpCase("Convolution", good, {"kernel": (3, 3)}, why="num_filter left out")
    yield OpCase("Convolution", good, dict(plain, num_filter=0), why="no filters")
    yield OpCase("Convolution", good, {"num_filter": 2}, why="kernel left out")
    yield OpCase("Convolution", good, dict(plain, colour="red"), why="unknown parameter")


def pool(shape, attrs, dtype="float32", **more):
    floating = dtype in FLOATS
    more.setdefault("train", floating)
    more.setdefault("grad", "all" if floating else None)
    return OpCase("Pooling", [data(shape, dtype)], attrs, **more)


def pooling():
    for kind in ("max", "avg", "sum", "lp"):
        extra = {"p_value": 2} if kind == "lp" else {}
        base = dict(extra, pool_type=kind)
        for dtype in ALL:
            yield pool((1, 2, 4, 4), dict(base, kernel=(2, 2), stride=(2, 2)), dtype)
        for stride, pad, convention in itertools.product((1, 2), (0, 1), ("valid", "full", "same")):
            if convention == "same" and pad:
                continue
            yield pool((1, 2, 5, 4), dict(base, kernel=(3, 2), stride=(stride, stride), pad=(pad, pad),
                                          pooling_convention=convention))
        yield pool((2, 2, 7), dict(base, kernel=(3,), stride=(2,), pad=(1,)))
        yield pool((1, 2, 3, 4, 3), dict(base, kernel=(2, 2, 2), stride=(1, 2, 1)))
        yield pool((2, 2, 3, 4), dict(base, global_pool=True))
        yield pool((2, 2, 3, 4), dict(base, global_pool=True, kernel=(2, 2)))
        yield pool((2, 2, 5), dict(base, global_pool=True, kernel=(1,)))
        yield pool((1, 2, 4, 4), dict(base, kernel=(2, 2)), req="add")
        yield pool((1, 4, 4, 2), dict(base, kernel=(2, 2), stride=(2, 2), layout="NHWC"))
        yield pool((1, 2, 4, 4), dict(base, kernel=(3, 3)), train=False, grad=None)
    for count in (True, False):
        for convention in ("valid", "full"):
            yield pool((1, 1, 4, 5), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg",
                                      "count_include_pad": count, "pooling_convention": convention})
    for power in (1, 2, 3):
        yield pool((1, 1, 4, 4), {"kernel": (2, 2), "stride": (2, 2), "pool_type": "lp", "p_value": power})
    yield pool((1, 1, 4, 4), {"kernel": (2, 2), "stride": (2, 2)}, why="the defaults")
    yield OpCase("Pooling", [np.array([[[[1, 1], [1, 1]]]], "float32")], {"kernel": (2, 2)}, train=True, grad="all",
                 why="ties")
    yield OpCase("Pooling", [np.array([[[[1, np.nan], [3, 2]]]], "float32")], {"kernel": (2, 2)}, why="NaN")
    yield OpCase("Pooling", [data((1, 1, 4, 4))], {"kernel": (5, 5)}, why="kernel larger than the image")
    yield OpCase("Pooling", [data((1, 1, 4, 4))], {"pool_type": "lp", "kernel": (2, 2)}, why="p_value left out")
    yield OpCase("Pooling", [data((1, 1, 4, 4))], {"kernel": (2, 2), "stride": (0, 1)}, why="no stride")
    yield OpCase("Pooling", [data((1, 1, 4, 4))], {"kernel": (2, 2), "pool_type": "mean"}, why="no such kind")
    yield OpCase("Pooling", [data((4, 4))], {"kernel": (2, 2)}, why="rank does not suit the kernel")
    yield OpCase("Pooling", [data((1, 1, 4, 4))], {"kernel": (2, 2), "layout": "CHWN"}, why="no such layout")
