import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.records import Verdict
from sigmascope.theory.riedi2022 import OF_WEIGHTS, Weights, checks, hard_bounds
from tests.theory.riedi2022.matrices import gaussian

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


@given(n=st.integers(1, 40), cn=st.floats(0, 0.999), eta=st.floats(-1, 1), share=st.floats(0, 1))
def test_the_best_is_never_above_the_printed_ones(n, cn, eta, share):
    found = hard_bounds(cn / n, n, m=int(share * n), eta=eta)
    for bound in (*found.printed.values(), found.sharper):
        assert found.best <= bound * (1 + 1e-12)


WHERE_THEY_SPEAK = {
    "entries-norm": {"eta": 0.0},
    "entries-product": {"eta": 0.0},
    "entries-skip": {"eta": 0.0},
    "hard-absolute": {"eta": -1.0},
    "hard-relu-any": {"eta": 0.0, "cn": 0.05},
    "hard-relu-share": {"eta": 0.0},
    "hard-relu-count": {"eta": 0.0, "cn": 0.05},
    "hard-leaky-squares": {"eta": 0.9},
    "hard-leaky": {"eta": 0.9},
    "hard-any": {"eta": 0.0},
}


@pytest.mark.parametrize("theorem", OF_WEIGHTS, ids=lambda t: t.name)
def test_they_have_teeth(theorem):
    right = facts(**({"n": 8, "cn": 0.2, "m": 2} | WHERE_THEY_SPEAK[theorem.name]))
    assert theorem(right).check().verdict in FINE
    stretch = lambda s: replace(s, sigma=1e3 * s.sigma, low=1e3 * s.low, high=1e3 * s.high)
    tilt = torch.logspace(6, 0, 8).double()
    tilted = lambda s: replace(s, sigma=tilt * s.sigma, low=tilt * s.low, high=tilt * s.high)
    wrong = replace(
        right,
        bypassed=stretch(right.bypassed),
        skipped=stretch(right.skipped),
        read=tilted(right.read),
        largest_entry=1e3 * right.largest_entry,
    )
    assert theorem(wrong).check().verdict is Verdict.VIOLATED


@pytest.mark.parametrize("theorem", OF_WEIGHTS, ids=lambda t: t.name)
def test_weights_too_large_are_declined(theorem):
    found = theorem(facts(n=8, cn=1.5, m=2, eta=0.0)).check()
    assert found.verdict is Verdict.INAPPLICABLE
    assert any("c < 1/n" in a.says and a.met is False for a in found.assumptions)


def test_the_example_of_section_6_3():
    """A quarter of the units off, weights up to 1/(3n): 8 as printed, 2 by interlacing."""
    found = hard_bounds(1 / 24, 8, m=2, eta=0.0)
    assert found.printed["(90)"] == pytest.approx(8)
    assert found.best == pytest.approx(2)


def test_nothing_is_promised_when_no_unit_is_on():
    assert hard_bounds(0.01, 4, m=4, eta=0.0).best == math.inf


def test_what_does_not_fit_is_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`hard_bounds` needs"):
        hard_bounds(0.1, 4, m=5, eta=0.0)
    with pytest.raises(ValueError, match="`weights` must be square"):
        Weights.of([torch.ones(2, 3)], [torch.ones(2)], off=torch.zeros(2), eta=0.0)
