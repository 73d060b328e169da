"""A network on images."""

import torch
from torch import nn


def images():
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(2, 12, 3, stride=2, padding=1, padding_mode="circular"),
            nn.Tanh(),
            nn.Conv2d(12, 6, 3, bias=False),
            nn.Flatten(),
            nn.Linear(24, 4, bias=False),
        ).double()
