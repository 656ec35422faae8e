#!/usr/bin/env python3
"""Lists the loops that the compiler did not vectorize as intended: versions for AVX2 or AVX-512 without vectors of 256 bits, with
vectors that are assembled element by element, or with innermost loops that keep sums on the stack instead of in registers.

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
INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)")
# The first operand is read and the last one written; a slot is an offset from the stack pointer.
STORE = re.compile(r"%[xyz]mm\d+,(-?(?:0x[0-9a-f]+)?\(%r[sb]p\))$")
LOAD = re.compile(r"(-?(?:0x[0-9a-f]+)?\(%r[sb]p\)),.*%[xyz]mm")


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


def stack_slots(lines):
    """The largest number of stack slots that an innermost loop both writes and reads as vectors."""
    code = [match.groups() for match in map(INSTRUCTION.match, lines) if match]
    index = {int(address, 16): i for i, (address, _, _) in enumerate(code)}
    loops = []
    for end, (_, name, operands) in enumerate(code):
        target = re.match(r"[0-9a-f]+", operands) if name.startswith("j") else None
        start = index.get(int(target[0], 16), end) if target else end
        if start < end:
            loops.append((start, end))
    innermost = [a for a in loops if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    return max((len(slots(code[start:end], STORE) & slots(code[start:end], LOAD)) for start, end in innermost), default=0)


def slots(code, access):
    return {match[1] for match in (access.search(operands) for _, _, operands in code) if match}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--filter", default="", help="only functions whose names match this regular expression")
    options = parser.parse_args()

    narrow, assembled, on_stack, count = [], [], [], 0
    for name, lines in functions(options.library):
        if "ferromx" not in name or not VERSION.search(name) or not re.search(options.filter, name):
            continue
        count += 1
        elements = sum(1 for line in lines if SINGLE_ELEMENTS.search(line))
        if not any(WIDE.search(line) for line in lines):
            narrow.append(f"{len(lines):>6}  {name}")
        elif elements >= FEW:
            assembled.append(f"{elements:>6}  {name}")
        if (sums := stack_slots(lines)) >= FEW:
            on_stack.append(f"{sums:>6}  {name}")
    print(f"{count} versions for AVX2 and AVX-512")
    lists = {"instructions, none of them on 256 bits": narrow, "gathers, scatters and inserts": assembled, "sums on the stack": on_stack}
    for title, rows in lists.items():
        print(f"\n{title}: {len(rows)}", *sorted(rows, reverse=True), sep="\n")


if __name__ == "__main__":
    main()
