"""What Daneshmand et al. 2020 prove of the representations of one network."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.core.records import Assumption, Estimate, Sense
from sigmascope.linalg import dense, matrix_rank, participation_ratio, soft_rank
from sigmascope.linalg.dense import EPS
from sigmascope.models import Subject
from sigmascope.theory.bounds import OfModels

TAU = 0.5  # the paper's threshold in its experiments
UNIT = 1e-3  # how far the mean square of a feature may be from 1 and still count as normalised
NORMALISED = "every feature has mean square 1 over the batch, as batch normalisation makes it"
COUNT = (1.0, math.inf)  # directions of what is not zero, or not small on average


@final
@dataclass(frozen=True, slots=True)
class RankParticipation(OfModels):
    """A matrix has at least as many independent directions as it uses evenly."""

    name: ClassVar[str] = "rank-participation"
    source: ClassVar[str] = "Daneshmand et al. 2020, Lemma 1(1)"
    statement: ClassVar[str] = "rank(H) ≥ r(H) = (Σ σᵢ²)² / Σ σᵢ⁴"
    sense: ClassVar[Sense] = "at least"

    site: str
    rank: Estimate
    ratio: Estimate

    def assumptions(self) -> tuple[Assumption, ...]:
        return (Assumption("H is not zero", self.ratio.low > 0),)

    def always(self) -> tuple[float, float]:
        return COUNT

    def measured(self) -> Estimate:
        return self.rank

    def limit(self) -> Estimate:
        return self.ratio

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["RankParticipation"]:
        for (site, form), found in subject.spectra.items():
            if form == "samples" and found.mean_square > 0:
                s = found.raw
                certain = int((s.low > 0).sum())  # directions that rounding cannot have made
                value = max(certain, int(matrix_rank(s).value))
                rank = Estimate(value, certain, min(s.shape), f"values above rounding, {s.how}")
                yield cls(site, rank, participation_ratio(s))


@final
@dataclass(frozen=True, slots=True)
class SoftRank(OfModels):
    """Normalised features that use many directions evenly have many large singular values."""

    name: ClassVar[str] = "soft-rank"
    source: ClassVar[str] = "Daneshmand et al. 2020, Lemma 1(2)"
    statement: ClassVar[str] = "rank_τ(H) ≥ (1 - τ)² r(H), τ = 1/2"
    sense: ClassVar[Sense] = "at least"

    site: str
    rank: Estimate
    ratio: Estimate
    deviation: float  # largest |mean square of a feature - 1|

    def assumptions(self) -> tuple[Assumption, ...]:
        return (Assumption(NORMALISED, self.deviation <= UNIT),)

    def always(self) -> tuple[float, float]:
        return COUNT

    def measured(self) -> Estimate:
        return self.rank

    def limit(self) -> Estimate:
        # the trace is at least this share of the number of features
        trace = Estimate(1.0, 1 - self.deviation, 1.0, "exact")
        return (1 - TAU / trace) ** 2 * self.ratio

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["SoftRank"]:
        for (site, form), found in subject.spectra.items():
            rows = subject.activations[site].samples
            if form == "samples" and found.mean_square > 0 and rows is not None:
                ends = soft_rank(found.raw, TAU), participation_ratio(found.raw)
                yield cls(site, *ends, _deviation(rows))


@final
@dataclass(frozen=True, slots=True)
class SoftRankAnyScale(OfModels):
    """Lemma 1(2) without its normalisation: only the mean square over all entries enters.

    With `t` the mean square of the entries and `d` features, the eigenvalues of `HᵀH/n` add up to
    `t d`, those below `τ` to at most `τ d`; Cauchy and Schwarz do the rest, as in the printed
    proof, which is the case `t = 1`.
    """

    name: ClassVar[str] = "soft-rank-any-scale"
    source: ClassVar[str] = "after Daneshmand et al. 2020, Lemma 1(2)"
    statement: ClassVar[str] = "rank_τ(H) ≥ (1 - τ/t)² r(H), t = mean square of H, τ = 1/2 < t"
    sense: ClassVar[Sense] = "at least"

    site: str
    rank: Estimate
    ratio: Estimate
    mean_square: Estimate

    def assumptions(self) -> tuple[Assumption, ...]:
        exceeds = (self.mean_square - TAU).positive
        return (Assumption("the mean square of H exceeds τ", exceeds),)

    def always(self) -> tuple[float, float]:
        return COUNT

    def measured(self) -> Estimate:
        return self.rank

    def limit(self) -> Estimate:
        return (1 - TAU / self.mean_square).at_least(0.0) ** 2 * self.ratio

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["SoftRankAnyScale"]:
        for (site, form), found in subject.spectra.items():
            rows = subject.activations[site].samples
            if form == "samples" and found.mean_square > 0 and rows is not None:
                s, t = found.raw, Estimate.sum_of_squares(rows.double()) / rows.numel()
                yield cls(site, soft_rank(s, TAU), participation_ratio(s), t)


@final
@dataclass(frozen=True, slots=True)
class Regularity(OfModels):
    """The regularity of a normalised representation never exceeds one.

    Printed as below one, of a limit law for small `gamma`; Cauchy and Schwarz give one at most for
    every `M = HᵀH/n` with unit diagonal: `(M²)ᵢᵢ² ≤ Mᵢᵢ (M³)ᵢᵢ`.
    """

    name: ClassVar[str] = "regularity"
    source: ClassVar[str] = "Daneshmand et al. 2020, Definition 3 and Lemma 10"
    statement: ClassVar[str] = "α(M) = Tr(diag(M²)²) / Tr(M³) ≤ 1"
    sense: ClassVar[Sense] = "at most"

    site: str
    alpha: Estimate
    deviation: float  # largest |mean square of a feature - 1|

    def assumptions(self) -> tuple[Assumption, ...]:
        return (Assumption(NORMALISED, self.deviation <= UNIT),)

    def measured(self) -> Estimate:
        return self.alpha

    def limit(self) -> Estimate:
        return Estimate(1.0, 1.0, 1 + self.deviation, "exact")  # Mᵢᵢ may be as large

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["Regularity"]:
        for (site, form), found in subject.spectra.items():
            read = subject.activations[site].samples
            if form != "samples" or found.mean_square <= 0 or read is None:
                continue
            rows = read.double()
            mean_sq = Estimate.sum_of_squares(rows) / rows.numel()
            H = rows / dense.largest(rows)  # whose squares neither overflow nor vanish
            B = (H @ H.mT) @ H if len(H) < H.shape[1] else H @ (H.mT @ H)  # H M [n, d]
            squares = torch.linalg.vecdot(B, H, dim=0)  # the diagonal of M²
            # times M: unit diagonal on average
            unit = H.shape[1] / torch.linalg.vector_norm(H) ** 2
            value = float(unit * squares.square().sum() / torch.linalg.vector_norm(B) ** 2)
            # a diagonal entry of M² is at least 1 / d of what was added up to it
            regular = Estimate.rounded(value, ulps=8.0 * sum(H.shape) * H.shape[1]) * mean_sq
            yield cls(site, regular, _deviation(rows))


def _deviation(rows: Float[Tensor, "n d"]) -> float:
    """Largest `|mean square of a feature - 1|`, with its rounding."""
    size = rows.double().square().mean(0)
    return float((size - 1).abs().amax() + (len(rows) + 2) * EPS * size.amax())


@final
@dataclass(frozen=True, slots=True)
class GradientCollinearity(OfModels):
    """Where the last representation has one direction, the gradients of all samples share theirs.

    The printed statement is for rank one exactly. With singular values `σ₁ ≥ σ₂` every row lies
    within the angle `asin(σ₂/‖h‖)` of the leading direction, so that two rows, and with them two
    gradients of one row of the last weight matrix, differ by at most twice the largest of these.
    """

    name: ClassVar[str] = "gradient-collinearity"
    source: ClassVar[str] = "Daneshmand et al. 2020, Prop. 19"
    statement: ClassVar[str] = (
        "|cos(∇W_k lᵢ, ∇W_k lⱼ)| ≥ cos(2 asin(σ₂(H) / minᵢ ‖hᵢ‖)), rank(H) = 1"
    )
    sense: ClassVar[Sense] = "at least"
    views: ClassVar[tuple[str, ...]] = ("representations", "gradients")

    site: str
    cosine: Estimate
    rank: Estimate
    second: float  # upper end of the second singular value
    shortest: float  # norm of the shortest row
    pairs: int

    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("the last representation has numerical rank one", self.rank.high <= 1),
            Assumption("some pair of samples has non-zero errors (∇l)ₖ", self.pairs > 0),
        )

    def always(self) -> tuple[float, float]:
        return 0.0, 1.0

    def measured(self) -> Estimate:
        return self.cosine

    def limit(self) -> Estimate:
        sine = min(1.0, self.second / self.shortest) if self.shortest > 0 else 1.0
        return Estimate.rounded(max(math.cos(2 * math.asin(sine)), 0.0), ulps=8)

    @classmethod
    def facts(cls, subject: Subject) -> Iterator["GradientCollinearity"]:
        found = subject.gradients
        if found is None or found.rows is None or (found.site, "samples") not in subject.spectra:
            return
        s = subject.spectra[found.site, "samples"].raw
        if not math.isfinite(found.mean):  # gradients that overflow have no direction
            return
        least = found.least if found.pairs else 0.0
        cosine = Estimate(
            least, max(least - found.error, 0.0), min(least + found.error, 1.0), "autograd"
        )
        second = float(s.high[1]) if len(s.sigma) > 1 else 0.0
        shortest = float(found.rows.double().norm(dim=1).min())
        yield cls(found.site, cosine, matrix_rank(s), second, shortest, found.pairs)
