"""Compares the time of imported models with ONNX Runtime: `onnx_import.py FOLDER --library libmxnet.so --ferromx ferromx`.

FOLDER has the models of `onnx_models.py`. Each is imported by the command `ferromx` (whose time is shown), bound for batches of 1, and run in turns with ONNX
Runtime on the same inputs; the least time of the rounds is shown, with the largest difference of the outputs. `--write` is the same network with the operators
that people write by hand instead of those that the import creates, for what the import itself costs. Needs onnxruntime and numpy.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime

import ferromx

# The same network written by hand.
BY_HAND = {"_npi_add": "elemwise_add", "_npi_multiply": "elemwise_mul"}


def inputs(session, length):
    """Random inputs of a batch of 1."""
    rng = np.random.default_rng(3)
    integers = {"words": lambda dims: rng.integers(0, 30522, dims), "mask": np.ones, "rate": lambda dims: np.full(dims, 16000)}
    given = {}
    for entry in session.get_inputs():
        dims = [{"batch": 1, "length": length}.get(d, d) for d in entry.shape]
        make = integers.get(entry.name)
        given[entry.name] = make(dims).astype(np.int64) if make else rng.normal(size=dims).astype(np.float32)
    return given


class Imported:
    """A checkpoint bound to inputs."""

    def __init__(self, library, json_text, params, given):
        self.library = library
        symbol = ctypes.c_void_p()
        library.MXSymbolCreateFromJSON(json_text.encode(), ctypes.byref(symbol))
        shapes = {name: array.shape for name, array in given.items()}
        self.executor = ferromx.Executor(library, symbol, shapes, False)
        self.load(params)
        for name, array in given.items():
            array = np.ascontiguousarray(array)
            target = self.executor.args[name]
            library.MXNDArraySyncCopyFromCPU(target, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.size))

    def load(self, params):
        count, names = ctypes.c_uint32(), ctypes.c_uint32()
        arrays, texts = ferromx.HANDLES(), ctypes.POINTER(ctypes.c_char_p)()
        self.library.MXNDArrayLoad(
            params.encode(), ctypes.byref(count), ctypes.byref(arrays), ctypes.byref(names), ctypes.byref(texts)
        )
        for i in range(count.value):
            kind, name = texts[i].decode().split(":", 1)
            targets = self.executor.args if kind == "arg" else self.executor.aux
            source, target = ctypes.c_void_p(arrays[i]), targets[name]
            self.library.MXNDArraySyncCopyFromNDArray(target, source, -1)
            self.library.MXNDArrayFree(source)

    def run(self):
        self.executor.forward(False)

    def output(self, size):
        values = np.empty(size, np.float32)
        array = self.executor.outputs()[0]
        self.library.MXNDArraySyncCopyToCPU(array, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(size))
        return values


def least(steps, rounds):
    """The minimum time of each step in milliseconds, in turns of twenty calls. The threads of one library spin before they sleep,
    which would slow down the next one."""
    times = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            time.sleep(0.25)
            for _ in range(20):
                start = time.perf_counter()
                step()
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: min(values) for name, values in times.items()}


def by_hand(text):
    graph = json.loads(text)
    for node in graph["nodes"]:
        node["op"] = BY_HAND.get(node["op"], node["op"])
    return json.dumps(graph)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--library", required=True)
    parser.add_argument("--ferromx", required=True)
    parser.add_argument("--models", default="resnet50,mobilenetv2,bert", help="the names of models, separated by commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    # FerroMX reads it when it first needs it.
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    library = ferromx.Library(args.library)
    print("| model | import, ms | FerroMX, ms | by hand, ms | ONNX Runtime, ms | ratio | difference |\n|---|---|---|---|---|---|---|")
    for name in args.models.split(","):
        file = args.folder / f"{name}.onnx"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = args.threads
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        given = inputs(session, args.length)
        with tempfile.TemporaryDirectory() as folder:
            prefix = f"{folder}/{name}"
            start = time.perf_counter()
            subprocess.run([args.ferromx, "onnx", "check", file], check=True, stdout=subprocess.DEVNULL)
            taken = (time.perf_counter() - start) * 1e3
            subprocess.run([args.ferromx, "onnx", "import", file, prefix], check=True, stdout=subprocess.DEVNULL)
            text, params = pathlib.Path(f"{prefix}-symbol.json").read_text(), f"{prefix}-0000.params"
            ours = Imported(library, text, params, given)
            written = Imported(library, by_hand(text), params, given) if args.write else None
        expected = session.run(None, given)[0]
        steps = {"ours": ours.run, "theirs": lambda: session.run(None, given)}
        if written:
            steps["written"] = written.run
        times = least(steps, args.rounds)
        difference = np.abs(ours.output(expected.size) - expected.ravel()).max() / np.abs(expected).max()
        hand = f"{times['written']:.2f}" if written else "-"
        ratio = times["theirs"] / times["ours"]
        print(f"| {name} | {taken:.0f} | {times['ours']:.2f} | {hand} | {times['theirs']:.2f} | {ratio:.2f} | {difference:.1e} |")


if __name__ == "__main__":
    main()
