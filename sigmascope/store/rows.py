"""What comes back out of a run file: the rows that went in, each with its step and time."""

from dataclasses import dataclass
from datetime import datetime

from sigmascope.records import Estimate, Spectrum


@dataclass(frozen=True, slots=True)
class StoredReading:
    """One quantity at one place of a model, at one step.

    Attributes:
        step: Step of training (or any count the writer keeps), as given to `Run.add`.
        time: When it was committed, UTC.
        site: The layer or parameter.
        quantity: What was measured.
        estimate: The number, with its interval.
        view: Which of the four views it belongs to.
        form: Which matrix of that view.
    """

    step: int
    time: datetime
    site: str
    quantity: str
    estimate: Estimate
    view: str
    form: str


@dataclass(frozen=True, slots=True)
class StoredSpectrum:
    """The singular values of one matrix at one step, bit for bit as they were measured."""

    step: int
    time: datetime
    site: str
    view: str
    form: str
    spectrum: Spectrum


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """One theorem compared with the facts of one site at one step.

    Attributes:
        step: As for a reading.
        time: As for a reading.
        theorem: Its name in the catalogue.
        source: Author, year and number.
        statement: The inequality.
        site: The layer whose facts were compared.
        measured: The side that the theorem bounds; None where it does not apply.
        limit: The side that bounds it; None where it does not apply.
        sense: `"at most"` or `"at least"`.
        assumptions: Each hypothesis, with whether it is met; None where it could not be decided.
        verdict: What followed, as a word.
    """

    step: int
    time: datetime
    theorem: str
    source: str
    statement: str
    site: str
    measured: Estimate | None
    limit: Estimate | None
    sense: str
    assumptions: tuple[tuple[str, bool | None], ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class StoredFinding:
    """Something worth a reader's attention at one step, with the readings that showed it."""

    step: int
    time: datetime
    name: str
    site: str
    severity: str
    evidence: tuple[StoredReading, ...]
    says: str
    source: str
    remedies: tuple[str, ...]
    follows: str = ""


@dataclass(frozen=True, slots=True)
class StoredSkip:
    """Something that was not measured at one step, and why."""

    step: int
    time: datetime
    site: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class StoredLayer:
    """A layer of the model as it was called at one step."""

    step: int
    time: datetime
    site: str
    kind: str
    depth: int
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredView:
    """One of the views that were asked for at one step."""

    step: int
    time: datetime
    view: str


@dataclass(frozen=True, slots=True)
class StoredWord:
    """One line about the circumstances: the model, the batch, a version, a cost."""

    step: int
    time: datetime
    name: str
    value: str
