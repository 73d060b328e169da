"""The rate that is named is not the largest that looks good at first."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from sigmascope import sources
from sigmascope.diagnosis.ranking import (
    AHEAD,
    COST,
    LAST,
    LONG,
    PASSES,
    Entry,
    farthest,
    level,
    looked,
    named,
    ranked_entries,
)
from sigmascope.diagnosis.trainability import Curve, EarlyTraining
from sigmascope.diagnosis.trainability.model import for_probing
from sigmascope.gate import Budget
from sigmascope.networks import mlp
from tests.clocks import Clock


class Told:
    """A probe whose curves at each rate are told beforehand."""

    def __init__(self, curves, rounds):
        self.whole = dict(curves)
        self.rounds = dict(rounds)
        self.spent = 0

    def go_on_at(self, rate, rounds):
        self.rounds[rate] += rounds
        self.spent += rounds

    def seen(self):
        curves = []
        for rate, shares in self.whole.items():
            known = shares[: self.rounds[rate]]
            finite = None not in known
            known = tuple(s for s in known if s is not None)
            zeros = (0.0,) * len(known)
            curves.append(Curve(rate, (1.0,) * len(known), zeros, zeros, finite, known))
        return EarlyTraining(tuple(curves), 1.0)


def rising(to, rounds=LONG, slowly=1.0):
    return [to * min(1.0, (i + 1) / (slowly * rounds)) for i in range(rounds)]


FAST = [0.6] * LONG
AGES = {0.001: 5, 0.003: 11, 0.01: LONG}


@pytest.mark.parametrize(
    ("below", "best", "rate"),
    [
        (rising(0.8), FAST, 0.003),  # later it is ahead
        (rising(0.6, slowly=0.8), FAST, 0.003),  # as far: the smaller is safer
        ([0.6 - 0.9 * AHEAD] * LONG, FAST, 0.003),  # nearly
        ([0.6 - 1.1 * AHEAD] * LONG, FAST, 0.01),
        (rising(0.4), FAST, 0.01),
        (rising(0.4), [*FAST[: LONG - 1], None], 0.003),  # what is lost is not named
        ([0.1, 0.1, None] + [None] * (LONG - 3), FAST, 0.01),
        (rising(0.7), [0.9, 0.9, *[0.5] * (LONG - 2)], 0.003),  # a peak that did not last
        (rising(0.7), [0.9, 0.9, *[0.0] * (LONG - 2)], 0.003),  # nor left anything
    ],
)
def test_the_larger_rate_is_named_only_if_it_is_ahead_after_as_many_rounds(below, best, rate):
    probing = Told({0.001: rising(0.3), 0.003: below, 0.01: best}, AGES)
    found = named(probing)
    assert found.rate == rate
    assert probing.spent <= LONG - AGES[0.003]
    assert bool(found.why) == (rate == 0.003)
    kept = {c.rate: len(c.losses) for c in found.seen.curves}
    assert kept[rate] == len([s for s in probing.whole[rate][:LONG] if s is not None])
    assert rate == 0.003 or kept[0.003] <= AGES[0.003]


@pytest.mark.parametrize("best", [[0.99] * LONG, [0.01] * LONG])
def test_nothing_is_spent_where_it_is_done_or_dead(best):
    probing = Told({0.003: [0.001] * LONG, 0.01: best}, AGES)
    found = named(probing)
    assert (found.rate, probing.spent, found.why) == (0.01, 0, "")
    assert named(Told({0.01: FAST}, AGES)).rate == 0.01


def test_a_level_is_the_mean_of_the_last_rounds():
    curve = Told({0.1: rising(1.0)}, {0.1: LONG}).seen()
    assert level(curve.curves[0], curve) == pytest.approx(1 - (LAST - 1) / 2 / LONG)
    assert level(replace(curve.curves[0], right=()), curve) == -1.0


@pytest.fixture(scope="module")
def deep():
    """Twenty-four layers with batch normalisation: 0.01 is far ahead at first, and never settles.

    After 1200 steps on 1280 digits it has two thirds right, and 0.003 nine tenths.
    """
    digits = sources.open_data("digits", samples=1797)
    g = torch.Generator().manual_seed(0)
    model = mlp(inputs=64, outputs=10, depth=24, width=64, norm="batch", generator=g)
    x = 2 * digits.inputs.flatten(1).float() - 1
    return Entry("deep", model, *for_probing(x[:1280], digits.targets[:1280]), F.cross_entropy)


@pytest.mark.slow
def test_a_budget_that_ends_meanwhile_is_said(deep):
    clock = Clock()

    def loss(output, targets):
        clock.now += 1.0
        return F.cross_entropy(output, targets)

    probing = looked(replace(deep, loss=loss), Budget(8.0 * PASSES + 20, clock=clock))
    seen = probing.seen()
    assert max(seen.curves, key=lambda c: farthest(c, seen)).rate == 1e-2
    found = named(probing)
    assert found.rate == 1e-2
    assert "no time to see whether 0.003 would do better than 0.01" in found.why


@pytest.mark.slow
def test_a_ranking_does_not_name_a_rate_that_never_settles(deep):
    (found,) = ranked_entries([deep])
    assert found.rate == 3e-3
    assert "The rate is 0.003" in found.why
    assert PASSES < found.passes <= COST + LONG
