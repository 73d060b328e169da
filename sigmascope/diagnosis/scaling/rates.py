"""At which learning rate training comes farthest, from a few rates tried."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scipy.stats import t as student

from sigmascope.core.records import ByValue, Estimate
from sigmascope.diagnosis.scaling.exponents import LEVEL

FACTORS = tuple(2.0**k for k in range(-4, 5))  # of the rate that is given
STEP = 0.25  # powers of two: how closely a parabola through three rates tells its lowest point
STAYS = 2.0  # a factor within which a best rate is the same for all that is done with it


@dataclass(frozen=True, slots=True, eq=False)
class BestRate(ByValue):
    """The learning rate at which training came farthest.

    Attributes:
        width: Of the model.
        factor: Of the rate that was given, with a 95 % interval over seeds; to zero or infinity
            where the lowest or highest rate was the best one that was tried.
        loss: At the best rate that was tried, the mean over seeds.
        spread: Between seeds, in powers of two of the rate.
        seeds: So many.
        curve: The mean loss at each rate that was tried, by its factor; infinite where it broke.
    """

    width: int
    factor: Estimate
    loss: float
    spread: float
    seeds: int
    curve: Mapping[float, float]


def best_rate(width: int, loss_at: Callable[[float, int], float], seeds: int) -> BestRate:
    """Try rates, and find the best.

    Args:
        width: Of the model.
        loss_at: The loss after training at a factor of the rate, from a seed.
        seeds: How many.
    """
    losses = {f: [loss_at(f, seed) for seed in range(seeds)] for f in FACTORS}
    lowest: list[float] = []
    for seed in range(seeds):
        # where a curve is lowest, between the places that were tried: by a parabola through three
        known = [x if math.isfinite(x := losses[f][seed]) else math.inf for f in FACTORS]
        at = min(range(len(known)), key=known.__getitem__)
        shift, near = 0.0, known[at - 1 : at + 2]
        if 0 < at < len(known) - 1 and all(map(math.isfinite, near)):
            a, b, c = near  # a is above b, which is the first of the lowest
            shift = 0.5 * (a - c) / (a - 2 * b + c)
        lowest.append(at + shift)
    middle = sum(lowest) / seeds
    free, squares = seeds - 1, sum((x - middle) ** 2 for x in lowest)
    reach = _reach(squares, free, 1 / seeds)
    at_end = [min(lowest) <= 0, max(lowest) >= len(FACTORS) - 1]
    low = 0.0 if at_end[0] else FACTORS[0] * 2 ** (middle - reach)
    high = math.inf if at_end[1] else FACTORS[0] * 2 ** (middle + reach)
    means = {f: sum(some) / seeds for f, some in losses.items()}
    how = f"{len(FACTORS)} rates, {seeds} seed{'s' * (seeds > 1)}"
    factor = Estimate(FACTORS[0] * 2**middle, low, high, how, 1 - LEVEL)
    stray = math.sqrt(squares / free) if free else 0.0
    return BestRate(width, factor, min(means.values()), stray, seeds, means)


def _reach(squares: float, free: int, share: float) -> float:
    """Half of a 95 % interval, in powers of two, where a variance is a share of that of a seed."""
    if not free:
        return 1.0  # of one seed nothing is known: a factor two
    error = math.sqrt(squares / free * share)
    return max(float(student.ppf((1 + LEVEL) / 2, free)) * error, STEP)


def moved(small: BestRate, large: BestRate) -> Estimate:
    """By which factor the best rate falls from a small model to a large one; below 1 it rises.

    Returns:
        With a 95 % interval over the seeds of both, which are taken to stray alike.
    """
    a, b = small.factor, large.factor
    free = small.seeds + large.seeds - 2
    squares = (small.seeds - 1) * small.spread**2 + (large.seeds - 1) * large.spread**2
    reach = _reach(squares, free, 1 / small.seeds + 1 / large.seeds)
    by, wide = a.value / b.value, 2**reach
    # where one of both is beyond the rates that were tried, one side is open
    low = 0.0 if math.isinf(b.high) or a.low == 0 else by / wide
    high = math.inf if math.isinf(a.high) or b.low == 0 else by * wide
    return Estimate(by, low, high, f"{a.how}, at two widths", 1 - LEVEL)
