from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.core.records import Verdict
from sigmascope.theory.riedi2022 import OF_ACTIVATIONS, Activation, checks
from tests.theory.riedi2022.told import ACTIVATIONS, PART, gaussian, known, structured

FINE = {Verdict.HOLDS, Verdict.CONSISTENT, Verdict.VACUOUS}
SPEAKS = {  # by slope: the theorems whose assumptions are met
    -1.0: {t.name for t in OF_ACTIVATIONS},
    0.0: {t.name for t in OF_ACTIVATIONS} - {"absolute-value-keeps"},
    0.1: {"activation-shrinks", "activation-leaks", "activation-condition", "activation-sides"},
}


def slopes(n, eta, seed):
    on = gaussian(n, seed=seed) > 0
    on[0] = True
    on[-1] = False
    return torch.where(on, 1.0, eta).double()


@given(seed=st.integers(0, 10**6), n=st.integers(2, 7), eta=st.sampled_from([-1.0, 0.0, 0.1]))
def test_they_hold_for_every_activation(seed, n, eta):
    found = list(checks(Activation.of(gaussian(n, n, seed=seed), slopes(n, eta, seed + 1))))
    spoke = {c.theorem for c in found if c.verdict is not Verdict.INAPPLICABLE}
    assert spoke == SPEAKS[eta]
    assert all(c.verdict in FINE for c in found if c.theorem in spoke), found


@pytest.mark.parametrize("eta", [0.0, 0.1, 1.0])
def test_units_that_leak_nothing_are_promised_nothing(eta):
    facts = Activation.of(gaussian(5, 5, seed=1), slopes(5, eta, 3))
    found = {c.theorem: c.verdict for c in checks(facts)}
    assert (found["activation-leaks"] is Verdict.VACUOUS) is (eta == 0)


@pytest.mark.parametrize("kind", structured(5))
@pytest.mark.parametrize("eta", [-1.0, 0.0, 0.3])
def test_they_hold_for_structured_and_rectangular_matrices(kind, eta):
    for M in (structured(5)[kind], structured(5)[kind][:3]):
        for check in checks(Activation.of(M, slopes(5, eta, 3))):
            assert check.verdict is not Verdict.VIOLATED, check


def test_slopes_above_one_are_declined():
    facts = Activation.of(gaussian(4, 4, seed=1), torch.tensor([1.0, 2.0, 1.0, 1.0]))
    verdicts = {c.theorem: c.verdict for c in checks(facts)}
    assert verdicts.pop("activation-sides") in FINE
    assert set(verdicts.values()) == {Verdict.INAPPLICABLE}


@pytest.mark.parametrize(
    ("diagonal", "slopes", "says"),
    [([1.0, 1, 0], [1.0, 0, 1], "M is invertible"), ([1.0] * 3, [0.0] * 3, "some unit is on")],
)
def test_units_that_are_off_can_worsen_a_singular_matrix(diagonal, slopes, says):
    """Why `activation-condition` asks for an invertible one, and for a unit that is on."""
    facts = Activation.of(torch.diag(torch.tensor(diagonal)), torch.tensor(slopes))
    found = ACTIVATIONS["activation-condition"](facts).check()
    assert found.verdict is Verdict.INAPPLICABLE
    assert [a.says for a in found.assumptions if a.met is False] == [says]


def test_one_slope_per_column(as_users_see_it):
    with pytest.raises(ValueError, match="one number for each column"):
        Activation.of(torch.eye(3), torch.ones(2))


# matrix, slopes, the singular values of `M D`, and the direction in which they may not move
ATTAINED = {
    "absolute-value-keeps": ((4.0, 2.0, 1.0), (1.0, -1.0, 1.0), (4.0, 2.0, 1.0), 1),
    "activation-shrinks": ((4.0, 2.0, 1.0), (1.0, 0.5, 1.0), (4.0, 1.0, 1.0), 1),
    "activation-leaks": ((4.0, 2.0, 1.0), (0.5, 0.5, 0.5), (2.0, 1.0, 0.5), -1),
    "activation-condition": ((4.0, 2.0, 1.0), (1.0, 1.0, 0.5), (4.0, 2.0, 0.5), 1),
    "activation-loss": ((4.0, 2.0, 1.0), (1.0, 1.0, 0.0), (4.0, 2.0, 0.0), 1),
    "activation-shift": ((4.0, 2.0, 1.0), (1.0, 1.0, 0.0), (4.0, 2.0, 0.0), 0),
}


@pytest.mark.parametrize("name", ATTAINED)
def test_every_bound_of_an_activation_is_attained_and_flips_next_to_it(name):
    diagonal, slopes, after, sign = ATTAINED[name]
    facts = Activation.of(torch.diag(torch.tensor(diagonal)).double(), torch.tensor(slopes))
    assert facts.after.sigma.tolist() == pytest.approx(after)
    assert ACTIVATIONS[name](facts).check().verdict is not Verdict.VIOLATED
    # shifts are squared: one of 0.002 next to that of 1
    moved = (after[0] * (1 + sign * PART), *after[1:]) if sign else (4.0, 2.0 - 2e-3, 0.0)
    wrong = replace(facts, after=known(facts.after, *moved))
    assert ACTIVATIONS[name](wrong).check().verdict is Verdict.VIOLATED


def test_two_sides_of_an_activation_agree_to_a_part_in_a_million():
    facts = Activation.of(gaussian(4, 4, seed=1), torch.tensor([1.0, 0.5, 0.0, -1.0]))
    s = facts.other.sigma.tolist()
    wrong = replace(facts, other=known(facts.other, s[0], s[1] * (1 + PART), *s[2:]))
    assert ACTIVATIONS["activation-sides"](wrong).check().verdict is Verdict.VIOLATED


@pytest.mark.parametrize(("slopes", "kappa"), [((1.0, 1.0, 0.5), 8.0), ((1.0, 0.0, 1.0), 4.0)])
def test_what_bounds_the_condition_after_an_activation(slopes, kappa):
    facts = Activation.of(torch.diag(torch.tensor([4.0, 2.0, 1.0])).double(), torch.tensor(slopes))
    found = ACTIVATIONS["activation-condition"](facts).check()
    assert found.limit.value == pytest.approx(kappa, rel=1e-12)
    assert found.measured.value == pytest.approx(kappa, rel=1e-12)
