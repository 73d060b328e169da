"""Every number of a matrix, held against a few lines of float64."""

import math
from fractions import Fraction

import pytest
import torch
from torch import nn
from zoo import MATRICES, NOT_FINITE, fresh

from sigmascope.core.guard import Refusal
from sigmascope.core.quantities import quantity
from sigmascope.core.records import Estimate, Matrix, Reading, SiteSpectrum, Skipped, Spectrum
from sigmascope.linalg.dense import tamed
from sigmascope.linalg.entries import entries
from sigmascope.linalg.krylov import leading
from sigmascope.linalg.spectra import spectrum
from sigmascope.scanning import scan
from sigmascope.scanning.measuring import (
    QUANTITIES,
    ends_alone,
    ends_of,
    in_unit,
    leading_of,
    measure_matrix,
    no_ends,
    off,
    operator_items,
    operator_spectrum,
    sketch,
)
from tests.scanning.made import EVERY, task

BRIEF, USUAL = 8, 12

PAIRS = {
    "alignment", "unit imbalance", "copy cosine", "relative change", "best scale", "turned change",
    "change norm", "change stable rank", "change spikes", "largest angle", "intruders",
    "change size", "spectral change", "change rank", "change by rounding", "change in top eighth",
    "change in leading directions",
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
    for paired in (False, True):
        full, _ = measure_matrix(task(LARGE, "full", paired=paired), LARGE)
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


def ends_in(A, effort="full"):
    X, power = tamed(A)
    seen = entries(A, str(A.dtype)[6:], power=power)
    return ends_of(X, leading_of(task(A, effort, paired=True), X, seen), seen)


def sine(x, y):
    """Of the angle between the lines of two unit vectors."""
    y = y * torch.sign(x @ y)
    return float((x - y).norm())


@pytest.mark.parametrize("case", [name for name, A in MATRICES.items() if A.any()])
def test_vectors_are_the_leading_ones_up_to_what_is_said(case):
    A = MATRICES[case]
    found = ends_in(A)
    U, sigma, Vt = torch.linalg.svd(tamed(A.double())[0], full_matrices=False)
    assert 0 <= found.off <= 1
    assert found.writes.norm() == pytest.approx(1, abs=1e-5)
    assert found.reads.norm() == pytest.approx(1, abs=1e-5)
    clear = len(sigma) == 1 or sigma[1] < 0.98 * sigma[0]
    if clear:
        assert found.off < 1e-3
        assert sine(U[:, 0], found.writes) <= 1.01 * found.off + 1e-12
        assert sine(Vt[0], found.reads) <= 1.01 * found.off + 1e-12
    elif sigma[1] > (1 - 1e-12) * sigma[0]:
        assert found.off == 1


def test_vectors_of_a_run_that_is_not_finished_are_off_by_no_more_than_is_said():
    said = []
    for seed in range(20):
        A = torch.randn(300, 250, generator=fresh(seed), dtype=torch.float64)
        found = leading(A, block=4, steps=2 + seed % 6, vectors=2, generator=fresh(seed))
        U, _, Vt = torch.linalg.svd(A, full_matrices=False)
        said.append(off(found, A, 1))
        if said[-1] < 1:
            assert sine(U[:, 0], found.left[:, 0]) <= said[-1] * 1.1
            assert sine(Vt[0], found.right[:, 0]) <= said[-1] * 1.1
    assert max(said) == 1


def test_a_span_is_off_by_its_residual_over_its_gap():
    A = torch.diag(torch.tensor([4.0, 3.0, 1.0, 0.5, 0.1], dtype=torch.float64))
    found = leading(A, generator=fresh())
    for k in (1, 2, 3, 4, 5):
        assert 0 < off(found, A, k) < 1e-12
    flat = torch.eye(5, dtype=torch.float64)
    assert off(leading(flat, generator=fresh()), flat, 2) == 1
    assert off(leading(flat, generator=fresh()), flat, 5) < 1e-12


@pytest.mark.parametrize(("effort", "steps"), [("leading", USUAL), ("full", BRIEF)])
def test_steps_and_vectors_are_as_many_as_are_needed(effort, steps):
    A = torch.randn(300, 250, generator=fresh())
    seen = entries(A, "float32")
    found = leading_of(task(A, effort, paired=True), A, seen)
    assert found.spectrum.how == f"block krylov(16 x {steps}, float32)"
    assert found.left.shape == (300, 2)
    assert leading_of(task(A, effort), A, seen).left.shape == (300, 0)
    again = leading_of(task(A, effort, paired=True), A, seen)
    assert torch.equal(found.left, again.left)


def test_what_is_zero_has_no_ends():
    A = torch.zeros(4, 3)
    found = no_ends(entries(A, "float32"))
    assert found.zero
    assert found.off == 1
    assert found.writes.shape == (4,)
    assert found.reads.shape == (3,)


def test_weights_are_in_a_unit_of_their_own():
    A = MATRICES["float64 at 1e200"]
    found = ends_in(A)
    unit = 2.0**found.power
    torch.testing.assert_close(found.rows, (A / unit).square().sum(1))
    torch.testing.assert_close(found.cols, (A / unit).square().sum(0))
    assert math.isfinite(found.rows.sum())


G = torch.Generator().manual_seed(0)
MATRIX = Matrix("c.weight", "convolution", 0, 3, 18, "float32", ("c.weight",), 1, "full", 1.0)


def written_out(kernel, grid):
    """The matrix of the circular convolution, by its taps."""
    out, inner, *taps = kernel.shape
    points = list(torch.cartesian_prod(*[torch.arange(grid)] * len(taps)).reshape(-1, len(taps)))
    place = {tuple(p.tolist()): i for i, p in enumerate(points)}
    M = torch.zeros(out, len(points), inner, len(points), dtype=torch.float64)
    for i, p in enumerate(points):
        for tap in torch.cartesian_prod(*[torch.arange(t) for t in taps]).reshape(-1, len(taps)):
            j = place[tuple(((p + tap) % grid).tolist())]
            M[:, i, :, j] += kernel[(slice(None), slice(None), *tap)].double()
    return M.reshape(out * len(points), -1)


@pytest.mark.parametrize(
    ("shape", "grid"), [((3, 2, 3, 3), 5), ((2, 4, 3, 3), 2), ((3, 2, 4), 6), ((2, 1, 1, 1), 3)]
)
def test_singular_values_are_those_of_the_operator_written_out(shape, grid):
    kernel = torch.randn(shape, generator=G)
    if shape[1] == 1:
        kernel = torch.cat([kernel, kernel], dim=1)
    ours, theirs = operator_spectrum(kernel, grid), torch.linalg.svdvals(written_out(kernel, grid))
    points = grid ** (len(shape) - 2)
    assert ours.shape == (shape[0] * points, kernel.shape[1] * points)
    assert torch.allclose(ours.sigma, theirs, atol=1e-12)
    assert (ours.low <= theirs + 1e-14).all()
    assert (theirs <= ours.high + 1e-14).all()


@pytest.mark.parametrize("room", [1, 6, 40, 2**22])
def test_blocks_of_an_operator_are_solved_as_many_at_a_time_as_there_is_room(monkeypatch, room):
    """And one by one where a single one takes more: 13 of 25, for the others are conjugate."""
    kernel, solve, held = torch.randn(3, 2, 3, 3, generator=G), torch.linalg.svdvals, []
    whole = operator_spectrum(kernel, 5)
    monkeypatch.setattr("sigmascope.linalg.spectra.BLOCKS", room)
    monkeypatch.setattr(
        torch.linalg, "svdvals", lambda blocks: held.append(blocks.numel()) or solve(blocks)
    )
    torch.testing.assert_close(operator_spectrum(kernel, 5).sigma, whole.sigma)
    most = max(room // 6, 1) * 6
    assert held == [min(most, 78 - done) for done in range(0, 78, most)]


@pytest.mark.parametrize("zeros", range(1, 50, 3))
def test_a_share_of_the_entries_lies_within_what_division_rounds(zeros):
    A = torch.ones(7, 7)
    A.flatten()[:zeros] = 0
    found, _ = measure_matrix(task(A, "full"), A)
    share, rows = read(found)["zero entries"], read(found).get("zero rows")
    assert share.low <= Fraction(zeros, 49) <= share.high <= 1
    assert share.high - share.low < 3.5 * 2.0**-52 * share.value
    assert (rows is None) is (zeros < 7)
    if rows is not None:
        assert rows.low <= Fraction(zeros // 7, 7) <= rows.high <= 1


@pytest.mark.parametrize("n", [9, 1000, 30_000])
def test_the_longest_row_beside_the_others_is_within_the_roundings_of_a_sum(n):
    A = torch.full((3, n), 0.1)
    A[2, 0] = 1
    found, _ = measure_matrix(task(A, "leading"), A)
    longest, entry = read(found)["longest row"], Fraction(float(A[0, 0]))
    squared = ((n - 1) * entry**2 + 1) / (n * entry**2)
    assert Fraction(longest.low) ** 2 <= squared <= Fraction(longest.high) ** 2
    assert longest.high - longest.low < (8 * n + 512) * 2.0**-52 * longest.value


def test_one_input_for_each_output_is_depthwise():
    layer = nn.Conv2d(4, 4, 3, groups=4, padding=1, padding_mode="circular", bias=False)
    x = torch.eye(4 * 36).reshape(-1, 4, 6, 6)
    M = layer(x).detach().flatten(1).double()
    found = operator_spectrum(layer.weight.detach(), 6)
    assert torch.allclose(found.sigma, torch.linalg.svdvals(M), atol=1e-6)
    assert found.complete


def test_what_is_read_of_it_and_what_is_too_dear():
    kernel = torch.randn(3, 2, 3, 3, generator=G)
    found = {r.quantity: r for r in operator_items(MATRIX, kernel, 8)}
    assert found["spectral norm"].form == "operator"
    assert "periodic 8x8 grid, stride 1" in found["spectral norm"].estimate.how
    assert set(found) == set(QUANTITIES)
    (dear,) = operator_items(MATRIX, kernel, 10**6)
    assert isinstance(dear, Skipped)
    assert "smaller grid" in dear.why
    zero = list(operator_items(MATRIX, torch.zeros(3, 2, 3, 3), 4))
    named = [item.quantity if isinstance(item, Reading) else "" for item in zero]
    assert named == ["spectral norm", "Frobenius norm", ""]


def test_a_scan_with_a_grid_reads_kernels_as_operators_too():
    weights = {"conv.weight": torch.randn(3, 2, 3, 3, generator=G), "fc.weight": torch.eye(9)}
    found = scan(weights, grid=6)
    forms = {(r.site, r.form) for r in found.series("spectral norm")}
    assert forms == {
        ("conv.weight", "kernel"), ("conv.weight", "operator"), ("fc.weight", "matrix"),
    }  # fmt: skip
    assert {r.form for r in scan(weights).readings} == {"kernel", "matrix"}
    wanted = scan(weights, grid=6, quantities=["spectral norm"]).readings
    assert {r.quantity for r in wanted} == {"spectral norm"}
    with pytest.raises(Refusal, match="0 to 4096 points"):
        scan(weights, grid=-1)


def cosine(x, y):
    return float(torch.nn.functional.cosine_similarity(x.double(), y.double(), dim=0))


@pytest.mark.parametrize("shape", [(30, 40), (700, 900)])
def test_equal_matrices_have_equal_sketches_however_they_lie(shape):
    A = torch.randn(shape, generator=fresh())
    spaced = torch.zeros(2 * shape[0], 3 * shape[1])[::2, ::3].copy_(A)
    turned = A.mT.contiguous().mT
    assert not spaced.is_contiguous()
    assert not turned.is_contiguous()
    for B in (A.clone(), spaced, turned):
        assert torch.equal(sketch(A), sketch(B))
    assert not torch.equal(sketch(A), sketch(A + 1e-3))
    assert cosine(sketch(A), sketch(-3 * A)) == pytest.approx(-1, abs=1e-6)


@pytest.mark.parametrize("shape", [(30, 40), (700, 900), (1, 5000)])
def test_a_matrix_and_its_transpose_have_one_sketch(shape):
    A = torch.randn(shape, generator=fresh())
    assert cosine(sketch(A), sketch(A.mT)) == pytest.approx(1, abs=1e-6)
    assert cosine(sketch(A), sketch(A.flip(0))) < 0.6 or shape[0] == 1


def test_cosines_of_sketches_are_off_by_the_root_of_their_length():
    drawn = [torch.randn(60, 70, generator=fresh(i)) for i in range(80)]
    rows = torch.stack([sketch(A) for A in drawn])
    units = rows / rows.norm(dim=1, keepdim=True)
    unrelated = (units @ units.mT)[~torch.eye(80, dtype=torch.bool)]
    assert 0.8 / 16 < unrelated.std() < 1.2 / 16
    assert unrelated.abs().max() < 6 / 16
    near = [cosine(sketch(A), sketch(A + 0.1 * B)) for A, B in zip(drawn, drawn[::-1], strict=True)]
    assert min(near) > 0.97


@pytest.mark.parametrize("shape", [(6, 5), (3, 700), (300, 40)])
def test_one_entry_has_one_bucket_and_the_same_size_in_it(shape):
    for place in range(0, shape[0] * shape[1], shape[0] * shape[1] // 30):
        A = torch.zeros(shape)
        A.view(-1)[place] = 3.0
        assert sorted(sketch(A).abs().tolist())[-2:] == [0.0, 3.0]


def test_constant_matrices_differ_from_one_another_in_their_signs_alone():
    A, B = torch.ones(600, 700), torch.ones(600, 700)
    B[:300] *= -1
    assert abs(cosine(sketch(A), sketch(B))) < 0.4
    assert sketch(torch.zeros(3, 4)).eq(0).all()
    assert len(sketch(A, buckets=64)) == 64


def reading(name):
    return Reading("a", name, Estimate(2.0, 1.0, 3.0, "x"), "scan")


def test_what_has_the_unit_of_weights_is_scaled_and_nothing_else():
    for power in (-600, -3, 0, 5, 600):
        back = in_unit(reading("spectral norm"), power).estimate
        assert (back.value, back.how) == (2.0 * 2.0**power, "x")
        assert back.low <= 2.0**power <= 1.01 * back.high
        assert in_unit(reading("stable rank"), power) == reading("stable rank")
        assert in_unit(Skipped("a", "b", "c"), power) == Skipped("a", "b", "c")


def test_spectra_are_scaled_with_their_ends():
    s = Spectrum(torch.tensor([2.0, 1.0], dtype=torch.float64), (2, 3), "x")
    back = in_unit(SiteSpectrum("a", "scan", "matrix", s), -2).spectrum
    assert back.sigma.tolist() == back.low.tolist() == back.high.tolist() == [0.5, 0.25]
    assert (back.shape, back.how) == ((2, 3), "x")
