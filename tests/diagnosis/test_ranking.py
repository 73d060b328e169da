"""Designs are ordered as their training would order them, at the cost that was said."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, sources
from sigmascope.core.guard import Budget, OverBudget, Refusal
from sigmascope.diagnosis.ranking import (
    Entry,
    _Tried,
    farthest,
    level,
    looked,
    named,
    rank,
    ranked_entries,
)
from sigmascope.diagnosis.trainability import Curve, EarlyTraining
from sigmascope.diagnosis.trainability.model import for_probing
from sigmascope.models.networks import mlp
from tests.clocks import Clock, Ticking

AHEAD, COST, LAST, LONG, PASSES = 0.05, 60, 6, 33, 54


@pytest.fixture(scope="module")
def digits():
    return sources.open_data("digits", samples=64)


def net(depth, **options):
    g = torch.Generator().manual_seed(0)
    return mlp(inputs=64, outputs=10, depth=depth, width=24, generator=g, **options)


@pytest.fixture(scope="module")
def order(digits):
    """Of two designs that learn, and one that is dead."""
    models = {"dead": net(24), "good": net(2), "normal": net(3, norm="batch")}
    states = {k: [p.clone() for p in m.parameters()] for k, m in models.items()}
    found = rank(models, digits.inputs, targets=digits.targets, loss=F.cross_entropy)
    left = all(
        torch.equal(a, b)
        for k, m in models.items()
        for a, b in zip(m.parameters(), states[k], strict=True)
    )
    return found, left


def test_those_that_learn_are_first_and_the_dead_one_last(order):
    found, left = order
    assert [r.place for r in found] == [1, 2, 3]
    assert {r.name for r in found[:2]} == {"good", "normal"}
    assert found[-1].name == "dead"
    assert found[0].forecast.low > found[-1].forecast.value
    assert found[0].probability.value > 0.9 > 0.2 > found[-1].probability.value
    assert "No rate took it further" in found[-1].why
    assert "of the way after" in found[0].why
    assert left


def test_designs_share_a_budget_and_each_says_what_it_got(digits):
    models = {"a": net(2), "b": net(3)}
    given = {"targets": digits.targets, "budget": 1}

    def ranked(seconds):
        clock = Ticking()
        loss = clock.each(F.cross_entropy)
        budget = Budget(seconds, clock=clock)
        return rank(models, digits.inputs, targets=digits.targets, loss=loss, budget=budget)

    assert sum(r.passes for r in ranked(1e9)) >= 108
    with pytest.raises(OverBudget, match=r"^a: A place in the order needs 432 training steps"):
        ranked(800.0)
    with pytest.raises(Refusal, match="for each of 2, from which nothing is foretold"):
        rank(models, digits.inputs, loss=F.cross_entropy, **{**given, "budget": 1e-3})


def test_a_budget_that_ends_in_the_halving_leaves_an_order(digits):
    shuffled = digits.targets[torch.randperm(64, generator=torch.Generator().manual_seed(1))][:24]

    def ranked(passes, steps=1e9):
        """What came out, and after how many steps; time begins to pass behind some of them."""
        clock, made = Clock(), []

        def loss(output, targets):
            made.append(len(output))
            clock.now += 1.0 if len(made) > steps else 0.0
            return F.cross_entropy(output, targets)

        models = {"a": net(2), "b": net(3)}
        given = {"targets": shuffled, "loss": loss, "passes": passes}
        found = rank(models, digits.inputs[:24], **given, budget=Budget(5.0, clock=clock))
        return found, sum(r.passes for r in found), len(made)

    _, places, steps = ranked(PASSES)  # of every design
    _, whole, _ = ranked(130)
    found, cut, _ = ranked(130, steps + 10)
    assert [r.place for r in found] == [1, 2]
    assert places < cut < whole


def test_it_costs_what_was_said(order):
    passes = [r.passes for r in order[0]]
    assert all(p >= 33 for p in passes)
    assert sum(passes) <= 3 * (60 + 28)


def test_samples_that_pass_are_as_many_as_the_passes_say(digits):
    seen = []

    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net(2)

        def forward(self, x):
            seen.append(len(x))
            return self.inner(x)

    entry = Entry("one", Counted(), digits.inputs, digits.targets, F.cross_entropy)
    (only,) = ranked_entries([entry], passes=58)
    # a round is eight steps of 8 samples; 8 samples see whether they may be split
    # and all of them are looked at once before time is spent
    assert sum(seen) == only.passes * 64 + 8 + 64
    assert only.passes <= 58


@pytest.mark.parametrize(("depths", "passes"), [((2, 2), 70), ((2, 3), PASSES)])
def test_who_is_done_gets_no_more_and_a_probe_each_is_enough(digits, depths, passes):
    designs = {f"{i}": net(depth) for i, depth in enumerate(depths)}
    given = {"targets": digits.targets, "loss": F.cross_entropy}
    found = rank(designs, digits.inputs, **given, passes=passes)
    assert [r.passes for r in found] == [PASSES, PASSES]  # with 70 both have all answers right
    assert depths[0] != depths[1] or found[0].forecast == found[1].forecast


def test_each_entry_has_its_own_task(digits):
    values = F.one_hot(digits.targets, 10).float()
    entries = [
        Entry("classes", net(2), digits.inputs, digits.targets, F.cross_entropy, rates=(3e-3,)),
        Entry("values", net(2), digits.inputs, values, F.mse_loss, "sgd", (1e-2, 1e-1)),
    ]
    found = {r.name: r for r in ranked_entries(entries)}
    assert found["classes"].rate == 3e-3
    assert found["values"].rate in (1e-2, 1e-1)
    assert all(0 <= r.forecast.low <= r.forecast.high <= 1 for r in found.values())


def test_rates_whose_loss_is_lost_are_said(digits):
    entry = Entry("x", net(2), digits.inputs, digits.targets, F.cross_entropy, "sgd", (1e-1, 1e12))
    (found,) = ranked_entries([entry])
    assert found.rate == 1e-1
    assert "not finite at 1e+12" in found.why


def test_refusals(digits, as_users_see_it):
    given = {"targets": digits.targets, "loss": F.cross_entropy}
    with pytest.raises(Refusal, match="got 0 designs"):
        rank([], digits.inputs, **given)
    with pytest.raises(Refusal, match="at least 54 passes for each, got 1 designs and 10 passes"):
        rank([net(2)], digits.inputs, **given, passes=10)
    with pytest.raises(Refusal, match="frozen: There must be parameters to train"):
        rank({"frozen": net(2).requires_grad_(False)}, digits.inputs, **given)
    many = sources.open_data("digits", samples=300)
    with pytest.raises(Refusal, match="one row for each of the 300 samples"):
        rank([net(2)], many.inputs, **given)
    assert diagnosis.ranking.rank is rank


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


@pytest.mark.parametrize(
    ("shares", "how"),
    [
        ([0.1 * k for k in range(6)] + [0.5] * 6, "level"),  # that it rose before does not count
        ([0.3] * 6 + [0.3 + 0.05 * k for k in range(6)], "still rising"),
    ],
)
def test_whether_it_rises_is_told_of_the_second_half(shares, how):
    seen = Told({0.1: shares}, {0.1: 12}).seen()
    probing: Any = SimpleNamespace(passes=12)
    assert f"and {how}" in _Tried("a", probing, seen, 0.1, "", 12).ranked(1).why
