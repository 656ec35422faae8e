"""Compares two answers to one call."""

import re

import numpy as np

TOLERANCES = {"float16": 1e-2, "float32": 2e-4, "float64": 1e-6}
# Outputs that are random are compared by shape and type.
RANDOM = re.compile("random|sample|uniform|normal(_n)?$|bernoulli|multinomial|shuffle|[dD]ropout|choice|gumbel|logistic|exponential"
                    "|rayleigh|pareto|weibull|powerd|_npi_gamma|poisson|unique_zipfian|dgl_.*sample")


class Difference:
    """What differs: a kind that says it in general, and a detail that is specific."""

    def __init__(self, kind, detail=""):
        self.kind, self.detail = kind, detail


def compare(call, expected, actual, again):
    """The difference between MXNet's answer and ours, or None. `again()` answers a second time from MXNet, with other contents of
    fresh memory and another state of its random generator: what differs between its two answers is not determined."""
    if "ended" in expected:
        return None
    if "ended" in actual:
        return Difference("ours " + actual["ended"])
    found = difference(call, expected, actual, None)
    return found and difference(call, expected, actual, again())


def difference(call, expected, actual, again):
    if again is not None and ("ended" in again or ("error" in again) != ("error" in expected)):
        return None
    theirs, ours = expected.get("error"), actual.get("error")
    if ours and (not theirs or theirs[0] == "backward" != ours[0]):
        return Difference("ours refuses (%s)" % ours[0], ours[2])
    if theirs and (not ours or ours[0] == "backward" != theirs[0]):
        return Difference("MXNet refuses (%s)" % theirs[0], theirs[2])
    for what in ("outputs", "gradients", "inputs"):
        if what in expected and what in actual:
            more = again.get(what) if again else None
            found = lists(what[:-1], call, expected[what], actual[what], more)
            if found:
                return found
    return None


def lists(what, call, expected, actual, again):
    if len(expected) != len(actual):
        return Difference("number of %ss" % what, "%d instead of %d" % (len(actual), len(expected)))
    for index, (e, a) in enumerate(zip(expected, actual)):
        determined = again is None or (e.shape == again[index].shape and same(e, again[index]))
        found = arrays(e, a, determined and not RANDOM.search(call.op))
        if found:
            return Difference("%s of %s %d" % (found.kind, what, index), found.detail)
    return None


def same(a, b):
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def arrays(expected, actual, determined):
    if expected.dtype != actual.dtype:
        return Difference("type", "%s instead of %s" % (actual.dtype, expected.dtype))
    if expected.shape != actual.shape:
        return Difference("shape", "%s instead of %s" % (actual.shape, expected.shape))
    if not determined or not expected.size:
        return None
    tolerance = TOLERANCES.get(expected.dtype.name)
    if tolerance is None:
        wrong = expected != actual
    else:
        wrong = ~close(expected.astype("float64"), actual.astype("float64"), tolerance)
    if not wrong.any():
        return None
    at = np.unravel_index(np.argmax(wrong), wrong.shape)
    detail = "%r instead of %r at %s, %d of %d" % (actual[at], expected[at], tuple(map(int, at)), wrong.sum(), wrong.size)
    return Difference("values (%s)" % nature(expected[at], actual[at]), detail)


def close(expected, actual, tolerance):
    """Within a relative tolerance, where numbers far smaller than the array's typical ones count as zero."""
    finite = np.abs(expected[np.isfinite(expected)])
    scale = np.percentile(finite, 75) if finite.size else 0
    with np.errstate(all="ignore"):
        near = np.abs(expected - actual) <= tolerance * (np.abs(expected) + min(scale, 1e6)) + 1e-30
    return near | (expected == actual) | (np.isnan(expected) & np.isnan(actual))


def nature(expected, actual):
    """In which way two numbers differ."""
    if np.isnan(expected) or np.isnan(actual):
        return "NaN instead of a number" if np.isnan(actual) else "a number instead of NaN"
    if np.isinf(expected) or np.isinf(actual):
        return "infinity instead of a number" if np.isfinite(expected) else "instead of infinity"
    if actual == 0:
        return "zero instead of a number"
    if expected == 0:
        return "instead of zero"
    return "%s numbers" % ("floating-point" if expected.dtype.kind == "f" else "whole")
