"""Finds operators whose time depends on the values of their inputs, for example on NaN.

    python3 tests/bench/special_values.py [--library FILE] [--filter REGEX] [--slower 4]

Each operator runs with ordinary numbers, then with special ones in its first input and in all inputs, on one thread. Prints those that
take more than --slower times as long, and those that end the process. The calls are enlarged goldens (operator_calls.py).
"""

import argparse
import itertools
import os
import random
import re
import struct

from operator_calls import candidates, operators, recorded
from operators import ONE_CALL, LONGEST, Worker, describe

HERE = os.path.dirname(os.path.abspath(__file__))
ELEMENTS = 1 << 18
SECONDS = 0.004
# Milliseconds; shorter calls vary too much.
SHORTEST = 0.3
# Numbers in a pattern, which is repeated.
PERIOD = 997

draw = random.Random(1)
ORDINARY = [draw.uniform(0.1, 0.9) for _ in range(PERIOD)]
SPECIAL = {
    "NaN": [float("nan")] * PERIOD,
    "some NaN": [float("nan") if i % 7 == 3 else x for i, x in enumerate(ORDINARY)],
    "infinity": [float("inf")] * PERIOD,
    "-infinity": [float("-inf")] * PERIOD,
    "subnormal": [1e-40 * (i + 1) for i in range(PERIOD)],
    "0": [0.0] * PERIOD,
    "1": [1.0] * PERIOD,
    "descending": [-float(i) for i in range(PERIOD)],
    "up to 1e6": [1e6 * draw.uniform(-1, 1) for _ in range(PERIOD)],
    "up to 1e30": [1e30 * draw.uniform(-1, 1) for _ in range(PERIOD)],
}


def with_values(call, indices, values):
    """The call with other values in some inputs."""
    pattern = struct.pack(f"<{PERIOD}f", *values).hex()
    inputs = [{**x, "pattern": pattern} if i in indices else x for i, x in enumerate(call["inputs"])]
    return {**call, "inputs": inputs}


def slow_calls(worker, call, slower):
    """A line for each kind of values that takes too long or ends the process."""
    floats = [i for i, x in enumerate(call["inputs"]) if x["dtype"] == "float32"]
    for indices in [floats] if len(floats) < 2 else [floats[:1], floats]:
        ordinary = worker.run(with_values(call, indices, ORDINARY), SECONDS)
        for kind, values in SPECIAL.items():
            times = worker.run(with_values(call, indices, values), SECONDS)
            if "the process ended" in times.get("error", ""):
                yield f"inputs {indices} of {kind}: the process ended"
            for step in times.keys() & ordinary.keys() - {"error"}:
                if times[step] > max(SHORTEST, slower * ordinary[step]):
                    yield f"inputs {indices} of {kind}, {step}: {times[step]:.3g} instead of {ordinary[step]:.3g} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only operators whose names match this regular expression")
    parser.add_argument("--slower", type=float, default=4, help="how many times as long (default 4)")
    parser.add_argument("--library", default=os.path.join(HERE, "..", "..", "target", "release", "libmxnet.so"))
    options = parser.parse_args()
    worker, cases, count = Worker(os.path.abspath(options.library), 1), recorded(), 0
    for name, names in sorted(operators().items()):
        if not re.search(options.filter, name):
            continue
        # A call that ends the process here has no ordinary time, and is measured by operators.py.
        for call in itertools.islice(candidates(names, cases, ELEMENTS), 20):
            times = worker.run(call, ONE_CALL)
            if "error" not in times and max(times.values()) < LONGEST:
                count += 1
                for line in slow_calls(worker, call, options.slower):
                    print(f"{name}: {line}; {describe(call)}", flush=True)
                break
    print(f"{count} operators measured")


if __name__ == "__main__":
    main()
