"""Data by what a name says: a data set, a query, a file, an object of Python."""

from collections.abc import Collection, Mapping
from math import prod
from pathlib import Path
from urllib.parse import parse_qsl

import torch

from sigmascope import guard
from sigmascope.guard import Refusal, nearest
from sigmascope.sources.batches import as_batch, split
from sigmascope.sources.callables import call, named
from sigmascope.sources.datasets import cifar10, digits, fashion_mnist, gaussian
from sigmascope.sources.files import read
from sigmascope.sources.limits import DIGITS
from sigmascope.sources.loaders import gather, matched
from sigmascope.sources.refusals import listed
from sigmascope.sources.samples import Data, chosen_data
from sigmascope.sources.seeds import lent


def known(
    name: str,
    options: dict[str, str],
    samples: int | None,
    folder: Path | None,
    shape: tuple[int, ...] | None,
    generator: torch.Generator | None,
) -> Data:
    """A data set known by name."""
    if name == "gaussian":
        size = shape
        if "shape" in options:
            text = options["shape"]
            sizes = text.replace(",", "x").split("x")
            if not all(len(s) <= DIGITS and s.isdecimal() and int(s) > 0 for s in sizes):
                raise Refusal(
                    f"`shape` must read like 64 or 3x32x32, got `{text[:80]}`: name sizes of one "
                    "sample."
                )
            size = tuple(int(s) for s in sizes)
        if size is None:
            raise Refusal(
                "`gaussian` needs the shape of one sample: write `gaussian?shape=64` or "
                "`gaussian?shape=3x32x32`."
            )
        guard.require_room(4 * prod(size) * (samples or 1), f"`{name}` of this shape")
        sample = gaussian(shape=size, samples=samples, generator=generator)
    elif name == "digits":
        sample = digits(samples=samples, generator=generator)
    else:
        split = options.get("split", "train")
        if split not in ("train", "test"):
            raise Refusal(f"`split` of `{name}` must be train or test, got `{split}`.")
        read_set = fashion_mnist if name == "fashion-mnist" else cifar10
        sample = read_set(split=split, folder=folder, samples=samples, generator=generator)
    inputs, targets, words = sample
    return Data(inputs, targets, words, None if targets is None else 10)


def query_options(name: str, query: str) -> dict[str, str]:
    """The options after the question mark."""
    allowed = {"gaussian": ("shape",), "digits": ()}.get(name, ("split",))
    try:
        pairs = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise Refusal(f"`{name}?{query}` must read `{name}?key=value`.") from error
    for key in pairs:
        if key not in allowed:
            has = f"it has {listed(allowed)}" if allowed else "it has none"
            raise Refusal(f"`{name}` has no option `{key}`; {has}.{nearest(key, allowed)}")
    return pairs


def from_file(
    path: Path, samples: int | None, generator: torch.Generator | None, takes: Collection[str]
) -> Data:
    """What a file holds."""
    content, place = read(path), f"`{path}`"
    if isinstance(content, Mapping):
        inputs, targets = split(content, place=place, strict=True, takes=takes)
    elif isinstance(content, tuple | list) and len(content) == 2:
        inputs, targets = content
    else:
        inputs, targets = content, None
    batch = as_batch(inputs, place=f"The inputs of {place}")
    return chosen_data(path.name, batch, matched(batch, targets, place=place), samples, generator)


def from_python(
    spec: str, samples: int | None, generator: torch.Generator | None, takes: Collection[str]
) -> Data:
    """What an object of Python gives."""
    with lent(generator), named(spec) as found:  # what it draws repeats with the seed
        value = call(found, spec) if callable(found) else found
        inputs, targets = gather(value, samples=samples, place=f"`{spec}`", takes=takes)
    return chosen_data(spec, inputs, targets, samples, generator)
