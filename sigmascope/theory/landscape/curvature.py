"""The curvature of the loss in all weights, and in those of each layer.

What costs are products with the matrix, so only what is asked for is paid: the ends take one
Lanczos run, the trace and the Frobenius norm what that run holds and samples of the rest, the
density runs of its own. With a tolerance, each of them ends as soon as what it has seen says that
it is met.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import nn

from sigmascope.core.guard import Refusal, door
from sigmascope.core.records import Estimate, Shown
from sigmascope.linalg.krylov import (
    Density,
    extreme_eigenvalues,
    krylov_space,
    moments_within,
    spectral_density,
    symmetric_moments,
)
from sigmascope.models import Subject
from sigmascope.models.curvature import SelfCheck
from sigmascope.models.samples import SQUARED, Batch, Loss, loss_name

Kind = Literal["hessian", "gauss-newton", "fisher"]
Number = Literal["top", "bottom", "trace", "frobenius", "density", "check"]
WHOLE = "(all layers)"
SMALL = 256  # weights up to which every eigenvalue is computed
MOST = 512  # products of a run, or samples, that a tolerance may take
FLAT = 1e-3  # of the largest eigenvalue in size: those nearer to zero count as flat


@dataclass(frozen=True, slots=True)
class Bend:
    """The eigenvalues of the curvature in some weights; None for what was not asked for.

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
        products: How many products with the matrix all this took.
    """

    site: str
    parameters: int
    top: Estimate | None
    bottom: Estimate | None
    trace: Estimate | None
    frobenius: Estimate | None
    upwards: Estimate | None
    downwards: Estimate | None
    density: Density | None
    products: int


@dataclass(frozen=True, slots=True, repr=False)
class Bends(Shown):
    """The curvature of one loss.

    Attributes:
        kind: Hessian, Gauss-Newton or empirical Fisher matrix.
        parts: All layers together, or each of those asked for.
        check: Second derivatives of this model against finite differences; None if not asked for.
        loss: Its name.
    """

    kind: Kind
    parts: tuple[Bend, ...]
    check: SelfCheck | None
    loss: str = SQUARED


@door
def curvature(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any = None,
    loss: Loss | None = None,
    kind: Kind = "hessian",
    layers: Sequence[str] | None = None,
    only: Collection[Number] | None = None,
    tolerance: float | None = None,
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
        only: Which numbers; all of them if not given. The shares `upwards` and `downwards` come
            with the density, and `check` is that of second derivatives, for seven gradients.
        tolerance: Relative error to stop at, in place of `steps` and of samples of the trace: what
            is expected of the ends, of the largest in size, and one standard error of trace and
            Frobenius norm. At most 512 products go to each; intervals say what was reached.
        steps: Of each Lanczos run.
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

    Cost: `steps × (samples + 1) + 8 samples` products, each about two forward and backward passes;
    `steps` for the ends, as many samples of the trace as they take, `steps × samples` for the
    density.

    Example:
        >>> x = torch.arange(12.0).view(4, 3)
        >>> found = curvature(nn.Linear(3, 1), x, kind="gauss-newton", only=["trace"])
        >>> round(found.parts[0].trace.value, 3)  # of squared error: twice the mean of |x|^2 + 1
        255.0
    """
    if steps < 2 or samples < 2:
        raise Refusal(f"`steps` and `samples` must be at least 2, got {steps} and {samples}.")
    if tolerance is not None and not 0 < tolerance < 1:
        raise Refusal(
            f"`tolerance` must be a relative error above 0 and below 1, got {tolerance}. Pass 0.01 "
            "for two digits."
        )
    known = get_args(Number)
    asked = frozenset(known if only is None else [only] if isinstance(only, str) else only)
    if not asked or not asked <= set(known):
        raise Refusal(
            f"`only` must name some of {', '.join(known)}, got {sorted(asked) or 'none'}. "
            "Leave it out for all of them."
        )
    subject = Subject(model, batch, targets, loss, batch_dim=batch_dim)
    generator = generator or torch.Generator().manual_seed(0)
    blocks = [None] if layers is None else [[name] for name in layers]
    parts = []
    for block in blocks:
        curved = subject.curvature(kind, layers=block)
        site = WHOLE if block is None else block[0]
        with curved.held():
            n = curved.operator.shape[0]
            # the run that the ends are read off, and that takes what is large out of the trace
            whole = n <= SMALL
            top, bottom = "top" in asked, "bottom" in asked
            first = krylov_space(
                curved.operator,
                steps=n if whole else min(MOST if tolerance else steps, n),
                tolerance=0.0 if whole else tolerance or 0.0,
                sides="both" if top == bottom else "top" if top else "bottom",
                ends=top or bottom or "density" in asked,
                moments=bool(asked & {"trace", "frobenius"}),
                towards=curved.gradient,
                generator=generator,
            )
            ends = extreme_eigenvalues(first) if asked & {"top", "bottom"} else None
            operator = curved.operator
            trace, frobenius, drawn = None, None, 0
            if asked & {"trace", "frobenius"} and tolerance is not None:
                trace, frobenius, drawn = moments_within(
                    operator,
                    within=first,
                    tolerance=tolerance,
                    most=MOST,
                    generator=generator,
                )
            elif asked & {"trace", "frobenius"}:
                rest = 4 * samples
                trace, frobenius = symmetric_moments(
                    operator, within=first, samples=rest, generator=generator
                )
                drawn = 0 if first.complete else rest // 2 * 2 + rest
            density, spent = None, 0
            if "density" in asked:
                starts = 0 if first.complete else samples
                reach = min(steps, n)
                spaces = [
                    krylov_space(operator, steps=reach, generator=generator) for _ in range(starts)
                ]
                density, spent = spectral_density(spaces or [first]), reach * starts
            values = first.ritz()[0]
            floor = FLAT * max(abs(values[0].item()), abs(values[-1].item()))
            above = None
            if density:
                under = density.below(floor)
                above = Estimate(
                    1 - under.value, 1 - under.high, 1 - under.low, under.how, under.risk
                )
            parts.append(
                Bend(
                    site,
                    n,
                    ends.top[0] if ends and "top" in asked else None,
                    ends.bottom[0] if ends and "bottom" in asked else None,
                    trace if "trace" in asked else None,
                    frobenius if "frobenius" in asked else None,
                    above,
                    density.below(-floor) if density else None,
                    density,
                    first.steps + drawn + spent,
                )
            )
    check = subject.self_check if "check" in asked else None
    return Bends(kind, tuple(parts), check, loss_name(loss, targets))
