"""The curvature of the loss in all weights, and in those of each layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.linalg.krylov import (
    Density,
    extreme_eigenvalues,
    krylov_space,
    spectral_density,
    symmetric_moments,
)
from sigmascope.probes import Subject
from sigmascope.probes.curvature import Curvature, SelfCheck
from sigmascope.probes.samples import Batch, Loss
from sigmascope.records import Estimate, Shown

Kind = Literal["hessian", "gauss-newton", "fisher"]
WHOLE = "(all layers)"
SMALL = 256  # weights up to which every eigenvalue is computed
FLAT = 1e-3  # of the largest eigenvalue in size: those nearer to zero count as flat


@dataclass(frozen=True, slots=True)
class Bend:
    """The eigenvalues of the curvature in some weights.

    Attributes:
        site: Whose weights.
        parameters: How many.
        top: The largest, in loss per squared weight.
        bottom: The smallest; negative where the loss bends downwards.
        trace: Their sum.
        frobenius: Root of the sum of their squares.
        upwards: Share of the eigenvalues above a thousandth of the largest in size.
        downwards: Share of those below minus that.
        density: Where they all lie.
    """

    site: str
    parameters: int
    top: Estimate
    bottom: Estimate
    trace: Estimate
    frobenius: Estimate
    upwards: Estimate
    downwards: Estimate
    density: Density


@dataclass(frozen=True, slots=True, repr=False)
class Bends(Shown):
    """The curvature of one loss.

    Attributes:
        kind: Hessian, Gauss-Newton or empirical Fisher matrix.
        parts: All layers together, or each of those asked for.
        check: Second derivatives of this model against finite differences.
    """

    kind: Kind
    parts: tuple[Bend, ...]
    check: SelfCheck


def curvature(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any = None,
    loss: Loss | None = None,
    kind: Kind = "hessian",
    layers: Sequence[str] | None = None,
    steps: int = 32,
    samples: int = 4,
    batch_dim: int = 0,
    generator: torch.Generator | None = None,
) -> Bends:
    """Largest and smallest eigenvalue, trace, Frobenius norm and density of the curvature.

    Args:
        model: Left bit for bit as it was found.
        batch: As for `profile`.
        targets: What `loss` compares the output with.
        loss: `loss(output, targets)` -> scalar.
        kind: `"hessian"`; `"gauss-newton"`, of squared error without targets; or `"fisher"`.
        layers: Each of these by itself, its own block; all weights together by default.
        steps: Of each Lanczos run; more where the ends have not settled.
        samples: Random starts of the density, and four times as many of the rest of the trace.
        batch_dim: Where the batch has its samples.
        generator: Source of the random starts; a fixed one of its own if not given.

    Returns:
        Every number with its interval; exact for blocks of at most 256 weights.

    Raises:
        Refusal: If the model cannot be differentiated twice, or as `Subject.curvature`.

    Source:
        Pearlmutter 1994 for the products; Ubaru, Chen & Saad 2017 for the density; Ghorbani,
        Krishnan & Xiao 2019.

    Cost: `steps × (samples + 1) + 8 samples` products, each about two forward and backward passes.
    """
    if steps < 2 or samples < 2:
        raise Refusal(f"`steps` and `samples` must be at least 2, got {steps} and {samples}.")
    subject = Subject(model, batch, targets, loss, batch_dim=batch_dim)
    generator = generator or torch.Generator().manual_seed(0)
    blocks = [None] if layers is None else [[name] for name in layers]
    parts = []
    for block in blocks:
        curved = subject.curvature(kind, layers=block)
        site = WHOLE if block is None else block[0]
        parts.append(_bend(site, curved, steps, samples, generator))
    return Bends(kind, tuple(parts), subject.self_check)


def _bend(
    site: str, curved: Curvature, steps: int, samples: int, generator: torch.Generator | None
) -> Bend:
    A = curved.operator
    n = A.shape[0]
    steps = n if n <= SMALL else min(steps, n)
    first = krylov_space(A, steps=steps, towards=curved.gradient, generator=generator)
    ends = extreme_eigenvalues(first)
    trace, frobenius = symmetric_moments(A, within=first, samples=4 * samples, generator=generator)
    starts = 0 if first.complete else samples
    spaces = [krylov_space(A, steps=steps, generator=generator) for _ in range(starts)]
    density = spectral_density(spaces or [first])
    floor = FLAT * max(abs(ends.top[0].value), abs(ends.bottom[0].value))
    return Bend(
        site,
        n,
        ends.top[0],
        ends.bottom[0],
        trace,
        frobenius,
        _rest(density.below(floor)),
        density.below(-floor),
        density,
    )


def _rest(share: Estimate) -> Estimate:
    return Estimate(1 - share.value, 1 - share.high, 1 - share.low, share.how, share.risk)
