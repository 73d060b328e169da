import math

import pytest
import torch
from zoo import fresh

from sigmascope.linalg.spectra import principal_angles

E = torch.eye(6, dtype=torch.float64)


@pytest.mark.parametrize("theta", [0, 1e-12, 1e-6, 0.3, 0.8, 1.5, math.pi / 2 - 1e-8, math.pi / 2])
def test_recovers_a_known_angle(theta):
    Y = torch.stack([E[0], math.cos(theta) * E[1] + math.sin(theta) * E[2]], dim=1)
    angles = principal_angles(E[:, :2], Y)
    assert angles.tolist() == pytest.approx([0, theta], rel=1e-9, abs=1e-15)


def test_is_symmetric_and_takes_the_smaller_dimension():
    X, Y = (torch.randn(9, k, generator=fresh(k)) for k in (4, 2))
    angles = principal_angles(X, Y)
    torch.testing.assert_close(angles, principal_angles(Y, X))
    assert angles.shape == (2,)
    assert (angles.diff() >= 0).all()
    assert ((angles >= 0) & (angles <= math.pi / 2)).all()


def test_depends_on_the_spaces_alone():
    X, Y = (torch.randn(9, 3, generator=fresh(k), dtype=torch.float64) for k in (1, 2))
    mix = torch.randn(3, 3, generator=fresh(3), dtype=torch.float64)
    for Z in (X @ mix, 1e-200 * X, X * torch.tensor([1e-30, 1.0, 1e30]).double(), X.flip(1)):
        torch.testing.assert_close(principal_angles(Z, Y), principal_angles(X, Y))
    Q = torch.linalg.qr(torch.randn(9, 9, generator=fresh(4), dtype=torch.float64))[0]
    torch.testing.assert_close(principal_angles(Q @ X, Q @ Y), principal_angles(X, Y))
    assert principal_angles(X, X).amax() < 1e-14


@pytest.mark.parametrize("X", [torch.ones(6, 2), torch.zeros(6, 1), torch.randn(2, 3)])
def test_refuses_a_deficient_basis(X):
    with pytest.raises(ValueError, match="`Y` must be of full column rank, got shape"):
        principal_angles(torch.eye(len(X))[:, :1], X)
