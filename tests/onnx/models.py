"""Whole models as PyTorch exports them, small and with fixed seeds: `models.py` writes `data/models.jsonl`, and
`data/parts.jsonl` with the parts that become one operator.

Needs the packages `torch` and `onnx`. PyTorch computes the expected values.
"""

import io
import json
import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        conv = lambda i, k, s: nn.Sequential(nn.Conv2d(i, out, k, s, k // 2, bias=False), nn.BatchNorm2d(out))
        self.first, self.second = conv(channels, 3, stride), conv(out, 3, 1)
        self.shortcut = nn.Identity() if stride == 1 and channels == out else conv(channels, 1, stride)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Residual(8, 8, 1), Residual(8, 12, 2))
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1), 1))


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        depthwise = [nn.Conv2d(16, 16, 3, 2, 1, groups=16, bias=False), nn.BatchNorm2d(16), nn.Hardswish()]
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6(), nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16), nn.ReLU6(), *depthwise)
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Hardsigmoid())
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, 5))

    def forward(self, x):
        y = self.features(x)
        return self.head((y * self.squeeze(y)).mean([2, 3]))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions, self.norm = nn.Embedding(50, 16), nn.Embedding(12, 16), nn.LayerNorm(16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 7)

    def forward(self, words, mask):
        x = self.norm(self.words(words) + self.positions(torch.arange(words.shape[1])[None]))
        return torch.tanh(self.head(self.encoder(x, src_key_padding_mask=mask == 0)[:, 0]))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        y = (q @ k.transpose(-2, -1) / 2.0).softmax(-1) @ v
        x = self.norm(x + self.out(y.transpose(1, 2).reshape(batch, length, width)))
        return x + self.mlp(x)


class Recurrent(nn.Module):
    def __init__(self, kind, directions):
        super().__init__()
        self.cells = getattr(nn, kind)(6, 8, 2, batch_first=True, bidirectional=directions == 2)
        self.head = nn.Linear(8 * directions, 3)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.LeakyReLU(0.1))
        self.middle = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.up, self.smooth = nn.ConvTranspose2d(8, 4, 2, 2), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.mix, self.head = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.down(x)
        b = self.middle(a)
        return torch.sigmoid(self.head(torch.cat([a, self.up(b)], 1) + torch.cat([self.mix(self.smooth(b)), a], 1)))


class Yolo(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.SiLU())
        self.pool, self.head, self.up = nn.MaxPool2d(5, 1, 2), nn.Conv2d(32, 14, 1), nn.Upsample(scale_factor=2)

    def forward(self, x):
        y = self.body(x)
        a, b = y.chunk(2, 1)
        p = self.head(torch.cat([a, b, self.pool(y)], 1))
        n, _, h, w = p.shape
        p = p.view(n, 2, 7, h, w).permute(0, 1, 3, 4, 2).contiguous()
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        center = (p[..., :2].sigmoid() * 2 - 0.5 + torch.stack((xs, ys), 2).float()) * 4
        size = (p[..., 2:4].sigmoid() * 2) ** 2
        return torch.cat((center, size, p[..., 4:].sigmoid()), -1).view(n, -1, 7), self.up(a)


class ScaledDot(nn.Module):
    """Attention with two heads, written in the ways in which models have it."""

    def __init__(self, how):
        super().__init__()
        self.how, self.parts = how, nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (part(x).reshape(batch, length, 2, 4).transpose(1, 2) for part in self.parts)
        if self.how == "function":
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        elif self.how == "truth values":
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask > -0.5)
        elif self.how == "causal":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif self.how == "scaled after":
            y = (q @ k.transpose(-2, -1) / 2.0 + mask).softmax(-1) @ v
        elif self.how == "multiplied after":
            y = (mask + 0.5 * (q @ k.transpose(-2, -1))).softmax(-1) @ v
        else:
            y = ((q * 0.5) @ k.transpose(-2, -1)).softmax(-1) @ v
        return y.transpose(1, 2).reshape(batch, length, width)


class TanhGelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))


class ConvNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4))

    def forward(self, x):
        return self.layers(x)


def parts():
    """Parts of models, by both of PyTorch's exporters; the options are those of `torch.onnx.export`."""
    x, mask = torch.randn(2, 5, 8), torch.randn(2, 1, 5, 5)
    for how in ["function", "causal", "scaled after", "multiplied after", "scaled before"]:
        for dynamo in [False, True]:
            yield f"attention, {how}{', new exporter' if dynamo else ''}", ScaledDot(how), (x, mask), {"dynamo": dynamo}
    yield "gelu by tanh, version 17", nn.GELU(approximate="tanh"), (x,), {"opset_version": 17}
    yield "gelu by tanh, new exporter, version 18", nn.GELU(approximate="tanh"), (x,), {"opset_version": 18, "dynamo": True}
    yield "gelu by tanh, version 20", nn.GELU(approximate="tanh"), (x,), {"opset_version": 20}
    yield "gelu by tanh, written out", TanhGelu(), (x,), {"opset_version": 17}
    for dynamo in [False, True]:
        yield f"attention, truth values{', new exporter' if dynamo else ''}", ScaledDot("truth values"), (x, mask), {"dynamo": dynamo}
    keep = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    yield "convolution and normalization", ConvNorm(), (torch.randn(2, 3, 6, 5),), keep


def models():
    yield "resnet", ResNet(), (torch.randn(2, 3, 32, 32),)
    yield "mobilenet", MobileNet(), (torch.randn(1, 3, 24, 24),)
    yield "bert", Bert(), (torch.randint(0, 50, (2, 10)), torch.tensor([[1] * 10, [1] * 7 + [0] * 3]))
    yield "attention", Attention(), (torch.randn(2, 5, 16),)
    yield "lstm", Recurrent("LSTM", 2), (torch.randn(2, 7, 6),)
    yield "gru", Recurrent("GRU", 1), (torch.randn(2, 7, 6),)
    yield "rnn", Recurrent("RNN", 1), (torch.randn(2, 7, 6),)
    yield "unet", UNet(), (torch.randn(1, 1, 16, 16),)
    yield "yolo", Yolo(), (torch.randn(1, 3, 32, 32),)


def plain(array):
    values = [float(f"{x:.9g}") for x in array.ravel()] if array.dtype.kind == "f" else array.ravel().tolist()
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": values}


def record(name, model, inputs, options=None):
    model.eval()
    for key, buffer in model.named_buffers():
        if "running" in key:
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    with torch.no_grad():
        outputs = model(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    names = [f"x{i}" for i in range(len(inputs))]
    options = {"dynamo": False, "input_names": names, **(options or {})}
    if options["dynamo"]:
        program = torch.onnx.export(model, inputs, verbose=False, **options)
        file = program.model_proto
        # Drop the source locations of nodes, which are large and unused.
        for node in file.graph.node:
            del node.metadata_props[:]
            node.doc_string = ""
        file = file.SerializeToString()
    else:
        buffer = io.BytesIO()
        torch.onnx.export(model, inputs, buffer, dynamic_axes={n: {0: "batch"} for n in names}, **options)
        file = buffer.getvalue()
    return {
        "name": name,
        "model": file.hex(),
        "inputs": [plain(x.numpy()) for x in inputs],
        "outputs": [plain(y.numpy()) for y in outputs],
    }


def main():
    for name, make in [("models", models), ("parts", parts)]:
        torch.manual_seed(7)
        lines = [json.dumps(record(*m), separators=(",", ":")) for m in make()]
        path = pathlib.Path(__file__).parent / "data" / f"{name}.jsonl"
        path.write_text("\n".join(lines) + "\n")
        print(f"{name}: {len(lines)}")


if __name__ == "__main__":
    main()
