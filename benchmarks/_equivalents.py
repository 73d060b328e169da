"""Changes that change nothing that a test could see, each with its reason."""

from functools import cache
from pathlib import Path
from typing import Any

# file under sigmascope/, its line, what is there after the change -> why
SAME: dict[tuple[str, str, str], str] = {
    (
        "report/pages.py",
        "if count <= points:",
        "(count < points)",
    ): "an even choice of as many as there are takes each of them",
    (
        "watching/alarms/tracks.py",
        "high = self.fast >= NEAR * self.start if self.start > 0 else self.fast >= self.start",
        "(self.start >= 0)",
    ): "of a loss that starts at zero either asks whether it is at least zero",
    (
        "linalg/lyapunov.py",
        "influence = -(count - 1) * (left_out - left_out.mean())  "
        "# of each stretch on the quotient",
        "(count - 1)",
    ): "only squares and products of two of them are used",
    (
        "watching/probes/attention.py",
        "later = torch.arange(k.shape[-2], device=q.device) > at[:, None]",
        "2",
    ): "keys have four dimensions there",
    (
        "theory/daneshmand2020/chains.py",
        "return Estimate.rounded(share * chain.width**1.5, ulps=2) * _regular(chain, -0.5)",
        "3",
    ): "one rounding more is allowed for: every interval it makes is still true",
    (
        "scanning/against.py",
        "slack = 8 * max(*shape, 16) * EPS * abs(scaling) * size  # of both factorisations",
        "17",
    ): "an allowance for rounding, of which small matrices get a sixteenth more",
    (
        "theory/jacot2023/facts.py",
        "return (Estimate.sum_of_squares(A).sqrt() + Estimate.within(0.0, gap)).at_least(0.0)",
        "(Estimate.sum_of_squares(A).sqrt() - Estimate.within(0.0, gap))",
    ): "what is subtracted is as far below zero as above it",
    (
        "theory/le2022/conservation/rates.py",
        "tuple(i for i in measured if i.rate <= i.tolerance),",
        "(i.rate < i.tolerance)",
    ): "a rate of 0 has a tolerance above it; equal numbers would be a coincidence of rounding",
    (
        "theory/le2022/conservation/rates.py",
        "tuple(i for i in measured if not i.rate <= i.tolerance),",
        "(i.rate < i.tolerance)",
    ): "as the line before it",
    (
        "linalg/krylov/singular_values.py",
        "top = top if top > 0 else 1.0",
        "2.0",
    ): "what is zero is divided by it and multiplied again, the least that rounding hides too",
    (
        "linalg/spectra.py",
        "TASK = 2**20  # entries; small matrices of one shape are solved together up to this many",
        "(2 * 20)",
    ): "how many matrices are solved at once, which is a matter of time",
    (
        "linalg/spectra.py",
        "return torch.where(cos > 0.7, sin.asin(), cos.acos()).cpu()"
        "  # each where it keeps its digits",
        "(cos >= 0.7)",
    ): "both formulas give the angle whose cosine is 0.7 to all its digits",
    (
        "linalg/dense.py",
        "return piece + t.numel() / piece",
        "(piece - t.numel() / piece)",
    ): "four times what is needed less this: true of less than 2.5e9 entries, and of one, exactly",
    (
        "linalg/dense.py",
        "gap = (n + 2) * EPS * math.hypot(mean, math.sqrt(square))",
        "1",
    ): "more than what n roundings make is left even so: every interval it makes is still true",
    (
        "linalg/dense.py",
        "gap = (n + 2) * EPS * math.hypot(mean, math.sqrt(square))",
        "3",
    ): "one rounding more is allowed for: every interval it makes is still true",
    (
        "linalg/krylov/eigenvalues.py",
        "return 8 * (math.sqrt(n) + k) * self.precision * size + lost",
        "9",
    ): "one rounding in eight more is allowed for: every interval it makes is still true",
    (
        "linalg/spectra.py",
        "kept = (place.flatten() <= opposite).nonzero()[:, 0]",
        "(place.flatten() >= opposite)",
    ): "the other one of each pair, which has the same singular values",
    (
        "theory/piecewise_affine/segments.py",
        "if A.shape[0] * A.shape[1] <= DENSE:",
        "(A.shape[0] * A.shape[1] < DENSE)",
    ): "the same map either way, written out or not: a matter of memory",
    (
        "models/layers.py",
        "return 1 if convolves and value.ndim > 2 else value.ndim - 1",
        "1",
    ): "of two dimensions the second is the last",
    (
        "models/jacobian/samples.py",
        "first, second = order[: (count + 1) // 2], order[(count + 1) // 2 :]",
        "0",
    ): "the middle sample may stand in either half",
    (
        "watching/comparing.py",
        "gap = np.where(above > 0, above, np.where(below > 0, -below, 0.0))",
        "(above >= 0)",
    ): "where the ends meet the gap is 0 either way",
    (
        "watching/comparing.py",
        "gap = np.where(above > 0, above, np.where(below > 0, -below, 0.0))",
        "(below >= 0)",
    ): "as the line before it",
    (
        "theory/symmetry/symbolic_run.py",
        "n = values[-1].ndim",
        "(1)",
    ): "both factors of a product have as many axes",
    (
        "checkpoints/arrays.py",
        "whole = torch.empty(0, dtype=self.dtype).set_(cast(Any, pages[self.offset : end]))",
        "1",
    ): "`set_` gives it the size of the storage, whatever it had",
    (
        "diagnosis/trainability/model.py",
        "found = LogisticRegression(C=1.0, max_iter=1000).fit((X - mean) / spread, y)",
        "1001",
    ): "the fit converges in some ten iterations",
    (
        "linalg/perturbation.py",
        "return (near.sum(0) == 1) & (sigma > gap * sigma[0])",
        "1",
    ): "one value is as near to another as that one to it",
    (
        "theory/symmetry/families.py",
        "every = places.shape == (sizes[p], 1) and bool((np.diff(places[:, 0]) == 1).all())",
        "2",
    ): "then all is taken by its index: the same numbers, copied",
    (
        "theory/le2022/conservation/watching.py",
        "self._signs.look(model, probe.batch, step=0)",
        "1",
    ): "how many signs have changed is read of the record, and not since when",
    (
        "theory/landscape/surfaces.py",
        "curved.operator, tolerance=1e-4, towards=curved.gradient, generator=generator",
        "5e-05",
    ): "half of the error that is allowed",
    (
        "theory/daneshmand2020/chains.py",
        "pairs: int = 20_000,",
        "20001",
    ): "one draw more of as many: the interval is of those that there are",
}


@cache
def _lines(path: Path) -> tuple[str, ...]:
    return tuple(line.strip() for line in path.read_text().splitlines())


def reason(root: Path, row: dict[str, Any]) -> str:
    """Why a change changes nothing; empty where it is not listed."""
    lines = _lines(root / row["path"])
    line = lines[row["line"] - 1] if row["line"] <= len(lines) else ""
    return SAME.get((row["path"].removeprefix("sigmascope/"), line, row["after"]), "")
