"""What a layer reads or writes, as matrices whose rows are samples or positions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg.spectra import spectra
from sigmascope.records import Spectrum

TOGETHER = 2**18  # numbers of matrices that are solved together: two megabytes in float64


@dataclass(frozen=True, slots=True)
class Rows:
    """One tensor `[batch, ...]` as the matrices that are measured.

    Attributes:
        samples: One row per sample, everything else in the columns. None where the tensor cannot
            be split into samples.
        channels: One row per position of every sample (a pixel, a token, a window), one column per
            channel. None where each sample has one position only: the two would be the same.
    """

    samples: Float[Tensor, "n d"] | None
    channels: Float[Tensor, "p c"] | None

    def forms(self) -> dict[str, Float[Tensor, "rows cols"]]:
        """The matrices that exist, by name."""
        both = {"samples": self.samples, "channels": self.channels}
        return {form: rows for form, rows in both.items() if rows is not None and rows.numel()}


def rows(value: Tensor, *, channels: int, count: int, batch_dim: int = 0) -> Rows:
    """The two views of a tensor.

    Args:
        value: What was read or written.
        channels: The dimension that counts channels.
        count: Samples in the batch.
        batch_dim: Where the batch has its samples; looked for elsewhere if the length is not there.
    """
    by_sample = samples_first(value, count=count, batch_dim=batch_dim)
    flat = None if by_sample is None else by_sample.reshape(count, -1)
    positions = None if value.ndim <= 2 else value.movedim(channels, -1).flatten(0, -2)
    return Rows(flat, positions)


def samples_first(value: Tensor, *, count: int, batch_dim: int = 0) -> Tensor | None:
    """The tensor as `[samples, ...]`: samples moved first, or windows of a sample gathered."""
    lengths = list(value.shape)
    if value.ndim > batch_dim and lengths[batch_dim] == count:
        return value.movedim(batch_dim, 0)
    if value.ndim and lengths[0] == count:
        return value
    outer = lengths[:-1] if value.ndim > 2 else lengths  # the last one counts features
    if outer.count(count) == 1:
        return value.movedim(outer.index(count), 0)
    if value.ndim > 1 and lengths[0] % count == 0:  # positions folded into the batch, sample-major
        return value.unflatten(0, (count, -1))
    return None


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


def spectra_of(matrices: Sequence[Float[Tensor, "_ _"]]) -> tuple[Spectra, ...]:
    """Singular values of the rows of each matrix, as they are and centred, in float64."""
    found: list[Spectra] = []
    for group in _groups(matrices):
        wide = [matrix.double() for matrix in group]
        centred = [A - A.mean(0) for A in wide]
        both = spectra([*wide, *centred], route="gram")
        found += map(_one, group, wide, both, both[len(group) :])
    return tuple(found)


def _groups(matrices: Sequence[Tensor]) -> Iterator[Sequence[Tensor]]:
    """Neighbours of one shape, as long as their copies are small."""
    for _, group in groupby(matrices, key=lambda m: m.shape):
        same = [*group]
        size = max(1, TOGETHER // same[0].numel())
        yield from (same[i : i + size] for i in range(0, len(same), size))


def _one(matrix: Tensor, A: Tensor, raw: Spectrum, centred: Spectrum) -> Spectra:
    scale = float(A.abs().amax()) or 1.0  # so that squares neither overflow nor vanish
    mean_square = float((A / scale).square().mean()) * scale * scale
    eps = torch.finfo(matrix.dtype).eps
    raw, centred = (_widened(s, eps, matrix.dtype) for s in (raw, centred))
    return Spectra(raw, centred, mean_square, eps)


def _widened(s: Spectrum, eps: float, dtype: torch.dtype) -> Spectrum:
    """Ends that hold what half precision rounded off when the rows were written.

    Each entry by half an `eps` of itself at most, and singular values by no more than all together
    (Weyl 1912). In wider formats that is far below whatever is counted.
    """
    if eps <= torch.finfo(torch.float32).eps:
        return s
    off = eps / 2 * float(s.sigma.norm())
    how = f"{s.how}, rounded to {str(dtype).removeprefix('torch.')}"
    return Spectrum(s.sigma, s.shape, how, (s.low - off).clamp_min(0), s.high + off, s.risk)
