"""Compares ordinary operator calls in FerroMX with PyTorch and MXNet 1.9.1, each through its own Python front end.

    BENCH_TORCH_PYTHON=... BENCH_MXNET_PYTHON=... python3 tests/bench/torch_calls.py [--filter REGEX] [--threads 1] [--dtype float16]

Each call runs forward only ("forward"), and recorded with a backward pass for gradients of all inputs ("both"). FerroMX and MXNet run
in MXNet's front end. The libraries take turns; the best turn counts, by the median of its calls: of processor time on one thread and
of wall-clock time on more. (Single calls of MXNet can seem free, since the time of its threads is charged late.) A ratio is the faster
peer's time divided by FerroMX's: above 1, FerroMX is faster. Calls below the limit are printed, and those that a library refuses:
MXNet and PyTorch lack some calls in float16.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time

from torch_call_table import CALLS

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 3
SECONDS = 0.1


class MXNetCalls:
    """Calls in MXNet's front end."""

    def __init__(self):
        import mxnet

        self.mx = mxnet
        self.names = {"mx": mxnet, "nd": mxnet.nd, "np": mxnet.np, "npx": mxnet.npx}

    def prepare(self, call, floats, integers):
        code = compile(call.mxnet, call.name, "eval")
        wrap = (lambda x: x.as_np_ndarray()) if "np." in call.mxnet else (lambda x: x)
        arrays = {k: self.mx.nd.array(x, dtype=x.dtype) for k, x in floats.items()}
        if call.gradient:
            for x in arrays.values():
                x.attach_grad()
        others = {k: wrap(self.mx.nd.array(x)) for k, x in integers.items()}

        def run():
            result = eval(code, dict(self.names), {**others, **{k: wrap(x) for k, x in arrays.items()}})
            return result[0] if isinstance(result, (list, tuple)) else result

        forward = lambda: run().wait_to_read()
        if not call.gradient:
            return forward, None
        head = self.mx.nd.ones_like(run().as_nd_ndarray())
        head = head.as_np_ndarray() if "np." in call.mxnet else head

        def both():
            with self.mx.autograd.record():
                result = run()
            result.backward(head)
            for x in arrays.values():
                x.grad.wait_to_read()

        return forward, both


class TorchCalls:
    """Calls in PyTorch."""

    def __init__(self):
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self.torch = torch
        self.names = {"torch": torch, "F": torch.nn.functional}

    def prepare(self, call, floats, integers):
        code = compile(call.torch, call.name, "eval")
        others = {k: self.torch.tensor(x) for k, x in integers.items()}

        def run(arrays):
            return eval(code, dict(self.names), {**others, **arrays})

        plain = {k: self.torch.tensor(x) for k, x in floats.items()}

        def forward():
            with self.torch.no_grad():
                run(plain)

        if not call.gradient:
            return forward, None
        with self.torch.no_grad():
            head = self.torch.ones_like(run(plain))
        recorded = {k: self.torch.tensor(x, requires_grad=True) for k, x in floats.items()}

        def both():
            for x in recorded.values():
                x.grad = None
            run(recorded).backward(head)

        return forward, both


def median(step, clock):
    """Milliseconds of a call, in a turn of at least three calls."""
    if step is None:
        return None
    step()
    times, begin = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < SECONDS:
        start = clock()
        step()
        times.append(clock() - start)
    return statistics.median(times) * 1e3


def work(library, dtype):
    """Answers the index of a call with its times, one JSON line each."""
    import numpy

    calls = TorchCalls() if library == "torch" else MXNetCalls()
    clock = time.process_time if os.environ["OMP_NUM_THREADS"] == "1" else time.perf_counter
    for line in sys.stdin:
        call, random = CALLS[int(line)], numpy.random.RandomState(0)
        floats = {k: random.uniform(0.05, 0.95, shape).astype(dtype) for k, shape in zip("abcd", call.shapes)}
        integers = {"i": random.randint(0, call.below, call.indices)} if call.indices else {}
        try:
            times = [median(step, clock) for step in calls.prepare(call, floats, integers)]
        except Exception as error:
            times = repr(error)[:200]
        print(json.dumps(times), flush=True)


def start(library, python, threads, dtype, variables=None):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), **(variables or {})}
    command = [python, os.path.join(HERE, "torch_calls.py"), "--worker", library, "--dtype", dtype]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def ask(worker, index):
    """The times of a call as [forward, both], or the error."""
    worker.stdin.write(f"{index}\n")
    worker.stdin.flush()
    answer = worker.stdout.readline()
    return json.loads(answer) if answer else "the process ended"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only calls whose name matches this regular expression")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default 1)")
    parser.add_argument("--dtype", default="float32", help="element type of the arrays (default float32)")
    parser.add_argument("--below", type=float, default=0.95, help="print ratios below this limit (default 0.95)")
    parser.add_argument("--library", default=os.path.join(HERE, "..", "..", "target", "release", "libmxnet.so"))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker, options.dtype)
    mxnet, torch = os.environ["BENCH_MXNET_PYTHON"], os.environ["BENCH_TORCH_PYTHON"]
    workers = {
        "ferromx": start("mxnet", mxnet, options.threads, options.dtype, {"MXNET_LIBRARY_PATH": os.path.abspath(options.library)}),
        "torch": start("torch", torch, options.threads, options.dtype),
        "mxnet": start("mxnet", mxnet, options.threads, options.dtype),
    }
    ratios = []
    for index, call in enumerate(CALLS):
        if not re.search(options.filter, call.name):
            continue
        answers = {name: [ask(worker, index) for _ in range(ROUNDS)] for name, worker in workers.items()}
        failed = {name: times[0] for name, times in answers.items() if isinstance(times[0], str)}
        for name, error in failed.items():
            print(f"     {call.name}: {name}: {error}")
        for k, step in enumerate(("forward", "both")):
            best = {n: min(t[k] for t in times) for n, times in answers.items() if n not in failed and times[0][k]}
            peers = [t for name, t in best.items() if name != "ferromx"]
            if "ferromx" not in best or not peers:
                continue
            ratios.append(min(peers) / best["ferromx"])
            if ratios[-1] < options.below:
                print(f"{ratios[-1]:.2f} {call.name}, {step}: " + ", ".join(f"{n} {t:.3f} ms" for n, t in best.items()), flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
    print(f"{len(ratios)} ratios, geometric mean {mean:.2f}, {sum(r < options.below for r in ratios)} below {options.below}")


if __name__ == "__main__":
    main()
