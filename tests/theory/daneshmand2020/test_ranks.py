"""Each theorem holds, has teeth, declines without its assumptions, and is silent elsewhere."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope.core.records import Estimate, Verdict
from sigmascope.models import Subject
from sigmascope.theory.daneshmand2020 import (
    GradientCollinearity,
    RankParticipation,
    Regularity,
    SoftRank,
    SoftRankAnyScale,
)
from tests.theory.daneshmand2020.told import PART, flips, told

GOOD = {Verdict.HOLDS, Verdict.CONSISTENT, Verdict.VACUOUS}
seeds = st.integers(0, 2**32)
sizes = st.integers(1, 12)
scales = st.floats(-12, 12)


def subject(rows, outputs=3):
    """A linear layer that reads `rows`: the simplest model with that representation."""
    model = nn.Linear(rows.shape[1], outputs).double()
    return Subject(model, rows.double())


def rows(seed, n, d, rank=None, scale=0.0, heavy=False):
    g = torch.Generator().manual_seed(seed)
    rank = min(n, d) if rank is None else min(rank, n, d)
    left = torch.randn(n, rank, generator=g, dtype=torch.float64)
    right = torch.randn(rank, d, generator=g, dtype=torch.float64)
    noise = torch.randn(n, 1, generator=g, dtype=torch.float64)
    return left @ right * 10.0**scale * (noise**5 if heavy else 1)


def normalised(H):
    return H / H.square().mean(0).sqrt()


def at_input(theorem, H):
    return next(iter(theorem.facts(subject(H.double()))))


FACTS = {  # what is measured, and representations that the theorem speaks of
    RankParticipation: ("rank", lambda H, scale: H * 10.0**scale),
    SoftRank: ("rank", lambda H, scale: normalised(H)),
    SoftRankAnyScale: ("rank", lambda H, scale: normalised(H) * 10.0 ** (abs(scale) / 2 - 0.1)),
    Regularity: ("alpha", lambda H, scale: normalised(H + 1e-30)),
}


@pytest.mark.parametrize("theorem", FACTS, ids=lambda t: t.name)
@given(seeds, st.integers(2, 12), sizes, sizes, scales, st.booleans())
def test_each_holds_and_has_teeth(theorem, seed, n, d, rank, scale, heavy):
    fact, of = FACTS[theorem]
    found = at_input(theorem, of(rows(seed, n, d, rank, heavy=heavy), scale))
    assert found.check().verdict in GOOD
    limit = found.limit()
    past = 1.001 * limit.high if theorem.sense == "at most" else 0.999 * limit.low
    broken = replace(found, **{fact: Estimate.exactly(past)})
    assert broken.check().verdict is Verdict.VIOLATED


def test_rank_participation_declines_and_is_silent_at_zero():
    assert not list(RankParticipation.facts(subject(torch.zeros(4, 3)))) or all(
        t.site != "(input)" and t.ratio.value > 0
        for t in RankParticipation.facts(subject(torch.zeros(4, 3)))
    )
    theorem = replace(at_input(RankParticipation, rows(0, 4, 3)), ratio=Estimate.exactly(0.0))
    assert theorem.check().verdict is Verdict.INAPPLICABLE


@pytest.mark.parametrize("theorem", FACTS, ids=lambda t: t.name)
def test_each_speaks_once_of_every_layer_that_reads_anything(theorem):
    """Of its samples, not also of its positions; of zeros there is nothing to say."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2))
    x = torch.randn(4, 2, 6)
    (every,) = {tuple(f.site for f in theorem.facts(Subject(model, x)))}
    assert every == ("0", "3", "(output)")
    silent = {f.site for f in theorem.facts(Subject(model, torch.zeros_like(x)))}
    assert silent == {"3", "(output)"}


def test_soft_rank_at_any_scale_declines_where_features_are_small():
    theorem = at_input(SoftRankAnyScale, 3 * normalised(rows(1, 9, 6)))
    for t, met in ((0.5 - 1e-9, False), (0.5, None), (0.5 + 1e-9, True)):
        moved = replace(theorem, mean_square=Estimate.exactly(t))
        assert [a.met for a in moved.assumptions()] == [met]


def test_a_soft_rank_of_at_least_one_goes_without_saying():
    """Features of mean square one have a direction in which they are as large."""
    for d, verdict in ((4, Verdict.VACUOUS), (20, Verdict.HOLDS)):
        found = at_input(SoftRank, normalised(rows(1, 40, d))).check()
        assert (found.limit.value > 1) == (verdict is Verdict.HOLDS)
        assert found.verdict is verdict


def test_the_general_form_is_the_printed_one_for_normalised_features():
    H = normalised(rows(2, 9, 6))
    printed, general = at_input(SoftRank, H), at_input(SoftRankAnyScale, H)
    assert general.limit().value == pytest.approx(printed.limit().value)


def collapsed(seed, *, spread=0.0, labels=None):
    """A last layer that reads one direction, up to `spread`."""
    g = torch.Generator().manual_seed(seed)
    u = torch.randn(1, 5, generator=g, dtype=torch.float64)
    H = torch.rand(8, 1, generator=g, dtype=torch.float64).add(0.5) * u
    H = H + spread * torch.randn(8, 5, generator=g, dtype=torch.float64)
    y = torch.arange(8) % 3 if labels is None else labels
    return Subject(nn.Linear(5, 3).double(), H, y, F.cross_entropy)


@given(seeds, st.floats(-18, -8))
def test_collinearity_holds_when_the_representation_collapses(seed, spread):
    found = list(GradientCollinearity.facts(collapsed(seed, spread=10.0**spread)))
    assert len(found) == 1
    assert found[0].check().verdict in GOOD


@given(seeds)
def test_collinearity_has_teeth(seed):
    theorem = next(GradientCollinearity.facts(collapsed(seed)))
    apart = replace(theorem, cosine=Estimate.exactly(0.999))
    assert apart.check().verdict is Verdict.VIOLATED


def test_collinearity_is_silent_without_a_loss_or_a_row_per_sample():
    assert not list(GradientCollinearity.facts(subject(rows(0, 5, 4))))
    tokens = Subject(nn.Linear(4, 3), torch.randn(5, 6, 4), torch.zeros(5, 6, 3), F.mse_loss)
    assert not list(GradientCollinearity.facts(tokens))


def test_regularity_is_attained_by_the_identity_and_by_rank_one():
    for H in (8**0.5 * torch.eye(8).double(), torch.ones(8, 5)):
        assert at_input(Regularity, H).alpha.value == pytest.approx(1, abs=1e-12)


def test_regularity_is_what_its_definition_says():
    H = normalised(rows(3, 7, 5))
    M = H.mT @ H / 7
    direct = torch.diag(M @ M).square().sum() / torch.trace(M @ M @ M)
    assert at_input(Regularity, H).alpha.value == pytest.approx(float(direct), rel=1e-12)
    for scale in (1e120, 1e-120):  # whose cubes leave the format
        found = at_input(Regularity, scale * H).alpha.value / scale**2
        assert found == pytest.approx(float(direct), rel=1e-12)


def test_regularity_is_silent_on_a_zero_representation():
    assert "" not in {t.site for t in Regularity.facts(subject(torch.zeros(4, 3)))}


def test_a_rank_is_at_least_the_participation_ratio():
    flips(RankParticipation("here", told(0), told(2.5)), "rank", 2.5)


def test_a_soft_rank_is_at_least_a_quarter_of_the_participation_ratio():
    """`(1 - 1/2)² r`, less what a deviation of 1e-3 leaves open: `(1 - 1/1.998)²`."""
    theorem = SoftRank("here", told(0), told(6.0), 1e-3)
    limit = theorem.limit()
    assert (limit.value, limit.high) == pytest.approx((1.5, 1.5))
    assert limit.low == pytest.approx(6 * (1 - 0.5 / 0.999) ** 2)
    for rank, verdict in (
        (limit.low * (1 - PART), Verdict.VIOLATED),
        (limit.low * (1 + PART), Verdict.CONSISTENT),
        (1.5 * (1 + PART), Verdict.HOLDS),
    ):
        assert replace(theorem, rank=told(rank)).check().verdict is verdict


def test_a_soft_rank_at_any_scale():
    """`(1 - τ/t)²` is 9/16 at t = 2."""
    flips(SoftRankAnyScale("here", told(0), told(4.0), told(2)), "rank", 2.25)
    for t, speaks in ((0.5 * (1 - PART), False), (0.5 * (1 + PART), True)):
        found = SoftRankAnyScale("here", told(1), told(1), told(t)).check()
        assert (found.verdict is not Verdict.INAPPLICABLE) is speaks


@pytest.mark.parametrize("theorem", [SoftRank, Regularity])
@pytest.mark.parametrize(("size", "met"), [(1.0009, True), (1.0011, False), (0.9989, False)])
def test_every_feature_must_be_normalised(theorem, size, met):
    """One feature of four has another mean square."""
    H = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)).double()
    H = H / H.square().mean(0).sqrt()
    H[:, 2] *= math.sqrt(size)
    found = at_input(theorem, H)
    assert found.deviation == pytest.approx(abs(size - 1), rel=1e-9)
    assert (found.check().verdict is not Verdict.INAPPLICABLE) is met


def test_regularity_is_at_most_one():
    theorem = Regularity("here", told(0), 1e-3)
    assert theorem.limit().value == 1
    for alpha, verdict in (
        (1.001 * (1 + PART), Verdict.VIOLATED),  # what the deviation leaves open
        (1.001 * (1 - PART), Verdict.CONSISTENT),
        (1 - PART, Verdict.HOLDS),
    ):
        assert replace(theorem, alpha=told(alpha)).check().verdict is verdict


@pytest.mark.parametrize(
    ("second", "shortest", "limit"),
    [
        (0.1, 1.0, 0.98),  # cos(2 asin s) = 1 - 2 s²
        (0.3, 1.5, 1 - 2 * 0.04),
        (0.6, 1.0, 0.28),
        (0.8, 1.0, 0.0),  # beyond a right angle nothing is said
        (3.0, 1.0, 0.0),
        (0.1, 0.0, 0.0),
    ],
)
def test_how_parallel_gradients_are(second, shortest, limit):
    theorem = GradientCollinearity("here", told(0), told(1), second, shortest, 3)
    assert theorem.limit().value == pytest.approx(limit, abs=1e-15)
    if limit:
        flips(theorem, "cosine", limit)


def test_how_parallel_gradients_are_needs_one_direction_and_a_pair():
    theorem = GradientCollinearity("here", told(1), told(1), 0.0, 1.0, 1)
    assert theorem.check().verdict is not Verdict.INAPPLICABLE
    assert replace(theorem, rank=told(1 + PART)).check().verdict is Verdict.INAPPLICABLE
    assert replace(theorem, pairs=0).check().verdict is Verdict.INAPPLICABLE


def test_the_rank_that_is_compared_counts_directions_above_rounding():
    found = at_input(RankParticipation, torch.diag(torch.tensor([3.0, 2.0, 0.0, 0.0])))
    assert (found.rank.low, found.rank.value, found.rank.high) == (2, 2, 4)
    found = at_input(RankParticipation, torch.diag(torch.tensor([3.0, 2.0, 1.0, 0.0])))
    assert (found.rank.low, found.rank.value) == (3, 3)
