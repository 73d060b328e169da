import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from sigmascope.core.records import Verdict
from sigmascope.models import Subject
from sigmascope.models.networks import mlp
from sigmascope.models.structure import Stack
from sigmascope.theory import jacot2023
from sigmascope.theory.jacot2023 import (
    JacobianCost,
    JacobianRank,
    JacobianVariation,
    TangentOnSegments,
    jacobian_variation_bound,
    norms,
)
from sigmascope.theory.jacot2023.facts import log_volume, singular_values
from tests.theory.jacot2023.stacks import COUNT, GOOD, at, points, sides, unbiased


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
    point = unbiased(u, v).at(torch.ones(1).double())
    bound = jacot2023.bottleneck_frames(point).bound.value
    assert bound == pytest.approx(0.2612, abs=1e-4)
    assert jacot2023.BottleneckFrames("here", point).check().verdict in GOOD
    printed = 2 * (1 - math.cos(0.5)) * 2  # each W_l against the frames of its printed projection
    assert pytest.approx(printed, abs=1e-3) == 0.4897
    assert printed > bound


def test_below_zero_one_frame_a_layer_may_not_do_and_two_do():
    """`W_1 = (1, -1)/√2`, `W_2 = (1, 1)/√2` at a = -0.9: `|Jf|` is 0.95, and V_0, V_2 are ±1.

    So the sum is least where V_1 is along `W_1 ± W_2ᵀ`.
    """
    root = math.sqrt(0.5)
    first = torch.tensor([[root], [-root]])
    last = torch.tensor([[root, root]])
    point = unbiased(first, last, slope=-0.9).at(torch.ones(1).double())
    assert float(point.jacobian) == pytest.approx(0.95)
    bound = -2 * math.log(0.95)
    sums = [first + sign * last.mT for sign in (1, -1)]
    one = min(2 + 2 - 2 * float(torch.linalg.vector_norm(both)) for both in sums)
    assert one == pytest.approx(4 - 2 * math.sqrt(2)) == pytest.approx(1.172, abs=1e-3)
    angles = torch.linspace(0, 2 * math.pi, 721).double()
    for s, t in ((1, 1), (1, -1)):
        V = torch.stack([angles.cos(), angles.sin()])
        tried = (first.double() - s * V).square().sum(0) + (last.mT.double() - t * V).square().sum(
            0
        )
        assert float(tried.min()) >= one - 1e-6
    assert one > 10 * bound
    two = jacot2023.bottleneck_frames(point)
    assert two.bound.value == pytest.approx(bound) == pytest.approx(0.103, abs=1e-3)
    assert two.distance.value < bound


def test_the_limit_of_frames_holds_for_whatever_directions_they_start_from():
    """Where rounding turns the first right singular vector, `|Jf V|` takes the place of `|Jf|`."""
    layers = torch.diag(torch.tensor([1.0, 0.25])), torch.eye(2)
    point = unbiased(*layers).at(torch.ones(2).double())
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
    point = at(1.0, 1.0, 1.0)
    assert len(jacot2023.bottleneck_frames(point, 1).into) == 2
    with pytest.raises(ValueError, match=f"between 1 and the rank 1 of the Jacobian here, got {k}"):
        jacot2023.bottleneck_frames(point, k)


def test_what_a_jacobian_costs():
    assert sides(JacobianCost, at(1.0, 2.0, 3.0)) == pytest.approx((13, 2 * 6))  # L s^{2/L}
    assert sides(JacobianRank, at(1.0, 2.0, 3.0)) == pytest.approx((13, 2 + 2 * math.log(6)))
    assert sides(JacobianCost, at(1.0, 1.0, 2.0, 4.0)) == pytest.approx((21, 3 * 8 ** (2 / 3)))


THEOREM = jacot2023.ProductCorrection


def linear(seed, *, depth=3, width=4):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    weights = tuple(draw(width, width) for _ in range(depth))
    return Stack(tuple("abcdefgh"[:depth]), weights, (draw(width),) * depth, 1.0), draw(1, width)


@pytest.mark.usefixtures("as_users_see_it")
def test_it_holds_on_random_networks():
    for seed in range(200):
        stack, rows = linear(seed, depth=2 + seed % 4, width=1 + seed % 5)
        (found,) = THEOREM.on(stack, rows)
        assert found.check().verdict in (Verdict.HOLDS, Verdict.CONSISTENT)


def test_it_has_teeth():
    """Commuting layers attain it; a product more spread by a part in a million violates it."""
    powers = (torch.diag(torch.tensor([3.0, 0.5]).double() ** p) for p in (1, 2, 0.3))
    (found,) = THEOREM.on(unbiased(*powers), torch.ones(1, 2).double())
    assert found.check().verdict == Verdict.CONSISTENT
    assert found.measured().value == pytest.approx(found.limit().value)
    for turn, verdict in ((1e-6, Verdict.VIOLATED), (-1e-6, Verdict.HOLDS)):
        point = replace(found.point)
        spread = torch.tensor([1 + turn, 1 / (1 + turn)], dtype=torch.float64)
        point.__dict__["jacobian"] = found.point.jacobian * spread
        point.__dict__["errors"] = found.point.errors
        assert THEOREM("network", point).check().verdict == verdict


def test_it_declines_where_first_corrections_do_not_add_up():
    """Of rank one everywhere, but most of what the first layer keeps the second one drops."""
    W1 = torch.tensor([[1.0], [0.0]])
    W2 = torch.tensor([[0.1, 0.99**0.5]], dtype=torch.float64)
    (found,) = THEOREM.on(unbiased(W1, W2), torch.ones(1, 1).double())
    assert found.measured().value == pytest.approx(math.sqrt(2) * math.log(10))
    check = found.check()
    assert check.verdict == Verdict.INAPPLICABLE
    assert "R1(fg)" in next(a.says for a in check.assumptions if a.met is False)


@pytest.mark.usefixtures("as_users_see_it")
def test_default_layers_with_a_wide_middle_are_not_violated():
    for seed in range(40):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = nn.Sequential(nn.Linear(3, 16), nn.Linear(16, 3))
        (found,) = THEOREM.facts(Subject(net, torch.ones(2, 3)))
        assert found.check().verdict == Verdict.INAPPLICABLE


def test_one_rank_in_a_wide_middle_cannot_be_told_to_add_up():
    """Isometries that fit: nothing refutes the sum of first corrections, no number proves it."""
    Q = torch.linalg.qr(torch.randn(6, 2, generator=torch.Generator().manual_seed(0)).double())[0]
    S = torch.diag(torch.tensor([2.0, 0.5]).double())
    (found,) = THEOREM.on(unbiased(Q @ S, S @ Q.mT), torch.ones(1, 2).double())
    check = found.check()
    assert [a.met for a in check.assumptions][-1] is None
    assert check.verdict == Verdict.CONSISTENT


def test_it_declines_where_ranks_differ():
    stack, rows = linear(0)
    thin = stack.weights[1].clone()
    thin[0] = thin[1]
    (found,) = THEOREM.on(replace(stack, weights=(stack.weights[0], thin, stack.weights[2])), rows)
    assert found.check().verdict == Verdict.INAPPLICABLE


def test_it_is_silent_on_networks_that_bend():
    net = mlp(inputs=4, outputs=2, depth=2, width=5, generator=torch.Generator().manual_seed(0))
    assert not list(THEOREM.facts(Subject(net, torch.randn(3, 4))))
    (declined,) = THEOREM.facts(
        Subject(nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 2)), torch.randn(3, 3))
    )
    assert declined.check().verdict == Verdict.INAPPLICABLE


def test_corrections_add_up_only_where_every_layer_in_between_is_as_wide_as_the_rank():
    """Widths 2 and 6 between: determinants multiply at the first, not for certain at the second."""
    eye = torch.eye(6, 2, dtype=torch.float64)
    S = torch.diag(torch.tensor([2.0, 0.5]).double())
    (found,) = THEOREM.on(unbiased(S, eye, eye.mT), torch.ones(1, 2).double())
    assert found.assumptions()[-1].met is None
    (sure,) = THEOREM.on(unbiased(S, S), torch.ones(1, 2).double())
    assert sure.assumptions()[-1].met is True
    # √(2 Σ log² s): of diag(4, 1/4) and twice diag(2, 1/2)
    assert sure.check().measured.value == pytest.approx(2 * math.log(4))
    assert sure.check().limit.value == pytest.approx(4 * math.log(2))


@pytest.mark.usefixtures("as_users_see_it")
def test_jacobians_that_differ_cost_their_difference():
    for _, p, q in points(0.0):
        found = jacot2023.JacobianVariation("here", p, "", q).check()
        assert found.verdict in GOOD, found


@pytest.mark.usefixtures("as_users_see_it")
def test_kernels_on_segments_without_kinks():
    held = 0
    for net, p, q in points(0.0, 3 * COUNT, width=4):
        near = net.at(p.x + 0.05 * (q.x - p.x))
        found = jacot2023.TangentOnSegments("here", p, "", near).check()
        assert found.verdict in (*GOOD, Verdict.INAPPLICABLE), found
        held += found.verdict in GOOD
    assert held >= COUNT


def test_what_a_change_of_the_jacobian_costs():
    """From 6 to 0: half of 12, and 6 over C² where C is the largest derivative, 6."""
    on, off = at(1.0, 2.0, 3.0), at(-1.0, 2.0, 3.0)
    assert sides(JacobianVariation, on, "", off) == pytest.approx((13, 6 + 6 / 36))
    assert jacobian_variation_bound(on, off) == pytest.approx(6 + 6 / 36)
    assert jacobian_variation_bound(on, off, constant=2.0) == pytest.approx(6 + 6 / 4)
    # derivatives below one do not make C smaller than one
    small = at(1.0, 0.5, 0.5), at(-1.0, 0.5, 0.5)
    assert jacobian_variation_bound(*small) == pytest.approx(0.25 + 0.25)


def test_how_large_the_tangent_kernel_is_on_a_segment():
    """`‖Θ(y, y)‖ = 13 y²`, and L/4 of `‖x - y‖² ‖Jf u‖^{2 - 2/L}`."""
    pair = at(1.0, 2.0, 3.0), at(1.5, 2.0, 3.0)
    assert sides(TangentOnSegments, pair[0], "", pair[1]) == pytest.approx(
        (13 * 2.25, 2 / 4 * 0.25 * 6)
    )
    assert TangentOnSegments("here", pair[0], "", at(-1.0, 2.0, 3.0)).check().verdict is (
        Verdict.INAPPLICABLE
    )
    assert TangentOnSegments("here", pair[0], "", pair[0]).check().verdict is Verdict.INAPPLICABLE
