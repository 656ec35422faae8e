"""Compares the speed of FerroMX with MXNet 1.9.1, PyTorch and ONNX Runtime in one interleaved run.

    python3 tests/bench/bench.py [--threads 1,2] [--rounds 9] [--seconds 0.15] [--filter REGEX] [--isa avx2] [--quick]

Each library runs in its own process. In every round, all of them run the workload for a moment in turn, so that other load on the
machine affects all of them equally. On one thread, times are processor time; on more threads, wall-clock time. If a library has
several variants, the fastest counts. The ratio is `best peer's median / FerroMX's`: above 1, FerroMX is faster. With --write the
measurements go to results/workloads.tsv and the table of docs/performance.md. Each network runs in its own process, so that its peak
memory is known. With --isa avx2 no library uses AVX-512. ONNX
Runtime has no such option, so it takes part only if the processor lacks AVX-512.

The environment variables BENCH_MXNET_PYTHON, BENCH_TORCH_PYTHON and BENCH_ONNXRUNTIME_PYTHON (which also needs the package onnx) name
the Python interpreters of the peers. A peer without an interpreter, or that does not start, is left out.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

import results
from workloads import NETWORK_KINDS, WORKLOADS

HERE = os.path.dirname(os.path.abspath(__file__))
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# OpenMP's threads spin for up to 0.2 s before they sleep, which would slow down the next library.
PAUSE = {"cpu": 0, "wall": 0.25}
# Names, and the modules after which variables and workers are named.
PEERS = (("MXNet", "mxnet"), ("PyTorch", "torch"), ("ONNX Runtime", "onnxruntime"))


# The variables that limit the instruction set of FerroMX, oneDNN, MKL and ATen.
AVX2 = {
    "FERROMX_ISA": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "DNNL_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}


def has_avx512():
    with open("/proc/cpuinfo") as info:
        return " avx512f " in info.read()


class Contestant:
    """A worker process."""

    def __init__(self, name, command, threads, variables=None):
        self.name = name
        environment = {**os.environ, **{v: str(threads) for v in THREAD_VARIABLES}, **(variables or {})}
        self.process = subprocess.Popen(
            command, cwd=HERE, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, workload, seconds):
        """Times of each variant, or None if this library has none."""
        try:
            self.process.stdin.write(json.dumps(dict(name=workload.name, seconds=seconds)) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise SystemExit(f"{self.name} ended in the middle of {workload.name}; its message is above")
        return json.loads(answer)

    def peak_mib(self):
        """The largest amount of memory that the process has used so far."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def contestants(library, threads, isa):
    level = AVX2 if isa == "avx2" else {}
    ours = [sys.executable, "worker_ferromx.py", library]
    yield Contestant("FerroMX", ours, threads, level)
    yield Contestant("FerroMX exact", ours, threads, {**level, "MXNET_EXACT_CONV": "1"})
    for name, module in PEERS:
        if level and module == "onnxruntime" and has_avx512():
            print("ONNX Runtime is left out: it would use AVX-512")
            continue
        variable = f"BENCH_{module.upper()}_PYTHON"
        python = os.environ.get(variable)
        if not python:
            print(f"{name} is left out: {variable} names no Python interpreter")
        elif subprocess.run([python, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode != 0:
            print(f"{name} is left out: {python} cannot import {module}")
        else:
            yield Contestant(name, [python, f"worker_{module}.py"], threads, level)


def stop(field):
    for contestant in field:
        contestant.stop()


def takes_part(contestant, workload):
    """Exact convolutions only differ for 3x3 kernels."""
    args = workload.args
    return contestant.name != "FerroMX exact" or (args.get("kernel"), args.get("groups")) == (3, 1)


def measure(field, workload, rounds, seconds, clock):
    """Median and minimum time of the fastest variant of each library, by name."""
    times = {}
    for _ in range(rounds):
        for contestant in field:
            for variant, result in contestant.run(workload, seconds).items():
                times.setdefault(contestant.name, {}).setdefault(variant, []).append(result[clock])
            time.sleep(PAUSE[clock])
    best = {name: min(variants.values(), key=statistics.median) for name, variants in times.items()}
    return {name: (statistics.median(values), min(values)) for name, values in best.items()}


def row(workload, measured):
    def cell(name):
        if name not in measured:
            return "-"
        median, least = measured[name]
        return f"{median:.3g} ({least:.3g})"

    peers = [measured[name] for name, _ in PEERS if name in measured]

    def ratio(name, which):
        if not peers or name not in measured:
            return "-"
        return f"{min(peer[which] for peer in peers) / measured[name][which]:.2f}"

    names = ("FerroMX", "FerroMX exact", *(name for name, _ in PEERS))
    ratios = (ratio("FerroMX", 0), ratio("FerroMX", 1), ratio("FerroMX exact", 0))
    return " | ".join([workload.name, *map(cell, names), *ratios, f">= {workload.goal:g} |"])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas (default 1,2)")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each contestant per workload (default 9)")
    parser.add_argument("--seconds", type=float, default=0.15, help="least length of a turn (default 0.15)")
    parser.add_argument("--filter", default="", help="only workloads whose names match this regular expression")
    parser.add_argument("--isa", choices=["best", "avx2"], default="best", help="the widest instructions (default best)")
    parser.add_argument("--quick", action="store_true", help="three rounds of 0.03 seconds: to see that all of it runs")
    parser.add_argument("--write", action="store_true", help="write results/workloads.tsv and docs/performance.md")
    parser.add_argument(
        "--library",
        default=os.path.join(HERE, "..", "..", "target", "release", "libmxnet.so"),
        help="the library of FerroMX (default target/release/libmxnet.so)",
    )
    options = parser.parse_args()
    if options.write and (options.quick or options.filter):
        parser.error("--write needs all workloads at full length: leave out --quick and --filter")
    if options.quick:
        options.rounds, options.seconds = 3, 0.03
    options.library = os.path.abspath(options.library)
    if not os.path.exists(options.library):
        parser.error(f"there is no {options.library}: run cargo build --release -p libmxnet")
    return options


def main():
    options = arguments()
    chosen = [w for w in WORKLOADS if re.search(options.filter, w.name)]
    rows = []
    for threads in map(int, options.threads.split(",")):
        clock = "cpu" if threads == 1 else "wall"
        load = os.getloadavg()[0]
        print(f"\n{threads} thread{'s' * (threads > 1)}, {clock} milliseconds: median (least); load {load:.1f} at the start\n")
        columns = ["workload", "FerroMX", "exact", *(name for name, _ in PEERS), "ratio", "ratio of the least", "ratio, exact", "goal"]
        print(f"| {' | '.join(columns)} |")
        print("|" + "---|" * len(columns), flush=True)
        field = []
        for workload in chosen:
            alone = workload.kind in NETWORK_KINDS
            if alone or not field:
                stop(field)
                field = list(contestants(options.library, threads, options.isa))
            entered = [c for c in field if takes_part(c, workload)]
            measured = measure(entered, workload, options.rounds, options.seconds, clock)
            peaks = {c.name: c.peak_mib() for c in entered if alone and c.name in measured}
            memory = ", ".join(f"{name} {peak} MiB" for name, peak in peaks.items())
            print("| " + row(workload, measured) + (f" {memory}" if alone else ""), flush=True)
            for name, (median, least) in measured.items():
                times = [f"{median:.3g}", f"{least:.3g}"]
                rows.append([threads, workload.name, f"{workload.goal:g}", name, *times, peaks.get(name, "")])
        stop(field)
    if options.write:
        path = results.WORKLOADS_AVX2 if options.isa == "avx2" else results.WORKLOADS
        results.write(path, results.WORKLOAD_COLUMNS, rows)
        results.main()


if __name__ == "__main__":
    main()
