import torch

from sigmascope.linalg.krylov import Operator


def test_of_and_dense_are_inverse():
    A = torch.arange(6.0).reshape(2, 3)
    operator = Operator.of(A)
    assert operator.shape == (2, 3)
    assert (operator.dense() == A).all()


def test_the_adjoint_is_the_adjoint():
    A = torch.randn(4, 7, dtype=torch.float64)
    x, y = torch.randn(7, 2, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
    operator = Operator.of(A)
    left, right = (operator.apply(x) * y).sum(), (x * operator.adjoint(y)).sum()
    torch.testing.assert_close(left, right)
