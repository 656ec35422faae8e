"""The network of the main job, trained by MXNet: its checkpoint, predictions, accuracies, and one step of training."""

import random
import struct

import numpy as np

import mxnet as mx

BATCH, EPOCHS, RATE, MOMENTUM, SEEDS = 32, 30, 0.05, 0.9, 5


def network():
    net = mx.sym.Variable("data")
    for index, filters in enumerate((20, 50), 1):
        net = mx.sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=filters, name="conv%d" % index)
        net = mx.sym.Activation(net, act_type="relu", name="relu%d" % index)
        net = mx.sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2), name="pool%d" % index)
    net = mx.sym.FullyConnected(mx.sym.Flatten(net, name="flatten"), num_hidden=128, name="fc1")
    net = mx.sym.Activation(net, act_type="relu", name="relu3")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=10, name="fc2"), name="softmax")


def digits(folder, split):
    """Images scaled as by MNISTIter (bytes divided by 255), and labels."""
    raw = (folder / (split + "-images-idx3-ubyte")).read_bytes()
    count, height, width = struct.unpack(">3i", raw[4:16])
    images = np.frombuffer(raw, np.uint8, offset=16).reshape(count, 1, height, width)
    labels = np.frombuffer((folder / (split + "-labels-idx1-ubyte")).read_bytes(), np.uint8, offset=8)
    return (images / 255.0).astype("float32"), labels.astype("float32")


def train(images, labels, seed):
    for module in (mx.random, np.random, random):
        module.seed(seed)
    module = mx.mod.Module(network())
    module.fit(mx.io.NDArrayIter(images, labels, BATCH), num_epoch=EPOCHS, optimizer="sgd",
               optimizer_params={"learning_rate": RATE, "momentum": MOMENTUM}, initializer=mx.init.Xavier())
    return module


def write(folder, store, source):
    images, labels = digits(source, "train")
    test, truth = digits(source, "t10k")
    accuracies = []
    for seed in range(SEEDS):
        module = train(images, labels, seed)
        guesses = module.predict(mx.io.NDArrayIter(test, batch_size=BATCH)).asnumpy()
        accuracies.append(round(float((guesses.argmax(1) == truth).mean()), 6))
        if seed == 0:
            module.save_checkpoint(str(folder / "lenet"), EPOCHS)
            step(folder, module, images[:BATCH], labels[:BATCH])
            expectation = {
                "images": store.array((test * 255).round().astype("uint8")),
                "labels": store.array(truth),
                "probabilities": store.array(guesses),
                "step_images": store.array((images[:BATCH] * 255).round().astype("uint8")),
                "step_labels": store.array(labels[:BATCH]),
            }
    expectation.update(accuracies=accuracies, mean=round(float(np.mean(accuracies)), 6))
    store.line("checkpoint", "lenet", expectation)
    print("accuracies", accuracies, "mean", expectation["mean"])


def step(folder, module, images, labels):
    """Momentum before, weights and momentum after, one more step on the first batch of the training set."""
    updater = module._updater if module._updater is not None else module._kvstore._updater
    names = module._param_names
    momenta = lambda: {n: updater.states[i].copy() for i, n in enumerate(names)}  # noqa: E731
    saved = {"momentum:" + n: a for n, a in momenta().items()}
    module.forward_backward(mx.io.DataBatch([mx.nd.array(images)], [mx.nd.array(labels)]))
    module.update()
    saved.update({"momentum_after:" + n: a for n, a in momenta().items()})
    saved.update({"after:" + n: a for n, a in module.get_params()[0].items()})
    mx.nd.save(str(folder / "lenet-0030-step.params"), saved)
