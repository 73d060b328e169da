"""One matrix is measured by one function, whoever asks and whatever is at hand."""

import pytest
import torch
from zoo import MATRICES, NOT_FINITE, fresh

from sigmascope import linalg
from sigmascope.linalg import krylov, measure
from sigmascope.linalg.entries import entries
from sigmascope.linalg.measures import NOISE, OF_SPECTRUM, TAIL
from sigmascope.linalg.random_matrix import RandomSigns
from sigmascope.linalg.spectra import spectrum
from tests.linalg.random_matrix.planted import LAWS, planted

EVERY = ("mean shift", *OF_SPECTRUM, *NOISE, *TAIL)
NONZERO = [case for case, A in MATRICES.items() if bool(A.any())]


def seeded(A, wanted, **known):
    return measure(A, wanted, generator=fresh(8), samples=fresh(9), **known)


@pytest.mark.parametrize("case", NONZERO)
def test_numbers_are_those_of_the_functions_of_their_names(case):
    s = spectrum(MATRICES[case])
    found = measure(s, OF_SPECTRUM)
    for name, estimate in found.numbers.items():
        of = getattr(linalg, name.replace(" ", "_").lower(), None)
        assert of is not None, name
        assert estimate == of(s)
    assert {*found.numbers} | {*found.undefined} == {*OF_SPECTRUM}
    alone = {"spectral entropy": "one singular value has none"} if min(s.shape) == 1 else {}
    assert found.undefined == alone


@pytest.mark.parametrize("case", NONZERO)
def test_what_else_is_asked_for_changes_nothing(case):
    A = MATRICES[case]
    together = seeded(A, EVERY)
    for name in EVERY:
        alone = seeded(A, [name])
        assert alone.numbers.get(name) == together.numbers.get(name)
        assert alone.undefined.get(name) == together.undefined.get(name)


def test_a_spectrum_and_entries_at_hand_are_taken_as_they_are():
    A = torch.randn(40, 30, generator=fresh()).double()
    s, seen = spectrum(A, route="exact"), entries(A, "float64")
    found = seeded(A, EVERY, s=s, entries=seen)
    assert found.spectrum is s
    assert found.numbers["Frobenius norm"] == seen.energy.sqrt()
    assert measure(A, ["spectral norm"], route="exact").spectrum == s


@pytest.mark.parametrize("read", [False, True])
def test_leading_values_have_norms_and_a_stable_rank_and_say_what_is_unknown(read):
    A = torch.randn(90, 80, generator=fresh()).double()
    s = krylov.leading(A, block=4, steps=4, count=6, generator=fresh()).spectrum
    found = seeded(A, EVERY, s=s, entries=entries(A, "float64") if read else None)
    for name, whole in seeded(
        A, ("spectral norm", "Frobenius norm", "stable rank")
    ).numbers.items():
        assert found.numbers[name].low <= whole.high
        assert whole.low <= found.numbers[name].high
    assert "mean shift" in found.numbers
    unknown = {*EVERY} - {*found.numbers}
    assert "effective rank" in unknown
    assert {found.undefined[name] for name in unknown} == {
        "the 6 largest of 80 singular values were computed"
    }
    bare = measure(s, ["spectral norm", "stable rank"])
    assert ([*bare.numbers], [*bare.undefined]) == (["spectral norm"], ["stable rank"])


def test_a_stable_rank_of_leading_values_is_one_that_a_matrix_can_have():
    A = torch.ones(30, 20, dtype=torch.float64)  # of rank one
    s = krylov.leading(A, block=2, steps=2, count=2, generator=fresh()).spectrum
    rank = measure(A, ["stable rank"], s=s).numbers["stable rank"]
    assert rank.low == 1 <= rank.value < 1 + 1e-9


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e250])
def test_a_mean_shift_is_that_of_the_constant_part(shift, scale, read):
    A = torch.randn(30, 20, generator=fresh()).double() + shift
    size = float(A.std(correction=0)) * (30**0.5 + 20**0.5)
    known = {"entries": entries(A, "float64")} if read else {}
    found = measure(A if read else scale * A, ["mean shift"], **known).numbers["mean shift"]
    assert found.value == pytest.approx(abs(float(A.mean())) * 600**0.5 / size, rel=1e-6)
    assert found.low <= found.value <= found.high


def test_reasons_name_each_once_what_has_no_number_for_it():
    found = measure(torch.zeros(2, 3), ["stable rank", "spectral norm", "effective rank"])
    assert found.reasons == {"it is exactly zero": "stable rank, effective rank"}


def test_a_zero_matrix_has_norms_and_no_directions():
    found = measure(torch.zeros(9, 12), EVERY)
    assert {name: e.value for name, e in found.numbers.items()} == dict.fromkeys(
        ("spectral norm", "Frobenius norm", "matrix rank", "soft rank"), 0.0
    )
    assert {*found.undefined.values()} == {"it is exactly zero"}
    assert {*found.numbers} | {*found.undefined} == {*EVERY}


@pytest.mark.parametrize("case", NOT_FINITE)
def test_what_is_not_finite_is_refused(case):
    with pytest.raises(ValueError, match="not finite"):
        measure(NOT_FINITE[case], ["stable rank"])


def test_what_is_measured_of_something_else_is_refused():
    with pytest.raises(ValueError, match=r"be among mean shift.*got 'dead units'.*Leave it"):
        measure(torch.eye(3), ["stable rank", "dead units"])


def test_noise_of_singular_values_alone_is_refused():
    with pytest.raises(ValueError, match=r"noise edge needs the entries.*Pass the matrix"):
        measure(spectrum(torch.randn(9, 9, generator=fresh())), ["noise edge"])


def tailed(g, noise):
    """Squared singular values of exponent 2.5, of directions at random, and some noise."""
    U, V = (torch.linalg.qr(torch.randn(d, 100, generator=g).double())[0] for d in (200, 150))
    u = torch.rand(100, generator=g).double()
    return U * u ** (-1 / 3) @ V.mT + noise * torch.randn(200, 150, generator=g).double()


MADE = {
    **{law: make(fresh(1), 120, 90) for law, make in LAWS.items()},
    **{f"{law}, 3 spikes": planted(make(fresh(2), 90, 120), [4.0, 3.0, 2.0])
       for law, make in LAWS.items()},
    **{f"{law}, 20 spikes": planted(make(fresh(3), 150, 120), [4.0] * 20)
       for law, make in LAWS.items()},
    **{f"tail {seed}, noise {noise}": tailed(fresh(seed), noise)
       for seed in range(4) for noise in (0.0, 0.05, 0.1, 0.2)},
}  # fmt: skip


def told(A, wanted):
    """What is said of the tail."""
    found = seeded(A, wanted, entries=entries(A, "float64"))
    answers = {**found.numbers, **found.undefined}
    return {name: answers[name] for name in TAIL if name in answers}


@pytest.mark.parametrize("A", MADE.values(), ids=MADE)
def test_the_tail_is_the_same_whether_noise_is_asked_for_or_not(A):
    assert told(A, TAIL) == told(A, EVERY)


def test_tails_are_read_and_refused_for_want_of_spikes():
    """Else the test above could not fail."""
    said = [told(A, TAIL)["power-law exponent"] for A in MADE.values()]
    assert any(not isinstance(answer, str) for answer in said)
    assert any(isinstance(answer, str) and "stick out of the noise" in answer for answer in said)


def test_no_signs_are_drawn_for_a_tail_that_is_refused(monkeypatch):
    A = MADE["normal"]
    assert "stick out" not in told(A, EVERY)["power-law exponent"]
    monkeypatch.setattr(RandomSigns, "_draw", None)
    told(A, TAIL)


def test_a_narrow_matrix_has_no_noise_and_says_so():
    found = seeded(torch.randn(7, 40, generator=fresh()), EVERY)
    assert {*found.undefined} == {*NOISE, *TAIL}
    assert {*found.undefined.values()} == {
        "a matrix with a side of 7 has no bulk of singular values"
    }
