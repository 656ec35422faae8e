"""Compares the results that a program recorded with two libraries: `compare.py EXPECTED ACTUAL`, both written by `record.py`."""

import sys

import numpy as np

# The tolerance of single precision sums in another order, after several training steps.
RELATIVE, ABSOLUTE = 2e-3, 2e-4


def difference(expected, actual, within):
    """The difference between two arrays as text; empty if they agree."""
    if expected.shape != actual.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    if expected.dtype.kind != actual.dtype.kind:
        return f"type {actual.dtype} instead of {expected.dtype}"
    if expected.dtype.kind != "f":
        return "" if (expected == actual).all() else f"{actual} instead of {expected}"
    far = ~np.isclose(actual, expected, RELATIVE, ABSOLUTE + within, equal_nan=True)
    if not far.any():
        return ""
    at = np.unravel_index(np.argmax(far), far.shape)
    return f"{far.sum()} of {far.size} numbers, first at {[int(i) for i in at]}: {actual[at]} instead of {expected[at]}"


def main():
    expected, actual = (np.load(path) for path in sys.argv[1:3])
    within = {name.removeprefix("within:"): expected[name] for name in expected.files if name.startswith("within:")}
    found = {
        name: difference(expected[name], actual[name], within.get(name, 0))
        for name in expected.files
        if name in actual.files
    }
    found.update({name: "missing" for name in expected.files if name not in actual.files})
    found.update({name: "not expected" for name in actual.files if name not in expected.files})
    wrong = {name: what for name, what in found.items() if what}
    for name, what in wrong.items():
        print(f"  {name}: {what}")
    print(f"  {len(found) - len(wrong)} of {len(found)} results agree")
    return 1 if wrong else 0


sys.exit(main())
