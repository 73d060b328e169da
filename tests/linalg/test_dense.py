import pytest
import torch
from zoo import fresh

from sigmascope.linalg.dense import exact_values, gram_values, lower_gram, power_of_two


@pytest.mark.parametrize("shape", [(3, 700, 5), (2, 5, 300), (1, 1200, 130)])
def test_lower_gram_is_the_gram_matrix_across_panels_and_blocks(shape):
    X = torch.randn(shape, generator=fresh(), dtype=torch.float64)
    scale = torch.full((shape[0],), 4.0, dtype=torch.float64)
    torch.testing.assert_close(lower_gram(X, scale).tril(), (X.mT @ X / 16).tril())


@pytest.mark.parametrize("n", [4, 16, 64, 256])
@pytest.mark.parametrize("values", [exact_values, gram_values])
def test_ends_enclose_values_known_in_closed_form(n, values):
    H = torch.ones(1, 1, dtype=torch.float64)
    while len(H) < n:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    d = torch.arange(n, 0, -1, dtype=torch.float64)  # integers: the product is exact
    _, low, high = values((H * d)[None])
    true = n**0.5 * d
    assert (low[0] <= true).all()
    assert (true <= high[0]).all()


@pytest.mark.parametrize("k", [10, 3000])
def test_ends_enclose_where_all_roundings_go_one_way(k):
    A = torch.full((1, k, 12), 0.1, dtype=torch.float64)
    true = (12 * k) ** 0.5 * 0.1
    _, low, high = gram_values(A)
    assert low[0, 0] <= true <= high[0, 0]
    assert low[0, 1] == 0
    assert high[0, 1] < 1e-6 * true


def test_each_matrix_of_a_stack_has_its_own_scale():
    A = torch.randn(4, 6, 3, generator=fresh(), dtype=torch.float64)
    scales = torch.tensor([1e-200, 1.0, 0.0, 1e200], dtype=torch.float64)
    for values in (exact_values, gram_values):
        sigma, low, high = values(A * scales[:, None, None])
        for i in range(4):
            torch.testing.assert_close(sigma[i], scales[i] * values(A[i : i + 1])[0][0])
        assert (sigma[2] == 0).all()
        assert (high[2] == 0).all()
        assert (low <= sigma).all()


@pytest.mark.parametrize(("x", "power"), [(1.0, 1.0), (3.9, 2.0), (0.3, 0.25), (5e-324, 5e-324)])
def test_power_of_two_is_at_or_below(x, power):
    assert power_of_two(x) == power
