"""Rules on the directions of representations and gradients."""

from collections.abc import Iterator
from dataclasses import dataclass

from sigmascope.diagnosis.rules.trends import Series, over_depth, samples_of, trend
from sigmascope.diagnosis.trainability.model import EVEN, probability
from sigmascope.records import Estimate, Finding, Profile, Reading

ONE_DIRECTION = 1.1  # participation ratio at which all samples point nearly the same way
SAME = 1e-6  # variation at the input that single precision hardly shows
ALIKE = 1e-2  # variation between samples, relative to their size, that is nearly none
LOST = 0.5  # share of the input's centred directions that must be gone
FEW = 6.0  # centred directions that must not be left; a default net that cannot train has 3 to 5
FEWEST = 8  # samples of which all pairs are compared
COLLINEAR_ERROR, COLLINEAR_WARNING = 0.999, 0.99
DANESHMAND = "Daneshmand et al. 2020"


@dataclass(frozen=True, slots=True)
class _Directions:
    """What tells over depth how many directions the samples use."""

    ratio: Series
    centred: dict[str, Reading]
    variation: dict[str, Reading]

    @classmethod
    def of(cls, profile: Profile) -> "_Directions":
        def by_site(quantity: str) -> dict[str, Reading]:
            return {r.site: r for r in over_depth(profile, quantity, form="samples").readings}

        return cls(
            over_depth(profile, "participation ratio", form="samples"),
            by_site("centred participation ratio"),
            by_site("relative variation"),
        )

    def collapsed(self) -> list[int]:
        """Depths at which the samples lie on one line although those of the input do not.

        Where it was not read how much samples differ (rows of zero size), none is told of.
        """
        first = self.ratio.readings[0].site
        if first not in self.variation:
            return []
        return [
            depth
            for depth, r in zip(self.ratio.depths[1:], self.ratio.readings[1:], strict=True)
            if r.site in self.variation
            and _collapsed(
                r,
                self.centred.get(r.site),
                self.variation[r.site],
                self.centred.get(first),
                self.variation[first],
            )
        ]

    def since(self) -> int | None:
        """Place from which on the samples lie on one line, to the last; None if they do not."""
        collapsed = self.collapsed() if len(self.ratio.readings) > 2 else []
        if not collapsed or self.ratio.depths[-1] not in collapsed:
            return None
        healthy = max(d for d in self.ratio.depths if d not in collapsed)
        return self.ratio.depths.index(next(d for d in collapsed if d > healthy))


def rank_collapse(profile: Profile) -> Iterator[Finding]:
    """Representations in which all samples point the same way, from some layer to the last."""
    found = _Directions.of(profile)
    ratio = found.ratio
    at = found.since()
    if at is None:
        return
    first, onset, last = ratio.readings[0], ratio.readings[at], ratio.readings[-1]
    differ = found.variation[last.site]
    severe = differ.estimate.value <= ALIKE
    if onset.site == last.site and not severe:  # one step, as of pooling, is no trend over depth
        return
    centred = (found.centred[s] for s in (first.site, last.site) if s in found.centred)
    evidence = (first, onset, last, found.variation[first.site], differ, *centred)
    yield Finding(
        "rank-collapse",
        onset.site,
        "error" if severe else "warning",
        tuple(dict.fromkeys(evidence)),
        f"From layer {onset.site} (number {ratio.depths[at]} of {ratio.depths[-1]}) on, all "
        f"samples lie nearly on one line: the participation ratio falls from "
        f"{first.estimate.value:.3g} at the input to {last.estimate.value:.5g} at {last.site}, "
        f"where samples differ by {_share(differ.estimate)} of their size." + _pace(ratio, profile),
        f"{DANESHMAND}, Eq. (4), Lemma 3 and Theorem 2",
    )


def _share(variation: Estimate) -> str:
    return f"{variation.value:.2g}" if variation.low > 0 else f"less than {variation.high:.1g}"


def _collapsed(
    ratio: Reading,
    centred: Reading | None,
    variation: Reading,
    first_centred: Reading | None,
    first_variation: Reading,
) -> bool:
    """One direction only, and the differences between samples small or few next to the input's."""
    if ratio.estimate.high > ONE_DIRECTION:
        return False
    if centred is None or first_centred is None:  # all rows equal: nothing tells samples apart
        return first_centred is not None
    small = variation.estimate.value <= min(ALIKE, 0.1 * first_variation.estimate.value)
    return small or centred.estimate.high <= min(FEW, LOST * first_centred.estimate.low)


def _pace(ratio: Series, profile: Profile) -> str:
    """How fast the second direction dies, and where it is gone by the numerical rank rule."""
    excess = [v - 1 for v in ratio.values()]
    fallen = next((i for i, e in enumerate(excess) if e < 1e-12), len(excess))
    inner = Series(ratio.readings[1:fallen], ratio.depths[1:fallen])
    fit = trend(inner.depths, [v - 1 for v in inner.values()])
    if fit is None or fit.factor >= 1:
        return ""
    shape = next(
        (s.spectrum.shape for s in profile.spectra if s.site == ratio.readings[-1].site), (1, 1)
    )
    level = (
        2 * (max(shape) * 1e-7) ** 2
    )  # excess at which the second singular value is below the rule
    depth = fit.reaches(level)
    ahead = (
        ""
        if depth is None
        else f", which makes it numerically rank one after about {depth:.0f} layers"
    )
    return f" What exceeds one direction shrinks by a factor {fit.says()} per layer{ahead}."


def alike_inputs(profile: Profile) -> Iterator[Finding]:
    """A batch whose samples are all the same: then nothing can be said of the network."""
    distinct = next(iter(profile.series("distinct samples")), None)
    if samples_of(profile) == 1 or (distinct is not None and distinct.estimate.high >= 2):
        return  # one is like itself; or something tells them apart
    inputs = over_depth(profile, "relative variation", form="samples")
    first = inputs.readings[:1] if inputs.depths[:1] == (0,) else ()  # else ids came before
    small = next((r for r in first if r.estimate.value <= SAME), None)
    if small is None and (first or distinct is None):  # where it was read, how far they differ
        return
    empty = _empty(profile)
    found = [r for r in (empty, distinct, small) if r is not None]
    apart = "" if small is None else f" (they differ by {_share(small.estimate)} of their size)"
    yield Finding(
        "alike-inputs",
        found[0].site if small is None else small.site,
        "warning",
        tuple(found),
        f"The samples of this batch are {'all zero' if empty else f'the same{apart}'}: what is "
        "measured here speaks of the batch, not of the network.",
        "Arithmetic: a function gives equal outputs for equal inputs",
        (
            "Look at what is done to them before the model sees them: integers divided or cast, an "
            "index that does not move, a vocabulary that knows no word, a mask.",
            "Measure on samples that differ, in the scale in which the network is trained.",
        ),
    )


def lost_inputs(profile: Profile) -> Iterator[Finding]:
    """Samples that differ, and a first representation that is the same for all of them."""
    distinct = next(iter(profile.series("distinct samples")), None)
    if distinct is None or distinct.estimate.low < 2:
        return
    first = next(iter(over_depth(profile, "relative variation", form="samples").readings), None)
    empty = _empty(profile)
    if empty is None and (first is None or first.estimate.value > SAME):
        return
    read = empty or first
    assert read is not None
    apart = "it is zero" if empty else f"it differs by {_share(read.estimate)} of its size"
    yield Finding(
        "lost-inputs",
        read.site,
        "error",
        (distinct, read),
        f"The batch holds {distinct.estimate.value:.0f} different samples, and what {read.site} "
        f"reads is the same for all of them ({apart}): what tells samples apart is lost on the way "
        "to it.",
        "Arithmetic: a function gives equal outputs for equal inputs",
        (
            "Look at what is done between the inputs and this layer: a mask the wrong way "
            "round, a sum over samples or over padding, an index, a factor of zero.",
        ),
    )


def _empty(profile: Profile) -> Reading | None:
    """The size of what the first layer reads, where all that is handed over is zero."""
    sizes = profile.series("input size")
    return sizes[0] if sizes and all(r.estimate.value == 0 for r in sizes) else None


def directional_gradient(profile: Profile) -> Iterator[Finding]:
    """Gradients of all samples along one line in the last layer, though the samples differ.

    Silent where a probe saw progress, which is to learn samples apart, and where there are too few
    samples for a least cosine to mean something.
    """
    trains = probability(profile)
    seen = trains is not None and trains.estimate.value >= EVEN  # to be learned apart
    same = any(alike_inputs(profile)) or any(lost_inputs(profile))
    if same or seen or _samples(profile) < FEWEST:
        return
    least = profile.series("minimum |cos|", view="gradients")
    mean = {r.site: r for r in profile.series("mean |cos|", view="gradients")}
    for r in least:
        if r.estimate.low >= COLLINEAR_WARNING:
            yield Finding(
                "directional-gradient-vanishing",
                r.site,
                "error" if r.estimate.low >= COLLINEAR_ERROR else "warning",
                (r, mean[r.site]) if r.site in mean else (r,),
                f"The gradients of any two samples in the last layer {r.site} are parallel (least "
                f"|cos| {r.estimate.value:.6g}): whatever the labels, each step moves its weights "
                "along one line, and samples cannot be learned apart.",
                f"{DANESHMAND}, Prop. 19",
            )


def _samples(profile: Profile) -> float:
    """How many there are, as far as was read."""
    return max(
        (s.spectrum.shape[0] for s in profile.spectra if s.form == "samples"), default=FEWEST
    )
