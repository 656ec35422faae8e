"""Arrays and symbols in files: every type and storage, older formats, and damaged ones."""

import json
import multiprocessing
import struct

import numpy as np

import mxnet as mx
from cases import ALL, data

LIST_MAGIC, V1, V2, V3 = 0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA
FLAGS = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7}


def write(folder, store):
    for name, save in sorted(SAVED.items()):
        save(str(folder / (name + ".params")))
    for name, content in sorted(handmade().items()):
        (folder / (name + ".params")).write_bytes(content)
    whole = (folder / "dtypes.params").read_bytes()
    for cut in (0, 7, 20, 30, 60, 200, len(whole) - 1):
        (folder / ("truncated-%d.params" % cut)).write_bytes(whole[:cut])
    for path in sorted(folder.glob("*.params")):
        if not path.name.startswith("lenet"):
            store.line("params", path.stem, dict({"file": path.name}, **safely(read_params, str(path), store)))
    for name, text in sorted(symbols().items()):
        path = folder / (name + "-symbol.json")
        path.write_text(text if isinstance(text, str) else json.dumps(text, indent=2) + "\n")
        store.line("symbol", name, dict({"file": path.name}, **safely(read_symbol, str(path), store)))


def save_dtypes(path):
    arrays = {}
    for index, dtype in enumerate(ALL):
        name = ("aux:" if index % 3 == 2 else "arg:") + dtype
        arrays[name] = mx.nd.array(data((2, 3) if index % 2 else (2, 1, 2), dtype), dtype=dtype)
    mx.nd.save(path, arrays)


def save_empty_arrays(path):
    with mx.util.np_shape(True):
        mx.nd.save(path, {"arg:nothing": mx.nd.zeros((0, 3)), "arg:scalar": mx.nd.full((), 2.5)})


def sparse(path):
    dense = mx.nd.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, 4.5]])
    csr, rows = dense.tostype("csr"), dense.tostype("row_sparse")
    mx.nd.save(path, {"arg:csr": csr, "arg:rows": rows, "arg:dense": dense,
                      "arg:no_rows": mx.nd.sparse.zeros("row_sparse", (3, 2)),
                      "arg:no_elements": mx.nd.sparse.zeros("csr", (2, 3), dtype="float64")})


SAVED = {
    "dtypes": save_dtypes,
    "no-elements": save_empty_arrays,
    "sparse": sparse,
    "unnamed": lambda path: mx.nd.save(path, [mx.nd.array(data((2, 2))), mx.nd.array(data((3,), seed=1))]),
    "no-arrays": lambda path: mx.nd.save(path, []),
    "odd-names": lambda path: mx.nd.save(path, {n: mx.nd.ones((1,)) for n in ("", "arg:größe", "x y")}),
}


def listing(arrays, names, count=None, magic=LIST_MAGIC):
    """A file of arrays that are already encoded."""
    parts = [struct.pack("<QQQ", magic, 0, len(arrays) if count is None else count)] + arrays
    parts.append(struct.pack("<Q", len(names)))
    parts += [struct.pack("<Q", len(n)) + n for n in (name.encode() for name in names)]
    return b"".join(parts)


def encoded(array, version, ndim=None, flag=None, storage=0, device=1, dims=None):
    """One dense array in the format of version 0 (no magic number, 32-bit sizes), 1, 2 or 3."""
    shape = array.shape if dims is None else dims
    ndim = len(shape) if ndim is None else ndim
    flag = FLAGS[array.dtype.name] if flag is None else flag
    if version == 0:
        head = struct.pack("<I", ndim) + struct.pack("<%dI" % len(shape), *shape)
    else:
        head = struct.pack("<I", {1: V1, 2: V2, 3: V3}[version])
        head += struct.pack("<i", storage) if version > 1 else b""
        head += struct.pack("<i", ndim) + struct.pack("<%dq" % len(shape), *shape)
    return head + struct.pack("<iii", device, 0, flag) + array.tobytes()


def handmade():
    square, line = data((2, 2)), data((3,), "float64", seed=1)
    good = encoded(square, 2)
    made = {"version-%d" % v: listing([encoded(square, v), encoded(line, v)], ["arg:square", "aux:line"])
            for v in range(4)}
    made.update({
        "from-gpu": listing([encoded(square, 2, device=2)], ["arg:square"]),
        "bad-list-magic": listing([good], ["a"], magic=0x113),
        "bad-array-magic": listing([struct.pack("<I", 0xF993FACF) + good[4:]], ["a"]),
        "bad-storage": listing([encoded(square, 2, storage=9)], ["a"]),
        "bad-type": listing([encoded(square, 2, flag=99)], ["a"]),
        "bad-count": listing([good], ["a"], count=2),
        "huge-count": listing([good], ["a"], count=1 << 60),
        "huge-rank": listing([encoded(square, 2, ndim=1 << 30)], ["a"]),
        "negative-rank": listing([encoded(square, 2, ndim=-5)], ["a"]),
        "huge-shape": listing([encoded(square, 2, dims=(1 << 40, 1 << 40))], ["a"]),
        "negative-shape": listing([encoded(square, 2, dims=(-2, -2))], ["a"]),
        "shape-beyond-data": listing([encoded(square, 2, dims=(200, 200))], ["a"]),
        "fewer-names": listing([good, good], ["a"]),
        "huge-name": listing([good], [])[:-8] + struct.pack("<QQ", 1, 1 << 50) + b"a",
        "trailing-bytes": listing([good], ["a"]) + b"tail",
    })
    return made


# Files with which MXNet crashes, allocates all memory, or continues with an invalid graph.
REFUSE = {"huge-count", "huge-rank", "negative-rank", "huge-shape", "negative-shape", "huge-name", "empty-symbol",
          "input-of-itself-symbol", "output-beyond-outputs-symbol", "too-many-inputs-symbol"}


def safely(read, path, store):
    """Runs `read` in a child process, because a damaged file may crash it."""
    name = path.rsplit("/", 1)[1].rsplit(".", 1)[0]
    refused = {"error": {"stage": "refuse", "message": "MXNet misbehaves"}}
    if name in REFUSE:
        return refused
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=reply, args=(read, path, theirs))
    child.start()
    theirs.close()
    try:
        answer = ours.recv()
    except EOFError:
        print("ends the process:", path)
        answer = refused
    child.join()
    for entry in answer.get("arrays", []):
        for part in ("data", "indices", "indptr"):
            if part in entry:
                entry[part] = store.array(entry[part])
    return answer


def reply(read, path, pipe):
    from worker import failure

    try:
        pipe.send(read(path))
    except mx.base.MXNetError as error:
        record = failure("load", error)
        record.pop("limit", None)
        record["message"] = record["message"].replace(path, path.rsplit("/", 1)[1])
        pipe.send({"error": record})


def read_params(path):
    with mx.util.np_shape("no-elements" in path or "version-3" in path):
        loaded = mx.nd.load(path)
        pairs = loaded.items() if isinstance(loaded, dict) else [(None, a) for a in loaded]
        return {"arrays": [stored(name, array) for name, array in pairs]}


def stored(name, array):
    entry = {"name": name, "storage": array.stype, "dtype": np.dtype(array.dtype).name, "shape": list(array.shape)}
    if array.stype == "default":
        entry["data"] = array.asnumpy()
        return entry
    entry["data"] = array.data.asnumpy()
    entry["indices"] = array.indices.asnumpy()
    if array.stype == "csr":
        entry["indptr"] = array.indptr.asnumpy()
    return entry


def read_symbol(path):
    symbol = mx.sym.load(path)
    return {
        "arg_names": symbol.list_arguments(),
        "aux_names": symbol.list_auxiliary_states(),
        "output_names": symbol.list_outputs(),
        "attr_dict": symbol.attr_dict(),
        "json": symbol.tojson(),
    }


def variable(name, **more):
    return dict({"op": "null", "name": name, "inputs": []}, **more)


def graph(nodes, heads, attrs=None, pairs=False):
    """A network in JSON; `pairs` for the references of two numbers that early versions wrote."""
    cut = (lambda refs: [r[:2] for r in refs]) if pairs else (lambda refs: refs)
    for node in nodes:
        node["inputs"] = cut(node["inputs"])
    result = {"nodes": nodes, "arg_nodes": [i for i, n in enumerate(nodes) if n["op"] == "null"], "heads": cut(heads)}
    if attrs:
        result["attrs"] = attrs
    return result


def dense(nodes, name, source, key, values, **more):
    """Appends a FullyConnected layer whose parameters have the key `key`, which depends on the version."""
    base = len(nodes)
    nodes += [variable(name + "_weight"), variable(name + "_bias"),
              dict({"op": "FullyConnected", "name": name, key: values,
                    "inputs": [[source, 0, 0], [base, 0, 0], [base + 1, 0, 0]]}, **more)]
    return base + 2


def old_network(key, version, pairs, **more):
    nodes = [variable("data")]
    last = dense(nodes, "fc1", 0, key, {"num_hidden": "4", "no_bias": "False"}, **more)
    last = dense(nodes, "fc2", last, key, {"num_hidden": "2"}, **more)
    nodes.append(variable("softmax_label"))
    nodes.append({"op": "SoftmaxOutput", "name": "softmax", key: {"grad_scale": "1"},
                  "inputs": [[last, 0, 0], [last + 1, 0, 0]]})
    attrs = {"mxnet_version": ["int", version]} if version else None
    return graph(nodes, [[len(nodes) - 1, 0, 0]], attrs, pairs)


def symbols():
    hidden = [variable("data", attr={"lr_mult": "0.5", "ctx_group": "a"})]
    dense(hidden, "fc", 0, "param", {"num_hidden": "4"}, backward_source_id=-1,
          attr={"weight_lr_mult": "2", "bias_wd_mult": "0", "ctx_group": "b", "force_mirroring": "True"})
    norm = [variable("data"), variable("bn_gamma"), variable("bn_beta"),
            {"op": "BatchNorm", "name": "bn", "param": {"eps": "0.001", "fix_gamma": "False"},
             "inputs": [[0, 0], [1, 0], [2, 0]], "backward_source_id": -1}]
    most = [variable("data"), {"op": "argmax", "name": "most", "attr": {"axis": "-1"}, "inputs": [[0, 0, 0]]}]
    good = old_network("attrs", 10901, False)
    return {
        "before-0.9": old_network("param", None, True, backward_source_id=-1),
        "version-0.9": old_network("attr", 903, False),
        "version-1.0": old_network("attrs", 10000, False),
        "version-unknown": old_network("attrs", 20000, False),
        "hidden-keys": graph(hidden, [[3, 0]], pairs=True),
        "missing-states": graph(norm, [[3, 0]], pairs=True),
        "old-argmax": graph(most, [[1, 0, 0]], {"mxnet_version": ["int", 903]}),
        "truncated": json.dumps(good)[:200],
        "empty": "",
        "not-json": "<xml/>",
        "no-nodes": {"arg_nodes": [], "heads": []},
        "no-heads": dict(good, heads=[]),
        "unknown-operator": changed(good, 3, op="FullyDisconnected"),
        "bad-parameter": changed(good, 3, attrs={"num_hidden": "four"}),
        "missing-parameter": changed(good, 3, attrs={}),
        "input-beyond-nodes": changed(good, 3, inputs=[[0, 0, 0], [1, 0, 0], [99, 0, 0]]),
        "input-of-itself": changed(good, 3, inputs=[[3, 0, 0], [1, 0, 0], [2, 0, 0]]),
        "negative-input": changed(good, 3, inputs=[[-1, 0, 0], [1, 0, 0], [2, 0, 0]]),
        "output-beyond-outputs": changed(good, 6, inputs=[[3, 7, 0], [4, 0, 0], [5, 0, 0]]),
        "too-many-inputs": changed(good, 3, inputs=[[0, 0, 0]] * 5),
        "head-beyond-nodes": dict(good, heads=[[99, 0, 0]]),
        "inputs-are-text": changed(good, 3, inputs="none"),
        "name-missing": changed(good, 3, name=None),
    }


def changed(network, index, **changes):
    """A copy with one node changed; a field set to None goes."""
    copy = json.loads(json.dumps(network))
    copy["nodes"][index].update(changes)
    copy["nodes"][index] = {k: v for k, v in copy["nodes"][index].items() if v is not None}
    return copy
