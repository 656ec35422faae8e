"""Runs single operators through the C API of the given library, FerroMX's or MXNet's. Reads calls from standard
input, one JSON line each, and answers with milliseconds."""

import ctypes
import json
import resource
import sys
from ctypes import POINTER, byref, c_int, c_size_t, c_uint32, c_void_p

from ferromx import HANDLES, Library, handles, strings
from protocol import measure

CODES = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7}
WRITE = 1
# A call that takes longer runs at smaller sizes only.
MEMORY = 8 << 30


class Call:
    """An operator with its arrays."""

    def __init__(self, library, request):
        self.library, self.op = library, library.operator(request["op"])
        library.MXSetIsNumpyShape(int(request["np_shape"]), byref(c_int()))
        self.inputs = [self.array(**x) for x in request["inputs"]]
        self.operands = handles(self.inputs)
        attrs = request["attrs"]
        self.attrs = len(attrs), strings(attrs), strings(attrs.values())
        self.training = int(request["train"])
        self.differentiated = [self.inputs[i] for i in request["wrt"]]
        self.gradients = [self.array(**request["inputs"][i]) for i in request["wrt"]]

    def array(self, dtype, shape, pattern):
        """An array that repeats the bytes of `pattern`, written in hexadecimal digits."""
        handle, size = c_void_p(), 1
        for d in shape:
            size *= d
        self.library.MXNDArrayCreateEx((c_uint32 * len(shape))(*shape), len(shape), 1, 0, 0, CODES[dtype], byref(handle))
        pattern = bytes.fromhex(pattern)
        if size and pattern:
            whole = size * width(dtype)
            data = (pattern * -(-whole // len(pattern)))[:whole]
            self.library.MXNDArraySyncCopyFromCPU(handle, data, c_size_t(size))
        return handle

    def run(self):
        """The outputs."""
        count, outs, types = c_int(0), HANDLES(), POINTER(c_int)()
        self.library.MXImperativeInvokeEx(
            self.op, len(self.inputs), self.operands, byref(count), byref(outs), *self.attrs, byref(types)
        )
        return [c_void_p(outs[i]) for i in range(count.value)]

    def free(self, arrays):
        for array in arrays:
            self.library.MXNDArrayFree(array)

    def forward(self):
        outs = self.run()
        self.library.MXNDArrayWaitAll()
        self.free(outs)

    def forward_and_backward(self):
        """A training step: forward, recorded, and backward from ones."""
        before = c_int()
        self.library.MXAutogradSetIsRecording(1, byref(before))
        outs = self.run()
        self.library.MXAutogradSetIsRecording(0, byref(before))
        self.library.MXAutogradBackwardEx(len(outs), handles(outs), None, 0, None, 0, 0, 1, None, None)
        self.library.MXNDArrayWaitAll()
        self.free(outs)

    def steps(self):
        self.library.MXAutogradSetIsTraining(self.training, byref(c_int()))
        yield "forward", self.forward
        if self.differentiated:
            n = len(self.differentiated)
            requests = (c_uint32 * n)(*[WRITE] * n)
            self.library.MXAutogradMarkVariables(n, handles(self.differentiated), requests, handles(self.gradients))
            yield "both", self.forward_and_backward

    def close(self):
        self.free(self.inputs)
        self.free(self.gradients)


def width(dtype):
    return {"float64": 8, "int64": 8, "float16": 2, "uint8": 1, "int8": 1, "bool": 1}.get(dtype, 4)


def answer(library, request):
    """The time of each step by name, and the error if there is one."""
    result, call = {}, None
    try:
        call = Call(library, request)
        for name, step in call.steps():
            step()
            result[name] = measure(step, request["seconds"])[request["clock"]]
    except RuntimeError as e:
        result["error"] = str(e).strip().splitlines()[-1][:200]
    finally:
        if call:
            call.close()
    return result


def main(path):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    library = Library(path)
    for line in sys.stdin:
        print(json.dumps(answer(library, json.loads(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
