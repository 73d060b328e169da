"""Rules on the first loss and steps: outputs, tangents, targets, and the gain of layers."""

from collections.abc import Iterator

from sigmascope.diagnosis.rules.training import told_apart
from sigmascope.diagnosis.rules.trends import Series, Trend, over_depth
from sigmascope.diagnosis.trainability.model import EVEN, probability
from sigmascope.records import Finding, Profile, Reading

JACOT_NTK = "Jacot, Gabriel & Hongler 2018, Sec. 4"
KARPATHY = "Karpathy 2019, A Recipe for Training Neural Networks (verify loss at init)"
CHANCE = 2.0  # standard deviations of what permuted targets give
QUIETER = 2.0  # times the loss of outputs that are zero
LOUD = 20.0  # times the loss of the best constant
SMALL_TANGENTS, LARGE_TANGENTS = 1e-6, 1e9  # trace of the tangent kernel; healthy nets 1e2 to 1e5
HUNDREDTH = 4.6  # nats: the right class has a hundredth of the probability that equal scores give
FAST, SLOW = 1e-4, 1e3  # learning rates below and above which nothing usual is
TOLD, POWER = 0.045, 4.0  # upper limit of what neighbours tell; what they must tell of others
DEEP, CHANGED = 8, 1e3  # layers; of the mean square, over the whole depth
STEADY = 0.1  # of the logarithm of a factor per layer, half the width of its interval


def loud_output(profile: Profile) -> Iterator[Finding]:
    """A first loss far above that of a constant: so many times, or so many nats above even odds."""
    ratios = [r for r in profile.series("first loss over a constant's") if r.estimate.value > LOUD]
    yield from map(_times, ratios if outputs_too_large(profile) else ())
    for r in profile.series("nats over equal scores") if not ratios else ():
        if r.estimate.value > HUNDREDTH:
            yield Finding(
                "loud-output",
                r.site,
                "warning",
                (r,),
                f"The first loss is {r.estimate.value:.3g} nats above that of equal scores: the "
                f"right class has 10^-{r.estimate.value / 2.302585:.1f} of the probability that a "
                "guess gives it. The scores are far too large, and the first steps go into making "
                "them smaller.",
                KARPATHY,
                (
                    "Draw the layer that writes the scores smaller; where it shares its weight "
                    "with an embedding, draw that with a standard deviation near 1/√width (GPT-2: "
                    "0.02), or divide the scores by √width.",
                ),
            )


def outputs_too_large(profile: Profile) -> bool:
    """Whether outputs of zero would have far less of a loss: if not, their size is not at fault."""
    zeros = profile.series("loss of zeros")
    constant = profile.series("least loss of a constant")
    ratio = profile.series("first loss over a constant's")
    if not (zeros and constant and ratio):
        return True
    return ratio[0].estimate.value * constant[0].estimate.value > QUIETER * zeros[0].estimate.value


def _times(r: Reading) -> Finding:
    return Finding(
        "loud-output",
        r.site,
        "warning",
        (r,),
        f"The first loss is {r.estimate.value:.3g} times that of the best constant output: the "
        "outputs are far too large, and the first steps go into making them smaller.",
        KARPATHY,
    )


def tangent_size(profile: Profile) -> Iterator[Finding]:
    """A tangent kernel out of all proportion, where the gradient of the loss is so too.

    The kernel is taken with the statistics of batch normalisers held constant. In training they
    move with the weights, which takes most of the derivative away: the loss's own gradient tells.
    """
    found, total = _tangents(profile)
    if len(found) < 3 or total == 0 or SMALL_TANGENTS < total < LARGE_TANGENTS:
        return
    if any(FAST < r.estimate.value < SLOW for r in profile.series("Polyak step")):
        return
    moves = "hardly move the outputs" if total < 1 else "throw the outputs far off"
    share = found[0].estimate.value / total
    chance = probability(profile)
    yield Finding(
        "tangent-size",
        found[0].site,
        "note" if chance is not None and chance.estimate.value >= EVEN else "warning",
        tuple(found[:4]),
        f"The trace of the tangent kernel is {total:.2g} a sample, {share:.0%} of it from "
        f"{found[0].site}: gradient steps of usual size {moves}.",
        JACOT_NTK,
        ("Scale inputs, weights and outputs to unit size.",),
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


def unrelated_targets(profile: Profile) -> Iterator[Finding]:
    """Targets that have no more to do with the inputs than permuted ones.

    It speaks only where a test of it has the power to tell, and not where training told the targets
    of other samples apart, as those of pairs, which no neighbours nor linear functions tell.
    """
    if told_apart(profile):
        return
    limits = {r.site: r.estimate.value for r in profile.series("told by neighbours at most")}
    powers = {r.site: r.estimate.value for r in profile.series("told of smooth targets")}
    for r in profile.series("target signal"):
        power = powers.get(r.site)
        able = power is None or (power > POWER and limits[r.site] < TOLD)
        if r.estimate.value < CHANCE and able:
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


def layer_gain(profile: Profile) -> Iterator[Finding]:
    """A deep network in which every layer changes the size of its signal by the same factor."""
    size = over_depth(profile, "mean square", form="samples")
    inner = Series(size.readings[1:], size.depths[1:])
    fit = inner.trend() if len(inner.readings) >= DEEP else None
    if fit is None or not min(inner.values()) > 0:
        return
    first, last = inner.values()[0], inner.values()[-1]
    steady = fit.low > 0 and (fit.high / fit.low) ** 0.5 < 1 + STEADY
    told = steady and not fit.low <= 1 <= fit.high
    if told and max(last / first, first / last) > CHANGED:
        yield _gain(inner, fit, last / first)


def _gain(inner: Series, fit: Trend, change: float) -> Finding:
    scale = fit.factor**-0.5
    return Finding(
        "layer-gain",
        inner.readings[0].site,
        "warning",
        (inner.readings[0], inner.readings[-1]),
        f"A layer multiplies the mean square of its signal by {fit.says()} on average: from the "
        f"first to the last of {len(inner.readings)} it changes by a factor {change:.2g}. For this "
        f"depth and activation the weights must be {scale:.2f} times as large.",
        "He et al. 2015, Sec. 2.2",
        (
            f"Multiply the initial weights of every layer by {scale:.2f}; for ReLU that is He's "
            "scale (`nn.init.kaiming_normal_`), where Glorot's is made for tanh. Or normalise.",
        ),
    )
