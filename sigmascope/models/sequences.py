"""What a sequence model compares with what, and what its outputs depend on."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import scipy
import torch
from jaxtyping import Bool, Float, Float64, Shaped
from torch import Tensor, nn

from sigmascope.core.records import Brief, Estimate
from sigmascope.linalg import dense
from sigmascope.linalg.dense import EPS
from sigmascope.models.layers import rounding
from sigmascope.models.samples import Batch, Loss, mapped, tensors
from sigmascope.models.state import duplicate
from sigmascope.models.tape import Scene

__all__ = [
    "FEWEST",
    "Copied",
    "StepGradients",
    "copied",
    "counted",
    "ends",
    "inner_order",
    "later_inputs",
    "offset",
    "ordered",
    "slope",
    "step_gradients",
]

# ------------------------------------------------------------------------------
# Whether what a model writes at one place depends on what it reads at later ones.


ROUNDINGS = 4096  # of the largest output, by which the same numbers may differ
TOGETHER = 2**14  # columns of outputs that are compared at once


def later_inputs(scene: Scene, output: Tensor, *, name: str = "") -> float | None:
    """How far outputs change when inputs at later places are exchanged, next to their spread.

    The second half of every row is given to the next sample. What a causal model writes in the
    first half stays as it was.

    Args:
        scene: Samples along the first dimension, places along the second.
        output: What it wrote, `[samples, places, ...]`.
        name: The input that is changed: its key or number; empty where the batch is one tensor.

    Returns:
        Root mean square of the change over that of the differences between samples, in the first
        half of the places; 0 up to rounding, and None where there is no order to speak of.

    Cost: one forward pass.
    """
    length = output.shape[1] if output.ndim > 1 else 0
    half = length // 2
    if scene.batch_dim != 0 or scene.count < 2 or half < 1:
        return None
    batch = scene.batch

    def deal(t: Tensor) -> Tensor:
        if t.ndim < 2 or len(t) != scene.count or t.shape[1] <= half:
            return t
        return torch.cat([t[:, :half], t[:, half:].roll(1, 0)], 1)

    changed: Any
    if isinstance(batch, Tensor):
        changed = deal(batch)
    elif isinstance(batch, Mapping):
        changed = {key: mapped(part, deal) if key == name else part for key, part in batch.items()}
    else:
        parts: list[Any] = [*batch]
        parts[int(name)] = deal(parts[int(name)])
        changed = tuple(parts)
    return _change(scene, changed, output, lambda t: t[:, :half])


def inner_order(scene: Scene, output: Tensor) -> float | None:
    """How far outputs change when places but the first and the last change theirs among them.

    What reads by attention alone, and is told no positions, is given a set. Outputs at places are
    compared at both ends, whose inputs stay.

    Args:
        scene: Samples along the first dimension, ids of places along the second.
        output: What it wrote.

    Returns:
        As of `later_inputs`; None where there are no ids, or fewer than four places.

    Cost: one forward pass.
    """
    rows = (t for t in tensors(scene.batch) if t.ndim == 2 and not t.is_floating_point())
    length = next((t.shape[1] for t in rows if len(t) == scene.count), 0)
    if scene.batch_dim != 0 or scene.count < 2 or length < SHORT or output.ndim < 1:
        return None
    inner = 1 + torch.randperm(length - 2, generator=torch.Generator().manual_seed(0))
    if bool((inner == torch.arange(1, length - 1)).all()):
        inner = inner.flip(0)
    order = torch.cat([inner.new_zeros(1), inner, inner.new_full((1,), length - 1)])

    def deal(t: Tensor) -> Tensor:
        with_places = t.ndim > 1 and len(t) == scene.count and t.shape[1] == length
        return t[:, order.to(t.device)] if with_places else t

    ends = output.ndim > 2 and output.shape[1] == length
    looked: Callable[[Tensor], Tensor] = lambda t: t[:, [0, -1]] if ends else t
    return _change(scene, mapped(scene.batch, deal), output, looked)


def _change(
    scene: Scene, changed: Any, output: Tensor, looked: Callable[[Tensor], Tensor]
) -> float | None:
    """Root mean square of what another batch changes, over that of what tells samples apart.

    Args:
        scene: The model.
        changed: The batch that it is given.
        output: What it wrote before.
        looked: The part of outputs that is compared.
    """
    with Scene(
        scene.model, changed, batch_dim=0, listened=scene.listened, frozen=scene.frozen
    ).on_tape(grad=False, listen=False) as run:
        after = run.output.detach()
    if after.shape != output.shape:
        return None
    spread, moved, most, size = 0.0, 0.0, 0.0, 0.0
    flat = (looked(t)[..., None].flatten(1) for t in (output, after))
    columns = (t.split(TOGETHER, 1) for t in flat)  # in float64 only as many as the cache holds
    for a, b in zip(*(map(Tensor.double, each) for each in columns), strict=True):
        gap = b - a
        spread += dense.square_sum(a - a.mean(0))
        moved += dense.square_sum(gap)
        most = max(most, float(gap.abs().amax()))
        size = max(size, float(a.abs().amax()))
    if not math.isfinite(moved) or not spread > 0:
        return None
    return 0.0 if most <= rounding(output.dtype, ROUNDINGS) * size else math.sqrt(moved / spread)


# ------------------------------------------------------------------------------
# Which target a loss compares with which place of the output, and where it is among the inputs.
#
# A loss may shift targets by itself, leave some out or weigh them: what it does is read off its
# gradient by the outputs, not off its name.


MOST_OF = 0.9  # of the change of the gradient, that must be at one place
SHORT = 4  # places below which nothing can be told of an order


@dataclass(frozen=True, slots=True)
class Copied:
    """Targets next to one of the inputs.

    Attributes:
        name: Of the input: its key, its number among the arguments, or `""` where it is the only.
        same: Share of the counted targets that are the input at the place of their output.
        next: Share that are the input one place on.
        beyond: Share that are the input two places on.
        chance: The larger of the first two for the targets of other samples.
    """

    name: str
    same: float
    next: float
    beyond: float
    chance: float


def _gradient(loss: Loss, output: Tensor, targets: Tensor) -> Tensor | None:
    """Of the loss by every place of the output, `[samples, places]` norms aside, or None."""
    leaf = output.detach().clone().requires_grad_()
    with torch.enable_grad():
        value = loss(leaf, targets)
        if not isinstance(value, Tensor) or not value.requires_grad:
            return None
        (found,) = torch.autograd.grad(value.sum(), leaf, allow_unused=True)
    return None if found is None or not bool(found.isfinite().all()) else found.flatten(2)


def ordered(output: Tensor, targets: object, count: int) -> bool:
    """Whether targets and outputs are both rows of places, as many of the one as of the other."""
    return (
        isinstance(targets, Tensor)
        and targets.ndim >= 2
        and output.ndim == 3
        and targets.shape[:1] == output.shape[:1] == (count,)
        and targets.shape[1] >= SHORT
        and targets.ndim <= 3
        and abs(targets.shape[1] - output.shape[1]) <= 2
    )


def counted(loss: Loss, output: Tensor, targets: Tensor) -> Bool[Tensor, "n t"] | None:
    """Places of the output that the loss looks at: those where it has a gradient.

    Args:
        loss: `loss(output, targets)`.
        output: `[samples, places, scores]`.
        targets: Rows of places.
    """
    found = _gradient(loss, output, targets)
    return None if found is None else (found.abs().amax(2) > 0).cpu()


def offset(loss: Loss, output: Tensor, targets: Tensor) -> int | None:
    """How many places after its output a target stands: 0 as a rule, 1 where the loss shifts.

    The targets of one place are dealt to other samples; where the gradient changes is the output
    that they are compared with.

    Args:
        loss: `loss(output, targets)`.
        output: `[samples, places, scores]`.
        targets: Rows of places.

    Returns:
        None if it is not one place, or samples do not differ in their targets.

    Cost: two gradients of the loss by its input; no run of the model.
    """
    before = _gradient(loss, output, targets)
    length = targets.shape[1]
    for place in sorted(range(1, length - 1), key=lambda t: abs(2 * t - length))[:8]:
        if before is None:
            return None
        changed = targets.clone()
        changed[:, place] = targets[:, place].roll(1, 0)
        if torch.equal(changed, targets):
            continue
        after = _gradient(loss, output, changed)
        if after is None:
            return None
        moved = (after - before).double().square().sum((0, 2))
        if not float(moved.sum()) > 0:  # left out at this place
            continue
        at = int(moved.argmax())
        return place - at if float(moved[at]) > MOST_OF * float(moved.sum()) else None
    return None


def copied(
    batch: Batch, targets: Tensor, *, looks: Bool[Tensor, "n t"], shift: int
) -> tuple[Copied, ...]:
    """For every input that has places as the targets have, how many targets are copies of it.

    Args:
        batch: The inputs.
        targets: Rows of places, `[samples, places]` or `[samples, places, values]`.
        looks: From `counted`.
        shift: From `offset`.
    """
    found = []
    pairs = batch.items() if isinstance(batch, Mapping) else enumerate(batch)
    named = [("", batch)] if isinstance(batch, Tensor) else pairs
    for name, x in ((str(name), x) for name, x in named if isinstance(x, Tensor)):
        if x.shape != targets.shape or x.is_floating_point() != targets.is_floating_point():
            continue
        there = targets.to(x.device)
        places = (shift, shift - 1, shift - 2)
        here, before, twice = (_share(x, there, looks, s) for s in places)
        chance = max(_share(x.roll(1, 0), there, looks, s) for s in places[:2])
        found.append(Copied(name, here, before, twice, chance))
    return tuple(found)


def _share(x: Tensor, targets: Tensor, looks: Bool[Tensor, "n t"], shift: int) -> float:
    """Share of the counted outputs `j` whose target, at `j + shift`, is the input at `j`."""
    length = x.shape[1]
    places = torch.arange(min(length, looks.shape[1]))
    places = places[(places + shift >= 0) & (places + shift < length)]
    if not len(places):
        return 0.0
    equal = (targets[:, places + shift] == x[:, places]).flatten(2 if x.ndim == 3 else 1)
    hits = equal.all(2) if x.ndim == 3 else equal
    counts = looks[:, places].to(hits.device)
    return float((hits & counts).sum()) / max(int(counts.sum()), 1)


def ends(targets: Shaped[Tensor, "n t"], *, least: int = 2) -> tuple[int, Bool[Tensor, "n t"]]:
    """The id that fills the ends of rows, and where; an empty mask where none does.

    A row's end is filled if its last id, or its first, is repeated `least` times or more. The id
    that fills most is padding if it stands (nearly) nowhere else, and rows of more than one length
    are left.

    Args:
        targets: Ids.
        least: How often an id is repeated.
    """
    same = lambda rows: (rows == rows[:, :1]).long().cumprod(1).bool()
    best, where = 0, torch.zeros_like(targets, dtype=torch.bool)
    for run, edge in ((same(targets.flip(1)).flip(1), -1), (same(targets), 0)):
        long = run & (run.sum(1) >= least)[:, None]
        for id_ in targets[:, edge].unique().tolist():
            mask = long & (targets == id_)
            alone = int(mask.sum()) >= ONLY_THERE * int((targets == id_).sum())
            rows = int(mask.any(1).sum())
            uneven = len(mask.sum(1).unique()) > 1
            if alone and uneven and rows >= 2 and int(mask.sum()) > int(where.sum()):
                best, where = int(id_), mask
    return best, where


ONLY_THERE = 0.95  # of an id's places that must be at ends of rows


# ------------------------------------------------------------------------------
# How gradients grow or shrink over the steps of a recurrent layer.
#
# The idea: seeds are put on the last state and carried back through the layer alone, a block of
# steps at a time, so that the Frobenius norm of `∂h_T/∂x_t` is known at every step: exactly where
# every unit of the state has a seed of its own, and up to a factor of chance where normal vectors
# stand for more units than can be carried. The invariant: everything is computed on a copy in
# float64 on the CPU, and what is carried is scaled by a power of two after every block, so that
# nothing shrinks or grows out of range, and the model is left as it was.


STEPS = 256  # the latest ones, at most
FEWEST = 8  # steps from which a trend over them means something
SAMPLES, DRAWS = 16, 8  # that are looked at at least; normal vectors for each of them at most
WORK = 2e9  # multiplications that more samples than these, or more seeds than one, may cost
HELD = 2**21  # numbers of a block of steps that are carried at once
BLOCK = 16  # steps after which the gradient is scaled
RISK = 0.05


@dataclass(frozen=True, slots=True, repr=False)
class StepGradients(Brief):
    """How large the gradient of the last state is by the inputs of each step.

    Attributes:
        logs: Logarithms of `‖∂h_T/∂x_t‖_F / √d`, a row for each sample, the latest step first;
            `-inf` where it is zero.
        of: Samples there are, of which these are the first.
        draws: Normal vectors that stand for the units of the state, the same ones at all steps; 0
            where each unit has its own derivative.
        units: Of the state.
    """

    logs: Float64[Tensor, "samples steps"]
    of: int
    draws: int
    units: int

    def factor(self) -> Estimate:
        """By what factor the norm grows with every step back, a geometric mean over samples.

        Of each sample it is the slope of the line that fits the logarithms best, over the steps at
        which they are finite; where the gradients of most samples are zero, it is zero.

        Of normal vectors, a squared norm is the true one times a random `R`, a mean over the
        vectors of chi squares mixed with weights that add up to one. How `R` hangs together over
        the steps is not known, but the error of a slope is `Σ wₜ log Rₜ / 2`, whose exponential
        has by Hölder's inequality a mean below those of powers of a single `R`; these are largest
        where one weight is all (a convex function of the weights), and then are those of one chi
        square. A bias of the logarithm is covered by that: nothing is assumed to vanish.

        Source:
            Pascanu, Mikolov & Bengio 2013, Eq. (5); Chernoff 1952.
        """
        slopes = torch.tensor([slope(row) for row in self.logs], dtype=torch.float64)
        there = slopes.isfinite()  # units that are all off pass nothing back
        if 2 * int(there.sum()) < len(slopes):
            return Estimate.exactly(0.0, how=self._how())
        weight = max(float(_weights(row.isfinite()).abs().sum()) for row in self.logs[there])
        mean = float(slopes[there].mean())
        gap = weight * self.logs.shape[1] * (self.units + 64) * EPS
        if self.draws:
            # how far a mean over samples of `Σ wₜ log Rₜ` strays, where sizes of weights sum to one
            k, least, log_gamma = self.draws / 2, math.inf, scipy.special.gammaln
            chance = math.log(2 / RISK) / int(there.sum())
            for i in range(1, 200):
                s = k * i / 200
                more = max(0.0, s * -math.log(k) + log_gamma(k + s) - log_gamma(k))
                less = s * math.log(k) + log_gamma(k - s) - log_gamma(k)
                least = min(least, ((more + less) / 2 + chance) / s)
            gap += weight / 2 * float(least)
        # the exponential of what was measured carries its ends along
        grown = Estimate(mean, mean - gap, mean + gap, self._how(), RISK if self.draws else 0.0)
        return grown.exp()

    def _how(self) -> str:
        samples = f"the first {len(self.logs)} of {self.of} samples"
        samples = f"{self.of} samples" if self.of == len(self.logs) else samples
        route = f"{self.draws} normal vectors" if self.draws else "autograd, every unit"
        return f"{route}, {samples}, a line through the logarithms"


def step_gradients(
    layer: nn.RNNBase,
    x: Float[Tensor, "a b d"],
    *,
    draws: int | None = None,
    generator: torch.Generator,
) -> StepGradients:
    """How large the gradient of the last state of a layer is by its inputs, step by step.

    Args:
        layer: Of any kind, of any number of layers; of both directions, the forward one is asked.
        x: What it read, its batch where `batch_first` says.
        draws: Normal vectors for each sample; if not given, every unit is differentiated where
            that costs two billion multiplications for 16 samples, else 1 to 8 are drawn.
        generator: Source of the normal vectors, where there are more units than can be carried.

    Cost: a pass forward and back for each unit or draw, of 16 samples, or more where they fit into
    two billion multiplications, and of the latest 256 steps at most.
    """
    copy = duplicate(layer).cpu().double().eval()
    assert isinstance(copy, nn.RNNBase)
    batch, copy.batch_first = 0 if copy.batch_first else 1, False
    whole = x.detach().cpu().double().movedim(batch, 1)[-STEPS:]
    units = copy.proj_size or copy.hidden_size
    # of one sample and one seed: forward, backward, and forward again
    cost = 3 * len(whole) * sum(p.numel() for p in copy.parameters())
    fit = max(1, int(WORK / (cost * min(SAMPLES, whole.shape[1]))))
    seeds = draws or (units if units <= fit else min(fit, DRAWS))
    rows = whole[:, : max(SAMPLES, int(WORK / (cost * seeds)))].contiguous()
    drawn, count = draws is not None or seeds < units, rows.shape[1]
    if drawn:
        shape = (count, seeds, units)
        source = generator.device
        start = torch.randn(shape, generator=generator, device=source, dtype=rows.dtype).cpu()
    else:
        start = torch.eye(units, dtype=rows.dtype).expand(count, units, units)
    # as many samples, with their seeds, as are carried at once
    carried = len(rows) if copy.bidirectional else BLOCK
    one = start.shape[1] * carried * (copy.input_size + 8 * copy.num_layers * copy.hidden_size)
    size = max(1, HELD // one)
    parts = zip(rows.split(size, dim=1), start.split(size), strict=True)
    logs = torch.cat([_carried(copy, *part) for part in parts])
    if drawn:
        logs = logs - math.log(seeds) / 2
    return StepGradients(logs.flip(1), whole.shape[1], seeds if drawn else 0, units)


def slope(logs: Float64[Tensor, " steps"]) -> float:
    """Of the line that fits logarithms best, over the steps at which they are finite.

    Args:
        logs: The latest step first.

    Returns:
        Growth from one step to the one before it; `-inf` where fewer than two are finite.
    """
    there = logs.isfinite()
    if int(there.sum()) < 2:
        return -math.inf
    return float((_weights(there) * logs[there]).sum())


def _weights(there: Tensor) -> Float64[Tensor, " k"]:
    """What a slope is the sum of logarithms by: they add up to zero."""
    back = torch.arange(len(there), dtype=torch.float64)[there]
    back = back - back.mean()
    return back / back.square().sum()


def _carried(
    layer: nn.RNNBase, rows: Float64[Tensor, "steps n d"], start: Float64[Tensor, "n k h"]
) -> Float64[Tensor, "n steps"]:
    """Logarithms of the roots of the summed squares over seeds, over the root of `d`."""
    n, k, units = start.shape
    # what comes later than a step tells the layers of both directions: they are carried whole
    blocks = rows.split(len(rows) if layer.bidirectional else BLOCK)
    # the state that a layer starts from by itself
    depth = layer.num_layers * (2 if layer.bidirectional else 1)
    zeros = lambda size: torch.zeros(depth, n, size, dtype=torch.float64)
    hidden = zeros(layer.proj_size or layer.hidden_size)
    initial = (hidden, zeros(layer.hidden_size)) if layer.mode == "LSTM" else (hidden,)
    states: list[tuple[Tensor, ...]] = [initial]
    with torch.no_grad():
        for block in blocks[:-1]:
            states.append(_run(layer, block, states[-1])[1])
    gradient: tuple[Tensor, ...] | None = None
    logs, power = [], torch.zeros(n * k, dtype=torch.float64)
    for block, state in zip(reversed(blocks), reversed(states), strict=True):
        read = block.repeat_interleave(k, 1).requires_grad_()
        old = tuple(s.repeat_interleave(k, 1).requires_grad_() for s in state)
        with torch.enable_grad():
            out, new = _run(layer, read, old)
            ends = (out[-1, :, :units],) if gradient is None else new
            seeds = (start.reshape(n * k, units),) if gradient is None else gradient
            by_input, *back = torch.autograd.grad(
                ends, (read, *old), seeds, allow_unused=True, materialize_grads=True
            )
        largest = by_input.abs().amax(2)
        unit = largest.clamp_min(math.ulp(0.0))  # squares would not fit
        size = (by_input / unit[:, :, None]).square().sum(2).sqrt()
        logs.append(size.log() + unit.log() + power * math.log(2))
        scale = torch.stack([b.abs().amax((0, 2)) for b in back]).amax(0)
        known = (scale > 0) & scale.isfinite()
        shift = torch.where(known, torch.frexp(scale).exponent, 0).double().clamp(-999, 999)
        gradient = tuple(b * 2.0 ** -shift[:, None] for b in back)
        power = power + shift
    found = torch.cat([*reversed(logs)]).unflatten(1, (n, k))
    return (2 * found).logsumexp(2).mT / 2 - math.log(rows.shape[2]) / 2


def _run(
    layer: nn.RNNBase, x: Tensor, state: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    out, new = layer(x, state if layer.mode == "LSTM" else state[0])
    return out, new if isinstance(new, tuple) else (new,)
