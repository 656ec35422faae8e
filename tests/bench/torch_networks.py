"""The networks of `networks.py` as modules of PyTorch."""

import torch
from torch import nn

from networks import BERT_HEADS, BERT_LAYERS, BERT_WIDTH, MOBILENET, NETWORKS
from onnx_models import Layer, ResNet50, conv


class LastStep(nn.Module):
    """Two layers of LSTM; the state after the last step."""

    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(256, 256, 2)

    def forward(self, x):
        return self.layers(x)[0][-1]


class FirstWord(nn.Module):
    """The layers of BERT on embedded words; the first word's state."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(BERT_WIDTH, BERT_HEADS) for _ in range(BERT_LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x, 0.0)
        return x[:, 0]


def lenet():
    layers, channels = [], 1
    for filters in (20, 50):
        layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        channels = filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(50 * 2 * 2, 128), nn.ReLU()), 128


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU()), 64


def resnet50():
    network = ResNet50()
    network.head = nn.Identity()
    return network, 2048


def mobilenet():
    layers, channels = [conv(3, 32, 3, 2, activation=nn.ReLU())], 32
    for filters, stride in MOBILENET:
        layers.append(conv(channels, channels, 3, stride, channels, nn.ReLU()))
        layers.append(conv(channels, filters, 1, activation=nn.ReLU()))
        channels = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), channels


FEATURES = {
    "lenet": lenet,
    "mlp": mlp,
    "resnet50": resnet50,
    "mobilenet": mobilenet,
    "lstm": lambda: (LastStep(), 256),
    "bert": lambda: (FirstWord(), BERT_WIDTH),
}


def classifier(model):
    """The network with a dense layer at its end; its loss contains the softmax."""
    torch.manual_seed(11)
    features, width = FEATURES[model]()
    return nn.Sequential(features, nn.Linear(width, NETWORKS[model].classes))
