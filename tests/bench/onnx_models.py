"""Networks as PyTorch exports them, with weights of a fixed seed: `onnx_models.py FOLDER [NAMES]`.

ResNet-50, MobileNet v2 and v3, a BERT of the base size, segmentation of images, detection, direction and recognition of text, and detection of
voice. Each becomes FOLDER/NAME.onnx. The batch size is dynamic. Those of `QUANTIZED` also become FOLDER/NAME-int8.onnx, quantized by ONNX Runtime:
8-bit integers with a scale for each output channel, between `DequantizeLinear` and `QuantizeLinear`. Needs the packages of
`tests/onnx/requirements.txt`.
"""

import pathlib
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


QUANTIZED = ("resnet50", "mobilenetv2")


def conv(inputs, outputs, kernel, stride=1, groups=1, activation=None, dilation=1):
    padding = dilation * (kernel // 2)
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias=False), nn.BatchNorm2d(outputs)]
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


class Squeeze(nn.Module):
    """Scales each channel by a function of the means of all channels."""

    def __init__(self, channels):
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // 4, 1), nn.ReLU(), nn.Conv2d(channels // 4, channels, 1), nn.Hardsigmoid()
        )

    def forward(self, x):
        return x * self.gate(x)


class InvertedV3(nn.Module):
    def __init__(self, inputs, kernel, hidden, outputs, squeezes, activation, stride):
        super().__init__()
        function = nn.ReLU if activation == "relu" else nn.Hardswish
        layers = [conv(inputs, hidden, 1, activation=function())] if hidden != inputs else []
        layers.append(conv(hidden, hidden, kernel, stride, hidden, function()))
        layers += [Squeeze(hidden)] if squeezes else []
        self.body = nn.Sequential(*layers, conv(hidden, outputs, 1))
        self.same = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


# Kernel, hidden and output channels, squeeze, activation, stride.
V3_SMALL = (
    (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1), (5, 96, 40, True, "hard", 2),
    (5, 240, 40, True, "hard", 1), (5, 240, 40, True, "hard", 1), (5, 120, 48, True, "hard", 1), (5, 144, 48, True, "hard", 1),
    (5, 288, 96, True, "hard", 2), (5, 576, 96, True, "hard", 1), (5, 576, 96, True, "hard", 1),
)  # fmt: skip
V3_LARGE = (
    (3, 16, 16, False, "relu", 1), (3, 64, 24, False, "relu", 2), (3, 72, 24, False, "relu", 1), (5, 72, 40, True, "relu", 2),
    (5, 120, 40, True, "relu", 1), (5, 120, 40, True, "relu", 1), (3, 240, 80, False, "hard", 2), (3, 200, 80, False, "hard", 1),
    (3, 184, 80, False, "hard", 1), (3, 184, 80, False, "hard", 1), (3, 480, 112, True, "hard", 1), (3, 672, 112, True, "hard", 1),
    (5, 672, 160, True, "hard", 2), (5, 960, 160, True, "hard", 1), (5, 960, 160, True, "hard", 1),
)  # fmt: skip


class FeaturesV3(nn.Module):
    """The convolutions of MobileNetV3, `scale` times as wide. With `keep_width` only the first convolution halves the width. `forward` returns
    the outputs before each change of the size, and the last one."""

    def __init__(self, table, scale=1.0, keep_width=False):
        super().__init__()
        wide = lambda channels: max(8, int(channels * scale + 4) // 8 * 8)
        inputs, blocks, self.widths = wide(16), [], []
        for kernel, hidden, outputs, squeezes, activation, stride in table:
            if stride == 2:
                self.widths.append(inputs)
            step = (stride, 1) if keep_width else stride
            blocks.append(InvertedV3(inputs, kernel, wide(hidden), wide(outputs), squeezes, activation, step))
            inputs = wide(outputs)
        last = wide(table[-1][1])
        self.stem, self.blocks = conv(3, wide(16), 3, 2, activation=nn.Hardswish()), nn.ModuleList(blocks)
        self.last, self.strides = conv(inputs, last, 1, activation=nn.Hardswish()), [row[-1] for row in table]
        self.widths.append(last)

    def forward(self, x):
        x, kept = self.stem(x), []
        for block, stride in zip(self.blocks, self.strides):
            if stride == 2:
                kept.append(x)
            x = block(x)
        return [*kept, self.last(x)]


class MobileNetV3(nn.Module):
    def __init__(self, table, wide, classes=1000, **features):
        super().__init__()
        self.features = FeaturesV3(table, **features)
        self.head = nn.Sequential(nn.Linear(self.features.widths[-1], wide), nn.Hardswish(), nn.Linear(wide, classes))

    def forward(self, x):
        return self.head(self.features(x)[-1].mean([2, 3]))


class Segmentation(nn.Module):
    """DeepLabV3: convolutions of several dilations, resized to the size of the image."""

    def __init__(self, width=128, classes=21):
        super().__init__()
        self.features = FeaturesV3(V3_LARGE)
        channels = self.features.widths[-2]
        self.branches = nn.ModuleList([conv(channels, width, 1, activation=nn.ReLU())])
        self.branches.extend(conv(channels, width, 3, activation=nn.ReLU(), dilation=dilation) for dilation in (6, 12, 18))
        self.pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, width, 1), nn.ReLU())
        self.head = nn.Sequential(conv(5 * width, width, 1, activation=nn.ReLU()), conv(width, width, 3, activation=nn.ReLU()))
        self.classes = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        y = self.features(x)[-2]
        pooled = F.interpolate(self.pooled(y), size=y.shape[-2:], mode="bilinear", align_corners=False)
        y = torch.cat([branch(y) for branch in self.branches] + [pooled], 1)
        return F.interpolate(self.classes(self.head(y)), size=x.shape[-2:], mode="bilinear", align_corners=False)


class TextDetection(nn.Module):
    """Differentiable binarization: a pyramid of features, and a map of probabilities."""

    def __init__(self, width=96):
        super().__init__()
        self.features = FeaturesV3(V3_LARGE, 0.5)
        self.inner = nn.ModuleList(nn.Conv2d(n, width, 1, bias=False) for n in self.features.widths[1:])
        self.outer = nn.ModuleList(nn.Conv2d(width, width // 4, 3, padding=1, bias=False) for _ in self.inner)
        narrow = width // 4
        self.head = nn.Sequential(
            conv(len(self.inner) * narrow, narrow, 3, activation=nn.ReLU()),
            nn.ConvTranspose2d(narrow, narrow, 2, 2), nn.BatchNorm2d(narrow), nn.ReLU(),
            nn.ConvTranspose2d(narrow, 1, 2, 2), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x):
        maps = [inner(y) for inner, y in zip(self.inner, self.features(x)[1:])]
        for i in range(len(maps) - 2, -1, -1):
            maps[i] = maps[i] + F.interpolate(maps[i + 1], scale_factor=2, mode="nearest")
        grown = [F.interpolate(outer(y), scale_factor=2**i, mode="nearest") for i, (outer, y) in enumerate(zip(self.outer, maps))]
        return self.head(torch.cat(grown[::-1], 1))


class TextRecognition(nn.Module):
    """Convolutions that reduce a line of text to a sequence, two bidirectional LSTMs, and the characters' probabilities."""

    def __init__(self, characters=6625, hidden=48):
        super().__init__()
        self.features = FeaturesV3(V3_SMALL, 0.5, keep_width=True)
        self.pool = nn.MaxPool2d(2)
        self.lstm = nn.LSTM(self.features.widths[-1], hidden, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * hidden, characters)

    def forward(self, x):
        x = self.pool(self.features(x)[-1]).squeeze(2).transpose(1, 2)
        return self.head(self.lstm(x)[0]).softmax(-1)


class VoiceRate(nn.Module):
    """Detects voice in a clip with a short-time Fourier transform, convolutions and an LSTM step."""

    def __init__(self, window):
        super().__init__()
        self.spectrum = nn.Conv1d(1, window + 2, window, window // 2, bias=False)
        sizes = ((window // 2 + 1, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1))
        self.encoder = nn.Sequential(
            *(layer for i, o, stride in sizes for layer in (nn.Conv1d(i, o, 3, stride, 1), nn.ReLU())), nn.AdaptiveAvgPool1d(1)
        )
        self.lstm, self.head = nn.LSTM(128, 128), nn.Conv1d(128, 1, 1)

    def forward(self, sound, state):
        real, imaginary = self.spectrum(sound[:, None]).chunk(2, 1)
        x = self.encoder((real**2 + imaginary**2 + 1e-9).sqrt())
        y, (h, c) = self.lstm(x.permute(2, 0, 1), (state[:1], state[1:]))
        return torch.sigmoid(self.head(y.permute(1, 2, 0).relu())).mean(2), torch.cat([h, c])


class Voice(nn.Module):
    """One network for sound of 16 kHz, and one for 8 kHz."""

    def __init__(self):
        super().__init__()
        example = torch.zeros(1, 512), torch.zeros(2, 1, 128)
        self.high = torch.jit.trace(VoiceRate(256), example)
        self.low = torch.jit.trace(VoiceRate(128), example)

    def forward(self, sound, state, rate):
        if rate == 16000:
            y, state = self.high(sound, state)
        else:
            y, state = self.low(sound, state)
        return y, state


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
    sound = (torch.randn(1, 512), torch.zeros(2, 1, 128), torch.tensor(16000))
    yield "resnet50", ResNet50, image, ["data"]
    yield "mobilenetv2", MobileNetV2, image, ["data"]
    yield "bert", Bert, text, ["words", "mask"]
    yield "mobilenetv3-small", lambda: MobileNetV3(V3_SMALL, 1024), image, ["data"]
    yield "mobilenetv3-large", lambda: MobileNetV3(V3_LARGE, 1280), image, ["data"]
    yield "segmentation", Segmentation, image, ["data"]
    yield "text-detection", TextDetection, (torch.randn(1, 3, 320, 320),), ["data"]
    yield "text-direction", lambda: MobileNetV3(V3_SMALL, 200, 2, scale=0.35), (torch.randn(1, 3, 48, 192),), ["data"]
    yield "text-recognition", TextRecognition, (torch.randn(1, 3, 48, 320),), ["data"]
    yield "voice", lambda: torch.jit.script(Voice()), sound, ["sound", "state", "rate"]


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


def dynamic_dims(name, names):
    """The dynamic dimensions of the exported network."""
    if name == "voice":
        return {}
    return {n: {0: "batch", 1: "length"} if name == "bert" else {0: "batch"} for n in names}


def main(folder, *wanted):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, make, inputs, names in models():
        if wanted and name not in wanted:
            continue
        model = make().eval()
        for key, buffer in model.named_buffers():
            if "running_var" in key:
                buffer.fill_(1.5)
        dims = dynamic_dims(name, names)
        torch.onnx.export(
            model, inputs, folder / f"{name}.onnx", dynamo=False, input_names=names, dynamic_axes=dims, opset_version=17
        )
        if name in QUANTIZED:
            quantize(folder / f"{name}.onnx", folder / f"{name}-int8.onnx")


if __name__ == "__main__":
    main(*sys.argv[1:])
