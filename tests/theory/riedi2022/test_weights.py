import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.core.records import Verdict
from sigmascope.theory.riedi2022 import OF_WEIGHTS, Weights, checks, hard_bounds
from tests.theory.riedi2022.told import PART, WEIGHTS, gaussian, known, small_weights


def test_the_printed_bounds_are_those_of_the_paper():
    """Width 10, entries up to 0.002, two units on the negative side."""
    relu = hard_bounds(0.002, 10, m=2, eta=0.0)
    assert relu.printed["(89)"] == pytest.approx(1.02 / math.sqrt(0.56))  # 2 cn (1 + n) = 0.44
    assert relu.printed["(90)"] == pytest.approx(1.02 / (0.98 - math.sqrt(0.2)))
    assert relu.printed["(91)"] == pytest.approx(1.02 / math.sqrt(0.8))  # 2 cn (1 + 2m) = 0.2
    assert relu.best == pytest.approx(1.02 / 0.98)
    assert {relu.printed["(88)"], relu.printed["(100)"], relu.printed["(101)"]} == {math.inf}
    absolute = hard_bounds(0.002, 10, m=2, eta=-1.0)
    assert absolute.printed["(88)"] == absolute.best == pytest.approx(1.02 / 0.98)
    leaky = hard_bounds(0.002, 10, m=2, eta=0.9)
    squares = 0.9604 - 0.4 * math.sqrt(2)
    assert leaky.printed["(100)"] == pytest.approx(1.02 / math.sqrt(squares))
    assert leaky.printed["(101)"] == pytest.approx(1.02 / (0.98 - 0.2 * 1.006))
    assert leaky.sharper == pytest.approx(1.02 / (0.98 - 0.1 * math.sqrt(2.012)))
    assert leaky.best == pytest.approx(1.02 / 0.98 / 0.9)


@pytest.mark.parametrize(
    ("equation", "n", "m", "eta", "edge"),
    [  # the `cn` at which what is under the line reaches 0
        ("(88)", 6, 2, -1.0, 1.0),
        ("(89)", 6, 2, 0.0, 1 / 14),
        ("(90)", 9, 4, 0.0, 1 / 3),
        ("(91)", 6, 2, 0.0, 1 / 10),
        ("(100)", 16, 4, 0.98, 1 - math.sqrt(0.16)),
        ("(101)", 6, 2, 0.8, 0.6 / 1.2),  # 1 - cn = 0.4 (cn / 2 + 1)
    ],
)
def test_the_printed_bounds_end_where_the_paper_says(equation, n, m, eta, edge):
    below, above = (
        hard_bounds(edge * (1 + sign * PART) / n, n, m=m, eta=eta).printed[equation]
        for sign in (-1, 1)
    )
    assert 100 < below < math.inf
    assert above == math.inf


@pytest.mark.parametrize(
    ("equation", "n", "m", "eta"),
    [
        ("(89)", 6, 0, 0.0),
        ("(89)", 6, 6, 0.0),
        ("(90)", 6, 0, 0.0),
        ("(91)", 6, 0, 0.0),
        ("(91)", 6, 6, 0.0),
        ("(100)", 4, 1, 0.99),
        ("(100)", 6, 1, 0.0),
        ("(100)", 6, 1, -1.0),
        ("(101)", 6, 1, 0.0),
        ("(101)", 6, 0, 0.0),
        ("(101)", 6, 0, -0.5),
    ],
)
def test_printed_bounds_are_not_said_outside_their_statements(equation, n, m, eta):
    assert hard_bounds(0.0001, n, m=m, eta=eta).printed[equation] == math.inf


def test_printed_bounds_are_said_up_to_the_ends_of_their_statements():
    for m in (1, 5):
        relu = hard_bounds(0.0001, 6, m=m, eta=0.0).printed
        assert max(relu["(89)"], relu["(90)"], relu["(91)"]) < math.inf
    for eta in (0.99, 1.0):
        leaky = hard_bounds(0.0001, 5, m=1, eta=eta).printed
        assert max(leaky["(100)"], leaky["(101)"]) < math.inf


@pytest.mark.parametrize("eta", [-1.0, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("m", [0, 2])
def test_nothing_is_said_of_weights_beyond_one_over_the_width(eta, m):
    found = hard_bounds(0.5, 6, m=m, eta=eta)
    assert {*found.printed.values(), found.sharper, found.best} == {math.inf}


def test_of_several_layers_the_largest_weight_and_the_entries_of_the_product_count():
    one, other = torch.tensor([[0.1, 0.0], [0.2, 0.0]]), torch.tensor([[0.0, 0.3], [0.0, -0.5]])
    half = torch.tensor([1.0, 0.5])
    for layers in ([one, other], [other, one]):
        facts = Weights.of(
            [W.double() for W in layers], [half, half], off=torch.tensor([False, True]), eta=0.0
        )
        product = half.diag() @ layers[1] @ half.diag() @ layers[0]
        assert facts.c == 0.5
        assert facts.largest_entry == pytest.approx(float(product.abs().max()))


@pytest.mark.parametrize("cn", [1 - PART, 1.0])
def test_interlacing_needs_weights_below_one_over_the_width(cn):
    assert math.isfinite(hard_bounds(cn / 4, 4, m=1, eta=0.0).best) is (cn < 1)


@pytest.mark.parametrize(
    ("m", "eta", "best"),
    [
        (0, 0.0, 3.0),
        (0, 0.25, 3.0),
        (3, 0.0, 3.0),
        (3, -1.0, 3.0),
        (4, 0.5, 6.0),
        (1, -0.5, 6.0),
        (4, 0.0, math.inf),
    ],
)
def test_interlacing_divides_by_the_slope_of_the_units_that_are_off(m, eta, best):
    """Width 4 and `cn = 1/2`: `(1 + cn) / (1 - cn) = 3`."""
    assert hard_bounds(0.125, 4, m=m, eta=eta).best == pytest.approx(best)


@given(n=st.integers(1, 40), cn=st.floats(0, 0.999), eta=st.floats(-1, 1), share=st.floats(0, 1))
def test_the_best_is_never_above_the_printed_ones(n, cn, eta, share):
    found = hard_bounds(cn / n, n, m=int(share * n), eta=eta)
    for bound in (*found.printed.values(), found.sharper):
        assert found.best <= bound * (1 + 1e-12)


def test_the_example_of_section_6_3():
    """A quarter of the units off, weights up to 1/(3n): 8 as printed, 2 by interlacing."""
    found = hard_bounds(1 / 24, 8, m=2, eta=0.0)
    assert found.printed["(90)"] == pytest.approx(8)
    assert found.best == pytest.approx(2)


def test_what_does_not_fit_is_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`hard_bounds` needs"):
        hard_bounds(0.1, 4, m=5, eta=0.0)
    with pytest.raises(ValueError, match="`weights` must be square"):
        Weights.of([torch.ones(2, 3)], [torch.ones(2)], off=torch.zeros(2), eta=0.0)


@pytest.mark.parametrize(
    ("off", "expected"),
    [
        ([False, False, False], 1.1 / 0.9),
        ([False, True, False], 1.1),  # the smallest is deleted, and not counted as zero
        ([True, False, True], 1.0),
        ([True, True, True], math.inf),
    ],
)
def test_the_condition_number_is_of_the_values_that_are_not_zero_by_construction(off, expected):
    W = torch.diag(torch.tensor([0.1, -0.1, 0.0], dtype=torch.float64))
    facts = Weights.of([W], [torch.ones(3)], off=torch.tensor(off), eta=0.0)
    kappa = facts.condition
    assert kappa.low <= expected <= kappa.high
    assert kappa.value == pytest.approx(expected, rel=1e-12)


FINE = {Verdict.HOLDS, Verdict.CONSISTENT}


def facts(*, n, cn, m, eta, depth=2, seed=0):
    """Layers of the largest weights that are allowed, with signs at random."""
    layers = [cn / n * gaussian(n, n, seed=seed + k).sign() for k in range(depth)]
    diagonals = [torch.where(gaussian(n, seed=seed + 7 + k) > 0, 1.0, eta) for k in range(depth)]
    return Weights.of(layers, diagonals, off=torch.arange(n) < m, eta=eta)


@given(
    seed=st.integers(0, 10**5),
    n=st.integers(1, 8),
    cn=st.floats(0.001, 0.99),
    eta=st.sampled_from([-1.0, 0.0, 0.05, 0.5, 1.0]),
    share=st.floats(0, 1),
)
def test_they_hold_for_the_largest_weights_allowed(seed, n, cn, eta, share):
    for check in checks(facts(n=n, cn=cn, m=int(share * n), eta=eta, seed=seed)):
        assert check.verdict is not Verdict.VIOLATED, check


@pytest.mark.parametrize("theorem", OF_WEIGHTS, ids=lambda t: t.name)
def test_weights_too_large_are_declined(theorem):
    found = theorem(facts(n=8, cn=1.5, m=2, eta=0.0)).check()
    assert found.verdict is Verdict.INAPPLICABLE
    assert any("c < 1/n" in a.says and a.met is False for a in found.assumptions)


LIMITS = {  # at c = 0.002, n = 10, m = 2
    "hard-absolute": (-1.0, 1.02 / 0.98),
    "hard-relu-any": (0.0, 1.02 / math.sqrt(0.56)),
    "hard-relu-share": (0.0, 1.02 / (0.98 - math.sqrt(0.2))),
    "hard-relu-count": (0.0, 1.02 / math.sqrt(0.8)),
    "hard-leaky-squares": (0.9, 1.02 / math.sqrt(0.9604 - 0.4 * math.sqrt(2))),
    "hard-leaky": (0.9, 1.02 / (0.98 - 0.1 * math.sqrt(2.012))),
    "hard-any": (0.9, 1.02 / 0.98 / 0.9),
}


@pytest.mark.parametrize("name", LIMITS)
def test_sure_bounds_flip_a_part_in_a_million_past_their_constants(name):
    eta, limit = LIMITS[name]
    facts = small_weights(10, 0.002, 2, eta)
    for kappa, verdict in (
        (limit * (1 + PART), Verdict.VIOLATED),
        (limit * (1 - PART), Verdict.HOLDS),
    ):
        # with ReLU the last two values are zero by construction and do not count
        sigma = [kappa] + [1.0] * (7 if eta == 0 else 9) + [1e-3] * (2 if eta == 0 else 0)
        moved = replace(facts, read=known(facts.read, *sigma))
        assert WEIGHTS[name](moved).check().verdict is verdict


def test_equal_entries_attain_the_bounds_of_products():
    facts = small_weights(8, 0.0625, 0, 1.0)  # s₁ = cn = 1/2 and s₁(M(1)) = 3/2
    for name, moved in (
        ("entries-norm", replace(facts, bypassed=known(facts.bypassed, 0.5 * (1 + PART)))),
        ("entries-product", replace(facts, largest_entry=0.0625 * (1 + PART))),
        ("entries-skip", replace(facts, skipped=known(facts.skipped, 1.5 + PART, *[1.0] * 7))),
        ("entries-skip", replace(facts, skipped=known(facts.skipped, *[1.0] * 7, 0.5 - PART))),
    ):
        assert WEIGHTS[name](facts).check().measured.value == pytest.approx(
            0.0625 if name == "entries-product" else 0.5, rel=1e-12
        )
        assert WEIGHTS[name](moved).check().verdict is Verdict.VIOLATED
