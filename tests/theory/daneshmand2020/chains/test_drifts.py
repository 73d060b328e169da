"""δ_F against all sign matrices, which leaves no sampling error, and against sampled layers."""

import itertools
from dataclasses import replace

import pytest
import torch

from sigmascope.records import Estimate, Verdict
from sigmascope.theory.daneshmand2020 import LayerDrift, drift, drift_of_spectrum, layer_growth
from tests.theory.daneshmand2020.told import PART, told


def correlation(d, seed=0, samples=None):
    g = torch.Generator().manual_seed(seed)
    H = torch.randn(d, samples or d, generator=g, dtype=torch.float64)
    H = H / H.norm(dim=1, keepdim=True)
    return H @ H.mT


def over_all_signs(M, gamma):
    """(E ‖M₊‖² - ‖M‖²) / gamma² over every Rademacher matrix."""
    d = len(M)
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=d * d)), dtype=torch.float64)
    lam, U = torch.linalg.eigh(M)
    R = U * lam.clamp(min=0).sqrt()
    H = R + gamma * signs.reshape(-1, d, d) @ R
    H = H / H.norm(dim=-1, keepdim=True)
    size = (H @ H.mT).square().sum((1, 2))
    return float((size - M.square().sum()).mean()) / gamma**2


@pytest.mark.parametrize("d", [2, 3])
def test_the_remainder_is_of_second_order(d):
    M = correlation(d, seed=d)
    exact = drift(M).value
    errors = [(over_all_signs(M, gamma) - exact) / gamma**2 for gamma in (0.04, 0.02, 0.01)]
    assert errors[1] == pytest.approx(errors[2], rel=0.02)  # a constant, so no term of first order
    assert errors[0] == pytest.approx(errors[2], rel=0.1)


def test_example_9_with_the_factor_it_lacks():
    """M = e I + (1 - e) 11ᵀ: δ_F = -4 e d (d - 1)(2d - 1) to first order in e."""
    d, e = 4, 1e-5
    M = e * torch.eye(d, dtype=torch.float64) + (1 - e)
    assert drift(M).value == pytest.approx(-4 * e * d * (d - 1) * (2 * d - 1), rel=1e-3)


def test_growth_of_example_9_by_enumeration():
    """At d = 4 and gamma .02, gamma² times the ratio is -337.4 gamma⁴."""
    gamma = 0.02
    M = gamma**2 * torch.eye(4, dtype=torch.float64) + (1 - gamma**2)
    grown = over_all_signs(M, gamma) * gamma**2
    assert grown / gamma**4 == pytest.approx(-337.4, abs=0.5)


def test_circulant_matrices_need_their_eigenvalues_only():
    for seed in range(20):
        g = torch.Generator().manual_seed(seed)
        c = torch.randn(7, generator=g, dtype=torch.float64)
        C = torch.stack([c.roll(i) for i in range(7)])
        M = C @ C.mT / c.square().sum()
        direct, short = drift(M), drift_of_spectrum(torch.linalg.eigvalsh(M))
        assert short.value == pytest.approx(direct.value, rel=1e-11, abs=1e-10)


@pytest.mark.parametrize("weights", ["gaussian", "uniform"])
def test_sampled_layers_grow_by_the_drift(weights):
    M, g = correlation(6, samples=6), torch.Generator().manual_seed(1)
    theorem = LayerDrift.of(M, 0.01, weights=weights, generator=g)
    assert theorem.check().verdict in {Verdict.HOLDS, Verdict.CONSISTENT}
    error = theorem.growth.high - theorem.growth.value
    assert abs(theorem.growth.value - theorem.drift.value) <= 2 * error + 0.05 * abs(
        theorem.drift.value
    )


def test_layer_drift_has_teeth():
    theorem = LayerDrift.of(correlation(4), 0.02, generator=torch.Generator().manual_seed(2))
    broken = replace(theorem, drift=Estimate.exactly(theorem.drift.value + 40))
    assert broken.check().verdict == Verdict.VIOLATED


@pytest.mark.parametrize("change", [{"gamma": 0.5}, {"weights": "asymmetric"}])
def test_layer_drift_declines(change):
    theorem = LayerDrift.of(correlation(4), 0.02, generator=torch.Generator().manual_seed(2))
    assert replace(theorem, **change).check().verdict == Verdict.INAPPLICABLE


def test_what_is_not_normalised_is_refused(as_users_see_it):
    with pytest.raises(ValueError, match="must have unit diagonal"):
        drift(2 * torch.eye(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="finite symmetric"):
        layer_growth(torch.ones(2, 3, dtype=torch.float64), 0.1)
    with pytest.raises(ValueError, match="add up to their number"):
        drift_of_spectrum(torch.ones(3, dtype=torch.float64) * 2)


def test_the_drift_of_two_correlated_rows():
    """`M = [[1, c], [c, 1]]`: ‖M‖² = 2 + 2c², Tr M³ = 2 + 6c², (M²)ᵢᵢ = 1 + c²."""
    c = 0.5
    expected = 8 - 2 * (2 + 2 * c**2) - 8 * (2 + 6 * c**2) + 16 * (1 + c**2) ** 2
    M = torch.tensor([[1.0, c], [c, 1.0]])
    assert drift(M).value == pytest.approx(expected)
    assert drift_of_spectrum(torch.tensor([1 + c, 1 - c])).value == pytest.approx(expected)
    with pytest.raises(ValueError, match="must add up to"):
        drift_of_spectrum(torch.tensor([1 + c, 1 - c + 1e-8], dtype=torch.float64))
    with pytest.raises(ValueError, match="unit diagonal"):
        drift(torch.diag(torch.tensor([1.0, 1 + 1e-8], dtype=torch.float64)))


@pytest.mark.parametrize(("slope", "size"), [(3.0, 16.0), (-40.0, 40.0)])
def test_how_far_growth_may_be_from_the_drift(slope, size):
    """`γ² d² max(|δ|, d²)` at γ = 1/10 and d = 4."""
    limit = 0.01 * 16 * size
    theorem = LayerDrift("one layer", told(0), told(slope), 0.1, 4, "gaussian")
    for sign in (1, -1):
        for factor, verdict in ((1 + PART, Verdict.VIOLATED), (1 - PART, Verdict.HOLDS)):
            moved = replace(theorem, growth=told(slope + sign * factor * limit))
            assert moved.check().verdict is verdict
    wide = Estimate(slope + 1, slope - 3, slope + 2, "told", 0.05)
    found = replace(theorem, growth=wide).measured()
    assert (found.value, found.low, found.high, found.risk) == pytest.approx((1, 0, 3, 0.05))


@pytest.mark.parametrize(
    ("gamma", "weights", "speaks"),
    [(0.25, "gaussian", True), (0.2501, "gaussian", False), (0.1, "asymmetric", False)],
)
def test_where_the_drift_of_a_layer_is_known(gamma, weights, speaks):
    found = LayerDrift("one layer", told(0), told(0), gamma, 4, weights).check()
    assert (found.verdict is not Verdict.INAPPLICABLE) is speaks
