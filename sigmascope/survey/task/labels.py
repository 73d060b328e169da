"""What kind of thing targets are, told by their values and by the shape of the output."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from sigmascope.probes.samples import IGNORED, class_dim

FEWEST, MOST = 3, 200  # distinct whole numbers on one column that may be classes
REPEATED = 4.0  # times that each of them occurs, on average

Kind = Literal["classes", "one of many", "several of many", "yes or no", "ids as values", "values"]


@dataclass(frozen=True, slots=True)
class Labels:
    """Targets, as a loss is meant to compare them with an output.

    Attributes:
        kind: `"classes"` are whole numbers, one for each row of scores; `"one of many"` rows of 0
            with a single 1; `"several of many"` rows with any number of ones; `"yes or no"` one
            column of 0 and 1; `"ids as values"` one column of few whole numbers that come again
            and again; everything else is `"values"`.
        distinct: How many different ones there are: of numbers for `"yes or no"`, else of rows.
        dim: The dimension of the output that counts classes.
        wanted: `[*output]`, where the output should be one; None for values, and where shapes do
            not tell.
        counted: `[*output]` without `dim`, what the loss does not leave out; None as above.
    """

    kind: Kind
    distinct: int
    dim: int = -1
    wanted: Bool[Tensor, "..."] | None = None
    counted: Bool[Tensor, "..."] | None = None

    @property
    def exclusive(self) -> bool:
        """Whether exactly one of several classes holds for each row."""
        return self.kind in ("classes", "one of many") and (
            self.wanted is None or self.wanted.shape[self.dim] > 1
        )


def labels_of(output: Tensor, targets: Tensor) -> Labels | None:
    """What targets are; None where they are no numbers, or fit no shape of the output."""
    if targets.is_complex() or targets.numel() == 0 or output.ndim == 0:
        return None
    if not targets.is_floating_point() and targets.shape != output.shape:
        return _classes(output, targets)
    values = targets.detach().double()
    distinct = len(values.reshape(len(values), -1).unique(dim=0))
    binary = bool(((values == 0) | (values == 1)).all())
    same = targets.shape == output.shape
    wide = targets.ndim > 1 and targets.shape[-1] > 1 and not _is_picture(targets)
    wanted = values.bool() if binary and same else None
    if binary and wide:
        one = bool((values.sum(-1) == 1).all())
        return Labels("one of many" if one else "several of many", distinct, wanted=wanted)
    if binary:
        return Labels("yes or no", len(values.unique()), wanted=wanted)
    return Labels("ids as values" if _are_ids(values) else "values", distinct)


def _is_picture(targets: Tensor) -> bool:
    """Masks of pictures: their last dimension counts columns, not classes."""
    return targets.ndim > 3


def _are_ids(values: Tensor) -> bool:
    if values[0].numel() != 1 or not bool((values == values.round()).all()):
        return False
    distinct = len(values.unique())
    few = FEWEST <= distinct <= MOST and values.numel() >= REPEATED * distinct
    start = float(values.min())
    return few and start in (0.0, 1.0) and distinct >= 0.5 * (float(values.max()) - start + 1)


def _classes(output: Tensor, targets: Tensor) -> Labels | None:
    ids = targets.detach().long()
    counted = ids != IGNORED
    if not bool(counted.any()):
        return None
    distinct = len(ids[counted].unique())
    dim = class_dim(output, ids)
    if dim is None:
        return Labels("classes", distinct)
    scores = output.movedim(dim, -1)
    inside = counted & (ids >= 0) & (ids < scores.shape[-1])
    wanted = torch.zeros(scores.shape, dtype=torch.bool, device=output.device)
    safe = ids.clamp(0, scores.shape[-1] - 1).to(output.device)
    wanted.scatter_(-1, safe.reshape(*scores.shape[:-1], 1), inside[..., None].to(output.device))
    return Labels("classes", distinct, dim, wanted.movedim(-1, dim), counted)
