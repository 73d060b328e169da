"""What single samples have of their own: gradients in the last layer, outputs, Jacobians."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief
from sigmascope.linalg import dense
from sigmascope.models.layers import Unsplit, explaining, rounding, transposed
from sigmascope.models.samples import mapped, tensors
from sigmascope.models.tape import Scene, Taped
from sigmascope.models.weights import patches

UNITS = 32  # rows of the last weight matrix that are compared at most
TOGETHER = 2**18  # cosines that are held at once


@dataclass(frozen=True, slots=True, repr=False)
class Collinearity(Brief):
    """Absolute cosines between gradients of single samples, row by row of the last weight matrix.

    Attributes:
        site: The last layer.
        pairs: Pairs of samples, once for every row of the weight matrix compared, of which neither
            gradient is zero.
        least: Smallest `|cos|` of these; infinite where there are none.
        mean: Their mean; zero where there are none. Either is nan where gradients overflow.
        zero: Pairs left out.
        rows: Rows of the last layer's input, one per sample, where it has one position; else None.
        error: Bound on the rounding of one cosine.
    """

    site: str
    pairs: int
    least: float
    mean: float
    zero: int
    rows: Float[Tensor, "n d"] | None
    error: float


@dataclass(frozen=True, slots=True)
class LastGradients:
    """Gradients of single samples in the last layer, of some rows of its weight matrix.

    Attributes:
        site: The last layer.
        lines: What they are multiples of: that of a sample itself, where the layer reads one
            position, and else one for each row.
        multiples: By which number, for each row on a line.
        rows: As those of `Collinearity`.
        error: Likewise.
    """

    site: str
    lines: Float64[Tensor, "n lines inputs"]
    multiples: Float64[Tensor, "n lines each"]
    rows: Float[Tensor, "n d"] | None
    error: float


def last_gradients(run: Taped, pull: Tensor | None = None) -> LastGradients:
    """The gradients of single samples in the last layer that a model calls.

    Args:
        run: With targets and a loss, and a tape that is kept.
        pull: The derivative of the loss by the output, samples first, where the run has only some.

    Raises:
        Refusal: If the loss does not accept the targets, or is not a scalar.
        Unsplit: If the last layer's gradient cannot be split.
    """
    if not run.layers:
        raise Unsplit("no layer is called on this batch")
    last = run.layers[-1]
    part = None if pull is None else run.scene.split(run.output)
    value = (
        run.scene.value(run.output.clone()) if part is None else part
    )  # a loss may work in place
    if not value.requires_grad:
        raise Unsplit("the loss does not depend on any weight or layer, by autograd")
    if not last.output.requires_grad:
        raise Unsplit(f"the last layer `{last.site}` is called without gradients")
    with explaining():
        (delta,) = torch.autograd.grad(
            value, last.output, pull, retain_graph=True, allow_unused=True
        )
    if delta is None:
        raise Unsplit(f"the loss does not depend on what the last layer `{last.site}` writes")
    x, d = run.scene.split(last.input), run.scene.split(delta)
    applies = not isinstance(last.module, nn.Embedding) and not transposed(last.module)
    if x is None or d is None or not (applies and last.is_linear):
        kind = type(last.module).__name__
        raise Unsplit(f"the gradient of {kind}, the last layer, cannot be taken sample by sample")
    # `Σ_p δ_pk a_p`: the gradient of row k of the weight matrix, for every sample
    a, deltas = x.double(), d.double()
    if isinstance(last.module, _ConvNd):
        cut = patches(last.module, a)  # [n, g, w, p]
        by_group = deltas.flatten(2).unflatten(1, (last.module.groups, -1))[:, :, :UNITS]
        lines = (by_group @ cut.mT).flatten(1, 2)[:, :UNITS]
    elif a.ndim > 2:
        lines = deltas.flatten(1, -2)[:, :, :UNITS].mT @ a.flatten(1, -2)
    else:
        lines = a[:, None]
    alone = a.ndim == 2
    multiples = deltas[:, None, :UNITS] if alone else torch.ones_like(lines[:, :, :1])
    error = 16 * torch.finfo(last.input.dtype).eps
    return LastGradients(last.site, lines, multiples, x.detach() if alone else None, error)


def collinearity(parts: Sequence[LastGradients]) -> Collinearity:
    """Compare the gradients of all samples, which come in parts."""
    first = parts[0]
    kept = [p.rows for p in parts if p.rows is not None]
    read = torch.cat(kept) if kept else None
    # pairs with a direction, their least and mean `|cos|`, and pairs without; in blocks
    lines, multiples = (
        torch.cat(each) for each in zip(*((p.lines, p.multiples) for p in parts), strict=True)
    )
    n, count, each = multiples.shape
    top = lines.abs().amax(2, keepdim=True)
    scaled = lines / torch.where(top > 0, top, 1.0)
    unit = scaled / torch.where(top > 0, scaled.norm(dim=2, keepdim=True), 1.0)
    unit = unit.masked_fill(multiples.isinf().any(2, keepdim=True), torch.nan)
    there = ((top > 0) & (multiples.abs() > 0)).double().transpose(0, 1)  # [lines, n, each]
    V, place = unit.transpose(0, 1), torch.arange(n, device=lines.device)
    least, total, pairs = V.new_tensor(torch.inf), V.new_zeros(()), 0
    for some in place.split(max(1, TOGETHER // (n * count))):
        # all of them, and not those apart alone: to pick them takes longer than the products
        cosines = (V[:, some] @ V.mT).abs_().clamp_(max=1)
        rows = (there[:, some] @ there.mT).masked_fill_(place <= some[:, None], 0)  # of each pair
        none = rows == 0
        total = total + (cosines.masked_fill_(none, 0.0) * rows).sum()
        least = torch.minimum(least, cosines.masked_fill_(none, torch.inf).min())
        pairs += int(rows.sum())
    mean, zero = float(total) / pairs if pairs else 0.0, count * each * n * (n - 1) // 2 - pairs
    return Collinearity(first.site, pairs, float(least), mean, zero, read, first.error)


# ------------------------------------------------------------------------------
# Whether the output for one sample depends on the other samples of the batch.


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
    two of models that ask for numbers in which samples may have a part (`NumbersAsked`).
    """
    before = whole.rows
    if scene.count < 2 or before is None:
        return ""
    halves = _halves(scene.count)
    fine = min(rounding(before.dtype, ROUNDINGS), COARSE)
    # samples to run again, in places that they did not have, and without the others; two samples
    # can have only one of both, and where they trade places nothing is missing
    half = halves[0][0]
    if scene.count == 2:
        again = torch.tensor([1]), torch.tensor([1, 0])
    elif scene.count < FEW:
        again = (torch.arange(scene.count - len(half), scene.count).flip(0),)
    else:
        again = (half.sort().values.roll(-1),)
    asked = NumbersAsked()
    if not whole.leaks and all(
        _same(before, _alone(scene, rows, asked), rows, fine) for rows in again
    ):
        if not asked.numbers:
            return ""
        # whether samples fare otherwise among those of small, or large, sums or norms
        parts = [p for t in tensors(scene.batch) if (p := scene.split(t)) is not None and p.numel()]
        if not parts:
            return ""
        # halves of the samples: of the smallest and the largest sums, and norms
        told = parts[0].detach().flatten(1).double().cpu()
        orders = [sizes.nan_to_num().argsort() for sizes in (told.sum(1), told.square().sum(1))]
        size = (scene.count + 1) // 2
        ends = [end.sort().values for o in orders for end in (o[:size], o[-size:])]
        for rows in {tuple(end.tolist()): end for end in ends}.values():  # sums and norms may agree
            after = _alone(scene, rows)
            if after is None or after.shape != before[rows].shape:
                continue
            if _differ(before[rows], after.cpu(), fine):
                return (
                    "the output for a sample changes when other samples of the batch are left out"
                )
        return ""
    eps = rounding(before.dtype, ROUNDINGS)
    for ours, others in halves:
        copied = torch.arange(scene.count)
        copied[others] = ours.repeat(2)[: len(others)]
        after = _outputs(scene, copied)
        if after is None or _differ(before[ours], after.cpu()[ours], eps):
            return "the output for a sample changes when other samples of the batch are exchanged"
    if whole.leaks:
        return "the output for a sample has a gradient by other samples of the batch"
    turned = torch.arange(scene.count).roll(1)
    after = _outputs(scene, turned)
    if after is not None and _differ(before[turned], after.cpu(), eps):
        return "the output for a sample changes with its place in the batch"
    alone = _alone(scene, half)
    if alone is None or alone.shape != before[half].shape:
        return ""
    if _differ(before[half], alone.cpu(), max(COARSE, eps)):
        return "the output for a sample changes with the number of samples in the batch"
    return ""


class NumbersAsked(TorchFunctionMode):
    """Notes whether a tensor was asked for a number that samples may have a part in.

    As where a program branches on it. What is made of no tensor, as positions are, and of such ones
    alone, is the same whatever the samples are: to ask it tells nothing. Once anything else may
    have been written into one of these, nothing is taken for one any more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers = self._mingled = False
        self._fixed: Any = WeakIdKeyDictionary()  # tensors that no sample has a part in

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it, and note what it is."""
        made_of = [t in self._fixed for t in tensors((args, kwargs))]
        fixed = all(made_of) and not self._mingled
        if any(made_of) and not fixed:
            # whether it may write into what it is given, by torch's names for such
            name = getattr(func, "__name__", "_")
            inside = name.endswith("_") and not name.endswith("__")
            if inside or name.startswith(("__i", "__set")) or "out" in (kwargs or {}):
                self._mingled = True  # views of it share its memory
        self.numbers |= func in ASKING and not fixed
        result = func(*args, **(kwargs or {}))
        for made in tensors(result) if fixed else ():
            self._fixed[made] = True
        return result


@dataclass(frozen=True, slots=True)
class Extent:
    """How samples mix.

    Attributes:
        change: Root mean square of the change of one half's outputs when the other half is
            exchanged for copies of the first, over the differences between samples.
        compares: Whether there is an output for every pair of samples: as many columns as samples,
            whatever their number.
        alike: Whether outputs are the same for all samples, up to rounding, so that nothing tells
            them apart and no change could be seen.
    """

    change: float
    compares: bool
    alike: bool = False


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
    alike = spread <= COARSE * float(rows.double().square().mean().sqrt())
    return Extent(0.0 if alike else moved / spread, compares, alike)


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
    if after is None or after.shape != before[rows].shape or not dense.is_finite(after):
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
    if torch.equal(one, other):  # as they mostly are; it is the cheapest of all these questions
        return False
    a, b = one.double(), other.double()
    both = a.isfinite() & b.isfinite()
    if not bool(both.any()):
        return False
    scale = float(torch.maximum(a[both].abs(), b[both].abs()).amax())
    return float((a[both] - b[both]).abs().amax()) > min(tolerance, 0.25) * scale


# ------------------------------------------------------------------------------
# Singular values of the derivative of the output by the input, sample by sample.


MOST = 64  # outputs, or random mixtures of them, that are differentiated


@dataclass(frozen=True, slots=True, repr=False)
class Jacobians(Brief):
    """`∂f(x)/∂x` of every sample.

    Attributes:
        sigma: Singular values, descending; as many as the rank can be, or as there are mixtures.
        by: What the derivative is by: the input, or what the first layer writes of token ids.
        mixtures: How many random orthonormal mixtures of the outputs stand for them, if not all do.
    """

    sigma: Float64[Tensor, "n r"]
    by: str
    mixtures: int | None


def jacobians(scene: Scene, generator: torch.Generator) -> Jacobians:
    """One forward pass, and one backward pass for each output or mixture.

    Args:
        scene: All samples.
        generator: Draws the mixtures, if there are more outputs than 64.

    Raises:
        Refusal: If samples cannot be told apart, or the output depends on no input.
    """
    found: list[Tensor] = []
    by, mix, mixed = "the input", None, None
    floating = [t for t in tensors(scene.batch) if t.is_floating_point()]
    width = sum(t[0].numel() for t in floating if t.ndim)
    size = scene.fitting(entries=scene.count * max(width, 1), columns=MOST)
    for piece, _ in scene.pieces(size):
        with explaining(), with_leaves(piece).on_tape() as run:
            sources = [t for t in tensors(run.scene.batch) if t.requires_grad]
            if not sources:
                sources, by = [run.calls[0].output], f"what {run.calls[0].site} writes"
            if mix is None:
                outputs = run.flat.shape[1]
                mix = torch.eye(outputs, dtype=torch.float64)
                if outputs > MOST:  # random orthonormal mixtures
                    normal = torch.randn(outputs, MOST, generator=generator, dtype=torch.float64)
                    mix = torch.linalg.qr(normal)[0].mT * math.sqrt(outputs / MOST)
                mix = mix.to(run.flat)
            found.append(_sigma(run, sources, mix))
            mixed = None if len(mix) == run.flat.shape[1] else len(mix)
    return Jacobians(torch.cat(found), by, mixed)


def _sigma(run: Taped, sources: list[Tensor], mix: Tensor) -> Float64[Tensor, "n r"]:
    flat, count = run.flat, run.scene.count
    if not flat.requires_grad:
        raise Refusal("The output must depend on the input, got one that does not.")
    rows: list[Tensor] = []
    for i, weights in enumerate(mix):
        last = i == len(mix) - 1
        pulled = torch.autograd.grad(
            (flat @ weights).sum(), sources, retain_graph=not last, allow_unused=True
        )
        split = [run.scene.split(g) for g in pulled if g is not None]
        if not split or any(g is None for g in split):
            raise Refusal(
                "Every input that the output depends on must have one row per sample, got one "
                "that has not. Pass a batch whose tensors all have the batch dimension."
            )
        rows.append(torch.cat([g.reshape(count, -1) for g in split if g is not None], dim=1))
    J = torch.stack(rows, dim=1).double()
    return dense.singular_values(J).cpu()
