"""Draws calls: variations of the goldens' cases, which are meaningful calls, and calls made up from the metadata."""

import copy
import json
import pathlib
import re
from collections import defaultdict

import numpy as np

from call import Call
from cases import ALL, FLOATS
from networks import draw_graph
from parameters import Operator, pick

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens"

# Operators that need callbacks or networks as attributes (`networks.py` draws those), or files, and those that only MXNet itself calls,
# such as gradients.
NOT_DRAWN = re.compile(
    "_backward|Custom|_NDArray|_Native|_CachedOp|_CrossDeviceCopy|_NoGradient|_foreach|_while_loop|_cond$|_cvim(read|decode)|_imdecode|_sg_mkldnn"
)
SECOND_ORDER = set((GOLDENS.parent / "second-order.txt").read_text().split())
REQUESTS = ("write", "add", "null")
# Lengths near those of vectors, blocks and chunks.
LENGTHS = (7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 47, 48, 49, 63, 64, 65, 70, 127, 128, 129, 255, 256, 257, 511, 513, 1023, 1024, 1025)
LARGEST_INPUT = 1 << 16
SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e-30)


class Draws:
    """Random calls, each determined by the seed and its number."""

    def __init__(self, seed, operators, only=None):
        self.seed = seed
        self.operators = {n: Operator(n, r) for n, r in operators.items() if not NOT_DRAWN.search(n)}
        self.canonical = {n: o.canonical for n, o in self.operators.items()}
        self.names = sorted(n for n, o in self.operators.items() if only in (None, n, o.canonical))
        self.goldens, self.sparse = golden_calls(self.canonical)
        differentiable = {op for op, calls in self.goldens.items() if any(c.requests for c in calls)}
        self.differentiable = [n for n in self.names if self.canonical[n] in differentiable]

    def call(self, number, gradient):
        rng = np.random.RandomState([self.seed, number, gradient])
        some = gradient and self.differentiable and rng.rand() < 0.97
        operator = self.operators[pick(rng, self.differentiable if some else self.names)]
        known = self.goldens.get(operator.canonical)
        if known and rng.rand() < 0.93:
            call = vary(rng, copy.deepcopy(pick(rng, known)), operator)
        else:
            call = make_up(rng, operator)
        call.op, call.requests = operator.name, None
        call.views = not call.bound and rng.rand() < 0.1
        if gradient and call.inputs:
            differentiate(rng, call, operator.canonical in SECOND_ORDER)
        elif not call.bound and rng.rand() < 0.12:
            call.out = pick(rng, ("new", "view", "first", pick(rng, ALL)))
        return call

    def sparse_call(self, number):
        """A call on arrays of which some are sparse: a variation of a golden."""
        rng = np.random.RandomState([self.seed, number, 3])
        call = copy.deepcopy(pick(rng, self.sparse[pick(rng, sorted(self.sparse))]))
        for _ in range(pick(rng, (0, 1, 1, 2))):
            pick(rng, (change_values, change_length, change_stype, change_parameter, drop_rows))(rng, call, self.operators[call.op])
        return call

    def graph(self, number):
        return draw_graph(np.random.RandomState([self.seed, number, 2]))


def differentiate(rng, call, has_second_order):
    """Requests gradients of most floating-point inputs and of some others; sometimes with several requests or passes, or of second order."""
    request = pick(rng, ("write", "write", "write", "add"))
    mixed = rng.rand() < 0.15
    wanted = [x.dtype.name in FLOATS or rng.rand() < 0.1 for x in call.inputs]
    call.requests = [(pick(rng, REQUESTS) if mixed else request) if w and rng.rand() < 0.9 else "null" for w in wanted]
    if not {"write", "add"} & set(call.requests):
        call.requests[0] = request
    call.added_to = pick(rng, (0, 2))
    call.train = rng.rand() < 0.8
    call.bound = call.bound or rng.rand() < 0.5
    call.passes = pick(rng, (2, 3)) if rng.rand() < 0.1 else 1
    if has_second_order and rng.rand() < 0.3:
        call.bound, call.second, call.train = False, True, True


def golden_calls(canonical):
    """The goldens' calls that MXNet takes, by canonical operator: those on dense arrays, and those on sparse ones."""
    calls, sparse = defaultdict(list), defaultdict(list)
    for path in sorted(GOLDENS.glob("*.jsonl")):
        blob = path.with_suffix(".bin").read_bytes()
        for line in path.read_text().splitlines():
            case = json.loads(line)
            if case["kind"] != "op" or "error" in case or case["op"] not in canonical:
                continue
            inputs = [stored(blob, entry) for entry in case["inputs"]]
            if sum(x.size for x in inputs) > 20000:
                continue
            flags = {k: case.get(k, False) for k in ("train", "np_shape")}
            if "stypes" in case:
                in_place = case.get("in_place", False)
                call = Call(case["op"], case["attrs"], inputs, why=case["id"], stypes=tuple(case["stypes"]), in_place=in_place)
                sparse[case["op"]].append(call)
                continue
            bound = not case.get("imperative", False) and not any(n["name"].startswith("input") for n in case["inputs"])
            requests = ["write"] * len(inputs) if "grads" in case else None
            call = Call(canonical[case["op"]], case["attrs"], inputs, requests, bound=bound, why=case["id"], **flags)
            calls[canonical[case["op"]]].append(call)
    return calls, sparse


def stored(blob, entry):
    dtype, count = np.dtype(entry["dtype"]), int(np.prod(entry["shape"]))
    return np.frombuffer(blob, dtype, count, entry["at"]).reshape(entry["shape"]).copy()


def vary(rng, call, operator):
    """The call with none to three changes."""
    if rng.rand() < 0.7:
        call.bound = False
    for _ in range(pick(rng, (0, 1, 1, 1, 2, 2, 3))):
        CHANGES[rng.choice(len(CHANGES), p=WEIGHTS)](rng, call, operator)
    return call


def change_dtype(rng, call, operator):
    """Another type for all inputs of the most frequent type."""
    if call.inputs:
        names = [x.dtype.name for x in call.inputs]
        old, new = max(names, key=names.count), pick(rng, ALL + 2 * FLOATS)
        call.inputs = [cast(x, new) if x.dtype.name == old else x for x in call.inputs]


def cast(x, dtype):
    with np.errstate(all="ignore"):
        return (np.abs(x) if dtype == "uint8" and x.dtype != bool else x).astype(dtype)


def change_one_dtype(rng, call, operator):
    if call.inputs:
        at = rng.randint(len(call.inputs))
        call.inputs[at] = cast(call.inputs[at], pick(rng, ALL))


def change_length(rng, call, operator):
    """Another length for all axes of one length, and often for the parameters that name it."""
    lengths = sorted({n for x in call.inputs for n in x.shape})
    if not lengths:
        return
    replace_length(rng, call, pick(rng, lengths), pick(rng, (1, 1, 2, 3, 4, 5, 6, 8, 9, 0)))


def change_to_long(rng, call, operator):
    """A length near a threshold for all axes of one length, if the arrays do not become too large."""
    lengths = sorted({n for x in call.inputs for n in x.shape if n})
    if lengths:
        old, new = pick(rng, lengths), pick(rng, LENGTHS)
        if all(x.size * (float(new) / old) ** x.shape.count(old) <= LARGEST_INPUT for x in call.inputs):
            replace_length(rng, call, old, new)


def replace_length(rng, call, old, new):
    if new == 0 and rng.rand() < 0.5:
        call.np_shape = True
    call.inputs = [resized(x, tuple(new if n == old else n for n in x.shape)) for x in call.inputs]
    if old > 1 and rng.rand() < 0.7:
        call.attrs = {k: str(new) if v == str(old) and k != "axis" else v for k, v in call.attrs.items()}


def change_one_length(rng, call, operator):
    """Another length for one axis of one input: often one that is broadcast."""
    arrays = [i for i, x in enumerate(call.inputs) if x.ndim]
    if arrays:
        at = pick(rng, arrays)
        shape = list(call.inputs[at].shape)
        shape[rng.randint(len(shape))] = pick(rng, (1, 1, 2, 4, 0))
        call.inputs[at] = resized(call.inputs[at], shape)


def resized(x, shape):
    return np.resize(x, shape) if x.size else np.ones(shape, x.dtype)


def change_rank(rng, call, operator):
    """One more axis, or one less, for all inputs of the largest rank."""
    rank = max([x.ndim for x in call.inputs], default=0)
    length = pick(rng, (1, 2, 3))
    for at, x in enumerate(call.inputs):
        if x.ndim == rank and rng.rand() < 0.95:
            more = rank < 3 or (rank < (5 if rng.rand() < 0.7 else 7) and length != 2)
            call.inputs[at] = np.stack([x] * length) if more else x[0] if rank > 1 and len(x) else x


def change_values(rng, call, operator):
    """The same values at other positions; fractions are sometimes scaled, too."""
    for at, x in enumerate(call.inputs):
        y = rng.permutation(x.reshape(-1)).reshape(x.shape).astype(x.dtype)
        if x.dtype.kind == "f" and not (y == np.floor(y)).all():
            with np.errstate(all="ignore"):
                y = y * np.array(pick(rng, (1, 1, 0.5, 3, -1)), x.dtype)
        call.inputs[at] = y


def change_stype(rng, call, operator):
    """Another storage type for one input."""
    at = rng.randint(len(call.stypes))
    stypes = ("default", "row_sparse", "csr") if call.inputs[at].ndim == 2 else ("default", "row_sparse")
    if call.inputs[at].ndim:
        call.stypes = call.stypes[:at] + (pick(rng, stypes),) + call.stypes[at + 1 :]


def drop_rows(rng, call, operator):
    """Zeros in some or all rows of one input, so that a sparse array stores fewer."""
    x = call.inputs[rng.randint(len(call.inputs))]
    if x.ndim:
        x[rng.rand(len(x)) < pick(rng, (0.5, 1))] = 0


def put_specials(rng, call, operator):
    """NaN, infinities, zeros and extreme numbers in a floating-point input."""
    arrays = [x for x in call.inputs if x.dtype.kind == "f" and x.size and not (x == np.floor(x)).all()]
    if arrays:
        x = pick(rng, arrays).reshape(-1)
        for _ in range(rng.randint(1, 3)):
            with np.errstate(all="ignore"):
                x[rng.randint(x.size)] = pick(rng, SPECIALS)


def put_extremes(rng, call, operator):
    """The smallest and largest integers of the type."""
    arrays = [x for x in call.inputs if x.dtype.kind in "iu" and x.size]
    if arrays:
        x = pick(rng, arrays).reshape(-1)
        limits = np.iinfo(x.dtype)
        for _ in range(rng.randint(1, 3)):
            x[rng.randint(x.size)] = pick(rng, (limits.min, limits.max, limits.max - 1, limits.max // 2 + 1))


def respell(rng, call, operator):
    """Another spelling of a parameter, mostly with the same meaning."""
    if call.attrs:
        name = pick(rng, sorted(call.attrs))
        call.attrs[name] = spelled(rng, str(call.attrs[name]))


def spelled(rng, text):
    if text in ("True", "False", "1", "0") and rng.rand() < 0.7:
        return pick(rng, ("true", "false", "TRUE", "1", "0", "2", "yes", " True", "t"))
    if text[:1] in "([":
        inner = text[1:-1].rstrip(", ")
        return pick(rng, ("[%s]", "(%s,)", "( %s )", " (%s)", "%s", "(%s", "[%s)", "(%sL)", "{%s}")) % inner
    if re.fullmatch(r"-?\d+", text):
        return pick(rng, ("%s ", " %s", "+%s", "%s.0", "%sL", "0%s", "%se0", "(%s,)", "0x%s", "%s,")) % text
    if re.fullmatch(r"-?\d*\.\d*|-?\d+e-?\d+", text):
        return pick(rng, ("%s ", " %s", "%sf", "+%s", "%s0", "%se0", "nan", "inf", "-inf", "1e39", "1e400", "1e-50")).replace("%s", text)
    return pick(rng, (text + " ", text.upper(), text.capitalize(), "", "None", "none"))


def change_parameter(rng, call, operator):
    if operator.parameters:
        parameter = pick(rng, operator.parameters)
        if parameter.name != operator.count:
            set_parameter(rng, call, parameter, call.attrs.get(parameter.name))


def set_parameter(rng, call, parameter, present):
    text = parameter.draw(rng, max([x.ndim for x in call.inputs], default=2), present)
    if text is not None:
        call.attrs[parameter.name] = text


def drop_parameter(rng, call, operator):
    optional = [p.name for p in operator.parameters if not p.required and p.name in call.attrs and p.name != operator.count]
    if optional:
        del call.attrs[pick(rng, optional)]


def flip_semantics(rng, call, operator):
    call.np_shape = not call.np_shape


def flip_training(rng, call, operator):
    call.train = not call.train


CHANGES, WEIGHTS = zip(
    (change_dtype, 0.15),
    (change_one_dtype, 0.03),
    (change_length, 0.14),
    (change_to_long, 0.06),
    (change_one_length, 0.04),
    (change_rank, 0.06),
    (change_values, 0.14),
    (put_specials, 0.06),
    (put_extremes, 0.03),
    (change_parameter, 0.16),
    (respell, 0.03),
    (drop_parameter, 0.03),
    (flip_semantics, 0.04),
    (flip_training, 0.03),
)


def make_up(rng, operator):
    """A call from the metadata alone."""
    count = rng.randint(1, 4) if operator.variadic else operator.num_inputs
    shape = tuple(pick(rng, (1, 2, 3, 4, 2, 3)) for _ in range(pick(rng, (0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5))))
    dtype = pick(rng, ALL + 3 * FLOATS)
    inputs = []
    for _ in range(count):
        own = tuple(1 if rng.rand() < 0.05 else n for n in shape)
        own = own[1:] if rng.rand() < 0.05 else own
        inputs.append(cast(rng.randint(-32, 33, own) / 16.0, dtype))
    call = Call(operator.name, {}, inputs, np_shape=not shape or rng.rand() < 0.4, why="made up")
    if operator.count:
        call.attrs[operator.count] = str(count)
    for parameter in operator.parameters:
        if parameter.name != operator.count and (parameter.required or rng.rand() < 0.2):
            set_parameter(rng, call, parameter, None)
    return call
