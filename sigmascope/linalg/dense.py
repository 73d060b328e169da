"""Dense arithmetic in float64, with its rounding error: exact factorisations, and sums."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64, Inexact
from torch import Tensor

from sigmascope.core.records import Estimate

EPS = 2.0**-52
SMALLEST = 2.0**-1074  # rounding of a subnormal number, and of no other: added to one it is lost
PANEL = 512  # rows summed at a time: short chains of roundings, and a float64 copy that fits
BLOCK = 96  # columns of the Gram matrix formed at a time; only its lower triangle is read
NARROW = 16  # columns up to which a panel is too little for a product of its own
PIECE = 2**16  # entries that are copied to float64 at once
# An accelerator waits for every small kernel, and its eigensolvers are slow on small matrices: on
# an H200 `eigvalsh` of 64 x 64 takes 0.40 ms against 0.16 with the way back, of 256 x 256 2.0
# against 3.8; `svdvals` comes level at 2048 (`python -m benchmarks.devices --matrices`).
TOGETHER = 2**25  # entries of Gram matrices, and of copies in float64, that it holds at once
FEWEST_EIGEN, FEWEST_SINGULAR = 128, 2048  # rows and columns, below which LAPACK is faster
LOW, HIGH = 2.0**-32, 2.0**32  # largest entries of which products stay inside any format

Values = tuple[Float64[Tensor, "b r"], Float64[Tensor, "b r"], Float64[Tensor, "b r"]]


def exact_values(stack: Float[Tensor, "b m n"]) -> Values:
    """Singular values by bidiagonalisation in float64, descending, with both ends.

    The factorisation is that of a matrix within `4 max(m, n) eps σ₁` of `A`, and singular values
    move by no more than the matrix does (Weyl 1912).
    """
    scale = _scale(stack)
    sigma = singular_values(stack.double() / scale[:, None, None])
    slack = 4 * max(stack.shape[1:]) * EPS * sigma[:, :1]
    low, high = (sigma - slack).clamp_min(0), sigma + slack
    return _leave(scale, sigma, low, high)


def singular_values(stack: Inexact[Tensor, "*b m n"]) -> Float[Tensor, "*b r"]:
    """Singular values, descending, by LAPACK or on the device, where they come sooner."""
    large = min(stack.shape[-2:]) >= FEWEST_SINGULAR
    return torch.linalg.svdvals(stack if large else stack.cpu())


def eigenvalues(stack: Float[Tensor, "*b n n"]) -> Float[Tensor, "*b n"]:
    """Eigenvalues of symmetric matrices, ascending; only the lower triangle is read."""
    return torch.linalg.eigvalsh(stack if stack.shape[-1] >= FEWEST_EIGEN else stack.cpu())


def gram_values(stack: Float[Tensor, "b m n"]) -> Values:
    """Singular values as roots of the eigenvalues of the smaller Gram matrix, with both ends."""
    scale = _scale(stack)
    m, n = stack.shape[1:]
    gram = lower_gram(stack if m >= n else stack.mT, scale)
    return _leave(scale, *roots(gram, inner=max(m, n)))


def gram_work(m: int, n: int) -> int:
    """Multiplications needed to form the smaller Gram matrix of an `[m, n]` matrix."""
    return m * n * min(m, n)


def roots(
    gram: Float64[Tensor, "b r r"], *, inner: int, pieces: int = 1, extra: float = 0.0
) -> Values:
    """Roots of the eigenvalues of Gram matrices that were summed over `inner` rows, descending.

    An eigenvalue is off by at most the norm of three errors. That of the eigensolver, `8√r eps λ₁`.
    Roundings of entry `ij` that add up like a random walk of `inner` steps (Higham & Mary 2019)
    to about `√inner eps ‖xᵢ‖‖xⱼ‖ / 2`: such a matrix has norm at most `2 maxᵢ √(Σⱼ entry²)`. And
    roundings that all go one way, as when equal rows are summed: `eps` of the matrix for each
    addition in the longest chain, which panels and `pieces` of the rows make. `extra` is an error
    of the Gram matrix that the caller knows of. Random matrices use a tenth of this, constant ones
    most of it.
    """
    lam = eigenvalues(gram).flip(-1).to(gram.device).clamp_min(0)
    squares = gram.diagonal(dim1=-2, dim2=-1)
    walk = math.sqrt(inner) * (squares.amax(-1) * squares.sum(-1)).sqrt()
    chain = min(inner, PANEL + inner // PANEL + pieces)
    delta = EPS * ((8 * math.sqrt(gram.shape[-1]) + chain) * lam[:, 0] + walk) + extra
    low, high = (lam - delta[:, None]).clamp_min(0), lam + delta[:, None]
    return lam.sqrt(), low.sqrt(), high.sqrt()


def lower_gram(
    tall: Float[Tensor, "b k r"], scale: Float64[Tensor, " b"]
) -> Float64[Tensor, "b r r"]:
    """Lower triangle of `XᵀX` for each `X / scale` of the stack; the rest is unspecified."""
    b, k, r = tall.shape
    if tall.device.type != "cpu":
        return _gram_of_panels(tall, scale, entries=TOGETHER)
    if r <= NARROW and k > 4 * PANEL:
        return _gram_of_panels(tall, scale, entries=PIECE)
    gram = tall.new_zeros(b, r, r, dtype=torch.float64)
    plain = bool((scale == 1).all())
    for panel in tall.split(PANEL, dim=1):
        P = panel.double() if plain else panel.double() / scale[:, None, None]
        for j in range(0, r, BLOCK):
            gram[:, j:, j : j + BLOCK].baddbmm_(P[:, :, j:].mT, P[:, :, j : j + BLOCK])
    return gram


def _gram_of_panels(
    tall: Float[Tensor, "b k r"], scale: Float64[Tensor, " b"], *, entries: int
) -> Float64[Tensor, "b r r"]:
    """The same of the same panels, as many of them in one product as have so many entries."""
    b, _, r = tall.shape
    gram = tall.new_zeros(b, r, r, dtype=torch.float64)
    most = max(1, entries // (b * r * max(r, PANEL)))
    for rows in tall.split(most * PANEL, dim=1):
        P = rows.double() / scale[:, None, None]
        whole = P.shape[1] // PANEL * PANEL
        if whole:
            panels = P[:, :whole].reshape(b, -1, PANEL, r)
            gram += (panels.mT @ panels).sum(1)
        if whole < P.shape[1]:
            gram += P[:, whole:].mT @ P[:, whole:]
    return gram


def _scale(stack: Float[Tensor, "b m n"]) -> Float64[Tensor, " b"]:
    """A power of two near the largest entry of each matrix, by which it may safely be divided."""
    if stack.dtype != torch.float64:  # squares of narrower formats are inside float64 as they are
        return stack.new_ones(len(stack), dtype=torch.float64)
    largest = torch.maximum(stack.amax((1, 2)), -stack.amin((1, 2))).tolist()
    return stack.new_tensor([power_of_two(x) if x > 0 else 1.0 for x in largest])


def power_of_two(x: float) -> float:
    """The power of two at or below a positive `x`; dividing by it rounds nothing."""
    return math.ldexp(1.0, math.frexp(x)[1] - 1)


def tamed(X: Float[Tensor, "m n"]) -> tuple[Float[Tensor, "m n"], int]:
    """`X / 2^power` with entries whose products stay inside their format, and that power.

    Args:
        X: A matrix.

    Source:
        Higham 2002, section 2.1: scaling by a power of two rounds nothing.
    """
    top = largest(X)
    if top == 0 or not math.isfinite(top) or LOW < top < HIGH:
        return X, 0
    power = math.frexp(top)[1]
    return times(X, -power), power


def times(X: Float[Tensor, "..."], power: int) -> Float[Tensor, "..."]:
    """`2^power X`, in two steps, either of which every format can hold.

    Args:
        X: Any tensor.
        power: A whole number.

    Source:
        Higham 2002, section 2.1.
    """
    half = power // 2
    return X * 2.0**half * 2.0 ** (power - half) if power else X


def _leave(scale: Tensor, *values: Tensor) -> Values:
    """Times the scale, the ends outwards by what is rounded among subnormal numbers."""
    sigma, low, high = ((scale[:, None] * v.to(scale.device)).cpu() for v in values)
    return sigma, (low - SMALLEST).clamp_min(0), torch.where(high > 0, high + SMALLEST, high)


# ------------------------------------------------------------------------------
# Sums over all entries of large tensors, in float64 and by pieces that stay in the cache.
#
# A copy in float64, or a mask of what is finite, takes ten times as long as the sum itself.


def is_finite(t: Tensor) -> bool:
    """Whether no entry is infinite or not a number."""
    real = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    return not t.numel() or bool(torch.stack(real.detach().aminmax()).isfinite().all())


def largest(t: Tensor) -> float:
    """Size of the largest entry, of complex ones of their parts; nan where one is, 0 of none.

    A copy without signs takes longer to make than to look at.
    """
    real = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    if not t.numel():
        return 0.0
    low, high = real.detach().aminmax()
    return float(torch.maximum(high, -low))


def square_sum(t: Tensor) -> float:
    """Sum of `|entry|²`."""
    return sum((float(p @ p) for p in _pieces(t)), 0.0)


def norm(t: Tensor) -> float:
    """Root of the sum of `|entry|²`."""
    return math.sqrt(square_sum(t))


def norm_within(t: Tensor) -> Estimate:
    """Root of the sum of squares, with what adding them up may have rounded.

    Args:
        t: Real, not empty.

    Source:
        Higham 2002, Accuracy and Stability of Numerical Algorithms, (3.5), for sums in any order.
    """
    # a root has half the error of what it is of
    return Estimate.rounded(norm(t), ulps=additions(t), how="summed")


def additions(t: Tensor) -> float:
    """How many stand behind each square that `square_sum` adds, at most."""
    piece = max(1, min(t.numel(), _most(t)))
    return piece + t.numel() / piece


def mean_and_spread(t: Tensor) -> tuple[Estimate, Estimate]:
    """Mean of the entries of a real tensor, and their standard deviation about it.

    Both with what adding them up may have rounded; a spread that rounding may have made alone has
    the low end 0.

    Args:
        t: Not empty.

    Source:
        Higham 2002, Accuracy and Stability of Numerical Algorithms, (3.5), for sums in any order;
        Chan, Golub & LeVeque 1983 for the two passes.
    """
    n = t.numel()
    mean = sum((float(p.sum()) for p in _pieces(t)), 0.0) / n
    apart = (p - mean for p in _pieces(t))
    square = sum((float(p @ p) for p in apart), 0.0) / n
    gap = (n + 2) * EPS * math.hypot(mean, math.sqrt(square))
    # about a mean that is off the squares are too large by that, squared
    low = max(square * (1 - (n + 4) * EPS) - gap**2, 0.0)
    variance = Estimate(square, low, square * (1 + (n + 4) * EPS), "summed")
    return Estimate.within(mean, gap, how="summed"), variance.sqrt()


def as_it_lies(t: Tensor) -> Tensor:
    """The same numbers, the dimensions in the order of memory: flat without a copy, if whole."""
    if t.is_contiguous():
        return t
    return t.permute(sorted(range(t.ndim), key=lambda d: -t.stride(d)))


def _pieces(t: Tensor) -> Iterator[Tensor]:
    dense = t if t.layout == torch.strided else t.to_dense()
    real = torch.view_as_real(dense.resolve_conj()) if t.is_complex() else dense
    flat = as_it_lies(real.detach()).reshape(-1)
    parts = flat.split(_most(t)) if len(flat) > _most(t) else (flat,)
    return (p.double() for p in parts)


def _most(t: Tensor) -> int:
    return PIECE if t.device.type == "cpu" else TOGETHER


def median(t: Tensor) -> float:
    """The middle one of real numbers, or of an even number the mean of the two in the middle.

    (`torch.median` takes the lower of the two, which of few numbers may be far from the other.)

    Args:
        t: Not empty, in any shape.
    """
    flat = t.detach().flatten().double()
    half = len(flat) // 2
    upper = flat.kthvalue(half + 1).values
    if len(flat) % 2:
        return float(upper)
    lower = flat.kthvalue(half).values
    return float(lower + (upper - lower) / 2)
