"""Every remedy, listed by hand."""

from difflib import get_close_matches
from typing import Any

from sigmascope.diagnosis.findings import Finding
from sigmascope.diagnosis.normalising import BatchNormalisation
from sigmascope.diagnosis.pretraining import RankPretraining
from sigmascope.diagnosis.reinitialising import RecentreWeights, Reinitialise
from sigmascope.diagnosis.remedies import Remedy
from sigmascope.diagnosis.residuals import RescaleResidual

REMEDIES: tuple[type[Remedy], ...] = (
    BatchNormalisation,
    RankPretraining,
    Reinitialise,
    RecentreWeights,
    RescaleResidual,
)


def remedy(name: str, **options: Any) -> Remedy:
    """A remedy by its name, with options of its own.

    Raises:
        ValueError: If there is no such remedy.
        TypeError: If it has no such option.
    """
    for kind in REMEDIES:
        if kind.name == name:
            return kind(**options)
    names = [kind.name for kind in REMEDIES]
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean `{close[0]}`?" if close else ""
    raise ValueError(f"There is no remedy `{name}`; there are {', '.join(names)}.{hint}")


def remedies_for(finding: Finding) -> tuple[Remedy, ...]:
    """The remedies that are expected to cure a finding, in the order in which to try them."""
    return tuple(kind() for kind in REMEDIES if finding.name in kind.cures)
