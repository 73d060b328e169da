"""The reference tables at full size (by hand)."""

import math

import pytest
import torch
from torch.nn import functional as F

from sigmascope import linalg
from sigmascope.theory.riedi2022 import loss_curvature
from sigmascope.theory.riedi2022.random_weights import EdelmanLaw
from tests.theory.riedi2022.matrices import gaussian

pytestmark = pytest.mark.slow

# n, draws: mean of Z_n, of Y_n, of Z'_n, each with its standard error, and three deviations
TABLE = {
    (5, 40_000): ((-2.2249, 0.0041), (-1.0345, 0.0024), (-1.255, 0.003), (1.832, 1.073, 1.273)),
    (10, 40_000): ((-2.0979, 0.0057), (-1.1084, 0.0036), (-1.239, 0.004), (1.815, 1.150, 1.272)),
    (25, 20_000): ((-1.9915, 0.0090), (-1.1584, 0.0060), (-1.228, 0.006), (1.794, 1.203, 1.266)),
    (50, 10_000): ((-1.9178, 0.0126), (-1.1736, 0.0087), (-1.215, 0.009), (1.784, 1.236, 1.274)),
    (100, 4000): ((-1.847, 0.020), (-1.195, 0.014), (-1.195, 0.016), (1.787, 1.240, 1.274)),
}


@pytest.mark.parametrize(("n", "draws"), TABLE)
def test_table_6_1(n, draws):
    K = gaussian(draws, n, n, seed=31 * n)
    edge = torch.linalg.eigvalsh(K + K.mT)[:, -1]
    top_sq = torch.linalg.eigvalsh(K @ K.mT)[:, -1]
    symmetric, singular = (
        linalg.random_matrix.symmetric_edge(n),
        linalg.random_matrix.singular_edge(n),
    )
    samples = (
        (edge - math.sqrt(8 * n)) * n ** (1 / 6),
        (top_sq - singular.centre) / singular.scale,
        (edge - symmetric.centre) / symmetric.scale,
    )
    *means, deviations = TABLE[n, draws]
    for values, (mean, error), deviation in zip(samples, means, deviations, strict=True):
        mine = values.std().item() / math.sqrt(draws)
        assert abs(values.mean().item() - mean) <= 3 * math.hypot(mine, error)
        assert values.std().item() == pytest.approx(deviation, rel=0.05)


# rho: quantities of the network of Fig. 8 as in the text, and with the skip around all of it
FIGURE_8 = {
    0.0: ((3.844, 8306, 9.184, 0.039), (3.844, 8306, 9.184, 0.039)),
    0.25: ((3.951, 5364, 8.779, 0.038), (3.890, 439, 6.250, 0.030)),
    0.5: ((4.116, 2908, 8.155, 0.037), (3.965, 221, 5.526, 0.029)),
    0.75: ((4.353, 2068, 7.839, 0.037), (4.054, 140, 5.102, 0.029)),
    1.0: ((4.674, 1690, 7.614, 0.036), (4.168, 102, 4.786, 0.028)),
}


@pytest.mark.parametrize("around", ["the first layer", "everything"])
def test_table_7(around):
    """A toy network of width 6: `f = D2 W2 (D1 W1 + rho Id) D0 W0 x` and its variant."""
    n, eta, draws = 6, 0.1, 2000
    W0, W1, W2 = (
        gaussian(draws, n, 2, seed=1),
        gaussian(draws, n, n, seed=2),
        gaussian(draws, n, n, seed=3),
    )
    b0, b1, b2 = (gaussian(draws, n, seed=4 + k) for k in range(3))
    x = gaussian(draws, 2, seed=7)
    slopes = lambda p: torch.where(p > 0, 1.0, eta)
    p0 = (W0 @ x[:, :, None])[:, :, 0] + b0
    z0, D0 = F.leaky_relu(p0, eta), slopes(p0)
    p1 = (W1 @ z0[:, :, None])[:, :, 0] + b1
    eye = torch.eye(n, dtype=torch.float64)
    for rho, tables in FIGURE_8.items():
        first = slopes(p1)[:, :, None] * W1
        if around == "the first layer":
            z1 = F.leaky_relu(p1, eta) + rho * z0
            p2 = (W2 @ z1[:, :, None])[:, :, 0] + b2
            M = slopes(p2)[:, :, None] * (W2 @ (first + rho * eye))
        else:
            p2 = (W2 @ F.leaky_relu(p1, eta)[:, :, None])[:, :, 0] + b2
            M = slopes(p2)[:, :, None] * (W2 @ first) + rho * eye
        s = torch.linalg.svdvals(M * D0[:, None])
        top, kappa, log, error = tables[around == "everything"]
        logs = (s[:, 0] / s[:, -1]).log()
        mine = logs.std().item() / math.sqrt(draws)
        assert abs(logs.mean().item() - log) <= 3 * math.hypot(mine, error)
        assert s[:, 0].median().item() == pytest.approx(top, rel=0.06)
        assert logs.median().item() == pytest.approx(math.log(kappa), abs=0.2)
        # the condition number of the quadratic form is that of the matrix, whatever is read
        one = loss_curvature([(M * D0[:, None])[0]], z0[:1])
        assert one.condition == pytest.approx((s[0, 0] / s[0, -1]).item(), rel=1e-6)


@pytest.mark.parametrize(("n", "distance"), [(5, 0.126), (10, 0.069), (25, 0.031), (50, 0.022)])
def test_edelmans_law_at_finite_sizes(n, distance):
    found = EdelmanLaw.of(list(gaussian(20_000, n, n, seed=n)))
    assert found.measured().value == pytest.approx(distance, abs=0.012)
