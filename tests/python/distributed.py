"""Distributed key-value stores: training on n processes gives the same results as training on one process with n times the batch size.

MXNet itself needs a scheduler and servers for this, so that its library trains the large batch only. With this library, the same
results come from two and from four processes, which are started like the workers of MXNet's launcher.
"""

import os
import socket
import subprocess
import sys

import mxnet as mx
import numpy as np

from record import record

BATCH = 32
STEPS = 6


def data():
    random = np.random.RandomState(5)
    return random.uniform(-1, 1, (STEPS * BATCH, 6)).astype("float32"), random.randint(0, 3, STEPS * BATCH).astype("float32")


def network():
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=16, name="one"), act_type="tanh")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=3, name="two"), name="softmax")


def weights(shapes, rank):
    """First weights. Only those of rank 0 count."""
    random = np.random.RandomState(11)
    return [mx.nd.array(random.uniform(-0.4, 0.4, shape) * (1 + rank)) for shape in shapes]


def shard(array, rank, size):
    """The part of each batch that a worker trains."""
    part = BATCH // size
    return array.reshape((STEPS, BATCH) + array.shape[1:])[:, rank * part : (rank + 1) * part].reshape((-1,) + array.shape[1:])


def train_module(rank, size, store):
    inputs, labels = data()
    batches = mx.io.NDArrayIter(shard(inputs, rank, size), shard(labels, rank, size), BATCH // size)
    names = ("one_weight", "one_bias", "two_weight", "two_bias")
    first = dict(zip(names, weights(((16, 6), (16,), (3, 16), (3,)), rank)))
    module = mx.mod.Module(network())
    module.fit(batches, num_epoch=2, kvstore=store, optimizer="sgd", arg_params=first,
               optimizer_params={"learning_rate": 0.3, "momentum": 0.9, "wd": 0.01})
    return {name: array.asnumpy() for name, array in module.get_params()[0].items()}


def train_gluon(rank, size, store):
    inputs, labels = data()
    inputs, labels = shard(inputs, rank, size), shard(labels, rank, size)
    net = mx.gluon.nn.Sequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(8, activation="relu", in_units=6), mx.gluon.nn.Dense(3, in_units=8))
    net.initialize()
    # The trainer takes the weights of rank 0 at its first step, after the first gradients: they are equal from the start.
    for parameter, value in zip(net.collect_params().values(), weights(((8, 6), (8,), (3, 8), (3,)), 0)):
        parameter.set_data(value)
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02}, kvstore=store)
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    part = BATCH // size
    for step in range(STEPS):
        rows = slice(step * part, (step + 1) * part)
        with mx.autograd.record():
            value = loss(net(mx.nd.array(inputs[rows])), mx.nd.array(labels[rows]))
        value.backward()
        trainer.step(BATCH)
    return {name: parameter.data().asnumpy() for name, parameter in net.collect_params().items()}


def store_calls(rank, size, store):
    """The sum of a worker's own pushes."""
    store.init("w", mx.nd.ones((2, 3)))
    store.push("w", [mx.nd.ones((2, 3)) * (rank + 1), mx.nd.ones((2, 3)) * 10])
    out = mx.nd.zeros((2, 3))
    store.pull("w", out=out)
    assert (out.asnumpy() == size * (size + 1) / 2 + 10 * size).all(), out
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    store.push("w", mx.nd.ones((2, 3)))
    after = mx.nd.zeros((2, 3))
    store.pull("w", out=after)
    assert np.allclose(after.asnumpy(), out.asnumpy() - 0.5 * size), after
    store._barrier()


def results(rank, size, kind):
    found = {}
    for name, train in (("module", train_module), ("gluon", train_gluon)):
        for key, value in train(rank, size, kind).items():
            found[f"{name}/{key}"] = value
    return found


def work(path):
    store = mx.kv.create("dist_sync")
    rank, size = store.rank, store.num_workers
    assert store.type == "dist_sync" and size == int(os.environ["DMLC_NUM_WORKER"])
    store_calls(rank, size, store)
    np.savez(f"{path}.{rank}.npz", **results(rank, size, "dist_sync"))


def on_workers(size, ranks_are_given):
    """Starts workers, and the scheduler and server of a launcher; the results of each rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"ferromx-distributed-{os.getpid()}-{size}")
    common = dict(os.environ, DMLC_NUM_WORKER=str(size), DMLC_NUM_SERVER="1", DMLC_PS_ROOT_URI="127.0.0.1",
                  DMLC_PS_ROOT_PORT=str(port), FERROMX_JOB_TIMEOUT="60", RECORD_TO="")
    roles = ["worker"] * size + ([] if ranks_are_given else ["scheduler", "server"])
    processes = []
    for number, role in enumerate(roles):
        own = dict(common, DMLC_ROLE=role)
        if ranks_are_given:
            own["DMLC_WORKER_ID"] = str(number)
        processes.append(subprocess.Popen([sys.executable, "-W", "ignore", __file__, path], env=own))
    assert [process.wait(timeout=240) for process in processes] == [0] * len(roles)
    found = []
    for rank in range(size):
        with np.load(f"{path}.{rank}.npz") as results_of_rank:
            found.append(dict(results_of_rank))
        os.remove(f"{path}.{rank}.npz")
    return found


def main():
    alone = results(0, 1, "local")
    for name, value in alone.items():
        record(name, value, within=1e-5)
    if "MXNET_LIBRARY_PATH" not in os.environ:
        return
    for size, ranks_are_given in ((2, True), (4, False)):
        ranks = on_workers(size, ranks_are_given)
        for name, value in alone.items():
            for found in ranks:
                assert found[name].tobytes() == ranks[0][name].tobytes(), f"{name} differs between {size} ranks"
            assert np.allclose(ranks[0][name], value, rtol=1e-4, atol=1e-5), f"{name} of {size} workers: {ranks[0][name]} {value}"


if __name__ == "__main__":
    work(sys.argv[1]) if len(sys.argv) > 1 else main()
