"""Quantizes networks by `mx.contrib.quantization` of MXNet's Python front end; prints accuracy and speed beside single precision.

    MXNET_LIBRARY_PATH=target/release/libmxnet.so PYTHON tests/bench/quantized.py [--isa avx2]      # PYTHON has mxnet 1.9.1

The networks are trained and calibrated on the handwritten digits in `data/digits` (1500 for training, 297 for testing), enlarged to images
of 64 x 64. Speed is measured on one thread with images of 224 x 224, or 128 tokens. `--save FOLDER` keeps the trained parameters for the next
run.
"""

import argparse
import os
import pathlib
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--isa", help="the instruction set, as FERROMX_ISA")
parser.add_argument("--networks", default="resnet18_v1,resnet50_v1,dense")
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--save", type=pathlib.Path)
parser.add_argument("--rounds", type=int, default=8)
options = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = "1"
if options.isa:
    os.environ["FERROMX_ISA"] = options.isa

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.contrib import quantization
from mxnet.gluon import nn

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "data/digits"


def digits(part):
    """Images of 64 x 64 with three channels, about 0 to 1, and labels."""
    images, labels = (np.fromfile(DIGITS / f"{part}-{name}", np.uint8) for name in ("images-idx3-ubyte", "labels-idx1-ubyte"))
    height, width = (int.from_bytes(images[at : at + 4].tobytes(), "big") for at in (8, 12))
    images = images[16:].reshape(-1, 1, height, width).astype(np.float32)
    images = (images / images.max()).repeat(64 // height, 2).repeat(64 // width, 3).repeat(3, 1)
    return images, labels[8:].astype(np.float32)


class Dense(gluon.HybridBlock):
    """The dense layers of a transformer on rows of pixels: 4 blocks of 768 to 3072 to 768 with residuals and layer normalization."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Dense(768, flatten=False)
            self.wide = nn.HybridSequential()
            self.narrow = nn.HybridSequential()
            self.norms = nn.HybridSequential()
            for _ in range(4):
                self.wide.add(nn.Dense(3072, flatten=False, activation="relu"))
                self.narrow.add(nn.Dense(768, flatten=False))
                self.norms.add(nn.LayerNorm())
            self.out = nn.Dense(10)

    def hybrid_forward(self, F, x):
        x = self.embed(x)
        for wide, narrow, norm in zip(self.wide, self.narrow, self.norms):
            x = norm(x + narrow(wide(x)))
        return self.out(F.mean(x, axis=1))


def make(name):
    if name == "dense":
        return Dense(prefix="dense_")
    return gluon.model_zoo.vision.get_model(name, classes=10, prefix=f"{name}_")


def adapted(name, images):
    """Inputs of a network: images, or their rows."""
    return images[:, 0, ::8, ::8] if name == "dense" else images


def batches(images, labels, size=50):
    return gluon.data.DataLoader(gluon.data.ArrayDataset(images, labels), batch_size=size)


def train(name, net, images, labels):
    net.initialize(mx.init.Xavier(magnitude=2.24))
    net.hybridize(static_alloc=True)
    file = options.save and options.save / f"{name}.params"
    if file and file.exists():
        net.load_parameters(str(file))
        return
    rate = 1e-4 if name == "dense" else 1e-3
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": rate})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    order = np.random.RandomState(1)
    for epoch in range(options.epochs):
        shuffled = order.permutation(len(images))
        for start in range(0, len(images), 50):
            rows = shuffled[start : start + 50]
            with autograd.record():
                value = loss(net(mx.nd.array(images[rows])), mx.nd.array(labels[rows]))
            value.backward()
            trainer.step(len(rows))
    if file:
        net.save_parameters(str(file))


def accuracy(net, images, labels):
    found = np.concatenate([net(x).asnumpy().argmax(1) for x, _ in batches(images, labels)])
    return 100 * (found == labels).mean()


def fastest(nets, x):
    """The minimum processor time of each network in milliseconds, over interleaved rounds."""
    for net in nets:
        for _ in range(2):
            net(x).wait_to_read()
    times = [[] for _ in nets]
    for _ in range(options.rounds):
        for net, taken in zip(nets, times):
            start = time.process_time()
            net(x).wait_to_read()
            taken.append(1e3 * (time.process_time() - start))
    return [min(taken) for taken in times]


def main():
    random = np.random.RandomState(4)
    (train_x, train_y), (test_x, test_y) = digits("train"), digits("t10k")
    print("| network | calibration | calibrating, s | accuracy f32, % | int8, % | batch | f32, ms | int8, ms | times |\n|---|---|---|---|---|---|---|---|---|")
    for name in options.networks.split(","):
        mx.random.seed(2)
        net = make(name)
        train_inputs, test_inputs = adapted(name, train_x), adapted(name, test_x)
        train(name, net, train_inputs, train_y)
        plain = accuracy(net, test_inputs, test_y)
        for mode in ("naive", "entropy"):
            start = time.process_time()
            quantized = quantization.quantize_net(
                net,
                quantized_dtype="auto",
                quantize_mode="smart",
                calib_data=batches(train_inputs[:200], train_y[:200]),
                calib_mode=mode,
                num_calib_examples=200,
            )
            calibrating = time.process_time() - start
            quantized.hybridize(static_alloc=True, static_shape=True)
            found = accuracy(quantized, test_inputs, test_y)
            for batch in (1, 8) if mode == "naive" else (1,):
                shape = (batch, 128, test_inputs.shape[2]) if name == "dense" else (batch, 3, 224, 224)
                floats, integers = fastest([net, quantized], mx.nd.array(random.uniform(0, 1, shape)))
                print(
                    f"| {name} | {mode} | {calibrating:.1f} | {plain:.1f} | {found:.1f} | {batch} | {floats:.2f} | {integers:.2f} | {floats / integers:.2f} |",
                    flush=True,
                )


main()
