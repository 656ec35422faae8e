"""Layers of the contrib namespace: attention, deformable convolution, functions with special gradients."""

import numpy as np

from cases import ALL, FLOATS, InferCase, OpCase, data, layer


def cases():
    yield from attention()
    yield from elementwise()
    yield from deformable()


def attention():
    prefix = "_contrib_interleaved_matmul_"
    for heads, dim, batch in ((1, 3, 1), (2, 2, 3), (3, 4, 2)):
        attrs = {"heads": heads}
        own = data((4, batch, heads * 3 * dim))
        yield layer(prefix + "selfatt_qk", [own], attrs)
        yield layer(prefix + "selfatt_valatt", [own, data((batch * heads, 4, 4))], attrs)
        keys = data((3, batch, heads * 2 * dim))
        yield layer(prefix + "encdec_qk", [data((2, batch, heads * dim)), keys], attrs)
        yield layer(prefix + "encdec_valatt", [keys, data((batch * heads, 2, 3))], attrs)
    for dtype in ("float16", "int32"):
        yield OpCase(prefix + "selfatt_qk", [data((4, 1, 6), dtype)], {"heads": 1})
    two = {"heads": 2}
    yield layer(prefix + "selfatt_qk", [data((4, 1, 12))], two, req="add")
    yield layer(prefix + "selfatt_valatt", [data((4, 1, 12)), data((2, 4, 4))], two, req="add")
    yield layer(prefix + "encdec_qk", [data((2, 1, 4)), data((3, 1, 8))], two, req="add")
    yield layer(prefix + "encdec_valatt", [data((3, 1, 8)), data((2, 2, 3))], two, req="add")
    yield layer(prefix + "selfatt_qk", [data((4, 1, 12))], why="no heads")
    yield layer(prefix + "selfatt_qk", [data((4, 12))], two, why="too few axes")
    yield InferCase(prefix + "selfatt_qk", two, shapes={"queries_keys_values": (5, 3, 24)})
    yield InferCase(prefix + "encdec_qk", two, shapes={"queries": (2, 3, 8), "keys_values": (5, 3, 16)})
    yield InferCase(prefix + "encdec_valatt", two, shapes={"keys_values": (5, 3, 16), "attention": (6, 2, 5)})


def elementwise():
    for op, attrs in (
        ("_contrib_div_sqrt_dim", {}),
        ("_contrib_quadratic", {"a": "0.5", "b": -1, "c": 3}),
        ("_contrib_gradientmultiplier", {"scalar": "-0.5", "is_int": False}),
        ("_contrib_backward_gradientmultiplier", {"scalar": "-0.5", "is_int": False}),
        ("_contrib_round_ste", {}),
        ("_contrib_sign_ste", {}),
    ):
        for dtype in ALL:
            if "backward" in op and dtype not in FLOATS:
                continue
            yield layer(op, [data((2, 3), dtype)], attrs, grad="all" if dtype in FLOATS and "backward" not in op else None)
        if "backward" not in op:
            yield layer(op, [data((2, 2, 4))], attrs)
            yield layer(op, [data((2, 3))], attrs, req="add")
    yield layer("_sparse__contrib_round_ste", [data((2, 3))])
    yield layer("_sparse__contrib_sign_ste", [data((2, 3))])
    yield layer("_contrib_quadratic", [data((2, 3))])
    for dtype in ("int8", "uint8", "int32", "int64"):
        for attrs in ({"a": "0.5", "b": "0.5"}, {"a": "1.5", "b": "2.75", "c": 1}):
            yield layer("_contrib_quadratic", [np.array([0, 1, 2, 3, 5, 7], dtype)], attrs, grad="all")


def deformable():
    def case(shape, filters, kernel, attrs=None, dtype="float32", bias=True, **more):
        attrs = dict({"kernel": kernel, "num_filter": filters}, **(attrs or {}))
        spread = more.pop("spread", 1.0)
        stride, pad, dilate = (attrs.get(n, d) for n, d in (("stride", (1, 1)), ("pad", (0, 0)), ("dilate", (1, 1))))
        out = tuple((shape[i + 2] + 2 * pad[i] - dilate[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in (0, 1))
        groups = attrs.get("num_deformable_group", 1)
        # Integer offsets would put sampling points on grid lines, where the derivative is discontinuous.
        offset = data((shape[0], 2 * groups * kernel[0] * kernel[1]) + out, seed=3) * spread + 0.03125
        inputs = [data(shape, dtype), offset.astype(dtype)]
        inputs.append(data((filters, shape[1] // attrs.get("num_group", 1)) + kernel, dtype, seed=1))
        if bias:
            inputs.append(data((filters,), dtype, seed=2))
        else:
            attrs["no_bias"] = True
        return layer("_contrib_DeformableConvolution", inputs, attrs, **more)

    for dtype in FLOATS + ("int32",):
        yield case((1, 2, 4, 5), 3, (2, 2), dtype=dtype)
    yield case((2, 2, 4, 5), 3, (2, 2), {"pad": (1, 1)}, bias=False)
    yield case((2, 4, 5, 4), 4, (3, 2), {"stride": (2, 1), "pad": (1, 0), "dilate": (1, 2), "num_group": 2})
    yield case((1, 4, 4, 4), 2, (3, 3), {"pad": (1, 1), "num_deformable_group": 2})
    yield case((1, 2, 4, 4), 2, (3, 3), {"pad": (1, 1)}, spread=0, why="hardly moved")
    yield case((1, 2, 4, 4), 2, (2, 2), spread=4, why="far away")
    yield case((1, 2, 4, 4), 2, (2, 2), req="add")
    yield InferCase("_contrib_DeformableConvolution", {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1)},
                    shapes={"data": (2, 3, 5, 6), "offset": (2, 18, 5, 6)})
    yield InferCase("_contrib_ModulatedDeformableConvolution", {"kernel": (3, 3), "num_filter": 4, "pad": (1, 1)},
                    shapes={"data": (2, 3, 5, 6), "offset": (2, 18, 5, 6), "mask": (2, 9, 5, 6)})
