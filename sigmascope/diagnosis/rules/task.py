"""Rules on the task: the size of targets, and what is left of them in the representations."""

from collections.abc import Iterator

from sigmascope.diagnosis.rules.first_steps import LOUD, outputs_too_large
from sigmascope.diagnosis.rules.trends import over_depth, samples_of
from sigmascope.diagnosis.trainability.model import EVEN, probability
from sigmascope.records import Finding, Profile

CLEAR = 5.0
CONTRADICTED = 0.5  # of the variance of targets, which the inputs cannot tell
ALIGNED = 0.05  # with the targets, of inputs that can be forgotten
LARGE_TARGET, SMALL_TARGET = 100.0, 0.01  # root mean square
FORGOTTEN = 0.02  # alignment with the targets, next to the input's


def unscaled_targets(profile: Profile) -> Iterator[Finding]:
    """Values to be fitted whose size is far from one."""
    far = [r for r in profile.series("first loss over a constant's") if r.estimate.value > LOUD]
    far = () if outputs_too_large(profile) else far  # outputs of zero are as far off
    for r in profile.series("target size"):
        size = r.estimate.value
        if size > LARGE_TARGET or size < SMALL_TARGET or far:
            yield Finding(
                "unscaled-targets",
                r.site,
                "warning",
                (r, *far),
                f"The targets have root mean square {size:.3g}, and a network's first outputs are "
                + (
                    f"far from them: the first loss is {far[0].estimate.value:.3g} times that of "
                    "the best constant."
                    if far
                    else "near 1."
                )
                + " At usual learning rates most of the training goes into their size.",
                "LeCun et al. 1998, Sec. 4.5",
                (
                    "Fit targets less their mean, over their standard deviation, and undo that on "
                    "the outputs.",
                ),
            )


def repeated_inputs(profile: Profile) -> Iterator[Finding]:
    """Samples that come again and again, each time with other targets."""
    for r in profile.series("contradicted targets"):
        for distinct in profile.series("distinct samples")[:1]:
            if r.estimate.low <= CONTRADICTED:
                continue
            yield Finding(
                "repeated-inputs",
                distinct.site,
                "warning",
                (r, distinct),
                f"Only {distinct.estimate.value:.0f} of the {samples_of(profile)} samples of the "
                f"batch differ, and equal ones have different targets: {r.estimate.value:.0%} of "
                "the variance of the targets is among them, which no function of the inputs can "
                "tell.",
                "Bishop 2006, Eq. (1.90)",
                (
                    "Look at what makes samples the same: integers divided or cast, an index that "
                    "does not move on, a vocabulary that knows few words, a mask.",
                ),
            )


def forgotten_targets(profile: Profile) -> Iterator[Finding]:
    """A last representation that no longer tells what the inputs told of the targets.

    It explains why a network does not train; deep networks with BatchNorm that do may start so too.
    """
    trains = probability(profile)
    if trains is None or trains.estimate.value >= EVEN:
        return
    signal = profile.series("target signal")
    found = over_depth(profile, "target alignment").readings
    if not signal or signal[0].estimate.value < CLEAR or len(found) < 3:
        return
    first, last = found[0], found[-1]
    if first.estimate.value > ALIGNED and last.estimate.value < FORGOTTEN * first.estimate.value:
        yield Finding(
            "forgotten-targets",
            last.site,
            "warning",
            (first, last),
            f"The alignment of the representation with the targets falls from "
            f"{first.estimate.value:.2g} at the input to {last.estimate.value:.2g} at {last.site}: "
            "what the inputs tell of the targets hardly gets through the initial network.",
            "Cortes, Mohri & Rostamizadeh 2012, Definition 4",
            ("Use fewer layers, or normalise before each activation.",),
        )


def overestimated_rank(profile: Profile) -> Iterator[Finding]:
    """A trained network that passes more dimensions everywhere than its function uses."""
    used = profile.series("inner dimension", view="bottleneck")
    passed = over_depth(profile, "representation rank").readings[1:]
    if not used or len(passed) < 3:
        return
    narrow = min(passed, key=lambda r: r.estimate.value)
    if narrow.estimate.low > used[0].estimate.high:
        yield Finding(
            "rank-overestimated",
            narrow.site,
            "note",
            (used[0], narrow),
            f"The function uses {used[0].estimate.value:.0f} dimensions, and every layer passes "
            f"{narrow.estimate.value:.0f} or more ({narrow.site} the fewest): training has kept "
            "directions that the function does not need.",
            "Jacot 2023, Theorem 3 and Sec. 3",
            ("Train deeper, longer or with more weight decay if the true dimension matters.",),
        )


def ill_conditioned(profile: Profile) -> Iterator[Finding]:
    """Layers in which the loss is far flatter in some directions than in others."""
    found = profile.series("condition of learning", view="conditioning")
    bad = [r for r in found if r.estimate.low > 1e4]
    if not bad:
        return
    worst = max(bad, key=lambda r: r.estimate.value)
    factors = (*profile.series("layer factor"), *profile.series("data factor"))
    known = [r for r in factors if r.site == worst.site]
    larger = max(known, key=lambda r: r.estimate.value) if known else None
    cause = "" if larger is None else f"; most of it is the {larger.quantity}"
    yield Finding(
        "ill-conditioned-layer",
        worst.site,
        "warning",
        (worst, *known),
        f"{len(bad)} layers are ill conditioned, worst {worst.site} ({worst.estimate.value:.2g}"
        f"{cause}): gradient descent needs about that number squared of steps in the slowest "
        "direction.",
        "Riedi et al. 2022, Sec. 3, corrected",
        (
            "Whiten what the layer reads where the data factor is large; give layers their own "
            "rates where the layer factor is (`sigmascope landscape MODEL`).",
        ),
    )
