"""ResNet-50, MobileNetV2 and a BERT of the base size as PyTorch exports them, with weights of a fixed seed: `onnx_models.py FOLDER`.

Each becomes FOLDER/NAME.onnx. The batch is open. The networks for images also become FOLDER/NAME-int8.onnx, quantized by ONNX Runtime: 8-bit
integers with a scale for each output channel, between `DequantizeLinear` and `QuantizeLinear`. Needs the packages of
`tests/onnx/requirements.txt`.
"""

import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


def conv(inputs, outputs, kernel, stride=1, groups=1, activation=None):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([activation] if activation else []))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            conv(inputs, width, 1, activation=nn.ReLU()),
            conv(width, width, 3, stride, activation=nn.ReLU()),
            conv(width, 4 * width, 1),
        )
        self.shortcut = nn.Identity() if stride == 1 and inputs == 4 * width else conv(inputs, 4 * width, 1, stride)

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, inputs = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                blocks.append(Bottleneck(inputs, width, stride if i == 0 else 1))
                inputs = 4 * width
        self.stem = nn.Sequential(conv(3, 64, 7, 2, activation=nn.ReLU()), nn.MaxPool2d(3, 2, 1))
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(2048, 1000)

    def forward(self, x):
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1), 1))


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        hidden = inputs * expand
        layers = [conv(inputs, hidden, 1, activation=nn.ReLU6())] if expand > 1 else []
        layers += [conv(hidden, hidden, 3, stride, hidden, nn.ReLU6()), conv(hidden, outputs, 1)]
        self.body, self.same = nn.Sequential(*layers), stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, inputs = [], 32
        table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
        for expand, outputs, count, stride in table:
            for i in range(count):
                blocks.append(Inverted(inputs, outputs, stride if i == 0 else 1, expand))
                inputs = outputs
        self.stem, self.blocks = conv(3, 32, 3, 2, activation=nn.ReLU6()), nn.Sequential(*blocks)
        self.last, self.head = conv(320, 1280, 1, activation=nn.ReLU6()), nn.Linear(1280, 1000)

    def forward(self, x):
        return self.head(self.last(self.blocks(self.stem(x))).mean([2, 3]))


class Layer(nn.Module):
    """A layer of BERT, written as its usual implementation does it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)

    def forward(self, x, mask):
        split = lambda t: t.view(t.shape[0], t.shape[1], self.heads, -1).permute(0, 2, 1, 3)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = q @ k.transpose(-1, -2) / (q.shape[-1] ** 0.5) + mask
        y = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).contiguous()
        x = self.norm1(x + self.out(y.view(y.shape[0], y.shape[1], -1)))
        return self.norm2(x + self.narrow(F.gelu(self.wide(x))))


class Bert(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, words=30522, positions=512):
        super().__init__()
        self.words, self.positions, self.kinds = nn.Embedding(words, width), nn.Embedding(positions, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, words, mask):
        position_ids = torch.arange(words.shape[1])[None]
        x = self.norm(self.words(words) + self.kinds(torch.zeros_like(words)) + self.positions(position_ids))
        mask = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


def models():
    torch.manual_seed(11)
    image = (torch.randn(1, 3, 224, 224),)
    text = (torch.randint(0, 30522, (1, 128)), torch.ones(1, 128, dtype=torch.int64))
    yield "resnet50", ResNet50, image, ["data"]
    yield "mobilenetv2", MobileNetV2, image, ["data"]
    yield "bert", Bert, text, ["words", "mask"]


class Images(CalibrationDataReader):
    """Random images that the quantization is calibrated with."""

    def __init__(self, count):
        self.images = iter(np.random.default_rng(5).normal(size=(count, 1, 3, 224, 224)).astype(np.float32))

    def get_next(self):
        image = next(self.images, None)
        return None if image is None else {"data": image}


def quantize(source, target):
    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(source, target, Images(4), quant_format=QuantFormat.QDQ, **types)


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, make, inputs, names in models():
        model = make().eval()
        for key, buffer in model.named_buffers():
            if "running_var" in key:
                buffer.fill_(1.5)
        dims = {n: {0: "batch", 1: "length"} if name == "bert" else {0: "batch"} for n in names}
        torch.onnx.export(
            model, inputs, folder / f"{name}.onnx", dynamo=False, input_names=names, dynamic_axes=dims, opset_version=17
        )
        if name != "bert":
            quantize(folder / f"{name}.onnx", folder / f"{name}-int8.onnx")


if __name__ == "__main__":
    main(sys.argv[1])
