"""Operators of object detection: anchors, their matching and decoding, suppression of boxes, pooling of regions."""

import numpy as np

from cases import FLOATS, OpCase, data, distinct, whole


def cases():
    yield from boxes()
    yield from suppression()
    yield from matching()
    yield from anchors()
    yield from targets()
    yield from detections()
    yield from proposals()
    yield from align()
    yield from position_sensitive()
    yield from rotated()


def corners(shape, dtype="float32", seed=0, size=1.0):
    """Boxes (x1, y1, x2, y2) with positive width and height, inside of a square of this size."""
    rng = np.random.RandomState(seed + 7)
    low = rng.randint(0, 24, tuple(shape) + (2,)) / 32.0
    span = rng.randint(3, 20, tuple(shape) + (2,)) / 32.0
    return (np.concatenate([low, np.minimum(low + span, 1)], axis=-1) * size).astype(dtype)


def scored(shape, dtype="float32", seed=0, classes=2, ties=False):
    """Rows (class, score, x1, y1, x2, y2)."""
    rng = np.random.RandomState(seed + 3)
    count = int(np.prod(shape))
    steps = 4 if ties else count
    score = (rng.permutation(count) % steps).reshape(tuple(shape) + (1,)) / float(steps)
    kind = rng.randint(0, classes, tuple(shape) + (1,))
    return np.concatenate([kind, score, corners(shape, seed=seed)], axis=-1).astype(dtype)


def boxes():
    for fmt in ("corner", "center"):
        for dtype in FLOATS + ("int32",):
            scale = 8 if dtype == "int32" else 1
            yield OpCase("_contrib_box_iou", [corners((3,), dtype, size=scale), corners((4,), dtype, 1, scale)],
                         {"format": fmt}, grad="all" if dtype == "float32" else None)
        yield OpCase("_contrib_box_iou", [corners((2, 3)), corners((1, 2), seed=1)], {"format": fmt})
        yield OpCase("_contrib_box_iou", [corners(()), corners((2,), seed=1)], {"format": fmt})
    yield OpCase("_contrib_box_iou", [np.zeros((2, 4), "float32"), corners((2,))], {}, why="boxes without area")
    yield OpCase("_contrib_box_iou", [data((2, 4)), data((3, 4), seed=1)], {}, why="corners in any order")
    yield OpCase("_contrib_box_iou", [data((2, 5)), data((3, 4))], {}, why="no boxes")
    yield OpCase("_contrib_box_iou", [data((2, 4)), data((3, 4))], {"format": "edge"}, why="no such format")
    yield OpCase("_contrib_box_iou", [np.zeros((0, 4), "float32"), corners((2,))], {}, np_shape=True)

    means, stds = np.array([0, 0.25, -0.5, 0.125], "float32"), np.array([0.1, 0.1, 0.2, 0.2], "float32")
    samples = np.array([[1, -1, 0, 1], [0, 1, 0.25, 0.75]], "float32")
    matches = np.array([[0, 1, 2, 2], [1, 0, 0, 1]], "float32")
    for dtype in FLOATS:
        inputs = [samples, matches, corners((2, 4)), corners((2, 3), seed=1), means, stds]
        yield OpCase("_contrib_box_encode", [x.astype(dtype) for x in inputs])
    inputs = [samples, matches, corners((2, 4)), corners((2, 3), seed=1), means, stds]
    yield OpCase("_contrib_box_encode", inputs, grad="all")
    yield OpCase("_contrib_box_encode", inputs[:2] + [corners((2, 5))] + inputs[3:], why="more anchors than samples")
    yield OpCase("_contrib_box_encode", inputs[:4] + [means[:3], stds], why="three means")
    for dtype in FLOATS:
        for fmt in ("corner", "center"):
            for clip in ("-1", "0.5"):
                attrs = {"format": fmt, "clip": clip, "std0": "0.1", "std1": "0.2", "std2": "0.3", "std3": "0.4"}
                yield OpCase("_contrib_box_decode", [data((2, 3, 4), dtype), corners((1, 3), dtype)], attrs)
    yield OpCase("_contrib_box_decode", [data((2, 3, 4)), corners((1, 3))], {}, grad="all")
    yield OpCase("_contrib_box_decode", [data((2, 3, 4)), corners((2, 3))], {}, why="anchors for each example")
    yield OpCase("_contrib_box_decode", [data((2, 3, 4)), corners((1, 2))], {}, why="fewer anchors than boxes")
    yield OpCase("_contrib_box_decode", [data((2, 3, 5)), corners((1, 3))], {}, why="no boxes")


def suppression():
    def nms(x, attrs=None, **more):
        return OpCase("_contrib_box_nms", [x], attrs or {}, **more)

    for dtype in FLOATS + ("int32",):
        yield nms(scored((12,), dtype), {"overlap_thresh": "0.3"})
    for shape in ((1,), (2, 8), (2, 3, 5)):
        yield nms(scored(shape), {"overlap_thresh": "0.2"}, train=True, grad="all")
    with_class = {"overlap_thresh": "0.2", "id_index": 0}
    for more in ({}, {"force_suppress": True}, {"background_id": 0}, {"background_id": 1, "force_suppress": True},
                 {"valid_thresh": "0.4"}, {"valid_thresh": 2}, {"topk": 3}, {"topk": 0}, {"topk": 100},
                 {"in_format": "center"}, {"out_format": "center"}, {"in_format": "center", "out_format": "center"}):
        yield nms(scored((2, 12), seed=5, classes=3), dict(with_class, **more), train=True, grad="all")
    yield nms(scored((2, 12), seed=6, ties=True), {"overlap_thresh": "0.5"}, why="equal scores")
    for threshold in ("0", "1", "-1"):
        yield nms(scored((8,), seed=7), {"overlap_thresh": threshold})
    yield nms(scored((6,))[:, 1:], {"coord_start": 1, "score_index": 0})
    yield nms(np.roll(scored((6,)), -1, 1), {"coord_start": 1, "score_index": 0, "id_index": 5})
    yield nms(scored((6,)), {"overlap_thresh": "0.3"}, req="add", train=True, grad="all")
    yield nms(scored((6,)), {"coord_start": 3}, why="coordinates beyond the row")
    yield nms(scored((6,)), {"score_index": 6}, why="no such score")
    yield nms(scored((6,)), {"id_index": 6}, why="no such class")
    yield nms(scored((6,)), {"score_index": 3}, why="the score is a coordinate")
    yield nms(scored((6,)), {"id_index": 1}, why="the class is the score")
    yield nms(data((6,)), {}, why="a vector")
    yield OpCase("_contrib_box_non_maximum_suppression", [scored((6,))], {"overlap_thresh": "0.3"})


def matching():
    def match(x, attrs=None, **more):
        return OpCase("_contrib_bipartite_matching", [x], dict({"threshold": "0.1"}, **(attrs or {})), **more)

    for dtype in FLOATS + ("int32",):
        yield match(distinct((3, 4), dtype))
    for ascend in (False, True):
        for shape in ((4, 3), (2, 3, 5), (1, 1), (2, 2, 2, 3)):
            yield match(distinct(shape, seed=2), {"is_ascend": ascend}, grad="all")
        for topk in (0, 1, 2, 10):
            yield match(distinct((4, 5), seed=3), {"is_ascend": ascend, "topk": topk})
        for threshold in ("-2", "0", "2", "100"):
            yield match(distinct((3, 4), seed=4), {"is_ascend": ascend, "threshold": threshold})
        yield match(whole((4, 4), hi=2), {"is_ascend": ascend}, why="ties")
    yield match(data((3,)), why="a vector")
    yield OpCase("_contrib_bipartite_matching", [data((3, 4))], {}, why="threshold left out")


def anchors():
    def prior(shape, attrs=None, dtype="float32", **more):
        return OpCase("_contrib_MultiBoxPrior", [data(shape, dtype)], attrs or {}, **more)

    yield prior((1, 2, 2, 3), grad="all", train=True)
    for dtype in ("float16", "float64", "int32"):
        yield prior((1, 2, 2, 3), dtype=dtype)
    for attrs in ({"sizes": (0.5, 0.25)}, {"ratios": (2, 0.5, 1)}, {"sizes": (0.3, 0.9), "ratios": (1, 3)},
                  {"sizes": (0.3, 0.9), "ratios": (2, 3), "clip": True}, {"steps": (0.1, 0.2)},
                  {"steps": (-1, 0.2)}, {"offsets": (0, 1)}, {"sizes": (0.75,), "clip": 1}):
        for shape in ((1, 2, 2, 3), (2, 1, 3, 1)):
            yield prior(shape, attrs)
    yield prior((1, 2, 2), why="three dimensions")
    yield prior((1, 2, 2, 3), {"sizes": ()}, why="no sizes")
    yield prior((1, 2, 2, 3), {"ratios": ()}, why="no ratios")
    yield prior((1, 2, 2, 3), {"steps": (0.1,)}, why="one step")
    yield prior((1, 2, 2, 3), {"offsets": (0.1,)}, why="one offset")
    yield OpCase("_npx_multibox_prior", [data((1, 2, 2, 3))], {"sizes": (0.5,)})


def labels(batch, count, filled, width=5, seed=0):
    out = -np.ones((batch, count, width), "float32")
    for b in range(batch):
        for i in range(filled[b]):
            rng = np.random.RandomState(31 * seed + 7 * b + i)
            out[b, i, 0] = rng.randint(0, 3)
            out[b, i, 1:5] = corners((1,), seed=seed + 10 * b + i)[0]
    return out


def targets():
    def target(boxes, label, prediction, attrs=None, **more):
        return OpCase("_contrib_MultiBoxTarget", [boxes, label, prediction], attrs or {}, **more)

    boxes = corners((1, 12), seed=3)
    scores = data((2, 4, 12), seed=1)
    for filled in ((1, 3), (0, 2), (0, 0), (3, 3)):
        yield target(boxes, labels(2, 3, filled), scores)
    some = labels(2, 3, (2, 3), seed=1)
    for attrs in ({"overlap_threshold": "0.2"}, {"overlap_threshold": "0"}, {"overlap_threshold": "-1"},
                  {"overlap_threshold": "0.9"}, {"negative_mining_ratio": 1}, {"negative_mining_ratio": 3},
                  {"negative_mining_ratio": 2, "negative_mining_thresh": "0.3"},
                  {"negative_mining_ratio": 1, "overlap_threshold": "0.25", "ignore_label": -2},
                  {"negative_mining_ratio": "0.5", "minimum_negative_samples": 5},
                  {"ignore_label": 7}, {"variances": (1, 1, 1, 1)}, {"variances": (0.1, 0.2, 0.3, 0.4)}):
        yield target(boxes, some, scores, attrs)
    yield target(boxes, some, scores, train=True, grad="all")
    yield target(boxes, labels(2, 3, (2, 3), width=6), scores, why="labels with more than a box")
    yield target(corners((1, 1)), labels(1, 1, (1,)), data((1, 2, 1)), why="one anchor, one label")
    yield target(boxes[:, :2], labels(1, 3, (3,)), data((1, 2, 2)), why="more labels than anchors")
    yield target(boxes, labels(2, 3, (0, 1)), scores, {"negative_mining_ratio": 3, "ignore_label": -1})
    far = np.array([[[0, 0, 0.1, 0.1], [0.9, 0.9, 1, 1]]], "float32")
    yield target(far, np.array([[[1, 0.4, 0.4, 0.6, 0.6]]], "float32"), data((1, 2, 2)), why="no overlap at all")
    yield target(boxes, some[:, :, :4], scores, why="labels without a box")
    yield target(corners((2, 12)), some, scores, why="anchors for each example")
    yield target(boxes, some, data((2, 4, 11)), why="predictions for fewer anchors")
    yield target(boxes, some, scores, {"variances": (0.1, 0.1)}, why="two variances")
    for dtype in ("float16", "float64"):
        yield target(boxes.astype(dtype), some.astype(dtype), scores.astype(dtype))
    yield OpCase("_npx_multibox_target", [boxes, some, scores])


def detections():
    def detect(probability, location, boxes, attrs=None, **more):
        return OpCase("_contrib_MultiBoxDetection", [probability, location, boxes], attrs or {}, **more)

    rng = np.random.RandomState(5)
    raw = rng.randint(1, 64, (2, 4, 10)).astype("float32")
    probability = raw / raw.sum(1, keepdims=True)
    location = data((2, 40), lo=-1, hi=1)
    boxes = corners((1, 10), seed=4)
    for attrs in ({}, {"clip": False}, {"threshold": "0.4"}, {"threshold": "1"}, {"nms_threshold": "0.2"},
                  {"nms_threshold": "0"}, {"nms_threshold": "1"}, {"nms_threshold": "2"}, {"nms_threshold": "-1"},
                  {"force_suppress": True, "nms_threshold": "0.3"}, {"variances": (1, 1, 0.5, 0.5), "clip": False},
                  {"nms_topk": 3}, {"nms_topk": 3, "force_suppress": True, "nms_threshold": "0.1"}, {"nms_topk": 0},
                  {"nms_topk": 100}, {"background_id": 1}, {"background_id": 3, "threshold": "0.3"}):
        yield detect(probability, location, boxes, attrs)
    yield detect(probability, location, boxes, train=True, grad="all")
    yield detect(np.round(probability * 4) / 4, location, boxes, {"nms_threshold": "0.3"}, why="equal scores")
    yield detect(probability[:, :1], location, boxes, why="only the background")
    yield detect(probability, location[:, :36], boxes, why="locations for fewer anchors")
    yield detect(probability, location, corners((2, 10)), why="anchors for each example")
    yield detect(probability, location, boxes, {"variances": (1, 1)}, why="two variances")
    for dtype in ("float16", "float64"):
        yield detect(probability.astype(dtype), location.astype(dtype), boxes.astype(dtype))
    yield OpCase("_npx_multibox_detection", [probability, location, boxes])


def proposals():
    for op in ("_contrib_Proposal", "_contrib_MultiProposal"):
        def propose(batch=1, anchors=2, attrs=None, size=(3, 4), dtype="float32", **more):
            rng = np.random.RandomState(9)
            count = batch * 2 * anchors * size[0] * size[1]
            score = (rng.permutation(count).reshape((batch, 2 * anchors) + size) / float(count)).astype(dtype)
            shift = (rng.randint(-16, 17, (batch, 4 * anchors) + size) / 32.0).astype(dtype)
            info = np.array([[48, 64, 1], [40, 50, 1.5]][:batch], dtype)
            attrs = dict({"scales": (1, 2), "ratios": (1,), "rpn_post_nms_top_n": 6, "rpn_min_size": 4}, **(attrs or {}))
            more.setdefault("rtol", 1e-4)
            more.setdefault("atol", 1e-3)
            return OpCase(op, [score, shift, info], attrs, **more)

        yield propose()
        for attrs in ({"output_score": True}, {"threshold": "0.3"}, {"rpn_min_size": 30}, {"rpn_post_nms_top_n": 40},
                      {"rpn_pre_nms_top_n": 5}, {"rpn_pre_nms_top_n": 5, "rpn_post_nms_top_n": 9, "output_score": True},
                      {"scales": (2,), "ratios": (0.5, 2)}, {"feature_stride": 20}, {"iou_loss": True},
                      {"iou_loss": True, "output_score": True, "threshold": "0.5"}, {"rpn_min_size": 200}):
            yield propose(attrs=attrs)
        yield propose(anchors=12, attrs={"scales": (0.5, 1, 2, 3), "ratios": (0.5, 1, 2)})
        yield propose(train=True, grad="all")
        yield propose(attrs={"output_score": True}, batch=2)
        yield propose(batch=2, attrs={"threshold": "0.4"})
        yield propose(attrs={"feature_stride": 8}, refuse=True, why="the image is smaller than the map")
        yield propose(anchors=3, why="more anchors than scales and ratios")
        for dtype in ("float16", "float64"):
            yield propose(dtype=dtype)


def regions(seed=0, angle=False, dtype="float32"):
    rng = np.random.RandomState(seed)
    box = corners((5,), seed=seed, size=16)
    index = np.array([[0], [1], [1], [0], [1]])
    if not angle:
        return np.concatenate([index, box], axis=1).astype(dtype)
    center = (box[:, :2] + box[:, 2:]) / 2
    size = box[:, 2:] - box[:, :2]
    return np.concatenate([index, center, size, rng.randint(-180, 181, (5, 1))], axis=1).astype(dtype)


def tolerance(dtype):
    """MXNet sums half precision numbers in half precision."""
    return {"rtol": 1e-2, "atol": 5e-3} if dtype == "float16" else {"rtol": 1e-3, "atol": 2e-4}


def align():
    def roi(attrs=None, dtype="float32", channels=3, rois=None, **more):
        attrs = dict({"pooled_size": (2, 2), "spatial_scale": "0.5"}, **(attrs or {}))
        rois = regions(dtype=dtype) if rois is None else rois
        floating = dtype in FLOATS
        more.setdefault("grad", ["data"] if floating else None)
        return OpCase("_contrib_ROIAlign", [data((2, channels, 6, 8), dtype), rois], attrs, train=floating, **more)

    for dtype in FLOATS + ("int32",):
        yield roi(dtype=dtype)
    for attrs in ({"pooled_size": (3, 1)}, {"sample_ratio": 1}, {"sample_ratio": 3}, {"spatial_scale": 1},
                  {"spatial_scale": "0.25", "aligned": True}, {"aligned": True, "sample_ratio": 2},
                  {"pooled_size": (7, 7), "sample_ratio": 2}):
        yield roi(attrs)
    yield roi({"position_sensitive": True}, channels=8)
    yield roi({"position_sensitive": True, "pooled_size": (1, 2), "sample_ratio": 2}, channels=4)
    yield roi(grad="all")
    yield roi(req="add")
    odd = np.array([[0, -4, -4, 3, 3], [1, 10, 8, 30, 30], [0, 40, 40, 50, 50], [1, 5, 5, 2, 2], [0, 3, 3, 3, 3]],
                   "float32")
    yield roi(rois=odd, why="regions outside, upside down, of no size")
    yield roi({"aligned": True, "sample_ratio": 2}, rois=odd, refuse=True, why="no region has a negative size")
    yield roi({"aligned": True, "sample_ratio": 2}, rois=odd[:3])
    yield roi({"position_sensitive": True}, channels=6, why="channels no multiple of the bins")
    yield roi({"pooled_size": (2,)}, why="one size")
    yield roi({"pooled_size": (0, 2)}, why="no bins")
    yield roi(rois=regions()[:, :4], why="regions without a corner")
    yield roi(rois=np.array([[2, 0, 0, 4, 4]], "float32"), refuse=True, why="no such image")


def position_sensitive():
    def pool(attrs=None, dtype="float32", channels=8, rois=None, **more):
        attrs = dict({"spatial_scale": "0.5", "output_dim": 2, "pooled_size": 2}, **(attrs or {}))
        rois = regions(dtype=dtype) if rois is None else rois
        more.setdefault("grad", ["data"])
        return OpCase("_contrib_PSROIPooling", [data((2, channels, 6, 8), dtype), rois], attrs, train=True, **more)

    for dtype in FLOATS:
        yield pool(dtype=dtype)
    for attrs in ({"group_size": 2}, {"pooled_size": 3, "group_size": 2}, {"spatial_scale": 1}, {"pooled_size": 4, "group_size": 1, "output_dim": 8}):
        yield pool(attrs)
    yield pool(grad="all")
    yield pool(req="add")
    yield pool(rois=np.array([[0, -4, -4, 3, 3], [1, 40, 40, 50, 50], [1, 5, 5, 2, 2]], "float32"), why="odd regions")
    yield pool({"output_dim": 3}, refuse=True, why="too few channels")
    yield pool(rois=regions()[:, :4], why="regions without a corner")

    def deformable(attrs=None, dtype="float32", channels=8, rois=None, trans=None, **more):
        attrs = dict({"spatial_scale": "0.5", "output_dim": 2, "pooled_size": 2, "group_size": 2, "sample_per_part": 2,
                      "trans_std": "0.25"}, **(attrs or {}))
        inputs = [data((2, channels, 6, 8), dtype), regions(dtype=dtype) if rois is None else rois]
        if not attrs.get("no_trans"):
            inputs.append(data((5, 2, 2, 2), dtype, seed=3, lo=-1, hi=1) if trans is None else trans)
        more.setdefault("grad", ["data"] + (["trans"] if len(inputs) > 2 else []))
        return OpCase("_contrib_DeformablePSROIPooling", inputs, attrs, train=True, **tolerance(dtype), **more)

    for dtype in FLOATS:
        yield deformable(dtype=dtype)
    for attrs in ({"no_trans": True}, {"sample_per_part": 4}, {"sample_per_part": 1}, {"trans_std": "0"},
                  {"part_size": 2}, {"pooled_size": 3, "part_size": 2}, {"group_size": 1, "output_dim": 8},
                  {"spatial_scale": 1}):
        yield deformable(attrs)
    yield deformable({"output_dim": 2}, trans=data((5, 4, 2, 2), seed=3, lo=-1, hi=1), why="offsets for each class")
    yield deformable(grad="all")
    yield deformable({"part_size": 3}, trans=data((5, 2, 3, 3), seed=3, lo=-1, hi=1))


def rotated():
    def roi(attrs=None, dtype="float32", rois=None, **more):
        attrs = dict({"pooled_size": (2, 2), "spatial_scale": "0.5"}, **(attrs or {}))
        rois = regions(angle=True, dtype=dtype) if rois is None else rois
        return OpCase("_contrib_RROIAlign", [data((2, 3, 6, 8), dtype), rois], attrs, **tolerance(dtype), **more)

    for dtype in FLOATS + ("int32",):
        yield roi(dtype=dtype)
    for attrs in ({"pooled_size": (3, 1)}, {"sampling_ratio": 1}, {"sampling_ratio": 3}, {"spatial_scale": 1}):
        yield roi(attrs)
    yield roi(train=True, grad="all")
    yield roi(rois=regions(), why="regions without an angle")
    yield roi({"pooled_size": (2,)}, why="one size")
