"""One step of SGD, SGD with momentum, and Adam; the changed states are recorded with the new weight."""

from cases import ALL, OpCase, data

COMMON = ({"wd": "0.125"}, {"rescale_grad": "0.25"}, {"clip_gradient": "0.5"}, {"clip_gradient": 0},
          {"wd": "0.125", "rescale_grad": "0.25", "clip_gradient": "0.5"}, {"lazy_update": False})


def cases():
    yield from update("sgd_update", 0, ())
    yield from update("sgd_mom_update", 1, ({"momentum": "0.9"}, {"momentum": "0.9", "wd": "0.125"}))
    yield from update("adam_update", 2, ({"beta1": "0.5", "beta2": "0.75"}, {"epsilon": "1e-2"},
                                         {"beta1": 0, "beta2": 0}))
    yield from mixed_precision()


def arrays(states, dtype="float32", shape=(2, 3)):
    more = [data(shape, dtype, seed=2 + i, lo=0, hi=2) for i in range(states)]
    return [data(shape, dtype), data(shape, dtype, seed=1)] + more


def update(op, states, extra):
    for dtype in ALL:
        yield OpCase(op, arrays(states, dtype), {"lr": "0.5"})
    for attrs in COMMON + extra:
        yield OpCase(op, arrays(states), dict({"lr": "0.25"}, **attrs))
    yield OpCase(op, arrays(states, shape=(7,)), {"lr": "0.25"})
    yield OpCase(op, arrays(states), {"lr": 0})
    yield OpCase(op, arrays(states), {}, why="lr left out")
    yield OpCase(op, [data((2, 3)), data((3, 2))] + arrays(states)[2:], {"lr": 1}, why="shapes differ")


def mixed_precision():
    half = [data((2, 3), "float16"), data((2, 3), "float16", seed=1)]
    master, momentum = data((2, 3), seed=2), data((2, 3), seed=3)
    for attrs in ({"lr": "0.25"}, {"lr": "0.25", "wd": "0.125", "clip_gradient": "0.5", "rescale_grad": "0.5"}):
        yield OpCase("mp_sgd_update", half + [master], attrs)
        yield OpCase("mp_sgd_mom_update", half + [momentum, master], dict(attrs, momentum="0.9"))
