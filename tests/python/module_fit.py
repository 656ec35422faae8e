"""Module: fit, predict, score, checkpoints, a monitor, several devices, buckets; metrics and callbacks."""

import logging
import os
import tempfile

import mxnet as mx
import numpy as np

from record import record

random = np.random.RandomState(11)
x = random.randn(100, 10).astype("float32")
y = (x[:, :3].sum(axis=1) > 0).astype("float32")


def network():
    data = mx.sym.Variable("data")
    h = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=16, name="fc1"), act_type="relu", name="relu1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(h, num_hidden=2, name="fc2"), name="softmax")


def parameters(symbol, **shapes):
    names = symbol.list_arguments()
    found, _, _ = symbol.infer_shape(**shapes)
    values = np.random.RandomState(1)
    chosen = {n: values.uniform(-0.2, 0.2, s) for n, s in zip(names, found) if n not in shapes and "label" not in n}
    return {n: mx.nd.array(v) for n, v in chosen.items()}


def iterator(batch=20):
    return mx.io.NDArrayIter(x, y, batch, shuffle=False, label_name="softmax_label")


for devices in ([mx.cpu()], [mx.cpu(0), mx.cpu(1)]):
    for kvstore in ("local", "device", None):
        module = mx.mod.Module(network(), context=devices)
        metric = mx.metric.CompositeEvalMetric([mx.metric.Accuracy(), mx.metric.CrossEntropy()])
        module.fit(
            iterator(),
            eval_data=iterator(),
            eval_metric=metric,
            num_epoch=4,
            optimizer="sgd",
            optimizer_params={"learning_rate": 0.5, "momentum": 0.9},
            arg_params=parameters(network(), data=(20, 10)),
            kvstore=kvstore,
            batch_end_callback=mx.callback.Speedometer(20, 2),
        )
        name = f"{len(devices)}/{kvstore}"
        arguments, _ = module.get_params()
        for key in sorted(arguments):
            record(f"{name}/{key}", arguments[key])
        record(f"{name}/score", [v for _, v in module.score(iterator(), ["acc", "ce"])])
        record(f"{name}/predict", module.predict(iterator(30)))

with tempfile.TemporaryDirectory() as folder:
    prefix = os.path.join(folder, "model")
    module.save_checkpoint(prefix, 3, save_optimizer_states=True)
    loaded = mx.mod.Module.load(prefix, 3, load_optimizer_states=True)
    loaded.bind(data_shapes=[("data", (20, 10))], label_shapes=[("softmax_label", (20,))])
    loaded.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
    record("loaded/predict", loaded.predict(iterator()))
    symbol, arguments, auxiliary = mx.model.load_checkpoint(prefix, 3)
    record("loaded/names", symbol.list_arguments())

module = mx.mod.Module(network())
module.bind(data_shapes=[("data", (20, 10))], label_shapes=[("softmax_label", (20,))], inputs_need_grad=True)
module.init_params(arg_params=parameters(network(), data=(20, 10)), initializer=None)
seen = []
monitor = mx.monitor.Monitor(1, stat_func=lambda a: a.abs().mean(), pattern=".*", sort=True)
module.install_monitor(monitor)
batch = next(iter(iterator()))
monitor.tic()
module.forward(batch, is_train=True)
module.backward()
seen = monitor.toc()
record("monitor/names", sorted({name for _, name, _ in seen if "_backward" not in name}))
record("input_gradient", module.get_input_grads()[0])
module.reshape(data_shapes=[("data", (7, 10))], label_shapes=[("softmax_label", (7,))])
module.forward(mx.io.DataBatch([mx.nd.array(x[:7])], [mx.nd.array(y[:7])]), is_train=False)
record("reshaped", module.get_outputs()[0])


def by_length(length):
    data = mx.sym.Variable("data")
    embedded = mx.sym.Embedding(data, input_dim=12, output_dim=4, name="embed")
    h = mx.sym.FullyConnected(mx.sym.mean(embedded, axis=1), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(h, name="softmax"), ("data",), ("softmax_label",)


buckets = mx.mod.BucketingModule(by_length, default_bucket_key=8)
buckets.bind(data_shapes=[("data", (5, 8))], label_shapes=[("softmax_label", (5,))])
buckets.init_params(arg_params=parameters(by_length(8)[0], data=(5, 8)), initializer=None)
buckets.init_optimizer(optimizer="adam", optimizer_params={"learning_rate": 0.1})
for length in (8, 4, 6, 8, 4):
    words = random.randint(0, 12, (5, length))
    batch = mx.io.DataBatch(
        [mx.nd.array(words)],
        [mx.nd.array(words[:, 0] % 3)],
        bucket_key=length,
        provide_data=[("data", (5, length))],
        provide_label=[("softmax_label", (5,))],
    )
    buckets.forward(batch)
    buckets.backward()
    buckets.update()
record("buckets/embed", buckets.get_params()[0]["embed_weight"])
record("buckets/outputs", buckets.get_outputs()[0])
