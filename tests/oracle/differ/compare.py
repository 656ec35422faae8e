"""Compares two answers to one call."""

import re

import numpy as np

from call import Graph, without_add

TOLERANCES = {"float16": 1e-2, "float32": 2e-4, "float64": 1e-6}
# Outputs that are random are compared by shape and type.
RANDOM = re.compile("random(?!_pdf)|sample|uniform|normal(_n)?$|bernoulli|multinomial|shuffle|[dD]ropout|choice|gumbel|logistic|exponential"
                    "|rayleigh|pareto|weibull|powerd|_npi_gamma|poisson|unique_zipfian|dgl_.*sample")


# A marker in gradient arrays. Our library must overwrite it for request `write`, and keep it for `null`.
MARKER = 77


class Difference:
    """A kind of difference, by which reports are grouped, and its details."""

    def __init__(self, kind, detail=""):
        self.kind, self.detail = kind, detail


class Judge:
    """Compares the answers of two libraries. `theirs`, `ours` and `again` run a call; `again` is MXNet with other contents of
    fresh memory and another random seed: what differs from its first answer is not determined."""

    def __init__(self, theirs, ours, again):
        self.theirs, self.ours, self.again = theirs, ours, again

    def difference(self, call, expected, actual):
        """The difference between MXNet's answer and ours, or None."""
        if "ended" in expected:
            return None
        if "ended" in actual:
            return Difference("ours " + actual["ended"])
        found = difference(call, expected, actual, None)
        if not found:
            return None
        again = self.again(call)
        found = difference(call, expected, actual, again)
        if found and found.kind.startswith("ours refuses") and not all_same(expected, again):
            found.kind = "ours refuses what MXNet does not determine"
        if found and " of gradient" in found.kind and self.only_ours_adds(call, actual):
            return Difference("MXNet does not add to the gradient", found.detail)
        return found

    def only_ours_adds(self, call, actual):
        """Whether both libraries agree with request `write`, and ours adds these gradients to the previous content."""
        if "add" not in ((actual.get("requests") if isinstance(call, Graph) else call.requests) or ()):
            return False
        written = without_add(call)
        expected, ours = self.theirs(written), self.ours(written)
        if "ended" in expected or "gradients" not in ours:
            return False
        if difference(call, expected, ours, None):
            return False
        # A bound call has a gradient for each input with a request; all requests are `add`.
        bound = ["add"] * len(ours["gradients"]) if isinstance(call, Graph) or call.bound else call.requests
        requests = actual.get("requests", bound)
        sums = [(g * call.passes + call.added_to).astype(g.dtype) if r == "add" else g for g, r in zip(ours["gradients"], requests)]
        return lists("gradient", call, sums, actual["gradients"], None, ours.get("outputs", ())) is None


def difference(call, expected, actual, again):
    if again is not None and ("ended" in again or ("error" in again) != ("error" in expected)):
        return None
    theirs, ours = expected.get("error"), actual.get("error")
    # An error may occur at another stage, but must not be an internal error.
    if ours and (not theirs or "internal error" in ours[2]):
        return Difference("ours refuses (%s)" % ours[0], ours[2])
    if theirs and not ours:
        return Difference("MXNet refuses (%s)" % theirs[0], theirs[2])
    for what in ("outputs", "gradients", "inputs"):
        if what in expected and what in actual:
            more = again.get(what) if again else None
            outputs = expected.get("outputs", ()) if what == "gradients" else ()
            found = lists(what[:-1], call, expected[what], actual[what], more, outputs)
            if found:
                return found
    return None


def all_same(expected, again):
    """Whether two answers are equal."""
    pairs = [(e, a) for what in ("outputs", "gradients", "inputs") for e, a in zip(expected.get(what, ()), again.get(what, ()))]
    return all(e.shape == a.shape and same(e, a) for e, a in pairs)


def lists(what, call, expected, actual, again, outputs=()):
    """The first difference between two lists of arrays. Gradients are as precise as the `outputs`, whose types the head gradients have."""
    if len(expected) != len(actual):
        return Difference("number of %ss" % what, "%d instead of %d" % (len(actual), len(expected)))
    least = precision(call, outputs)
    for index, (e, a) in enumerate(zip(expected, actual)):
        determined = again is None or (e.shape == again[index].shape and same(e, again[index]))
        found = arrays(e, a, determined and not RANDOM.search(call.op), isinstance(call, Graph), least)
        if found:
            return Difference("%s of %s %d" % (found.kind, what, index), found.detail)
    return None


def precision(call, outputs):
    """The tolerance of the least precise input, or of these outputs."""
    inputs = list(call.arrays.values() if isinstance(call, Graph) else call.inputs)
    return max((TOLERANCES.get(x.dtype.name, 0) for x in inputs + list(outputs)), default=0)


def same(a, b):
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def arrays(expected, actual, determined, is_network, precision):
    """The difference between two arrays. Elements that are random, or otherwise not determined, need not agree. In a network errors
    accumulate, and small numbers may be differences of large ones. `precision` is that of the least precise input: results are no more
    precise, because MXNet rounds between operations. Integers beyond 10^7 may have been computed in single precision."""
    if expected.dtype != actual.dtype:
        return Difference("type", "%s instead of %s" % (actual.dtype, expected.dtype))
    if expected.shape != actual.shape:
        return Difference("shape", "%s instead of %s" % (actual.shape, expected.shape))
    if not determined or not expected.size:
        return None
    if expected.dtype.kind == "V":
        expected, actual, precision = from_bfloat16(expected), from_bfloat16(actual), TOLERANCES["float16"]
    tolerance = TOLERANCES.get(expected.dtype.name)
    if expected.dtype.kind in "iu":
        wrong = np.abs(expected.astype("float64") - actual.astype("float64")) > 1e-7 * np.abs(expected.astype("float64"))
    elif tolerance is None:
        wrong = expected != actual
    else:
        tolerance = max(tolerance, precision)
        wrong = ~close(expected.astype("float64"), actual.astype("float64"), tolerance, 1 if is_network else 0)
    if not wrong.any():
        return None
    at = np.unravel_index(np.argmax(wrong), wrong.shape)
    detail = "%r instead of %r at %s, %d of %d" % (actual[at], expected[at], tuple(map(int, at)), wrong.sum(), wrong.size)
    return Difference("values (%s)" % nature(expected[at], actual[at]), detail)


def from_bfloat16(array):
    """The front end returns bfloat16 as structures of 16 bits."""
    return (np.atleast_1d(array).view("uint16").astype("uint32") << 16).view("float32")


def close(expected, actual, tolerance, least):
    """Whether numbers agree within a tolerance relative to their size and to the typical size in the array, at least `least`."""
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(least, np.percentile(finite, 75) if finite.size else 0)
    with np.errstate(all="ignore"):
        near = np.abs(expected - actual) <= tolerance * (np.abs(expected) + scale) + 1e-30
    return near | (expected == actual) | (np.isnan(expected) & np.isnan(actual))


def nature(expected, actual):
    """How two numbers differ."""
    if np.isnan(expected) or np.isnan(actual):
        return "NaN instead of a number" if np.isnan(actual) else "a number instead of NaN"
    if np.isinf(expected) or np.isinf(actual):
        return "infinity instead of a number" if np.isfinite(expected) else "instead of infinity"
    if actual == 0:
        return "zero instead of a number"
    if expected == 0:
        return "instead of zero"
    return "%s numbers" % ("floating-point" if expected.dtype.kind == "f" else "whole")
