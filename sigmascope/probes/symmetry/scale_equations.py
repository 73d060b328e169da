"""Logarithmic scales of units as unknowns, and the linear equations between them.

The idea: to rescale a unit by `exp(s)` is to add `s` to the logarithm of all that it touches, so
that every operation of a run gives linear equations between few unknowns, nearly all of the form
`x_i = factor x_j`. These are kept as a forest; the few sums that are left are solved by
elimination. The invariant: an equation is never forgotten, and where nothing is known an unknown is
pinned to zero, so that what stays free may be rescaled indeed.

Source: Tarjan 1975 for the forest; Le & Jegelka 2022 for what is conserved where a scale is free.
"""

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
ZERO = 0  # the unknown that is zero: what no rescaling of the weights may change
ROUNDS = 64  # of substitution; each but the last pins or joins something


class Unknowns:
    """Unknowns `x_i` that obey `x_i = factor x_j`, `x_i = 0` and `x_i = a x_j + b x_k`.

    Kept as weighted union-find: every unknown is a multiple of the root of its tree. Beside it each
    unknown has a bundle (where it was made: the rows of one weight, say) and a signature, which two
    unknowns of one bundle share as long as every operation has treated them alike.
    """

    def __init__(self) -> None:
        self._parent: list[int] = [ZERO]
        self._factor: list[float] = [1.0]
        self._pinned: dict[int, str] = {ZERO: "a constant"}
        self._slack: dict[int, float] = {}
        self._sums: list[tuple[int, float, int, float, int]] = []
        self._facts = np.zeros((3, 1024), np.uint64)  # bundle, signature, passed

    def __len__(self) -> int:
        return len(self._parent)

    @property
    def bundle(self) -> NDArray[np.uint64]:
        """Where each unknown was made."""
        return self._facts[0, : len(self)]

    @property
    def signature(self) -> NDArray[np.uint64]:
        """How each was treated by all operations; wraps around."""
        return self._facts[1, : len(self)]

    @property
    def passed(self) -> NDArray[np.uint64]:
        """Kinds of operation that each went through, one bit a kind."""
        return self._facts[2, : len(self)]

    def fresh(self, count: int, bundle: int) -> int:
        """New unknowns of one bundle; the first of their numbers."""
        first = len(self)
        self._parent.extend(range(first, first + count))
        self._factor.extend([1.0] * count)
        room = self._facts.shape[1]
        if len(self) > room:
            grown = np.zeros((3, max(len(self), 2 * room)), np.uint64)
            grown[:, :room] = self._facts
            self._facts = grown
        self._facts[0, first : len(self)] = bundle
        return first

    def root(self, i: int) -> tuple[int, float]:
        """The root of an unknown, and the factor to it."""
        path: list[int] = []
        while self._parent[i] != i:
            path.append(i)
            i = self._parent[i]
        total = 1.0
        for j in reversed(path):
            total *= self._factor[j]
            self._parent[j], self._factor[j] = i, total
        return i, total

    def pin(self, ids: Ids, why: str) -> None:
        """Say that unknowns are zero."""
        for i in np.unique(ids).tolist():
            self._pinned.setdefault(self.root(i)[0], why)

    def pinned(self, root: int) -> str | None:
        """Why a root is zero; None where it is free."""
        return self._pinned.get(root)

    def slack(self, root: int) -> float:
        """How far, relatively, the equations of a root are from exact."""
        return self._slack.get(root, 0.0)

    def loosen(self, ids: Ids, slack: float) -> None:
        """Say that equations of these unknowns hold up to a relative `slack` only."""
        for i in np.unique(ids).tolist():
            root = self.root(i)[0]
            self._slack[root] = max(self.slack(root), slack)

    def equal(self, left: Ids, right: Ids, factor: float = 1.0, why: str = "a constant") -> None:
        """Say that `left = factor * right`; `why` is the reason where one of them is zero."""
        pairs = np.unique(np.stack([left.ravel(), right.ravel()]), axis=1)
        for i, j in pairs.T.tolist():
            if ZERO in (i, j):
                self._pinned.setdefault(self.root(max(i, j))[0], why)
            else:
                self._join(i, j, factor)

    def _join(self, i: int, j: int, factor: float) -> None:
        (a, fa), (b, fb) = self.root(i), self.root(j)
        ratio = factor * fb / fa  # a = ratio b
        if a == b:
            if ratio != 1.0:
                self._pinned.setdefault(a, "the same weight is on both sides of it")
            return
        self._parent[a], self._factor[a] = b, ratio
        if a in self._pinned:
            self._pinned.setdefault(b, self._pinned[a])
        if a in self._slack:
            self._slack[b] = max(self.slack(b), self._slack[a])

    def total(self, whole: Ids, left: Ids, right: Ids, a: float = 1.0, b: float = 1.0) -> None:
        """Say that `whole = a left + b right`, element by element."""
        triples = np.unique(np.stack([whole.ravel(), left.ravel(), right.ravel()]), axis=1)
        self._sums.extend((w, a, i, b, j) for w, i, j in triples.T.tolist())

    def solve(self) -> dict[int, dict[int, float]]:
        """Substitute until nothing changes; what is left expresses some roots by others."""
        for _ in range(ROUNDS):
            left = [s for s in self._sums if not self._settled(s)]
            if len(left) == len(self._sums):
                break
            self._sums = left
        return self._expressed()

    def _terms(self, equation: tuple[int, float, int, float, int]) -> dict[int, float]:
        """An equation `Σ c_r r = 0` over free roots."""
        whole, a, left, b, right = equation
        terms: dict[int, float] = {}
        for coefficient, unknown in ((-1.0, whole), (a, left), (b, right)):
            root, factor = self.root(unknown)
            if root not in self._pinned:
                terms[root] = terms.get(root, 0.0) + coefficient * factor
        return {r: c for r, c in terms.items() if c != 0.0}

    def _settled(self, equation: tuple[int, float, int, float, int]) -> bool:
        terms = self._terms(equation)
        if len(terms) == 1:
            whole, _, left, _, right = equation
            known = (self._pinned.get(self.root(i)[0]) for i in (left, right, whole))
            self.pin(np.array(list(terms)), next((k for k in known if k), "a constant"))
        elif len(terms) == 2:
            (i, c), (j, d) = terms.items()
            self._join(i, j, -d / c)
        return len(terms) < 3

    def _expressed(self) -> dict[int, dict[int, float]]:
        """Roots by roots, by elimination of the equations with three free terms."""
        done: dict[int, dict[int, float]] = {}
        for equation in self._sums:
            terms: dict[int, float] = {}
            for root, c in self._terms(equation).items():
                for r, f in done.get(root, {root: 1.0}).items():
                    terms[r] = terms.get(r, 0.0) + c * f
            terms = {r: c for r, c in terms.items() if c != 0.0}
            if not terms:
                continue
            whole, c = next(iter(terms.items()))
            by = {r: -d / c for r, d in terms.items() if r != whole}
            done = {r: _substituted(e, whole, by) for r, e in done.items()} | {whole: by}
        return done


def _substituted(expression: dict[int, float], root: int, by: dict[int, float]) -> dict[int, float]:
    if root not in expression:
        return expression
    c = expression[root]
    rest = {r: d for r, d in expression.items() if r != root}
    for r, d in by.items():
        rest[r] = rest.get(r, 0.0) + c * d
    return {r: d for r, d in rest.items() if d != 0.0}
