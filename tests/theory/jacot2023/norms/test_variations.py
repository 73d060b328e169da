"""What it costs that the Jacobian differs between two inputs."""

import pytest

from sigmascope.records import Verdict
from sigmascope.theory import jacot2023
from sigmascope.theory.jacot2023 import (
    JacobianVariation,
    TangentOnSegments,
    jacobian_variation_bound,
)
from tests.theory.jacot2023.stacks import COUNT, GOOD, points
from tests.theory.jacot2023.units import at, sides


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
