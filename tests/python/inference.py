"""Shape inference from outputs and other inputs to inputs, of which dimensions are unknown."""

import mxnet as mx

from record import record


def infer(name, symbol, outputs, **known):
    """Adds variables of the given shapes to the outputs, so that these are known, and infers the other shapes."""
    symbol = symbol.as_nd_ndarray() if hasattr(symbol, "as_nd_ndarray") else symbol
    sums = [mx.sym.elemwise_add(symbol[k], mx.sym.var(f"out{k}")) for k in range(len(outputs))]
    known.update({f"out{k}": shape for k, shape in enumerate(outputs) if shape is not None})
    whole = mx.sym.Group(sums) if sums else symbol
    arguments, results, _ = whole.infer_shape_partial(**known)
    record(name, str((list(zip(whole.list_arguments(), arguments)), results)))


a, b = mx.sym.var("a"), mx.sym.var("b")
infer("split", mx.sym.split(a, num_outputs=2, axis=1), [(2, 3), (2, 3)], a=(0, 6))
infer("split/squeezed", mx.sym.split(a, num_outputs=2, axis=0, squeeze_axis=True), [(4, 3), (4, 3)], a=(2, 0, 3))
infer("split_v2", mx.sym.split_v2(a, (1, 3), axis=1), [(2, 1), (2, 2), (2, 1)], a=(0, 4))
infer("retain", mx.sym.sparse.retain(a, b), [(5, 3)], b=(2,))
infer("ravel", mx.sym.ravel_multi_index(a, shape=(7, 6)), [(3,)])
infer("unravel", mx.sym.unravel_index(a, shape=(7, 6)), [(2, 3)])
infer("sample", mx.sym.sample_normal(a, b, shape=(3,)), [(2, 3)])
infer("density", mx.sym.random_pdf_normal(a, b, b), [], a=(2, 3), b=(0,))
infer("copy", mx.sym.contrib.index_copy(a, b, mx.sym.var("c")), [(3, 2)], a=(0, 2), b=(0,), c=(0, 2))
infer("gelqf", mx.sym.linalg.gelqf(a), [(2, 3), (2, 2)])
infer("probabilities", mx.sym.SoftmaxOutput(a, b), [], a=(0, 4), b=(0, 4))

mx.npx.set_np()
a, b = (mx.sym.var(name).as_np_ndarray() for name in "ab")
np = mx.sym.np
infer("dot", np.dot(a, b), [], a=(2, -1), b=(3, 4))
infer("matmul", np.matmul(a, b), [], a=(5, 2, -1), b=(3, 4))
infer("tensordot", np.tensordot(a, b, ((1, 2), (1, 0))), [], a=(2, -1, 4), b=(-1, 3, 2))
infer("tensordot/axes", np.tensordot(a, b, 1), [], a=(2, 3, -1), b=(4, 2))
infer("concatenate", np.concatenate([a, b]), [], a=(2, -1), b=(2, 3))
infer("vstack", np.vstack([a, b]), [], a=(2, -1), b=(2, 3))
infer("reshape", np.reshape(a, (3, -1)), [(3, 2)], a=(-1, 3))
infer("cumsum", np.cumsum(a, 0), [(2, 3)], a=(-1, 3))
infer("eigvalsh", np.linalg.eigvalsh(a), [(2, 3)])
infer("pinv", np.linalg.pinv(a), [(2, 3)], a=(-1, 2))
infer("hsplit", mx.sym.Group([part.as_nd_ndarray() for part in np.hsplit(a, 2)]), [(2, 3), (2, 3)], a=(-1, 6))
infer("random", np.random.normal(a, 1, (2, 3)), [])
