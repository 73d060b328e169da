"""Readings of the task: whether inputs, outputs, targets and loss suit one another."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.probes import OUTPUT, Subject
from sigmascope.probes.samples import Loss
from sigmascope.records import Estimate, Item, Reading, View

VIEW: View = "setup"
NEIGHBOURS, PERMUTATIONS, RIDGE = 5, 200, 1e-2
FEWEST = 48  # samples with which chance can be told from a signal
MOST = 512  # samples that are compared with one another
CLOSING = {  # what the output comes from, by the last step of autograd
    "Softmax": "ends in softmax",
    "Sigmoid": "ends in sigmoid",
    "Tanh": "ends in tanh",
    "Relu": "ends in ReLU",
}
RANGES = {
    "ends in softmax": (0.0, 1.0),
    "ends in sigmoid": (0.0, 1.0),
    "ends in tanh": (-1.0, 1.0),
    "ends in ReLU": (0.0, math.inf),
}


def task_items(subject: Subject) -> Iterator[Item]:
    """Size of the inputs; targets that they tell, that the outputs can reach; the first loss."""
    read = next((c.input for c in subject.calls if c.input.is_floating_point()), None)
    first = next((c.site for c in subject.calls), "")
    rows = None
    if read is not None and first in subject.activations:
        rows = subject.activations[first].samples
        if rows is not None and bool(rows.isfinite().all()):
            size = rows.double().square().mean().sqrt().item()
            yield Reading(first, "input size", Estimate.rounded(size, ulps=64), VIEW)
    loss, targets = subject.loss, subject.targets
    if loss is None or not isinstance(targets, Tensor):
        return
    wanted = target_rows(targets, subject.count)
    if wanted is None:
        return
    if targets.is_floating_point():
        size = targets.double().square().mean().sqrt().item()
        yield Reading("(targets)", "target size", Estimate.rounded(size, ulps=64), VIEW)
    yield from _reach(subject, targets, loss, wanted)
    if rows is not None and bool(rows.isfinite().all()) and subject.count >= FEWEST:
        yield from _told_by_inputs(subject, first, rows, wanted)


def _told_by_inputs(
    subject: Subject, first: str, rows: Tensor, wanted: Float64[Tensor, "n k"]
) -> Iterator[Item]:
    """What inputs tell of the targets, and layer by layer what representations do."""
    signal = target_signal(rows, wanted)
    if signal is not None:
        yield Reading(first, "target signal", Estimate.rounded(signal, ulps=64), VIEW)
    for site, both in subject.activations.items():
        if both.samples is not None and bool(both.samples.isfinite().all()):
            alignment = target_alignment(both.samples, wanted)
            if alignment is not None:
                yield Reading(site, "target alignment", Estimate.rounded(alignment, ulps=64), VIEW)


def target_rows(targets: Tensor, count: int) -> Float64[Tensor, "n k"] | None:
    """Targets as centred rows: one column for each class or value; None if they are neither."""
    if len(targets) != count or count < 2:
        return None
    if targets.is_floating_point():
        Y = targets.detach().double().reshape(count, -1).cpu()
    elif targets.ndim == 1:
        classes = targets.unique()
        Y = (targets.cpu()[:, None] == classes.cpu()).double()
    else:
        return None
    Y = Y - Y.mean(0)
    return Y if bool(Y.isfinite().all()) and bool(Y.any()) else None


def target_alignment(rows: Tensor, wanted: Float64[Tensor, "n k"]) -> float | None:
    """Centred alignment between the Gram matrix of some rows and that of the targets, less chance.

    Permuted targets have `tr K tr L / ((n - 1) |K| |L|)` on average, which is much where rows are
    many and wide; that is taken off, and what is left is divided by what could be left.

    Returns:
        1 for the targets themselves, about 0 for rows that have nothing to do with them; None if
        the rows are all the same.

    Source:
        Cortes, Mohri & Rostamizadeh 2012, Definition 4; the mean over permutations is arithmetic.
    """
    X = rows.detach().double().cpu()
    X = X - X.mean(0)
    largest = X.abs().amax().item()
    if not largest > 0:
        return None
    X = X / largest
    wide = X.shape[1] > len(X)
    own = (X @ X.mT if wide else X.mT @ X).norm().item()
    theirs = (wanted.mT @ wanted).norm().item()
    chance = (X.square().sum() * wanted.square().sum()).item() / (len(X) - 1)
    room = own * theirs - chance
    if not room > 1e-9 * own * theirs:
        return None
    return min(1.0, ((X.mT @ wanted).square().sum().item() - chance) / room)


def target_signal(rows: Tensor, wanted: Float64[Tensor, "n k"]) -> float | None:
    """How much more of the targets the inputs tell than chance would, in standard deviations.

    The larger of two: the agreement of a sample with its five nearest others, and what ridge
    regression predicts of samples left out. Each is compared with the same after the targets were
    permuted, 200 times.

    Args:
        rows: Inputs, one row a sample.
        wanted: Targets, centred.

    Returns:
        About 0 where the targets have nothing to do with the inputs; None if all rows are equal.
    """
    X, Y = rows[:MOST].detach().double().cpu(), wanted[:MOST]
    X = X - X.mean(0)
    size = X.square().mean().sqrt().item()
    if not size > 0 or not bool(Y.any()):
        return None
    X = X / size
    n = len(X)
    near = torch.cdist(X, X).fill_diagonal_(math.inf).topk(min(NEIGHBOURS, n - 1), largest=False)
    gram = X @ X.mT
    ridge = RIDGE * gram.diagonal().mean()
    hat = gram @ torch.linalg.inv(gram + ridge * torch.eye(n, dtype=gram.dtype))
    left_out = (torch.eye(n, dtype=hat.dtype) - hat) / (1 - hat.diagonal())[:, None]
    generator = torch.Generator().manual_seed(0)
    found = [_told(Y, near.indices, left_out)]
    found += [
        _told(Y[torch.randperm(n, generator=generator)], near.indices, left_out)
        for _ in range(PERMUTATIONS)
    ]
    both = torch.tensor(found, dtype=torch.float64)
    chance = both[1:]
    return ((both[0] - chance.mean(0)) / chance.std(0).clamp(min=1e-12)).amax().item()


def _told(
    Y: Float64[Tensor, "n k"], near: Tensor, left_out: Float64[Tensor, "n n"]
) -> tuple[float, float]:
    agreement = (Y[near] * Y[:, None]).sum().item()
    error = (left_out @ Y).square().sum().item()
    return agreement, -math.log(error) if error > 0 else 700.0


def _reach(
    subject: Subject, targets: Tensor, loss: Loss, wanted: Float64[Tensor, "n k"]
) -> Iterator[Item]:
    """The first loss next to the best constant's, and what no weights could reach."""
    output = subject.output
    if not bool(output.isfinite().all()):
        return
    now, constant = _value(loss, output, targets), constant_loss(output, targets, loss)
    if constant > 0 and math.isfinite(now):
        ratio = Estimate.rounded(max(now, 0.0) / constant, ulps=2**20)
        yield Reading("(loss)", "first loss over a constant's", ratio, VIEW)
    closing = CLOSING.get(subject.closing_operation, "")
    if closing:
        yield Reading(OUTPUT, closing, Estimate.exactly(1.0), VIEW)
        best = _nearest(output, targets, *RANGES[closing])
        if best is not None and constant > 0:
            left = max(_value(loss, best, targets), 0.0) / constant
            yield Reading(OUTPUT, "out of reach", Estimate.rounded(left, ulps=64), VIEW)
    last = [c for c in subject.calls if c.input.is_floating_point()][-1:]
    if targets.is_floating_point() and last and targets.shape == output.shape:
        width = last[0].input.shape[-1]
        s = torch.linalg.svdvals(wanted).square()
        if type(last[0].module).__name__ == "Linear" and width < len(s) and not closing:
            lost = (s[width:].sum() / s.sum()).item()
            yield Reading(
                last[0].site, "variance out of reach", Estimate.rounded(lost, ulps=64), VIEW
            )


def _nearest(output: Tensor, targets: Tensor, low: float, high: float) -> Tensor | None:
    """The outputs within a range that fit the targets best."""
    if targets.is_floating_point():
        return targets.to(output).clamp(low, high) if targets.shape == output.shape else None
    if targets.ndim == 1 and output.ndim == 2 and high < math.inf:
        best = torch.full_like(output, low)
        return best.scatter(1, targets[:, None].long(), high)
    return None


def _value(loss: Loss, output: Tensor, targets: Any) -> float:
    with torch.no_grad():
        return float(loss(output.detach(), targets))


def constant_loss(output: Tensor, targets: Any, loss: Loss) -> float:
    """The least loss of an output that is the same for every sample; infinite if it fails."""
    one = torch.zeros_like(output[:1], requires_grad=True)
    best = torch.optim.LBFGS([one], max_iter=40, line_search_fn="strong_wolfe")

    def value() -> Tensor:
        best.zero_grad()
        found = loss(one.expand(output.shape), targets)
        (one.grad,) = torch.autograd.grad(found, [one])  # a loss may have weights of its own
        return found

    with torch.enable_grad():
        best.step(value)
        return value().item()
