"""Which of the rates that were tried to name: not the largest that looks good at first.

In a short run the largest rate that does not diverge comes farthest, and later it does not settle:
a short horizon prefers large steps (Wu et al. 2018, Understanding short-horizon bias in stochastic
meta-optimization). So the next smaller rate is run for as long as the larger one, and is named
unless the larger is still clearly ahead.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import final

from sigmascope.diagnosis.trainability.curves import Curve, Probe, windows
from sigmascope.diagnosis.trainability.short_runs import Probing
from sigmascope.gate import OverBudget

LONG = 33  # rounds after which two rates are compared; a probe's best rate has had as many
LAST = 6  # of them are averaged, for a single round of a large rate is noisy
AHEAD = 0.05  # of the way, by which the larger must be ahead
DONE = 0.95  # of the way: a rate that stays there needs no comparison
PLAIN = 0.02  # of the way, below which nothing has been learnt and nothing is compared


@final
@dataclass(frozen=True, slots=True)
class Named:
    """The rate of a design.

    Attributes:
        rate: To be trained with.
        seen: The probe, with the curve of that rate as long as it was run.
        why: What was compared, in words; empty where nothing had to be.
    """

    rate: float
    seen: Probe
    why: str = ""


def named(probing: Probing) -> Named:
    """The rate that came farthest, or the next smaller one where that comes as far.

    Args:
        probing: After the rounds that every design gets; goes on.

    Cost: up to 28 rounds, and as many as the better rate has fewer than 33.
    """
    seen = probing.seen()
    best = max(seen.curves, key=lambda c: (farthest(c, seen), -c.rate))
    below = max((c.rate for c in seen.curves if c.rate < best.rate), default=None)
    done = best.finite and level(best, seen) >= DONE
    if below is None or done or farthest(best, seen) < PLAIN:
        return Named(best.rate, seen)
    rounds = {c.rate: max(0, LONG - len(c.losses)) for c in seen.curves if c.finite}
    with suppress(OverBudget):  # what the user allowed is enough for a rate, not for this
        for rate in (below, best.rate):
            probing.go_on_at(rate, rounds.get(rate, 0))
        return _compared(seen, probing.seen(), best.rate, below)
    untried = f"There was no time to see whether {below:g} would do better than {best.rate:g}."
    return Named(best.rate, seen, untried)


def _compared(before: Probe, after: Probe, best: float, below: float) -> Named:
    """The larger of two rates only if it is clearly ahead."""
    curves = {c.rate: c for c in after.curves}
    large, small = (level(curves[rate], after) for rate in (best, below))
    ahead = curves[best].finite and large > small + AHEAD
    rate = best if ahead or not curves[below].finite else below
    seen = before.with_curves([curves[rate]])
    if rate == best:
        return Named(rate, seen)
    return Named(
        rate,
        seen,
        f"The rate is {below:g}: {best:g} came as far sooner, but after {LONG} rounds "
        f"{'was lost' if not curves[best].finite else f'no farther, {large:.0%} and {small:.0%}'}.",
    )


def farthest(curve: Curve, probe: Probe) -> float:
    """The most of the way that two rounds in a row came."""
    return max(windows(curve.reached(probe.constant)), default=-1.0)


def level(curve: Curve, probe: Probe) -> float:
    """How far it is, averaged over the last rounds; below nothing where there are none."""
    last = curve.reached(probe.constant)[-LAST:]
    return sum(last) / len(last) if last else -1.0
