"""Sure bounds of the condition number from the size of the weights alone.

`Mo = D_p W_p ... D_1 W_1` with `|W_i[j, k]| ≤ c` and `|D_i| ≤ 1` is bypassed by a skip connection,
`M(1) = Mo + Id`, and read through the activation `D` of the trained layer, `m` of whose `n` units
are on the negative side, where its slope is `η`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Assumption, Estimate, Spectrum
from sigmascope.theory.bounds import OfFacts, row
from sigmascope.theory.riedi2022.intervals import EPS, SOURCE, blur, exact, ratio

# ------------------------------------------------------------------------------
# How badly conditioned a skip layer with small weights can be, in numbers.


@dataclass(frozen=True, slots=True)
class HardBounds:
    """What is known of `κ(M(1) D)` from `c`, `n`, `m` and `η`; infinite where a condition fails.

    Attributes:
        printed: By equation number, as the paper has them.
        sharper: `(101)` with the root that its own proof gives.
        best: By interlacing, `(1 + cn) / (1 - cn)` over `η` for leaky activations: never larger
            than any of the others.
    """

    printed: dict[str, float]
    sharper: float
    best: float


def hard_bounds(c: float, n: int, *, m: int, eta: float) -> HardBounds:
    """Every sure bound of `κ(M(1) D)`.

    Args:
        c: Largest size of a weight.
        n: Width.
        m: Units on the negative side.
        eta: Their slope, in [-1, 1]; the bounds in print are for -1 and for 0 to 1.

    Raises:
        Refusal: If a number is out of range.

    Source:
        Riedi et al. 2022, Theorems 30 to 32; interlacing by their Eq. (23) and Lemma 24.

    Example:
        >>> found = hard_bounds(1 / 24, 8, m=2, eta=0)
        >>> round(found.printed["(90)"], 6), round(found.best, 6)
        (8.0, 2.0)
    """
    if not (c >= 0 and n >= 1 and 0 <= m <= n and -1 <= eta <= 1):
        raise Refusal(
            f"`hard_bounds` needs c >= 0, n >= 1, 0 <= m <= n and -1 <= eta <= 1, got c={c}, n={n},"
            f" m={m}, eta={eta}."
        )
    cn = c * n
    left = float(1 - Fraction(c) * n)  # 1 - cn, of which rounding would leave nothing near c = 1/n
    small = left > 0
    relu = small and eta == 0 and 1 <= m < n
    leaky = small and 0 < eta <= 1
    loss = (1 - eta) * m * (3 * c + 1)
    squares = left**2 - 4 * (1 - eta) * math.sqrt(m)
    printed = {
        "(88)": _over(cn, left) if small and eta == -1 else math.inf,
        "(89)": _over(cn, _root(1 - 2 * cn * (1 + n))) if relu else math.inf,
        "(90)": _over(cn, left - math.sqrt(m / n)) if relu else math.inf,
        "(91)": _over(cn, _root(1 - 2 * cn * (1 + 2 * m))) if relu else math.inf,
        "(100)": _over(cn, _root(squares)) if leaky and n >= 5 else math.inf,
        "(101)": _over(cn, left - loss) if leaky else math.inf,
    }
    root = (1 - eta) * math.sqrt(m * (3 * c + 1))
    sharper = _over(cn, left - root) if leaky else math.inf
    slope = abs(eta) if eta != 0 and m > 0 else 1.0
    best = _over(cn, left) / slope if small and (m < n or eta != 0) else math.inf
    return HardBounds(printed, sharper, best)


def _over(cn: float, below: float) -> float:
    return (1 + cn) / below if below > 0 else math.inf


def _root(x: float) -> float:
    return math.sqrt(x) if x > 0 else 0.0


# ------------------------------------------------------------------------------
# The theorems, of facts about weights.


@dataclass(frozen=True, slots=True)
class Weights:
    """The facts: how large the weights are, and the singular values of what they make.

    Attributes:
        c: Largest size of a weight.
        n: Width.
        m: Units of the trained layer on the negative side.
        eta: Their slope.
        bypassed: Singular values of `Mo`.
        largest_entry: Of `Mo`.
        skipped: Of `M(1)`.
        read: Of `M(1) D`.
        site: Which layers.
    """

    c: float
    n: int
    m: int
    eta: float
    bypassed: Spectrum
    largest_entry: float
    skipped: Spectrum
    read: Spectrum
    site: str = "weights"

    @classmethod
    def of(
        cls,
        weights: Sequence[Float[Tensor, "n n"]],
        slopes: Sequence[Float[Tensor, " n"]],
        *,
        off: Bool[Tensor, " n"],
        eta: float,
        site: str = "weights",
    ) -> "Weights":
        """Multiply layers out.

        Args:
            weights: `W_1` to `W_p`, square, of one size.
            slopes: Diagonals of `D_1` to `D_p`, none above 1 in size.
            off: The units of the trained layer that are on the negative side.
            eta: Their slope.
            site: Which layers.

        Raises:
            Refusal: If the sizes do not fit.
        """
        Ws = [W.detach().double().cpu() for W in weights]
        n = len(off)
        if not Ws or any(W.shape != (n, n) for W in Ws) or len(slopes) != len(Ws):
            raise Refusal(
                f"`weights` must be square matrices of the size {n} of `off`, with one diagonal "
                f"each, got shapes {[tuple(W.shape) for W in Ws]} and {len(slopes)} diagonals."
            )
        Mo = torch.eye(n, dtype=torch.float64)
        for W, d in zip(Ws, slopes, strict=True):
            Mo = d.double()[:, None] * (W @ Mo)
        skipped = Mo + torch.eye(n, dtype=torch.float64)
        D = torch.ones(n, dtype=torch.float64).masked_fill(off, eta)
        return cls(
            max(W.abs().max().item() for W in Ws),
            n,
            int(off.sum()),
            eta,
            exact(Mo),
            Mo.abs().max().item(),
            exact(skipped),
            exact(skipped * D),
            site,
        )

    @property
    def gap(self) -> float:
        """Rounding of a singular value."""
        return blur(self.bypassed, self.skipped, self.read) + 8 * self.n * EPS

    @property
    def condition(self) -> Estimate:
        """`κ(M(1) D)`, over the values that are not zero by construction."""
        rank = self.n - (self.m if self.eta == 0 else 0)
        if rank == 0:
            return Estimate.exactly(math.inf, how="no unit is on")
        return ratio(self.read.sigma[0].item(), self.read.sigma[rank - 1].item(), self.gap)

    def summed(self, value: float) -> Estimate:
        """A number made of n roundings."""
        return Estimate.rounded(value, ulps=8 * self.n)

    def small(self) -> Assumption:
        """What every bound here needs; decided without rounding."""
        return Assumption("c < 1/n", Fraction(self.c) * self.n < 1)

    @property
    def bounds(self) -> HardBounds:
        """What the size of the weights promises."""
        return hard_bounds(self.c, self.n, m=self.m, eta=self.eta)


def _entries(
    name: str,
    where: str,
    statement: str,
    says: str,
    *,
    measured: Callable[[Weights], Estimate],
    limit: Callable[[Weights], float],
) -> type[OfFacts]:
    """What small entries make of products of layers."""
    return row(
        name,
        f"{SOURCE}, {where}",
        statement,
        says,
        measured=measured,
        limit=lambda f: f.summed(limit(f)),
        assuming=lambda f: [f.small()],
    )


def _hard(
    name: str,
    source: str,
    below: str,
    says: str,
    *,
    needs: str,
    bound: Callable[[HardBounds], float],
    met: Callable[[Weights], bool] | None = None,
) -> type[OfFacts]:
    """A bound of `κ(M(1) D)`; its condition is that it is finite, if nothing else is said."""

    def limit(facts: Weights) -> Estimate:
        found = bound(facts.bounds)
        return Estimate.within(found, 1e-12 * found * (1 + min(found, 1e9) ** 2))

    holds = met or (lambda facts: math.isfinite(bound(facts.bounds)))
    return row(
        name,
        source,
        f"κ(M(1) D) ≤ (1 + cn) / {below}",
        says,
        measured=lambda f: f.condition,
        limit=limit,
        assuming=lambda f: [f.small(), Assumption(needs, holds(f))],
    )


def _relu(equation: str) -> str:
    return f"ReLU with 1 ≤ m < n units off, and the condition of {equation}"


OF_WEIGHTS: tuple[type[OfFacts], ...] = (
    _entries(
        "entries-norm",
        "Lemmas 27 and 28 (85)",
        "s₁(Mo) ≤ c n",
        "Layers with small entries, multiplied, have a small norm.",
        measured=lambda f: Estimate.within(f.bypassed.sigma[0].item(), f.gap),
        limit=lambda f: f.c * f.n,
    ),
    _entries(
        "entries-product",
        "Lemma 28",
        "max |Mo[j, k]| ≤ c",
        "Layers with small entries, multiplied, have small entries.",
        measured=lambda f: f.summed(f.largest_entry),
        limit=lambda f: f.c,
    ),
    _entries(
        "entries-skip",
        "Lemma 29 (86)",
        "max_i |sᵢ(M(1)) - 1| ≤ c n",
        "With a skip connection, every singular value is near one.",
        measured=lambda f: Estimate.within((f.skipped.sigma - 1).abs().max().item(), f.gap),
        limit=lambda f: f.c * f.n,
    ),
    _hard(
        "hard-absolute",
        f"{SOURCE}, Theorem 30 (88), Lemma 29 (87)",
        "(1 - cn)",
        "The absolute value keeps the condition number that the skip connection gives.",
        needs="the activation is the absolute value",
        bound=lambda b: b.printed["(88)"],
        met=lambda f: f.eta == -1,
    ),
    _hard(
        "hard-relu-any",
        f"{SOURCE}, Theorem 31 (89)",
        "√(1 - 2cn(1 + n))",
        "ReLU, however many units are off.",
        needs=_relu("(89)"),
        bound=lambda b: b.printed["(89)"],
    ),
    _hard(
        "hard-relu-share",
        f"{SOURCE}, Theorem 31 (90), m < n(1 - cn)² alone",
        "(1 - cn - √(m/n))",
        "ReLU, from the share of units that are off.",
        needs=_relu("(90)"),
        bound=lambda b: b.printed["(90)"],
    ),
    _hard(
        "hard-relu-count",
        f"{SOURCE}, Theorem 31 (91)",
        "√(1 - 2cn(1 + 2m))",
        "ReLU, from the number of units that are off.",
        needs=_relu("(91)"),
        bound=lambda b: b.printed["(91)"],
    ),
    _hard(
        "hard-leaky-squares",
        f"{SOURCE}, Theorem 32 (100)",
        "√((1 - cn)² - 4(1 - η)√m)",
        "Leaky ReLU, by the squares of the singular values.",
        needs="leaky ReLU, n ≥ 5 and the condition of (100)",
        bound=lambda b: b.printed["(100)"],
    ),
    _hard(
        "hard-leaky",
        f"{SOURCE}, Theorem 32 (101), with √(m(3c + 1)) as in its proof",
        "(1 - cn - (1 - η)√(m(3c + 1)))",
        "Leaky ReLU, by the singular values; with the root that the printed proof gives.",
        needs="leaky ReLU, 1 - cn > (1 - η)√(m(3c + 1))",
        bound=lambda b: b.sharper,
    ),
    _hard(
        "hard-any",
        f"sharper than {SOURCE}, Theorems 31 and 32, by their Eq. (23)",
        "(1 - cn), over |η| where η ≠ 0",
        "By interlacing: any activation with slopes 1 and η.",
        needs="some unit is on",
        bound=lambda b: b.best,
        met=lambda f: f.m < f.n or f.eta != 0,
    ),
)
