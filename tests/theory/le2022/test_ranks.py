import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from torch import nn

from sigmascope.core.records import Estimate
from sigmascope.theory import le2022
from sigmascope.theory.le2022.ranks import InnerLayer, RankOneBound
from tests.theory.le2022.networks import draw


def test_the_factor_where_convolutions_meet_dense_layers_is_needed():
    """Two channels, kernel I_2, last row I_2: balanced, and the ratio is exactly 1/2."""
    eye = torch.eye(2, dtype=torch.float64)
    layer = le2022.InnerLayer("conv", eye, eye, copies=1)
    (bound,) = le2022.rank_one_bound([layer], eye.reshape(1, 4))
    assert bound.ratio == pytest.approx(0.5)
    assert (2, pytest.approx(0)) == (bound.S, bound.D.value)
    assert bound.least == pytest.approx(0.5)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("layers", "row", "says"),
    [([(5, 4), (6, 6)], (1, 6), "must read its 5 units"), ([(5, 4)], (2, 5), "one output")],
)
def test_layers_that_do_not_fit_and_several_outputs_are_refused(layers, row, says):
    layers = [InnerLayer("a", *draw(0, s, s)) for s in layers]
    with pytest.raises(ValueError, match=says):
        le2022.rank_one_bound(layers, *draw(1, row))


def bound(frobenius, spectral, S=1.0, D=1.0):
    return RankOneBound(
        "layer", *map(Estimate.exactly, (frobenius, spectral)), S, Estimate.exactly(D)
    )


def test_how_near_to_rank_one_a_layer_is():
    found = bound(10.0, 8.0, S=1.0, D=2.0)
    assert found.excess.value == pytest.approx(2)
    assert found.ratio == pytest.approx(0.8)
    assert found.least == pytest.approx(0.8)  # 1 - 2/10
    assert bound(10.0, 8.0, S=2.0, D=2.0).least == pytest.approx(0.4)
    assert found.size_needed(0.9) == pytest.approx(20)  # 2 / (1 - 0.9)
    assert found.size_needed(1.0) == math.inf
    large = replace(found, frobenius=Estimate.exactly(found.size_needed(0.99)))
    assert large.least == pytest.approx(0.99)
    nothing = bound(0.0, 0.0)
    assert (nothing.ratio, nothing.least) == (1.0, -math.inf)


def test_the_constant_of_a_linear_tail_by_hand():
    """`D = ‖W‖² - ‖w‖² + λ₁(w wᵀ - W Wᵀ)`: W = diag(2, 1) and w = (3, 0) give 5 - 9 + 5 = 1."""
    W, w = torch.diag(torch.tensor([2.0, 1.0])).double(), torch.tensor([[3.0, 0.0]]).double()
    (found,) = le2022.rank_one_bound([InnerLayer("W", W, W)], w)
    assert found.D.value == pytest.approx(1)
    assert (found.S, found.excess.value) == (1, pytest.approx(1))
    assert found.frobenius.value == pytest.approx(5)
    # one layer further down: its own difference of Gram matrices, and that of those above
    V = torch.diag(torch.tensor([1.0, 3.0])).double()
    first, second = le2022.rank_one_bound([InnerLayer("V", V, V), InnerLayer("W", W, W)], w)
    assert second.D.value == pytest.approx(1)
    # ‖V‖² - ‖w‖² + 5 + λ₁(WᵀW - VVᵀ) = 10 - 9 + 5 + 3
    assert first.D.value == pytest.approx(9)


@pytest.mark.parametrize("n", [9, 900, 30_000])
def test_what_cancels_in_the_constant_of_a_tail_is_within_its_interval(n):
    """`D = ‖W‖² - w² + (w² - ‖W‖²)` is 0 of one unit, whatever is added up, and little more."""
    W, w = torch.full((1, n), 0.1).double(), torch.tensor([[0.1 * n**0.5]]).double()
    (found,) = le2022.rank_one_bound([InnerLayer("W", W, W)], w)
    assert found.D.low <= 0 <= found.D.high
    assert found.D.high - found.D.low < 8 * (n + 16) * 2.0**-52 * 0.02 * n
    # a residual block of one unit, and what it reads beside what it writes
    layer = InnerLayer("block", w, W.mT, inside=w @ w.mT - W @ W.mT)
    exact = max(Fraction(float(w)) ** 2 - n * Fraction(float(W[0, 0])) ** 2, 0)
    cost, over = layer.switch(2)
    assert cost == 2
    assert Fraction(over.low) <= exact / 2 <= Fraction(over.high)
    assert over.high - over.low < 2 * (n + 32) * 2.0**-52 * 0.02 * n


def test_signs_and_patterns_are_followed():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    record = le2022.SignRecord()
    first = record.look(net, x, step=0)
    assert set(first) == {"0.weight", "2.weight", "relu #1"}
    assert {s.changed for s in first.values()} == {0}
    with torch.no_grad():
        net[0].weight[0] *= -1
        net[0].bias[0] *= -1
    second = record.look(net, x, step=10)
    assert second["0.weight"] == le2022.Stability(0.25, 0.25, 10)
    assert second["relu #1"].changed == pytest.approx(0.25)
    assert second["2.weight"] == le2022.Stability(0, 0, 0)
    third = record.look(net, x, step=20)
    assert third["0.weight"] == le2022.Stability(0.25, 0, 10)
