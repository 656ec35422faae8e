"""Correct results for calls in which MXNet is wrong, computed without our library. `explained.txt` names the check of such a call. The call
agrees if each of our arrays equals MXNet's or the correct one."""

import copy
import pathlib

import numpy as np

import references
from call import Call, Graph, with_previous, without_add, written
from client import head_numbers
from compare import arrays, precision

IGNORED = pathlib.Path(__file__).resolve().parent / "ignored-add.txt"
# Maximum number of elements for numerical differentiation.
MAX_DERIVATIVES = 1500
# Exceptions of NumPy for parameters and arrays that MXNet's operators accept.
UNDEFINED = (ValueError, IndexError, TypeError, ArithmeticError, np.linalg.LinAlgError)


class Verifier:
    """Computes correct results with `theirs`, which runs a call in MXNet."""

    def __init__(self, theirs, canonical):
        self.theirs, self.canonical = theirs, canonical
        self.ignored = set(IGNORED.read_text().split())
        self.checks = {
            "add": self.added,
            "all": self.with_all,
            "derivative": self.derivative,
            "factors": self.factors,
            "float64": self.wider,
            "reference": self.reference,
            "rounding": self.rounding,
            "scaled": self.scaled,
            "separate": self.separate,
            "unchanged": self.unchanged,
        }

    def is_right(self, check, call, expected, actual):
        """Whether our answer is correct where it differs from MXNet's. None if the correct one cannot be computed."""
        if "error" in actual or "outputs" not in actual:
            return None
        try:
            right = self.checks[check](call, expected, actual)
        except UNDEFINED:
            return None
        if right is None or right is False:
            return right
        found = True
        for what in ("outputs", "gradients", "inputs"):
            ours = actual.get(what, ())
            theirs = expected.get(what) or [None] * len(ours)
            rights = right.get(what) or [None] * len(ours)
            if not len(ours) == len(theirs) == len(rights):
                return False
            least = precision(call, actual["outputs"] if what == "gradients" else ())
            for o, t, r in zip(ours, theirs, rights):
                if t is not None and arrays(t, o, True, isinstance(call, Graph), least) is None:
                    continue
                if r is None or (o.dtype.kind in "iu" and not np.isfinite(r.astype("float64")).all()):
                    found = None
                elif not is_rounded(o, known(r, o), call, least):
                    return False
                elif t is None or not is_rounded(o, known(r, t), call, least):
                    found = None if np.ma.is_masked(r) else found
        return found

    def added(self, call, expected, actual):
        """MXNet's gradients with request `write`, added to the previous content for `add`. False for operators that are not listed."""
        if not any(self.canonical.get(op, op) in self.ignored for op in call.op.split()):
            return False
        written = without_add(call)
        answer = self.theirs(written)
        if "gradients" not in answer or "error" in answer:
            return None
        return {"gradients": with_previous(call, answer["gradients"], actual)}

    def with_all(self, call, expected, actual):
        """MXNet's gradients if all inputs have one."""
        requesting = copy.copy(call)
        requesting.requests = ["write"] * len(call.inputs)
        answer = self.theirs(requesting)
        if "error" in answer or len(answer.get("gradients", ())) != len(call.inputs):
            return None
        kept = [g for g, r in zip(answer["gradients"], call.requests) if r != "null" or not call.bound]
        return {"gradients": with_previous(call, kept, actual)}

    def wider(self, call, expected, actual):
        """MXNet's results of the same inputs as float64."""
        answer = self.theirs(as_float64(call))
        if "error" in answer or "outputs" not in answer:
            return None
        right = {k: answer[k] for k in ("outputs", "inputs") if k in answer}
        if "gradients" in answer:
            right["gradients"] = answer["gradients"]
        return right

    def rounding(self, call, expected, actual):
        """Our results where their errors are not larger than twice those of MXNet, and the results in double precision elsewhere."""
        precise = self.wider(call, expected, actual)
        if precise is None:
            return None
        right = {}
        for what, numbers in precise.items():
            if len(numbers) != len(actual.get(what, ())) or len(numbers) != len(expected.get(what, ())):
                return None
            errors = [[np.abs(x - r).max(initial=0) for x in (o, t)] for o, t, r in zip(actual[what], expected[what], numbers)]
            right[what] = [o if ours <= 2 * theirs else r for o, r, (ours, theirs) in zip(actual[what], numbers, errors)]
        return right

    def reference(self, call, expected, actual):
        """What NumPy computes."""
        function = references.of(self.canonical.get(call.op, call.op))
        with np.errstate(all="ignore"):
            return function and function(call, actual)

    def separate(self, call, expected, actual):
        """MXNet's results in an array of their own."""
        call = copy.copy(call)
        call.out = ""
        answer = self.theirs(call)
        return None if "error" in answer else {"outputs": answer.get("outputs")}

    def factors(self, call, expected, actual):
        """Our factors of matrices, if their product is the matrix, and the derivatives of these factors if only their signs differ."""
        if not references.are_factors(call.op, call.inputs[0], actual["outputs"]):
            return None
        right = {"outputs": actual["outputs"]}
        pairs = list(zip(expected["outputs"], actual["outputs"])) if "outputs" in expected else []
        if call.requests and pairs and all(arrays(np.abs(e), np.abs(a), True, False, 1e-3) is None for e, a in pairs):
            signs = [flipped(e, a) for e, a in pairs]
            right.update(self.derivative(call, expected, actual, signs) or {})
        return right

    def unchanged(self, call, expected, actual):
        """The inputs as they were before the call."""
        return {"inputs": call.inputs}

    def scaled(self, call, expected, actual):
        """MXNet's gradient without `out_grad`, multiplied by the gradient of the output."""
        call = copy.copy(call)
        call.attrs = {k: v for k, v in call.attrs.items() if k != "out_grad"}
        answer = self.theirs(without_add(call))
        if "gradients" not in answer or "error" in answer:
            return None
        head = head_numbers(actual["outputs"][0].shape, 0).astype(actual["outputs"][0].dtype)
        gradients = [answer["gradients"][0] * head] + list(answer["gradients"][1:])
        return {"gradients": with_previous(call, gradients, actual)}

    def derivative(self, call, expected, actual, signs=None):
        """Numerical derivatives of MXNet's results in double precision."""
        if "gradients" not in actual:
            return None
        outputs, base = actual["outputs"], as_float64(call)
        if isinstance(call, Graph):
            base = undifferentiated(base)
            inputs = [base.arrays.get(n) for n in actual["names"]]
        elif call.second:
            base, outputs = first_order(base), outputs[-sum(r != "null" for r in call.requests) :]
            inputs = wanted_inputs(base, actual)
        else:
            inputs, base.requests = wanted_inputs(base, actual), None
        if inputs is None or sum(x.size for x in inputs if x is not None) > MAX_DERIVATIVES:
            return None
        heads = [head_numbers(o.shape, i).astype(o.dtype).astype("float64") for i, o in enumerate(outputs)]
        heads = [h * s for h, s in zip(heads, signs)] if signs else heads
        slopes = [None if x is None else self.slopes(base, x, heads) for x in inputs]
        return {"gradients": with_previous(call, slopes, actual)}

    def slopes(self, call, x, heads):
        """The derivative of the sum of the outputs, weighted with `heads`, by each element of an input. Masked where it does not exist or is
        not reliable."""
        found, middle = np.ma.masked_all(x.shape), self.weighted(call, heads)
        for at in np.ndindex(x.shape):
            before, sums = x[at], []
            h = 1e-3 * max(1, abs(before))
            for moved in (2 * h, -2 * h, h, -h):
                x[at] = before + moved
                sums.append(self.weighted(call, heads))
            x[at] = before
            if middle is None or None in sums:
                return None
            rough, fine = (sums[0] - sums[1]) / (4 * h), (sums[2] - sums[3]) / (2 * h)
            # At a kink, half the step changes the slope as much as the whole step.
            bends = [abs(sums[0] - 2 * middle + sums[1]) / (2 * h), abs(sums[2] - 2 * middle + sums[3]) / h]
            has_kink = bends[1] > 1e-5 * (1 + abs(fine)) and bends[1] > 0.8 * bends[0]
            if not has_kink and abs(rough - fine) <= 1e-3 * (1 + abs(fine)):
                found[at] = (4 * fine - rough) / 3
        return found

    def weighted(self, call, heads):
        """The sum of the outputs, weighted with `heads`."""
        answer = self.theirs(call)
        results = answer.get("outputs", ())
        if isinstance(call, Call) and call.requests:
            results = [g for g, r in zip(answer.get("gradients", ()), call.requests) if r != "null"]
        if "error" in answer or len(results) != len(heads):
            return None
        return sum((x.astype("float64") * h).sum() for x, h in zip(results, heads) if x.dtype.kind == "f")


def flipped(theirs, ours):
    """-1 where vectors of two factors, rows or columns, have opposite signs, and 1 elsewhere."""
    for axis in (-1, -2):
        if ours.ndim >= 2:
            signs = np.where((theirs * ours).sum(axis, keepdims=True) < 0, -1.0, 1.0) * np.ones(ours.shape)
            if arrays(theirs * signs, ours, True, False, 1e-3) is None:
                return signs
    return np.where(theirs * ours < 0, -1.0, 1.0)


def known(right, other):
    """The correct numbers, with those of another array where they are masked."""
    return np.where(right.mask, other, right.data) if isinstance(right, np.ma.MaskedArray) else right


def is_rounded(ours, right, call, least):
    """Whether our array is the correct one, converted to its type. Integers may be rounded in either direction."""
    if right.size != ours.size:
        return False
    right = right.reshape(ours.shape)
    with np.errstate(all="ignore"):
        if ours.dtype.kind in "iu":
            # Sums wrap around.
            error = np.abs(ours.astype("float64") - right) % 2.0 ** (8 * ours.itemsize)
            return bool((np.minimum(error, 2.0 ** (8 * ours.itemsize) - error) < 1 + 1e-6 * np.abs(right)).all())
        return arrays(right.astype(ours.dtype), ours, True, isinstance(call, Graph), least) is None


def undifferentiated(graph):
    """The network operator by operator, without gradients."""
    graph = copy.copy(graph)
    graph.way, graph.request, graph.requests, graph.forwards, graph.passes = "imperative", "null", {}, 1, 0
    return graph


def first_order(call):
    """The call with gradients of first order."""
    call = copy.copy(call)
    call.requests, call.second, call.passes = [written(r) for r in call.requests], False, 1
    return call


def as_float64(call):
    """The call with float64 in place of all other numeric types, also in its parameters."""
    call = copy.deepcopy(call)
    if isinstance(call, Graph):
        call.arrays = {n: x.astype("float64") for n, x in call.arrays.items()}
        return call
    call.inputs = [x if x.dtype == bool else x.astype("float64") for x in call.inputs]
    call.attrs = {k: "float64" if k in ("dtype", "out_dtype") else v for k, v in call.attrs.items()}
    return call


def wanted_inputs(call, actual):
    """The input of each gradient in an answer, or None for a gradient that is not requested."""
    inputs = [x if r != "null" else None for x, r in zip(call.inputs, call.requests)]
    wanted = [x for x in inputs if x is not None] if call.bound else inputs
    return wanted if len(wanted) == len(actual["gradients"]) else None
