"""A convolution as the operator that it is on a periodic grid, from its kernel alone."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.linalg import condition_number, effective_rank, schatten_norm, stable_rank
from sigmascope.records import Estimate, Item, Reading, Skipped, Spectrum
from sigmascope.records.scans import Matrix

BLOCKS = 2**22  # complex entries of the blocks that are solved at a time
WORK = 2e12  # multiplications that one operator may cost
ENTRIES = 2**26  # complex entries of all blocks of one operator: a GiB
QUANTITIES = {
    q.SPECTRAL_NORM: lambda s: schatten_norm(s, math.inf),
    q.FROBENIUS_NORM: lambda s: schatten_norm(s, 2.0),
    q.STABLE_RANK: stable_rank,
    q.EFFECTIVE_RANK: effective_rank,
    q.CONDITION_NUMBER: condition_number,
}


def operator_items(
    matrix: Matrix, kernel: Float[Tensor, "out in *taps"], grid: int
) -> Iterator[Item]:
    """Norms and ranks of the convolution with this kernel, stride 1 and one group.

    Args:
        matrix: What is known of it.
        kernel: As it is stored; one input for each of several outputs is taken as depthwise.
        grid: Points along each side.
    """
    points = grid ** (kernel.ndim - 2)
    rows, cols = kernel.shape[:2]
    blocks = points * rows * cols
    if blocks > ENTRIES or 8.0 * blocks * min(rows, cols) > WORK:
        why = f"on {points} points it takes too much time or memory: ask for a smaller grid"
        yield Skipped(matrix.site, "operator", why)
        return
    s = operator_spectrum(kernel, grid)
    zero = not float(s.sigma[0]) > 0
    for name, of in QUANTITIES.items():
        if not zero or name.endswith("norm"):
            yield _read(matrix, name, of(s))
    if zero:
        yield Skipped(matrix.site, "ranks of the operator", "it is exactly zero")


def operator_spectrum(kernel: Float[Tensor, "out in *taps"], grid: int) -> Spectrum:
    """All singular values of a convolution on a periodic grid.

    On a torus the operator is a block for each frequency, `[out, in]`, the transform of the kernel
    there; its singular values are those of all blocks. Frequencies of opposite sign have conjugate
    blocks, which have the same.

    Args:
        kernel: The kernel; it is wrapped around a grid that is smaller.
        grid: Points along each side.

    Source:
        Sedghi, Gupta & Long 2019, Theorem 6.
    """
    dims = kernel.ndim - 2
    folded = _folded(kernel.double(), grid)
    symbol = torch.fft.fftn(folded, dim=tuple(range(2, kernel.ndim)))
    blocks = symbol.flatten(2).permute(2, 0, 1)
    rows, cols = kernel.shape[:2]
    depthwise = cols == 1 and rows > 1
    sigma = blocks.abs().flatten() if depthwise else _solved(blocks)
    sigma = sigma.sort(descending=True).values
    slack = 8 * max(rows, cols, grid) * 2.0**-52 * float(sigma[0])
    points = grid**dims
    shape = (points * rows, points * rows) if depthwise else (points * rows, points * cols)
    how = f"fft(periodic {'x'.join([str(grid)] * dims)} grid, stride 1)"
    return Spectrum(sigma, shape, how, (sigma - slack).clamp_min(0), sigma + slack)


def _folded(kernel: Float64[Tensor, "out in *taps"], grid: int) -> Tensor:
    """The kernel on the grid, around which taps beyond its end come back to its beginning."""
    for dim in range(2, kernel.ndim):
        size = kernel.shape[dim]
        folded = kernel.new_zeros(*kernel.shape[:dim], grid, *kernel.shape[dim + 1 :])
        kernel = folded.index_add_(dim, torch.arange(size) % grid, kernel)
    return kernel


def _solved(blocks: Tensor) -> Float64[Tensor, " k"]:
    each = max(1, BLOCKS // (blocks.shape[1] * blocks.shape[2]))
    found = [torch.linalg.svdvals(some).flatten() for some in blocks.split(each)]
    return torch.cat(found)


def _read(matrix: Matrix, name: str, estimate: Estimate) -> Reading:
    return Reading(matrix.site, name, estimate, q.SCAN, "operator")
