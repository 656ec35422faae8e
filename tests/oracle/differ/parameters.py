"""Values of parameters, drawn from the type strings of the operators' metadata."""

import re

SMALL = (-2, -1, 0, 1, 2, 3, 4)
REALS = ("-1", "0", "0.5", "1", "1.5", "2", "-0.25", "1e-3", "10")
DTYPES = ("float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool")


class Parameter:
    """One parameter, as its type string describes it."""

    def __init__(self, name, type_string):
        self.name = name
        self.type = type_string
        self.required = "required" in type_string
        self.takes_none = "or None" in type_string or "{None" in type_string or "'None'" in type_string
        self.choices = re.findall(r"'([^']*)'", type_string.split("}")[0]) if type_string.startswith("{") else None
        default = re.search(r"default='?([^']*)'?$", type_string)
        self.default = default.group(1) if default else None

    def draw(self, rng, rank, present=None):
        """A text for the parameter, for arrays of about this rank; near `present`, the text in a valid call, if given."""
        if self.takes_none and rng.rand() < 0.15:
            return "None"
        if self.choices:
            return pick(rng, self.choices)
        if self.type.startswith("boolean"):
            return pick(rng, ("True", "False", "1", "0"))
        if self.type.startswith(("int", "long")):
            return self.whole(rng, rank, present)
        if self.type.startswith(("float", "double", "real_t")):
            return pick(rng, REALS + tuple(x for x in (present, self.default) if x))
        if self.type.startswith(("Shape", "tuple")):
            return self.tuple(rng, rank, present)
        if self.name == "dtype":
            return pick(rng, DTYPES)
        if self.name == "ctx":
            return "cpu(0)"
        return present if present is not None else self.default

    def whole(self, rng, rank, present):
        near = [int(x) for x in (present, self.default) if x and re.fullmatch(r"-?\d{1,4}", x)]
        values = [n + d for n in near for d in (-1, 0, 0, 1)]
        values += [-1, 0, rank - 1, rank, -rank] if "axis" in self.name or "dim" in self.name else SMALL
        if "non-negative" in self.type:
            values = [v for v in values if v >= 0] or [0]
        return str(pick(rng, values))

    def tuple(self, rng, rank, present):
        """Each element of the present tuple or a neighbor of it; without one, a short tuple of small numbers."""
        if present and re.search(r"\d", present) and rng.rand() < 0.8:
            return re.sub(r"-?\d+(?![\d.])", lambda m: str(int(m.group()) + pick(rng, (-1, 0, 0, 0, 0, 1))), present)
        lengths = (rank, rank, 1, 2, 3) if rank else (0, 1, 2)
        if "float" in self.type or "double" in self.type:
            return "(%s,)" % ", ".join(pick(rng, REALS) for _ in range(pick(rng, lengths) or 1))
        bounds = (-rank if rng.rand() < 0.3 else 0, rank) if "ax" in self.name else (1, 4)
        numbers = [rng.randint(bounds[0], max(bounds[1], bounds[0] + 1)) for _ in range(pick(rng, lengths))]
        return "(%s)" % "".join("%d, " % n for n in numbers)


def pick(rng, values):
    """One of the values. Unlike `rng.choice` it keeps their Python types."""
    values = list(values)
    return values[rng.randint(len(values))]


class Operator:
    """An operator's name, parameters and inputs, from its metadata."""

    def __init__(self, name, record):
        self.name = name
        self.canonical = record["canonical"]
        self.count = record["count"]
        arrays = [n for n, t in record["arguments"] if t.startswith(("NDArray", "Symbol"))]
        self.variadic = any(t.endswith("[]") for _, t in record["arguments"])
        self.num_inputs = len(arrays)
        self.parameters = [Parameter(n, t) for n, t in record["arguments"] if not t.startswith(("NDArray", "Symbol"))]
