"""Makes digits.onnx, the model of the guide docs/onnx.md: a small network on the digits of data/, trained for two epochs by PyTorch.

    python3 tests/onnx/torch_digits.py jvm/src/test/resources/digits.onnx      # needs torch and onnx
"""

import sys

import numpy as np
import torch
from torch import nn

FOLDER = "data/digits"


def digits(part):
    images = np.fromfile(f"{FOLDER}/{part}-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 1, 8, 8) / np.float32(255)
    labels = np.fromfile(f"{FOLDER}/{part}-labels-idx1-ubyte", np.uint8)[8:].astype(np.int64)
    return torch.from_numpy(images.astype(np.float32)), torch.from_numpy(labels)


def main(path):
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10)
    )
    images, labels = digits("train")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    for _ in range(2):
        for start in range(0, len(labels), 32):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(images[start : start + 32]), labels[start : start + 32])
            loss.backward()
            optimizer.step()
    network.eval()
    test, answers = digits("t10k")
    print(f"test accuracy {(network(test).argmax(1) == answers).float().mean():.4f}")
    dims = {"image": {0: "batch"}, "scores": {0: "batch"}}
    names = {"input_names": ["image"], "output_names": ["scores"], "dynamic_axes": dims}
    # Keep batch normalization, so that training can continue; by default PyTorch folds it into the convolution.
    kept = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    torch.onnx.export(network, test[:1], path, **names, **kept, opset_version=17, dynamo=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
