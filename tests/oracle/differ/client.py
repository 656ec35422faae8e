"""Runs calls in the library that the environment names (`MXNET_LIBRARY_PATH`), through MXNet's own Python client.

As a program it reads pickled requests from stdin and writes pickled answers to stdout. A forked process answers them, so that a
call that ends the process, or takes too long, costs a fork instead of a start.
"""

import functools
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
from worker import Oracle  # noqa: E402

# What gradient arrays with request `write` hold before: zeros, as programs make them. Our library gets a marker.
WRITTEN_TO = int(os.environ.get("DIFFER_WRITTEN_TO", "0"))
SECONDS = 10
MEMORY = 6 << 30
# Results beyond it are compared by shape and type only.
LARGEST_RESULT = 1 << 20


class Client:
    """One library. An answer is a dictionary of lists of arrays, with `error` (stage, kind, message) where the call failed."""

    def __init__(self):
        self.oracle = Oracle()
        self.mx = self.oracle.mx

    def run(self, call):
        answer = {}
        self.mx.random.seed(int(os.environ.get("DIFFER_SEED", "7")))
        try:
            with self.mx.util.np_shape(call.np_shape):
                if isinstance(call, Graph):
                    self.run_graph(call, answer)
                elif call.bound:
                    self.run_bound(call, answer)
                else:
                    self.run_invoked(call, answer)
        except Exception as error:  # whatever the client raises is the answer
            stage = "backward" if "outputs" in answer else "forward"
            answer["error"] = (stage, type(error).__name__, str(error))
        return answer

    def run_invoked(self, call, answer):
        autograd = self.mx.autograd
        arrays = [self.oracle.array(x) for x in call.inputs]
        if call.stypes:
            self.run_sparse(call, arrays, answer)
            return
        if call.requests is None:
            answer["outputs"] = numbers(self.oracle.call(call, arrays, given_outputs(call, arrays)))
            answer["inputs"] = numbers(arrays)
            return
        grads = [self.oracle.array(start(r, x, call.added_to)) for r, x in zip(call.requests, call.inputs)]
        autograd.mark_variables(arrays, grads, call.requests)
        with autograd.record(train_mode=call.train):
            outputs = self.oracle.call(call, arrays)
        answer["outputs"] = numbers(outputs)
        heads = [self.head(o, i) for i, o in enumerate(outputs)]
        autograd.backward(outputs, heads, train_mode=call.train)
        answer["gradients"] = numbers(grads)

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
        self.execute(symbol, arrays, states, grads, requests, call.train, answer)

    def execute(self, symbol, arrays, states, grads, requests, train, answer):
        args = {n: a for n, a in arrays.items() if n not in states}
        aux = {n: arrays[n] for n in states}
        executor = symbol.bind(self.mx.cpu(), args, args_grad=grads, grad_req=requests, aux_states=aux)
        executor.forward(is_train=train)
        answer["outputs"] = numbers(executor.outputs)
        if any(r != "null" for r in requests.values()):
            executor.backward([self.head(o, i) for i, o in enumerate(executor.outputs)], is_train=train)
            answer["gradients"] = numbers(grads[n] for n in requests if n in grads)
        answer["inputs"] = numbers(arrays.values())

    def run_graph(self, graph, answer):
        made = {n: self.mx.sym.var(n) for n in graph.arrays}
        for i, (op, attrs, inputs) in enumerate(graph.nodes):
            compose = loop if op == "foreach" else getattr(self.mx.sym, op)
            if op == "Custom":
                register_operator(self.mx)
            made["n%d" % i] = compose(*[made[n] for n in inputs], name="n%d" % i, **attrs)
        last = len(graph.nodes) - 1
        nodes = [made["n%d" % i] for i in range(last, last - graph.outputs, -1)]
        symbol = self.mx.sym.Group(nodes) if len(nodes) > 1 else nodes[0]
        if graph.way in ("record", "static"):
            self.run_block(graph, symbol, answer)
        else:
            self.run_executor(graph, symbol, answer)

    def run_executor(self, graph, symbol, answer):
        known = {n: x for n, x in graph.arrays.items() if n in symbol.list_inputs()}
        executor = symbol.simple_bind(
            self.mx.cpu(),
            grad_req={n: "null" if n in graph.null else graph.request for n in symbol.list_arguments()},
            type_dict={n: x.dtype for n, x in known.items()},
            **{n: x.shape for n, x in known.items()}
        )
        for n, array in {**executor.arg_dict, **executor.aux_dict}.items():
            array[:] = known[n] if n in known else values(n, array)
        self.run_passes(graph, executor, answer)
        if graph.way == "reshape":
            rows = graph.arrays["x"].shape[0] // 2
            executor = executor.reshape(partial_shaping=True, x=(rows,) + graph.arrays["x"].shape[1:])
            self.run_passes(graph, executor, answer)

    def run_passes(self, graph, executor, answer):
        for array in executor.grad_dict.values():
            if array is not None:
                array[:] = WRITTEN_TO if graph.request == "write" else graph.added_to
        executor.forward(is_train=graph.train)
        answer.setdefault("outputs", []).extend(numbers(executor.outputs))
        for _ in range(graph.passes):
            executor.backward([self.head(o, i) for i, o in enumerate(executor.outputs)])
        answer.setdefault("gradients", []).extend(numbers(a for a in executor.grad_arrays if a is not None))
        answer["inputs"] = numbers(executor.aux_arrays)

    def run_block(self, graph, symbol, answer):
        """A hybridized block whose parameters are the network's other arguments."""
        mx = self.mx
        names = [n for n in symbol.list_inputs() if n in graph.arrays]
        block = mx.gluon.SymbolBlock(symbol, [mx.sym.var(n) for n in names])
        arrays = {n: self.oracle.array(graph.arrays[n]) for n in names}
        for n, array in arrays.items():
            if n not in graph.null and graph.request != "null":
                array.attach_grad(graph.request)
                array.grad[:] = WRITTEN_TO if graph.request == "write" else graph.added_to
        shapes = {n: a.shape for n, a in arrays.items()}
        inferred = symbol.infer_shape(**shapes)
        known = dict(zip(symbol.list_arguments() + symbol.list_auxiliary_states(), inferred[0] + inferred[2]))
        for name, parameter in block.collect_params().items():
            parameter.shape, parameter.dtype = known[name], graph.arrays["x"].dtype
            parameter.initialize()
            parameter.set_data(mx.nd.array(values(name, np.zeros(known[name])), dtype=parameter.dtype))
        static = graph.way == "static"
        block.hybridize(static_alloc=static, static_shape=static)
        with mx.autograd.record(train_mode=graph.train):
            results = block(*arrays.values())
        results = results if isinstance(results, (list, tuple)) else [results]
        answer["outputs"] = numbers(results)
        heads = [self.head(o, i) for i, o in enumerate(results)]
        for turn in range(graph.passes):
            mx.autograd.backward(results, heads, retain_graph=turn + 1 < graph.passes, train_mode=graph.train)
        answer["gradients"] = numbers(a.grad for a in arrays.values() if a.grad is not None)
        answer["inputs"] = numbers(p.data() for _, p in sorted(block.collect_params().items()))

    def head(self, output, index):
        """The head gradient of an output: equal in both libraries, different for every element."""
        rng = np.random.RandomState(zlib.crc32(repr((output.shape, index)).encode()) & 0x7FFFFFFF)
        numbers = rng.randint(-16, 17, output.shape) / 8.0
        # The front end makes no arrays of bfloat16, whose NumPy type is a structure.
        if np.dtype(output.dtype).kind == "V":
            return self.oracle.array(numbers.astype("float32")).astype(output.dtype)
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


def loop(data, state, name):
    """The state is added to each row, and each result is the next state."""
    from mxnet import sym

    def body(row, states):
        out = sym.tanh(row * states[0] + row)
        return out, [out + states[0]]

    rows, last = sym.contrib.foreach(body, data, [state], name=name)
    return sym.broadcast_add(rows, sym.expand_dims(last[0], axis=0), name=name + "_sum")


@functools.lru_cache(maxsize=None)
def register_operator(mx):
    """An operator in Python with a parameter and two inputs."""

    class Operator(mx.operator.CustomOp):
        def __init__(self, scale):
            self.scale = scale

        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * in_data[1] * self.scale)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * in_data[1] * self.scale)
            self.assign(in_grad[1], req[1], out_grad[0] * in_data[0] * self.scale)

    @mx.operator.register("differ")
    class Properties(mx.operator.CustomOpProp):
        def __init__(self, scale):
            super().__init__(need_top_grad=True)
            self.scale = float(scale)

        def list_arguments(self):
            return ["lhs", "rhs"]

        def infer_shape(self, in_shape):
            return [in_shape[0], in_shape[0]], [in_shape[0]], []

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Operator(self.scale)


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


def numbers(arrays):
    """The arrays' contents, or, of very large ones, zeros of no memory."""
    arrays = list(arrays)
    large = [int(np.prod(a.shape)) > LARGEST_RESULT for a in arrays]
    return [np.broadcast_to(np.zeros((), a.dtype), a.shape) if l else a.asnumpy() for a, l in zip(arrays, large)]


def start(request, array, added_to):
    """The initial content of a gradient array."""
    return np.full(array.shape, {"write": WRITTEN_TO, "add": added_to, "null": MARKER}[request], array.dtype)


def values(name, array):
    """Contents for an argument that a network's drawing left to `simple_bind`."""
    rng = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    numbers = rng.randint(-16, 17, array.shape) / 16.0
    return np.abs(numbers) + 0.5 if name.endswith(("gamma", "var")) else numbers


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
