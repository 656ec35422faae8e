"""mx.sym: composition, inference, attributes, JSON, executors, control flow, custom operators, drawing."""

import json
import os
import tempfile

import mxnet as mx
import numpy as np

from record import record

random = np.random.RandomState(4)
data = mx.sym.Variable("data", shape=(2, 3), lr_mult=2.0)
with mx.AttrScope(__group__="first", ctx_group="dev1"):
    fc = mx.sym.FullyConnected(data, num_hidden=4, name="fc", attr={"__mood__": "good"})
net = mx.sym.Activation(fc, act_type="tanh", name="act") * 2 + 1
record("arguments", net.list_arguments())
record("outputs", net.list_outputs())
record("attr", fc.attr("__mood__"))
record("attrs", sorted(net.attr_dict()["fc"].items()))
hidden = mx.sym.Variable("hidden", attr={"force_mirroring": "True", "ctx_group": "dev2", "mood": "bad"})
record("attributes that are stored with underscores", sorted(hidden.list_attr().items()))
record("read with underscores", [str(hidden.attr("__force_mirroring__")), str(hidden.attr("__mood__"))])
record("internals", net.get_internals().list_outputs())
record("internal", net.get_internals()["fc_output"].list_arguments())
record("children", net.get_children().list_outputs())
record("inputs", net.list_inputs())
arguments, outputs, _ = net.infer_shape()
record("shapes", [list(s) for s in arguments + outputs if len(s) == 2])
record("types", [t.__name__ for t in net.infer_type(data="float64")[0]])
record("partial", [list(s) for s in fc.infer_shape_partial()[1]])
twice = mx.sym.concat(mx.sym.Variable("x"), mx.sym.Variable("x"), dim=0)
unknown = {
    "FullyConnected": mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=8),
    "Convolution": mx.sym.Convolution(mx.sym.Variable("x"), kernel=(3, 3), num_filter=4),
    "Deconvolution": mx.sym.Deconvolution(mx.sym.Variable("x"), kernel=(3, 3), num_filter=4, no_bias=False),
}
for name, layer in unknown.items():
    record(f"partial/{name}", [len(s) for s in layer.infer_shape_partial()[0]])
record("one name, two variables", [list(s) for lists in twice.infer_shape(x=(2, 3))[:2] for s in lists])
record("one name, two types", [t.__name__ for lists in twice.infer_type(x="float16")[:2] for t in lists])
written = mx.sym.FullyConnected(mx.sym.LeakyReLU(mx.sym.Variable("x"), slope="0.5f"), num_hidden=2, no_bias="TRUE")
record("values as texts", [list(s) for s in written.infer_shape(x=(2, 3))[0]])
copy = mx.sym.load_json(net.tojson())
record("json", copy.list_arguments())
normalized = mx.sym.BatchNorm(mx.sym.Convolution(mx.sym.Variable("image"), kernel=(2, 2), num_filter=3, name="conv"), name="norm")
many = mx.sym.add_n(*[mx.sym.Variable(f"v{i}") for i in range(11)], name="many")
looped, _ = mx.sym.contrib.foreach(lambda x, s: (x + s, x * s), mx.sym.Variable("xs"), mx.sym.Variable("s0"))
for name, symbol in (("net", net), ("states", normalized), ("many", many), ("loop", looped)):
    record(f"json/text of {name}", symbol.tojson())
record("debug/states", normalized.debug_str())
record("debug/attributes", mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3, no_bias=True, name="fc").debug_str())
with tempfile.TemporaryDirectory() as folder:
    net.save(os.path.join(folder, "net.json"))
    record("loaded", mx.sym.load(os.path.join(folder, "net.json")).list_outputs())
record("group", mx.sym.Group([net, fc]).list_outputs())
record("debug", "Name=fc" in net.debug_str() or "fc" in net.debug_str())

weights = {
    "data": mx.nd.array(random.randn(2, 3)),
    "fc_weight": mx.nd.array(random.randn(4, 3)),
    "fc_bias": mx.nd.array(random.randn(4)),
}
gradients = {k: mx.nd.zeros_like(v) for k, v in weights.items()}
executor = net.bind(mx.cpu(), weights, args_grad=gradients, grad_req="write")
record("forward", executor.forward(is_train=True)[0])
executor.backward(mx.nd.ones((2, 4)))
for name in sorted(gradients):
    record(f"gradient/{name}", gradients[name])
executor = net.simple_bind(mx.cpu(), data=(2, 3))
executor.copy_params_from({k: v for k, v in weights.items() if k != "data"})
record("simple_bind", executor.forward(data=weights["data"])[0])
bigger = executor.reshape(data=(5, 3), allow_up_sizing=True)
record("reshape", bigger.forward(data=mx.nd.ones((5, 3)))[0])
record("eval", net.eval(ctx=mx.cpu(), **weights)[0])
seen = []
executor.set_monitor_callback(lambda name, array: seen.append(name))
executor.forward()
record("monitored", sorted(n if isinstance(n, str) else n.decode() for n in seen))

state = mx.sym.contrib.foreach(lambda x, s: (x + s[0], [x + s[0]]), mx.sym.Variable("xs"), [mx.sym.Variable("s")])[0]
record("foreach", state.eval(xs=mx.nd.arange(6).reshape((3, 2)), s=mx.nd.zeros(2))[0])
looped = mx.nd.contrib.while_loop(
    lambda i, s: i < 5, lambda i, s: ([s], [i + 1, s + i]), [mx.nd.array([0]), mx.nd.array([1])], max_iterations=8
)
record("while_loop", looped[1][1])
chosen = mx.nd.contrib.cond(mx.nd.array([1]), lambda: mx.nd.array([5]), lambda: mx.nd.array([6]))
record("cond", chosen)


class Scaled(mx.operator.CustomOp):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * self.by)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * self.by)


@mx.operator.register("scaled")
class ScaledProp(mx.operator.CustomOpProp):
    def __init__(self, by="1"):
        super().__init__(need_top_grad=True)
        self.by = float(by)

    def list_arguments(self):
        return ["data"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return Scaled(self.by)


x = mx.nd.array([1.0, 2.0])
x.attach_grad()
with mx.autograd.record():
    y = mx.nd.Custom(x, op_type="scaled", by=3) * x
y.backward()
record("custom", y)
record("custom/gradient", x.grad)
custom = mx.sym.Custom(mx.sym.Variable("x"), op_type="scaled", by=4)
record("custom/symbol", custom.eval(x=x)[0])


class Cube(mx.autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * x * x

    def backward(self, dy):
        (x,) = self.saved_tensors
        return dy * 3 * x * x


with mx.autograd.record():
    y = Cube()(x)
y.backward()
record("function", x.grad)
with mx.autograd.record():
    y = mx.nd.relu(x) * 2
record("get_symbol", len(mx.autograd.get_symbol(y).list_arguments()))

mx.test_utils.check_numeric_gradient(net, {k: v.asnumpy() for k, v in weights.items()}, rtol=0.05, atol=1e-3)
mx.test_utils.check_symbolic_forward(mx.sym.square(mx.sym.Variable("x")), [np.array([1.0, 2])], [np.array([1.0, 4])])
mx.test_utils.check_symbolic_backward(
    mx.sym.square(mx.sym.Variable("x")), [np.array([1.0, 2])], [np.ones(2)], [np.array([2.0, 4])]
)
mx.test_utils.assert_almost_equal(mx.nd.ones(2), np.ones(2))
mx.test_utils.check_consistency(net, [{"ctx": mx.cpu(0), "data": (2, 3)}, {"ctx": mx.cpu(1), "data": (2, 3)}])
mx.viz.print_summary(net, shape={"data": (2, 3)})

# The symbol of a recorded computation numbers variables in the order in which they were marked.
first, second, constant = (mx.nd.ones((2, 3)) for _ in range(3))
second.attach_grad()
first.attach_grad()
with mx.autograd.record():
    recorded = mx.nd.tanh(first * second) + constant
for name, values in (("arguments", "list_arguments"), ("outputs", "list_outputs")):
    record(f"recorded/{name}", getattr(mx.autograd.get_symbol(recorded), values)())

# The labels that SoftmaxOutput infers.
for shape in ((2, 3), (2, 3, 4), (2, 3, 4, 5)):
    for multi_output in (False, True):
        loss = mx.sym.SoftmaxOutput(mx.sym.Variable("data"), multi_output=multi_output, name="softmax")
        record(f"softmax_label/{len(shape)}/{multi_output}", loss.infer_shape(data=shape)[0][1])

# Attributes that are parameters change the operator in all symbols that share the node.
dense = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=4, name="dense")
squared = mx.sym.square(dense)
dense._set_attr(num_hidden="7")
record("changed parameter", [list(s) for s in squared.infer_shape(x=(2, 3))[1]])
record("changed parameter/values", mx.sym.Reshape(mx.sym.Variable("x"), shape=(6,), attr={"shape": "(3, 2)"}).infer_shape(x=(2, 3))[1][0])
flat = mx.sym.Reshape(mx.sym.Variable("x"), shape=(6,), name="flat")
for shape in ("(3, 2)", "(1, 6)"):
    flat._set_attr(shape=shape)
    record(f"reshaped/{shape}", flat.eval(x=mx.nd.arange(6))[0])
for key, value in (("num_hidden", "many"), ("num_hidden", "-1"), ("flatten", "maybe"), ("mood", "good"), ("weight_lr_mult", "2")):
    try:
        dense.__copy__()._set_attr(**{key: value})
        record(f"refused/{key}/{value}", "accepted")
    except mx.base.MXNetError:
        record(f"refused/{key}/{value}", "refused")

# The attribute `name` is the name of the node, in all symbols that share it.
renamed = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=4, name="before")
outer = mx.sym.exp(renamed, name="outer")
renamed._set_attr(name="after")
record("renamed", [renamed.name, *renamed.list_outputs(), *renamed.list_arguments(), *outer.get_internals().list_outputs()])
record("renamed/attributes", sorted(outer.attr_dict()))
record("renamed/json", [node["name"] for node in json.loads(outer.tojson())["nodes"]])
record("many outputs", mx.sym.SliceChannel(mx.sym.Variable("x"), num_outputs=3000, name="split").list_outputs()[-2:])

# Variables without an initializer get the one of their input, also if the program has created them.
x, slope, mean, variance = (mx.sym.Variable(name) for name in ("x", "slope", "mean", "variance"))
rectified = mx.sym.LeakyReLU(mx.sym.LeakyReLU(x, act_type="prelu", name="first"), slope, act_type="prelu", name="second")
with_one = mx.sym.LeakyReLU(x, mx.sym.Variable("ones", init=mx.init.One()), act_type="prelu", name="third")
normalized = mx.sym.BatchNorm(rectified, moving_mean=mean, moving_var=variance, name="norm")
enlarged = mx.sym.UpSampling(x, scale=2, sample_type="bilinear", num_filter=3, name="enlarged")
for network in (normalized, with_one, enlarged):
    record(f"initializers of {network.name}", sorted((k, v["__init__"]) for k, v in network.attr_dict().items() if "__init__" in v))
module = mx.mod.Module(rectified, data_names=["x"], label_names=None)
module.bind([("x", (2, 3))], for_training=False)
module.init_params(mx.init.Zero())
for name, value in module.get_params()[0].items():
    record(f"initialized/{name}", value)
