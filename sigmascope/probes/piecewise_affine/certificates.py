"""Whether a network does what was read off its tape: it is evaluated again, and compared.

The tables of operations say that a network is piecewise affine, and autograd says with which
slopes. Neither has to be believed: inside a region every height and every output is an affine
function, so that what they are at another point of it is known from the slopes. A bend that was not
seen, a hook that changes gradients, a function with another's derivative or a network that is
another one at every call give other numbers there.
"""

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.linalg.krylov import Operator
from sigmascope.probes.piecewise_affine.segments import ROUNDINGS, Segment, pushed, segment, widened

TRIES = 2  # random directions in which a map is tried
SHRINK = 16.0  # by which a step is shortened that left the region
FAR = 10.0  # lengths of the sample: how far a network without boundaries is tried
INSIDE = 0.9  # of the distance to the nearest boundary


def moves(z: Tensor) -> list[Tensor]:
    """Some directions of length one, always the same, with no trace in any random state."""
    draw = torch.Generator().manual_seed(z.numel())
    found = [torch.randn(z.shape, generator=draw, dtype=torch.float64) for _ in range(TRIES)]
    return [(d / d.norm()).to(z) for d in found]


def length(z: Tensor) -> float:
    """Of a sample, or 1 at zero."""
    return float(z.detach().double().norm()) or 1.0


def told(part: Segment) -> Tensor:
    """All heights and outputs in one row."""
    known = [k.heights.flatten() for k in part.kinks if k.known]
    return torch.cat([*(h.to(part.out) for h in known), part.out.flatten()])


def other_side(a: Segment, b: Segment) -> str:
    """The first kink that is on another side at another point; empty if it is the same region."""
    if [k.name for k in a.kinks] != [k.name for k in b.kinks]:
        return "a branch of the program"
    pairs = zip(a.kinks, b.kinks, strict=True)
    return next((f"`{k.name}`" for k, m in pairs if not _same(k.side, m.side)), "")


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool((a == b).all())


def agree(a: Segment, b: Segment, was: Tensor, now: Tensor, change: Tensor) -> bool:
    """Whether numbers have changed by what was foretold, up to the rounding of either run."""
    if was.shape != now.shape or not torch.equal(was.isfinite(), now.isfinite()):
        return False
    off = (now.detach() - was.detach() - change).double().abs()
    room = a.noise + b.noise + ROUNDINGS * a.eps * float(change.double().abs().nan_to_num().max())
    return bool((off[was.isfinite()] <= room).all())


def require_map(
    model: nn.Module, x: Tensor, ends: tuple[str | None, str | None], part: Segment, A: Operator
) -> None:
    """Raise unless a map is the network at other points of the region."""
    room = length(part.z)
    first, second = moves(part.z)
    # in float64 a short step, which seldom leaves the region, changes much more than rounding does
    size = room * min(0.1, max(1e-3, 1000 * ROUNDINGS * part.eps))
    left = "its output"
    while left and size > ROUNDINGS * part.eps * room:
        left = _tried(model, x, ends, part, A, size * first)
        size /= SHRINK
    if left:
        raise Refusal(
            f"The sample must lie inside a region, got one where {left} changes its side, up "
            "to rounding. Move it a little, e.g. `x + 1e-6 * torch.randn_like(x)`."
        )
    _tried(model, x, ends, part, A, room * second)


def _tried(
    model: nn.Module,
    x: Tensor,
    ends: tuple[str | None, str | None],
    part: Segment,
    A: Operator,
    step: Tensor,
) -> str:
    """What is on another side a step away; else the map must be right there."""
    with segment(model, x, *ends, at=part.z + step) as there:
        left = other_side(part, there)
        change = A.apply(step.reshape(-1, 1))[:, 0]
        if not left and not agree(part, there, part.out.flatten(), there.out.flatten(), change):
            raise disagreement("other numbers in the region than its derivative foretells")
        return left


def require_distance(
    model: nn.Module, x: Tensor, part: Segment, reach: float, nearest: Tensor | None
) -> None:
    """Raise unless the network is affine within a distance, and changes beyond it.

    Args:
        model: As it is asked about.
        x: The sample.
        part: The network there.
        reach: The distance.
        nearest: The step to the nearest boundary.
    """
    far = FAR * length(part.z)
    flat = told(part)
    if reach <= ROUNDINGS * part.eps * length(part.z):  # on a boundary, up to rounding
        return
    for direction in moves(part.z):
        for size in {INSIDE * min(reach, far), INSIDE * min(reach, 100 * far)}:
            step = size * direction
            change = pushed(flat, part.z, step.reshape(1, -1))[0]
            with segment(model, x, at=part.z + step) as there:
                left = other_side(part, there)
                if left:
                    raise disagreement(f"{left} on another side nearer than the distance")
                if not agree(part, there, flat, told(there), change):
                    raise disagreement("other numbers nearby than its derivative foretells")
    if nearest is not None:
        _require_boundary(model, x, part, nearest)


def _require_boundary(model: nn.Module, x: Tensor, part: Segment, nearest: Tensor) -> None:
    # where the rounding of the sample itself is a part of the distance, neither side can be told
    margin = 1e-6 + ROUNDINGS * part.eps * length(part.z) / max(float(nearest.norm()), 1e-300)
    if margin > 0.1:
        return
    with segment(model, x, at=part.z + (1 - margin) * nearest) as before:
        if left := other_side(part, before):
            raise disagreement(f"{left} on another side nearer than the distance")
    with segment(model, x, at=part.z + (1 + margin) * nearest) as beyond:
        if not other_side(part, beyond):
            raise disagreement("no change where a boundary was foretold")


def has_slope(
    model: nn.Module, x: Tensor, ends: tuple[str | None, str | None], part: Segment, A: Operator
) -> bool:
    """Whether some difference quotient agrees with a derivative, in each of some directions."""
    wide = widened(model, x)
    with segment(wide, x, *ends) as there:
        z = there.z.detach()
    for direction in moves(z):
        slope = A.apply(direction.to(part.z).reshape(-1, 1))[:, 0].double()
        errors = []
        for size in (
            1e-2,
            1e-3,
            1e-4,
            1e-5,
            1e-6,
        ):  # of which one is within a bend, and not rounding
            step = size * length(z) * direction
            with segment(wide, x, *ends, at=z + step) as a:
                ahead = a.out.detach().flatten().double()
            with segment(wide, x, *ends, at=z - step) as b:
                behind = b.out.detach().flatten().double()
            errors.append(float(((ahead - behind) / (2 * float(step.norm())) - slope).norm()))
        if not min(errors) <= 1e-3 * float(slope.norm()) + part.noise:
            return False
    return True


def disagreement(what: str) -> Refusal:
    """For a certificate that failed."""
    return Refusal(
        f"The network must do what was read off it where it is evaluated again, got {what}. "
        "Exchange the part that changes gradients, or that PyTorch cannot see."
    )
