"""What a reproducible figure is."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
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
        found: What was measured, in words.
        holds: Whether it does.
    """

    says: str
    found: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a paper, or a table in its manner, as rows that can be computed one by one.

    Attributes:
        name: `paper/figure`, as on the command line.
        says: What it shows, in one sentence; where the paper spent more, what is reduced.
        minutes: About how long it takes at full size on 2 cores.
        full: Sizes, as plain JSON.
        quick: The same for a run of seconds.
        tasks: The rows to compute, from the sizes.
        row: One row; its random numbers depend on the task alone. The last argument is the folder
            of the data, if one was named.
        plot: Draws the rows on an empty matplotlib figure.
        claims: What the rows should show; fewer where sizes are too small to tell.
    """

    name: str
    says: str
    minutes: float
    full: Config
    quick: Config
    tasks: Callable[[Config], list[Task]]
    row: Callable[[Task, Path | None], Row]
    plot: Callable[[list[Row], Any], None]
    claims: Callable[[list[Row], Config], Iterator[Claim]]
