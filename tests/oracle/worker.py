"""Runs cases in MXNet 1.9.1, in a child process, because some unsupported calls end the process."""

import ctypes
import json
import re
import zlib

import numpy as np

from cases import FLOATS, attr


class Oracle:
    """MXNet, called through its executor, which returns outputs, gradients and changed states."""

    def __init__(self):
        import mxnet as mx

        self.mx = mx
        self.lib = mx.base._LIB
        self.check = mx.base.check_call

    def symbol(self, op, attrs):
        """The operator with a fresh variable for each input."""
        try:
            return self.compose(op, attrs, explicit=False)
        except self.mx.base.MXNetError as error:
            if "Not enough argument" not in str(error):
                raise
            return self.compose(op, attrs, explicit=True)

    def compose(self, op, attrs, explicit):
        """Creates from strings, as the C API takes them, leaving the inputs to MXNet unless `explicit`."""
        from mxnet.base import SymbolHandle, c_str, c_str_array

        creator = ctypes.c_void_p()
        self.check(self.lib.NNGetOpHandle(c_str(op), ctypes.byref(creator)))
        handle = SymbolHandle()
        keys = list(attrs)
        self.check(
            self.lib.NNSymbolCreateAtomicSymbol(
                creator,
                ctypes.c_uint(len(keys)),
                c_str_array(keys),
                c_str_array([attr(attrs[k]) for k in keys]),
                ctypes.byref(handle),
            )
        )
        symbol = self.mx.sym.Symbol(handle)
        inputs = [self.mx.sym.var("op_" + name) for name in self.required_inputs(creator)] if explicit else []
        handles = (SymbolHandle * len(inputs))(*[v.handle for v in inputs])
        self.check(self.lib.NNSymbolCompose(handle, c_str("op"), ctypes.c_uint(len(inputs)), None, handles))
        return symbol

    def required_inputs(self, creator):
        """The array arguments of an operator's metadata, for operators that do not create missing inputs."""
        text = ctypes.c_char_p
        name, doc, count, variadic, result = text(), text(), ctypes.c_uint(), text(), text()
        names, types, docs = (ctypes.POINTER(text)() for _ in range(3))
        parts = (name, doc, count, names, types, docs, variadic, result)
        self.check(self.lib.MXSymbolGetAtomicSymbolInfo(creator, *[ctypes.byref(p) for p in parts]))
        return [names[i].decode() for i in range(count.value) if types[i] == b"NDArray-or-Symbol"]

    def run(self, case):
        """The record of a case: names, results, or the error with the stage at which it came."""
        with self.mx.util.np_shape(getattr(case, "np_shape", False)):
            return getattr(self, "run_" + case.kind)(case)

    def array(self, value):
        array = self.mx.nd.empty(value.shape, self.mx.cpu(), value.dtype)
        if value.size:
            flat = np.ascontiguousarray(value)
            self.check(
                self.lib.MXNDArraySyncCopyFromCPU(
                    array.handle, flat.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(flat.size)
                )
            )
        return array

    def run_op(self, case):
        if case.refuse:
            return {"error": {"stage": "refuse", "message": "MXNet misbehaves"}}
        record = {}
        stage = "create"
        try:
            if case.states is not None:
                stage = "run"
                return self.invoke(case)
            if case.nameless:
                stage = "run"
                record.update(self.invoke_stored(case, []))
                record["output_names"] = ["output%d" % i for i in range(len(record["outputs"]))]
                return record
            symbol = self.symbol(case.op, case.attrs)
            names = symbol.list_inputs()
            record["names"] = [short(n) for n in names]
            record["output_names"] = [short(n) for n in symbol.list_outputs()]
            if len(names) != len(case.inputs):
                return {"skip": "takes %s, case gives %d inputs" % (names, len(case.inputs))}
            stage = "run"
            if case.stypes:
                record.update(self.invoke_stored(case, record["names"]))
            else:
                record.update(self.invoke(case) if case.imperative else self.execute(symbol, names, case))
        except self.mx.base.MXNetError as error:
            record["error"] = failure(stage, error)
        return record

    def invoke(self, case):
        arrays = [self.array(np.asarray(v)) for v in case.inputs]
        out = None if case.like is None else [self.array(np.zeros_like(case.inputs[i])) for i in case.like]
        outputs = self.call(case, arrays, out)
        result = {"outputs": [o.asnumpy() for o in outputs]}
        if case.states is not None:
            result["output_names"] = ["output%d" % i for i in range(len(outputs))]
            result["aux"] = [("input%d" % i, arrays[i].asnumpy()) for i in case.states]
        return result

    def invoke_stored(self, case, names):
        """Calls the operator on arrays of the given storage types, and records it if gradients are wanted."""
        autograd = self.mx.autograd
        arrays = [self.array(np.asarray(v)).tostype(s) for v, s in zip(case.inputs, case.stypes)]
        for name, stype in zip(case.grad or (), case.grad_stypes):
            arrays[names.index(name)].attach_grad(case.req, stype=stype)
        if case.grad:
            with autograd.record(train_mode=case.train):
                outputs = self.call(case, arrays)
        else:
            # MXNet's sparse optimizer updates only work in place.
            outputs = self.call(case, arrays, arrays[0] if case.in_place else None)
        result = {"outputs": [o.asnumpy() for o in outputs], "out_stypes": [o.stype for o in outputs]}
        result["aux"] = [(n, arrays[names.index(n)].asnumpy()) for n in case.changed]
        if case.grad:
            result["head_grads"] = head_gradients(case, result["outputs"])
            autograd.backward(outputs, [self.array(h) for h in result["head_grads"]], train_mode=case.train)
            result["grads"] = [(n, arrays[names.index(n)].grad.asnumpy()) for n in case.grad]
        return result

    def call(self, case, arrays, out=None):
        creator = ctypes.c_void_p()
        self.check(self.lib.NNGetOpHandle(ctypes.c_char_p(case.op.encode()), ctypes.byref(creator)))
        keys = list(case.attrs)
        call = self.mx.ndarray._internal._imperative_invoke
        outputs = call(creator.value, arrays, keys, [attr(case.attrs[k]) for k in keys], out, False, True)
        return outputs if isinstance(outputs, (list, tuple)) else [outputs]

    def execute(self, symbol, names, case):
        aux_names = set(symbol.list_auxiliary_states())
        arrays = {n: self.array(np.asarray(v)) for n, v in zip(names, case.inputs)}
        args = {n: a for n, a in arrays.items() if n not in aux_names}
        aux = {n: a for n, a in arrays.items() if n in aux_names}
        wanted = wanted_gradients(case, list(args))
        grads = {n: self.array(start_of_gradient(case, arrays[n])) for n in wanted}
        requests = {n: case.req if n in wanted else "null" for n in args}
        executor = symbol.bind(self.mx.cpu(), args, args_grad=grads, grad_req=requests, aux_states=aux)
        executor.forward(is_train=case.train)
        result = {"outputs": [o.asnumpy() for o in executor.outputs]}
        if wanted:
            result["head_grads"] = head_gradients(case, result["outputs"])
            if case.req == "add":
                result["grads_before"] = [(short(n), grads[n].asnumpy()) for n in wanted]
            try:
                executor.backward([self.array(h) for h in result["head_grads"]], is_train=case.train)
                result["grads"] = [(short(n), grads[n].asnumpy()) for n in wanted]
            except self.mx.base.MXNetError as error:
                result["error"] = failure("backward", error)
        result["aux"] = [(short(n), aux[n].asnumpy()) for n in symbol.list_auxiliary_states()]
        return result

    def run_infer(self, case):
        record = {}
        try:
            symbol = self.symbol(case.op, case.attrs)
            record["names"] = [short(n) for n in symbol.list_inputs()]
            record["arg_names"] = [short(n) for n in symbol.list_arguments()]
            record["aux_names"] = [short(n) for n in symbol.list_auxiliary_states()]
            record["output_names"] = [short(n) for n in symbol.list_outputs()]
            if case.shapes is not None:
                known = {"op_" + k: v for k, v in case.shapes.items()}
                record["inferred"] = tuples(symbol.infer_shape_partial(**known))
            if case.types is not None:
                known = {"op_" + k: v for k, v in case.types.items()}
                record["inferred"] = type_names(symbol.infer_type_partial(**known))
        except self.mx.base.MXNetError as error:
            record["error"] = failure("infer", error)
        return record

    def run_graph(self, case):
        with self.mx.name.NameManager():
            symbol = case.build(self.mx)
        record = {
            "json": symbol.tojson(),
            "arg_names": symbol.list_arguments(),
            "aux_names": symbol.list_auxiliary_states(),
            "output_names": symbol.list_outputs(),
            "internals": symbol.get_internals().list_outputs(),
            "attr_dict": symbol.attr_dict(),
        }
        try:
            record["inferred"] = tuples(symbol.infer_shape_partial(**case.shapes))
            record["inferred_types"] = type_names(symbol.infer_type_partial(**case.types))
        except self.mx.base.MXNetError as error:
            record["error"] = failure("infer", error)
        reloaded = self.mx.sym.load_json(record["json"])
        assert json.loads(reloaded.tojson()) == json.loads(record["json"]), "saving again changes the network"
        return record


def short(name):
    return name[3:] if name.startswith("op_") else name


# MXNet's messages for a missing kernel, in contrast to an invalid call.
LIMITS = re.compile(
    "Unknown type enum|only support floating point|dot only supports|FP16 gemm|oes not support (float16|boolean type)"
    "|fully connected layer is currently|Unsupported type|could not create|MKLDNN doesn't support|non-differentiable"
    "|(must have specified|Index) type|is not specified|index = -\\d+ must be in range"
    "|Currently 'same' supports|Shape dim size must be known"
    "|AddTo is not supported"
    "|Too many reduction|data type do not match specified|delay_alloc|Shape size mismatch"
    "|Unsupported data type|Only 1D or 2D|Other DTypes are not|Only FP32 is supported|Not implmented"
)


def failure(stage, error):
    """The record of an error. `limit` marks a missing kernel: another engine may return a value."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = next((line for line in lines if "Check failed" in line or "Error" in line), lines[0] if lines else "")
    text = re.sub(r"\[[\d:]+\] \.\./\S+ ", "", text)
    text = re.sub(r"(/[\w.+-]+)+/", "", text)  # folders of the machine that MXNet was built on
    for marker in ("Check failed:", "Error:"):
        if marker in text:
            text = text[text.index(marker) :]
            break
    record = {"stage": stage, "message": text[:300]}
    if LIMITS.search(text):
        record["limit"] = True
    return record


def wanted_gradients(case, names):
    if case.grad is None:
        return []
    if case.grad == "all":
        return names
    return ["op_" + n for n in case.grad]


def start_of_gradient(case, array):
    """The initial content of a gradient array: data for `add`, a marker that `write` must overwrite."""
    fill = 0.5 if case.req == "add" and array.dtype.__name__ in FLOATS else 1
    return np.full(array.shape, fill, array.dtype)


def head_gradients(case, outputs):
    if case.head is not None:
        return [np.asarray(h) for h in case.head]
    heads = []
    for index, out in enumerate(outputs):
        rng = np.random.RandomState(zlib.crc32(repr((out.shape, index)).encode()) & 0x7FFFFFFF)
        heads.append((rng.randint(-16, 17, out.shape) / 8.0).astype(out.dtype))
    return heads


def tuples(parts):
    return [None if p is None else [None if s is None else list(s) for s in p] for p in parts]


def type_names(parts):
    return [None if p is None else [None if t is None else np.dtype(t).name for t in p] for p in parts]
