"""Results by definition, computed with NumPy in double precision, of operators that MXNet computes wrongly in some cases."""

import ast

import numpy as np

from call import with_previous
from client import head_numbers

FUNCTIONS = {}


def of(op):
    """The function that computes the right answer to a call of an operator, or None."""
    return FUNCTIONS.get(op)


def reference(*ops):
    def register(function):
        FUNCTIONS.update((op, function) for op in ops)
        return function

    return register


def parameter(call, name, default=None):
    """A parameter as Python reads its text."""
    text = str(call.attrs.get(name, default)).strip()
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def axes(call, rank, name="axis"):
    """The axes of a reduction."""
    axis = parameter(call, name)
    found = range(rank) if axis in (None, ()) else [axis] if isinstance(axis, int) else axis
    found = [a % rank for a in found] if rank else []
    return tuple(a for a in range(rank) if a not in found) if parameter(call, "exclude") in (True, 1) else tuple(found)


def wide(x):
    return x.astype("float64")


def reduction(function):
    def compute(call, actual):
        x = wide(call.inputs[0])
        return {"outputs": [function(x, axes(call, x.ndim), parameter(call, "keepdims") in (True, 1))]}

    return compute


FUNCTIONS["sum"] = FUNCTIONS["_np_sum"] = reduction(lambda x, axis, keep: x.sum(axis, keepdims=keep))
FUNCTIONS["mean"] = reduction(lambda x, axis, keep: x.mean(axis, keepdims=keep))
FUNCTIONS["nansum"] = reduction(lambda x, axis, keep: np.nansum(x, axis, keepdims=keep))


@reference("prod", "nanprod", "_np_prod")
def prod(call, actual):
    """The gradient of a factor is the product of the others, of whole numbers modulo the range of their type."""
    x = call.inputs[0]
    if call.op == "nanprod" and x.dtype.kind == "f":
        x = np.where(np.isnan(x), 1, x)
    x = x.astype(object if x.dtype.kind in "iub" and parameter(call, "dtype") in (None, "None") else "float64")
    axis = axes(call, x.ndim)
    products = x.prod(axis, keepdims=True)
    outputs = [np.asarray(products, "float64")]
    if not call.requests:
        return {"outputs": outputs}
    made = actual["outputs"][0]
    heads = head_numbers(made.shape, 0).astype(made.dtype).reshape(products.shape)
    # A head gradient of another type is truncated to the type of the array.
    heads = heads.astype(call.inputs[0].dtype).astype(x.dtype)
    gradient = np.empty(x.shape, x.dtype)
    for at in np.ndindex(x.shape):
        row = tuple(slice(None) if a in axis else slice(i, i + 1) for a, i in enumerate(at))
        others = x[row].copy()
        others[tuple(i if a in axis else 0 for a, i in enumerate(at))] = 1
        head = heads[tuple(0 if a in axis else i for a, i in enumerate(at))]
        gradient[at] = wrapped(others.prod() * head, call.inputs[0].dtype) if x.dtype == object else others.prod() * head
    return {"outputs": outputs, "gradients": with_previous(call, [gradient.astype("float64")], {})}


def wrapped(number, dtype):
    """A whole number modulo the range of a type."""
    bits = 8 * dtype.itemsize
    number %= 1 << bits
    return number - (1 << bits) if dtype.kind == "i" and number >> (bits - 1) else number


@reference("norm")
def norm(call, actual):
    order = parameter(call, "ord", 2)
    root = np.abs if order == 1 else np.square
    sums = reduction(lambda x, axis, keep: root(x).sum(axis, keepdims=keep))(call, actual)["outputs"][0]
    return {"outputs": [sums if order == 1 else np.sqrt(sums)]}


@reference("_npi_average")
def average(call, actual):
    if parameter(call, "returned") in (True, 1):
        return None
    axis = parameter(call, "axis")
    return {"outputs": [np.average(wide(call.inputs[0]), axis, wide(call.inputs[1]) if len(call.inputs) > 1 else None)]}


@reference("moments")
def moments(call, actual):
    x = wide(call.inputs[0])
    axis, keep = axes(call, x.ndim, "axes"), parameter(call, "keepdims") in (True, 1)
    return {"outputs": [x.mean(axis, keepdims=keep), x.var(axis, keepdims=keep)]}


@reference("_npi_std", "_npi_var")
def spread(call, actual):
    x = wide(call.inputs[0])
    function = np.std if "std" in call.op else np.var
    keep = parameter(call, "keepdims") in (True, 1)
    return {"outputs": [function(x, axes(call, x.ndim), ddof=parameter(call, "ddof", 0), keepdims=keep)]}


@reference("square")
def square(call, actual):
    return {"outputs": [call.inputs[0] * call.inputs[0]]}


@reference("ceil", "floor", "rint", "round", "trunc", "fix", "_npi_ceil", "_npi_floor", "_npi_rint", "_npi_trunc", "_npi_fix")
def whole(call, actual):
    return {"outputs": [call.inputs[0]]} if call.inputs[0].dtype.kind in "iu" else None


@reference("_mod_scalar", "_npi_mod_scalar", "_rmod_scalar", "_npi_rmod_scalar")
def remainder(call, actual):
    """The remainder of whole numbers, exactly; 0 for a division by 0."""
    scalar = float(parameter(call, "scalar", 1))
    if call.inputs[0].dtype.kind not in "iu" or not scalar.is_integer():
        return None
    pairs = [(int(x), int(scalar)) for x in call.inputs[0].reshape(-1)]
    found = [x % y if y else 0 for x, y in (reversed(p) if "_rmod" in call.op else p for p in pairs)]
    return {"outputs": [np.array(found, call.inputs[0].dtype).reshape(call.inputs[0].shape)]}


@reference("sigmoid")
def sigmoid(call, actual):
    return {"outputs": [1 / (1 + np.exp(-wide(call.inputs[0])))]}


@reference("all_finite")
def all_finite(call, actual):
    return {"outputs": [np.array([np.isfinite(call.inputs[0]).all()], "float32")]}


@reference("_npi_around")
def around(call, actual):
    return {"outputs": [np.around(wide(call.inputs[0]), parameter(call, "decimals", 0))]}


@reference(*("_npi_%s_scalar" % name for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")))
def compare(call, actual):
    function = getattr(np, call.op[len("_npi_") : -len("_scalar")])
    return {"outputs": [function(wide(call.inputs[0]), float(parameter(call, "scalar", 1)))]}


@reference("sort")
def sort(call, actual):
    x = call.inputs[0]
    axis = parameter(call, "axis", -1)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    indices = order(call, x, axis)
    right = {"outputs": [np.take_along_axis(x, indices, axis)]}
    if call.requests:
        made, gradient = actual["outputs"][0], np.zeros(x.shape)
        heads = head_numbers(made.shape, 0).astype(made.dtype).astype("float64").reshape(x.shape)
        np.put_along_axis(gradient, indices, heads, axis)
        right["gradients"] = with_previous(call, [gradient.reshape(call.inputs[0].shape)], {})
    return right


@reference("argsort")
def argsort(call, actual):
    x = call.inputs[0]
    axis = parameter(call, "axis", -1)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return {"outputs": [order(call, x, axis)]}


def order(call, x, axis):
    """The stable order of elements, where NaN is larger than every number."""
    if parameter(call, "is_ascend", True) in (True, 1):
        return np.argsort(x, axis, kind="stable")
    flipped = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(flipped, axis)


@reference("_contrib_allclose")
def allclose(call, actual):
    rtol, atol = (float(parameter(call, name, value)) for name, value in (("rtol", 1e-5), ("atol", 1e-8)))
    is_close = np.allclose(*call.inputs, rtol, atol, parameter(call, "equal_nan") in (True, 1))
    return {"outputs": [np.array([is_close], "float32")]}


@reference("mp_lamb_update_phase2")
def mp_lamb_update_phase2(call, actual):
    weight, g, r1, r2, weight32 = (wide(x) for x in call.inputs)
    lower, upper = (float(parameter(call, name, -1)) for name in ("lower_bound", "upper_bound"))
    r1 = max(r1.item(), lower) if lower >= 0 else r1.item()
    r1 = min(r1, upper) if upper >= 0 else r1
    ratio = 1.0 if r1 == 0 or r2.item() == 0 else r1 / r2.item()
    updated = weight32 - float(parameter(call, "lr")) * ratio * g
    return {"outputs": [updated], "inputs": [None, None, None, None, updated]}


@reference("_contrib_quantized_fully_connected")
def quantized_fully_connected(call, actual):
    if parameter(call, "no_bias") not in (True, 1):
        return None
    data, weight = (x.astype("int64") for x in call.inputs[:2])
    data = data.reshape(len(data), -1) if parameter(call, "flatten", True) in (True, 1) else data
    return {"outputs": [data @ weight.T, None, None]}


@reference("_contrib_quantized_elemwise_add")
def quantized_elemwise_add(call, actual):
    """The sum for a calibrated range."""
    if {"min_calib_range", "max_calib_range"} - set(call.attrs):
        return None
    lhs, rhs, *ranges = (wide(x) for x in call.inputs)
    bounds = [float(parameter(call, name)) for name in ("min_calib_range", "max_calib_range")]

    def scale(dtype, *bounds):
        return max(abs(b) for b in bounds) / np.iinfo(dtype).max

    scales = [scale(x.dtype, *(r.item() for r in ranges[i : i + 2])) for x, i in zip(call.inputs[:2], (0, 2))]
    largest = np.iinfo(actual["outputs"][0].dtype)
    total = (lhs * scales[0] + rhs * scales[1]) / scale(actual["outputs"][0].dtype, *bounds)
    return {"outputs": [np.clip(total, largest.min, largest.max), None, None]}


@reference("_npi_pinv", "_npi_pinv_scalar_rcond")
def pinv(call, actual):
    matrix, found = wide(call.inputs[0]), wide(actual["outputs"][0])
    # Rounding errors of an ill-conditioned matrix are large along the directions that the matrix itself almost removes.
    if (np.linalg.cond(matrix) < 1e9).all() and np.allclose(matrix @ found @ matrix, matrix, rtol=1e-2, atol=1e-2):
        return {"outputs": actual["outputs"]}
    rcond = wide(call.inputs[1]) if len(call.inputs) > 1 else float(parameter(call, "rcond", 1e-15))
    precision = np.finfo(actual["outputs"][0].dtype).eps
    rcond = np.maximum(rcond, precision)
    hermitian = parameter(call, "hermitian") in (True, 1)
    # Rounding errors decide whether a singular value near the limit counts. They are amplified by the condition number of what is left.
    for factor in (1, 0.1, 10):
        right = np.linalg.pinv(matrix, rcond * factor, hermitian=hermitian)
        size = np.linalg.norm(right, 2, (-2, -1))
        bound = 10 * precision * size * np.linalg.norm(matrix, 2, (-2, -1))
        if (bound > 0.5).any():
            return None
        if (np.linalg.norm(found - right, 2, (-2, -1)) <= bound * size).all():
            return {"outputs": actual["outputs"]}
    return {"outputs": [np.linalg.pinv(matrix, rcond, hermitian=hermitian)]}


def are_factors(op, matrix, found):
    """Whether the results of a decomposition are one."""
    found = [wide(x) for x in found]

    def adjoint(x):
        return np.swapaxes(x, -1, -2)

    if op == "_npi_svd":
        product = (found[0] * found[1][..., None, :]) @ found[2]
    elif op == "_npi_eigh":
        product = (found[1] * found[0][..., None, :]) @ adjoint(found[1])
        matrix = np.tril(matrix) + adjoint(np.tril(matrix, -1))
    elif op == "_linalg_syevd":
        product = adjoint(found[0]) @ (found[1][..., None] * found[0])
        matrix = np.tril(matrix) + adjoint(np.tril(matrix, -1))
    elif op == "_linalg_gelqf":
        product = found[1] @ found[0]
    elif op == "_npi_eig":
        matrix, product = wide(matrix) @ found[1], found[1] * found[0][..., None, :]
    elif "eigvals" in op:
        right = np.linalg.eigvalsh(matrix) if "valsh" in op else np.linalg.eigvals(matrix).real
        matrix, product = np.sort(right), np.sort(found[0])
    else:
        return False
    orthogonal = {"_npi_svd": (0, 2), "_npi_eigh": (1,), "_linalg_syevd": (0,), "_linalg_gelqf": (0,)}.get(op, ())
    if not all(is_orthogonal(found[i]) for i in orthogonal):
        return False
    return bool(np.allclose(product, matrix, rtol=1e-3, atol=1e-3))


def is_orthogonal(x):
    """Whether the rows or the columns of each matrix are orthogonal and of length 1, whichever are fewer."""
    x = x if x.shape[-2] <= x.shape[-1] else np.swapaxes(x, -1, -2)
    return bool(np.allclose(x @ np.swapaxes(x, -1, -2), np.eye(x.shape[-2]), atol=1e-3))
