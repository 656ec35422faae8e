#!/usr/bin/env python3
"""Writes `ignored-add.txt`: the operators for which MXNet 1.9.1 ignores the request `add`, so that it does not add the
gradient to the previous content.
It tries the goldens' calls and random variations of them.

    PYTHON tests/oracle/differ/add_requests.py
"""

import copy
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from call import with_previous, without_add  # noqa: E402
from compare import RANDOM, lists  # noqa: E402
from draw import Draws  # noqa: E402
from libraries import Oracle  # noqa: E402
from verify import IGNORED  # noqa: E402

VARIATIONS = 8000
SEED = 1


def tried(draws):
    """Calls with request `add` for every input that has a gradient."""
    for calls in draws.goldens.values():
        for call in calls:
            if call.requests:
                call = copy.deepcopy(call)
                call.requests = ["add" if x.dtype.kind == "f" else "null" for x in call.inputs]
                yield call
    for number in range(VARIATIONS):
        call = draws.call(number, True)
        if call.requests and not call.second:
            call.requests = ["add" if r == "write" else r for r in call.requests]
            yield call


def adds(oracle, call):
    """Whether the gradients are added. None if there are none."""
    call.added_to = 2
    answers = [oracle.run(c) for c in (without_add(call), call)]
    if any("gradients" not in a for a in answers):
        return None
    sums = with_previous(call, answers[0]["gradients"], answers[0])
    kept = [i for i, s in enumerate(sums) if s is not None]
    expected, actual = ([gradients[i] for i in kept] for gradients in (sums, answers[1]["gradients"]))
    expected = [e.astype(a.dtype) for e, a in zip(expected, actual)]
    return lists("gradient", call, expected, actual, None, answers[0]["outputs"]) is None


def main():
    oracle = Oracle()
    draws = Draws(SEED, oracle.libraries[0].run("operators"))
    found = set()
    for call in tried(draws):
        op = draws.canonical[call.op]
        if op not in found and not RANDOM.search(op) and adds(oracle, call) is False:
            found.add(op)
    IGNORED.write_text("".join(op + "\n" for op in sorted(found)))
    print("%d operators" % len(found))


if __name__ == "__main__":
    main()
