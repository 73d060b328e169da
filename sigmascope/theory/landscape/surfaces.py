"""The loss over planes and lines through the weights of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.core.guard import Refusal, door
from sigmascope.core.records import Shown
from sigmascope.linalg.krylov import extreme_eigenvalues
from sigmascope.models import Subject
from sigmascope.models.curvature import Direction, losses_at
from sigmascope.models.layers import require_real
from sigmascope.models.samples import Batch, Loss, prepared
from sigmascope.models.state import duplicate
from sigmascope.theory.piecewise_affine import Partition, partition

Plane = Literal["random", "hessian"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Surface(Shown):
    """The loss on a plane, or on a line, through the weights.

    Attributes:
        says: Which plane or line.
        across: What the first axis is.
        along: What the second axis is; empty for a line.
        xs: Coordinates on the first axis; 0 is the model as it is.
        ys: Coordinates on the second axis; a single 0 for a line.
        losses: At each pair; infinite or nan where the model overflows.
    """

    says: str
    across: str
    along: str
    xs: Float64[Tensor, " a"]
    ys: Float64[Tensor, " b"]
    losses: Float64[Tensor, "b a"]


@door
def loss_surface(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any,
    loss: Loss | None,
    plane: Plane = "random",
    extent: float | None = None,
    points: int = 21,
    batch_dim: int = 0,
    generator: torch.Generator | None = None,
) -> Surface:
    """The loss on a plane through the weights.

    Args:
        model: Left bit for bit as it was found.
        batch: As for `profile`.
        targets: What `loss` compares the output with.
        loss: `loss(output, targets)` -> scalar.
        plane: `"random"`: two random directions, every row of a weight as long as that row of the
            model's own (biases and normalisers stay); `"hessian"`: the directions of the largest
            and of the smallest curvature, as long as all weights together.
        extent: How far to go on either side, in these lengths; 1 for random directions and 0.1
            for those of the Hessian if not given.
        points: On each axis; odd, so that the model itself is one of them.
        batch_dim: Where the batch has its samples.
        generator: Draws the directions, or the start of the search for them; a fixed one of its
            own if not given.

    Raises:
        Refusal: If the model or the loss cannot be measured.

    Source:
        Li, Xu, Taylor, Studer & Goldstein 2018, section 4, for the scale of random directions.

    Cost: a forward pass for each point; for the Hessian's directions up to 64 products with it.
    """
    _require_grid(points, extent)
    subject = Subject(model, batch, targets, loss, batch_dim=batch_dim)
    model = subject.model  # inside of what wraps it, as its names are
    generator = generator or torch.Generator().manual_seed(0)
    if plane == "random":
        first, second = _random(model, generator), _random(model, generator)
        names = ("random direction", "another random direction")
        says = "two random directions, scaled row by row"
    elif plane == "hessian":
        curved = subject.curvature("hessian")
        ends = extreme_eigenvalues(
            curved.operator, tolerance=1e-4, towards=curved.gradient, generator=generator
        )
        owned = dict(model.named_parameters())
        parts = [owned[name].detach() for name in curved.parameters]
        size = torch.cat([p.double().flatten() for p in parts]).norm()

        def split(v: Tensor) -> Direction:
            pieces = (size * v[:, 0]).split([p.numel() for p in parts])
            each = zip(curved.parameters, parts, pieces, strict=True)
            return {name: piece.reshape(p.shape).to(p) for name, p, piece in each}

        first, second = split(ends.above), split(ends.below)
        most, least = ends.top[0].value, ends.bottom[0].value
        names = (f"curvature {most:.4g}", f"curvature {least:.4g}")
        says = "the directions of the largest and of the smallest curvature"
    else:
        raise Refusal(f"`plane` must be random or hessian, got {plane!r}.")
    reach = extent or (1.0 if plane == "random" else 0.1)
    axis = torch.linspace(-reach, reach, points, dtype=torch.float64)
    ys, xs = torch.meshgrid(axis, axis, indexing="ij")
    found = losses_at(subject, (first, second), torch.stack([xs.flatten(), ys.flatten()], dim=1))
    return Surface(says, *names, axis, axis, found.reshape(points, points))


@door
def loss_line(
    model: nn.Module,
    other: Mapping[str, Tensor],
    batch: Batch,
    *,
    targets: Any,
    loss: Loss | None,
    points: int = 51,
    beyond: float = 0.25,
    batch_dim: int = 0,
) -> Surface:
    """The loss on the line from a model through another checkpoint of it.

    Args:
        model: At 0; left bit for bit as it was found.
        other: The state dict at 1. Floating buffers are interpolated with the weights.
        batch: As for `profile`.
        targets: What `loss` compares the output with.
        loss: `loss(output, targets)` -> scalar.
        points: On the line.
        beyond: How far to go past either end.
        batch_dim: Where the batch has its samples.

    Raises:
        Refusal: If the checkpoint is not one of this model, or has the same weights.

    Source:
        Goodfellow, Vinyals & Saxe 2015.
    """
    _require_grid(points, None)
    subject = Subject(model, batch, targets, loss, batch_dim=batch_dim)
    bare = dict(zip(model.state_dict(), subject.model.state_dict(), strict=True))  # without wrapper
    model, other = subject.model, {bare.get(k, k): v for k, v in other.items()}
    here = {k: v for k, v in model.state_dict().items() if v.is_floating_point()}
    absent = [k for k in here if k not in other or other[k].shape != here[k].shape]
    if absent:
        raise Refusal(
            f"`other` must have every weight of the model in its shape, got none such for "
            f"`{absent[0]}`. Pass a state dict of the same network."
        )
    owned = {n for n, _ in (*model.named_parameters(), *model.named_buffers())}
    step = {k: other[k].to(v) - v for k, v in here.items() if k in owned}
    if not any(bool(s.any()) for s in step.values()):
        raise Refusal("`other` must differ from the model, got the same weights.")
    axis = torch.linspace(-beyond, 1 + beyond, points, dtype=torch.float64)
    found = losses_at(subject, (step,), axis[:, None])
    says = "the line from the model (0) to the other checkpoint (1)"
    zero = torch.zeros(1, dtype=torch.float64)
    return Surface(says, "share of the way", "", axis, zero, found[None])


def _require_grid(points: int, extent: float | None) -> None:
    if points < 3:
        raise Refusal(f"`points` must be at least 3, got {points}.")
    if extent is not None and not 0 < extent < float("inf"):
        raise Refusal(f"`extent` must be positive, got {extent:g}. It is a share of the weights.")


def _random(model: nn.Module, generator: torch.Generator | None) -> Direction:
    found = {}
    require_real({n: p for n, p in model.named_parameters() if p.requires_grad}, "A surface")
    for name, p in model.named_parameters():
        if p.requires_grad and p.ndim > 1:
            device = "cpu" if generator is None else generator.device
            d = torch.randn(p.shape, generator=generator, device=device).to(p)
            by_row = d.flatten(1).norm(dim=1).clamp_min(1e-30)
            scale = p.detach().flatten(1).norm(dim=1) / by_row
            found[name] = d * scale.reshape(-1, *[1] * (p.ndim - 1))
    if not found:
        raise Refusal("There must be weights that are trained, got none with a gradient.")
    return found


# ------------------------------------------------------------------------------
# The regions of a network on the plane through three samples.


SHOWN = 0.6  # of the half side of the square: how far out the farthest of the samples lies


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Regions(Shown):
    """The regions around three samples.

    Attributes:
        partition: On the plane.
        samples: Which samples the plane goes through.
        at: Where they lie on it.
        half: Half the side of the square, in the unit of the input.
    """

    partition: Partition
    samples: tuple[int, int, int]
    at: Float64[Tensor, "3 2"]
    half: float


@door
def input_regions(
    model: nn.Module, batch: Batch, *, samples: tuple[int, int, int] = (0, 1, 2)
) -> Regions:
    """The regions on the plane through three samples of a batch, in float64.

    Args:
        model: Piecewise affine, with normalisers in evaluation mode; left as it was found, for a
            copy in float64 is measured.
        batch: A tensor with the samples first.
        samples: Which ones.

    Raises:
        Refusal: If the batch is no tensor or has no such samples, if they lie on a line, or as
            `theory.piecewise_affine.partition`.

    Source:
        Riedi et al. 2022, Fig. 3.
    """
    if not isinstance(batch, Tensor):
        raise Refusal(f"`batch` must be a tensor of samples, got {type(batch).__name__}.")
    if not batch.is_floating_point():
        raise Refusal(
            f"`batch` must hold floating numbers, between which there is a plane, got "
            f"{batch.dtype}. Measure the part of the model after the embedding."
        )
    if len(set(samples)) < 3 or not all(0 <= i < len(batch) for i in samples):
        raise Refusal(f"`samples` must be three of {len(batch)}, all different, got {samples}.")
    wide = duplicate(model).double()
    inputs = prepared(wide, batch)
    assert isinstance(inputs, Tensor)
    three = inputs[list(samples)].flatten(1)
    centre = three.mean(0)
    first = three[1] - three[0]
    second = three[2] - three[0]
    across = first / first.norm().clamp_min(1e-300)
    left = second - (second @ across) * across
    if not float(left.norm()) > 1e-6 * float(second.norm()):
        raise Refusal(f"The samples {samples} must not lie on a line. Choose other ones.")
    along = left / left.norm()
    flat = (three - centre) @ torch.stack([across, along], dim=1)
    half = float(flat.abs().max()) / SHOWN
    shape = inputs[:1].shape
    found = partition(
        wide, centre.reshape(shape), half * across.reshape(shape), half * along.reshape(shape)
    )
    return Regions(found, samples, (flat / half).cpu(), half)
