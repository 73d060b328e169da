"""Linear maps known by what they do to a block of vectors."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.records import Brief
from sigmascope.linalg.dense import EPS, tamed, times

Apply = Callable[[Float[Tensor, "n k"]], Float[Tensor, "m k"]]


@dataclass(frozen=True, slots=True, repr=False)
class Operator(Brief):
    """A linear map `R^n -> R^m` and its adjoint; the matrix itself need not exist.

    Attributes:
        shape: `(m, n)`.
        apply: `[n, k] -> [m, k]`.
        adjoint: `[m, k] -> [n, k]`.
        like: Any tensor with the dtype and device the map works in.
    """

    shape: tuple[int, int]
    apply: Apply
    adjoint: Apply
    like: Tensor

    @classmethod
    def of(cls, matrix: Float[Tensor, "m n"]) -> "Operator":
        """The map `x -> matrix @ x`."""
        m, n = matrix.shape
        return cls((m, n), lambda x: matrix @ x, lambda y: matrix.mT @ y, matrix)

    def dense(self) -> Float[Tensor, "m n"]:
        """The matrix, by applying the map to every unit vector; costs `n` products."""
        eye = torch.eye(self.shape[1], dtype=self.like.dtype, device=self.like.device)
        return self.apply(eye)


# ------------------------------------------------------------------------------
# Maps that are multiplied often, and the space that this spans: scaled, so that nothing is lost.
#
# The invariant: scaling is by powers of two, so that it rounds nothing; the basis of the space is
# orthonormal up to rounding whatever the matrix.


WORKING = {torch.float64: torch.float64}  # all others are multiplied in single precision
PANEL = 2**20  # entries that are widened at a time
PASSES = 6  # of a block over the basis; the third is for what only rounding left
LEAST = 2.0**-900  # of an energy; below, squares of entries were lost


@dataclass(frozen=True, slots=True)
class Map:
    """A map `R^n -> R^m`, `m >= n`: the operator itself, or its transpose, over `2^power`."""

    there: Callable[[Tensor], Tensor]
    back: Callable[[Tensor], Tensor]
    asked: tuple[int, int]
    power: int
    dtype: torch.dtype
    like: Tensor
    matrix: Tensor | None = None

    @property
    def turned(self) -> bool:
        """Whether it is the transpose."""
        return self.asked[0] < self.asked[1]

    @property
    def shape(self) -> tuple[int, int]:
        """`(m, n)`, the longer side first."""
        return max(self.asked), min(self.asked)

    @classmethod
    def of(cls, A: Tensor | Operator) -> "Map":
        like = A if isinstance(A, Tensor) else A.like
        dtype = WORKING.get(like.dtype, torch.float32)
        if isinstance(A, Tensor):
            W, power = tamed(A.detach().to(dtype))
            # rows times a matrix that lies in rows: the other order reads memory across
            pair, matrix, like = ((lambda x: W @ x), (lambda y: (y.mT @ W).mT)), W, W
        else:
            work = like.dtype
            there = lambda x: A.apply(x.to(work)).detach().to(dtype)
            back = lambda y: A.adjoint(y.to(work)).detach().to(dtype)
            pair, matrix, power = (there, back), None, 0
        first, second = pair if A.shape[0] >= A.shape[1] else pair[::-1]
        return cls(first, second, (A.shape[0], A.shape[1]), power, dtype, like, matrix)

    def energy_over(self, energy: float | None, power: int) -> float | None:
        """`‖A‖_F²` in units in which `A` is multiplied, over `4^power`; summed if not given."""
        if self.matrix is not None and (energy is None or energy < LEAST):
            return float(times(times(energy_of(self.matrix), -power), -power))
        if energy is None:
            return None
        power += self.power
        return float(times(times(torch.tensor(energy, dtype=torch.float64), -power), -power))

    def slack(self, kept: int, power: int) -> tuple[float, float]:
        """What rounding may take from a value: a share of the largest, and what is subnormal."""
        info = torch.finfo(self.like.dtype)
        share = 16 * (math.sqrt(self.shape[0]) + math.sqrt(kept)) * max(info.eps, EPS)
        lost = torch.tensor(8.0 * self.shape[0] * info.tiny * info.eps, dtype=torch.float64)
        return share, float(times(lost, -power)) if self.matrix is None else 0.0


def space(
    A: Map, block: int, steps: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """An orthonormal basis `Q` of the Krylov space on the smaller side, and `A Q`."""
    n = A.shape[1]
    block = min(block, n)
    device = A.like.device
    source = device if generator is None else generator.device
    start = torch.randn(n, block, generator=generator, dtype=torch.float64, device=source)
    Q = torch.linalg.qr(start.to(device))[0].to(A.dtype)
    products = [A.there(Q)]
    while len(products) < steps and Q.shape[1] < n and products[-1].isfinite().all():
        Z = tamed(A.back(tamed(products[-1])[0]))[0]  # either may leave single precision
        # An orthonormal basis of what is there outside `Q`; where nothing is, what rounding left.
        # Twice is enough (Parlett 1998, section 6.9) for what is there before the first pass; what
        # only rounding left points anywhere, also into `Q`, and is taken over it again.
        fresh = Z[:, : n - Q.shape[1]]
        enough = 4 * torch.finfo(Q.dtype).eps * math.sqrt(Q.shape[1])
        inside = Q.mT @ fresh
        for _ in range(PASSES):
            fresh = fresh - Q @ inside
            longest = torch.linalg.vector_norm(fresh, dim=0).amax()
            if longest > 0:
                fresh = fresh / longest
            else:  # nothing at all is left: columns that no short sum of unit vectors equals
                places = torch.arange(1, fresh.numel() + 1, dtype=torch.float64)
                fresh = torch.cos(places.view(fresh.shape).square()).to(fresh)
            fresh = torch.linalg.qr(fresh)[0]
            inside = Q.mT @ fresh
            if float(torch.linalg.matrix_norm(inside)) <= enough:
                break
        Q = torch.cat([Q, fresh], dim=1)
        products.append(A.there(fresh))
    return Q, torch.cat(products, dim=1)


def energy_of(A: Tensor) -> Float64[Tensor, ""]:
    """At least `‖A‖_F²`: the sum of the squares and what adding them up may have rounded."""
    height = max(1, PANEL // A.shape[1])
    total = sum(float(panel.double().square().sum()) for panel in A.split(height))
    return torch.tensor(total * (1 + (A.numel() + 2) * EPS), dtype=torch.float64)
