import math

import pytest
import torch
from scipy import integrate

from sigmascope.linalg.random_matrix import (
    EdelmanCondition,
    MarchenkoPastur,
    shifted_limits,
    singular_edge,
    symmetric_edge,
)


def gaussian(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("ratio", [0.2, 0.9, 1.0, 1.6, 4.0])
@pytest.mark.parametrize("share", [0.01, 0.4, 0.95])
def test_marchenko_pastur_distribution_is_the_integral_of_its_density(ratio, share):
    law = MarchenkoPastur(ratio, 1.7)
    low, high = law.support
    x = low + share * (high - low)
    area = integrate.quad(law.pdf, low, x, limit=300)[0]
    assert law.cdf(x) == pytest.approx(law.at_zero + area, abs=1e-7)


def test_marchenko_pastur_quantiles_and_ends():
    law = MarchenkoPastur(2.0)
    assert law.quantile(0.3) == 0
    assert law.cdf(law.quantile(0.8)) == pytest.approx(0.8, abs=1e-12)
    assert (law.cdf(-1), law.cdf(0), law.cdf(100)) == (0, 0.5, 1)
    assert law.pdf(0) == law.pdf(100) == 0


def test_marchenko_pastur_fits_random_matrices_and_not_others():
    X = gaussian(400, 200, seed=1)
    law = MarchenkoPastur(2.0)
    assert law.distance(torch.linalg.eigvalsh(X @ X.T / 200).clamp(min=0)) < 0.02
    spiked = X * torch.linspace(0.2, 2, 400)[:, None]
    assert law.distance(torch.linalg.eigvalsh(spiked @ spiked.T / 200)) > 0.08


def test_distance_of_a_point_mass():
    law = MarchenkoPastur(0.5)
    x = law.quantile(0.25)
    assert law.distance(torch.tensor([x, x])) == pytest.approx(0.75)


# mean over the draws, with its error, at sizes of the reference table 6.1
@pytest.mark.parametrize("n", [5, 10, 25, 50])
def test_symmetric_edge_is_right_at_small_sizes(n):
    K = gaussian(4000, n, n, seed=n)
    top = torch.linalg.eigvalsh(K + K.mT)[:, -1]
    error = top.std().item() / math.sqrt(len(top))
    law = symmetric_edge(n)
    assert top.mean().item() == pytest.approx(law.mean, abs=3.5 * error + 0.05 * law.scale)
    assert (top > law.quantile(0.9)).double().mean().item() == pytest.approx(0.1, abs=0.025)


def test_singular_edge_is_right():
    K = gaussian(1500, 50, 50, seed=3)
    top = torch.linalg.matrix_norm(K, 2).square()
    law = singular_edge(50)
    share = (top <= law.quantile(0.9)).double().mean().item()
    assert share == pytest.approx(0.9, abs=0.03)
    assert law.tail(law.quantile(0.9)) == pytest.approx(0.1)
    assert law.pdf(law.centre) > 0


def test_edelman_law_is_its_own_density_and_quantile():
    law = EdelmanCondition()
    area = integrate.quad(law.pdf, 0, 5)[0]
    assert area == pytest.approx(law.cdf(5), abs=1e-8)
    assert law.cdf(law.quantile(0.37)) == pytest.approx(0.37)
    assert law.cdf(0) == law.pdf(0) == 0


def test_limits_of_the_reference_table():
    for r, top, bottom, kappa in (
        (1.5, 1.3462, 0.6818, 1.9743),
        (2, 1.2574, 0.7583, 1.6580),
        (3, 1.1700, 0.8370, 1.3979),
    ):
        found = shifted_limits(1 / (r * math.sqrt(8)))
        assert found == pytest.approx((top, bottom), abs=5e-5)
        assert found[0] / found[1] == pytest.approx(kappa, abs=1e-4)
    assert shifted_limits(0) == (1, 1)


def test_limits_are_those_of_large_matrices():
    W = gaussian(400, 400, seed=5) * 0.3 / 20
    sigma = torch.linalg.svdvals(W + torch.eye(400))
    top, bottom = shifted_limits(0.3)
    assert sigma[0].item() == pytest.approx(top, abs=0.02)
    assert sigma[-1].item() == pytest.approx(bottom, abs=0.02)


def test_what_cannot_be_a_law_is_refused():
    with pytest.raises(ValueError, match="`ratio` must be positive"):
        MarchenkoPastur(0.0)
    with pytest.raises(ValueError, match="`spread` must be in"):
        shifted_limits(1.0)
    with pytest.raises(ValueError, match="`n` must be 2 or more"):
        symmetric_edge(1)


def test_edges_of_gaussian_matrices_by_hand():
    """Johnstone's centre and scale at n = 2, and `√(8n - 4)`, `√2 (n - 1/2)^(-1/6)`."""
    found = singular_edge(2)
    root = 1 + math.sqrt(2)
    assert found.centre == pytest.approx(root**2)
    assert found.scale == pytest.approx(root * (1 + 1 / math.sqrt(2)) ** (1 / 3))
    both = symmetric_edge(5)
    assert (both.centre, both.scale) == pytest.approx((6, math.sqrt(2) * 4.5 ** (-1 / 6)))
