#!/usr/bin/env python3
"""Writes the goldens: every case of every family, with the answer of MXNet 1.9.1.

Usage: generate.py [--check] [FAMILY ...]      all families when none is named
       --check writes nothing and fails when a file would change
"""

import argparse
import importlib
import json
import multiprocessing
import os
import pathlib
import pkgutil
import sys
from collections import Counter

HERE = pathlib.Path(__file__).resolve().parent
GOLDENS = HERE / "goldens"
sys.path.insert(0, str(HERE))

# One thread and a synchronous engine: results do not depend on the machine's load, and errors are raised where they occur.
# Without oneDNN MXNet uses its own kernels, whose results follow the definitions even for NaN, infinity and empty arrays.
os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"
os.environ["MXNET_MKLDNN_ENABLED"] = "0"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
os.environ["MXNET_STORAGE_FALLBACK_LOG_VERBOSE"] = "0"

from store import Store  # noqa: E402


def family_names():
    return sorted(m.name for m in pkgutil.iter_modules([str(HERE / "families")]))


def work(family, start, pipe):
    """Child process: run the family's cases from number `start` on and send each record."""
    sys.stderr = os.fdopen(os.dup(2), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hide MXNet's message for every executor, which C++ writes
    module = importlib.import_module("families." + family)
    if getattr(module, "ONEDNN", False):
        os.environ["MXNET_MKLDNN_ENABLED"] = "1"
    from worker import Oracle

    oracle = Oracle()
    cases = module.cases()
    for case in list(cases)[start:]:
        pipe.send(oracle.run(case))
    pipe.close()


def records(family, count):
    """The record of each case; `None` for a case that ends the process that runs it."""
    results = []
    context = multiprocessing.get_context("fork")
    while len(results) < count:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=work, args=(family, len(results), theirs))
        child.start()
        theirs.close()
        try:
            while len(results) < count:
                results.append(ours.recv())
        except EOFError:
            results.append(None)
        child.join()
        if child.exitcode > 0:
            sys.exit("%s: case %d failed in Python" % (family, len(results)))
    return results


def generate(family, check, verbose):
    cases = list(importlib.import_module("families." + family).cases())
    store = Store()
    tally = Counter()
    for case, record in zip(cases, records(family, len(cases))):
        if record is None:
            sys.exit("%s: %s %s ends the process: mark it `refuse` or leave it out" % (family, case.op, case.attrs))
        if "skip" in record:
            sys.exit("%s: %s %s: %s" % (family, case.op, case.attrs, record["skip"]))
        tally["error" if "error" in record else "value"] += 1
        if verbose and "error" in record:
            print("  %s: %s %s%s: %s" % (family, case.op, case.attrs, shapes_of(case), record["error"]))
        store.add(family, case, record)
    print("%-12s %s" % (family, ", ".join("%d %s" % (n, k) for k, n in sorted(tally.items()))))
    return store.write(GOLDENS / family, check)


def shapes_of(case):
    return " ".join("%s%s" % (i.dtype.name, list(i.shape)) for i in getattr(case, "inputs", []))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="print every error that is recorded")
    options = parser.parse_args()
    GOLDENS.mkdir(exist_ok=True)
    changed = [f for f in options.families or family_names() if generate(f, options.check, options.verbose)]
    if options.check and changed:
        sys.exit("these goldens differ from what MXNet gives: %s" % ", ".join(changed))


if __name__ == "__main__":
    main()
