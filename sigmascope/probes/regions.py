"""The regions on which a piecewise-affine network is affine: where they end, how many there are."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sigmascope.probes.kinks import Kink
from sigmascope.probes.refusals import Refusal
from sigmascope.probes.segments import CHUNK, pulled, pushed, segment
from sigmascope.probes.smoothness import why_not_affine

UNITS = 2**14  # places to bend of which the nearest is looked for
STEPS = 100_000  # regions that are counted at most
BEYOND = 1e-10  # of the segment: how far past a boundary the next region is looked at


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

    Source:
        Distance to the hyperplanes `p_i(z) = 0`: `|p_i| / ‖∇ p_i‖`, exact for the nearest one.
    """
    with segment(model, x, None, None) as (z, out, kinks):
        require_known(out, z, kinks)
        heights = [k.heights.flatten() for k in kinks]
        total = sum(len(q) for q in heights)
        if total > UNITS:
            raise Refusal(
                f"The distance takes a gradient for each of the {total} places where the network "
                f"may bend, more than {UNITS}. Ask it of a smaller network, or of smaller images."
            )
        return min((_nearest(q, z) for q in heights), default=math.inf)


def _nearest(q: Tensor, z: Tensor) -> float:
    """The least `|q_i| / ‖∇ q_i‖`."""
    least = math.inf
    for part in torch.arange(len(q), device=q.device).split(CHUNK):
        eye = torch.zeros(len(part), len(q), dtype=q.dtype, device=q.device)
        eye[torch.arange(len(part)), part] = 1
        steepness = pulled(q, z, eye).double().norm(dim=1)
        gaps = (q.detach()[part].double().abs() / steepness)[steepness > 0]
        least = min(least, float(gaps.min())) if len(gaps) else least
    return least


def regions_along(
    model: nn.Module, a: Float[Tensor, "1 *sample"], b: Float[Tensor, "1 *sample"]
) -> Crossings:
    """Every region that the segment between two samples passes through, by exact steps.

    Args:
        model: As for `local_affine`; in float64, for boundaries that are close to each other.
        a: Where the segment starts.
        b: Where it ends, of the same shape.

    Raises:
        Refusal: As `local_affine`; or if there are more than 100 000 regions.
    """
    if a.shape != b.shape:
        raise Refusal(
            f"`a` and `b` must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}."
        )
    at: list[float] = []
    t = 0.0
    while len(at) < STEPS:
        ahead = _next_kink(model, a + t * (b - a), b - a)
        t = t + ahead
        if t >= 1:
            return Crossings(len(at) + 1, tuple(at))
        at.append(t)
        t += BEYOND
    raise Refusal(f"The segment passes through more than {STEPS} regions. Take a shorter one.")


def _next_kink(model: nn.Module, x: Tensor, direction: Tensor) -> float:
    """How far along the direction the nearest kink is, in lengths of the direction."""
    least = math.inf
    with segment(model, x, None, None) as (z, out, kinks):
        require_known(out, z, kinks)
        for q in (k.heights.flatten() for k in kinks):
            slope = pushed(q, z, direction.to(z).reshape(1, -1))[0].double()
            height = q.detach().double()
            ahead = -height / slope
            ahead = ahead[(height * slope < 0) & ahead.isfinite()]
            if len(ahead):
                least = min(least, float(ahead.min()))
    return least


def require_known(out: Tensor, z: Tensor, kinks: list[Kink]) -> None:
    """Raise unless every place where the network bends is known."""
    why = why_not_affine(out, z)
    unknown = sorted({k.name for k in kinks if not k.known})
    if why or unknown:
        raise Refusal(
            "The boundaries of the regions must be known, got "
            f"{why or ', '.join(unknown)}. ReLU and its like, hardtanh, and max-pooling are."
        )
