"""Which batches a loader gives: of samples as they lie, and a last one of a single sample."""

import math
from collections import Counter
from collections.abc import Iterator, Sized
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader

from sigmascope import quantities as q
from sigmascope.diagnosis.programs.data import Mapped, as_they_lie, count_of, parted
from sigmascope.diagnosis.programs.opened import Opened
from sigmascope.diagnosis.programs.program import Program
from sigmascope.gate import random_states
from sigmascope.probes.execution import duplicate, in_words
from sigmascope.probes.samples import as_tensor, chosen, prepared, run
from sigmascope.records import Estimate, Item, Reading, Skipped

SITE = "(loader)"
PLACES = 16  # batches that are looked at, spread over all
MOST = 16  # samples of each of them


def order_items(data: Any) -> Iterator[Item]:
    """How many batches hold one target alone, and how many would if samples were mixed.

    Args:
        data: Of a program; nothing is said but of loaders that give samples as they lie, two in a
            batch or more, with one number as the target of each.
    """
    data = data.data if isinstance(data, Mapped) else data
    if not as_they_lie(data):
        return
    try:
        with random_states():  # data sets may draw
            batches = [[_target(data.dataset[row]) for row in rows] for rows in _places(data)]
    except Exception:  # noqa: BLE001 (a user's data may raise anything; opening them has said so)
        return
    if len(batches) < 2 or any(y is None for b in batches for y in b):
        return
    count = Counter(y for b in batches for y in b)
    total, least = count.total(), min(map(len, batches))
    chance = math.fsum((n / total) ** least for n in count.values())
    alike = sum(len(set(b)) == 1 for b in batches) / len(batches)
    for name, share in ((q.BATCHES_OF_ONE_CLASS, alike), (q.THE_SAME_IF_MIXED, chance)):
        yield Reading(SITE, name, Estimate.exactly(share), "setup")


def _places(loader: DataLoader[Any]) -> Iterator[range]:
    """The first samples of some full batches, spread over all."""
    size = loader.batch_size or 1
    full = count_of(loader) // size
    if size > 1 and full:
        for k in range(min(full, PLACES)):
            first = k * full // min(full, PLACES) * size
            yield range(first, first + min(size, MOST))


def _target(item: Any) -> float | None:
    """The target of a sample, where it is one number."""
    target = parted(item)[1]
    value = None if target is None else torch.as_tensor(target)
    return None if value is None or value.numel() != 1 else float(value)


def last_batch_items(program: Program, known: Opened) -> Iterator[Item]:
    """Why a step on the last batch of an epoch raises, where a loader leaves one sample for it.

    Args:
        program: The whole of it; a copy of its model makes the step.
        known: Its samples.
    """
    loader = program.data
    if not isinstance(loader, DataLoader) or type(loader.batch_sampler) is not BatchSampler:
        return
    if not isinstance(loader.sampler, Sized):  # one of the user's own need not know
        return
    size, total = loader.batch_size or 1, len(loader.sampler)
    if loader.drop_last or size == 1 or total % size != 1:
        return
    model, rows = duplicate(program.model).train(), torch.zeros(1, dtype=torch.long)
    try:
        batch = chosen(prepared(model, known.batch), rows, batch_dim=known.batch_dim)
        with random_states(), torch.enable_grad():
            known.loss(as_tensor(run(model, batch))[0], known.targets[:1]).backward()
    except Exception as error:  # noqa: BLE001 (models fail in every way)
        why = f"the last batch of an epoch holds one sample of {total}, and {in_words(error)}"
        yield Skipped(SITE, "training", why)
