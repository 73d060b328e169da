"""The regions on which a piecewise-affine network is affine: where they end, how many there are."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.probes.piecewise_affine.certificates import (
    agree,
    disagreement,
    other_side,
    require_distance,
    told,
)
from sigmascope.probes.piecewise_affine.segments import (
    CHUNK,
    Segment,
    pulled,
    pushed,
    segment,
    widened,
)

UNITS = 2**14  # places to bend of which the nearest is looked for
STEPS = 100_000  # regions that are counted at most
BEYOND = 1e-10  # of the segment: how far past a boundary the next region is looked at
EXACT = 2.0**-52  # rounding of float64
SAME = 1e-13  # of the steepest: below this, a difference is that of a function with itself


@dataclass(frozen=True, slots=True)
class Crossings:
    """The regions that a segment passes through.

    Attributes:
        count: How many regions.
        at: Where, between 0 and 1, it enters each but the first.
    """

    count: int
    at: tuple[float, ...]


def region_distance(model: nn.Module, x: Float[Tensor, "1 *sample"]) -> float:
    """How far the nearest input is at which some unit changes its side.

    Args:
        model: As for `local_affine`.
        x: One sample, with its batch dimension.

    Returns:
        Euclidean, in the unit of the input; infinite where nothing ever changes.

    Raises:
        Refusal: As `local_affine`, or if it is not known where an operation bends (`sort`,
            `topk`); or if the network, evaluated again nearer and farther, says otherwise.

    Source:
        Distance to the hyperplanes `p_i(z) = 0`: `|p_i| / ‖∇ p_i‖`, exact for the nearest one.

    Cost: a gradient for each unit, and six forward passes, of a copy in float64.
    """
    wide = widened(model, x)
    with segment(wide, x) as part:
        require_known(part)
        heights = [k.heights.flatten() for k in part.kinks]
        total = sum(len(q) for q in heights)
        if total > UNITS:
            raise Refusal(
                f"The distance takes a gradient for each of the {total} places where the network "
                f"may bend, more than {UNITS}. Ask it of a smaller network, or of smaller images."
            )
        found = [n for q in heights if (n := _nearest(q, part.z)) is not None]
        reach, step = min(found, key=lambda f: f[0], default=(math.inf, None))
        require_distance(wide, x, part, reach, step)
        return reach


def _nearest(q: Tensor, z: Tensor) -> tuple[float, Tensor] | None:
    """The least `|q_i| / ‖∇ q_i‖`, and the step that leads there."""
    parts = torch.arange(len(q), device=q.device).split(CHUNK)
    eyes = (torch.nn.functional.one_hot(p, len(q)).to(q) for p in parts)
    slopes = torch.cat([pulled(q, z, eye) for eye in eyes]) if len(q) else q.new_zeros(0, 1)
    steep = slopes.double().norm(dim=1)
    height = q.detach().double()
    gaps = torch.where(height.isfinite(), height.abs(), math.inf) / steep
    moving = steep > SAME * steep.max() if len(q) else steep > 0
    gaps = gaps.masked_fill(~moving, math.inf)
    if not len(q) or not bool(gaps.isfinite().any()):
        return None
    i = int(gaps.argmin())
    step = -height[i] / steep[i] ** 2 * slopes[i].double()
    return float(gaps[i]), step.reshape(z.shape).to(z)


def regions_along(
    model: nn.Module, a: Float[Tensor, "1 *sample"], b: Float[Tensor, "1 *sample"]
) -> Crossings:
    """Every region that the segment between two samples passes through, by exact steps.

    Args:
        model: As for `local_affine`.
        a: Where the segment starts.
        b: Where it ends, of the same shape.

    Raises:
        Refusal: As `region_distance`; or if there are more than 100 000 regions.

    Cost: for each region, two forward passes of a copy in float64 and a double backward pass.
    """
    if a.shape != b.shape:
        raise Refusal(
            f"`a` and `b` must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}. "
            "Give two samples of one shape."
        )
    wide = widened(model, a)
    line = a.double(), (b - a).double()
    at: list[float] = []
    t, beyond = 0.0, BEYOND
    with segment(wide, a) as before:
        require_known(before)
        require_exact(before)
    draw = torch.Generator().manual_seed(0)
    while len(at) < STEPS:
        part, ahead = _next_kink(wide, line, t, float(torch.rand((), generator=draw)))
        if at and not other_side(before, part):
            at.pop()  # the rounding of a boundary that is crossed at a narrow angle
            beyond *= 2
        else:
            beyond = BEYOND
        if t + ahead >= 1:
            return Crossings(len(at) + 1, tuple(at))
        at.append(t + ahead)
        before, t = part, at[-1] + beyond
    raise Refusal(f"The segment passes through more than {STEPS} regions. Take a shorter one.")


Line = tuple[Tensor, Tensor]


def _next_kink(model: nn.Module, line: Line, t: float, share: float) -> tuple[Segment, float]:
    """The network at one place, and how far ahead its region ends, tried at a share of the way."""
    a, along = line
    with segment(model, a, at=a + t * along) as part:
        require_known(part)
        flat = told(part)
        change = pushed(flat, part.z, along.to(part.z).reshape(1, -1))[0]
        height, slope = flat.detach().double(), change.double()
        bends = len(flat) - part.out.numel()
        moving = slope.abs() > SAME * slope.abs().max()
        ahead = (-height / slope)[:bends]
        ahead = ahead[(ahead > 0) & ahead.isfinite() & moving[:bends]]
        end = float(ahead.min()) if len(ahead) else math.inf
        step = share * min(end, 1 - t)
        with segment(model, a, at=a + (t + step) * along) as there:
            left = other_side(part, there)
            if left and step > BEYOND:
                raise disagreement(f"{left} on another side before the boundary that was foretold")
            if not left and not agree(part, there, flat, told(there), step * change):
                raise disagreement("other numbers in a region than its derivative foretells")
        return part, end


def require_exact(part: Segment) -> None:
    """Raise where rounding would hide regions that are next to each other."""
    if part.eps > EXACT:
        raise Refusal(
            "Everything that depends on the input must be computed in float64 to tell regions "
            f"apart, got numbers rounded to {part.eps:.2g}. Pass a model that runs after "
            "`model.double()`, without casts of its own."
        )


def require_known(part: Segment) -> None:
    """Raise unless every place where the network bends is known."""
    cut = {True: "", False: " of something cut off from the derivative (`detach`)"}
    unknown = sorted({k.name + cut[k.heights.requires_grad] for k in part.kinks if not k.known})
    if part.why or unknown:
        raise Refusal(
            "The boundaries of the regions must be known, got "
            f"{part.why or ', '.join(unknown)}. ReLU and its like, hardtanh, comparisons, and "
            "max-pooling are: exchange it for one of these."
        )
