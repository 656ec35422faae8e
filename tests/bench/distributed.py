"""Time and bytes of a step of a distributed key-value store on one machine, against the bandwidth of its loopback device.

    MXNET_LIBRARY_PATH=target/release/libmxnet.so PYTHON tests/bench/distributed.py [MEGABYTES]
    MXNET_LIBRARY_PATH=target/release/libmxnet.so PYTHON tests/bench/distributed.py overlap [GIGABITS...]

PYTHON has the package mxnet 1.9.1. Each number is the median of several steps. Processes share the processors of the machine, so that the
time of four workers on two processors is mostly that of computing. The last table is a model of other networks: see docs/distributed.md.

`overlap` measures a training step of two workers that push gradients after the backward pass, and during it. Each worker sends at most
GIGABITS per second if given: the processes then run in a network namespace whose loopback device has a limited rate (Linux, as root).
"""

import ctypes
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time

STEPS = 9
KEYS = 32


def median(action, times=STEPS):
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def loopback(total=512 << 20, size=4 << 20):
    """Bytes per second of one TCP connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def receive():
        connection, _ = listener.accept()
        buffer, left = bytearray(size), total
        while left:
            left -= connection.recv_into(buffer, min(left, size))
        connection.sendall(b"x")

    thread = threading.Thread(target=receive)
    thread.start()
    sender, block = socket.create_connection(listener.getsockname()), bytes(size)
    begin = time.perf_counter()
    for _ in range(total // size):
        sender.sendall(block)
    sender.recv(1)
    seconds = time.perf_counter() - begin
    thread.join()
    return total / seconds


def work(megabytes):
    import mxnet as mx

    store = mx.kv.create("dist_sync")
    values = [mx.nd.ones((int(megabytes * 1e6 / 4 / KEYS),)) for _ in range(KEYS)]
    for key, value in enumerate(values):
        store.init(key, value)
    small = mx.nd.ones(64)
    store.init(KEYS, small)

    def step():
        for key, value in enumerate(values):
            store.push(key, value)
        for key, value in enumerate(values):
            store.pull(key, out=value)
        values[-1].wait_to_read()

    def small_step():
        store.push(KEYS, small)
        store.pull(KEYS, out=small)

    step()
    found = {"rank": store.rank, "step": median(step), "small": median(small_step, 200), "barrier": median(store._barrier, 200)}
    store._barrier()
    if store.rank == 0:
        print(json.dumps(found), flush=True)


LAYERS, WIDTH, BATCH = 6, 1024, 256


def train():
    """Times of training steps with pushes after and during the backward pass, alternately."""
    import mxnet as mx
    import numpy as np

    x = mx.sym.var("data")
    for layer in range(LAYERS):
        x = mx.sym.relu(mx.sym.FullyConnected(x, num_hidden=WIDTH, name=f"layer{layer}"))
    x = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=10, name="scores"), name="softmax")
    executor = x.simple_bind(mx.cpu(), data=(BATCH, WIDTH))
    store = mx.kv.create("dist_sync")
    random = np.random.RandomState(store.rank)
    for name, array in executor.arg_dict.items():
        array[:] = random.uniform(-0.05, 0.05, array.shape)
    executor.arg_dict["softmax_label"][:] = 0
    names = [name for name in executor.arg_dict if name.endswith(("weight", "bias"))]
    gradients = [executor.grad_dict[name] for name in names]
    for name, gradient in zip(names, gradients):
        store.init(name, gradient)
    keys = (ctypes.c_char_p * len(names))(*(name.encode() for name in names))
    handles = (ctypes.c_void_p * len(names))(*(gradient.handle for gradient in gradients))

    def push_after():
        executor.backward()
        for name, gradient in zip(names, gradients):
            store.push(name, gradient)

    def push_during():
        mx.base.check_call(mx.base._LIB.FerroExecutorBackwardPush(
            executor.handle, 0, None, 1, store.handle, len(names), keys, handles))

    def step(push):
        begin = time.perf_counter()
        executor.forward(is_train=True)
        push()
        pushed = time.perf_counter()
        for name, gradient in zip(names, gradients):
            store.pull(name, out=gradient)
        return time.perf_counter() - begin, time.perf_counter() - pushed, [gradient.asnumpy() for gradient in gradients]

    times = {push_after: [], push_during: []}
    sums = {}
    for _ in range(STEPS + 1):
        for push in times:
            store._barrier()
            *taken, sums[push] = step(push)
            times[push].append(taken)
    for after, during in zip(sums[push_after], sums[push_during]):
        assert after.tobytes() == during.tobytes(), "the sums differ"

    def compute():
        executor.forward(is_train=True)
        executor.backward()

    found = {"bytes": sum(gradient.size * 4 for gradient in gradients), "compute": median(compute)}
    for push, taken in times.items():
        step_times, pull_times = zip(*taken[1:])
        found[push.__name__] = [statistics.median(step_times), statistics.median(pull_times)]
    store._barrier()
    if store.rank == 0:
        print(json.dumps(found), flush=True)


def overlap(rates):
    print("| Gbit/s of each worker | MB of gradients | ms of both passes | ms per step, pushed after | during | ms of pulls, pushed after | during |")
    print("|---|---|---|---|---|---|---|")
    for rate in rates:
        if rate is None:
            found = on_workers(2, "train")
        else:
            # Both workers send through the same device.
            limit = f"ip link set lo up && tc qdisc add dev lo root tbf rate {2 * float(rate)}gbit burst 512kb latency 100ms"
            command = ["unshare", "-n", "sh", "-c", f'{limit} && exec "$0" "$@"', sys.executable, "-W", "ignore", __file__, "workers"]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        after, during = found["push_after"], found["push_during"]
        print(f"| {rate or 'not limited'} | {found['bytes'] / 1e6:.0f} | {found['compute'] * 1e3:.0f} | {after[0] * 1e3:.0f} "
              f"| {during[0] * 1e3:.0f} | {after[1] * 1e3:.0f} | {during[1] * 1e3:.0f} |", flush=True)


def on_workers(size, *arguments):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(os.environ, DMLC_NUM_WORKER=str(size), DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=str(port), OMP_NUM_THREADS="1")
    workers = [
        subprocess.Popen([sys.executable, "-W", "ignore", __file__, *arguments], stdout=subprocess.PIPE,
                         env=dict(environment, DMLC_WORKER_ID=str(rank)))
        for rank in range(size)
    ]
    outputs = [worker.communicate(timeout=600)[0] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    return json.loads(outputs[0])


def main():
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 100.0
    bandwidth = loopback()
    print(f"loopback, one connection: {bandwidth / 1e9:.2f} GB/s")
    print("| workers | MB of gradients | MB sent by each | ms per step | MB/s sent by each | ms for 256 bytes | ms for a barrier |")
    print("|---|---|---|---|---|---|---|")
    found = {}
    for size in (1, 2, 4):
        found[size] = on_workers(size, "work", str(megabytes))
        sent = 2 * (size - 1) / size * megabytes
        step = found[size]["step"]
        print(f"| {size} | {megabytes:.0f} | {sent:.0f} | {step * 1e3:.1f} | {sent / step:.0f} "
              f"| {found[size]['small'] * 1e3:.2f} | {found[size]['barrier'] * 1e3:.2f} |")
    # A single worker only copies and adds. The additional time of two workers on two cores is spent on messages.
    own = found[1]["step"] / megabytes
    message = max(0.0, found[2]["step"] - found[1]["step"]) / megabytes
    print(f"\nper MB of gradients: {own * 1e3:.2f} ms of copies, {message * 1e3:.2f} ms of messages on loopback")
    print("\n| workers | network | ms of transfer | ms of copies and messages | ms per step without overlap |\n|---|---|---|---|---|")
    for size in (4, 16, 64):
        for gigabits in (10, 25):
            transfer = 2 * (size - 1) / size * megabytes * 8 / gigabits
            computing = (own + message * 2 * (size - 1) / size) * megabytes * 1e3
            latency = found[2]["barrier"] * 1e3 * 2
            print(f"| {size} | {gigabits} Gbit/s | {transfer:.0f} | {computing:.0f} | {max(transfer, computing) + latency:.0f} to {transfer + computing + latency:.0f} |")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["work", megabytes]:
            work(float(megabytes))
        case ["train"]:
            train()
        case ["workers"]:
            print(json.dumps(on_workers(2, "train")))
        case ["overlap", *rates]:
            overlap([None, *rates])
        case _:
            main()
