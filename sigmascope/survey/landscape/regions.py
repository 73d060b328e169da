"""The regions of a network on the plane through three samples."""

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.probes.execution import duplicate
from sigmascope.probes.piecewise_affine import Partition, partition
from sigmascope.probes.samples import Batch, prepared
from sigmascope.records import Shown

SHOWN = 0.6  # of the half side of the square: how far out the farthest of the samples lies


@dataclass(frozen=True, slots=True, repr=False)
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
            `probes.piecewise_affine.partition`.

    Source:
        Riedi et al. 2022, Fig. 3.
    """
    _require_samples(batch, samples)
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


def _require_samples(batch: Batch, samples: tuple[int, int, int]) -> None:
    if not isinstance(batch, Tensor):
        raise Refusal(f"`batch` must be a tensor of samples, got {type(batch).__name__}.")
    if not batch.is_floating_point():
        raise Refusal(
            f"`batch` must hold floating numbers, between which there is a plane, got "
            f"{batch.dtype}. Measure the part of the model after the embedding."
        )
    if len(set(samples)) < 3 or not all(0 <= i < len(batch) for i in samples):
        raise Refusal(f"`samples` must be three of {len(batch)}, all different, got {samples}.")
