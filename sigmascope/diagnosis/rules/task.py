"""Rules on the task: targets, outputs and the first loss."""

from collections.abc import Iterator

from sigmascope.diagnosis.rules.trends import over_depth
from sigmascope.diagnosis.trainability.model import EVEN, probability
from sigmascope.records import Finding, Profile, Reading

JACOT_NTK = "Jacot, Gabriel & Hongler 2018, Sec. 4"
CHANCE = 2.0  # standard deviations of what permuted targets give
CLEAR = 5.0
LOUD = 20.0  # times the loss of the best constant
ALIGNED = 0.05  # with the targets, of inputs that can be forgotten
LARGE_TARGET, SMALL_TARGET = 100.0, 0.01  # root mean square
SMALL_TANGENTS, LARGE_TANGENTS = 1e-6, 1e9  # trace of the tangent kernel; healthy nets 1e2 to 1e5
FORGOTTEN = 0.02  # alignment with the targets, next to the input's


def unrelated_targets(profile: Profile) -> Iterator[Finding]:
    """Targets that have no more to do with the inputs than permuted ones."""
    for r in profile.series("target signal"):
        if r.estimate.value < CHANCE:
            yield Finding(
                "unrelated-targets",
                r.site,
                "warning",
                (r,),
                "Neither a sample's neighbours nor a linear fit tell its target better than chance "
                f"({r.estimate.value:.1f} standard deviations from permuted targets): the targets "
                "may be shuffled against the inputs. A network may still learn them by heart.",
                "Zhang et al. 2017, Sec. 2 (random labels)",
                (
                    "Check that inputs and targets are read in the same order; measure on more "
                    "samples (`--samples`).",
                ),
            )


def unscaled_targets(profile: Profile) -> Iterator[Finding]:
    """Values to be fitted whose size is far from one."""
    for r in profile.series("target size"):
        size = r.estimate.value
        if size > LARGE_TARGET or size < SMALL_TARGET:
            yield Finding(
                "unscaled-targets",
                r.site,
                "warning",
                (r,),
                f"The targets have root mean square {size:.3g}, and a network's first outputs are "
                "near 1: at usual learning rates most of the training goes into their size.",
                "LeCun et al. 1998, Sec. 4.5",
                (
                    "Fit targets less their mean, over their standard deviation, and undo that on "
                    "the outputs.",
                ),
            )


def loud_output(profile: Profile) -> Iterator[Finding]:
    """A first loss far above that of the best constant."""
    for r in profile.series("first loss over a constant's"):
        if r.estimate.value > LOUD:
            yield Finding(
                "loud-output",
                r.site,
                "warning",
                (r,),
                f"The first loss is {r.estimate.value:.3g} times that of the best constant output: "
                "the outputs are far too large, and the first steps go into making them smaller.",
                "Karpathy 2019, A Recipe for Training Neural Networks (verify loss at init)",
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


def tangent_size(profile: Profile) -> Iterator[Finding]:
    """A tangent kernel that is too small or large for any usual learning rate."""
    found, total = _tangents(profile)
    if len(found) < 3 or total == 0 or SMALL_TANGENTS < total < LARGE_TANGENTS:
        return
    moves = "hardly move the outputs" if total < 1 else "throw the outputs far off"
    share = found[0].estimate.value / total
    yield Finding(
        "tangent-size",
        found[0].site,
        "warning",
        tuple(found[:4]),
        f"The trace of the tangent kernel is {total:.2g} a sample, {share:.0%} of it from "
        f"{found[0].site}: gradient steps of usual size {moves}.",
        JACOT_NTK,
        (
            "Scale inputs, weights and outputs to unit size, or learn at a rate of the order of "
            f"{1 / total:.0e}.",
        ),
    )


def no_tangents(profile: Profile) -> Iterator[Finding]:
    """A tangent kernel that is zero."""
    found, total = _tangents(profile)
    if len(found) >= 3 and total == 0:
        yield Finding(
            "no-tangents",
            found[0].site,
            "error",
            tuple(found[:4]),
            "The tangent kernel is zero: no small change of any weight changes the output.",
            JACOT_NTK,
            ("Draw the weights again; look for a zero that multiplies everything.",),
        )


def _tangents(profile: Profile) -> tuple[list[Reading], float]:
    """Shares of the tangent kernel's trace, the largest first, and their sum."""
    shares = sorted(profile.series("NTK trace", view="features"), key=lambda r: -r.estimate.value)
    return shares, sum(r.estimate.value for r in shares)


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
