"""Which layers can be of lower rank, at which loss in the output on the user's data."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from sigmascope.diagnosis.compression.low_rank_layers import (
    Directions,
    directions_of,
    factored,
)
from sigmascope.diagnosis.compression.trials import Trial, Truncation, largest, replaceable, rounded
from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from sigmascope.probes.execution import module_name
from sigmascope.probes.samples import Batch, chosen, sample_count
from sigmascope.records import Estimate, Shown


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
    """

    model: nn.Module
    layers: tuple[Truncation, ...]
    change: Estimate
    parameters: tuple[int, int]
    right: tuple[float, float] | None
    says: str

    def patch(self) -> str:
        """Lines of code that make a model of the same class ready for the new weights."""
        names = [module_name(t.site) for t in self.layers]
        return "\n".join(_line(name, self.model.get_submodule(name)) for name in names)


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
    _require(tolerance, count, targets)
    order = torch.randperm(count, generator=generator or torch.Generator().manual_seed(0))
    halves = order[: count // 2], order[count // 2 :]
    ours, other = (
        Subject(model, chosen(batch, rows, batch_dim=batch_dim), batch_dim=batch_dim)
        for rows in halves
    )
    few = chosen(ours.batch, torch.arange(2), batch_dim=batch_dim)
    layers = tuple(x for x in directions_of(ours) if replaceable(ours.model, x, few))
    trial = Trial(ours.model, _some(layers), other)
    threshold = largest(lambda t: trial.distance(trial.output(trial.ranks(t))), tolerance)
    ranks = trial.ranks(threshold) if threshold > 0 else {}
    thin = trial.output(ranks)
    known = None if targets is None else targets[halves[1]]
    right = None if known is None else (_right(trial.before, known), _right(thin, known))
    smaller = tuple(trial.truncation(x, ranks[x.site]) for x in layers if x.site in ranks)
    total = sum(p.numel() for p in model.parameters())
    after = total - sum(t.parameters[0] - t.parameters[1] for t in smaller)
    change = rounded(trial.distance(thin))
    words = f"{len(smaller)} of {len(layers)} {_says(total, after, change, right)}"
    thinner = factored(ours.model, layers, ranks)
    return Compression(thinner, smaller, change, (total, after), right, words)


def _says(total: int, after: int, change: Estimate, right: tuple[float, float] | None) -> str:
    told = "" if right is None else f" and {right[1]:.1%} right in the place of {right[0]:.1%}"
    return (
        f"layers can be of lower rank: {after:,} parameters in the place of {total:,}, with the "
        f"output changed by {change.value:.2%}{told}."
    )


def _require(tolerance: float, count: int, targets: Tensor | None) -> None:
    if not 0 < tolerance < 1:
        raise Refusal(f"`tolerance` must be between 0 and 1, got {tolerance}. Try 0.01.")
    if count < 4:
        raise Refusal(f"There must be four samples or more, got {count}. Pass some hundreds.")
    if targets is not None and (not isinstance(targets, Tensor) or len(targets) != count):
        got = f"{len(targets)}" if isinstance(targets, Tensor) else type(targets).__name__
        raise Refusal(f"`targets` must be a tensor of {count} classes, one a sample, got {got}.")


def _some(layers: tuple[Directions, ...]) -> tuple[Directions, ...]:
    if not layers:
        raise Refusal(
            "There must be a linear layer or convolution that is called once, and whose weight is "
            "its own, got none. Take the network apart by hand."
        )
    return layers


def _right(output: Tensor, targets: Tensor) -> float:
    told = output.argmax(-1).cpu()
    if targets.is_floating_point() or told.shape != targets.shape:
        raise Refusal(
            f"`targets` must be one class for each row of scores, got {tuple(targets.shape)} for "
            f"an output of {tuple(output.shape)}. Leave them out for other tasks."
        )
    return float((told == targets.cpu()).double().mean())


def _line(name: str, pair: nn.Module) -> str:
    """`model.a[0].b = nn.Sequential(...)`; `setattr` where a name is none of Python's."""
    made = f"nn.Sequential({', '.join(f'nn.{part!r}' for part in pair.children())})"
    parts = name.split(".")
    if all(part.isdigit() or part.isidentifier() for part in parts):
        place = "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)
        return f"model{place} = {made}"
    parent, _, last = name.rpartition(".")
    return f"setattr(model.get_submodule({parent!r}), {last!r}, {made})"
