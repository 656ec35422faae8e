"""Calls that the comparison of random calls (`tests/oracle/differ`) found to differ."""

import numpy as np

from cases import FLOATS, OpCase, data, whole


def cases():
    yield from numpy_calls()
    yield from integer_gradients()
    yield from matrices()
    yield from detection()


def plain(op, inputs, attrs=None, **more):
    return OpCase(op, inputs, attrs or {}, np_shape=True, **more)


def numpy_calls():
    a = data((2, 3))
    for axis in ("None", (0, 0), (0, 0, 0), (1, 0, 1)):
        yield plain("_npi_flip", [a], {"axis": axis}, train=True, grad="all")
    yield plain("_npi_flip", [data(())], {"axis": (0,)}, why="no axes")
    for attrs, obj in (({"start": 1}, [0, 2]), ({"stop": 2}, [1]), ({"step": 1}, None), ({"start": 1, "step": 1}, None)):
        inputs = [a] if obj is None else [a, np.array(obj, "int64")]
        yield plain("_npi_delete", inputs, dict(attrs, axis=1), imperative=True)
    yield plain("_npi_bincount", [np.array([3, 1], "int32")], {"minlength": -1}, imperative=True)
    everything = {"return_index": True, "return_inverse": True, "return_counts": True}
    for shape, attrs in (((3, 0), {"axis": 0}), ((0, 3), {"axis": 1}), ((0,), {}), ((0, 3), everything)):
        yield plain("_npi_unique", [np.zeros(shape, "float32")], attrs, imperative=True)
    for dtype in FLOATS:
        x = np.array([1, -1, 2, -2, 3, -3, np.nan, 0.0, -0.0], dtype)
        signs = np.array([np.nan, np.nan, -0.0, -0.0, 0.0, 0.0, -1, -1, 1], dtype)
        yield plain("_npi_copysign", [x, signs])
    for scalar in ("-0.0", "0", "2"):
        yield plain("_npi_copysign_scalar", [data((6,))], {"scalar": scalar})
        yield plain("_npi_rcopysign_scalar", [np.array([0.0, -0.0, np.nan, -1], "float32")], {"scalar": scalar})
    for pvals in ((0.5, 0.5, 0.3), (0.5, 0.2, 0.1), (1.5,)):
        yield plain("_npi_multinomial", [np.array(pvals)], {"n": 4}, compare="shape")
    for op, dim in (("_npi_hstack", 0), ("_npi_hstack", -2), ("_npi_dstack", 0), ("_npi_dstack", 7)):
        yield plain(op, [a, data((2, 3), seed=1)], {"num_args": 2, "dim": dim})


def integer_gradients():
    """The gradient of a result of another type is truncated to the array's type before it is divided."""
    x = whole((2, 3), lo=1, hi=4)
    for op in ("_np_sum", "_np_prod", "_npi_mean"):
        for dtype in ("float16", "float64", "int32"):
            for of in ("uint8", "int32", "float32"):
                head = np.array([1.5, -3, 7]).astype(dtype)
                yield plain(op, [x.astype(of)], {"axis": 0, "dtype": dtype}, train=True, grad="all", head=[head])


def matrices():
    for matrix in ([[4, 1], [np.nan, 3]], [[np.inf, 1], [1, 3]], [[-1, 1], [1, 3]], [[0, 0], [0, 1]]):
        for op in ("_linalg_potrf", "_npi_cholesky"):
            yield plain(op, [np.array(matrix, "float32")])
    for op in ("_random_pdf_negative_binomial", "_random_pdf_gamma", "_random_pdf_normal"):
        parameters = [np.array([1.5, 3], "float32"), np.array([0.25, 0.5], "float32")]
        yield plain(op, [np.zeros((2, 0), "float32")] + parameters, train=True, grad="all")


def detection():
    for offsets in ((1.5, 0.5), (0.5, -1), (0, 1)):
        yield OpCase("_contrib_MultiBoxPrior", [data((1, 1, 2, 2))], {"offsets": offsets})
    rois = np.array([[0, 0, 0, 3, 3]], "float32")
    for scale in ("-0.25", "1.5", "1"):
        yield OpCase("_contrib_ROIAlign", [data((1, 4, 4, 4)), rois], {"pooled_size": (2, 2), "spatial_scale": scale})
        pooled = {"pooled_size": 2, "output_dim": 1, "spatial_scale": scale}
        yield OpCase("_contrib_PSROIPooling", [data((1, 4, 4, 4)), rois], pooled)
