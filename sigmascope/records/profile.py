"""What a survey yields: numbers at places, and the places where there was no number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sigmascope.quantities import View, quantity
from sigmascope.records.check import Check
from sigmascope.records.estimate import Estimate
from sigmascope.records.shown import Shown
from sigmascope.records.spectrum import Spectrum


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
