"""The loop of a worker process: reads the names of workloads from standard input and answers with times, one JSON line each."""

import json
import sys
import time

from workloads import WORKLOADS


def measure(step, seconds):
    """Milliseconds per call, of the clock and of the processors, over enough calls to fill the time."""
    calls, spent = 0, 0.0
    start, cpu = time.perf_counter(), time.process_time()
    while spent < seconds:
        step()
        calls += 1
        spent = time.perf_counter() - start
    return dict(wall=spent * 1e3 / calls, cpu=(time.process_time() - cpu) * 1e3 / calls)


def serve(prepare):
    """`prepare(workload)` returns a function for each variant, which returns when its results can be read. An empty dictionary
    means that the library does not support the workload."""
    workloads = {w.name: w for w in WORKLOADS}
    ready = (None, {})
    for line in sys.stdin:
        request = json.loads(line)
        if ready[0] != request["name"]:
            ready = (request["name"], prepare(workloads[request["name"]]))
            for step in ready[1].values():
                measure(step, request["seconds"])
        answer = {variant: measure(step, request["seconds"]) for variant, step in ready[1].items()}
        print(json.dumps(answer), flush=True)
