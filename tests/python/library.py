"""The library as a whole: seeds, features, engine, profiler, environment, random numbers, images, recordio, kvstore."""

import json
import os
import subprocess
import sys
import tempfile

import mxnet as mx
import numpy as np
from mxnet import nd

from record import record

mx.random.seed(42)
first = nd.random.uniform(shape=(5,)).asnumpy()
mx.random.seed(42)
assert (nd.random.uniform(shape=(5,)).asnumpy() == first).all()
record("features", mx.runtime.Features().is_enabled("CUDA"))
# Other builds may list more.
names = ("CUDA", "CPU_SSE2", "CPU_AVX2", "OPENCV", "LAPACK", "MKLDNN", "PROFILER", "DIST_KVSTORE", "SIGNAL_HANDLER", "INT64_TENSOR_SIZE")
record("feature_names", [name in mx.runtime.Features() for name in names])
mx.runtime.feature_list()
record("feature_name", mx.runtime.Features()["CUDA"].name)
record("version", mx.__version__)
record("gpus", mx.context.num_gpus())
with mx.engine.bulk(10):
    x = nd.ones(3)
    for _ in range(20):
        x = x + 1
record("bulk", x)
record("memory", mx.util.is_np_shape())
for name in ("normal", "gamma", "exponential", "poisson", "negative_binomial", "randint"):
    options = {"randint": {"low": 0, "high": 5}}.get(name, {})
    record(f"random/{name}", getattr(nd.random, name)(shape=(3, 2), **options).shape)
record("multinomial", nd.random.multinomial(nd.array([0.0, 1.0]), shape=4))
record("shuffle", np.sort(nd.random.shuffle(nd.arange(5)).asnumpy()))

for kind in ("Xavier", "MSRAPrelu", "Uniform", "Normal", "Orthogonal", "Bilinear", "LSTMBias"):
    target = nd.zeros((4, 4, 2, 2) if kind == "Bilinear" else (8,) if kind == "LSTMBias" else (8, 4))
    getattr(mx.init, kind)()(mx.init.InitDesc("x_bias" if kind == "LSTMBias" else "x_weight"), target)
    record(f"init/{kind}", target.shape)

store = mx.kv.create("local")
record("kv/type", store.type)
record("kv/rank", [store.rank, store.num_workers])
store.init("a", nd.ones((2, 3)))
out = nd.zeros((2, 3))
store.pull("a", out=out)
record("kv/init", out)
store.push("a", [nd.ones((2, 3)) * 2, nd.ones((2, 3)) * 3])
store.pull("a", out=out)
record("kv/push", out)
store.pushpull("a", nd.ones((2, 3)) * 7, out=out)
record("kv/pushpull", out)
store._set_updater(lambda key, pushed, stored: stored.__iadd__(pushed * 2))
store.push("a", nd.ones((2, 3)))
store.pull("a", out=out)
record("kv/updater", out)
store = mx.kv.create("local")
store.init([1, 2], [nd.zeros(2), nd.ones(2)])
store.push([1, 2], [[nd.ones(2)] * 3, [nd.ones(2)] * 2])
outs = [nd.zeros(2), nd.zeros(2)]
store.pull([1, 2], out=outs)
record("kv/list", [o.asnumpy() for o in outs])
store = mx.kv.create("device")
store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9))
store.init(3, nd.ones(4))
for _ in range(3):
    store.push(3, nd.ones(4))
held = nd.zeros(4)
store.pull(3, out=held)
record("kv/optimizer", held)
with tempfile.TemporaryDirectory() as folder:
    store.save_optimizer_states(os.path.join(folder, "states"))
    store.load_optimizer_states(os.path.join(folder, "states"))
store.push(3, nd.ones(4))
store.pull(3, out=held)
record("kv/restored", held)
store = mx.kv.create("local")
store.init("rows", nd.sparse.row_sparse_array((np.arange(6, dtype="float32").reshape(3, 2), [0, 2, 3]), shape=(5, 2)))
rows = nd.sparse.zeros("row_sparse", (5, 2))
store.row_sparse_pull("rows", out=rows, row_ids=nd.array([0, 3, 3]))
record("kv/rows", rows)
store.push("rows", nd.sparse.row_sparse_array((np.ones((2, 2), dtype="float32"), [1, 4]), shape=(5, 2)))
store.row_sparse_pull("rows", out=rows, row_ids=nd.array([1, 4]))
record("kv/rows/pushed", rows)
store = mx.kv.create("device")
store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
store.init("c", nd.zeros(5))
compressed = nd.zeros(5)
for _ in range(3):
    store.push("c", [nd.array([0.2, 0.6, -0.7, 1.4, 0.0]), nd.array([0.2, 0.6, -0.7, 0.1, 0.3])])
    store.pull("c", out=compressed)
    record(f"kv/compressed{_}", compressed)

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "profile.json")
    mx.profiler.set_config(profile_all=True, filename=path, aggregate_stats=True)
    mx.profiler.set_state("run")
    y = nd.dot(nd.ones((50, 50)), nd.ones((50, 50))).sum()
    y.wait_to_read()
    domain = mx.profiler.Domain("mine")
    task = mx.profiler.Task(domain, "work")
    task.start()
    nd.ones(3).wait_to_read()
    task.stop()
    counter = mx.profiler.Counter(domain, "items", 3)
    counter += 2
    mx.profiler.Marker(domain, "here").mark("process")
    mx.profiler.pause()
    nd.exp(nd.ones(3)).wait_to_read()
    mx.profiler.resume()
    mx.profiler.set_state("stop")
    table = mx.profiler.dumps(reset=False)
    record("profile/table", ["dot" in table, "Total Count" in table, "exp" in table])
    as_json = json.loads(mx.profiler.dumps(reset=False, format="json"))
    record("profile/json", sorted(as_json))
    net = mx.gluon.nn.Dense(2, in_units=3, activation="relu")
    net.initialize()
    for is_hybrid in (False, True):
        net.hybridize(is_hybrid)
        mx.profiler.dumps(reset=True)
        mx.profiler.set_state("run")
        with mx.autograd.record():
            loss = nd.concat(net(nd.ones((4, 3))), nd.ones((4, 1)), dim=1)
        loss.backward()
        mx.nd.waitall()
        mx.profiler.set_state("stop")
        counts = {name: row["Count"] for name, row in json.loads(mx.profiler.dumps(format="json"))["Time"]["operator"].items()}
        expected = ["FullyConnected", "Concat", "_backward_FullyConnected", "_backward_Activation"]
        record(f"profile/gradients/{is_hybrid}", [counts.get(name) for name in expected])
    mx.profiler.dump()
    events = json.load(open(path))["traceEvents"]
    names = {e.get("name") for e in events}
    record("profile/events", ["dot" in names, "work" in names, "items" in names or "mine::items" in names])

with tempfile.TemporaryDirectory() as folder:
    path, index = os.path.join(folder, "x.rec"), os.path.join(folder, "x.idx")
    writer = mx.recordio.MXRecordIO(path, "w")
    magic = (0xCED7230A).to_bytes(4, "little")
    records = [b"", b"abc", b"x" * 1001, magic, b"1234" + magic + magic + b"5", b"123" + magic, magic * 3 + b"ab"]
    for item in records:
        writer.write(item)
    writer.close()
    record("recordio/bytes", np.frombuffer(open(path, "rb").read(), dtype="uint8"))
    reader = mx.recordio.MXRecordIO(path, "r")
    read = []
    while True:
        item = reader.read()
        if item is None:
            break
        read.append(item)
    assert read == records, read
    reader.reset()
    assert reader.read() == b""
    writer = mx.recordio.MXIndexedRecordIO(index, path, "w")
    for i in range(5):
        header = mx.recordio.IRHeader(0, [i, i + 0.5] if i % 2 else float(i), i, 0)
        writer.write_idx(i, mx.recordio.pack(header, bytes([i] * i)))
    writer.close()
    reader = mx.recordio.MXIndexedRecordIO(index, path, "r")
    for i in (3, 0, 4):
        header, item = mx.recordio.unpack(reader.read_idx(i))
        record(f"recordio/{i}", [np.sum(header.label), header.id, len(item)])
os.environ["X_TEST"] = "1"
mx.util.setenv("X_TEST", "2")
record("getenv", mx.util.getenv("X_TEST"))

# Bit 2 of the mode stands for imperative operators. The trace is written when the process ends.
program = "import mxnet as mx; (mx.nd.ones((2, 2)) + 1).asnumpy()"
for autostart, mode in (("1", "2"), ("1", "4"), ("0", "2")):
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, MXNET_PROFILER_AUTOSTART=autostart, MXNET_PROFILER_MODE=mode)
        subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=folder, env=env, check=True)
        trace = os.path.join(folder, "profile.json")
        events = json.load(open(trace))["traceEvents"] if os.path.exists(trace) else []
    operators = {event["name"] for event in events if event.get("cat") == "operator"}
    calls = any(event.get("cat") == "MXNET_C_API" for event in events)
    record(f"profiler/{autostart}/{mode}", ["_ones" in operators, "_plus_scalar" in operators, calls, len(events) > 0])

# The same for a program that starts the profiler itself; a trace that it has finished is left as it is.
program = """
import mxnet as mx
mx.profiler.set_config(filename="trace.json", profile_imperative=True)
mx.profiler.set_state("run")
(mx.nd.ones((2, 2)) + 1).asnumpy()
mx.profiler.set_state("stop")
"""
overwrite = "mx.profiler.dump(); open('trace.json', 'w').write('{}')"
for end in ("", "mx.profiler.dump(finished=True)", "mx.profiler.dump(finished=False)", overwrite):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-W", "ignore", "-c", program + end], cwd=folder, env=os.environ, check=True)
        trace = json.load(open(os.path.join(folder, "trace.json")))
    operators = {event["name"] for event in trace.get("traceEvents", []) if event.get("cat") == "operator"}
    record(f"profiler/end/{end}", ["_ones" in operators, "_plus_scalar" in operators])
