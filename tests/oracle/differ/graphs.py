"""Runs networks: bound, recorded as hybridized blocks, or called operator by operator. Loops and branches are built here."""

import functools
import os
import zlib

import numpy as np

# The previous content of gradient arrays with request `write`: zeros, as in most programs. Our library gets a marker.
WRITTEN_TO = int(os.environ.get("DIFFER_WRITTEN_TO", "0"))
# Larger results are compared by shape and type only.
LARGEST_RESULT = 1 << 20


class GraphRunner:
    """One network in one library. `client` has the library and makes head gradients; results are put into `answer`."""

    def __init__(self, client, graph, answer):
        self.mx, self.oracle, self.head = client.mx, client.oracle, client.head
        self.graph, self.answer = graph, answer

    def run(self):
        if any(op == "Custom" for op, _, _ in self.graph.nodes):
            register_operator(self.mx)
        symbol = self.symbol(CONTROL_FLOW)
        if self.graph.way in ("bind", "reshape"):
            self.run_executor(symbol)
        elif self.graph.way == "record":
            self.run_symbol_block(symbol)
        else:
            self.run_block(symbol)

    def compose(self, F, made, weights, flows):
        """Adds the nodes to `made`, which has the arguments, and returns the outputs. `weights` are the names of further inputs of each
        node, for those that the front end does not create. `flows` makes loops and branches."""
        for i, (op, attrs, inputs) in enumerate(self.graph.nodes):
            name = "n%d" % i
            group = self.graph.groups[i] if i < len(self.graph.groups) else ""
            with self.mx.AttrScope(**({"ctx_group": group} if group else {})):
                owner = F._internal if op.startswith("_") else F
                call = functools.partial(flows[op], F) if op in flows else getattr(owner, op)
                named = {"name": name} if F is self.mx.sym else {}
                made[name] = call(*[made[n] for n in tuple(inputs) + tuple(weights.get(name, ()))], **named, **attrs)
        last = len(self.graph.nodes) - 1
        return [made["n%d" % i] for i in range(last, last - self.graph.outputs, -1)]

    def symbol(self, flows):
        groups = {}
        for group, (_, _, inputs) in zip(self.graph.groups, self.graph.nodes):
            groups.update({n: group for n in inputs if group and n not in groups})
        made = {n: self.mx.sym.var(n, attr={"ctx_group": groups[n]} if n in groups else None) for n in self.graph.arrays}
        outputs = self.compose(self.mx.sym, made, {}, flows)
        return self.mx.sym.Group(outputs) if len(outputs) > 1 else outputs[0]

    def request(self, name):
        return self.graph.requests.get(name, self.graph.request)

    def before(self, name):
        """The previous content of the gradient array of an argument."""
        return WRITTEN_TO if self.request(name) == "write" else self.graph.added_to

    def run_executor(self, symbol):
        known = {n: x for n, x in self.graph.arrays.items() if n in symbol.list_inputs()}
        groups = {g: self.mx.cpu(i) for i, g in enumerate(sorted({g for g in self.graph.groups if g}))}
        requests = {n: self.request(n) for n in symbol.list_arguments()}
        if self.graph.has_branches:
            dtype = self.graph.arrays["x"].dtype
            arrays = {n: self.mx.nd.zeros(s, dtype=dtype) for n, s in self.inferred().items()}
            gradients = {n: arrays[n].zeros_like() for n, r in requests.items() if r != "null"}
            states = {n: arrays.pop(n) for n in symbol.list_auxiliary_states()}
            executor = symbol.bind(self.mx.cpu(), arrays, gradients, requests, states)
        else:
            types, shapes = {n: x.dtype for n, x in known.items()}, {n: x.shape for n, x in known.items()}
            executor = symbol.simple_bind(self.mx.cpu(), grad_req=requests, type_dict=types, group2ctx=groups or None, **shapes)
        for n, array in {**executor.arg_dict, **executor.aux_dict}.items():
            array[:] = known[n] if n in known else values(n, array.shape)
        self.run_passes(executor)
        if self.graph.way == "reshape":
            rows = self.graph.arrays["x"].shape[0] // 2
            executor = executor.reshape(partial_shaping=True, x=(rows,) + self.graph.arrays["x"].shape[1:])
            self.run_passes(executor)

    def run_passes(self, executor):
        gradients = {n: g for n, g in executor.grad_dict.items() if g is not None}
        for name, array in gradients.items():
            array[:] = self.before(name)
        for _ in range(self.graph.forwards):
            executor.forward(is_train=self.graph.train)
        self.answer.setdefault("outputs", []).extend(numbers(executor.outputs))
        for _ in range(self.graph.passes):
            executor.backward([self.head(o, i) for i, o in enumerate(executor.outputs)])
        self.answer.setdefault("gradients", []).extend(numbers(gradients.values()))
        self.answer.setdefault("requests", []).extend(self.request(n) for n in gradients)
        self.answer.setdefault("names", []).extend(gradients)
        self.answer["inputs"] = numbers(executor.aux_arrays)

    def attached(self, arrays, states=()):
        """The arrays by name, with gradients as the network requests them."""
        made = {n: self.oracle.array(x) for n, x in arrays.items()}
        for name, array in made.items():
            if self.request(name) != "null" and name not in states:
                array.attach_grad(self.request(name))
                array.grad[:] = self.before(name)
        return made

    def inferred(self):
        """The shapes of all inputs. MXNet cannot infer those of networks with branches."""
        symbol = self.symbol(STAND_INS)
        given = {n: x.shape for n, x in self.graph.arrays.items() if n in symbol.list_inputs()}
        args, _, states = symbol.infer_shape(**given)
        return dict(zip(symbol.list_arguments() + symbol.list_auxiliary_states(), args + states))

    def run_symbol_block(self, symbol):
        """A hybridized block whose parameters are the network's other arguments."""
        mx = self.mx
        names = [n for n in symbol.list_inputs() if n in self.graph.arrays]
        block = mx.gluon.SymbolBlock(symbol, [mx.sym.var(n) for n in names])
        arrays = self.attached({n: self.graph.arrays[n] for n in names})
        shapes = self.inferred()
        for name, parameter in block.collect_params().items():
            parameter.shape, parameter.dtype = shapes[name], self.graph.arrays["x"].dtype
            parameter.initialize()
            parameter.set_data(mx.nd.array(values(name, shapes[name]), dtype=parameter.dtype))
        block.hybridize(**self.graph.flags)
        self.record(block, arrays)
        self.answer["inputs"] = numbers(p.data() for _, p in sorted(block.collect_params().items()))

    def run_block(self, symbol):
        """A block that computes the network from all its arguments, hybridized or not."""
        graph, runner = self.graph, self
        names = symbol.list_inputs()
        owners = symbol.get_internals()
        weights = {}
        for i, (op, _, inputs) in enumerate(graph.nodes):
            if op not in CONTROL_FLOW:
                node = next(o for o in (owners[k] for k in range(len(owners))) if o.name == "n%d" % i)
                weights["n%d" % i] = [c.name for c in node.get_children()][len(inputs) :]

        class Network(self.mx.gluon.HybridBlock):
            def hybrid_forward(self, F, *arrays):
                return runner.compose(F, dict(zip(names, arrays)), weights, CONTROL_FLOW)

        shapes, dtype = self.inferred(), graph.arrays["x"].dtype
        made = {n: graph.arrays[n] if n in graph.arrays else values(n, shapes[n]).astype(dtype) for n in names}
        block, arrays = Network(), self.attached(made, symbol.list_auxiliary_states())
        if graph.way == "hybrid":
            block.hybridize(**graph.flags)
        self.record(block, arrays)
        self.answer["inputs"] = numbers(arrays.values())

    def record(self, block, arrays):
        graph = self.graph
        for _ in range(graph.forwards):
            with self.mx.autograd.record(train_mode=graph.train):
                results = block(*arrays.values())
        results = results if isinstance(results, (list, tuple)) else [results]
        self.answer["outputs"] = numbers(results)
        heads = [self.head(o, i) for i, o in enumerate(results)]
        for turn in range(graph.passes):
            self.mx.autograd.backward(results, heads, retain_graph=turn + 1 < graph.passes, train_mode=graph.train)
        self.answer["names"] = [n for n, a in arrays.items() if a.grad is not None]
        self.answer["gradients"] = numbers(arrays[n].grad for n in self.answer["names"])
        self.answer["requests"] = [self.request(n) for n in self.answer["names"]]


def foreach(F, data, state, **named):
    """The state is added to each row, and each result is the next state."""

    def body(row, states):
        out = F.tanh(row * states[0] + row)
        return out, [out + states[0]]

    rows, last = F.contrib.foreach(body, data, [state], **named)
    return F.broadcast_add(rows, F.expand_dims(last[0], axis=0))


def while_loop(F, data, state, steps, **named):
    """The data enter each of some steps, which are fewer than allowed; rows that no step writes are cut off."""

    def is_left(step, value):
        return step < steps

    def body(step, value):
        out = F.tanh(value * data) - value
        return out, [step + 1, out + data]

    rows, last = F.contrib.while_loop(is_left, body, [F.zeros((1,)), state], max_iterations=4, **named)
    rows = rows[0] if isinstance(rows, (list, tuple)) else rows
    return F.broadcast_add(F.sum(F.slice_axis(rows, axis=0, begin=0, end=steps), axis=0), last[1])


def branch(F, data, other, **named):
    """The sign of the sum chooses."""
    return F.contrib.cond(F.sum(data) > 0, lambda: data * other, lambda: F.sin(data) - other, **named)


def nested(F, data, state, **named):
    """A loop inside a loop."""

    def inner(row, states):
        out = row * states[0] - row
        return out, [F.tanh(out)]

    def outer(rows, states):
        made, last = F.contrib.foreach(inner, F.stack(rows, rows * 2, axis=0), [states[0]])
        return F.sum(made, axis=0), [last[0] + states[0]]

    rows, last = F.contrib.foreach(outer, data, [state], **named)
    return F.broadcast_add(rows, F.expand_dims(last[0], axis=0))


CONTROL_FLOW = {"foreach": foreach, "while_loop": while_loop, "cond": branch, "nested": nested}
# Functions with the same shapes.
STAND_INS = {
    "foreach": lambda F, data, state, **_: F.broadcast_add(data, F.expand_dims(state, axis=0)),
    "while_loop": lambda F, data, state, **_: data + state,
    "cond": lambda F, data, other, **_: data + other,
    "nested": lambda F, data, state, **_: F.broadcast_add(data, F.expand_dims(state, axis=0)),
}


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
        def __init__(self, scale, **_):
            super().__init__(need_top_grad=True)
            self.scale = float(scale)

        def list_arguments(self):
            return ["lhs", "rhs"]

        def infer_shape(self, in_shape):
            return [in_shape[0], in_shape[0]], [in_shape[0]], []

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Operator(self.scale)


def numbers(arrays):
    """The arrays' contents, or, of very large ones, zeros of no memory."""
    arrays = list(arrays)
    large = [int(np.prod(a.shape)) > LARGEST_RESULT for a in arrays]
    return [np.broadcast_to(np.zeros((), a.dtype), a.shape) if l else a.asnumpy() for a, l in zip(arrays, large)]


def values(name, shape):
    """Contents for an argument that a network's drawing left to `simple_bind`."""
    rng = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    numbers = rng.randint(-16, 17, shape) / 16.0
    return np.abs(numbers) + 0.5 if name.endswith(("gamma", "var")) else numbers
