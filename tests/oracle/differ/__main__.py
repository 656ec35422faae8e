#!/usr/bin/env python3
"""Runs random calls in MXNet 1.9.1 and in our library, and groups what differs by cause.

    PYTHON tests/oracle/differ --library target/debug/libmxnet.so --seed 7 --calls 12000 --gradients 6000 --graphs 500

PYTHON has the package mxnet 1.9.1. The same seed draws the same calls.
"""

import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from compare import MARKER, Judge  # noqa: E402
from draw import Draws  # noqa: E402
from libraries import Library, Oracle  # noqa: E402
from report import Report  # noqa: E402
from verify import Verifier  # noqa: E402


def drawn(options, operators):
    """All calls, in order."""
    draws = Draws(options.seed, operators, options.only)
    if not draws.names:
        sys.exit("there is no operator %s, or it is not drawn" % options.only)
    for number in range(options.calls):
        yield "calls", draws.call(number, False)
    for number in range(options.gradients):
        yield "gradients", draws.call(number, True)
    for number in range(0 if options.only else options.sparse):
        yield "sparse", draws.sparse_call(number)
    for number in range(0 if options.only else options.graphs):
        yield "graphs", draws.graph(number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="target/release/libmxnet.so", help="our library")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    parser.add_argument("--calls", type=int, default=12000)
    parser.add_argument("--gradients", type=int, default=6000)
    parser.add_argument("--sparse", type=int, default=1000, help="calls on arrays of which some are sparse")
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--only", metavar="OP", help="one operator, by its name or canonical name")
    parser.add_argument("--groups", type=int, default=10**6, help="groups to print")
    parser.add_argument("--explained", action="store_true", help="print the explained differences, too")
    options = parser.parse_args()
    library = pathlib.Path(options.library).resolve()
    if not library.exists():
        sys.exit("there is no %s" % library)
    theirs, again = Oracle(), Oracle(MALLOC_PERTURB_="90", DIFFER_SEED="8")
    ours = Library(MXNET_LIBRARY_PATH=str(library), DIFFER_WRITTEN_TO=str(MARKER))
    operators = theirs.libraries[0].run("operators")
    canonical = {n: r["canonical"] for n, r in operators.items()}
    report = Report(canonical, Verifier(theirs.run, canonical))
    judge = Judge(theirs.run, ours.run, again.run)
    for kind, call in drawn(options, operators):
        oracle = theirs.for_call(call)
        oracle.ask(call)
        ours.ask(call)
        expected, actual = oracle.answer(), ours.answer()
        report.add(kind, call, expected, actual, judge.difference(call, expected, actual))
    print("seed %d" % options.seed)
    report.print(options.groups, options.explained)
    sys.exit(1 if report.unexplained else 0)


if __name__ == "__main__":
    main()
