#!/usr/bin/env python3
"""Writes the fixtures: files that MXNet 1.9.1 saved or upgrades, and their expected contents.

Usage: fixtures.py DIGITS          DIGITS: the folder of the IDX files that the project carries
"""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures"
sys.path.insert(0, str(HERE))

os.environ["OMP_NUM_THREADS"] = "1"  # results do not depend on the machine's load

import custom  # noqa: E402
import files  # noqa: E402
import lenet  # noqa: E402
import onednn  # noqa: E402
from store import Store  # noqa: E402


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    FIXTURES.mkdir(exist_ok=True)
    store = Store()
    lenet.write(FIXTURES, store, pathlib.Path(sys.argv[1]))
    files.write(FIXTURES, store)
    custom.write(FIXTURES)
    onednn.write(FIXTURES, store)
    store.write(FIXTURES / "expected", check=False)
    print("%d expectations" % len(store.lines))


if __name__ == "__main__":
    main()
