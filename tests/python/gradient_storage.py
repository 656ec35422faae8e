"""Storage types of the outputs and gradients that `simple_bind` allocates, for every operator with sparse forms and all combinations of
its arguments' storage types."""

import itertools

import mxnet as mx

from record import record

STORAGE = ("default", "row_sparse", "csr")
MATRIX = (4, 3)
UNARY = """abs arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees exp expm1 fix floor gamma gammaln log log10 log1p
log2 make_loss negative radians rcbrt reciprocal relu rint round rsqrt sigmoid sign sin sinh softsign sqrt square tan tanh trunc erf
identity BlockGrad zeros_like ones_like Flatten transpose""".split()
BINARY = """elemwise_add elemwise_sub elemwise_mul elemwise_div broadcast_add broadcast_mul _maximum _minimum _scatter_elemwise_div
LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput _hypot""".split()
SCALAR = "_plus_scalar _minus_scalar _mul_scalar _div_scalar _maximum_scalar _power_scalar _scatter_plus_scalar _scatter_minus_scalar".split()
CALLS = (
    [(op, {}, [MATRIX]) for op in sorted(set(UNARY))]
    + [(op, {}, [MATRIX, MATRIX]) for op in BINARY]
    + [(op, {"scalar": 2.0}, [MATRIX]) for op in SCALAR]
    + [("broadcast_" + op, {}, [MATRIX, (1, 3)]) for op in ("add", "sub", "mul", "div")]
    + [("dot", {"forward_stype": s} if s else {}, [MATRIX, (3, 5)]) for s in (None, "default", "csr")]
    + [("dot", {"transpose_a": True, "forward_stype": s} if s else {"transpose_a": True}, [MATRIX, (4, 5)]) for s in (None, "row_sparse")]
    + [("dot", {"transpose_b": True}, [MATRIX, (5, 3)])]
    + [("sum", {"axis": axis}, [MATRIX]) for axis in (0, 1)]
    + [("mean", {"axis": 0}, [MATRIX]), ("norm", {}, [MATRIX]), ("where", {}, [MATRIX] * 3)]
    + [("add_n", {}, [MATRIX] * 3), ("clip", {"a_min": -1, "a_max": 1}, [MATRIX])]
    + [("Embedding", {"input_dim": 4, "output_dim": 3, "sparse_grad": s}, [(2,), MATRIX]) for s in (True, False)]
    + [("FullyConnected", {"num_hidden": 5, "no_bias": True}, [MATRIX, (5, 3)])]
)

for op, attrs, shapes in CALLS:
    choices = [STORAGE if len(shape) == 2 else STORAGE[:1] for shape in shapes]
    for storage in itertools.product(*choices):
        # MXNet does not support csr tables in lookups.
        if op == "Embedding" and storage[1] == "csr":
            continue
        variables = [mx.sym.var(f"x{i}", shape=shape, stype=s) for i, (shape, s) in enumerate(zip(shapes, storage))]
        make = getattr(mx.sym._internal if op.startswith("_") else mx.sym, op)
        executor = make(*variables, **attrs).simple_bind(mx.cpu(), grad_req="write")
        kinds = [array.stype for array in executor.outputs + executor.grad_arrays]
        record(f"{op} {attrs} {shapes} {storage}", " ".join(kinds))
