"""Rules on the first loss and steps, with what is measured of them as a second witness."""

from collections.abc import Iterator

from sigmascope.diagnosis.rules import task
from sigmascope.diagnosis.rules.trends import Series, Trend, over_depth
from sigmascope.records import Finding, Profile

HUNDREDTH = 4.6  # nats: the right class has a hundredth of the probability that equal scores give
FAST, SLOW = 1e-4, 1e3  # learning rates below and above which nothing usual is
TOLD, POWER = 0.045, 4.0  # upper limit of what neighbours tell; what they must tell of others
DEEP, CHANGED = 8, 1e3  # layers; of the mean square, over the whole depth
STEADY = 0.1  # of the logarithm of a factor per layer, half the width of its interval


def loud_start(profile: Profile) -> Iterator[Finding]:
    """A first loss far above that of a constant: so many times, or so many nats above even odds."""
    told = [*task.loud_output(profile)]
    yield from told
    for r in profile.series("nats over equal scores") if not told else ():
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
                "Karpathy 2019, A Recipe for Training Neural Networks (verify loss at init)",
                (
                    "Draw the layer that writes the scores smaller; where it shares its weight "
                    "with an embedding, draw that with a standard deviation near 1/√width (GPT-2: "
                    "0.02), or divide the scores by √width.",
                ),
            )


def tangent_size(profile: Profile) -> Iterator[Finding]:
    """A tangent kernel out of all proportion, where the gradient of the loss is so too.

    The kernel is taken with the statistics of batch normalisers held constant. In training they
    move with the weights, which takes most of the derivative away: the loss's own gradient tells.
    """
    steps = profile.series("Polyak step")
    for finding in task.tangent_size(profile):
        usual = [r for r in steps if FAST < r.estimate.value < SLOW]
        if not usual:
            yield finding


def unrelated_targets(profile: Profile) -> Iterator[Finding]:
    """Targets that have nothing to do with the inputs, where a test of it has the power to tell."""
    limits = {r.site: r.estimate.value for r in profile.series("told by neighbours at most")}
    powers = {r.site: r.estimate.value for r in profile.series("told of smooth targets")}
    for finding in task.unrelated_targets(profile):
        power = powers.get(finding.site)
        if power is None or (power > POWER and limits[finding.site] < TOLD):
            yield finding


def layer_gain(profile: Profile) -> Iterator[Finding]:
    """A deep network in which every layer changes the size of its signal by the same factor."""
    size = over_depth(profile, "mean square", form="samples")
    inner = Series(size.readings[1:], size.depths[1:])
    fit = inner.trend() if len(inner.readings) >= DEEP else None
    if fit is None or not min(inner.values()) > 0:
        return
    first, last = inner.values()[0], inner.values()[-1]
    steady = fit.low > 0 and (fit.high / fit.low) ** 0.5 < 1 + STEADY
    if steady and max(last / first, first / last) > CHANGED:
        yield _gain(inner, fit, last / first)


def _gain(inner: Series, fit: Trend, change: float) -> Finding:
    scale = fit.factor**-0.5
    return Finding(
        "layer-gain",
        inner.readings[0].site,
        "warning",
        (inner.readings[0], inner.readings[-1]),
        f"Every layer multiplies the mean square of its signal by {fit.says()}, which over "
        f"{len(inner.readings)} layers makes a factor {change:.2g}: for this depth and activation "
        f"the weights must be {scale:.2f} times as large.",
        "He et al. 2015, Sec. 2.2",
        (
            f"Multiply the initial weights of every layer by {scale:.2f}; for ReLU that is He's "
            "scale (`nn.init.kaiming_normal_`), where Glorot's is made for tanh. Or normalise.",
        ),
    )
