"""Time and bytes of a step of a distributed key-value store on one machine, against the bandwidth of its loopback device.

    MXNET_LIBRARY_PATH=target/release/libmxnet.so PYTHON tests/bench/distributed.py [MEGABYTES]

PYTHON has the package mxnet 1.9.1. Each number is the median of several steps. Processes share the processors of the machine, so that the
time of four workers on two processors is mostly that of computing. The last table is a model of other networks: see docs/distributed.md.
"""

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


def on_workers(size, megabytes):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(os.environ, DMLC_NUM_WORKER=str(size), DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=str(port), OMP_NUM_THREADS="1")
    workers = [
        subprocess.Popen([sys.executable, "-W", "ignore", __file__, "worker", str(megabytes)], stdout=subprocess.PIPE,
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
        found[size] = on_workers(size, megabytes)
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
    work(float(sys.argv[2])) if sys.argv[1:2] == ["worker"] else main()
