"""Measures how the operators of each workload scale with the number of threads.

    python3 tests/bench/scaling.py [--threads 1,4,16] [--filter REGEX] [--steps 20]

For each workload it prints the wall-clock time of a step with each number of threads, then the time of each operator, in the order in
which they run, according to the profiler. The last column is the gain of the last number of threads over the first. An operator whose
gain is small for its time has too few chunks, or waits for its threads too often: a benchmark on two threads does not show this.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import worker_ferromx
from ferromx import Library, strings
from workloads import WORKLOADS

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(HERE, "../../target/release/libmxnet.so")


def minimum_step(step, count):
    """The time of the fastest step, in microseconds."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def profiled_operators(library, step, count, trace):
    """Name and minimum time in microseconds of every operator of a step, in order."""
    config = {"filename": trace, "profile_all": "1"}
    library.MXSetProcessProfilerConfig(len(config), strings(config), strings(config.values()), None)
    library.MXSetProcessProfilerState(1, None)
    for _ in range(count):
        step()
    library.MXSetProcessProfilerState(0, None)
    library.MXDumpProcessProfile(1, None)
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    started, operators = {}, []
    for event in events:
        key = (event.get("tid"), event["name"])
        if event["ph"] == "B":
            started[key] = event["ts"]
        elif event["ph"] == "E" and key in started:
            operators.append((event["name"], event["ts"] - started.pop(key)))
        elif event["ph"] == "X":
            operators.append((event["name"], event["dur"]))
    per_step = len(operators) // count
    return [(operators[i][0], min(operators[step * per_step + i][1] for step in range(count))) for i in range(per_step)]


def measure(path, name, count):
    """Prints the times of a workload in this process as JSON."""
    library = Library(path)
    workload = next(workload for workload in WORKLOADS if workload.name == name)
    with tempfile.TemporaryDirectory() as folder:
        for variant, step in worker_ferromx.prepare(library, workload).items():
            minimum_step(step, 3)
            total = minimum_step(step, count)
            operators = profiled_operators(library, step, count, os.path.join(folder, "trace.json"))
            print(json.dumps((variant, total, operators)), flush=True)


def run(options, name, threads):
    """The times of a workload in a process of its own, with the given number of threads."""
    command = [sys.executable, __file__, "--library", options.library, "--steps", str(options.steps), "--measure", name]
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=LIBRARY)
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}", help="numbers of threads, separated by commas")
    parser.add_argument("--filter", default="", help="a regular expression for the names of the workloads")
    parser.add_argument("--steps", type=int, default=20, help="steps per measurement, of which the fastest counts")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(options.library, options.measure, options.steps)
    threads = options.threads.split(",")
    for workload in WORKLOADS:
        if not re.search(options.filter, workload.name):
            continue
        for variants in zip(*(run(options, workload.name, count) for count in threads)):
            title = f"{workload.name} {variants[0][0]}".strip()
            rows = [(title, [total for _, total, _ in variants])]
            for operators in zip(*(operators for _, _, operators in variants)):
                rows.append(("  " + operators[0][0], [spent for _, spent in operators]))
            for label, times in rows:
                gain = times[0] / max(times[-1], 1)
                print(f"{label:62}", *(f"{spent:10.0f}" for spent in times), f"{gain:6.1f}", flush=True)


if __name__ == "__main__":
    main()
