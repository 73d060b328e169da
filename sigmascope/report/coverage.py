"""How much of a model the numbers speak of."""

from dataclasses import dataclass

from sigmascope.survey import Profile


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was measured out of what there is.

    Attributes:
        layers: Layers of the model.
        layers_measured: Those with at least one reading, of themselves or of a weight they apply.
        weights: Weights that the layers apply.
        weights_measured: Those with at least one reading.
        weights_wanted: Whether the weights were among the views that were asked for.
        skipped: How many things were not measured, each with a reason in `Profile.skipped`.
    """

    layers: int
    layers_measured: int
    weights: int
    weights_measured: int
    weights_wanted: bool
    skipped: int

    @property
    def says(self) -> str:
        """One sentence; the first line of every report."""
        parts = f"weights {self.weights_measured} of {self.weights}"
        if not self.weights_wanted:
            parts = "weights not asked for"
        said = f"Measured {self.layers_measured} of {self.layers} layers ({parts})"
        rest = f"{self.skipped} not measured: see below" if self.skipped else "nothing left out"
        return f"{said}; {rest}."


def coverage(profile: Profile) -> Coverage:
    """Count what was measured; a layer or weight with a single reading counts as measured."""
    measured = {r.site for r in profile.readings}
    weights = {name for layer in profile.layers for name in layer.parameters}
    weights |= {r.site for r in profile.readings if r.view == "weights"}
    reached = sum(not measured.isdisjoint((s.site, *s.parameters)) for s in profile.layers)
    wanted = any(r.view == "weights" for r in profile.readings)
    wanted |= any(s.what == "weights" for s in profile.skipped) or not weights
    return Coverage(
        len(profile.layers),
        reached,
        len(weights),
        len(weights & measured),
        wanted,
        len(profile.skipped),
    )
