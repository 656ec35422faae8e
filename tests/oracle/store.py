"""The golden files: one JSON line per case, and one binary file per family that holds each distinct array once."""

import json

import numpy as np

from cases import attr


class Store:
    """Collects the cases of one family."""

    def __init__(self):
        self.blob = bytearray()
        self.offsets = {}
        self.lines = []
        self.seen = {}

    def array(self, value, name=None):
        """Where an array lies: its type, shape and byte offset, with a name when it has one."""
        value = np.asarray(value)
        raw = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
        at = self.offsets.get(raw)
        if at is None:
            at = self.offsets[raw] = len(self.blob)
            self.blob += raw
        entry = {} if name is None else {"name": name}
        entry.update({"dtype": value.dtype.name, "shape": list(value.shape), "at": at})
        return entry

    def add(self, family, case, record):
        line = {"id": self.identity(family, case), "kind": case.kind}
        getattr(self, "add_" + case.kind)(line, case, record)
        if case.why:
            line["why"] = case.why
        if "error" in record:
            line["error"] = record["error"]
        self.lines.append(json.dumps(line, separators=(",", ":"), sort_keys=False))

    def line(self, kind, name, fields):
        """An expectation that is no case of an operator, for a fixture."""
        record = dict({"id": "%s/%s" % (kind, name), "kind": kind}, **fields)
        self.lines.append(json.dumps(record, separators=(",", ":")))

    def identity(self, family, case):
        """Family, operator and a number that counts the operator's cases, so that ids stay put when others grow."""
        name = getattr(case, "op", None) or case.name
        number = self.seen[name] = self.seen.get(name, 0) + 1
        return "%s/%s/%d" % (family, name, number)

    def add_op(self, line, case, record):
        line["op"] = case.op
        line["attrs"] = {k: attr(v) for k, v in case.attrs.items()}
        names = record.get("names") or ["input%d" % i for i in range(len(case.inputs))]
        line["inputs"] = [self.array(v, n) for n, v in zip(names, case.inputs)]
        if case.train:
            line["train"] = True
        if case.np_shape:
            line["np_shape"] = True
        if case.imperative:
            line["imperative"] = True
        if case.stypes:
            line["stypes"] = list(case.stypes)
            line["out_stypes"] = record.get("out_stypes", [])
        if case.in_place:
            line["in_place"] = True
        if case.grad_stypes:
            line["grad_stypes"] = list(case.grad_stypes)
        if case.grad is not None:
            line["req"] = case.req
            line["wrt"] = names if case.grad == "all" else case.grad
        if case.compare != "data":
            line["compare"] = case.compare
        for key in ("rtol", "atol"):
            if getattr(case, key) is not None:
                line[key] = getattr(case, key)
        if "outputs" in record:
            line["outputs"] = [
                self.output(case, i, v, n)
                for i, (n, v) in enumerate(zip(record["output_names"], record["outputs"]))
            ]
        if "head_grads" in record:
            line["head_grads"] = [self.array(v) for v in record["head_grads"]]
        for key in ("grads_before", "grads", "aux"):
            if record.get(key):
                line[key] = [self.array(v, n) for n, v in record[key]]

    def output(self, case, index, value, name):
        if case.compare == "shape" or (case.compare == "first" and index > 0):
            return {"name": name, "dtype": value.dtype.name, "shape": list(value.shape)}
        return self.array(value, name)

    def add_infer(self, line, case, record):
        line["op"] = case.op
        line["attrs"] = {k: attr(v) for k, v in case.attrs.items()}
        if case.np_shape:
            line["np_shape"] = True
        if case.shapes is not None:
            line["shapes"] = {k: list(v) for k, v in case.shapes.items()}
        if case.types is not None:
            line["types"] = case.types
        for key in ("arg_names", "aux_names", "output_names"):
            if key in record:
                line[key] = record[key]
        if "inferred" in record:
            line["arg"], line["out"], line["aux"] = record["inferred"]

    def add_graph(self, line, case, record):
        line["name"] = case.name
        line["shapes"] = {k: list(v) for k, v in case.shapes.items()}
        line["types"] = case.types
        line.update(record)

    def write(self, stem, check):
        """Writes both files; says whether either changed. With `check`, only says so."""
        changed = False
        text = "".join(l + "\n" for l in self.lines).encode()
        for suffix, content in ((".jsonl", text), (".bin", bytes(self.blob))):
            path = stem.with_suffix(suffix)
            if path.exists() and path.read_bytes() == content:
                continue
            changed = True
            if not check:
                path.write_bytes(content)
        return changed
