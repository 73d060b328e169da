"""A remedy applied, and the result measured again."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from sigmascope import survey
from sigmascope.diagnosis.findings import Finding
from sigmascope.diagnosis.remedies import Batches, Remedy
from sigmascope.diagnosis.rules import diagnose
from sigmascope.probes import Batch
from sigmascope.survey import Profile


@dataclass(frozen=True, slots=True)
class Treatment:
    """A model before and after a remedy.

    Attributes:
        remedy: What was applied.
        model: The new model.
        before: Profile of the old one.
        after: Profile of the new one.
        found_before: What was wrong with the old one.
        found_after: What is wrong with the new one.
    """

    remedy: Remedy
    model: nn.Module
    before: Profile
    after: Profile
    found_before: tuple[Finding, ...]
    found_after: tuple[Finding, ...]

    @property
    def cured(self) -> tuple[str, ...]:
        """Names of findings that are gone, or are now a warning where they were an error."""
        left = {f.name: f.severity for f in self.found_after}
        return tuple(
            f.name
            for f in self.found_before
            if f.name not in left or (f.severity, left[f.name]) == ("error", "warning")
        )

    @property
    def new(self) -> tuple[str, ...]:
        """Names of findings that the remedy brought."""
        had = {f.name for f in self.found_before}
        return tuple(f.name for f in self.found_after if f.name not in had)

    @property
    def burden(self) -> tuple[int, int]:
        """Errors and warnings that are left: the fewer, the better."""
        severities = [f.severity for f in self.found_after]
        return severities.count("error"), severities.count("warning")


def treat(
    model: nn.Module,
    batch: Batch,
    remedy: Remedy,
    *,
    batches: Batches | None = None,
    before: Profile | None = None,
    **options: Any,
) -> Treatment:
    """Apply a remedy and measure the model again, as it was measured before.

    Args:
        model: Stays as it is.
        batch: What both profiles are measured on.
        remedy: From `REMEDIES`, or one of your own.
        batches: What the remedy works with; `batch` if not given.
        before: A profile of the model on this batch, if there is one already.
        options: As for `survey.profile`: `targets`, `loss`, `views` and others.

    Raises:
        Inapplicable: If the remedy does nothing for this model.
        Refusal: If the model or the batch cannot be measured.
    """
    before = before or survey.profile(model, batch, **options)
    changed = remedy.apply(model, batch if batches is None else batches)
    after = survey.profile(changed, batch, **options)
    after = survey.named(after, {**after.about, "remedy": remedy.name})
    return Treatment(remedy, changed, before, after, diagnose(before), diagnose(after))


def ranked(treatments: Iterable[Treatment]) -> list[Treatment]:
    """The best first: fewest errors, fewest warnings, then the largest last participation ratio."""
    return sorted(treatments, key=lambda t: (*t.burden, -last_ratio(t.after)))


def last_ratio(profile: Profile) -> float:
    """Participation ratio of what the last layer reads; 0 where it was not measured."""
    sites = {layer.site for layer in profile.layers}
    found = [r for r in profile.series("participation ratio", form="samples") if r.site in sites]
    return found[-1].estimate.value if found else 0.0
