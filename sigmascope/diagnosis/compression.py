"""Layers of lower rank."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.core.guard import Refusal, door, require_dense
from sigmascope.core.records import Estimate, Shown, Skipped
from sigmascope.diagnosis.remedies.base import no_fast_path, put_in_python
from sigmascope.models import Subject
from sigmascope.models.layers import Call, called, is_reparametrised, module_name
from sigmascope.models.samples import Batch, as_tensor, chosen, sample_count
from sigmascope.models.state import duplicate, still

__all__ = ["Compression", "Truncation", "compression"]

# ------------------------------------------------------------------------------
# Layers as two thinner ones, along the principal directions of what they write.


CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
Plain = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """A layer that can be truncated: the principal directions of what it writes.

    Attributes:
        site: Its name.
        module: The layer.
        mean: Of what it writes; zero where it has no bias to keep it.
        directions: Orthonormal, most important first.
        energies: Sum of squares along each.
    """

    site: str
    module: Plain
    mean: Float64[Tensor, " out"]
    directions: Float64[Tensor, "out k"]
    energies: Float64[Tensor, " k"]

    def error(self, rank: int) -> float:
        """Relative size of what the directions after the first lose."""
        total = float(self.energies.sum())
        return math.sqrt(float(self.energies[rank:].sum()) / total) if total > 0 else 0.0

    def rank_for(self, threshold: float) -> int:
        """The least rank whose error is at most that."""
        ranks = range(1, len(self.energies) + 1)
        return next(r for r in ranks if self.error(r) <= threshold or r == ranks[-1])

    @property
    def own(self) -> int:
        """Parameters of the layer."""
        return sum(p.numel() for p in self.module.parameters())

    def parameters(self, rank: int) -> int:
        """Of the two layers of that rank that take its place."""
        weight = self.module.weight
        bias = 0 if self.module.bias is None else len(weight)
        return rank * (weight[0].numel() + len(weight)) + bias


def directions_of(subject: Subject) -> tuple[tuple[Directions, ...], dict[str, str]]:
    """Layers that are called once, whose weight is a plain parameter of their own.

    Returns:
        Those, and why each of the others is left whole, by name.
    """
    times = Counter(module_name(c.site) for c in subject.calls)
    owners = Counter(id(p) for m in subject.model.modules() for p in m.parameters(recurse=False))
    found, left = list[Directions](), dict[str, str]()
    for one in subject.calls:
        module, name = one.module, module_name(one.site)
        if is_reparametrised(module):
            left[name] = "its weight is made of other parameters (a parametrization, a mask)"
            continue
        # a subclass may do something else
        if type(module) not in (nn.Linear, *CONVOLUTIONS) or not isinstance(module, Plain):
            left[name] = f"{type(module).__name__} is neither a linear layer nor a convolution"
            continue
        if times[name] != 1:
            left[name] = f"it is called {times[name]} times"
            continue
        if owners[id(module.weight)] != 1:
            left[name] = "its weight is shared, or no parameter of its own"
            continue
        if getattr(module, "groups", 1) != 1:
            left[name] = "it works in groups"
            continue
        rows = _rows(module, one.output)
        if not bool(rows.isfinite().all()) or len(rows) < 2:
            left[name] = "what it writes is not finite, or one row"
            continue
        mean = rows.mean(0) * float(module.bias is not None)
        # principal directions and the energy along each, in the range of the weight
        rest, weight, within = rows - mean, module.weight.detach().double().cpu().flatten(1), None
        if weight.shape[0] > weight.shape[1]:  # a head of many outputs: no matrix of their square
            within = torch.linalg.qr(weight)[0]
            rest = rest @ within
        if len(rest) < rest.shape[1]:
            _, s, axes = torch.linalg.svd(rest, full_matrices=False)
            directions, energies = axes.mT, s.square()
        else:
            energies, directions = torch.linalg.eigh(rest.mT @ rest)
            directions, energies = directions.flip(1), energies.flip(0).clamp(min=0)
        directions = directions if within is None else within @ directions
        found.append(Directions(one.site, module, mean, directions, energies))
    return tuple(found), left


def _rows(module: Plain, output: Tensor) -> Float64[Tensor, "n out"]:
    """What a layer writes, a row a sample and place."""
    channels = -1 if isinstance(module, nn.Linear) else 1 - module.weight.ndim
    last = output.movedim(channels, -1)
    return last.detach().reshape(-1, last.shape[-1]).double().cpu()


def _parts(layer: Directions, rank: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """`Uᵀ W`, `U`, and the bias that keeps the mean."""
    U = layer.directions[:, :rank]
    weight = layer.module.weight.detach()
    flat = weight.double().cpu().flatten(1)
    bias = layer.module.bias
    kept = None
    if bias is not None:  # what is lost of the mean goes into the bias
        b = bias.detach().double().cpu()
        kept = U @ (U.mT @ b) + layer.mean - U @ (U.mT @ layer.mean)
        kept = kept.to(bias)
    return (U.mT @ flat).reshape(rank, *weight.shape[1:]).to(weight), U.to(weight), kept


def truncated(
    model: nn.Module, layers: Sequence[Directions], ranks: Mapping[str, int]
) -> nn.Module:
    """A copy with truncated weights of the same shape."""
    copied = duplicate(model)
    for layer in layers:
        if layer.site in ranks:
            module = copied.get_submodule(module_name(layer.site))
            assert isinstance(module, Plain)
            inner, outer, bias = _parts(layer, ranks[layer.site])
            with torch.no_grad():
                module.weight.copy_((outer @ inner.flatten(1)).reshape(module.weight.shape))
                if module.bias is not None and bias is not None:
                    module.bias.copy_(bias)
    return copied


def factored(model: nn.Module, layers: Sequence[Directions], ranks: Mapping[str, int]) -> nn.Module:
    """A copy in which truncated layers are two thinner ones."""
    copied = duplicate(model)
    made: Any = nn.utils.skip_init  # no numbers are drawn: what is built is overwritten
    for layer in layers:
        if layer.site not in ranks:
            continue
        rank = ranks[layer.site]
        old = copied.get_submodule(module_name(layer.site))
        assert isinstance(old, Plain)
        inner, outer, bias = _parts(layer, rank)
        like: dict[str, Any] = {"device": outer.device, "dtype": outer.dtype}
        biased = bias is not None
        if isinstance(old, nn.Linear):
            first: Plain = made(nn.Linear, old.in_features, rank, bias=False, **like)
            second: Plain = made(nn.Linear, rank, old.out_features, bias=biased, **like)
        else:
            kind: Any = type(old)  # the three kinds differ in nothing that is asked here
            steps = old.kernel_size, old.stride, old.padding, old.dilation
            padded = {"bias": False, "padding_mode": old.padding_mode}
            first = made(kind, old.in_channels, rank, *steps, **padded, **like)
            second = made(kind, rank, old.out_channels, 1, bias=biased, **like)
        with torch.no_grad():
            first.weight.copy_(inner)
            second.weight.copy_(outer.reshape(second.weight.shape))
            if bias is not None and second.bias is not None:
                second.bias.copy_(bias)
        parent, _, name = module_name(layer.site).rpartition(".")
        pair = nn.Sequential(first, second).train(old.training)
        setattr(copied.get_submodule(parent), name, pair)
    no_fast_path(copied)
    return copied


def loss_on(layer: Directions, rank: int, call: Call) -> float:
    """Relative size of what a layer loses on the samples of another call."""
    rows = _rows(layer.module, call.output)
    rest = rows - layer.mean
    U = layer.directions[:, :rank]
    lost = rest - rest @ U @ U.mT
    total = float(rest.square().sum())
    return math.sqrt(float(lost.square().sum()) / total) if total > 0 else 0.0


# ------------------------------------------------------------------------------
# Ranks tried on a network: what the output becomes with layers of lower rank.


ROUNDS = 12  # of halving the interval of the threshold, on a logarithmic scale


@final
@dataclass(frozen=True, slots=True)
class Truncation:
    """A layer at a lower rank.

    Attributes:
        site: The layer.
        rank: How many directions of what it writes are kept.
        full: How many there are.
        error: Size of what is lost of what the layer writes, next to its variation (to all of it
            where the layer has no bias), exact on the samples that the directions come from.
        elsewhere: The same on other samples.
        change: How much the network's output changes on other samples if this layer alone is
            truncated, next to the variation of the output.
        parameters: Of the layer, before and after.
    """

    site: str
    rank: int
    full: int
    error: Estimate
    elsewhere: Estimate
    change: Estimate
    parameters: tuple[int, int]


@dataclass(frozen=True)
class TruncationTrial:
    """A model with some of its layers truncated, on samples that their directions are not from."""

    model: nn.Module
    layers: tuple[Directions, ...]
    other: Subject

    def ranks(self, threshold: float) -> dict[str, int]:
        """Ranks whose loss is below the threshold, of layers that get smaller by it."""
        found = {x: x.rank_for(threshold) for x in self.layers}
        return {x.site: rank for x, rank in found.items() if x.parameters(rank) < x.own}

    @cached_property
    def before(self) -> Tensor:
        """The output as it is."""
        return self.other.output.double()

    @cached_property
    def spread(self) -> float:
        """How much that varies between samples."""
        found = float((self.before - self.before.mean(0)).square().mean().sqrt())
        if found == 0:
            raise Refusal("The output must vary between samples, got one value. Pass others.")
        return found

    def output(self, ranks: Mapping[str, int]) -> Tensor:
        """With some layers truncated."""
        return _output(truncated(self.model, self.layers, ranks), self.other.batch)

    def distance(self, output: Tensor) -> float:
        """From the output as it is, next to how much that varies."""
        return float((output - self.before).square().mean().sqrt()) / self.spread

    def truncation(self, layer: Directions, rank: int) -> Truncation:
        """One layer, with what it loses and what that alone changes."""
        call = next(c for c in self.other.calls if c.site == layer.site)
        return Truncation(
            layer.site,
            rank,
            min(layer.module.weight.flatten(1).shape),
            rounded(layer.error(rank)),
            rounded(loss_on(layer, rank, call)),
            rounded(self.distance(self.output({layer.site: rank}))),
            (layer.own, layer.parameters(rank)),
        )


def replaceable(model: nn.Module, layer: Directions, batch: Batch) -> bool:
    """Whether the model calls this layer, and does not look inside it."""
    try:
        _output(factored(model, [layer], {layer.site: 1}), batch)
    except Refusal:  # some models read `layer.weight`, which two layers do not have
        return False
    return True


def rounded(value: float) -> Estimate:
    """A number known up to the model's own rounding of a mean."""
    return Estimate.rounded(value, ulps=1e8, how="measured")


def largest(changed: Callable[[float], float], tolerance: float) -> float:
    """The largest threshold that keeps the output, to a hundredth; zero if none does."""
    low, high = math.log(1e-8), 0.0
    if changed(1.0) <= tolerance:
        return 1.0
    if changed(math.exp(low)) > tolerance:
        return 0.0
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if changed(math.exp(middle)) <= tolerance else (low, middle)
    return math.exp(low)


def _output(model: nn.Module, batch: Batch) -> Tensor:
    with still(model), torch.no_grad():
        return as_tensor(called(model, batch))[0].detach().double()


# ------------------------------------------------------------------------------
# Which layers can be of lower rank, at which loss in the output on the user's data.


@final
@dataclass(frozen=True, slots=True, repr=False)
class Compression(Shown):
    """A network with layers of lower rank.

    Attributes:
        model: A copy in which each such layer is two thinner ones.
        layers: Those, in the order of calls.
        change: How much the output changes with all of them, on samples that the directions do not
            come from, next to the variation of the output.
        parameters: Of the network, before and after.
        right: Share of the same other samples whose class is told, before and after; None without
            classes.
        says: In one sentence.
        skipped: Layers that are not taken apart, and why not.
    """

    model: nn.Module
    layers: tuple[Truncation, ...]
    change: Estimate
    parameters: tuple[int, int]
    right: tuple[float, float] | None
    says: str
    skipped: tuple[Skipped, ...] = ()

    def patch(self) -> str:
        """Lines of code that make a model of the same class ready for the new weights."""
        pair = lambda name: (f"nn.{part!r}" for part in self.model.get_submodule(name).children())
        names = [module_name(t.site) for t in self.layers]
        lines = [put_in_python(name, f"nn.Sequential({', '.join(pair(name))})") for name in names]
        for name, attribute, value in no_fast_path(self.model):
            lines.append(put_in_python(f"{name}.{attribute}".removeprefix("."), repr(value)))
        return "\n".join(lines)


@door
def compression(
    model: nn.Module,
    batch: Batch,
    *,
    tolerance: float = 0.01,
    targets: Tensor | None = None,
    batch_dim: int = 0,
    generator: torch.Generator | None = None,
) -> Compression:
    """The lowest ranks of linear layers and convolutions that keep the output within a tolerance.

    A layer is projected on the principal directions of what it writes on these data, which loses
    least of it among all maps of that rank. One threshold on that loss is shared by all layers,
    and is the largest for which the network, run with all of them, keeps the output.

    Args:
        model: A trained network; left as it is.
        batch: Samples of its data: directions come from one half, what is promised is measured on
            the other.
        tolerance: Of the output: root mean square of its change, next to that of its variation.
        targets: Classes of the samples, to say how many are told rightly before and after.
        batch_dim: Where the batch has its samples.
        generator: Deals the samples into halves.

    Raises:
        Refusal: If there are fewer than four samples, the output does not vary, the tolerance is
            not in (0, 1), or no layer can be taken apart.

    Source:
        Eckart & Young 1936, in the metric of the data.

    Cost: some fifteen forward passes, and one for each layer.
    """
    count = sample_count(batch, batch_dim=batch_dim)
    if not 0 < tolerance < 1:
        raise Refusal(f"`tolerance` must be between 0 and 1, got {tolerance}. Try 0.01.")
    if count < 4:
        raise Refusal(f"There must be four samples or more, got {count}. Pass some hundreds.")
    if targets is not None and (not isinstance(targets, Tensor) or targets.shape[:1] != (count,)):
        got = f"{tuple(targets.shape)}" if isinstance(targets, Tensor) else type(targets).__name__
        raise Refusal(f"`targets` must be a tensor of {count} classes, one a sample, got {got}.")
    if targets is not None:
        require_dense(targets, "`targets`")
    order = torch.randperm(count, generator=generator or torch.Generator().manual_seed(0))
    halves = order[: count // 2], order[count // 2 :]
    ours, other = (
        Subject(model, chosen(batch, rows, batch_dim=batch_dim), batch_dim=batch_dim)
        for rows in halves
    )
    few = chosen(ours.batch, torch.arange(2), batch_dim=batch_dim)
    found, left = directions_of(ours)
    layers = tuple(x for x in found if replaceable(ours.model, x, few))
    inside = "the model reads its weight without calling it"
    left |= dict.fromkeys((x.site for x in found if x not in layers), inside)
    if not layers:
        why = "".join(f" {site}: {w}." for site, w in [*left.items()][:3])
        raise Refusal(
            "There must be a linear layer or convolution that is called once, and whose weight is "
            f"its own, got none.{why} Take off parametrizations and masks first; the rest is not "
            "covered."
        )
    trial = TruncationTrial(ours.model, layers, other)
    if not trial.before.isfinite().all():
        raise Refusal(
            "The output must be finite on these samples, got numbers that are not: how much of it "
            "is kept could not be told. `sigmascope profile` says in which layer they arise."
        )
    threshold = largest(lambda t: trial.distance(trial.output(trial.ranks(t))), tolerance)
    ranks = trial.ranks(threshold) if threshold > 0 else {}
    thin = trial.output(ranks)
    known = None if targets is None else targets[halves[1]]
    right = None if known is None else (_right(trial.before, known), _right(thin, known))
    smaller = tuple(trial.truncation(x, ranks[x.site]) for x in layers if x.site in ranks)
    total = sum(p.numel() for p in model.parameters())
    after = total - sum(t.parameters[0] - t.parameters[1] for t in smaller)
    change = rounded(trial.distance(thin))
    told = "" if right is None else f" and {right[1]:.1%} right in the place of {right[0]:.1%}"
    words = (
        f"{len(smaller)} of {len(layers)} layers can be of lower rank: {after:,} parameters in the "
        f"place of {total:,}, with the output changed by {change.value:.2%}{told}."
    )
    thinner = factored(ours.model, layers, ranks)
    skipped = tuple(Skipped(site, "rank", why) for site, why in left.items())
    return Compression(thinner, smaller, change, (total, after), right, words, skipped)


def _right(output: Tensor, targets: Tensor) -> float:
    told = output.argmax(-1).cpu()
    if targets.is_floating_point() or told.shape != targets.shape:
        raise Refusal(
            f"`targets` must be one class for each row of scores, got {tuple(targets.shape)} for "
            f"an output of {tuple(output.shape)}. Leave them out for other tasks."
        )
    return float((told == targets.cpu()).double().mean())
