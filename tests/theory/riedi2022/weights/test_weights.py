import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.records import Verdict
from sigmascope.theory.riedi2022 import OF_WEIGHTS, Weights, checks
from tests.theory.riedi2022.matrices import gaussian
from tests.theory.riedi2022.told import PART, WEIGHTS, known, small_weights

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
