"""Refusals: what the public doors of `linalg` say about input they cannot use."""

import math

import torch
from jaxtyping import Shaped
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Spectrum


def require_matrix(A: Shaped[Tensor, "..."], *, name: str) -> None:
    """Raise unless `A` is a non-empty, finite, real floating matrix. Called at doors only."""
    if A.ndim != 2 or A.numel() == 0:
        raise Refusal(
            f"`{name}` must be a non-empty matrix [rows, cols], got shape {tuple(A.shape)}. "
            "For a convolution kernel use `models.as_matrix(weight)`; for a stack of matrices, "
            "`linalg.spectra.spectra(stack)`."
        )
    require_finite(A, name=name)


def require_finite(A: Shaped[Tensor, "..."], *, name: str) -> None:
    """Raise unless `A` holds real floating numbers, all of them finite."""
    if A.is_complex():
        raise TypeError(
            f"`{name}` must be real, got {A.dtype}. The matrix "
            "[[Re, -Im], [Im, Re]] has the same singular values, each twice."
        )
    if not A.is_floating_point():
        raise TypeError(f"`{name}` must be floating point, got {A.dtype}. Use `{name}.double()`.")
    if A.is_meta:
        raise Refusal(
            f"`{name}` must have values, got shape {tuple(A.shape)} on the meta device. "
            "Load the model's weights before measuring it."
        )
    if not torch.stack(A.detach().aminmax()).isfinite().all():  # one pass, nan included
        finite = A.isfinite()
        first = tuple((~finite).nonzero()[0].tolist())
        raise Refusal(
            f"`{name}` has {A.numel() - int(finite.sum())} of {A.numel()} entries not finite, the "
            f"first at {first}. "
            "Its spectrum is undefined: find the step that produced it before measuring further."
        )


def require_square(shape: tuple[int, int], *, name: str) -> None:
    """Raise unless the shape is that of a square matrix."""
    if shape[0] != shape[1]:
        raise Refusal(
            f"`{name}` must be square, got shape {tuple(shape)}. "
            f"Pass its Gram matrix `{name} @ {name}.mT`, or ask for singular values instead."
        )


def require_symmetric(M: Shaped[Tensor, "..."], *, name: str) -> None:
    """Raise unless `M` is a finite matrix, symmetric up to the rounding of its own precision."""
    require_matrix(M, name=name)
    require_square((M.shape[0], M.shape[1]), name=name)
    if torch.equal(M, M.mT):  # at a tenth of the cost of the difference
        return
    gap = (M - M.mT).abs().amax()
    if gap > 8 * len(M) * torch.finfo(M.dtype).eps * M.abs().amax():
        i, j = divmod(int((M - M.mT).abs().argmax()), len(M))
        raise Refusal(
            f"`{name}` must be symmetric, got {M[i, j].item():g} at {(i, j)} and "
            f"{M[j, i].item():g} at {(j, i)}. Pass `({name} + {name}.mT) / 2` if that is meant."
        )


def require_steps(steps: int) -> None:
    """Raise unless at least one product may be spent."""
    if steps < 1:
        raise Refusal(f"`steps` must be at least 1, got {steps}. Omit it for the default.")


def require_between(value: float, low: float, high: float, *, name: str, instead: str) -> None:
    """Raise unless `low <= value < high` (nan is refused)."""
    if not low <= value < high:
        raise Refusal(f"`{name}` must be in [{low:g}, {high:g}), got {value:g}. {instead}")


def require_probability(p: float) -> None:
    """Raise unless `0 < p < 1`."""
    if not 0 < p < 1:
        raise Refusal(
            f"`p` must be between 0 and 1, both excluded, got {p:g}. It is a probability."
        )


def require_positive(value: float, *, name: str, instead: str) -> None:
    """Raise unless `value` is positive and finite."""
    if not (value > 0 and math.isfinite(value)):
        raise Refusal(f"`{name}` must be positive and finite, got {value:g}. {instead}")


def require_complete(s: Spectrum, *, asked: str) -> None:
    """Raise unless every singular value is there."""
    if not s.complete:
        raise Refusal(
            f"`{asked}` needs all {min(s.shape)} singular values, got the leading "
            f"{len(s.sigma)} from route {s.how!r}. Use `spectrum(A, route='exact')`."
        )


def require_nonzero(largest: float, shape: tuple[int, int], *, asked: str) -> None:
    """Raise unless the largest singular value is positive."""
    if not largest > 0:
        raise Refusal(
            f"`{asked}` needs a non-zero matrix, got zeros of shape {shape}. "
            "It is undefined there: see whether the layer is dead before asking for ratios."
        )


def overflowing(shape: tuple[int, int]) -> ValueError:
    """The refusal for a finite matrix whose norm is beyond float64."""
    return ValueError(
        f"`A` must have a largest singular value that float64 can hold, got a matrix of shape "
        f"{tuple(shape)} with entries near 1e308. Divide it by a power of two and multiply back."
    )


def require_samples(samples: int) -> None:
    """Raise unless there are enough samples to see their own spread."""
    if samples < 2:
        raise Refusal(
            f"`samples` must be at least 2, got {samples}. One sample has no spread to "
            "take an interval from."
        )


def not_finite_products(shape: tuple[int, int]) -> ValueError:
    """The refusal for an operator whose products are nan or infinite."""
    return ValueError(
        f"`A` must have finite products, got nan or inf from an operator of shape {tuple(shape)}. "
        "Look for nan in what it closes over, or apply it in float64."
    )
