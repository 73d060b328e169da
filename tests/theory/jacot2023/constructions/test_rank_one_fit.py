"""What a function of one dimension costs that takes many values."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.theory.jacot2023.constructions import rank_one_fit_scaling


def drawn(count, k, seed=0):
    return torch.rand(count, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_holds_the_shortest_path(seed):
    Y = drawn(7, 2, seed)
    d = torch.cdist(Y, Y)
    exact = min(sum(float(d[a, b]) for a, b in pairwise(p)) for p in permutations(range(7)))
    found = rank_one_fit_scaling(Y)
    assert found.length.low <= exact * (1 + 1e-9)
    assert found.length.high >= exact * (1 - 1e-9)
    assert found.length.high < 1.2 * exact
    assert found.correction.value == pytest.approx(2 * math.log(found.length.value))
    assert found.tangent.value == pytest.approx(found.length.value**2)


@pytest.mark.parametrize(("k", "theory"), [(2, 1 / 2), (3, 2 / 3)])
def test_length_grows_with_the_exponent_of_theorem_10(k, theory):
    counts = (100, 200, 400)
    ends = ("low", "high")
    logs = {
        end: [
            math.log(
                sum(getattr(rank_one_fit_scaling(drawn(n, k, s)).length, end) for s in range(2))
            )
            for n in counts
        ]
        for end in ends
    }
    for end in ends:
        slope = np.polyfit(np.log(counts), logs[end], 1)[0]
        assert slope == pytest.approx(theory, abs=0.03)


def test_points_on_a_line_cost_their_span():
    found = rank_one_fit_scaling(torch.linspace(0, 3, 40, dtype=torch.float64)[:, None])
    assert found.length.value == pytest.approx(3)


@pytest.mark.usefixtures("as_users_see_it")
def test_too_few_points_are_refused():
    with pytest.raises(Refusal, match="three or more that differ"):
        rank_one_fit_scaling(torch.zeros(5, 2, dtype=torch.float64))
