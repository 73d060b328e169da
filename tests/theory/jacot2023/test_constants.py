"""Constants of the bounds, on two layers of one unit each, where every side is worked out by hand.

Weights 2 and 3: the Jacobian is 6 where the unit is on, `‖θ‖² = 13`, and `c₁ = 13 - 2 = 11`.
"""

import math

import pytest
import torch

from sigmascope.probes.structure import Stack
from sigmascope.records import Verdict
from sigmascope.theory.jacot2023 import (
    JacobianCost,
    JacobianRank,
    JacobianVariation,
    ProductCorrection,
    RepresentationRank,
    RepresentationSize,
    TangentCurvature,
    TangentOnSegments,
    jacobian_variation_bound,
    ntk_trace,
)
from sigmascope.theory.jacot2023.constructions import corrections


def units(*factors, bias=0.0, slope=0.0):
    weights = tuple(torch.full((1, 1), f, dtype=torch.float64) for f in factors)
    biases = tuple(torch.full((1,), bias, dtype=torch.float64) for _ in factors)
    names = tuple(f"layer {i}" for i in range(len(factors)))
    return Stack(names, weights, biases, slope, bias != 0)


def at(value, *factors, **options):
    return units(*factors, **options).at(torch.full((1,), value, dtype=torch.float64))


def sides(theorem, *facts):
    found = theorem("here", *facts).check()
    return found.measured.value, found.limit.value


def test_what_a_jacobian_costs():
    assert sides(JacobianCost, at(1.0, 2.0, 3.0)) == pytest.approx((13, 2 * 6))  # L s^{2/L}
    assert sides(JacobianRank, at(1.0, 2.0, 3.0)) == pytest.approx((13, 2 + 2 * math.log(6)))
    assert sides(JacobianCost, at(1.0, 1.0, 2.0, 4.0)) == pytest.approx((21, 3 * 8 ** (2 / 3)))


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


def test_how_much_the_tangent_kernel_bends():
    """`Σ_l ‖∂α_{l-1}/∂x‖² ‖∂f/∂z_l‖² = 9 + 4`, against `L ‖Jf‖^{2 - 2/L}`."""
    assert sides(TangentCurvature, at(1.0, 2.0, 3.0)) == pytest.approx((13, 2 * 6))


def test_how_large_balanced_representations_are():
    """`‖α₀‖² + ‖α₁‖² = 1 + 4`, against `Tr Θ e^{c₁/k} / (k |Jf|^{2/k})`, `Tr Θ = 9 + 4`."""
    assert sides(RepresentationSize, at(1.0, 2.0, 3.0)) == pytest.approx(
        (5, 13 * math.exp(11) / 36)
    )
    assert ntk_trace(at(1.0, 2.0, 3.0)) == pytest.approx((13, 0))
    # with biases of 1 the unit is at 3, and each layer adds ‖∂f/∂z_l‖²
    assert ntk_trace(at(1.0, 2.0, 3.0, bias=1.0)) == pytest.approx((9 + 9, 9 + 1))
    biased = sides(RepresentationSize, at(1.0, 2.0, 3.0, bias=1.0))
    assert biased == pytest.approx((1 + 9, 28 * math.exp(13) / 36))


@pytest.mark.parametrize(("first", "met"), [(1 - 1e-6, True), (1 + 1e-6, False)])
def test_balance_is_the_share_of_norm_that_the_first_layers_may_have(first, met):
    found = RepresentationSize("here", at(1.0, first, 1.0)).check()
    assert (found.verdict is not Verdict.INAPPLICABLE) is met


def test_how_many_directions_balanced_representations_have():
    """At 1 and 2: mean trace 13 (1 + 4) / 2 = 32.5; `(1/2 √L)^{-1} √(c (11 - 2 log 6) ...)`."""
    stack = units(2.0, 3.0)
    rows = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    (theorem,) = RepresentationRank.on(stack, rows)
    found = theorem.check()
    c = 32.5 / 2
    limit = math.sqrt(c * (11 - 2 * math.log(6)) * math.exp(11) / 36) / (0.5 * math.sqrt(2))
    assert found.limit.value == pytest.approx(limit)
    assert found.measured.value == 0
    assert theorem.directions == 1


def test_zero_is_what_rounding_of_the_largest_value_could_make():
    """Eight roundings for each row: in float64 of 2 rows `3.6e-15`, in float32 `1.9e-6`."""
    for dtype, below, above in (
        (torch.float64, 3.5e-15, 3.6e-15),
        (torch.float32, 1.8e-6, 2.0e-6),
    ):
        for small, rank in ((below, 1), (above, 2)):
            A = torch.diag(torch.tensor([1.0, small], dtype=dtype))
            assert corrections(A)[0] == rank
    assert corrections(torch.diag(torch.tensor([4.0, 0.5]).double())) == pytest.approx(
        (2, 2 * math.log(2), 2 * (math.log(4) ** 2 + math.log(2) ** 2))
    )


def test_corrections_add_up_only_where_every_layer_in_between_is_as_wide_as_the_rank():
    """Widths 2 and 6 between: determinants multiply at the first, not for certain at the second."""
    eye = torch.eye(6, 2, dtype=torch.float64)
    S = torch.diag(torch.tensor([2.0, 0.5]).double())
    zeros = tuple(torch.zeros(n, dtype=torch.float64) for n in (2, 6, 2))
    stack = Stack(("a", "b", "c"), (S, eye, eye.mT), zeros, 1.0, False)
    (found,) = ProductCorrection.on(stack, torch.ones(1, 2).double())
    assert found.assumptions()[-1].met is None
    narrow = Stack(("a", "b"), (S, S), (zeros[0],) * 2, 1.0, False)
    (sure,) = ProductCorrection.on(narrow, torch.ones(1, 2).double())
    assert sure.assumptions()[-1].met is True
    # √(2 Σ log² s): of diag(4, 1/4) and twice diag(2, 1/2)
    assert sure.check().measured.value == pytest.approx(2 * math.log(4))
    assert sure.check().limit.value == pytest.approx(4 * math.log(2))
