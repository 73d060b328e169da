"""What a profile tells, in numbers: what was measured of the model, and what of its training."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sigmascope import quantities as q
from sigmascope.diagnosis.rules import unheard
from sigmascope.diagnosis.trainability import probability
from sigmascope.quantities import EVERY
from sigmascope.records import Estimate, Profile, Reading
from sigmascope.records.encoding import encoded

OUTPUT = "(output)"  # what the network returns, one place after the last layer


def depths(profile: Profile) -> dict[str, int]:
    """Depth of every site: layers by their order, a weight at the first layer that applies it.

    A profile without layers, of a checkpoint say, numbers its sites as they come. Sites that are
    neither a layer nor a weight of one are absent.
    """
    if not profile.layers:
        sites = dict.fromkeys(r.site for r in profile.readings)
        return {site: depth for depth, site in enumerate(sites)}
    found = {OUTPUT: 1 + max(layer.depth for layer in profile.layers)}
    for layer in sorted(profile.layers, key=lambda layer: layer.depth):
        for name in layer.parameters:
            found.setdefault(name, layer.depth)
    return found | {layer.site: layer.depth for layer in profile.layers}


# ------------------------------------------------------------------------------
# How much of a model the numbers speak of.


NAMED = 3  # places that are named in a sentence; the rest are counted


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was measured out of what there is.

    Attributes:
        layers: Layers of the model, and weights that it applies outside of any layer.
        layers_measured: Those with at least one reading, of themselves or of a weight they apply.
        layers_in_part: Measured layers of which something is under `skipped`.
        weights: Weights of the model.
        weights_measured: Those with at least one reading that a layer which was called applies.
        weights_wanted: Whether the weights were among the views that were asked for.
        skipped: How many things were not measured, each with a reason in `Profile.skipped`.
        uncovered: Layers and weights that no call of a layer covers, by name.
        unasked: Views that were not asked for.
        silent: Rules that could not speak though what they read was asked for, and why.
    """

    layers: int
    layers_measured: int
    layers_in_part: int
    weights: int
    weights_measured: int
    weights_wanted: bool
    skipped: int
    uncovered: tuple[str, ...]
    unasked: tuple[str, ...]
    silent: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        """One sentence; the first line of every report."""
        parts = f"weights {self.weights_measured} of {self.weights}"
        if not self.weights_wanted:
            parts = "weights not asked for"
        said = f"Measured {self.layers_measured} of {self.layers} layers ({parts})"
        if self.layers_in_part:
            said += f", {self.layers_in_part} of them in part"
        number = "1 measurement" if self.skipped == 1 else f"{self.skipped} measurements"
        rest = f"{number} left out: see below" if self.skipped else "nothing left out"
        return f"{said}; {rest}."

    @property
    def unseen(self) -> tuple[str, ...]:
        """What no rule could look at, a clause each; empty where everything was looked at."""
        said = []
        if self.uncovered:
            said.append(f"no call of a layer covers {_named(self.uncovered)}")
        left = self.skipped - len(self.uncovered)
        if left:
            said.append(f"{left} {'entry' if left == 1 else 'entries'} listed as not measured")
        said += self.silent
        if self.unasked:
            said.append(f"not asked for: {_named(self.unasked, most=len(self.unasked))}")
        return tuple(said)


def coverage(profile: Profile) -> Coverage:
    """Count what was measured; a layer or weight with a single reading counts as measured."""
    measured = {r.site for r in profile.readings}
    applied = {name for layer in profile.layers for name in layer.parameters}
    uncovered = [s for s in profile.skipped if s.what in ("layer", "weight")]
    weights = applied | {r.site for r in profile.readings if r.view == "weights"}
    weights |= {s.site for s in uncovered if s.what == "weight"}
    loose = {s.site for s in uncovered if s.what == "weight"}
    reached = [s for s in profile.layers if not measured.isdisjoint((s.site, *s.parameters))]
    gaps = [s for s in profile.skipped if s not in uncovered]
    wanted = any(r.view == "weights" for r in profile.readings)
    wanted |= any(s.what == "weights" for s in profile.skipped) or not weights
    asked = profile.views or {r.view for r in profile.readings}
    # not what is told by naming its view as not asked for
    told = {*asked, *(("task", "training") if "setup" in asked else ())}
    in_part = [s for s in reached if any(gap.site in (s.site, *s.parameters) for gap in gaps)]
    return Coverage(
        layers=len(profile.layers) + len(uncovered),
        layers_measured=len(reached),
        layers_in_part=len(in_part),
        weights=len(weights),
        weights_measured=len((applied - loose) & measured),
        weights_wanted=wanted,
        skipped=len(profile.skipped),
        uncovered=tuple(s.site for s in uncovered),
        unasked=tuple(view for view in EVERY if view not in asked),
        silent=tuple(u.says for u in unheard(profile) if u.need in told),
    )


def no_findings(seen: Coverage) -> str:
    """What may be said where no rule found anything."""
    if seen.unseen:
        return "No findings in what was measured: no rule saw anything there that hinders training."
    return "No findings: every rule looked, and saw nothing that hinders training."


def coverage_form(seen: Coverage) -> dict[str, Any]:
    """The same as strict JSON, with what it says in words."""
    form = encoded(seen)
    del form["weights_wanted"], form["silent"]  # the latter is told under `unseen`
    return form | {
        "says": seen.says,
        "unseen": list(seen.unseen),
        "no_findings": no_findings(seen),
    }


def _named(names: tuple[str, ...], *, most: int = NAMED) -> str:
    tail = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + tail


# ------------------------------------------------------------------------------
# Runs at the user's settings and beside them, and the odds.


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
class TrialRun:
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


def runs(profile: Profile) -> tuple[TrialRun, ...]:
    """The runs in the order in which they were made, that at the user's settings first."""
    forms: dict[str, dict[str, Estimate]] = {}
    for r in _own(profile):
        if r.quantity in COLUMNS:
            forms.setdefault(r.form, {})[r.quantity] = r.estimate
    return tuple(TrialRun(form, numbers) for form, numbers in forms.items())


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
