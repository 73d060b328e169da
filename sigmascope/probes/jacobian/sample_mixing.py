"""Whether the output for one sample depends on the other samples of the batch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from sigmascope.linalg import sums
from sigmascope.probes.execution.rounding import rounding
from sigmascope.probes.samples.batches import mapped, tensors
from sigmascope.probes.scene import Scene, Taped

ROUNDINGS = 256  # of the largest output, by which a row computed twice in its place may differ
COARSE = 1e-2  # the same where another number of rows lets other kernels run
ASKING = frozenset(
    getattr(Tensor, name)
    for name in ("__bool__", "__float__", "__int__", "__index__", "item", "tolist", "numpy")
)
FEW = 4  # samples below which a half dealt at random may stand in its own places


@dataclass(frozen=True, slots=True)
class Whole:
    """What a run on the whole batch tells.

    Attributes:
        rows: Outputs, samples first; None where they cannot be split.
        leaks: Whether the outputs of one half have a gradient by the other half.
    """

    rows: Tensor | None
    leaks: bool


def with_leaves(scene: Scene) -> Scene:
    """The same with a batch that can be differentiated by, where it holds floating numbers."""

    def leaf(t: Tensor) -> Tensor:
        return t.detach().requires_grad_() if t.is_floating_point() else t

    return replace(scene, batch=mapped(scene.batch, leaf))


def _halves(count: int) -> tuple[tuple[Tensor, Tensor], ...]:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    first, second = order[: (count + 1) // 2], order[(count + 1) // 2 :]
    return (first, second), (second, first)


def leaking(run: Taped) -> Whole:
    """Whether the outputs of either half of the samples have a gradient by the other.

    Args:
        run: Of a scene `with_leaves`, with a tape that is kept.
    """
    out = run.scene.split(run.output)
    if out is None or run.scene.count < 2:
        return Whole(None, leaks=False)
    leaves = [t for t in tensors(run.scene.batch) if t.requires_grad]
    sources = leaves or [c.output for c in run.calls[:1]]
    halves = _halves(run.scene.count)
    leaks = any(_leaks(run.scene, out, sources, *half) for half in halves)
    return Whole(out.detach().cpu(), leaks)


def mixing(scene: Scene, whole: Whole) -> str:
    """How samples mix, as the end of a sentence on the model; empty where they do not.

    Half of the samples, dealt at random, are run in other places than they had. If their outputs
    are the same up to rounding, and the outputs of either half have no gradient by the other,
    nothing mixes: neither the others nor their number nor the place of a sample tell. If not,
    either half is run with copies of itself in the place of the other: the first also sees what
    `detach` hides from the gradient. Then all are run in other places, and last one half alone.
    A model that asks a tensor for a number may go another way by it (`if x.sum() > 0`), which half
    of the samples at random need not show: those are run whose sums and norms are unlike all.

    Args:
        scene: All samples.
        whole: From `leaking`.

    Cost: half a forward pass, one and a half of two samples; four more if that leaves doubts, and
    two of models that ask for numbers.
    """
    before = whole.rows
    if scene.count < 2 or before is None:
        return ""
    halves = _halves(scene.count)
    fine = min(rounding(before.dtype, ROUNDINGS), COARSE)
    again = _elsewhere(halves[0][0], scene.count)
    asked = NumbersAsked()
    if not whole.leaks and all(
        _same(before, _alone(scene, rows, asked), rows, fine) for rows in again
    ):
        return _branching(scene, before, fine) if asked.numbers else ""
    eps = rounding(before.dtype, ROUNDINGS)
    for ours, others in halves:
        copied = torch.arange(scene.count)
        copied[others] = ours.repeat(2)[: len(others)]
        after = _outputs(scene, copied)
        if after is None or _differ(before[ours], after.cpu()[ours], eps):
            return "the output for a sample changes when other samples of the batch are exchanged"
    if whole.leaks:
        return "the output for a sample has a gradient by other samples of the batch"
    return _place_or_number(scene, before, halves[0][0], eps)


class NumbersAsked(TorchFunctionMode):
    """Notes whether a tensor was asked for its number, as where a program branches on it."""

    numbers = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it, and note what it is."""
        self.numbers |= func in ASKING
        return func(*args, **(kwargs or {}))


def _branching(scene: Scene, before: Tensor, tolerance: float) -> str:
    """Whether samples fare otherwise among those of small, or large, sums or norms."""
    for rows in _unlike(scene):
        after = _alone(scene, rows)
        if after is None or after.shape != before[rows].shape:
            continue
        if _differ(before[rows], after.cpu(), tolerance):
            return "the output for a sample changes when other samples of the batch are left out"
    return ""


def _unlike(scene: Scene) -> Iterator[Tensor]:
    """Halves of the samples: of the smallest and the largest sums, and norms."""
    parts = [p for t in tensors(scene.batch) if (p := scene.split(t)) is not None and p.numel()]
    if not parts:
        return
    rows = parts[0].detach().flatten(1).double().cpu()
    half = (scene.count + 1) // 2
    for sizes in (rows.sum(1), rows.square().sum(1)):
        order = sizes.nan_to_num().argsort()
        yield order[:half].sort().values
        yield order[-half:].sort().values


def _place_or_number(scene: Scene, before: Tensor, first: Tensor, tolerance: float) -> str:
    """Which of both tells, where the others do not; in the words of `mixing`."""
    turned = torch.arange(scene.count).roll(1)
    after = _outputs(scene, turned)
    if after is not None and _differ(before[turned], after.cpu(), tolerance):
        return "the output for a sample changes with its place in the batch"
    alone = _alone(scene, first)
    if alone is None or alone.shape != before[first].shape:
        return ""
    if _differ(before[first], alone.cpu(), max(COARSE, tolerance)):
        return "the output for a sample changes with the number of samples in the batch"
    return ""


@dataclass(frozen=True, slots=True)
class Extent:
    """How samples mix.

    Attributes:
        change: Root mean square of the change of one half's outputs when the other half is
            exchanged for copies of the first, over the differences between samples.
        compares: Whether there is an output for every pair of samples: as many columns as samples,
            whatever their number.
    """

    change: float
    compares: bool


def extent(scene: Scene, rows: Tensor) -> Extent:
    """How much samples mix, of a model in which they do.

    Args:
        scene: All samples.
        rows: The outputs, samples first.

    Cost: a forward pass and a half.
    """
    ours, others = _halves(scene.count)[0]
    alone = _alone(scene, ours)
    pairs = rows.ndim == 2 and rows.shape[1] == len(rows)
    compares = pairs and alone is not None and alone.shape == (len(ours), len(ours))
    copied = torch.arange(scene.count)
    copied[others] = ours.repeat(2)[: len(others)]
    after = _outputs(scene, copied)
    if after is None or after.shape != rows.shape:
        return Extent(0.0, compares)
    a, b = rows[ours].double(), after.cpu()[ours].double()
    spread = float((rows.double() - rows.double().mean(0)).square().mean().sqrt())
    moved = float((a - b).square().mean().sqrt())
    return Extent(moved / spread if spread > 0 else 0.0, compares)


def _elsewhere(half: Tensor, count: int) -> tuple[Tensor, ...]:
    """Samples to run again, in places that they did not have, and without the others.

    Two samples can have only one of both; where they trade places nothing is missing.
    """
    if count == 2:
        return torch.tensor([1]), torch.tensor([1, 0])
    if count < FEW:
        return (torch.arange(count - len(half), count).flip(0),)
    return (half.sort().values.roll(-1),)


def _outputs(scene: Scene, rows: Tensor, mode: NumbersAsked | None = None) -> Tensor | None:
    """Of some samples, which may come more than once."""
    with scene.chosen(rows).on_tape(grad=False, listen=False, watch=mode) as run:
        return run.scene.split(run.output.detach())


def _alone(scene: Scene, rows: Tensor, mode: NumbersAsked | None = None) -> Tensor | None:
    try:
        return _outputs(scene, rows, mode)
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):  # one size only
        return None


def _same(before: Tensor, after: Tensor | None, rows: Tensor, tolerance: float) -> bool:
    if after is None or after.shape != before[rows].shape or not sums.is_finite(after):
        return False
    return not _differ(before[rows], after.cpu(), tolerance)


def _leaks(scene: Scene, out: Tensor, sources: list[Tensor], ours: Tensor, others: Tensor) -> bool:
    """Whether the outputs of ours have a gradient by the others."""
    if not out.requires_grad or not sources:
        return False
    g = torch.Generator().manual_seed(1)
    mine = out[ours.to(out.device)]
    seed = torch.randn(mine.shape, generator=g).to(mine)
    try:
        found = torch.autograd.grad(mine, sources, seed, retain_graph=True, allow_unused=True)
    except RuntimeError:  # what cannot be differentiated is said where it is asked for
        return False
    for grad in found:
        rows = None if grad is None else scene.split(grad)
        if rows is not None:
            size = float(rows.abs().amax())
            theirs = float(rows[others.to(rows.device)].abs().amax())
            if theirs > rounding(rows.dtype, ROUNDINGS) * size:
                return True
    return False


def _differ(one: Tensor, other: Tensor, tolerance: float) -> bool:
    """Whether finite entries are apart by more than a share of the largest."""
    a, b = one.double(), other.double()
    both = a.isfinite() & b.isfinite()
    if not bool(both.any()):
        return False
    scale = float(torch.maximum(a[both].abs(), b[both].abs()).amax())
    return float((a[both] - b[both]).abs().amax()) > min(tolerance, 0.25) * scale
