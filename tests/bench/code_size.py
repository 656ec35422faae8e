#!/usr/bin/env python3
"""Prints the code of a library by crate, by element type and by family, largest first. It finds loops that are compiled too often.

The library needs symbols that name generic arguments:
    RUSTFLAGS=-Csymbol-mangling-version=v0 CARGO_PROFILE_RELEASE_STRIP=none cargo build --release --target-dir target/size
"""

import argparse
import collections
import re
import subprocess

# A function of these modules belongs to the family of its generic argument.
GENERIC = {"float", "map", "par", "simd"}
TYPES = [("16-bit float", r"half::"), ("f64", r"\bf64\b"), ("integer", r"\b(u8|i8|i32|i64|bool)\b"), ("f32", r"\bf32\b")]


def functions(library):
    """The size in bytes and the name of each function; of functions with the same code, the first."""
    table = subprocess.run(["nm", "-S", "-C", library], capture_output=True, text=True, check=True).stdout
    seen = set()
    for line in table.splitlines():
        address, size, kind, name = (line.split(" ", 3) + [""] * 3)[:4]
        if address and kind in ("t", "T", "w", "W") and address not in seen:
            seen.add(address)
            yield int(size, 16), name


def family(name):
    """The crate, module and file of the operator or kernel in a function's name, the innermost one."""
    paths = re.findall(r"ferromx_(\w+)::(\w+)(?:::(\w+))?", name)
    operators = [path for path in paths if path[0] == "ops"]
    kernels = [path for path in paths if path[0] == "kernels" and path[1] not in GENERIC]
    outside = [("other", re.split("[:<]", name.lstrip("<"))[0], "")]
    return (operators or kernels or paths or outside)[-1]


def element_type(name):
    return next((label for label, pattern in TYPES if re.search(pattern, name)), "none")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--families", type=int, default=40, help="number of families to print")
    options = parser.parse_args()

    sizes, counts = collections.Counter(), collections.Counter()
    for size, name in functions(options.library):
        crate, *module = family(name)
        for key in [("all",), ("crate", crate), ("type", crate, element_type(name)), ("family", crate, *module)]:
            sizes[key] += size
            counts[key] += 1
    for title, limit in [("all", 1), ("crate", None), ("type", None), ("family", options.families)]:
        print(f"\n{title:<40} {'kB':>8} {'functions':>10}")
        rows = [(key, size) for key, size in sizes.most_common() if key[0] == title]
        for key, size in rows[:limit]:
            print(f"{'::'.join(filter(None, key[1:])):<40} {size / 1000:>8.0f} {counts[key]:>10}")


if __name__ == "__main__":
    main()
