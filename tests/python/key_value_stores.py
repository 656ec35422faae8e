"""Key-value stores: all combinations of stored, pushed and pulled storage types, updaters, keys, several devices."""

import mxnet as mx
import numpy as np

from record import record

STORAGE = ("default", "row_sparse", "csr")


def value(storage, seed, context=None):
    numbers = np.random.RandomState(seed).randint(-5, 6, (4, 3)).astype("float32")
    if storage == "row_sparse":
        numbers[1] = 0
    if storage == "csr":
        numbers[numbers < 0] = 0
    array = mx.nd.array(numbers, ctx=context)
    return array if storage == "default" else array.tostype(storage)


def empty(storage, context=None):
    shape = (4, 3)
    if storage == "default":
        return mx.nd.ones(shape, ctx=context) * 77
    return mx.nd.sparse.zeros(storage, shape, ctx=context)


def attempt(name, action):
    """Records the content of an array after an action, or the type of its error."""
    try:
        result = action()
        if result is not None:
            result.wait_to_read()
            record(f"{name}/{result.stype}", result)
    except Exception as error:
        record(f"{name}/error", type(error).__name__)


def pulled(store, key, out, **options):
    store.pull(key, out=out, **options)
    return out


def rows(store, key, out):
    store.row_sparse_pull(key, out=out, row_ids=mx.nd.array([3, 0, 3]))
    return out


for kind in ("local", "device"):
    for mode in ("none", "momentum", "function"):
        store, seen = mx.kv.create(kind), []
        store.init(7, mx.nd.ones(3))
        if mode == "momentum":
            store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.9))
        if mode == "function":

            def update(key, gradient, weight, seen=seen):
                seen.append(key)
                weight[:] = weight + gradient.as_in_context(weight.context)

            store._set_updater(update)
        devices = [mx.cpu(i) for i in (1, 2, 3)]
        for turn in range(3):
            store.push(7, [mx.nd.ones(3, ctx=d) * (i + 1) for i, d in enumerate(devices)])
            outs = [mx.nd.zeros(3, ctx=d) for d in devices]
            store.pull(7, out=outs)
            for out in outs:
                record(f"{kind}/{mode}/{turn}/{out.context}", out)
        record(f"{kind}/{mode}/keys", seen)

store = mx.kv.create("local")
store.init([1, 2], [mx.nd.ones(2), mx.nd.ones(3)])
attempt("keys/mixed", lambda: store.init("a", mx.nd.ones(2)))
attempt("keys/repeated", lambda: store.init(1, mx.nd.ones(2)))
store.push([1, 2], [[mx.nd.ones(2)] * 3, [mx.nd.ones(3)] * 2])
attempt("keys/lists", lambda: pulled(store, 2, mx.nd.zeros(3)))
store.push(1, [mx.nd.ones(2), mx.nd.ones(2, dtype="float64")])
attempt("types/pushed", lambda: pulled(store, 1, mx.nd.zeros(2)))
attempt("types/pulled", lambda: pulled(store, 1, mx.nd.zeros(2, dtype="float16")))
attempt("keys/unknown", lambda: pulled(store, 9, mx.nd.ones(2)))
attempt("shape/pulled", lambda: pulled(store, 1, mx.nd.zeros(3)))
attempt("shape/pushed", lambda: store.push(1, [mx.nd.ones(2), mx.nd.ones(3)]))

for kind in ("local", "device"):
    for stored in STORAGE:
        for pushed in STORAGE:
            for updated in (False, True):
                # MXNet's stores cannot sum csr arrays, and its SGD requires row_sparse weights without empty rows.
                if updated and stored != "default":
                    continue
                for count in (1, 2):
                    name = f"{kind}/{stored}/{pushed}/{updated}/{count}"
                    store = mx.kv.create(kind)
                    if updated:
                        store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
                    store.init("w", value(stored, 1))
                    values = [value(pushed, 2 + i) for i in range(count)]
                    attempt(f"{name}/push", lambda s=store, v=values: s.push("w", v))
                    for out in STORAGE:
                        for ignored in (True, False):
                            key = f"{name}/pull {out} {ignored}"
                            attempt(key, lambda s=store, o=out, i=ignored: pulled(s, "w", empty(o), ignore_sparse=i))
                        attempt(f"{name}/rows {out}", lambda s=store, o=out: rows(s, "w", empty(o)))

for kind in ("zz", "localx", "p3"):
    store = mx.kv.create(kind)
    record(f"{kind}/type", store.type)
    store.init(3, mx.nd.ones(2))
    store.push(3, [mx.nd.ones(2) * 2] * 2)
    pulled = mx.nd.zeros(2)
    store.pull(3, out=pulled)
    record(f"{kind}/pulled", pulled)
