"""mx.np and mx.npx: arrays, linear algebra, random numbers' shapes, gradients, Gluon in NumPy semantics."""

import mxnet as mx
import numpy as onp
from mxnet import autograd, gluon, np, npx

from record import error_of, record

npx.set_np()
random = onp.random.RandomState(2)
a = np.array(random.randn(3, 4), dtype="float32")
b = np.array(random.randn(4, 3), dtype="float32")
record("matmul", a @ b)
record("einsum", np.einsum("ij,jk->ik", a, b))
record("tensordot", np.tensordot(a, b, axes=1))
record("mean", a.mean(axis=0))
record("std", a.std())
record("var", np.var(a, axis=1, ddof=1))
record("cumsum", np.cumsum(a, axis=1))
record("argmax", a.argmax(axis=1))
record("sort", np.sort(a, axis=1))
record("where", np.where(a > 0, a, 0))
record("mask", a[a > 0])
record("zero_size", np.zeros((0, 3)).shape)
record("scalar", np.array(3.5).shape)
record("concatenate", np.concatenate([a, a], axis=1))
record("stack", np.stack([a, a]))
record("split", np.split(a, 2, axis=1)[1])
record("pad", np.pad(a, ((1, 1), (0, 2))))
record("pad/vector", np.pad(np.arange(3), (1, 2)))
record("pad/vector/reflect", np.pad(np.arange(3), (1, 2), mode="reflect"))
record("tile", np.tile(a, (2, 1)))
record("unique", np.unique(np.array([3, 1, 3, 2])))
record("bincount", np.bincount(np.array([0, 1, 1, 3], dtype="int32")))
record("linspace", np.linspace(0, 1, 5))
record("meshgrid", np.meshgrid(np.arange(3), np.arange(2))[0])
record("dtype", [str((np.ones(2, dtype=t) + 1).dtype) for t in ("float32", "float64", "int32", "int64", "uint8")])
record("true_divide", np.array([1, 2], dtype="int32") / 2)
record("floor_mod", np.array([-7.0, 7]) % 3)
record("comparison", (a > b.T).dtype.name)
record("svd", np.linalg.svd(a)[1])
record("inv", np.linalg.inv(np.eye(3) * 2 + 0.1))
record("det", np.linalg.det(np.stack([np.eye(3) * 2 + 0.1, np.eye(3)])))
record("solve", np.linalg.solve(np.eye(3) * 2 + 0.1, np.ones((3,))))
record("cholesky", np.linalg.cholesky(np.eye(3) * 2 + 0.1))
record("eigvalsh", np.linalg.eigvalsh(np.eye(3) * 2 + 0.1))
record("norm", np.linalg.norm(a))
record("pinv", np.linalg.pinv(a))
record("delete", np.delete(np.arange(5), 1))
record("insert", np.insert(np.arange(5), 1, 9))
record("flip", np.flip(a, 0))
record("roll", np.roll(a, 1, axis=1))
record("percentile", np.percentile(a, 30))
record("histogram", np.histogram(a, bins=4, range=(-2, 2))[0])
record("interp", np.interp(np.array([0.5, 1.5]), np.array([0.0, 1, 2]), np.array([0.0, 10, 20])))
record("nan_to_num", np.nan_to_num(np.array([onp.nan, 1])))
record("diff", np.diff(a, axis=1))
record("tril", np.tril(a))
record("vstack", np.vstack([a, a]))
record("polyval", np.polyval(np.array([1.0, 2]), np.array([3.0])))
record("softmax", npx.softmax(a))
record("one_hot", npx.one_hot(np.array([0, 2]), 3))
record("pick", npx.pick(a, np.array([0, 1, 2])))
record("layer_norm", npx.layer_norm(a, np.ones(4), np.zeros(4)))
record("reshape_like", npx.reshape_like(b, a))
record("indexing", a[:, None, 1:3])
record("index_array", a[np.array([0, 2])])
a2 = a.copy()
a2[1:, ::2] = 0
record("assigned", a2)
record("numpy_function", onp.mean(a))
record("item", a[0, 0].item())
record("tolist", np.arange(3).tolist())

for name, call in {
    "normal": lambda: np.random.normal(0, 1, (2000,)),
    "uniform": lambda: np.random.uniform(-1, 1, (2000,)),
    "gamma": lambda: np.random.gamma(2.0, 1.0, (2000,)),
    "randint": lambda: np.random.randint(0, 10, (2000,)),
    "exponential": lambda: np.random.exponential(1.0, (2000,)),
}.items():
    mx.random.seed(4)
    first = call()
    mx.random.seed(4)
    assert (first.asnumpy() == call().asnumpy()).all(), name
    record(f"random/{name}/shape", first.shape)
    record(f"random/{name}/mean", round(float(first.astype("float64").mean()), 0))
shuffled = np.arange(5)
np.random.shuffle(shuffled)
record("shuffle", sorted(shuffled.tolist()))
record("choice", np.random.choice(5, (3,)).shape)
record("choice_of_one", np.random.choice(1))
record("choice_of_an_array", np.random.choice(np.array([2.5])))

x = np.array(random.randn(3, 4), dtype="float32")
x.attach_grad()
with autograd.record():
    y = (np.exp(x) * np.sin(x)).sum() + np.dot(x, b).mean()
y.backward()
record("gradient", x.grad)
with autograd.record():
    y = np.exp(x)
    first = autograd.grad(y, [x], create_graph=True)[0]
    z = first.sum()
z.backward()
record("second_gradient", x.grad)

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(5, activation="relu", in_units=4), gluon.nn.BatchNorm(in_channels=5), gluon.nn.Dense(2, in_units=5))
net.initialize()
for name in sorted(net.collect_params()):
    parameter = net.collect_params()[name]
    parameter.set_data(np.array(onp.abs(random.uniform(-0.4, 0.4, parameter.shape)) + 0.1))
record("net", net(a))
net.hybridize()
record("net/hybrid", net(a))
trainer = gluon.Trainer(net.collect_params(), "adam")
for _ in range(3):
    with autograd.record():
        loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(a), np.array([0, 1, 1])).mean()
    loss.backward()
    trainer.step(1)
record("net/loss", loss)
npx.waitall()

# Errors have NumPy's classes and are raised no later than when the result is read.
negative, draw = np.array([-1.0, 2]), np.random
for name, call in {
    "normal": lambda scale: draw.normal(0, scale, size=2),
    "logistic": lambda scale: draw.logistic(0, scale, size=2),
    "gumbel": lambda scale: draw.gumbel(0, scale, size=2),
    "exponential": lambda scale: draw.exponential(scale, size=2),
    "rayleigh": lambda scale: draw.rayleigh(scale, size=2),
    "weibull": lambda shape: draw.weibull(shape, size=2),
    "pareto": lambda shape: draw.pareto(shape, size=2),
    "power": lambda shape: draw.power(shape, size=2),
    "gamma": lambda shape: draw.gamma(shape, 1.0, size=2),
    "gamma scale": lambda scale: draw.gamma(1.0, scale, size=2),
    "chisquare": lambda df: draw.chisquare(df, size=2),
    "bernoulli": lambda prob: npx.random.bernoulli(prob, size=2),
}.items():
    for kind, parameter in (("number", -1.0), ("array", negative), ("zero", 0.0), ("two", 2.0)):
        record(f"error/{name} of {kind}", error_of(lambda call=call, parameter=parameter: call(parameter)))
for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "logical_not"):
    record(f"error/{name} into numbers", error_of(lambda name=name: getattr(np, name)(np.ones(2), out=np.zeros(2))))
for name, call in {
    "percentile": lambda: np.percentile(np.arange(3.0), np.array([10, 150.0])),
    "quantile": lambda: np.quantile(np.arange(3.0), -0.5),
    "polyval": lambda: np.polyval(np.ones((2, 2)), np.ones(2)),
    "diag_indices_from": lambda: np.diag_indices_from(np.ones((2, 3)))[0],
    "diag_indices_from a vector": lambda: np.diag_indices_from(np.ones(2))[0],
    "hsplit": lambda: np.hsplit(np.array(1.0), 2)[0],
    "dsplit": lambda: np.dsplit(np.ones((2, 2)), 2)[0],
    "constraint_check": lambda: npx.constraint_check(np.array([True, False], dtype=bool), "not positive"),
}.items():
    record(f"error/{name}", error_of(call))


class Checked(gluon.HybridBlock):
    """Multiplies by a condition, so that a violated one is an error."""

    def hybrid_forward(self, F, x):
        return x * F.npx.constraint_check(x > 0, "not positive")


checked = Checked()
checked.hybridize()
record("constraint/kept", checked(np.ones(2)))
record("error/constraint in a hybridized block", error_of(lambda: checked(-np.ones(2))))

# Inference in a hybridized block raises an MXNetError, also where an imperative call raises a ValueError.
def fail_in_block(recording, call):
    class Failing(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return call(F, x)

    block = Failing()
    block.hybridize()
    x = np.ones((3, 4, 5))
    x.attach_grad()
    with autograd.record(recording):
        block(x)


for name, call in {
    "transpose": lambda F, x: F.np.transpose(x, (0, 0, 1)),
    "diag_indices_from": lambda F, x: F.np.diag_indices_from(x),
}.items():
    record(f"error/{name} in a hybridized block", error_of(lambda: fail_in_block(False, call)))
    record(f"error/{name} in a recorded block", error_of(lambda: fail_in_block(True, call)))

# None is a tuple without steps.
record("slice/no steps", npx.slice(np.arange(24.0).reshape(4, 6), begin=(1, -3), end=(3, 6), step=None))
record("slice/no axes", npx.slice(np.arange(24.0).reshape(4, 6), begin=[], end=[], step=None))
record("tensorsolve/more axes of b", np.linalg.tensorsolve(np.array([[2.0]]), np.array([[[3.0]]])))

# Slices without elements, while recording.
x = np.arange(12.0).reshape(4, 3)
for k, index in enumerate((slice(2, 2), (1, slice(0, 0)), (slice(2, 2), 1), (Ellipsis, slice(0, 0)))):
    x.attach_grad()
    with autograd.record():
        y = (x[index] * 2).sum() + x.sum()
    y.backward()
    record(f"empty slice {k}", y)
    record(f"empty slice {k}/gradient", x.grad)
npx.waitall()
