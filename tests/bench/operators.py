"""Compares the time of every operator in FerroMX and MXNet 1.9.1, both through their C API, in one interleaved run.

    BENCH_MXNET_PYTHON=.../python python3 tests/bench/operators.py [--threads 1] [--filter REGEX] [--budget 50] [--again] [--write]

Each operator runs at two sizes, about 4 thousand and about 1 million elements: forward only, and forward with backward if it
has a gradient. On one thread, times are processor time; on more threads, wall-clock time. The calls are enlarged goldens
(operator_calls.py). The minimum over the rounds counts. A ratio is MXNet's time divided by FerroMX's: above 1, FerroMX is faster.

With --peer-isa avx2, FerroMX is compared with itself on that instruction set instead: operators that AVX-512 makes slower.

The measurements are kept in a file, so that several short runs can share the work: each continues where the previous one stopped.
--again repeats measurements. With --write, the file's content goes to results/operators.tsv and docs/performance.md.
"""

import argparse
import json
import os
import re
import select
import subprocess
import sys
import time

import results
from bench import THREAD_VARIABLES
from operator_calls import candidates, operators, recorded

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
SIZES = {"small": 1 << 12, "large": 1 << 20}
# A round this short is a single call.
ONE_CALL = 1e-9
# Calls that take longer, in milliseconds, are measured at a smaller size.
LONGEST = 1500.0
# Seconds after which a call is abandoned and its process is killed.
PATIENCE = 30


class Worker:
    """A process that loads one library; started again when a call ends it."""

    def __init__(self, library, threads, **variables):
        self.library, self.process = library, None
        self.clock = "cpu" if threads == 1 else "wall"
        self.environment = {**os.environ, **{v: str(threads) for v in THREAD_VARIABLES}, **variables}

    def start(self):
        command = [sys.executable, "worker_operators.py", self.library]
        self.process = subprocess.Popen(command, cwd=HERE, env=self.environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def run(self, call, seconds):
        """Milliseconds by step, or the error."""
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(dict(call, seconds=seconds, clock=self.clock)) + "\n")
            self.process.stdin.flush()
            answered, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
            answer = self.process.stdout.readline() if answered else ""
        except BrokenPipeError:
            answer = ""
        if answer:
            return json.loads(answer)
        self.process.kill()
        self.process.wait()
        self.process = None
        return {"error": "the process ended"}


class Measured:
    """The measurements so far: the calls and times of each operator, or why it was left out. Saved after every change."""

    def __init__(self, path, threads):
        self.path, self.results, self.left_out = path, {}, {}
        self.threads = threads
        if os.path.exists(path):
            with open(path) as f:
                saved = json.load(f)
            if saved["threads"] != threads:
                sys.exit(f"{path} holds times with {saved['threads']} threads: give another file with --state")
            self.results, self.left_out = saved["results"], saved["left_out"]

    def has(self, name):
        return name in self.results or name in self.left_out

    def put(self, name, result=None, error=None):
        self.results.pop(name, None)
        self.left_out.pop(name, None)
        if result:
            self.results[name] = result
        else:
            self.left_out[name] = error
        with open(self.path + ".new", "w") as f:
            json.dump(dict(threads=self.threads, results=self.results, left_out=self.left_out), f)
        os.replace(self.path + ".new", self.path)


def chosen(ours, theirs, names, cases, target):
    """The first call that both libraries accept, or the error of the last one."""
    error = "no case"
    while target:
        for call in candidates(names, cases, target):
            reference = theirs.run(call, ONE_CALL)
            if "error" in reference:
                error = "peer: " + reference["error"]
                continue
            own = ours.run(call, ONE_CALL)
            if "error" in own:
                error = "FerroMX: " + own["error"]
                continue
            if max(*reference.values(), *own.values()) <= LONGEST:
                return call, None
            error = "too slow"
            break
        else:
            return None, error
        target //= 8
    return None, error


def least(ours, theirs, call, rounds, seconds):
    """The minimum time of each step in both libraries."""
    best = {}
    for _ in range(rounds):
        for side, worker in enumerate((ours, theirs)):
            for step, time in worker.run(call, seconds).items():
                if step in results.STEPS:
                    best[side, step] = min(time, best.get((side, step), time))
    return {step: (best[0, step], best[1, step]) for step in results.STEPS if (0, step) in best and (1, step) in best}


def describe(call):
    shapes = " ".join("x".join(map(str, x["shape"])) or "()" for x in call["inputs"][:3])
    more = " ..." if len(call["inputs"]) > 3 else ""
    attrs = ", ".join(f"{k}={v}" for k, v in call["attrs"].items())
    return f"{shapes}{more}{'; ' + attrs[:60] if attrs else ''}"


def row(name, result):
    cells = [f"`{name}`"]
    for size in SIZES:
        times = result[size]["times"]
        for step in results.STEPS:
            if step in times:
                own, other = times[step]
                cells.append(f"{own:.3g} / {other:.3g} = {other / own:.2f}")
            else:
                cells.append("")
    return f"| {' | '.join(cells)} | {result['large']['call']} |"


def worst(result, size="large"):
    return min((other / own for own, other in result[size]["times"].values()), default=float("inf"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only operators whose name matches this regular expression")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default 1)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side (default 3)")
    parser.add_argument("--seconds", type=float, default=0.03, help="least length of a turn (default 0.03)")
    parser.add_argument("--budget", type=float, help="begin with no further operator after so many seconds")
    parser.add_argument("--again", action="store_true", help="also operators that were measured before")
    parser.add_argument("--peer-isa", help="compare with FerroMX on this instruction set (FERROMX_ISA) instead of MXNet")
    parser.add_argument("--state", help="the file that keeps what was measured (default target/operators.json, or operators-ISA.json)")
    parser.add_argument("--write", action="store_true", help="write results/operators.tsv and docs/performance.md")
    parser.add_argument("--verbose", action="store_true", help="say why operators are left out")
    parser.add_argument("--library", default=os.path.join(HERE, "..", "..", "target", "release", "libmxnet.so"))
    options = parser.parse_args()
    options.library = os.path.abspath(options.library)
    peer_name = f"operators-{options.peer_isa}.json" if options.peer_isa else "operators.json"
    options.state = options.state or os.path.join(ROOT, "target", peer_name)
    python = os.environ.get("BENCH_MXNET_PYTHON")
    if not os.path.exists(options.library):
        parser.error(f"there is no {options.library}: run cargo build --release -p libmxnet")
    if options.write and options.peer_isa:
        parser.error("--write is for comparisons with MXNet: leave out --peer-isa")
    if options.peer_isa:
        return options
    if not python:
        parser.error("the environment variable BENCH_MXNET_PYTHON names the Python that has MXNet")
    find = "import mxnet.libinfo as l; print(l.find_lib_path()[0])"
    options.peer = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    return options


def measure_operator(ours, theirs, names, cases, options):
    """The calls and times at each size, or the error."""
    result = {}
    for size, target in SIZES.items():
        call, error = chosen(ours, theirs, names, cases, target)
        if call is None:
            return None, error
        result[size] = dict(call=describe(call), times=least(ours, theirs, call, options.rounds, options.seconds))
    return result, None


def main():
    options = arguments()
    ours = Worker(options.library, options.threads)
    if options.peer_isa:
        theirs, slow = Worker(options.library, options.threads, FERROMX_ISA=options.peer_isa), 0.8
    else:
        theirs, slow = Worker(options.peer, options.threads), 0.5
    cases, measured = recorded(), Measured(options.state, options.threads)
    wanted = {name: names for name, names in sorted(operators().items()) if re.search(options.filter, name)}
    todo = [name for name in wanted if options.again or not measured.has(name)]
    begin = time.monotonic()
    while todo and not (options.budget and time.monotonic() - begin > options.budget):
        name = todo.pop(0)
        result, error = measure_operator(ours, theirs, wanted[name], cases, options)
        measured.put(name, result, error)
        if result:
            print(row(name, result), flush=True)
    found = {name: r for name, r in measured.results.items() if name in wanted}
    print(f"\n{len(found)} operators measured, {len(todo)} to do; below {slow} of the peer's speed at the large size:")
    for name, result in sorted(found.items(), key=lambda item: worst(item[1])):
        if worst(result) < slow:
            print(row(name, result))
    if options.verbose:
        for name, error in sorted(measured.left_out.items()):
            print(f"{name}: {error}")
    if options.write:
        results.write_operators(measured.results, measured.left_out)
        results.main()


if __name__ == "__main__":
    main()
