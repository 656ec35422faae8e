"""Times expensive operators at extreme shapes: kernels as large as the image, one channel, one pixel, 10^5 classes, an axis of length 1.

    BENCH_MXNET_PYTHON=.../python python3 tests/bench/extremes.py [--library FILE] [--filter REGEX] [--slower 2]

Each call runs forward and forward with backward, in FerroMX and in MXNet 1.9.1 through the same Python front end, with one thread; the
least processor time of some turns counts. Prints what takes more than `--slower` times MXNet's time, worst first, then a count.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(HERE, "..", "..", "target", "release", "libmxnet.so")
SECONDS = 0.3
# Below this time in milliseconds, both libraries measure only the overhead of the front end.
SHORTEST = 0.2


def conv(data, filters, kernel, **more):
    groups = more.get("num_group", 1)
    weight = (data[1], filters // groups) if more.pop("transposed", False) else (filters, data[1] // groups)
    attrs = {"kernel": kernel, "num_filter": filters, "no_bias": True, **more}
    return [data, weight + tuple(kernel)], attrs


def calls():
    """Name, operator, shapes of the inputs, parameters; a shape followed by a number is an array of integers below it."""
    shapes = [
        ("kernel = image", (1, 16, 224, 224), 1, (224, 224), {}),
        ("kernel = image, 8 filters", (2, 16, 64, 64), 8, (64, 64), {}),
        ("kernel near image", (1, 4, 128, 128), 8, (120, 120), {}),
        ("kernel of half the image", (1, 4, 64, 64), 8, (33, 33), {}),
        ("kernel of half the image, padded", (1, 4, 64, 64), 8, (33, 33), {"pad": (16, 16)}),
        ("kernel = image as a layer", (8, 256, 6, 6), 1024, (6, 6), {}),
        ("one channel", (8, 1, 128, 128), 1, (3, 3), {"pad": (1, 1)}),
        ("one pixel", (64, 512, 1, 1), 512, (1, 1), {}),
        ("one pixel, 3x3", (32, 256, 1, 1), 256, (3, 3), {"pad": (1, 1)}),
        ("one row", (4, 32, 1, 4096), 32, (1, 9), {"pad": (0, 4)}),
        ("one column", (4, 32, 4096, 1), 32, (9, 1), {"pad": (4, 0)}),
        ("batch 1, large image", (1, 3, 512, 512), 16, (7, 7), {"stride": (2, 2), "pad": (3, 3)}),
        ("large stride", (1, 3, 512, 512), 64, (16, 16), {"stride": (16, 16)}),
        ("stride beyond the kernel", (4, 16, 128, 128), 16, (1, 1), {"stride": (8, 8)}),
        ("large dilation", (2, 16, 96, 96), 16, (3, 3), {"dilate": (24, 24), "pad": (24, 24)}),
        ("depthwise", (8, 64, 56, 56), 64, (3, 3), {"pad": (1, 1), "num_group": 64}),
        ("depthwise 31x31", (1, 16, 56, 56), 16, (31, 31), {"pad": (15, 15), "num_group": 16}),
        ("many groups", (8, 256, 14, 14), 256, (3, 3), {"pad": (1, 1), "num_group": 128}),
        ("one dimension, long", (4, 16, 65536), 16, (9,), {"pad": (4,)}),
        ("one dimension, kernel = line", (4, 16, 8192), 16, (8192,), {}),
        ("three dimensions", (1, 4, 32, 32, 32), 8, (3, 3, 3), {"pad": (1, 1, 1)}),
    ]
    for name, data, filters, kernel, more in shapes:
        inputs, attrs = conv(data, filters, kernel, **more)
        yield name, "Convolution", inputs, attrs
    for name, data, filters, kernel, more in (
        ("one pixel to image", (2, 64, 1, 1), 8, (64, 64), {}),
        ("stride 2", (2, 32, 32, 32), 16, (4, 4), {"stride": (2, 2), "pad": (1, 1)}),
        ("large stride", (1, 16, 16, 16), 8, (16, 16), {"stride": (16, 16)}),
        ("one channel", (8, 1, 64, 64), 1, (3, 3), {}),
    ):
        inputs, attrs = conv(data, filters, kernel, transposed=True, **more)
        yield name, "Deconvolution", inputs, attrs
    for kind in ("max", "avg"):
        yield "global", "Pooling", [(8, 256, 56, 56)], {"kernel": (1, 1), "global_pool": True, "pool_type": kind}
        yield "window of half the image", "Pooling", [(2, 8, 128, 128)], {"kernel": (64, 64), "pool_type": kind}
        yield "window = image", "Pooling", [(8, 64, 112, 112)], {"kernel": (112, 112), "pool_type": kind}
        yield "one row", "Pooling", [(4, 8, 1, 65536)], {"kernel": (1, 2), "stride": (1, 2), "pool_type": kind}
        yield "window 31, stride 1", "Pooling", [(1, 16, 112, 112)], {"kernel": (31, 31), "pad": (15, 15), "pool_type": kind}
    for rows, cols in ((1, 1_000_000), (1_000_000, 1), (100_000, 10), (10, 100_000), (1000, 1000)):
        for op in ("softmax", "log_softmax", "LayerNorm", "L2Normalization"):
            inputs = [(rows, cols)] + [(cols,)] * 2 * (op == "LayerNorm")
            yield f"{rows} x {cols}", op, inputs, {}
        for op in ("sum", "mean", "max", "norm", "argmax", "prod"):
            for axis in (0, 1):
                yield f"{rows} x {cols}", op, [(rows, cols)], {"axis": axis}
        yield f"{rows} x {cols}", "transpose", [(rows, cols)], {}
        yield f"{rows} x {cols}", "topk", [(rows, cols)], {"k": 1, "axis": 1}
        yield f"{rows} x {cols}", "sort", [(rows, cols)], {"axis": 1}
        yield f"{rows} x {cols} and a row", "broadcast_add", [(rows, cols), (1, cols)], {}
        yield f"{rows} x {cols} and a column", "broadcast_mul", [(rows, cols), (rows, 1)], {}
        yield f"{rows} x {cols}", "tile", [(rows, cols)], {"reps": (1, 2)}
        yield f"{rows} x {cols}", "slice_axis", [(rows, cols)], {"axis": 1, "begin": 0, "end": 1}
        yield f"{rows} x {cols}", "concat", [(rows, cols)] * 2, {"dim": 1, "num_args": 2}
        yield f"{rows} x {cols}", "pick", [(rows, cols), ((rows,), cols)], {"axis": 1}
    yield "softmax along the first axis", "softmax", [(100_000, 10)], {"axis": 0}
    yield "10^5 classes", "SoftmaxOutput", [(32, 100_000), ((32,), 100_000)], {}
    yield "10^5 classes", "softmax_cross_entropy", [(32, 100_000), ((32,), 100_000)], {}
    yield "10^5 classes", "FullyConnected", [(8, 128), (100_000, 128), (100_000,)], {"num_hidden": 100_000}
    yield "one output", "FullyConnected", [(4096, 4096), (1, 4096), (1,)], {"num_hidden": 1}
    yield "batch 1", "FullyConnected", [(1, 4096), (4096, 4096), (4096,)], {"num_hidden": 4096}
    yield "one input", "FullyConnected", [(4096, 1), (4096, 1), (4096,)], {"num_hidden": 4096}
    for rows, width, count in ((100_000, 64, 4096), (1000, 1, 1_000_000), (10, 1024, 10_000), (1_000_000, 8, 1000)):
        yield f"{rows} rows of {width}", "Embedding", [((count,), rows), (rows, width)], {"input_dim": rows, "output_dim": width}
        yield f"{rows} rows of {width}", "take", [(rows, width), ((count,), rows)], {}
    yield "10^5 classes", "one_hot", [((64,), 100_000)], {"depth": 100_000}
    yield "2 classes", "one_hot", [((1_000_000,), 2)], {"depth": 2}
    for m, k, n in ((1, 1_000_000, 1), (1000, 1, 1000), (1, 1000, 1000), (1000, 1000, 1), (100_000, 8, 8), (8, 100_000, 8), (8, 8, 100_000)):
        yield f"{m} x {k} x {n}", "dot", [(m, k), (k, n)], {}
    for batch, m, k, n in ((10_000, 4, 4, 4), (1000, 1, 64, 64), (64, 128, 1, 128), (100_000, 1, 8, 1), (1, 512, 512, 512)):
        yield f"{batch} of {m} x {k} x {n}", "batch_dot", [(batch, m, k), (batch, k, n)], {}
    for shape, axes in (((64, 64, 16, 16), (0, 2, 3, 1)), ((64, 16, 16, 64), (0, 3, 1, 2)), ((2, 500_000), (1, 0)), ((8, 1, 8, 1, 10_000), (4, 3, 2, 1, 0)),
                        ((32, 32, 32, 32), (3, 2, 1, 0))):
        yield f"{shape} to {axes}", "transpose", [shape], {"axes": axes}
    for steps, batch, size, hidden in ((1000, 1, 16, 16), (1, 256, 128, 128), (64, 32, 1, 64), (32, 1, 512, 512)):
        for mode, gates in (("lstm", 4), ("gru", 3)):
            count = gates * hidden * (size + hidden + 2)
            states = [(1, batch, hidden)] * (2 if mode == "lstm" else 1)
            yield f"{steps} steps, batch {batch}, {size} to {hidden}", "RNN", [(steps, batch, size), (count,)] + states, {
                "mode": mode, "state_size": hidden, "num_layers": 1}
    for shape in ((64, 1, 64, 64), (1, 256, 64, 64), (4096, 256, 1, 1), (2, 3, 512, 512)):
        yield f"{shape}", "BatchNorm", [shape] + [(shape[1],)] * 4, {"fix_gamma": False}
        yield f"{shape}", "InstanceNorm", [shape] + [(shape[1],)] * 2, {}
    yield "window of 5", "LRN", [(4, 64, 56, 56)], {"nsize": 5}
    yield "window of 255", "LRN", [(4, 256, 14, 14)], {"nsize": 255}
    yield "scale 8", "UpSampling", [(2, 16, 32, 32)], {"scale": 8, "sample_type": "nearest", "num_args": 1}
    yield "to 512", "_contrib_BilinearResize2D", [(1, 3, 64, 64)], {"height": 512, "width": 512}
    yield "to 1", "_contrib_BilinearResize2D", [(4, 64, 224, 224)], {"height": 1, "width": 1}
    yield "long sequences", "SequenceReverse", [(1000, 16, 64)], {}
    yield "last axis", "cumsum", [(1000, 1000)], {"axis": 1}
    yield "first axis", "cumsum", [(1000, 1000)], {"axis": 0}
    yield "long", "CTCLoss", [(500, 4, 50), ((4, 60), 49)], {}
    yield "wide edge", "Pad", [(1, 4, 64, 64)], {"mode": "reflect", "pad_width": (0, 0, 0, 0, 60, 60, 60, 60)}


def work(pattern):
    """Runs in a child: answers with milliseconds, one JSON line for each call."""
    import mxnet as mx
    import numpy as np
    from mxnet import autograd

    def array(x):
        whole = isinstance(x[0], tuple)
        values = np.random.randint(0, x[1], x[0]) if whole else np.random.uniform(0.1, 1, x)
        return mx.nd.array(values, dtype="float32")

    def least(run):
        run()
        times, end = [], time.perf_counter() + SECONDS
        while len(times) < 2 or (time.perf_counter() < end and len(times) < 50):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
        return 1e3 * min(times)

    def operator(name):
        modules = [mx.nd, mx.nd.contrib, mx.nd._internal]
        return next(getattr(p, n) for p in modules for n in (name, name.replace("_contrib_", "")) if hasattr(p, n))

    for name, op, shapes, attrs in calls():
        if not re.search(pattern, f"{op} {name}"):
            continue
        answer = {"name": f"{op} ({name})"}
        try:
            np.random.seed(0)
            inputs, function = [array(x) for x in shapes], operator(op)

            def forward():
                out = function(*inputs, **attrs)
                (out[0] if isinstance(out, list) else out).wait_to_read()

            def both():
                with autograd.record():
                    out = function(*inputs, **attrs)
                autograd.backward(out[0] if isinstance(out, list) else out)
                mx.nd.waitall()

            answer["forward"] = least(forward)
            for x, shape in zip(inputs, shapes):
                if not isinstance(shape[0], tuple):
                    x.attach_grad()
            answer["both"] = least(both)
        except Exception as error:  # noqa: BLE001: what cannot run is listed as such
            answer["error"] = str(error).strip().split("\n")[-1][:150]
        print(json.dumps(answer), flush=True)


def measured(python, library, pattern):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MXNET_CPU_WORKER_NTHREADS": "1", "MXNET_ENGINE_TYPE": "NaiveEngine"}
    if library:
        environment["MXNET_LIBRARY_PATH"] = os.path.realpath(library)
    command = [python, "-W", "ignore", os.path.abspath(__file__), "--work", "--filter", pattern]
    lines = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return {answer["name"]: answer for answer in map(json.loads, lines.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=LIBRARY)
    parser.add_argument("--filter", default="")
    parser.add_argument("--slower", type=float, default=2)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.filter)
    python = os.environ.get("BENCH_MXNET_PYTHON")
    if not python:
        sys.exit("set BENCH_MXNET_PYTHON to a Python that has the package mxnet 1.9.1")
    theirs, ours = measured(python, None, args.filter), measured(python, args.library, args.filter)
    ratios = []
    for name, answer in theirs.items():
        own = ours.get(name, {"error": "the process ended"})
        if "error" in own and "error" not in answer:
            print(f"{name}: {own['error']}")
        for step in ("forward", "both"):
            if step in answer and step in own and max(answer[step], own[step]) > SHORTEST:
                ratios.append((own[step] / max(answer[step], SHORTEST / 4), name, step, own[step], answer[step]))
    slow = [r for r in sorted(ratios, reverse=True) if r[0] > args.slower]
    for ratio, name, step, own, other in slow:
        print(f"{ratio:6.1f} times: {name} {step}: {own:.2f} ms, MXNet {other:.2f} ms")
    print(f"{len(slow)} of {len(ratios)} times are more than {args.slower:g} times MXNet's")


main()
