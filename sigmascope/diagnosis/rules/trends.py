"""What rules read of a profile: series over depth with their trends, and whether samples differ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Profile, Reading
from sigmascope.survey.views.representations import ALIKE

MOST = 0.5  # of the layers
SAME = 1e-6  # of their size, by which samples differ that single precision hardly shows
OF_INPUTS = frozenset(  # what is said of a representation as something made of the inputs
    (
        *(q.PARTICIPATION_RATIO, q.RELATIVE_VARIATION, q.MEAN_SQUARE, q.SILENT_SAMPLES),
        *(q.TARGET_ALIGNMENT, q.REPRESENTATION_RANK, q.DEAD_UNITS),
    )
)


@dataclass(frozen=True, slots=True)
class Trend:
    """A quantity that goes like `start * factor ** depth`.

    Attributes:
        factor: Per layer.
        low: Lower end of the factor, at 95 % if the residuals are normal.
        high: Upper end of the factor.
        start: The fitted value at depth 0.
        layers: How many layers were fitted.
    """

    factor: float
    low: float
    high: float
    start: float
    layers: int

    def reaches(self, level: float) -> float | None:
        """The depth at which the fit crosses `level`; None if it moves away or stands still."""
        if self.start <= 0 or self.factor <= 0 or self.factor == 1:
            return None
        depth = math.log(level / self.start) / math.log(self.factor)
        return depth if depth >= 0 else None

    def says(self) -> str:
        """The factor in words, with its interval where there are enough layers for one."""
        if self.layers < 3:
            return f"{self.factor:.3g}"
        return f"{self.factor:.3g} (95 % interval {self.low:.3g} to {self.high:.3g})"


def trend(depths: Sequence[float], values: Sequence[float], *, floor: float = 0.0) -> Trend | None:
    """Fit `log value` to depth by least squares; None with fewer than two values above `floor`."""
    points = [(d, math.log(v)) for d, v in zip(depths, values, strict=True) if v > floor]
    if len(points) < 2 or len({d for d, _ in points}) < 2:
        return None
    x, y = np.array(points).T
    off = x - x.mean()
    slope = float(off @ y / (off @ off))
    start = float(y.mean() - slope * x.mean())
    left = len(points) - 2
    spread = float(np.sum((y - start - slope * x) ** 2)) if left else math.inf
    error = math.sqrt(spread / max(left, 1) / float(off @ off))
    reach = float(scipy.special.stdtrit(left, 0.975)) * error if left else math.inf
    ends = [math.exp(min(slope + side, 700.0)) for side in (-reach, 0.0, reach)]
    return Trend(ends[1], ends[0], ends[2], math.exp(start), len(points))


@dataclass(frozen=True, slots=True)
class Series:
    """Readings of one quantity at the layers, in the order of depth."""

    readings: tuple[Reading, ...]
    depths: tuple[int, ...]

    def values(self) -> list[float]:
        """The numbers alone."""
        return [r.estimate.value for r in self.readings]

    def trend(self, *, floor: float = 0.0) -> Trend | None:
        """The geometric trend of the numbers above `floor`."""
        return trend(self.depths, self.values(), floor=floor)


def can_part(profile: Profile) -> bool:
    """Whether a step of all weights parts samples whose outputs are nearly the same."""
    return any(r.estimate.high > ALIKE for r in profile.series(q.TANGENT_VARIATION))


def over_depth(profile: Profile, quantity: str, *, form: str | None = None) -> Series:
    """One quantity at every layer that has it; the network's output is no layer.

    Of representations, layers that read nothing of the batch are left out: what they read has come
    through none of the others.
    """
    unfed = {r.site for r in profile.series(q.INPUTS_READ)} if quantity in OF_INPUTS else set[str]()
    depth = {layer.site: layer.depth for layer in profile.layers if layer.site not in unfed}
    found = sorted(
        (r for r in profile.series(quantity, form=form) if r.site in depth),
        key=lambda r: depth[r.site],
    )
    return Series(tuple(found), tuple(depth[r.site] for r in found))


def samples_of(profile: Profile) -> int:
    """On how many samples it was measured; 0 where that is not said."""
    words = profile.about.get("batch", "").split()
    return int(words[0]) if words and words[0].isdigit() else 0


def empty_inputs(profile: Profile) -> Reading | None:
    """The size of what the first layer reads, where all that is handed over is zero."""
    sizes = profile.series(q.INPUT_SIZE)
    return sizes[0] if sizes and all(r.estimate.value == 0 for r in sizes) else None


def alike(profile: Profile) -> tuple[Reading, ...]:
    """What shows that all samples of the batch are the same; empty where they differ."""
    distinct = next(iter(profile.series(q.DISTINCT_SAMPLES)), None)
    if samples_of(profile) == 1 or (distinct is not None and distinct.estimate.high >= 2):
        return ()  # one is like itself; or something tells them apart
    inputs = over_depth(profile, q.RELATIVE_VARIATION, form="samples")
    first = inputs.readings[:1] if inputs.depths[:1] == (0,) else ()  # else ids came before
    small = next((r for r in first if r.estimate.value <= SAME), None)
    if small is None and (first or distinct is None):  # where it was read, how far they differ
        return ()
    return tuple(r for r in (empty_inputs(profile), distinct, small) if r is not None)


def share_words(share: Estimate) -> str:
    """A share in words, where it may be too small to be told from none."""
    return f"{share.value:.2g}" if share.low > 0 else f"less than {share.high:.1g}"
