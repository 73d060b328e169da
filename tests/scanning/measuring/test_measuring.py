import math

import pytest
import torch
from zoo import MATRICES, NOT_FINITE, fresh

from sigmascope.linalg.spectra import spectrum
from sigmascope.quantities import quantity
from sigmascope.records import Reading
from sigmascope.scanning.measuring import ends_alone, in_unit, measure_matrix
from tests.scanning.made import EVERY, task

PAIRS = {
    "alignment", "unit imbalance", "copy cosine", "relative change", "best scale", "turned change",
    "change norm", "change stable rank", "change spikes", "largest angle", "intruders",
}  # fmt: skip
QUIET = {  # shares that go without saying where they are zero
    "zero rows", "zero columns", "zero entries", "subnormal entries", "saturated entries",
    "non-finite entries",
}  # fmt: skip
LARGE = torch.randn(400, 300, generator=fresh()) + 0.1
HOSTILE = {
    **MATRICES,
    "single precision at its end": 3e38 * MATRICES["square"].clamp(-1, 1),
    "single precision at its beginning": 1e-43 * MATRICES["square"],
    "half zero": MATRICES["square"] * (torch.arange(30) < 15),
    "one huge entry": MATRICES["square"] + 1e6 * (torch.arange(900) == 31).view(30, 30),
    "equal entries": torch.full((20, 20), 0.3),
    "large": LARGE,
    "large and graded": LARGE * torch.logspace(0, -6, 300),
}


def unit_of(A):
    """A power of two by which the squares of a matrix stay inside float64."""
    largest = float(A.double().abs().max())
    return 2.0 ** (math.frexp(largest)[1] - 1) if largest else 1.0


def dense(A):
    """What a few lines of float64 say of a matrix that is not zero."""
    unit = unit_of(A)
    D = A.double() / unit
    (m, n), s = D.shape, torch.linalg.svdvals(D)
    energy, p = float(D.square().sum()), s / s.sum()
    entropy = float(torch.special.entr(p).sum())
    rows, cols = D.norm(dim=1), D.norm(dim=0)
    ref = {
        "spectral norm": float(s[0]) * unit,
        "Frobenius norm": math.sqrt(energy) * unit,
        "stable rank": energy / float(s[0]) ** 2,
        "participation ratio": energy**2 / float((s**4).sum()),
        "effective rank": math.exp(entropy),
        "energy rank": float((s.square().cumsum(0) < 0.99 * energy).sum() + 1),
        "largest entry": float(D.abs().max()) / math.sqrt(energy / m / n),
        "longest row": float(rows.max() / rows[rows > 0].quantile(0.5)),
        "longest column": float(cols.max() / cols[cols > 0].quantile(0.5)),
        "zero rows": float((A == 0).all(1).double().mean()),
        "zero columns": float((A == 0).all(0).double().mean()),
        "zero entries": float((A == 0).double().mean()),
    }
    if min(m, n) > 1:
        ref["spectral entropy"] = entropy / math.log(min(m, n))
    if float(D.std(correction=0)) > 0:
        size = float(D.std(correction=0)) * (math.sqrt(m) + math.sqrt(n))
        ref["mean shift"] = abs(float(D.mean())) * math.sqrt(m * n) / size
    return ref


def read(found):
    return {r.quantity: r.estimate for r in found.readings}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("effort", ["full", "leading"])
@pytest.mark.parametrize("exact", [False, True])
def test_every_number_holds_the_dense_one(case, effort, exact):
    A = HOSTILE[case]
    found, _ = measure_matrix(task(A, effort, exact=exact, paired=True), A)
    seen = read(found)
    for name, estimate in seen.items():
        q = quantity(name)
        assert q.least <= estimate.low <= estimate.high <= q.most, name
        assert math.isfinite(estimate.value), name
    if not A.any():
        return
    for name, value in dense(A).items():
        if name in seen:
            slack = 1e-13 * abs(value)
            assert seen[name].low - slack <= value <= seen[name].high + slack, name
    exact_ = spectrum(A, route="exact")
    k = len(found.spectrum.spectrum.sigma)
    assert (found.spectrum.spectrum.low <= exact_.high[:k]).all()
    assert (exact_.low[:k] <= found.spectrum.spectrum.high).all()


@pytest.mark.parametrize("case", {**HOSTILE, **NOT_FINITE})
@pytest.mark.parametrize("effort", ["full", "leading"])
def test_nothing_is_missing_without_a_word(case, effort):
    A = {**HOSTILE, **NOT_FINITE}[case]
    found, _ = measure_matrix(task(A, effort), A)
    said = {word for s in found.skipped for word in s.what.split(", ")}
    if "power-law exponent" in said:  # the p-value is that of its fit
        said.add("power-law p-value")
    silent = EVERY - PAIRS - QUIET - {*read(found)} - said
    assert not silent or "all else" in said
    assert not (said & {*read(found)}) - {"power-law p-value"}
    assert ("all else" in said) == (case in NOT_FINITE or not A.any())


def test_leading_values_are_measured_where_that_is_asked():
    found, _ = measure_matrix(task(LARGE, "leading"), LARGE)
    assert len(found.spectrum.spectrum.sigma) == 192
    assert {"participation ratio", "noise distance"} <= {
        w for s in found.skipped for w in s.what.split(", ")
    }
    full, _ = measure_matrix(task(LARGE, "full"), LARGE)
    assert len(full.spectrum.spectrum.sigma) == 300
    assert read(full)["spikes"].value == read(found)["spikes"].value == 1


@pytest.mark.parametrize("name", sorted(EVERY - PAIRS))
def test_nothing_is_read_that_is_not_wanted(name):
    A = LARGE[:60, :40] * (torch.arange(40) > 3)
    found, _ = measure_matrix(task(A, wanted=frozenset({name})), A)
    assert {r.quantity for r in found.readings} <= {name}
    assert found.sketch is None


def test_what_is_kept_is_what_is_asked_for():
    A = LARGE[:60, :40]
    assert measure_matrix(task(A, spectra=False), A)[0].spectrum is None
    found, ends = measure_matrix(task(A), A)
    assert found.spectrum is not None
    assert found.sketch is not None
    assert ends.zero
    assert not measure_matrix(task(A, paired=True), A)[1].zero


def test_what_cannot_be_measured_says_why():
    odd, ends = measure_matrix(task(NOT_FINITE["nan"], paired=True), NOT_FINITE["nan"])
    assert read(odd)["non-finite entries"].value == 1
    assert [s.why for s in odd.skipped] == ["1 entries are not finite"]
    assert ends.zero
    zero, _ = measure_matrix(task(torch.zeros(9, 9)), torch.zeros(9, 9))
    assert read(zero)["Frobenius norm"].value == read(zero)["spectral norm"].value == 0
    assert [s.why for s in zero.skipped] == ["it is exactly zero"]


@pytest.mark.parametrize("effort", ["full", "leading"])
@pytest.mark.parametrize("case", ["tall", "square", "float64 at 1e200", "zero", "bfloat16"])
def test_ends_alone_are_those_of_the_whole_measurement(case, effort):
    A = MATRICES[case]
    asked = task(A, effort, paired=True)
    one, other = measure_matrix(asked, A)[1], ends_alone(asked, A)
    for name in ("writes", "reads", "rows", "cols"):
        assert torch.equal(getattr(one, name), getattr(other, name))
    assert (one.off, one.power, one.zero) == (other.off, other.power, other.zero)


def test_the_seed_decides():
    A = LARGE
    one, two = (measure_matrix(task(A, "leading"), A)[0] for _ in range(2))
    assert one.readings == two.readings
    state = torch.random.get_rng_state()
    measure_matrix(task(A), A)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_tail_has_its_exponent_read_where_it_follows_a_power_law():
    g = fresh(2)
    U, V = (torch.linalg.qr(torch.randn(600, 300, generator=g).double())[0] for _ in range(2))
    u = torch.rand(300, generator=g).double()
    A = U * u ** (-1 / 3) @ V.mT  # of the squares, exponent 2.5
    seen = read(measure_matrix(task(A), A)[0])
    assert seen["power-law p-value"].value >= 0.1
    assert seen["power-law exponent"].low <= 2.5 <= seen["power-law exponent"].high


@pytest.mark.parametrize("power", [-1030, -300, 0, 400, 1000])
def test_units_are_given_back_to_what_has_one(power):
    A = MATRICES["square"].double()
    readings = {r.quantity: r for r in measure_matrix(task(A), A)[0].readings}
    for name in ("spectral norm", "noise edge", "stable rank", "spikes"):
        back = in_unit(readings[name], power)
        assert isinstance(back, Reading)
        factor = power if quantity(name).unit else 0
        assert back.estimate.value == pytest.approx(
            math.ldexp(readings[name].estimate.value, factor), rel=1e-6
        )
        assert 0 <= back.estimate.low <= back.estimate.value <= back.estimate.high
