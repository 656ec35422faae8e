"""Optimizer updates other than plain SGD and Adam, multi-tensor updates, and operators on all gradients."""

import numpy as np

from cases import FLOATS, OpCase, data

COMMON = ({}, {"wd": "0.125"}, {"rescale_grad": "0.25"}, {"clip_gradient": "0.5"},
          {"wd": "0.125", "rescale_grad": "0.25", "clip_gradient": "0.5"})


def cases():
    yield from single("nag_mom_update", 1, ({"momentum": "0.9"}, {"momentum": "0.9", "wd": "0.125"}))
    yield from single("signsgd_update", 0)
    yield from single("signum_update", 1, ({"momentum": "0.9"}, {"momentum": "0.9", "wd_lh": "0.25"}))
    yield from single("rmsprop_update", 1, ({"gamma1": "0.5"}, {"epsilon": "1e-2"}, {"clip_weights": "0.5"}))
    yield from single("rmspropalex_update", 3,
                      ({"gamma1": "0.5", "gamma2": "0.25"}, {"epsilon": "1e-2"}, {"clip_weights": "0.5"}))
    yield from single("ftrl_update", 2, ({"lamda1": "1.5"}, {"beta": "0.5", "lamda1": 0}))
    yield from ftml()
    yield from mixed()
    yield from adamw()
    yield from lamb()
    yield from several()
    yield from all_gradients()


def group(states, dtype="float32", shape=(2, 3), seed=0, state_type=None):
    """A weight, its gradient and states that are not negative."""
    more = [data(shape, state_type or dtype, seed=seed + 2 + i, lo=0, hi=2) for i in range(states)]
    return [data(shape, dtype, seed=seed), data(shape, dtype, seed=seed + 1)] + more


def moments(states, dtype):
    """States of which the first is far below the root of the second, as for the centered RMSProp."""
    arrays = group(states, dtype)
    if states == 3:
        arrays[2] = arrays[2] + np.asarray(8, arrays[2].dtype)
    return arrays


def single(op, states, extra=()):
    for dtype in FLOATS:
        yield OpCase(op, moments(states, dtype), {"lr": "0.5"})
    for attrs in COMMON + tuple(extra):
        yield OpCase(op, moments(states, "float32"), dict({"lr": "0.25"}, **attrs))
    yield OpCase(op, moments(states, "float32"), {}, why="lr left out")
    yield OpCase(op, [data((2, 3)), data((3, 2))] + group(states)[2:], {"lr": 1}, why="shapes differ")


def ftml():
    for dtype in FLOATS:
        yield OpCase("ftml_update", group(3, dtype), {"lr": "0.5", "t": 2}, rtol=3e-2 if dtype == "float16" else None)
    for attrs in ({"wd": "0.125"}, {"rescale_grad": "0.25", "clip_grad": "0.25"}, {"beta1": "0.5", "beta2": "0.75"},
                  {"t": 10}, {"epsilon": "0.01"}):
        yield OpCase("ftml_update", group(3), dict({"lr": "0.25", "t": 1}, **attrs), rtol=1e-4)
    yield OpCase("ftml_update", group(3), {"lr": "0.25"}, why="t left out")


def mixed():
    for attrs in COMMON + ({"momentum": "0.9", "wd": "0.125"},):
        arrays = group(0, "float16") + [data((2, 3), seed=2), data((2, 3), seed=3)]
        yield OpCase("mp_nag_mom_update", arrays, dict({"lr": "0.25"}, **attrs))


def adamw():
    more = ({}, {"wd": "0.125"}, {"clip_gradient": "0.5"}, {"beta1": "0.5", "beta2": "0.75"}, {"epsilon": "1e-2"})
    for dtype in FLOATS:
        factor = np.array([0.5], "float32")
        yield OpCase("_adamw_update", group(2, dtype) + [factor], {"lr": "0.25", "eta": "0.5"})
    for attrs in more:
        attrs = dict({"lr": "0.25", "eta": "0.5"}, **attrs)
        yield OpCase("_adamw_update", group(2) + [np.array([2], "float32")], attrs)
        arrays = group(2, "float16", state_type="float32") + [data((2, 3), seed=9), np.array([2], "float32")]
        yield OpCase("_mp_adamw_update", arrays, attrs)
    yield OpCase("_adamw_update", group(2) + [np.array([2], "float32")], {"lr": 1}, why="eta left out")


def lamb():
    def phase1(op, arrays):
        yield OpCase(op, arrays, {"t": 1, "wd": 0})
        for attrs in ({"bias_correction": False}, {"wd": "0.25"}, {"rescale_grad": "0.25", "clip_gradient": "0.25"},
                      {"beta1": "0.5", "beta2": "0.75", "epsilon": "0.01"}, {"t": 7}):
            yield OpCase(op, arrays, dict({"t": 2, "wd": "0.125"}, **attrs))

    for dtype in FLOATS:
        yield OpCase("lamb_update_phase1", group(2, dtype), {"t": 3, "wd": "0.125"}, rtol=3e-2 if dtype == "float16" else None)
    yield from phase1("lamb_update_phase1", group(2))
    yield from phase1("mp_lamb_update_phase1", group(2, "float16", state_type="float32") + [data((2, 3), seed=9)])
    for dtype in FLOATS:
        norms = [np.array([3], dtype), np.array([2], dtype)]
        yield OpCase("lamb_update_phase2", group(0, dtype) + norms, {"lr": "0.5"})
    for attrs in ({}, {"lower_bound": 4}, {"upper_bound": "1.5"}, {"lower_bound": 4, "upper_bound": 3}):
        for r1, r2 in ((3, 2), (0, 2), (3, 0)):
            norms = [np.array([r1], "float32"), np.array([r2], "float32")]
            attrs = dict({"lr": "0.25"}, **attrs)
            yield OpCase("lamb_update_phase2", group(0) + norms, attrs)
            arrays = [data((2, 3), "float16"), data((2, 3), seed=1)] + norms + [data((2, 3), seed=9)]
            yield OpCase("mp_lamb_update_phase2", arrays, attrs)
    yield OpCase("lamb_update_phase2", group(0) + [data((2,)), data((2,))], {"lr": 1}, why="norms of two elements")


SHAPES = ((2, 3), (4,), (1, 2, 2))


def several():
    """Three weights of different shapes in one call."""
    rates = {"lrs": "(0.5, 0.25, 0.125)", "wds": "(0, 0.125, 0.25)", "num_weights": 3}
    sgd = ({}, {"rescale_grad": "0.25", "clip_gradient": "0.25"})
    mom = ({"momentum": "0.9"},) + sgd
    preloaded = [np.array([0.5, 0.25, 0.125], "float32"), np.array([0, 0.125, 0.25], "float32")]
    for op, states, options in (("sgd_update", 0, sgd), ("sgd_mom_update", 1, mom)):
        for attrs in options:
            for dtype in FLOATS if not attrs else ("float32",):
                yield calls("multi_" + op, states, False, dict(rates, **attrs), dtype)
                yield calls("preloaded_multi_" + op, states, False, dict({"num_weights": 3}, **attrs), dtype, preloaded)
            mp = op.replace("sgd", "mp_sgd")
            yield calls("multi_" + mp, states, True, dict(rates, **attrs))
            yield calls("preloaded_multi_" + mp, states, True, dict({"num_weights": 3}, **attrs), shared=preloaded)
    adam = dict(rates, etas="(1, 0.5, 2)")
    for attrs in ({}, {"clip_gradient": "0.5"}, {"beta1": "0.5", "beta2": "0.75", "epsilon": "0.01"}):
        factor = [np.array([0.5], "float32")]
        yield calls("_multi_adamw_update", 2, False, dict(adam, **attrs), shared=factor)
        yield calls("_multi_mp_adamw_update", 2, True, dict(adam, **attrs), shared=factor)
    lamb = {"learning_rates": "(0.5, 0.25, 0.125)", "wds": "(0, 0.125, 0.25)", "step_count": "(1, 2, 9)",
            "num_tensors": 3}
    for attrs in ({}, {"bias_correction": False}, {"rescale_grad": "0.25", "clip_gradient": "0.25"},
                  {"lower_bound": 10}, {"upper_bound": "0.5"}, {"beta1": "0.5", "beta2": "0.75", "epsilon": "0.01"}):
        for dtype in FLOATS if not attrs else ("float32",):
            yield calls("_multi_lamb_update", 2, False, dict(lamb, **attrs), dtype)
        yield calls("_multi_mp_lamb_update", 2, True, dict(lamb, **attrs))
    yield calls("multi_sgd_update", 0, False, dict(rates, lrs="(1,)"), why="one rate for three weights")
    yield calls("preloaded_multi_sgd_update", 0, False, {"num_weights": 3}, shared=[preloaded[0][:2], preloaded[1]],
                why="two rates for three weights")


def calls(op, states, mixed_precision, attrs, dtype="float32", shared=(), why=""):
    """MXNet computes norms in single precision for all types of weights."""
    inputs, changed = [], []
    for i, shape in enumerate(SHAPES):
        half = "float16" if mixed_precision else dtype
        arrays = group(states, half, shape, 10 * i, "float32" if mixed_precision else dtype)
        if mixed_precision:
            arrays.append(arrays[0].astype("float32"))
        changed += range(len(inputs) + 2, len(inputs) + len(arrays))
        inputs += arrays
    stride = len(inputs) // len(SHAPES)
    return OpCase(op, inputs + list(shared), attrs, imperative=True, states=changed, like=[0, stride, 2 * stride], why=why,
                  rtol=1e-5 if dtype == "float64" else None)


def all_gradients():
    for dtype in FLOATS:
        yield OpCase("multi_sum_sq", [data((2, 3), dtype), data((5,), dtype), data((1, 1), dtype)], {"num_arrays": 3})
        bad = data((2, 3), dtype)
        bad[1, 1] = np.inf
        for arrays in ([data((2, 3), dtype)], [bad], [-bad], [np.full((3,), np.nan, dtype)]):
            yield OpCase("all_finite", arrays)
            yield OpCase("multi_all_finite", [data((5,), dtype)] + arrays, {"num_arrays": 2})
    yield OpCase("all_finite", [np.full((2,), 1e300)], why="beyond single precision")
    yield OpCase("all_finite", [data((2,), "int32")], why="integers")
    yield OpCase("multi_sum_sq", [data((2,)), data((2,), "float16")], {"num_arrays": 2}, why="types differ")
    rates = [np.array(x, "float32") for x in ([0.1, 0.2, 0.3, 0.4], [4, 9, 0, 1], [1, 4, 1, 0], [0, 0.1, 0.1, 0])]
    for attrs in ({}, {"rescale_grad": "0.5"}):
        yield OpCase("multi_lars", rates, dict({"eta": "0.5", "eps": "1e-3"}, **attrs))
    yield OpCase("multi_lars", [r.astype("float64") for r in rates], {"eta": "0.5", "eps": "1e-3"}, why="not float32")
    yield OpCase("multi_lars", rates[:3] + [rates[3][:2]], {"eta": 1, "eps": 1}, why="lengths differ")
    yield OpCase("reset_arrays", [data((2, 3)), data((4,), "float16"), data((2,), "float64")], {"num_arrays": 3},
                 imperative=True, states=[0, 1, 2])
    for types in (("float16", "float32"), ("float32", "float64", "float16"), ("float16", "int32"), ("int32", "int64")):
        for narrow in (False, True):
            arrays = [data((2, 3), t, seed=i) for i, t in enumerate(types)]
            yield OpCase("amp_multicast", arrays, {"num_outputs": len(types), "cast_narrow": narrow}, train=True,
                         grad="all" if "int" not in "".join(types) else None)
    yield OpCase("amp_multicast", [data((2,)), data((3, 1), "float16")], {"num_outputs": 2})
