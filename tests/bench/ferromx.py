"""A client of FerroMX's C API: symbols, arrays, executors, and calls of single operators. Needs nothing but Python."""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint32, c_void_p

HANDLES = POINTER(c_void_p)
GRADIENT_REQUEST = b"write"


class Library:
    """The loaded library. A call that fails raises with the library's message."""

    def __init__(self, path):
        self.native = ctypes.CDLL(path)
        self.native.MXGetLastError.restype = c_char_p

    def __getattr__(self, name):
        function = getattr(self.native, name)

        def checked(*arguments):
            if function(*arguments) != 0:
                raise RuntimeError(f"{name}: {self.native.MXGetLastError().decode()}")

        setattr(self, name, checked)
        return checked

    def operator(self, name):
        handle = c_void_p()
        self.NNGetOpHandle(name.encode(), byref(handle))
        return handle

    def variable(self, name):
        handle = c_void_p()
        self.MXSymbolCreateVariable(name.encode(), byref(handle))
        return handle

    def apply(self, op, name, inputs, **attrs):
        """A symbol of an operator on symbols; missing parameters become variables."""
        handle = c_void_p()
        self.MXSymbolCreateAtomicSymbol(self.operator(op), len(attrs), strings(attrs), strings(attrs.values()), byref(handle))
        self.MXSymbolCompose(handle, name.encode(), len(inputs), None, handles(inputs))
        return handle

    def array(self, shape, values=None):
        """An array of 32-bit floats."""
        handle = c_void_p()
        self.MXNDArrayCreate((c_uint32 * len(shape))(*shape), len(shape), 1, 0, 0, byref(handle))
        if values is not None:
            self.write(handle, values)
        return handle

    def write(self, handle, values):
        """Copies an `array` of 32-bit floats to an array with the same number of elements."""
        self.MXNDArraySyncCopyFromCPU(handle, (c_float * len(values)).from_buffer(values), c_size_t(len(values)))

    def invoke(self, op, inputs, output, attrs):
        """A function without arguments that runs an operator on arrays, into `output`. Its C arguments are created once."""
        op, inputs, count = self.operator(op), handles(inputs), len(inputs)
        keys, values = strings(attrs), strings(attrs.values())
        targets, number, types = handles([output]), c_int(1), POINTER(c_int)()
        pointer = ctypes.cast(targets, HANDLES)
        arguments = (op, count, inputs, byref(number), byref(pointer), len(attrs), keys, values, byref(types))

        def run(keep=targets):
            self.MXImperativeInvokeEx(*arguments)

        return run


class Executor:
    """A symbol bound to new arrays for training, or for inference only. `fixed` are the arguments without gradients."""

    def __init__(self, library, symbol, shapes, training, fixed=()):
        self.library, self.handle = library, c_void_p()
        names = self.names(library.MXSymbolListArguments, symbol)
        dims = [d for shape in shapes.values() for d in shape]
        ends = [0]
        for shape in shapes.values():
            ends.append(ends[-1] + len(shape))
        trained = [name for name in names if training and name not in fixed]
        no_buffer, num_args, num_aux = c_int(-1), c_uint32(), c_uint32()
        args, grads, aux = HANDLES(), HANDLES(), HANDLES()
        buffer_names, buffers = POINTER(c_char_p)(), HANDLES()
        library.MXExecutorSimpleBind(
            symbol, 1, 0, 0, None, None, None, len(names), strings(names),
            strings(GRADIENT_REQUEST if name in trained else b"null" for name in names),
            len(shapes), strings(shapes), (c_uint32 * len(dims))(*dims), (c_uint32 * len(ends))(*ends),
            0, None, None, 0, None, None, 0, None,
            byref(no_buffer), None, None, byref(buffer_names), byref(buffers),
            byref(num_args), byref(args), byref(grads), byref(num_aux), byref(aux), None, byref(self.handle),
        )  # fmt: skip
        self.args = {name: c_void_p(args[i]) for i, name in enumerate(names)}
        self.grads = {name: c_void_p(grads[i]) for i, name in enumerate(names) if grads[i]}
        states = self.names(library.MXSymbolListAuxiliaryStates, symbol)
        self.aux = {name: c_void_p(aux[i]) for i, name in enumerate(states)}

    @staticmethod
    def names(function, symbol):
        count, items = c_uint32(), POINTER(c_char_p)()
        function(symbol, byref(count), byref(items))
        return [items[i].decode() for i in range(count.value)]

    def forward(self, training):
        self.library.MXExecutorForward(self.handle, int(training))

    def backward(self, head_gradients=()):
        self.library.MXExecutorBackward(self.handle, len(head_gradients), handles(head_gradients) if head_gradients else None)

    def outputs(self):
        """New handles, which the caller frees."""
        count, items = c_uint32(), HANDLES()
        self.library.MXExecutorOutputs(self.handle, byref(count), byref(items))
        return [c_void_p(items[i]) for i in range(count.value)]

    def free(self):
        for array in [*self.args.values(), *self.grads.values(), *self.aux.values()]:
            self.library.MXNDArrayFree(array)
        self.library.MXExecutorFree(self.handle)

    def fill(self, values):
        """Writes `values(count)` into every argument."""
        for array in self.args.values():
            self.library.write(array, values(self.size(array)))

    def shape(self, array):
        rank, dims = c_uint32(), POINTER(c_uint32)()
        self.library.MXNDArrayGetShape(array, byref(rank), byref(dims))
        return tuple(dims[i] for i in range(rank.value))

    def size(self, array):
        count = 1
        for d in self.shape(array):
            count *= d
        return count


def strings(items):
    """Converts values to C strings."""
    items = [item if isinstance(item, bytes) else str(item).encode() for item in items]
    return (c_char_p * len(items))(*items) if items else None


def handles(items):
    return (c_void_p * len(items))(*(item.value for item in items)) if items else None
