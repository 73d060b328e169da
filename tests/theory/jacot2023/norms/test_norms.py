"""What the norm of the parameters must be at least."""

import math

import pytest
import torch

from sigmascope.probes.structure import Stack
from sigmascope.theory import jacot2023
from sigmascope.theory.jacot2023 import JacobianCost, JacobianRank, norms
from sigmascope.theory.jacot2023.facts import log_volume, singular_values
from tests.theory.jacot2023.stacks import GOOD, chain, points
from tests.theory.jacot2023.units import at, sides


@pytest.mark.usefixtures("as_users_see_it")
def test_truncated_ranks_hold_too():
    for _, point, _ in points():
        s, depth = singular_values(point.spectrum), point.stack.depth
        for k in range(1, len(s) + 1):
            frames = jacot2023.bottleneck_frames(point, k)
            assert frames.distance.low <= frames.bound.high
            assert point.stack.weight_norm >= (k * depth + 2 * log_volume(s[:k])).low


def test_frames_are_orthonormal_and_the_printed_ones_violate_the_bound():
    for _, point, _ in points(count=40):
        found = jacot2023.bottleneck_frames(point)
        for frame in (*found.into, *found.out):
            eye = torch.eye(frame.shape[1], dtype=torch.float64)
            assert torch.allclose(frame.mT @ frame, eye, atol=1e-9)
    # linear, L = 2, unit W_1 = u and W_2 = v' at an angle of .5
    u = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    v = torch.tensor([[math.cos(0.5), math.sin(0.5)]], dtype=torch.float64)
    zeros = (torch.zeros(2).double(), torch.zeros(1).double())
    point = Stack(("a", "b"), (u, v), zeros, 1.0, False).at(torch.ones(1).double())
    bound = jacot2023.bottleneck_frames(point).bound.value
    assert bound == pytest.approx(0.2612, abs=1e-4)
    assert jacot2023.BottleneckFrames("here", point).check().verdict in GOOD
    printed = 2 * (1 - math.cos(0.5)) * 2  # each W_l against the frames of its printed projection
    assert pytest.approx(printed, abs=1e-3) == 0.4897
    assert printed > bound


def test_the_limit_of_frames_holds_for_whatever_directions_they_start_from():
    """Where rounding turns the first right singular vector, `|Jf V|` takes the place of `|Jf|`."""
    zeros = (torch.zeros(2).double(), torch.zeros(2).double())
    layers = torch.diag(torch.tensor([1.0, 0.25]).double()), torch.eye(2).double()
    point = Stack(("a", "b"), layers, zeros, 1.0, False).at(torch.ones(2).double())
    s = singular_values(point.spectrum)[:1]
    for angle in (0.0, 1e-3, 0.5):
        V = torch.tensor([[math.cos(angle)], [math.sin(angle)]], dtype=torch.float64)
        found = norms._bound(point, s, V)
        exact = 1 + 1 / 16 + 2 - 2  # less 2 log 1
        started = exact - 2 * math.log(math.hypot(math.cos(angle), math.sin(angle) / 4))
        assert found.low <= exact == pytest.approx(found.value)
        assert started <= found.high <= started + 1e-12


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("k", [0, 2, -1])
def test_more_or_fewer_frames_than_there_are_directions_are_refused(k):
    point = chain(1.0, 1.0).at(torch.ones(1).double())
    assert len(jacot2023.bottleneck_frames(point, 1).into) == 2
    with pytest.raises(ValueError, match=f"between 1 and the rank 1 of the Jacobian here, got {k}"):
        jacot2023.bottleneck_frames(point, k)


def test_what_a_jacobian_costs():
    assert sides(JacobianCost, at(1.0, 2.0, 3.0)) == pytest.approx((13, 2 * 6))  # L s^{2/L}
    assert sides(JacobianRank, at(1.0, 2.0, 3.0)) == pytest.approx((13, 2 + 2 * math.log(6)))
    assert sides(JacobianCost, at(1.0, 1.0, 2.0, 4.0)) == pytest.approx((21, 3 * 8 ** (2 / 3)))
