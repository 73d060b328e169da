import math

import pytest
import torch
from zoo import MATRICES, fresh

from sigmascope.linalg.krylov.operators import Map, Operator, energy_of, space


@pytest.mark.parametrize(
    "A", [torch.zeros(20, 12), torch.ones(20, 12), torch.eye(12), torch.diag(torch.ones(11), 1)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_basis_is_orthonormal_where_products_leave_nothing_new(A, dtype):
    Q, Y = space(Map.of(A.to(dtype)), 2, 6, fresh())
    eps = torch.finfo(dtype).eps
    assert Q.shape == (12, 12)
    assert (Q.mT @ Q - torch.eye(12)).abs().max() < 20 * eps
    torch.testing.assert_close(Y, A.to(dtype) @ Q, atol=20 * eps, rtol=0)


def test_the_smaller_side_is_multiplied_first():
    A = torch.randn(3, 8, generator=fresh(), dtype=torch.float64)
    for map_ in (Map.of(A), Map.of(Operator.of(A))):
        assert map_.turned
        assert map_.shape == (8, 3)
        assert map_.asked == (3, 8)
        torch.testing.assert_close(map_.there(torch.eye(3).double()), A.mT)
        torch.testing.assert_close(map_.back(torch.eye(8).double()), A)


def test_an_energy_in_the_unit_of_the_products():
    A = MATRICES["float64 at 1e200"]
    map_ = Map.of(A)
    own = map_.energy_over(None, 0)
    assert own == pytest.approx(float((A / 2.0**map_.power).square().sum()), rel=1e-12)
    assert map_.energy_over(None, 3) == pytest.approx(own / 64, rel=1e-15)
    assert map_.energy_over(math.inf, 3) == math.inf
    assert Map.of(Operator.of(A)).energy_over(None, 0) is None
    assert Map.of(Operator.of(A)).energy_over(8.0, 1) == 2.0


def test_an_energy_is_at_least_the_sum_of_squares():
    A = torch.full((3000, 7), 0.1)
    exact = 21000 * float(A[0, 0]) ** 2
    assert exact < float(energy_of(A)) < exact * (1 + 1e-11)
