"""Counts and groups differences."""

import pathlib
import re
from collections import Counter, defaultdict

import numpy as np

from call import Call

HERE = pathlib.Path(__file__).resolve().parent
DIFFERENCES = HERE.parent.parent.parent / "docs" / "differences.md"


class Report:
    def __init__(self, canonical, verifier):
        self.canonical, self.verifier = canonical, verifier
        self.explanations = explanations()
        self.counts = defaultdict(Counter)
        self.groups = defaultdict(list)
        self.explained, self.verified = defaultdict(list), defaultdict(list)

    def add(self, kind, call, expected, actual, difference):
        counts = self.counts[kind]
        counts["all"] += 1
        if "ended" in expected:
            counts["MXNet ends"] += 1
        elif "error" in expected:
            counts["MXNet refuses"] += 1
        if difference is None:
            counts["agree"] += 1
            return
        op = self.canonical.get(call.op, "network")
        told = text(op, call, difference)
        row, check = next(((row, check) for pattern, row, check in self.explanations if pattern.search(told)), (None, None))
        has_values = check and "refuses" not in difference.kind
        is_right = self.verifier.is_right(check, call, expected, actual) if has_values else None
        if is_right:
            counts["verified"] += 1
            self.verified[row].append((op, call, difference))
        elif row and is_right is None:
            counts["accepted" if difference.kind.startswith("MXNet refuses") else "explained"] += 1
            self.explained[row].append((op, call, difference))
        else:
            if row:
                difference.detail += "\nnor is it what `%s` gives" % check
            self.groups[op, difference.kind, normalized(difference)].append((call, difference))

    @property
    def unexplained(self):
        return sum(len(found) for found in self.groups.values())

    def print(self, limit, with_explained):
        groups = sorted(self.groups.items(), key=lambda g: (-len(g[1]), g[0]))
        for (op, kind, _), found in groups[:limit]:
            call, difference = min(found, key=lambda f: f[0].size)
            print("\n%d x %s: %s\n    %s" % (len(found), op, kind, "\n    ".join(first_lines(difference.detail))))
            print("    # %s\n    %s" % (call.why, call.source()))
        print()
        for kinds in (self.explained, self.verified):
            for row, found in sorted(kinds.items(), key=lambda e: -len(e[1])):
                accepted = found[0][2].kind.startswith("MXNet refuses")
                word = "verified" if kinds is self.verified else "accepted" if accepted else "explained"
                print("%s %d x %s" % (word, len(found), row))
                for op, call, difference in found if with_explained else ():
                    print("    %s: %s: %s\n        %s" % (op, difference.kind, " ".join(first_lines(difference.detail)), call.source()))
        for kind, c in self.counts.items():
            agree = c["agree"] + c["verified"]
            left = c["all"] - agree - c["accepted"] - c["explained"]
            answered = c["all"] - c["accepted"]
            shares = [100.0 * n / answered for n in (agree, c["verified"], c["explained"])]
            print("%s: %d, agree %.2f %%; only we compute %d" % (kind, c["all"], 100.0 * agree / c["all"], c["accepted"]), end="; ")
            print("of the others agree %.2f %% (verified %.2f %%), explained %.2f %%" % tuple(shares), end=", ")
            print("unexplained %d (MXNet refuses %d, ends %d)" % (left, c["MXNet refuses"], c["MXNet ends"]))
        print("%d groups" % len(groups))


def text(op, call, difference):
    """The text that the patterns of explained.txt match."""
    is_call = isinstance(call, Call)
    attrs = call.attrs if is_call else [node[:2] for node in call.nodes]
    arrays = call.inputs if is_call else list(call.arrays.values())
    is_special = any(x.dtype.kind == "f" and not np.isfinite(x).all() for x in arrays)
    stypes = [str(stype) for stype in (is_call and call.stypes) or ()]
    facts = ["numpy" if call.np_shape else "legacy"] + ["%s%s" % (x.dtype, x.shape) for x in arrays] + stypes
    requests = call.requests or () if is_call else [call.request, *call.requests.values()]
    facts += ["negative"] * (op == "CTCLoss" and bool((arrays[1] < 0).any()))
    facts += ["blank"] * (op == "CTCLoss" and has_blank(call))
    facts += ["singular"] * (bool(re.search("pinv|det|gelqf", op)) and is_singular(arrays[0]))
    facts += ["beyond"] * ("use_length" in attrs and is_beyond(call)) + ["inference"] * (bool(requests) and not call.train)
    facts += ["second"] * (is_call and call.second) + ["passes"] * (call.passes > 1) + ["own"] * (is_call and call.out == "first")
    facts += ["equal"] * has_equal(arrays) + ["null"] * ("null" in requests)
    facts += ["huge"] * any(is_huge(x) for x in arrays) + ["special"] * is_special
    return "%s: %s: %s; %s; %s" % (op, difference.kind, " ".join(first_lines(difference.detail)), attrs, " ".join(facts))


def has_equal(arrays):
    """Whether the first array has equal elements that a sort may reorder. A short array is sorted stably."""
    return bool(arrays) and arrays[0].size > 16 and np.unique(arrays[0]).size < arrays[0].size


def is_huge(x):
    """Whether an array has numbers whose squares exceed float32."""
    return x.dtype.kind == "f" and bool((np.abs(x.astype("float64")) > 1e19).any())


def is_beyond(call):
    """Whether a length of a softmax exceeds its axis."""
    data, lengths = call.inputs[0], call.inputs[-1]
    axis = int(call.attrs.get("axis", -1))
    return -data.ndim <= axis < data.ndim and lengths.size > 0 and bool(lengths.max() > data.shape[axis])


def has_blank(call):
    """Whether the labels of a CTCLoss contain the blank."""
    data, labels = call.inputs[:2]
    return bool((labels == (data.shape[-1] - 1 if call.attrs.get("blank_label") == "last" else 0)).any())


def is_singular(x):
    """Whether a matrix of a batch is rank-deficient, or so nearly that rounding errors decide."""
    x = np.nan_to_num(x)
    if x.ndim < 2 or not x.size:
        return False
    values = np.linalg.svd(x.astype("float64"), compute_uv=False)
    precision = np.finfo(x.dtype if x.dtype.kind == "f" else "float32").eps
    return bool((values.min(-1) <= 10 * max(x.shape[-2:]) * precision * values.max(-1)).any())


def normalized(difference):
    """A message without its numbers, names and locations; differences of values are grouped by kind alone."""
    if "refuses" not in difference.kind:
        return ""
    line = " ".join(first_lines(difference.detail))
    return re.sub(r"\[[^\]]*\]|\([^)]*\)|-?\d+(\.\d+)?(e[+-]?\d+)?|'[^']*'", "#", line)[:160]


def first_lines(message):
    """The lines of an error, without MXNet's stack trace."""
    message = message.split("Stack trace")[0]
    lines = [re.sub(r"^\[[\d:]+\] \S+: ", "", l.strip()) for l in message.splitlines() if l.strip()]
    told = [l for l in lines if "Check failed" in l or "Error" in l]
    return (told or lines)[:2]


def explanations():
    """Patterns of intended differences, with their rows in `docs/differences.md` and the names of their checks, if they have one."""
    page = DIFFERENCES.read_text()
    found = []
    for number, line in enumerate((HERE / "explained.txt").read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        pattern, row, *check = line.split(" => ")
        if "| " + row not in page:
            raise SystemExit("explained.txt, line %d: docs/differences.md has no row that begins with %r" % (number, row))
        found.append((re.compile(pattern), row, check[0] if check else None))
    return found
