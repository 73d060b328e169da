import numpy as np
import pytest
from scipy import integrate

from sigmascope.linalg.random_matrix import TracyWidom

law = TracyWidom()


@pytest.mark.parametrize(
    ("x", "p"),
    # Bejan 2005, table of quantiles of order 1
    [(-3.8954, 0.01), (-3.1804, 0.05), (-1.2686, 0.5), (0.4501, 0.9), (0.9793, 0.95)],
)
def test_quantiles_known_from_tables(x, p):
    assert law.cdf(x) == pytest.approx(p, abs=2e-5)
    assert law.quantile(p) == pytest.approx(x, abs=1e-4)


def test_the_99_per_cent_point():
    assert law.cdf(2.0234) == pytest.approx(0.99, abs=1e-5)


def test_density_integrates_to_the_moments():
    nodes, weights = np.polynomial.legendre.leggauss(50)
    mass = [12 * w * law.pdf(12 * x) for x, w in zip(nodes, weights, strict=True)]
    moment = lambda k: sum(m * (12 * x) ** k for m, x in zip(mass, nodes, strict=True))
    assert moment(0) == pytest.approx(1, abs=1e-6)
    assert moment(1) == pytest.approx(law.mean, abs=1e-6)
    assert moment(2) - moment(1) ** 2 == pytest.approx(law.std**2, abs=1e-5)


@pytest.mark.parametrize("x", [-9.0, -5.0, -2.0, 0.0, 3.0])
def test_density_is_the_slope_of_the_distribution(x):
    h = 1e-4
    assert law.pdf(x) == pytest.approx((law.cdf(x + h) - law.cdf(x - h)) / (2 * h), abs=1e-8)


def test_quantiles_go_back_and_forth_to_a_millionth():
    for p in (1e-6, 0.001, 0.3, 0.7, 0.999, 1 - 1e-6):
        assert law.cdf(law.quantile(p)) == pytest.approx(p, abs=1e-10)


def test_the_right_tail_keeps_its_digits():
    # the trace of the kernel, half the integral of Ai from x on, is all that is left far out
    from scipy import special

    half = integrate.quad(lambda t: special.airy(t)[0], 8.0, 30)[0] / 2
    assert law.tail(8.0) == pytest.approx(half, rel=1e-4)
    assert law.tail(-20.0) == 1
    assert law.cdf(-20.0) == 0
    assert law.tail(20.0) == 0


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, float("nan")])
def test_quantiles_of_no_probability_are_refused(p):
    with pytest.raises(ValueError, match="`p` must be between 0 and 1"):
        law.quantile(p)
