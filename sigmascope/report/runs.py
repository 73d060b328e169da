"""What a profile tells of training: runs at the user's settings and beside them, and the odds."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sigmascope import quantities as q
from sigmascope.diagnosis import probability
from sigmascope.records import Estimate, Profile, Reading

YOURS = q.PROBABILITY_AT_YOUR_SETTINGS
COLUMNS: Mapping[str, str] = MappingProxyType(  # what is read of each run, and its heading
    {
        "rate": "rate",
        q.LOSS_LEFT: q.LOSS_LEFT,
        q.LOSS_LEFT_BY_THEN: "left by then at your settings",
        q.BROKE_AT_STEP: q.BROKE_AT_STEP,
    }
)
LEFT = "Loss left: 0 at the least loss of all outputs, 1 at that of the best constant output."


@dataclass(frozen=True, slots=True)
class Run:
    """One run of training on a copy.

    Attributes:
        form: What it has different from the user's settings.
        numbers: By the quantities of `COLUMNS`; those that were measured.
    """

    form: str
    numbers: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Chance:
    """A probability that training succeeds.

    Attributes:
        name: The quantity.
        estimate: How probable it is.
        says: That what is so probable.
    """

    name: str
    estimate: Estimate
    says: str


def runs(profile: Profile) -> tuple[Run, ...]:
    """The runs in the order in which they were made, that at the user's settings first."""
    forms: dict[str, dict[str, Estimate]] = {}
    for r in _own(profile):
        if r.quantity in COLUMNS:
            forms.setdefault(r.form, {})[r.quantity] = r.estimate
    return tuple(Run(form, numbers) for form, numbers in forms.items())


def facts(profile: Profile) -> tuple[Reading, ...]:
    """What else was read of training, but for its probability, which stands above all."""
    return tuple(r for r in _own(profile) if r.quantity not in (*COLUMNS, YOURS))


def chances(profile: Profile) -> tuple[Chance, ...]:
    """The probability at the best of the usual rates, and that at the user's own settings."""
    usual = probability(profile)
    says = "that plain training fits these data, at the best of the usual learning rates"
    best = () if usual is None else (Chance(usual.quantity, usual.estimate, says),)
    yours = (r for r in _own(profile) if r.quantity == YOURS)
    return (*best, *(Chance(r.quantity, r.estimate, q.quantities()[YOURS].says) for r in yours))


def _own(profile: Profile) -> tuple[Reading, ...]:
    return tuple(r for r in profile.readings if r.view == "training")
