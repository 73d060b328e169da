"""Whether a source that was changed makes the program that a cure tried."""

import math
from typing import Any

import torch
from torch import Tensor

from sigmascope.diagnosis.cures.trials import Cure
from sigmascope.diagnosis.programs.opened import Opened, opened
from sigmascope.diagnosis.programs.program import Program
from sigmascope.gate import Refusal

CLOSE = 0.01  # relative difference of a rate that is printed with three digits


def agrees(made: Program, cure: Cure, *, samples: int) -> bool:
    """Whether a program is the one that a cure made, but for the draws of new weights.

    Args:
        made: By the changed source.
        cure: With the program that was tried.
        samples: On how many samples targets are compared.
    """
    mine, theirs = made.recipe(), cure.program.recipe()
    if mine is None or theirs is None or mine.name != theirs.name:
        return False
    try:
        ours, known = (opened(p, samples=samples) for p in (made, cure.program))
    except Refusal:
        return False
    same = (
        math.isclose(mine.rate, theirs.rate, rel_tol=CLOSE),
        str(made.model) == str(cure.program.model),
        (ours.size, ours.planned, ours.unfit) == (known.size, known.planned, known.unfit),
        _alike(ours.targets, known.targets),
    )
    return all(same) and _same_loss(ours, known)


def _alike(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return one is other
    return one.dtype == other.dtype and torch.equal(one, other)


def _same_loss(one: Opened, other: Opened) -> bool:
    """Whether two losses say the same of outputs that are made up."""
    made = torch.rand(one.shape, generator=torch.Generator().manual_seed(0))
    try:
        return bool(one.loss(made, one.targets) == other.loss(made, other.targets))
    except Exception:  # noqa: BLE001 (a loss raises anything of outputs of another shape)
        return False
