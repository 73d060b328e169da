import math

import pytest
import torch
from scipy import stats

from sigmascope.linalg.krylov import (
    trace_of_forms,
)
from sigmascope.linalg.krylov.traces import Chances


def test_what_one_random_form_proves_of_a_trace():
    """`tr B ≥ xᵀBx / q(1 - ρ/6)` and `≤ xᵀBx / q(ρ/6)`, quantiles of χ² of one degree."""
    found = trace_of_forms(torch.tensor([[3.0]], dtype=torch.float64), how="told", risk=0.06)
    assert found.value == 3
    assert found.low == pytest.approx(3 / stats.chi2.isf(0.01, 1))
    assert found.high == pytest.approx(3 / stats.chi2.ppf(0.01, 1))


def test_how_far_the_mean_of_forms_strays():
    """Laurent & Massart 2000, Lemma 1: `2 ‖A‖_F √(x/k) + 2 ‖A‖ x/k`, but for `2 exp(-x)`.

    x = 2, k = 8, `‖A‖_F` = 3 and `‖A‖` = 2 give 3 + 1; a norm is at most that of Frobenius.
    """
    chances = Chances(8, 2 * math.exp(-2))
    assert chances.deviation(9.0, 4.0) == pytest.approx(4)
    assert chances.deviation(9.0, 1e9) == pytest.approx(3 + 1.5)
