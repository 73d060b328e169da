"""Learning rates by layer, from the curvature of the loss in each."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.core.guard import Refusal, door
from sigmascope.core.records import Estimate, Shown
from sigmascope.linalg.krylov import Operator, extreme_eigenvalues
from sigmascope.models import Subject
from sigmascope.models.samples import Batch, Loss

# products, and relative error: for the scale of a layer, and for how all of them add up
ROUGH, FINE = (8, 1e-1), (32, 1e-9)
REST = "(rest)"


class LayerRates(list[dict[str, Any]]):
    """Parameter groups for an optimizer: a list that is shown as rates, not as weights."""

    __repr__ = Shown.__repr__
    _repr_html_ = Shown._repr_html_
    to_pandas = Shown.to_pandas

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The name, the rate and the number of parameters of each group."""
        return [
            {"name": g["name"], "lr": g["lr"], "parameters": sum(p.numel() for p in g["params"])}
            for g in self
        ]


@door
def layer_rates(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any = None,
    loss: Loss | None = None,
    share: float = 0.3,
    batch_dim: int = 0,
    generator: torch.Generator | None = None,
) -> LayerRates:
    """Parameter groups for an optimizer, each layer at a rate that its curvature allows.

    A layer whose block of the Gauss-Newton matrix has the largest eigenvalue `t` gets the rate
    `share / (λ t)`. λ says how much the layers add to one another's steps: it is the largest
    eigenvalue of the whole matrix when each block is scaled to 1, measured, between 1 and the
    number of layers. Gradient descent at these rates is stable on the quadratic model of the loss
    for every `share` below 2. That speaks of whole batches like this one, at these weights: where
    curvature grows in training, as small weights do, the default leaves room; where it falls, as
    with normalisers, a `share` of 1 is often faster.

    Args:
        model: Left as it is; its parameters are in the groups. Measured in the mode that it is in:
            put it into training mode, if that is how it will be run.
        batch: As for `survey.profile`.
        targets: What `loss` compares the output with.
        loss: Convex in the output; squared error if none is given.
        share: Of the rates that would take the quadratic model down fastest for sure.
        batch_dim: Where the batch has its samples.
        generator: Source of the random starts; a fixed one of its own if not given.

    Returns:
        A list for `torch.optim.SGD(groups)`: `params`, `lr` and `name` for each module that has
        parameters of its own; those without any curvature come last, at the smallest of the rates.

    Raises:
        Refusal: If the curvature cannot be measured, or no layer has one.

    Source:
        The rate of gradient descent on a quadratic: Polyak 1964. With λ at its upper bound, the
        number of layers (the inequality of Cauchy and Schwarz), it is that of each layer alone.

    Cost: up to 8 products with the matrix for each layer and 32 for all, each about two forward and
    backward passes.
    """
    subject = Subject(model, batch, targets, loss, batch_dim=batch_dim)
    whole = subject.curvature("gauss-newton")
    generator = generator or torch.Generator().manual_seed(0)
    # where the entries of each module's own parameters are; tied ones belong to the first
    sizes = {n: p.numel() for n, p in subject.model.named_parameters()}
    at, places = 0, dict[str, list[Tensor]]()
    for name in whole.parameters:
        places.setdefault(_owner(name), []).append(torch.arange(at, at + sizes[name]))
        at += sizes[name]
    blocks = {name: torch.cat(rows) for name, rows in places.items()}
    with whole.held():
        seen = {
            name: _top(_part(whole.operator, rows), *ROUGH, generator).value
            for name, rows in blocks.items()
        }
        tops = {name: top for name, top in seen.items() if 0 < top < math.inf}
        if not tops or not share > 0:
            raise Refusal(
                f"Rates need layers with a curvature and a `share` above 0, got {len(tops)} layers "
                f"and {share:g}. `sigmascope landscape` says why a layer has none."
            )
        # `D A D`, in which every block has the largest eigenvalue 1
        A, d = whole.operator, torch.zeros(whole.operator.shape[0], dtype=torch.float64)
        for name, top in tops.items():
            d[blocks[name]] = top**-0.5
        apply = lambda X: d.to(X)[:, None] * A.apply(d.to(X)[:, None] * X)
        together = _top(Operator(A.shape, apply, apply, A.like), *FINE, generator).high
    rates = {name: share / (together * top) for name, top in tops.items()}
    groups: dict[str, list[nn.Parameter]] = {}
    for name, p in subject.model.named_parameters():
        if p.requires_grad:
            groups.setdefault(_owner(name) if _owner(name) in rates else REST, []).append(p)
    rates[REST] = min(rates.values())  # what has no curvature gets the smallest
    order = sorted(groups, key=lambda name: name == REST)
    return LayerRates({"params": groups[n], "lr": rates[n], "name": n or "(model)"} for n in order)


def _owner(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _part(A: Operator, rows: Tensor) -> Operator:
    """The block of a symmetric operator at some rows and columns."""

    def apply(X: Tensor) -> Tensor:
        wide = X.new_zeros(A.shape[0], X.shape[1])
        wide[rows.to(X.device)] = X
        return A.apply(wide)[rows.to(X.device)]

    return Operator((len(rows), len(rows)), apply, apply, A.like)


def _top(A: Operator, steps: int, tolerance: float, generator: torch.Generator) -> Estimate:
    """The largest eigenvalue."""
    steps = min(steps, A.shape[0])
    ends = extreme_eigenvalues(
        A, steps=steps, tolerance=tolerance, sides="top", generator=generator
    )
    return ends.top[0]
