"""What is computed from one representation."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg import Spectrum, spectrum


@dataclass(frozen=True, slots=True)
class Spectra:
    """Singular values of one representation.

    Attributes:
        raw: Of the rows as they are.
        centred: Of the rows less their mean.
        mean_square: Mean of the squared entries.
        precision: Unit roundoff of the arithmetic that made the rows.
    """

    raw: Spectrum
    centred: Spectrum
    mean_square: float
    precision: float


def spectra_of(matrix: Float[Tensor, "rows cols"]) -> Spectra:
    """Singular values of the rows, as they are and centred, in float64."""
    A = matrix.double()
    scale = float(A.abs().amax()) or 1.0  # so that squares neither overflow nor vanish
    mean_square = float((A / scale).square().mean()) * scale * scale
    centred = A - A.mean(0)
    raw, apart = spectrum(A, route="gram"), spectrum(centred, route="gram")
    return Spectra(raw, apart, mean_square, torch.finfo(matrix.dtype).eps)
