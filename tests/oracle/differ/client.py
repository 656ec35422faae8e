"""Runs calls in the library that the environment names (`MXNET_LIBRARY_PATH`), through MXNet's own Python client.

As a program it reads pickled requests from stdin and writes pickled answers to stdout. A forked process answers them, so that a
call that ends the process, or takes too long, costs a fork instead of a start.
"""

import os
import pathlib
import pickle
import re
import resource
import signal
import struct
import sys
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

os.environ.setdefault("MXNET_ENGINE_TYPE", "NaiveEngine")
os.environ.setdefault("MXNET_MKLDNN_ENABLED", "0")
os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")

from call import Call, Graph  # noqa: E402
from compare import MARKER  # noqa: E402
from graphs import WRITTEN_TO, GraphRunner, numbers  # noqa: E402
from worker import Oracle  # noqa: E402

SECONDS = 10
MEMORY = 6 << 30


class Client:
    """One library. An answer is a dictionary of lists of arrays, with `error` (stage, kind, message) where the call failed."""

    def __init__(self):
        self.oracle = Oracle()
        self.mx = self.oracle.mx

    def run(self, call):
        answer = {}
        self.mx.random.seed(int(os.environ.get("DIFFER_SEED", "7")))
        # A loop that failed in MXNet leaves recording on.
        self.mx.autograd.set_recording(False)
        try:
            with self.mx.util.np_shape(call.np_shape):
                if isinstance(call, Graph):
                    GraphRunner(self, call, answer).run()
                elif call.bound:
                    self.run_bound(call, answer)
                else:
                    self.run_invoked(call, answer)
        except Exception as error:  # any exception is an answer
            stage = "backward" if "outputs" in answer else "forward"
            answer["error"] = (stage, type(error).__name__, str(error))
        return answer

    def run_invoked(self, call, answer):
        arrays = [self.part(x) if call.views else self.oracle.array(x) for x in call.inputs]
        if call.stypes:
            self.run_sparse(call, arrays, answer)
        elif call.requests is None:
            answer["outputs"] = numbers(self.oracle.call(call, arrays, self.outputs(call, arrays)))
            answer["inputs"] = numbers(arrays)
        else:
            self.differentiate(call, arrays, answer)

    def differentiate(self, call, arrays, answer):
        autograd = self.mx.autograd
        grads = [self.oracle.array(start(r, x, call.added_to)) for r, x in zip(call.requests, call.inputs)]
        autograd.mark_variables(arrays, grads, call.requests)
        with autograd.record(train_mode=call.train):
            outputs = self.oracle.call(call, arrays)
            heads = [self.head(o, i) for i, o in enumerate(outputs)]
            if call.second:
                variables = [a for a, r in zip(arrays, call.requests) if r != "null"]
                first = autograd.grad(outputs, variables, heads, create_graph=True, retain_graph=True, train_mode=call.train)
        answer["outputs"] = numbers(outputs)
        if call.second:
            answer["outputs"] += numbers(first)
            outputs, heads = first, [self.head(o, i) for i, o in enumerate(first)]
        for turn in range(call.passes):
            autograd.backward(outputs, heads, retain_graph=turn + 1 < call.passes, train_mode=call.train)
        answer["gradients"] = numbers(grads)

    def part(self, x):
        """The array as a part of a larger one."""
        if not x.ndim or not x.size:
            return self.oracle.array(x)
        rows = np.resize(np.array(MARKER, x.dtype), (len(x) + 2, *x.shape[1:]))
        rows[1:-1] = x
        return self.oracle.array(rows)[1:-1]

    def outputs(self, call, arrays):
        """The arrays that a call is given for its results."""
        if not call.out:
            return given_outputs(call, arrays)
        if call.out == "first":
            return arrays[0]
        made = self.oracle.call(call, [a.copy() for a in arrays])
        like = [np.resize(np.array(MARKER, o.dtype if call.out in ("new", "view") else call.out), o.shape) for o in made]
        return [self.part(x) if call.out == "view" else self.oracle.array(x) for x in like]

    def run_sparse(self, call, arrays, answer):
        arrays = [a.tostype(s) for a, s in zip(arrays, call.stypes)]
        outputs = self.oracle.call(call, arrays, arrays[0] if call.in_place else None)
        answer["outputs"] = numbers(outputs) + [np.array(["default", "row_sparse", "csr"].index(o.stype)) for o in outputs]
        answer["inputs"] = numbers(arrays)

    def run_bound(self, call, answer):
        symbol = self.oracle.symbol(call.op, call.attrs)
        names, states = symbol.list_inputs(), set(symbol.list_auxiliary_states())
        if len(names) != len(call.inputs):
            raise ValueError("%d inputs instead of %d" % (len(call.inputs), len(names)))
        arrays = {n: self.oracle.array(x) for n, x in zip(names, call.inputs)}
        requests = {n: r for n, r in zip(names, call.requests or ["null"] * len(names)) if n not in states}
        grads = {n: self.oracle.array(start(r, arrays[n], call.added_to)) for n, r in requests.items() if r != "null"}
        self.execute(call, symbol, arrays, states, grads, requests, answer)

    def execute(self, call, symbol, arrays, states, grads, requests, answer):
        args = {n: a for n, a in arrays.items() if n not in states}
        aux = {n: arrays[n] for n in states}
        executor = symbol.bind(self.mx.cpu(), args, args_grad=grads, grad_req=requests, aux_states=aux)
        for _ in range(call.passes):
            executor.forward(is_train=call.train)
            answer["outputs"] = numbers(executor.outputs)
            if any(r != "null" for r in requests.values()):
                executor.backward([self.head(o, i) for i, o in enumerate(executor.outputs)], is_train=call.train)
                answer["gradients"] = numbers(grads[n] for n in requests if n in grads)
        answer["inputs"] = numbers(arrays.values())

    def head(self, output, index):
        """The head gradient of an output: equal in both libraries, different for every element."""
        numbers = head_numbers(output.shape, index)
        # The front end cannot create bfloat16 arrays, whose NumPy type is a structure.
        if np.dtype(output.dtype).kind == "V":
            return self.oracle.call(Call("Cast", {"dtype": "bfloat16"}, []), [self.oracle.array(numbers.astype("float32"))])[0]
        return self.oracle.array(numbers.astype(output.dtype))

    def operators(self):
        """Of every operator: its canonical name and its arguments' names and type strings."""
        return {name: self.describe(name) for name in operator_names(self.mx) if not name.startswith("_backward_")}

    def describe(self, name):
        import ctypes

        text, texts = ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)
        creator, canonical = ctypes.c_void_p(), text()
        self.oracle.check(self.oracle.lib.NNGetOpHandle(text(name.encode()), ctypes.byref(creator)))
        self.oracle.check(self.oracle.lib.MXSymbolGetAtomicSymbolName(creator, ctypes.byref(canonical)))
        info = (text(), text(), ctypes.c_uint(), texts(), texts(), texts(), text(), text())
        self.oracle.check(self.oracle.lib.MXSymbolGetAtomicSymbolInfo(creator, *[ctypes.byref(i) for i in info]))
        _, _, count, names, types, _, variadic, _ = info
        arguments = [(names[i].decode(), types[i].decode()) for i in range(count.value)]
        return {"canonical": canonical.value.decode(), "arguments": arguments, "count": (variadic.value or b"").decode()}


def head_numbers(shape, index):
    rng = np.random.RandomState(zlib.crc32(repr((shape, index)).encode()) & 0x7FFFFFFF)
    return rng.randint(-16, 17, shape) / 8.0


def operator_names(mx):
    return mx.operator.get_all_registered_operators()


def given_outputs(call, arrays):
    """Outputs for operators whose output shapes MXNet does not infer, so that every program gives them: arrays like the weights."""
    if call.op.endswith("copyto"):
        return [a.zeros_like() for a in arrays[:1]]
    if not re.search("multi_.*update$", call.op):
        return None
    count = int(call.attrs.get("num_weights", call.attrs.get("num_tensors", 1)))
    shared = 2 if call.op.startswith("preloaded") else int("adamw" in call.op)
    each = (len(arrays) - shared) // max(count, 1)
    return [arrays[i * each].zeros_like() for i in range(count)] if each > 0 else None


def start(request, array, added_to):
    """The initial content of a gradient array."""
    return np.full(array.shape, {"write": WRITTEN_TO, "add": added_to, "null": MARKER}[request], array.dtype)


def answer_requests(client, requests, answers):
    """Answers until there are no more requests, or until a call ends this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        request = read(requests)
        if request is None:
            os._exit(0)
        signal.alarm(SECONDS)
        answer = client.operators() if request == "operators" else client.run(request)
        signal.alarm(0)
        write(answers, answer)


def read(stream):
    size = stream.read(8)
    return pickle.loads(stream.read(struct.unpack("<Q", size)[0])) if len(size) == 8 else None


def write(stream, message):
    data = pickle.dumps(message)
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def main():
    requests, answers = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    client = Client()
    while True:
        child = os.fork()
        if child == 0:
            answer_requests(client, requests, answers)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            return
        timed_out = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        write(answers, {"ended": "takes more than %d s" % SECONDS if timed_out else "ends the process"})


if __name__ == "__main__":
    main()
