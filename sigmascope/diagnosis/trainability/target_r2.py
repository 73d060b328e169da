"""How much the outputs of a network tell of its targets."""

from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.probes.samples import class_dim

ROWS = 512  # samples or tokens whose outputs are compared with targets
FEWEST = 2  # classes between which one can be right
RIDGE = 1e-6  # of the mean squared column


def target_share(output: Float[Tensor, "..."], targets: Any) -> tuple[float, float]:
    """How much outputs tell of targets: by any linear map, and as they are.

    Args:
        output: A row a sample (or a row of scores for every class).
        targets: Classes, or values.

    Returns:
        Share of the variance of the targets that a linear map of the outputs explains, from 0 to 1;
        and the coefficient of the centred targets in the centred outputs. For classes the second is
        taken column by column, and for targets of another kind both are 0.
    """
    rows = _as_rows(output, targets)
    if rows is None:
        return 0.0, 0.0
    X, Y, same = rows
    total, size = float(Y.square().sum()), float(X.square().sum())
    if total == 0 or size == 0:
        return 0.0, 0.0
    wide = X.shape[1] > len(X)
    gram = X @ X.mT if wide else X.mT @ X
    ridge = RIDGE * size / X.shape[1] * torch.eye(len(gram), dtype=gram.dtype)
    cross = gram @ Y if wide else X.mT @ Y
    solved = torch.linalg.solve(gram + ridge, cross)
    told = float(((Y if wide else cross) * solved).sum()) / total
    return min(1.0, max(0.0, told)), float((same * Y).sum()) / total


def right_share(output: Float[Tensor, "..."], targets: Any) -> float | None:
    """How often the largest score is that of the class, above what one constant answer gets.

    Args:
        output: As for `target_share`.
        targets: As for `target_share`.

    Returns:
        0 for as many right answers as the most frequent class alone gets, 1 for all; None where the
        targets are not classes, or there is one only.
    """
    pairs = thinned(output, targets)
    if pairs is None or pairs[1].is_floating_point() or pairs[0].shape[-1] < FEWEST:
        return None
    scores, classes = pairs
    counted = (classes >= 0) & (classes < scores.shape[-1])
    scores, classes = scores[counted], classes[counted]
    most = torch.bincount(classes.long()).max().item() / len(classes) if len(classes) else 1.0
    if most == 1:
        return None
    right = (scores.argmax(-1) == classes).double().mean().item()
    return max(0.0, (right - most) / (1 - most))


def thinned(output: Tensor, targets: Any, most: int = ROWS) -> tuple[Tensor, Tensor] | None:
    """Outputs and their targets as rows, of which at most so many are taken; None if they differ.

    Values keep all their rows, one a sample.
    """
    if not isinstance(targets, Tensor):
        return None
    if targets.is_floating_point():
        X, Y = output.reshape(len(output), -1), targets.reshape(len(targets), -1)
        return (X, Y) if X.shape == Y.shape else None
    if class_dim(output, targets) == 1:
        output = output.movedim(1, -1)
    scores, classes = output if output.ndim < 3 else output.flatten(0, -2), targets.flatten()
    if scores.ndim != 2 or len(scores) != len(classes) or not len(classes):
        return None
    step = -(-len(classes) // most)
    return scores[::step], classes[::step].to(scores.device)


def _as_rows(
    output: Tensor, targets: Any
) -> tuple[Float64[Tensor, "n k"], Float64[Tensor, "n c"], Float64[Tensor, "n c"]] | None:
    """Outputs, targets and the outputs that belong to them, centred; at most `ROWS` rows."""
    pairs = thinned(output, targets)
    if pairs is None or not bool(pairs[0].isfinite().all()):
        return None
    scores, wanted = pairs
    if wanted.is_floating_point():
        same = _centred(scores)
        return same, _centred(wanted), same
    present = wanted.unique()
    present = present[(present >= 0) & (present < scores.shape[-1])]
    return (
        _centred(scores),
        _centred(wanted[:, None] == present),
        _centred(scores[:, present]),
    )


def _centred(rows: Tensor) -> Float64[Tensor, "n k"]:
    wide = rows.double().cpu()
    return wide - wide.mean(0)
