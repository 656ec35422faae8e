"""mx.nd: creation, indexing, arithmetic, files, pickles, sparse arrays, views; errors."""

import os
import pickle
import tempfile

import mxnet as mx
import numpy as np
from mxnet import nd

from record import error_of, record

a = nd.arange(24).reshape((2, 3, 4))
record("slice", a[:, 1:, ::2])
record("reverse", a[:, ::-1])
record("newaxis", a[:, None, 1])
record("ellipsis", a[..., -1])
record("fancy", a[nd.array([1, 0], dtype="int32"), :, nd.array([2, 3], dtype="int32")])
record("boolean", (a > 5) * (a < 20))
b = a.copy()
b[0, 1:3] = -1
b[1, :, 2] = nd.array([7, 8, 9])
b[1, nd.array([0, 2], dtype="int32"), 0] = 5
record("assigned", b)
b += 1
b *= 2
b /= 3
b -= a
record("in_place", b)
b[:] = 4
record("filled", b)
view = a[1]
view[0] = 100
record("view", a)
record("reshape", a.reshape((-1, 0), reverse=True))
record("reshape_special", a.reshape((-3, -2)))
record("power", 2 ** nd.array([1, 2, 3]))
record("modulo", nd.array([5, -5, 5.5]) % 3)
record("compare", [(nd.array([1, 2]) == nd.array([1, 3])).asnumpy(), (nd.array([1, 2]) >= 2).asnumpy()])
record("matmul", nd.dot(nd.array([[1, 2], [3, 4]]), nd.array([[5], [6]])))
record("broadcast", nd.ones((3, 1)) + nd.ones((1, 4)))
record("concat", nd.concat(a, a, dim=2))
record("stack", nd.stack(nd.ones(3), nd.zeros(3)))
record("split", nd.split(a, 2, axis=2)[1])
record("topk", nd.topk(nd.array([[3, 1, 2]]), k=2, ret_typ="both")[1])
record("where", nd.where(nd.array([1, 0]), nd.array([1, 2]), nd.array([3, 4])))
record("one_hot", nd.one_hot(nd.array([0, 2]), 3))
record("take", nd.take(a, nd.array([1])))
record("scalar", nd.array([3.5]).asscalar())
record("bool", bool(nd.array([1])))
record("len", len(a))
record("text", str(nd.array([1, 2])))
record("dtype", [nd.array([1], dtype=t).dtype.__name__ for t in ("float64", "float16", "uint8", "int8", "int32", "int64")])
record("astype", a.astype("int32"))
pinned, shared = nd.ones((2, 3), ctx=mx.cpu_pinned()), nd.ones((2, 3), ctx=mx.Context("cpu_shared", 0))
for name, array in (("pinned", pinned), ("shared", shared)):
    sums = [array + nd.ones((2, 3)), nd.ones((2, 3)) + array, array * 2, array.T, array.sum(axis=0)]
    copies = [array.astype("int32"), array.copy(), array[0], array.reshape((3, 2))]
    product = nd.FullyConnected(array, nd.ones((2, 3)), num_hidden=2, no_bias=True)
    record(f"context/{name}", [str(x.context) for x in [*sums, *copies, product]])
    chosen = nd.contrib.boolean_mask(array, nd.ones(2, ctx=array.context))
    sparse = [array.tostype("csr"), array.tostype("row_sparse"), array.tostype("csr").tostype("default"), chosen]
    record(f"context/{name}/sparse", [str(x.context) for x in sparse])
record("context", str(nd.ones(1, ctx=mx.cpu(1)).context))
record("copied", nd.ones(2).as_in_context(mx.cpu(1)).context.device_id)
record("tostype", a.reshape((6, 4)).tostype("csr").indices)
record("maximum", nd.maximum(nd.array([1, 5]), 3))
record("waitall", mx.nd.waitall() is None)
record("iterate", [float(row.sum().asscalar()) for row in a])
record("swapaxes", a.swapaxes(0, 2).shape)
record("expand", a.expand_dims(0).squeeze().shape)
record("linspace", nd.linspace(0, 1, 5))
record("eye", nd.eye(3, k=1))
record("full", nd.full((2,), 7))
for unknown in ((), (0,), (0, 3), (2, 0)):
    filled = [nd._internal._ones(shape=unknown, out=nd.zeros((2, 3))), nd.random.uniform(2, 3, shape=unknown, out=nd.zeros((2, 3))) > 1]
    record(f"unknown shape {unknown}", [x.asnumpy() for x in filled])
    makers = (nd.zeros, nd.ones, lambda shape: nd.random.normal(shape=shape), nd.empty)
    record(f"unknown shape {unknown}/without out", [error_of(lambda m=m: m(unknown)) for m in makers])
integers = nd.zeros((2,), dtype="uint8")
samplers = (nd.random.uniform, nd.random.normal, nd.random.poisson, nd.random.gamma)
record("sampled type", [error_of(lambda f=f: f(out=integers).shape) for f in samplers])
record("sampled type/randint", error_of(lambda: nd.random.randint(0, 3, out=integers).shape))
record("unknown shape randn", nd.random.randn(out=nd.zeros((2, 3))).shape)
record("moments", [x.asnumpy() for x in nd.moments(a, axes=(0, 1))])
record("from_numpy", nd.from_numpy(np.arange(6, dtype="float32")) + 1)
record("size_zero", nd.zeros((3,)).sum())

for dtype in ("float32", "float64", "int32", "uint8"):
    index = [nd.array(x, dtype=dtype) for x in ([1, 0, 2], [0, 1, 1, 3])]
    csr = nd.sparse.csr_matrix((nd.array([1, 2, 3]), *index), shape=(3, 4))
    values = nd.array([[1, 2], [3, 4]], dtype=dtype)
    rows = nd.sparse.row_sparse_array((values, nd.array([0, 3], dtype=dtype)), shape=(5, 2), dtype="float64")
    record(f"indices/{dtype}", [x.dtype.__name__ for x in (csr.indices, csr.indptr, rows.indices, rows)])
    record(f"indices/{dtype}/csr", csr)
    record(f"indices/{dtype}/rows", rows)
beyond = csr[9]
record("no rows", [error_of(call) for call in (beyond.asnumpy, beyond.copy, lambda: beyond * 2)])

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "arrays")
    sparse = nd.sparse.csr_matrix((np.array([1, 2, 3], dtype="float32"), np.array([0, 1, 2]), np.array([0, 1, 3])), shape=(2, 3))
    rows = nd.sparse.row_sparse_array((np.ones((2, 2)), np.array([0, 3])), shape=(5, 2))
    nd.save(path, {"dense": a, "csr": sparse, "rows": rows})
    loaded = nd.load(path)
    for name in sorted(loaded):
        record(f"loaded/{name}", loaded[name])
        record(f"loaded/{name}/stype", loaded[name].stype)
    nd.save(path, [a, nd.ones(1)])
    record("loaded/list", len(nd.load(path)))
    record("loaded/buffer", nd.load_frombuffer(open(path, "rb").read())[1])
record("pickled", pickle.loads(pickle.dumps(a)))
record("pickled/csr", pickle.loads(pickle.dumps(sparse)))

record("csr", sparse)
record("csr/dot", nd.sparse.dot(sparse, nd.ones((3, 2))))
record("csr/slice", sparse[0:1])
record("rows", rows)
record("rows/retain", nd.sparse.retain(rows, nd.array([3])))
record("rows/add", (rows + rows))
record("rows/stype", (rows + rows).stype)
record("zeros/sparse", nd.sparse.zeros("row_sparse", (3, 2)))

kept = nd.sparse.retain(rows, nd.array([1, 3]))
record("rows/retain/indices", kept.indices)
record("rows/retain/data", kept.data)
none = nd.sparse.retain(nd.sparse.zeros("row_sparse", (4, 2)), nd.array([1]))
record("rows/retain/none", none.indices)

shared = a.to_dlpack_for_read()
record("dlpack", nd.from_dlpack(shared))
written = nd.ones((2, 2))
other = nd.from_dlpack(written.to_dlpack_for_write())
other[:] = 5
nd.waitall()
record("dlpack/shared", written)
host = np.arange(6, dtype="float32").reshape(2, 3)
borrowed = nd.from_numpy(host, zero_copy=True)
borrowed *= 1
record("borrowed", borrowed)

for shape in ((5, 1), (4, -1, 5), (2, 2)):
    try:
        nd.ones((2, 3)).reshape(shape)
    except ValueError as e:
        record(f"reshape to {shape}", "Cannot reshape array of size 6 into shape" in str(e))

for name, call in {
    "shapes": lambda: nd.ones((2, 3)) + nd.ones((3, 2)),
    "reshape": lambda: a.reshape((5, 5)),
    "operator": lambda: nd.FullyConnected(a, nd.ones((3, 3)), no_bias=True, num_hidden=3).asnumpy(),
    "parameter": lambda: nd.Activation(a, act_type="nonsense"),
    "device": lambda: nd.ones(1, ctx=mx.gpu(0)),
    "file": lambda: nd.load("/does/not/exist"),
    "index": lambda: a[5],
}.items():
    try:
        call()
    except Exception as e:
        record(f"error/{name}", isinstance(e, (mx.MXNetError, IndexError, ValueError)))
    else:
        raise AssertionError(f"{name} is no error")

# Views of another size: an MXNetError if larger, a ValueError if smaller.
for shape in ((7,), (2, 4), (0, 7), (5,), (2, 2), (-1, 4)):
    record(f"reshape/error {shape}", error_of(lambda shape=shape: nd.ones((2, 3)).reshape(shape)))


def outcome(call):
    """The result of a call, or the class of its error and which of MXNet's texts it has."""
    texts = ("Shape mismatch of this", "IndPtr of csr NDArray should be", "Indices of csr NDArray should be",
             "Indices of row_sparse NDArray should be", "target shape size is larger than the current shape",
             "Cannot reshape array of size 24 into shape")
    try:
        return str(call())
    except Exception as e:
        return " ".join([type(e).__name__] + [text for text in texts if text in str(e)])


cube = nd.arange(24).reshape((2, 3, 4))
for shape in ((5, 5), (25,), (0, 0), (24, 0), (-1, -1), (7, -1), (0, 0, 0, 0), (-5,), (-4, 3, 2, -2), (-4, -1, -1, 3, 4), (1, 24), (-3, -2)):
    record(f"reshape of a cube to {shape}", outcome(lambda: cube.reshape(shape).shape))
    record(f"reshape of a cube to {shape} from the right", outcome(lambda: cube.reshape(shape, reverse=True).shape))

csr_parts = {
    "valid": ([0, 1, 2], [0, 1, 2, 3]),
    "column too large": ([0, 1, 5], [0, 1, 2, 3]),
    "negative column": ([0, 1, -1], [0, 1, 2, 3]),
    "descending columns": ([0, 2, 1], [0, 1, 3, 3]),
    "column twice": ([0, 1, 1], [0, 1, 3, 3]),
    "descending pointers": ([0, 1, 2], [0, 2, 1, 3]),
    "first pointer": ([0, 1, 2], [1, 1, 2, 3]),
    "last pointer": ([0, 1, 2], [0, 1, 2, 2]),
    "too few pointers": ([0, 1, 2], [0, 1, 3]),
}
for full in (True, False):
    for name, (columns, pointers) in csr_parts.items():
        parts = (np.array([1, 2, 3], "float32"), np.array(columns), np.array(pointers))
        record(f"csr {name}, full {full}", outcome(lambda: nd.sparse.csr_matrix(parts, shape=(3, 3)).check_format(full)))
    for rows in ([0, 2], [2, 0], [1, 1], [0, 3], [-1, 0]):
        parts = (np.ones((2, 2), "float32"), np.array(rows))
        record(f"row_sparse {rows}, full {full}", outcome(lambda: nd.sparse.row_sparse_array(parts, shape=(3, 2)).check_format(full)))

# Files of arrays: the shape semantics choose the format.
for numpy_shape in (False, True):
    with mx.util.np_shape(numpy_shape), tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "arrays")
        nd.save(path, {"a": nd.ones((2, 3)), "empty": nd.array(np.zeros((2, 0, 3))), "b": nd.array([1], dtype="int32")})
        record(f"file, numpy shape {numpy_shape}", np.fromfile(path, "uint8"))
