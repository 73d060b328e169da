"""What a survey yields: numbers at places, and the places where there was no number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from jaxtyping import Float64
from torch import Tensor

from sigmascope.quantities import View, quantity
from sigmascope.records.estimate import Estimate
from sigmascope.records.shown import Shown

# ------------------------------------------------------------------------------
# The singular values of one matrix.


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The singular values of one matrix, largest first, each with its interval.

    Attributes:
        sigma: Singular values, descending, not squared.
        shape: `(rows, cols)` of the matrix they belong to.
        how: Route that produced them, e.g. `"exact"`.
        low: The i-th largest singular value is at least `low[i]`; `sigma` itself when omitted.
        high: The i-th largest singular value is at most `high[i]`; `sigma` itself when omitted.
        risk: Chance, over the route's own randomness, that some interval misses.
    """

    sigma: Float64[Tensor, " r"]
    shape: tuple[int, int] = field(metadata={"inline": ("rows", "cols")})
    how: str
    # None stands for sigma and is replaced at once, so that readers always find tensors
    low: Float64[Tensor, " r"] = None  # pyright: ignore[reportAssignmentType]
    high: Float64[Tensor, " r"] = None  # pyright: ignore[reportAssignmentType]
    risk: float = 0.0

    def __post_init__(self) -> None:
        for end in ("low", "high"):
            if getattr(self, end) is None:
                object.__setattr__(self, end, self.sigma)

    @property
    def complete(self) -> bool:
        """Whether every singular value is present, not only the leading ones."""
        return len(self.sigma) == min(self.shape)


# ------------------------------------------------------------------------------
# A theorem compared with facts: what came of it.


Sense = Literal["at most", "at least"]


class Verdict(StrEnum):
    """Outcome of comparing the measured side with the side that bounds it."""

    HOLDS = "holds"  # proved by these intervals
    CONSISTENT = "consistent"  # the intervals overlap, or a hypothesis cannot be decided
    VACUOUS = "vacuous"  # the limit is one that no number passes, whatever the network
    VIOLATED = "violated"  # contradicted although all hypotheses are met: a bug
    INAPPLICABLE = "inapplicable"  # an assumption is known to fail


@dataclass(frozen=True, slots=True)
class Assumption:
    """One hypothesis of a theorem; `met` is None where these facts cannot decide it."""

    says: str
    met: bool | None


@dataclass(frozen=True, slots=True, repr=False)
class Check(Shown):
    """The outcome of checking one theorem once.

    Attributes:
        theorem: Its name in the catalogue.
        source: Author, year and number.
        statement: The inequality.
        site: The layer whose facts were compared.
        measured: The side that the theorem bounds; None where it does not apply.
        limit: The side that bounds it; None where it does not apply.
        sense: Whether the measured side is `"at most"` or `"at least"` the limit.
        assumptions: The hypotheses, each with whether it is met.
        verdict: What follows.
    """

    theorem: str
    source: str
    statement: str
    site: str
    measured: Estimate | None
    limit: Estimate | None
    sense: Sense
    assumptions: tuple[Assumption, ...]
    verdict: Verdict

    @property
    def note(self) -> str:
        """Why a contradiction is none, or why the limit says nothing; else empty."""
        if self.verdict == Verdict.VACUOUS:
            return "the limit says nothing: the other side is never past it"
        if self.verdict != Verdict.CONSISTENT or not _smaller_exceeds(self):
            return ""
        unknown = "; ".join(a.says for a in self.assumptions if a.met is None)
        return f"contradicted, but it cannot be told whether {unknown}"


def _smaller_exceeds(check: Check) -> bool:
    """Whether the side that should be the smaller one is proved to be the larger."""
    assert check.measured is not None
    assert check.limit is not None
    at_most = check.sense == "at most"
    small, large = (check.measured, check.limit) if at_most else (check.limit, check.measured)
    return small.exceeds(large)


@dataclass(frozen=True, slots=True)
class Reading:
    """One quantity at one place of a model.

    Attributes:
        site: The layer (`"blocks.3.linear"`), or the parameter (`"blocks.3.linear.weight"`).
        quantity: What was measured, e.g. `"participation ratio"`.
        estimate: The number, with its interval.
        view: Which of the four views it belongs to.
        form: Which matrix of that view: `"samples"` or `"channels"` for representations,
            `"matrix"`, `"kernel"` or `"operator"` for weights, `""` where there is one only.
    """

    site: str
    quantity: str
    estimate: Estimate = field(metadata={"inline": True})
    view: View
    form: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not measured, and why."""

    site: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that was profiled.

    Attributes:
        site: Its name; a second call of the same module is `"name#2"`.
        kind: Class of the module, e.g. `"Linear"`.
        depth: Place in the order of calls, from 0.
        parameters: Names of the weights it applies.
    """

    site: str
    kind: str
    depth: int
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SiteSpectrum:
    """The singular values behind the readings of one matrix."""

    site: str
    view: View
    form: str
    spectrum: Spectrum = field(metadata={"inline": True})


Item = Reading | Skipped | SiteSpectrum


@dataclass(frozen=True, slots=True, repr=False)
class Profile(Shown):
    """Everything measured in one pass over a model.

    Attributes:
        readings: In the order of the layers.
        checks: Theorems compared with these facts.
        skipped: What was not measured, each with the reason.
        layers: Every layer of the model, in the order in which it is called.
        spectra: The singular values behind the readings.
        about: Model, batch, mode, versions and cost, as words.
        views: Those that were asked for; empty where that is not known.
    """

    readings: tuple[Reading, ...]
    checks: tuple[Check, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    layers: tuple[Layer, ...] = ()
    spectra: tuple[SiteSpectrum, ...] = ()
    about: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    views: tuple[View, ...] = ()

    def __post_init__(self) -> None:
        for view, name in {(r.view, r.quantity) for r in self.readings}:
            if view not in (views := quantity(name).views):
                raise ValueError(
                    f"{name!r} must be read in {' or '.join(views)}, got it in {view}. The "
                    "table of quantities says where each belongs."
                )

    def series(
        self, name: str, *, view: View | None = None, form: str | None = None
    ) -> tuple[Reading, ...]:
        """Readings of one quantity, in the order of the layers.

        Raises:
            ValueError: If there is no such quantity.
        """
        quantity(name)
        return tuple(
            r
            for r in self.readings
            if r.quantity == name and view in (None, r.view) and form in (None, r.form)
        )
