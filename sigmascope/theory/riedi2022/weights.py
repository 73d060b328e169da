"""Sure bounds of the condition number from the size of the weights alone.

`Mo = D_p W_p ... D_1 W_1` with `|W_i[j, k]| ≤ c` and `|D_i| ≤ 1` is bypassed by a skip connection,
`M(1) = Mo + Id`, and read through the activation `D` of the trained layer, `m` of whose `n` units
are on the negative side, where its slope is `η`.
"""

import math
from collections.abc import Callable

from sigmascope.records import Assumption, Estimate
from sigmascope.theory.bounds import OfFacts, row
from sigmascope.theory.riedi2022.hard_bounds import HardBounds, Weights
from sigmascope.theory.riedi2022.intervals import SOURCE


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
