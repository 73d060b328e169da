"""Small tasks that public architectures can learn, made of data that every installation has."""

import argparse
import email.message
import inspect
import pathlib
import textwrap
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sigmascope import sources
from sigmascope.models.samples import Batch, Loss

COUNT = 64  # samples of a task
LETTERS = 128  # ids of characters


@dataclass(frozen=True, slots=True)
class Task:
    """What a program trains on.

    Attributes:
        batch: Inputs.
        targets: Theirs.
        loss: `loss(output, targets)`.
    """

    batch: Batch
    targets: Any
    loss: Loss


def images(*, size: int = 32, count: int = COUNT) -> Task:
    """CIFAR-10, standardised by channel, at any size; classes."""
    pixels, labels = pictures(count)
    if size != pixels.shape[-1]:
        pixels = F.interpolate(pixels, size=(size, size), mode="bilinear", antialias=True)
    return Task(pixels, labels, F.cross_entropy)


@cache
def pictures(count: int) -> tuple[Tensor, Tensor]:
    """CIFAR-10, standardised by channel."""
    data = sources.open_data("cifar10", samples=count)
    assert isinstance(data.inputs, Tensor)
    assert data.targets is not None
    std, mean = torch.std_mean(data.inputs, dim=(0, 2, 3), keepdim=True)
    return (data.inputs - mean) / std, data.targets


def segments(*, count: int = 32) -> Task:
    """Which pixels are brighter than their surroundings, two classes a pixel."""
    pixels, _ = pictures(count)
    light = pixels.mean(1, keepdim=True)
    classes = (light > F.avg_pool2d(light, 9, 1, 4))[:, 0].long()
    return Task(pixels, classes, F.cross_entropy)


def noise(*, count: int = 32) -> Task:
    """The noise in noisy pictures, at random times of diffusion (Ho et al. 2020)."""
    g = torch.Generator().manual_seed(0)
    pixels, _ = pictures(count)
    steps = torch.randint(50, 950, (count,), generator=g)
    kept = torch.cos(steps / 1000 * torch.pi / 2)[:, None, None, None]
    target = torch.randn(pixels.shape, generator=g)
    noisy = kept * pixels + (1 - kept.square()).sqrt() * target
    return Task({"sample": noisy, "timestep": steps}, target, F.mse_loss)


def denoised(*, count: int = 32) -> Task:
    """Pictures from noisy ones."""
    pixels, _ = pictures(count)
    g = torch.Generator().manual_seed(0)
    return Task(pixels + 0.5 * torch.randn(pixels.shape, generator=g), pixels, F.mse_loss)


MODULES = (argparse, textwrap, inspect, pathlib, unittest, email.message)


@cache
def text_of(module: Any) -> Tensor:
    """The source of a module of Python's own library, as ids of characters."""
    letters = [min(ord(c), LETTERS - 1) for c in inspect.getsource(module)]
    return torch.tensor(letters[1000:])


def next_letters(*, length: int = 32, count: int = COUNT, name: str = "input_ids") -> Task:
    """Text of Python's own library; each letter's target is the next one."""
    text = torch.cat([text_of(m) for m in MODULES])
    g = torch.Generator().manual_seed(0)
    starts = torch.randint(len(text) - length - 1, (count,), generator=g)
    rows = torch.stack([text[s : s + length + 1] for s in starts.tolist()])
    return Task({name: rows[:, :-1].clone()}, rows[:, 1:].clone(), letter_loss)


def letter_loss(output: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of every letter."""
    return F.cross_entropy(output.flatten(0, 1), targets.flatten())


def masked_letters(*, length: int = 32, count: int = COUNT) -> Task:
    """Text with a seventh of its letters hidden, which are to be told (Devlin et al. 2019)."""
    rows = next_letters(length=length, count=count).batch["input_ids"]  # type: ignore[call-overload]
    g = torch.Generator().manual_seed(1)
    hidden = torch.rand(rows.shape, generator=g) < 0.15
    targets = rows.masked_fill(~hidden, -100)
    return Task({"input_ids": rows.masked_fill(hidden, 0)}, targets, letter_loss)


def which_text(*, length: int = 48, count: int = COUNT, name: str | None = "input_ids") -> Task:
    """Of which of four modules a piece of text is: ids, and a class for each row."""
    g = torch.Generator().manual_seed(0)
    classes = torch.arange(count) % 4
    rows = []
    for c in classes.tolist():
        text = text_of(MODULES[c])
        start = int(torch.randint(len(text) - length, (1,), generator=g))
        rows.append(text[start : start + length])
    ids = torch.stack(rows)
    return Task(ids if name is None else {name: ids}, classes, F.cross_entropy)


def told_twice(*, length: int = 24, count: int = COUNT) -> Task:
    """The text that is read, to be written letter by letter after it."""
    rows = next_letters(length=length, count=count).batch["input_ids"]  # type: ignore[call-overload]
    begun = torch.cat([torch.ones(count, 1, dtype=torch.long), rows[:, :-1]], 1)
    return Task({"input_ids": rows, "decoder_input_ids": begun}, rows, letter_loss)


def spoken(*, bands: int = 16, frames: int = 64, count: int = 24) -> Task:
    """Text from frames in which every letter sounds its own tone, with noise."""
    length = frames // 2
    read = next_letters(length=length, count=count)
    ids = read.batch["input_ids"]  # type: ignore[call-overload]
    g = torch.Generator().manual_seed(2)
    tones = torch.randn(LETTERS, bands, generator=g)
    sound = tones[ids].repeat_interleave(2, dim=1).mT
    sound = sound + 0.3 * torch.randn(sound.shape, generator=g)
    return Task({"input_features": sound, "decoder_input_ids": ids}, read.targets, letter_loss)


def captioned(*, count: int = 32) -> Task:
    """Pictures with rows of letters that name their class, to be matched within the batch."""
    pixels, labels = pictures(count)
    g = torch.Generator().manual_seed(3)
    words = torch.randint(3, LETTERS - 1, (10, 8), generator=g)
    ids = words[labels].clone()
    ids[:, -2] = torch.arange(count) % 100 + 3
    ids[:, -1] = LETTERS - 1  # the end of text, where it is read off
    batch = {"input_ids": ids, "pixel_values": pixels}
    return Task(batch, torch.arange(count), matched)


def matched(output: Tensor, targets: Tensor) -> Tensor:
    """Each row with its own column, and each column with its row (Radford et al. 2021)."""
    return (F.cross_entropy(output, targets) + F.cross_entropy(output.mT, targets)) / 2


def pixel_places() -> Task:
    """The colours of one picture from the places of its pixels (Sitzmann et al. 2020)."""
    pixels, _ = pictures(COUNT)
    line = torch.linspace(-1, 1, 16)
    places = torch.cartesian_prod(line, line)
    return Task(places, pixels[0, :, ::2, ::2].flatten(1).mT.clone(), F.mse_loss)


def formula(*, count: int = 128) -> Task:
    """`exp(sin(pi x) + y^2)` at random places (Liu et al. 2024), less its mean."""
    g = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(count, 2, generator=g) - 1
    y = torch.exp(torch.sin(torch.pi * x[:, :1]) + x[:, 1:].square())
    return Task(x, y - y.mean(), F.mse_loss)


def graphs(*, count: int = COUNT) -> Task:
    """Digits as graphs: a node for each pixel, with its value and place; classes."""
    data = sources.open_data("digits", samples=count)
    assert isinstance(data.inputs, Tensor)
    line = torch.linspace(-1, 1, 8)
    places = torch.cartesian_prod(line, line).expand(count, 64, 2)
    nodes = torch.cat([data.inputs.flatten(1)[..., None] * 2 - 1, places], -1)
    return Task(nodes, data.targets, F.cross_entropy)


def rows_of_digits(*, count: int = COUNT) -> Task:
    """Digits row by row, as sequences; classes."""
    data = sources.open_data("digits", samples=count)
    assert isinstance(data.inputs, Tensor)
    return Task(data.inputs[:, 0] * 2 - 1, data.targets, F.cross_entropy)


Make = Callable[[], torch.nn.Module]
