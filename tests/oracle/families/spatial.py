"""Operators on images: deconvolution, enlarging, cropping, sampling, resizing, regions, correlation, columns."""

import numpy as np

from cases import FLOATS, InferCase, OpCase, data, distinct, layer


def cases():
    yield from deconvolution()
    yield from upsampling()
    yield from crop()
    yield from samplers()
    yield from resizing()
    yield from regions()
    yield from correlation()
    yield from columns()


def deconvolution():
    def case(shape, filters, kernel, attrs=None, dtype="float32", **more):
        attrs = dict({"kernel": kernel, "num_filter": filters}, **(attrs or {}))
        inputs = [data(shape, dtype), data((shape[1], filters // attrs.get("num_group", 1)) + kernel, dtype, seed=1)]
        if not attrs.get("no_bias", True):
            inputs.append(data((filters,), dtype, seed=2))
        return layer("Deconvolution", inputs, attrs, **more)

    for dtype in FLOATS + ("int32",):
        yield case((1, 2, 3, 3), 3, (2, 2), dtype=dtype)
    bias = {"no_bias": False}
    yield case((2, 4, 3, 4), 6, (3, 3), bias)
    yield case((2, 4, 3, 4), 6, (3, 2), dict(bias, stride=(2, 1), pad=(1, 0), adj=(1, 0)))
    yield case((2, 4, 3, 4), 6, (3, 3), dict(bias, num_group=2, stride=(2, 2), dilate=(1, 2)))
    yield case((1, 4, 3, 4), 4, (4, 4), {"num_group": 4, "stride": (2, 2), "pad": (1, 1)}, why="depthwise")
    yield case((1, 2, 3, 3), 2, (3, 3), {"stride": (2, 2), "target_shape": (6, 5)})
    yield case((1, 2, 3, 3), 2, (3, 3), {"stride": (2, 2), "target_shape": (6, 5), "pad": (5, 5), "adj": (1, 1)},
               why="target_shape wins")
    yield case((2, 4, 5), 3, (3,), dict(bias, stride=(2,), pad=(1,), adj=(1,)))
    yield case((2, 4, 5), 4, (3,), {"num_group": 2, "dilate": (2,)})
    yield case((1, 2, 2, 3, 2), 3, (2, 2, 3), dict(bias, stride=(1, 2, 2), pad=(0, 1, 1)))
    yield case((2, 4, 3, 4), 6, (1, 1), bias)
    yield case((2, 4, 3, 4), 6, (3, 3), bias, req="add")
    yield case((1, 2, 3, 3), 2, (3, 3), {"stride": (2, 2), "adj": (2, 0)}, why="adj as large as the stride")
    yield case((1, 2, 3, 3), 2, (3, 3), {"target_shape": (9, 9)}, why="too large a target")
    yield case((1, 2, 3, 3), 4, (3, 3), {"num_group": 3}, grad=None, why="a number of groups that divides nothing")
    yield OpCase("Deconvolution", [data((1, 2, 3, 3)), data((2, 4, 3, 3))], {"kernel": (3, 3)}, why="no num_filter")
    yield OpCase("_npx_deconvolution", [data((1, 2, 3, 3)), data((2, 3, 2, 2))], {"kernel": (2, 2), "num_filter": 3})
    for kw, shape in (
        ({"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "adj": (1, 1)}, (2, 4, 5, 4)),
        ({"kernel": (3,), "num_group": 2, "no_bias": False}, (2, 4, 5)),
        ({"kernel": (3, 3), "layout": "NHWC"}, (2, 4, 5, 4)),
        ({"kernel": (3, 3), "stride": (2, 2)}, (0, 4, 0, 4)),
    ):
        yield InferCase("Deconvolution", dict(kw, num_filter=6), shapes={"data": shape})
    yield InferCase("Deconvolution", {"kernel": (3, 3), "num_filter": 6}, types={"data": "float16"})


def upsampling():
    nearest = {"sample_type": "nearest", "num_args": 1}
    for dtype in FLOATS + ("int32",):
        yield layer("UpSampling", [data((1, 2, 2, 3), dtype)], dict(nearest, scale=2))
        yield layer("UpSampling", [data((1, 2, 2, 3), dtype), data((2, 1, 4, 4), dtype, seed=1)],
                    {"sample_type": "bilinear", "num_args": 2, "scale": 2, "num_filter": 2})
    for scale in (1, 3, 4):
        yield layer("UpSampling", [data((2, 2, 2, 3))], dict(nearest, scale=scale))
        k = 2 * scale - scale % 2
        yield layer("UpSampling", [data((2, 3, 2, 3)), data((3, 1, k, k), seed=1)],
                    {"sample_type": "bilinear", "num_args": 2, "scale": scale, "num_filter": 3})
    two = {"sample_type": "nearest", "num_args": 2, "scale": 2}
    yield layer("UpSampling", [data((2, 3, 4, 4)), data((2, 2, 2, 2), seed=1)], two)
    yield layer("UpSampling", [data((2, 3, 4, 4)), data((2, 3, 2, 2), seed=1)], dict(two, multi_input_mode="sum"))
    yield layer("UpSampling", [data((2, 3, 2, 2))], dict(nearest, scale=2), req="add")
    yield layer("UpSampling", [data((1, 3, 4, 4)), data((1, 2, 3, 3))], two, why="a size that does not divide")
    yield layer("UpSampling", [data((1, 3, 4, 4)), data((1, 2, 2, 2))], dict(two, multi_input_mode="sum"),
                why="other channels")
    yield layer("UpSampling", [data((1, 3, 4))], dict(nearest, scale=2), why="too few axes")
    yield layer("UpSampling", [data((1, 3, 4, 4))], dict(nearest, scale=0), why="no scale")


def crop():
    one = {"num_args": 1, "offset": (1, 2), "h_w": (2, 3)}
    yield layer("Crop", [data((2, 3, 4, 6))], one)
    yield layer("Crop", [data((1, 2, 5, 6))], dict(one, center_crop=True))
    yield layer("Crop", [data((1, 2, 5, 6))], {"num_args": 1, "h_w": (5, 6)})
    yield layer("Crop", [data((1, 2, 5, 6)), data((7, 1, 2, 2))], {"num_args": 2, "offset": (3, 4)})
    yield layer("Crop", [data((1, 2, 5, 6)), data((1, 1, 2, 3))], {"num_args": 2, "center_crop": True})
    yield layer("Crop", [data((1, 2, 5, 6))], one, req="add")
    yield layer("Crop", [data((1, 2, 5))], one, why="too few axes")
    yield layer("Crop", [data((1, 2, 5, 6))], {"num_args": 1}, why="no size")
    yield layer("Crop", [data((1, 2, 5, 6))], dict(one, h_w=(9, 9)), why="larger than the image")
    yield OpCase("Crop", [data((1, 2, 5, 6))], dict(one, offset=(4, 4)), refuse=True, why="beyond the image")
    for dtype in ("float16", "float64"):
        yield layer("Crop", [data((1, 2, 4, 6), dtype)], one)


def samplers():
    affine = {"transform_type": "affine", "target_shape": (3, 4)}
    coordinates = np.array([-1.25, -0.9, -0.3, 0.45, 0.95, 1.1, 0.7, 0.15, -0.5, -2.5, 0.05, 1.05], "float32")
    theta = np.array([[0.9, 0.1, 0.2, -0.1, 0.8, -0.3], [1.2, 0, 0.1, 0.3, 1.1, 0]], "float32")
    yield layer("GridGenerator", [theta], affine)
    yield layer("GridGenerator", [theta], affine, req="add")
    yield layer("GridGenerator", [data((2, 2, 3, 4))], {"transform_type": "warp"})
    yield layer("GridGenerator", [data((2, 6), "float64")], affine)
    yield layer("GridGenerator", [data((2, 5))], affine, why="no matrices")
    yield layer("GridGenerator", [data((2, 6))], {"transform_type": "affine"}, why="no size")
    yield layer("GridGenerator", [data((2, 3, 3, 4))], {"transform_type": "warp"}, why="three coordinates")
    for dtype in FLOATS + ("int32",):
        grid = (coordinates.reshape(1, 2, 2, 3) * (1 if dtype != "int32" else 4)).astype(dtype)
        yield layer("BilinearSampler", [data((1, 2, 3, 4), dtype), grid])
    two = np.concatenate([coordinates, coordinates[::-1]]).reshape(2, 2, 3, 2)
    yield layer("BilinearSampler", [data((2, 3, 4, 3)), two])
    yield layer("BilinearSampler", [data((2, 3, 4, 3)), two], req="add")
    yield layer("BilinearSampler", [data((2, 3, 4, 3)), two[:1]], why="other examples")
    yield layer("BilinearSampler", [data((2, 3, 4)), two], why="too few axes")
    yield InferCase("BilinearSampler", shapes={"data": (2, 3, 4, 5), "grid": (2, 2, 6, 7)})
    both = dict(affine, sampler_type="bilinear")
    yield layer("SpatialTransformer", [data((2, 3, 4, 5)), theta], both)
    yield layer("SpatialTransformer", [data((2, 3, 4, 5)), theta], both, req="add")
    yield layer("SpatialTransformer", [data((2, 1, 3, 3), "float64"), theta.astype("float64")], both)
    yield layer("SpatialTransformer", [data((2, 3, 4, 5)), theta[:, :5]], both, why="no matrices")
    yield layer("SpatialTransformer", [data((2, 3, 4, 5)), theta], dict(both, target_shape=(0, 0)), why="no size")


def resizing():
    op = "_contrib_BilinearResize2D"
    for dtype in FLOATS + ("int32",):
        yield layer(op, [data((1, 2, 3, 4), dtype)], {"height": 5, "width": 3})
        yield layer("_contrib_AdaptiveAvgPooling2D", [data((1, 2, 5, 4), dtype)], {"output_size": (2, 3)})
    for corners in (True, False):
        for size in ((1, 1), (2, 8), (7, 2), (3, 4)):
            yield layer(op, [data((2, 1, 3, 4))], {"height": size[0], "width": size[1], "align_corners": corners})
        yield layer(op, [data((1, 1, 1, 1))], {"height": 2, "width": 3, "align_corners": corners})
    scales = {"scale_height": "1.5", "scale_width": "0.5"}
    for mode in ("size", "odd_scale", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"):
        for shape in ((1, 1, 5, 4), (1, 2, 4, 7)):
            yield layer(op, [data(shape)], dict(scales, mode=mode))
    yield layer(op, [data((1, 2, 3, 4)), data((1, 2, 2, 6))], {"mode": "like"})
    yield layer(op, [data((1, 2, 3, 4))], {"height": 5, "width": 3}, req="add")
    yield layer(op, [data((1, 2, 3, 4))], {"height": 0, "width": 3}, why="no size")
    yield layer(op, [data((1, 2, 3, 4))], {"scale_height": "0.5"}, why="one scale")
    yield layer(op, [data((1, 2, 3))], {"height": 2, "width": 3}, why="too few axes")
    for size in ((), (1,), (3,), (5, 4), (7, 2)):
        yield layer("_contrib_AdaptiveAvgPooling2D", [data((2, 2, 5, 4))], {"output_size": size} if size else {})
    yield layer("_contrib_AdaptiveAvgPooling2D", [data((1, 2, 5, 4))], {"output_size": (2, 2)}, req="add")


def regions():
    boxes = np.array([[0, 0, 0, 3, 3], [1, 1.5, 2.5, 4.5, 9], [1, 7, 7, 9, 9], [0, 3, 3, 1, 1], [1, 0, 0, 5, 4]])
    for dtype in FLOATS + ("int32",):
        for size in ((2, 2), (1, 3)):
            yield layer("ROIPooling", [distinct((2, 2, 6, 6), dtype), boxes.astype(dtype)],
                        {"pooled_size": size, "spatial_scale": 1})
    yield layer("ROIPooling", [distinct((2, 2, 6, 6)), (boxes * [1, 2, 2, 2, 2]).astype("float32")],
                {"pooled_size": (3, 3), "spatial_scale": "0.5"})
    yield layer("ROIPooling", [distinct((2, 1, 6, 6)), boxes.astype("float32")],
                {"pooled_size": (2, 2), "spatial_scale": 1}, req="add")
    yield layer("ROIPooling", [data((1, 1, 6, 6)), data((3, 4))], {"pooled_size": (2, 2), "spatial_scale": 1},
                why="four numbers")
    yield layer("ROIPooling", [data((1, 1, 6, 6)), data((3, 5))], {"pooled_size": (2,), "spatial_scale": 1},
                why="one size")
    yield layer("ROIPooling", [data((1, 1, 6, 6)), data((3, 5))], {"pooled_size": (2, 2, 2), "spatial_scale": 1},
                why="three numbers")
    yield layer("ROIPooling", [data((1, 1, 6, 6)), data((3, 5))], {"pooled_size": (2, 2), "spatial_scale": 2},
                why="too large a scale")
    yield OpCase("ROIPooling", [data((1, 1, 6, 6)), np.array([[5, 0, 0, 3, 3]], "float32")],
                 {"pooled_size": (2, 2), "spatial_scale": 1}, why="an image that is not there")
    yield OpCase("_npx_roi_pooling", [distinct((2, 2, 6, 6)), boxes.astype("float32")],
                 {"pooled_size": (2, 2), "spatial_scale": 1})


def correlation():
    def images(shape, dtype="float32"):
        return [data(shape, dtype), data(shape, dtype, seed=1)]

    for dtype in FLOATS + ("int32",):
        yield layer("Correlation", images((1, 2, 4, 5), dtype))
    for attrs in (
        {"max_displacement": 2, "pad_size": 2},
        {"kernel_size": 3, "pad_size": 1, "max_displacement": 0},
        {"kernel_size": 3, "max_displacement": 2, "stride1": 2, "stride2": 1, "pad_size": 3},
        {"max_displacement": 2, "stride2": 2, "pad_size": 1},
        {"max_displacement": 3, "stride2": 2, "stride1": 2, "pad_size": 4},
    ):
        for multiply in (True, False):
            yield layer("Correlation", images((1, 2, 5, 6)), dict(attrs, is_multiply=multiply))
    yield layer("Correlation", images((2, 3, 4, 4)), {"pad_size": 1}, req="add")
    yield layer("Correlation", images((1, 2, 4, 5)), {"kernel_size": 2}, why="an even patch")
    yield layer("Correlation", images((1, 2, 4, 5)), {"max_displacement": 9}, why="nothing fits")
    yield layer("Correlation", images((2, 4, 5)), why="too few axes")


def columns():
    for dtype in FLOATS + ("int32",):
        yield layer("im2col", [data((1, 2, 3, 4), dtype)], {"kernel": (2, 2)})
        yield layer("col2im", [data((1, 8, 6), dtype)], {"kernel": (2, 2), "output_size": (3, 4)})
    more = {"kernel": (3, 2), "stride": (2, 1), "dilate": (1, 2), "pad": (1, 1)}
    yield layer("im2col", [data((2, 3, 5, 4))], more)
    yield layer("col2im", [data((2, 18, 12))], dict(more, output_size=(5, 4)))
    yield InferCase("im2col", {"kernel": (3,), "stride": (2,), "pad": (1,)}, shapes={"data": (2, 3, 5)})
    yield layer("im2col", [data((2, 3, 5, 4))], more, req="add")
    yield layer("col2im", [data((2, 18, 12))], dict(more, output_size=(5, 4)), req="add")
    yield layer("im2col", [data((2, 3, 5, 4))], {"kernel": (7, 2)}, why="larger than the image")
    yield layer("col2im", [data((1, 8, 5))], {"kernel": (2, 2), "output_size": (3, 4)}, why="other columns")
    yield layer("col2im", [data((1, 7, 6))], {"kernel": (2, 2), "output_size": (3, 4)}, why="rows that do not fit")
