#!/usr/bin/env python3
"""Lists the loops that the compiler did not vectorize as intended: versions for AVX2 or AVX-512 without vectors of 256 bits, or with
vectors that are assembled element by element.

The library needs symbols:
    RUSTFLAGS=-Csymbol-mangling-version=v0 CARGO_PROFILE_RELEASE_STRIP=none cargo build --release --target-dir target/size
"""

import argparse
import re
import subprocess

VERSION = re.compile(r"\b(avx2|avx512)\b")
WIDE = re.compile(r"%[yz]mm")
# gather and scatter take a cycle or more per element; so do inserts of single elements.
SINGLE_ELEMENTS = re.compile(r"\bv(p?gather|p?scatter|p?insr[bwdq])")
FEW = 8


def functions(library):
    """The name and the instructions of each function."""
    command = ["objdump", "-d", "-C", "--no-show-raw-insn", library]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as disassembly:
        name, lines = "", []
        for line in disassembly.stdout:
            header = re.match(r"[0-9a-f]+ <(.*)>:$", line)
            if header:
                yield name, lines
                name, lines = header[1], []
            else:
                lines.append(line)
        yield name, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--filter", default="", help="only functions whose names match this regular expression")
    options = parser.parse_args()

    narrow, assembled, count = [], [], 0
    for name, lines in functions(options.library):
        if "ferromx" not in name or not VERSION.search(name) or not re.search(options.filter, name):
            continue
        count += 1
        elements = sum(1 for line in lines if SINGLE_ELEMENTS.search(line))
        if not any(WIDE.search(line) for line in lines):
            narrow.append(f"{len(lines):>6}  {name}")
        elif elements >= FEW:
            assembled.append(f"{elements:>6}  {name}")
    print(f"{count} versions for AVX2 and AVX-512")
    for title, rows in [("instructions, none of them on 256 bits", narrow), ("gathers, scatters and inserts", assembled)]:
        print(f"\n{title}: {len(rows)}", *sorted(rows, reverse=True), sep="\n")


if __name__ == "__main__":
    main()
