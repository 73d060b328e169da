"""Which probes a watch has."""

from collections.abc import Collection, Sequence

import torch
from torch import nn

from sigmascope.gate import Refusal, printable
from sigmascope.quantities import View
from sigmascope.records import Skipped
from sigmascope.watching.looks import OWN
from sigmascope.watching.places import Place
from sigmascope.watching.probes import (
    Activations,
    Attention,
    Balances,
    Gradients,
    Losses,
    Probe,
    ProbeBatch,
    Profiles,
    Representations,
    Sharpness,
    Updates,
    WeightSpectra,
)
from sigmascope.watching.processes import Processes, is_sharded
from sigmascope.watching.squares import Squares

SEED = 20230121  # of signs and blocks; no generator of the user's is touched


def chosen(
    model: nn.Module,
    places: Sequence[Place],
    processes: Processes,
    losses: Losses,
    *,
    probe: ProbeBatch | None,
    views: Collection[View],
    only: Collection[str] | None,
    compiled: bool,
) -> list[Probe]:
    """The probes, the cheapest first.

    Args:
        model: The user's own module.
        places: The trained layers.
        processes: Those that train it.
        losses: What the training loop hands in; always there.
        probe: A batch that stays the same; without it there is no sharpness and no profile.
        views: Of profiles.
        compiled: Whether it is called through what `torch.compile` has made of it.
        only: Names of those that are wanted; all that there can be if not given.

    Raises:
        Refusal: If a name is unknown, or of one that needs a probe batch where there is none.
    """
    found = [losses, *_of_training(model, places, processes)]
    for each in found:
        each.compiled = compiled
    if probe is not None and is_sharded(model):
        why = "one process alone cannot run a model whose weights are sharded"
        losses.notes = (Skipped(OWN, "sharpness and profile", why),)
    elif probe is not None:
        if probe.loss is not None and probe.targets is not None:
            found.append(Sharpness(model, places, probe, _generator()))
        if views:
            found.append(Profiles(model, probe, views))
    names = [p.name for p in found]
    unknown = [name for name in only or () if name not in names]
    if unknown:
        raise Refusal(
            f"`only` must name some of {', '.join(names[1:])}, got {printable(unknown[0])!r}. "
            "`sharpness` needs `probe_batch`, `targets` and `loss`; `profile` needs `probe_batch`."
        )
    return [p for p in found if only is None or p is losses or p.name in only]


def _of_training(model: nn.Module, places: Sequence[Place], processes: Processes) -> list[Probe]:
    squares = Squares(places, processes)
    by_turns = (
        Representations(model, processes),
        WeightSpectra(model, processes, _generator()),
        Balances(model, places, processes),
    )
    return [
        Gradients(squares),
        Updates(squares),
        Activations(model),
        Attention(model),
        *(probe for probe in by_turns if len(probe)),
    ]


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(SEED)
