"""What a reproducible figure is."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Config = Mapping[str, Any]
Task = dict[str, Any]  # what tells one row from the others; plain JSON
Row = dict[str, Any]


def generator_of(task: Task) -> torch.Generator:
    """Random numbers that depend on the task alone, and differ between tasks."""
    digest = hashlib.sha256(json.dumps(task, sort_keys=True).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:6], "big"))


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a figure shows, as an assertion.

    Attributes:
        says: What should hold.
        found: What was measured, in words; where it was not tested, why not.
        holds: Whether it does; nothing where it was not tested.
    """

    says: str
    found: str
    holds: bool | None


def untested(says: str, why: str) -> Claim:
    """A claim that these rows cannot decide, and why."""
    return Claim(says, why, None)


def only_if(
    enough: bool, why: str, says: Iterable[str], claims: Iterator[Claim]
) -> Iterator[Claim]:
    """Claims that need enough rows or training, or what they would say and why it was not tested.

    Args:
        enough: Whether there is enough to tell.
        why: What there would have to be, in words.
        says: What would be claimed.
        claims: Asked only where there is enough.
    """
    if enough:
        yield from claims
    else:
        yield from (untested(one, why) for one in says)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a paper, or a table in its manner, as rows that can be computed one by one.

    Attributes:
        name: `paper/figure`, as on the command line.
        says: What it shows, in one sentence; where the paper spent more, what is reduced.
        minutes: About how long it takes at its usual size on 2 cores.
        usual: Sizes for two cores, as plain JSON.
        quick: The same for a run of seconds.
        tasks: The rows to compute, from the sizes.
        row: One row; its random numbers depend on the task alone. After the task it is given the
            folder of the data, if one was named, and with `on_device` a `device`.
        plot: Draws the rows on an empty matplotlib figure.
        claims: What the rows should show; those that the sizes cannot decide say so. One at least
            is decided at any size.
        stated: What the paper states of its sizes, and what was chosen where it states nothing.
        full: The paper's sizes, where the usual ones are smaller.
        on_device: Whether its networks can be trained elsewhere than on the CPU.
    """

    name: str
    says: str
    minutes: float
    usual: Config
    quick: Config
    tasks: Callable[[Config], list[Task]]
    row: Callable[..., Row]
    plot: Callable[[list[Row], Any], None]
    claims: Callable[[list[Row], Config], Iterator[Claim]]
    stated: str
    full: Config | None = None
    on_device: bool = False
