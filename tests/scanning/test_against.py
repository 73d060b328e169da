"""Two checkpoints, two matrices, and an adapter on its base, held against one another."""

import json
import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import save_file
from zoo import MATRICES, NOT_FINITE, fresh

from sigmascope.core.guard import Refusal
from sigmascope.core.quantities import quantity
from sigmascope.core.records import Estimate, Reading, Spectrum
from sigmascope.diagnosis.checkpoints import scan_findings
from sigmascope.linalg.spectra import spectrum
from sigmascope.scanning import against, plan, scan
from sigmascope.scanning.against import _top_eighth, candidates, hold, measure_product, meet
from sigmascope.scanning.matrices import Cut
from sigmascope.scanning.measuring import ends_alone, sketch
from sigmascope.scanning.planning import Product
from tests.scanning.checkpoints import SMALL, numbers, stored
from tests.scanning.made import EVERY, pair, task
from tests.scanning.test_measuring import PAIRS, QUIET, dense


def value(found, name, site):
    (reading,) = found.series(name, site=site)
    return reading.estimate


def test_the_same_checkpoint_twice_has_not_moved():
    found = scan(SMALL, against={k: v.clone() for k, v in SMALL.items()})
    for reading in found.series("relative change"):
        assert reading.estimate.value == 0
        assert reading.estimate.high < 1e-150  # the root of the least number there is
    assert {r.quantity for r in found.readings} == {
        "relative change",
        "best scale",
        "turned change",
        "change norm",
        "change size",
        "spectral change",
    }
    assert "nothing has changed" in {s.why for s in found.skipped}


def test_the_same_numbers_stored_more_widely_have_not_moved():
    narrow = {"a.weight": torch.randn(12, 9).bfloat16()}
    for wide in (torch.float32, torch.float64):
        found = scan(narrow, against={"a.weight": narrow["a.weight"].to(wide)})
        same = value(found, "relative change", "a.weight")
        assert (same.low, same.value, same.high) == (0, 0, 0)


def test_a_change_is_measured():
    A, D = torch.randn(30, 20), torch.randn(30, 20)
    found = scan({"a.weight": A}, against={"a.weight": A + 0.1 * D})
    truth = float((0.1 * D).double().norm() / A.double().norm())
    assert value(found, "relative change", "a.weight").value == pytest.approx(truth, rel=1e-5)
    norm = float(torch.linalg.matrix_norm((0.1 * D).double(), 2))
    assert value(found, "change norm", "a.weight").value == pytest.approx(norm, rel=1e-4)


def test_what_has_no_counterpart_is_said_once_and_truly():
    one = {
        "a.weight": torch.randn(9, 8), "gone.weight": torch.randn(4, 4), "v": torch.ones(3),
        "s.weight": torch.randn(4, 5), "unread.weight": torch.randn(4, 4),
    }  # fmt: skip
    two = {
        "a.weight": torch.randn(9, 8), "new.weight": torch.randn(4, 4), "v": torch.ones(3),
        "s.weight": torch.randn(4, 6), "unread.weight": torch.ones(4, 4, dtype=torch.int64),
        "new.bias": torch.ones(3),
    }  # fmt: skip
    found = plan(one, against=two)
    why = {s.site: s.why for s in found.skipped}
    assert [m.site for m in found.matrices] == ["a.weight"]
    assert why["gone.weight"] == "only in the first checkpoint"
    assert why["new.weight"] == "only in the second checkpoint"
    assert why["s.weight"] == "of shape [4, 5] in one, [4, 6] in the other"
    assert why["unread.weight"].startswith("in the second: int64")
    assert why["new.bias"].startswith("only in the second checkpoint: a vector")
    assert set(Counter(s.site for s in found.skipped).values()) == {1}
    assert {*why, "a.weight"} == {*one, *two}
    back = {s.site: s.why for s in plan(two, against=one).skipped}
    assert back["unread.weight"].startswith("int64")
    assert {*back, "a.weight"} == {*one, *two}


def test_a_run_file_takes_it_up_again(tmp_path):
    moved = {k: (v + 0.01 * torch.randn(v.shape)).to(v.dtype) for k, v in SMALL.items()}
    one, two = stored(tmp_path), stored(tmp_path, moved, "moved.safetensors")
    run = tmp_path / "a.run"

    def cut(job, many):
        for batch in many:
            yield job(type(batch)(batch.jobs[:2]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(one, against=two, run=run, mapper=cut)
    assert numbers(scan(one, against=two, run=run)) == numbers(scan(one, against=two))


def test_quantities_that_would_not_be_read_are_refused():
    with pytest.raises(Refusal, match="give its other version"):
        scan(SMALL, quantities=["relative change"])
    with pytest.raises(Refusal, match="Of two versions one of"):
        scan(SMALL, against=SMALL, quantities=["stable rank"])
    both = plan(SMALL, against=SMALL, quantities=["stable rank", "relative change"])
    assert both.matrices


def test_memory_is_that_of_both_and_their_difference():
    large = {"a.weight": torch.empty(3000, 3000)}
    alone, both = plan(large, effort="leading"), plan(large, against=large, effort="leading")
    assert both.memory > alone.memory + large["a.weight"].nbytes
    (left,) = plan(large, against=large, memory=alone.memory + 2**20, effort="leading").skipped
    assert "comparing both takes" in left.why


@pytest.mark.parametrize(("side", "bytes_each"), [(1024, 32), (1025, 12)])
def test_memory_of_a_pair_grows_with_what_each_stores_and_what_is_made_of_both(side, bytes_each):
    def memory(cols, first, second):
        one, other = ({"a.weight": torch.empty(side, cols, dtype=kind)} for kind in (first, second))
        return plan(one, against=other, effort="leading").memory

    single, half = torch.float32, torch.float16
    whole, more = memory(1100, single, single), memory(1200, single, single)
    assert whole - memory(1100, half, single) == 2 * side * 1100
    assert whole - memory(1100, single, half) == 2 * side * 1100
    assert more - whole == (4 + 4 + bytes_each) * side * 100


CHANGES = frozenset(
    {
        "relative change", "best scale", "turned change", "change norm", "change stable rank",
        "change spikes", "largest angle", "intruders", "change size", "spectral change",
        "change rank", "change by rounding", "change in top eighth",
        "change in leading directions",
    }
)  # fmt: skip
LARGE = torch.randn(300, 260, generator=fresh())


def noise_like(A, size, seed=3):
    largest = float(A.double().abs().max()) or 1.0
    return size * largest * torch.randn(A.shape, generator=fresh(seed)).double()


def one_more(A):
    across = torch.randn(1, A.shape[1], generator=fresh(5)).double()
    return (A.double() + noise_like(A, 1.0)[:, :1] @ across).to(A.dtype)


SECOND = {
    "equal": lambda A: A.clone(),
    "twice": lambda A: 2 * A,
    "opposite": lambda A: -A,
    "turned over": lambda A: A.flip(0),
    "zero": lambda A: 0 * A,
    "a little off": lambda A: (A.double() + noise_like(A, 1e-3)).to(A.dtype),
    "of another format": lambda A: A.double() + noise_like(A, 1e-9),
    "unrelated": lambda A: noise_like(A, 1.0).to(A.dtype),
    "of one direction more": one_more,
}


def held(A, B, **more):
    items = [*hold(pair(A, B, **more), A, B)]
    readings = {item.quantity: item.estimate for item in items if isinstance(item, Reading)}
    said = {w for item in items if not isinstance(item, Reading) for w in item.what.split(", ")}
    return readings, said


def sine(X, Y):
    return float(torch.linalg.matrix_norm(Y - X @ (X.mT @ Y), 2).clamp(max=1))


def dense_change(A, B):
    """What a few lines of float64 say, of a first version that is not zero."""
    largest = max(float(M.double().abs().max()) for M in (A, B))
    unit = 2.0 ** (math.frexp(largest)[1] - 1)
    A, B = A.double() / unit, B.double() / unit
    D, size = B - A, A.norm()
    scale, s = float((A * B).sum() / size**2), torch.linalg.svdvals(B - A)
    ref = {
        "relative change": float(D.norm() / size),
        "best scale": scale,
        "turned change": float((B - scale * A).norm() / size) if s[0] > 0 else 0.0,
        "change norm": float(s[0]) * unit,
        "change size": float(D.norm()) * unit,
        "spectral change": float(s[0] / torch.linalg.matrix_norm(A, 2)),
    }
    if s[0] == 0:
        return ref
    squares = s.square()
    ref["change stable rank"] = float(squares.sum() / s[0] ** 2)
    top = math.ceil(len(s) / 8)
    ref["change in top eighth"] = float(squares[:top].sum() / squares.sum())
    k = min(10, min(A.shape) // 2)
    if k == 0:
        return ref
    (U, a, V), (X, b, Y) = (torch.linalg.svd(M, full_matrices=False) for M in (A, B))
    if all(v[k - 1] - v[k] > 1e-9 * v[0] for v in (a, b)):
        widest = max(sine(U[:, :k], X[:, :k]), sine(V[:k].mT, Y[:k].mT))
        ref["largest angle"] = math.asin(widest)
        inside = (U[:, :k].mT @ D @ V[:k].mT).norm() / D.norm()
        ref["change in leading directions"] = float(inside.square().clamp(max=1))
    if (b[: k + 1].diff() < -1e-3 * b[0]).all():
        known = U[:, a > 1e-12 * a[0]]
        ref["intruders"] = float(((known.mT @ X[:, :k]).abs().amax(0) < 0.6).sum())
    return ref


@pytest.mark.parametrize("case", [*MATRICES, "large"])
@pytest.mark.parametrize("second", SECOND)
def test_every_number_holds_the_dense_one(case, second):
    A = LARGE if case == "large" else MATRICES[case]
    B = SECOND[second](A)
    seen, said = held(A, B)
    if not A.any():
        assert said == {"all else"}
        return
    for name, value in dense_change(A, B).items():
        assert name in seen or name in said
        if name in seen:
            slack = 1e-13 * abs(value)
            assert seen[name].low - slack <= value <= seen[name].high + slack, name
    for name, estimate in seen.items():
        q = quantity(name)
        assert q.least <= estimate.low <= estimate.high <= q.most, name
        assert math.isfinite(estimate.value)
    assert CHANGES - {*seen} == said
    near = "relative change", "turned change", "change norm", "change stable rank", "change size"
    for name in near:
        if name in seen:
            assert seen[name].high - seen[name].low < 0.12 * seen[name].value + 1e-6


def test_equal_versions_have_not_changed():
    seen, said = held(LARGE, LARGE.clone())
    assert seen["best scale"].value == pytest.approx(1)
    assert [seen[n].value for n in ("relative change", "turned change", "change norm")] == [0] * 3
    sizes = {"relative change", "best scale", "turned change", "change norm"}
    assert said == CHANGES - sizes - {"change size", "spectral change"}


def test_a_scaled_version_turns_nothing():
    seen, _ = held(LARGE, 2 * LARGE)
    assert seen["best scale"].value == pytest.approx(2)
    assert seen["relative change"].value == pytest.approx(1)
    assert seen["turned change"].low == 0
    assert seen["turned change"].high < 1e-9
    assert seen["intruders"].value == 0
    assert seen["largest angle"].value < 1e-4


def test_a_change_of_low_rank_is_found_with_its_directions():
    g = fresh(4)
    U, V = (torch.linalg.qr(torch.randn(d, 3, generator=g))[0] for d in LARGE.shape)
    top = float(torch.linalg.matrix_norm(LARGE, 2))
    B = LARGE + U * (top * torch.tensor([4.0, 3.0, 2.0])) @ V.mT
    seen, _ = held(LARGE, B)
    assert seen["change spikes"].value == 3
    assert seen["change norm"].value == pytest.approx(4 * top, rel=1e-4)
    assert seen["change stable rank"].value == pytest.approx(29 / 16, rel=1e-4)
    assert seen["intruders"].value == dense_change(LARGE, B).get("intruders", 4) >= 3
    assert seen["largest angle"].value > 1.3


FORMATS = [torch.float32, torch.float16, torch.bfloat16]


def added(r, shape=(256, 192), size=1e-3):
    g = fresh(6)
    left, right = (torch.randn(d, r, generator=g).double() for d in shape)
    return size * left @ right.mT


START = torch.randn(256, 192, generator=fresh(8)).double() * 0.05


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("rank", [1, 4, 16])
def test_a_change_of_low_rank_has_that_rank_whatever_the_format_rounds(rank, dtype, merged):
    """Added to the numbers of a file, as by an adapter, or to others of which a file is made."""
    A = START.to(dtype)
    B = ((A.double() if merged else START) + added(rank)).to(dtype)
    seen, _ = held(A, B)
    found = seen["change rank"]
    assert found.low == found.value == rank
    assert found.high == rank
    assert seen["change in top eighth"].value > 0.9


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("rank", [60, 192])
def test_a_change_in_many_directions_has_no_low_rank(rank, dtype):
    D = added(rank)
    A = START.to(dtype)
    seen, _ = held(A, (A.double() + D).to(dtype))
    assert seen["change rank"].low > 0.8 * rank
    assert seen["change rank"].high <= 192


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e4])
def test_what_rounding_makes_is_what_it_has_made(dtype, size):
    size = size if dtype == torch.bfloat16 else min(max(size, 1e-3), 1e4)
    # zeros are exact; among numbers of the least spacing they may be rounded, which is counted
    start = START * (noise_like(START, 1.0) > 0) if size == 1.0 else START
    moved = start + 3 * torch.finfo(dtype).eps * noise_like(START, 1.0)
    A, B = (size * start).to(dtype), (size * moved).to(dtype)
    D = B.double() - A.double()
    made = (D - size * (moved - start)).square().sum() / D.square().sum()
    share = held(A, B)[0]["change by rounding"].value
    assert share == pytest.approx(float(made), rel=0.05)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@given(st.integers(0, 2**31 - 1), st.integers(1, 12), st.sampled_from([1e-30, 1.0, 1e30]))
@settings(max_examples=15, deadline=None)
def test_no_rank_is_said_to_be_larger_than_what_was_added(dtype, seed, rank, unit):
    g = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(d, rank, generator=g).double() for d in (60, 48))
    A = (unit * torch.randn(60, 48, generator=g).double()).to(dtype)
    B = (A.double() + unit * 0.2 * left @ right.mT).to(dtype)
    assert held(A, B)[0]["change rank"].value <= rank


def test_rounding_is_as_large_as_the_numbers_of_one_column_make_it():
    """They are rounded thirty times as far as others, which no direction of the change is."""
    start = torch.randn(256, 192, generator=fresh(9)).double()
    start[:, 0] *= 30
    moved = start + added(1, size=1.0)
    seen, _ = held(start.bfloat16(), moved.bfloat16())
    assert seen["change rank"].value == 1


@pytest.mark.parametrize("known", [10, 1])
def test_the_largest_eighth_is_bounded_where_fewer_values_are_known(known):
    """Of 10 directions two are an eighth, of 4² and 3² in 4² + 3² + 8; of one 4² at the least."""
    sigma = torch.tensor([4.0, 3.0, *[1.0] * 8], dtype=torch.float64)[:known]
    s = Spectrum(sigma, (12, 10), "told", sigma - 0.5, sigma + 0.5)
    found = _top_eighth(s, Estimate(33.0, 30.0, 36.0, "told"))
    if known == 10:
        assert found.value == pytest.approx(25 / 33)
        assert found.low == pytest.approx((3.5**2 + 2.5**2) / 36)
        assert found.high == 1  # 4.5² + 3.5² are more than 30
    else:
        assert found.value == pytest.approx(16 / 33)
        assert found.low == pytest.approx(3.5**2 / 36)
        assert found.high == 1
    tight = _top_eighth(replace(s, low=sigma, high=sigma), Estimate(33.0, 32.0, 34.0, "told"))
    ends = (25, 25) if known == 10 else (16, 32)  # the second is no larger than the first
    assert (tight.low, tight.high) == pytest.approx((ends[0] / 34, ends[1] / 32))


def test_a_change_within_leading_directions_is_told_from_one_by_chance():
    U, s, Vh = torch.linalg.svd(LARGE.double())
    s[:10] *= 4  # directions that are surely those
    A = U[:, :260] @ torch.diag(s) @ Vh
    inside, _ = held(A, A + U[:, :10] @ torch.diag(s[:10] / 9) @ Vh[:10])
    found = inside["change in leading directions"]
    assert found.low > 0.9
    assert found.high == 1
    assert inside["spectral change"].value == pytest.approx(1 / 9, rel=1e-3)
    outside, _ = held(A, A + U[:, 10:20] @ Vh[10:20])
    assert outside["change in leading directions"].value < 1e-6
    g = fresh(3)
    shares = [
        held(A, A + torch.randn(A.shape, generator=g).double())[0]["change in leading directions"]
        for _ in range(4)
    ]
    chance = 10 * 10 / A.numel()
    assert sum(e.value for e in shares) / 4 == pytest.approx(chance, rel=0.3)


def test_a_format_whose_rounding_is_not_known_has_no_rank():
    one = pair(START, START + added(2))
    tasks = tuple(replace(t, matrix=replace(t.matrix, dtype="float8_e4m3fn")) for t in one.tasks)
    items = [*hold(replace(one, tasks=tasks), START, START + added(2))]
    (why,) = {i.why for i in items if not isinstance(i, Reading) and "change rank" in i.what}
    assert "float8_e4m3fn is not known" in why


def test_on_large_sides_what_is_known_of_the_leading_values_bounds_the_spread(monkeypatch):
    monkeypatch.setattr("sigmascope.scanning.against.WHOLE_SIDE", 100)
    few, _ = held(START.float(), (START + added(4)).float())
    assert few["change rank"].low <= 4 <= few["change rank"].high
    many, _ = held(START.float(), (START + added(192)).float())
    assert many["change rank"].high == 192
    s = torch.linalg.svdvals(added(192)).square()
    true = float(s[:24].sum() / s.sum())
    assert many["change in top eighth"].low <= true <= many["change in top eighth"].high


def test_orthogonal_versions_have_a_scale_of_nothing():
    A, B = torch.zeros(40, 30), torch.zeros(40, 30)
    A[:20], B[20:] = LARGE[:20, :30], LARGE[20:40, :30]
    seen, _ = held(A, B)
    assert seen["best scale"].value == 0
    assert seen["turned change"].value == pytest.approx(float(B.norm() / A.norm()))
    assert seen["largest angle"].value == pytest.approx(math.pi / 2, abs=1e-3)
    assert seen["intruders"].value == 10


def test_directions_are_compared_on_large_sides_with_the_leading_ones(monkeypatch):
    monkeypatch.setattr("sigmascope.scanning.against.WHOLE_SIDE", 100)
    first = LARGE * torch.logspace(0, -2, 260)
    U, V = (torch.linalg.qr(torch.randn(d, 1, generator=fresh(4)))[0] for d in LARGE.shape)
    seen, _ = held(first, first + 80 * U @ V.mT)
    assert seen["intruders"].value == 1
    assert seen["intruders"].low <= 1
    monkeypatch.setattr("sigmascope.scanning.against.WHOLE_SIDE", min(LARGE.shape))
    seen, _ = held(first, first + 80 * U @ V.mT)
    assert seen["intruders"].how == "all directions of the first"


@pytest.mark.parametrize("kind", ["change", "copy"])
@pytest.mark.parametrize("case", NOT_FINITE)
def test_what_is_not_finite_is_not_compared(kind, case):
    A = NOT_FINITE[case]
    for one, other in ((A, torch.ones_like(A)), (torch.ones_like(A), A)):
        assert held(one, other, kind=kind) == ({}, {"both together"})


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_nothing_is_read_that_is_not_wanted(name):
    seen, _ = held(LARGE, LARGE + 1, wanted=frozenset({name}))
    assert {*seen} == {name}


def test_copies_are_told_by_their_cosine():
    near = LARGE + 0.1 * torch.randn(LARGE.shape, generator=fresh(9))
    for B, cosine in ((LARGE.clone(), 1.0), (3 * LARGE, 1.0), (near, 1 / math.sqrt(1.01))):
        seen, _ = held(LARGE, B, kind="copy")
        assert {*seen} == {"copy cosine"}
        assert seen["copy cosine"].value == pytest.approx(cosine, abs=2e-3)
        products = LARGE.double() * B.double()
        exact = math.fsum(products.flatten().tolist())  # the sum of a clone must be its square
        squares = (M.double().square().flatten().tolist() for M in (LARGE, B))
        exact /= math.prod(math.sqrt(math.fsum(entries)) for entries in squares)
        found = seen["copy cosine"]
        assert found.low - 1e-15 <= exact <= found.high + 1e-15
        assert found.high <= 1
        assert (found.low == 1) is torch.equal(LARGE, B)  # no multiple is an exact copy
    for B in (LARGE.flip(0), 0 * LARGE, LARGE + 0.2 * LARGE.flip(0)):
        assert held(LARGE, B, kind="copy") == ({}, set())


@pytest.mark.parametrize("shape", [(40, 40), (40, 30), (1, 7)])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("factor", [1, 3])
def test_copies_may_be_turned_and_of_the_opposite_sign(shape, sign, turned, factor):
    A = torch.randn(shape, generator=fresh())
    B = sign * factor * (A.mT.contiguous() if turned else A)
    (found,) = hold(pair(A, B, "copy", frozenset({"copy cosine"})), A, B)
    assert found.form == ("turned" if turned else "")
    assert found.estimate.value == pytest.approx(sign)
    assert (abs(found.estimate.low) == abs(found.estimate.high) == 1) is (factor == 1)
    other = torch.randn(B.shape, generator=fresh(1))
    assert not [*hold(pair(A, other, "copy", frozenset({"copy cosine"})), A, other)]


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e200])
def test_copies_are_told_whatever_their_size(size):
    A = size * LARGE.double()
    assert held(A, A.clone(), kind="copy")[0]["copy cosine"].value == pytest.approx(1)


def met(A, B, wanted=frozenset({"alignment", "unit imbalance"})):
    ends = [ends_alone(task(M, paired=True), M) for M in (A, B)]
    items = [*meet(pair(A, B, "meet", wanted), *ends)]
    return {i.quantity: i.estimate for i in items if isinstance(i, Reading)}, items


@pytest.mark.parametrize("size", [1.0, 1e-200, 1e200])
@pytest.mark.parametrize("seed", range(4))
def test_layers_that_meet_are_aligned_as_their_vectors_are(size, seed):
    g = fresh(seed)
    first, second = (torch.randn(s, generator=g).double() for s in ((40, 30), (20, 40)))
    if seed:
        near = torch.linalg.svd(first)[0][:, 0] + 0.2 * torch.randn(40, generator=g).double()
        second = second + 10 * seed * torch.randn(20, generator=g).double().outer(near)
    seen, _ = met(size * first, second)
    u, v = torch.linalg.svd(first)[0][:, 0], torch.linalg.svd(second)[2][0]
    aligned = float(u @ v) ** 2
    assert seen["alignment"].low <= aligned <= seen["alignment"].high
    assert seen["alignment"].high - seen["alignment"].low < 1e-3
    rows, cols = (size * first).norm(dim=1), second.norm(dim=0)
    if size == 1:
        rows, cols = rows.square(), cols.square()
        apart = float((rows - cols).abs().sum() / (rows.sum() + cols.sum()))
    else:
        apart = 1.0
    found = seen["unit imbalance"]
    assert found.low <= apart <= found.high <= 1
    assert found.high - found.low < 1e-12


def test_balanced_layers_have_no_imbalance():
    A = LARGE.double()
    found = met(A, A.mT)[0]
    assert found["unit imbalance"].value < 1e-13
    assert found["unit imbalance"].low == 0
    assert found["alignment"].value == pytest.approx(1, abs=1e-6)
    huge = 1e200 * A
    assert met(huge, huge.mT)[0]["unit imbalance"].value < 1e-13


@pytest.mark.parametrize("by", [0.3, 5.0])
def test_layers_meet_alike_in_any_unit(by):
    first, second = (torch.randn(40, 40, generator=fresh(i)).double() for i in range(2))
    plain = met(first, by * second)[0]
    for unit in (2.0**-600, 2.0**600):
        far = met(unit * first, unit * by * second)[0]
        for name in plain:
            assert far[name].value == pytest.approx(plain[name].value, rel=1e-6)


def test_layers_of_which_one_is_zero_do_not_meet():
    for A, B in ((LARGE, torch.zeros(5, 300)), (torch.zeros(300, 5), LARGE.mT)):
        seen, items = met(A, B)
        assert not seen
        (skipped,) = items
        assert skipped.why == "one of them is exactly zero, or not finite"
    assert {*met(LARGE, LARGE.mT, frozenset({"alignment"}))[0]} == {"alignment"}


def many(count, shape=(40, 30), seed=0):
    return list(torch.randn(count, *shape, generator=fresh(seed)).unbind())


def pairs_of(matrices, start=0, left_out=()):
    tasks = [task(A, index=i) for i, A in enumerate(matrices)]
    drawn = {i: sketch(A) for i, A in enumerate(matrices) if i not in left_out}
    return candidates(tasks, drawn, start=start)


def places(pairs):
    return sorted((p.tasks[0].index, p.tasks[1].index) for p in pairs)


@pytest.mark.slow
def test_copies_and_near_copies_and_nothing_else_are_found_among_two_thousand():
    matrices = many(2000)
    planted = {1999: 3, 1500: 20, 1024: 1023, 1023 + 500: 777, 40: 39}
    for i, (later, first) in enumerate(planted.items()):
        off = torch.randn(40, 30, generator=fresh(5000 + i))
        matrices[later] = matrices[first] + (0.1 * off if i % 2 else 0)  # cosine 0.995
    assert places(pairs_of(matrices)) == sorted((b, a) for a, b in planted.items())


def test_every_copy_is_held_against_the_first_of_its_kind():
    A, B = many(2)
    assert places(pairs_of([A, B, A, A, B, 2 * A])) == [(0, 2), (0, 3), (0, 5), (1, 4)]


def test_the_table_in_blocks_is_the_whole_table(monkeypatch):
    matrices = many(60)
    for i in (7, 30, 31, 59):
        matrices[i] = matrices[2]
    whole = places(pairs_of(matrices))
    monkeypatch.setattr(against, "ROWS", 7)
    assert places(pairs_of(matrices)) == whole == [(2, 7), (2, 30), (2, 31), (2, 59)]


def test_opposites_and_transposes_are_copies_and_zeros_and_other_shapes_none():
    A, B = many(2)
    zero = torch.zeros(40, 30)
    assert places(pairs_of([A, -A, A.mT.contiguous(), -2 * A.mT, zero, zero])) == [
        (0, 1),
        (0, 2),
        (0, 3),
    ]
    assert pairs_of([A, B.mT, A[:, :29], A.flip(0), A.reshape(30, 40)]) == []


def test_transposes_and_opposites_are_found_among_many():
    matrices = many(400, shape=(30, 30))
    planted = {399: 3, 300: 20, 204: 203, 323: 177}
    for i, (later, first) in enumerate(planted.items()):
        off = 0.1 * torch.randn(30, 30, generator=fresh(5000 + i))
        matrices[later] = (-1) ** i * matrices[first].mT + off
    assert places(pairs_of(matrices)) == sorted((b, a) for a, b in planted.items())


def test_matrices_without_a_sketch_are_left_out():
    A = many(1)[0]
    assert places(pairs_of([A, A, A], left_out={0})) == [(1, 2)]


def test_a_pair_says_what_it_is():
    A = many(1)[0]
    (pair,) = pairs_of([A, A], start=17)
    assert (pair.index, pair.kind, pair.site) == (17 + 0 * 2 + 1, "copy", "w0 = w1")
    assert pair.wanted == {"copy cosine"}
    assert pair.work > 0


def test_places_are_those_of_the_plan_also_where_other_shapes_lie_between():
    A, other = many(1)[0], torch.ones(5, 4)
    found = pairs_of([other, A, many(1, (7, 9))[0], A, other], start=4)
    assert places(found) == [(0, 4), (1, 3)]
    assert sorted(p.index for p in found) == [4 + 0 * 5 + 4, 4 + 1 * 5 + 3]


def test_tasks_need_not_be_all_of_a_plan():
    A, B = many(2)
    tasks = [task(M, index=i) for i, M in ((5, A), (9, B), (40, A))]
    drawn = {t.index: sketch(M) for t, M in zip(tasks, (A, B, A), strict=True)}
    assert places(candidates(tasks, drawn, start=0)) == [(5, 40)]


G = torch.Generator().manual_seed(4)
NAMES = ("layers.0.q_proj", "layers.1.q_proj")
BASE = {f"model.{name}.weight": torch.randn(48, 32, generator=G) for name in NAMES}
LEFT = {name: 0.3 * torch.randn(48, 4, generator=G) for name in NAMES}
RIGHT = {name: torch.randn(4, 32, generator=G) for name in NAMES}


@pytest.fixture
def adapter(tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    save_file(
        {f"base_model.model.model.{n}.lora_A.weight": RIGHT[n] for n in NAMES}
        | {f"base_model.model.model.{n}.lora_B.weight": LEFT[n] for n in NAMES},
        folder / "adapter_model.safetensors",
    )
    save_file(BASE | {"model.head.weight": torch.ones(9, 9)}, tmp_path / "base.safetensors")
    return folder


def values_of(found):
    return {(r.site, r.quantity): r.estimate.value for r in found.readings}


def test_alone_it_is_the_product(adapter):
    found = scan(adapter)
    for name in NAMES:
        dense = torch.linalg.svdvals((2.0 * LEFT[name] @ RIGHT[name]).double())
        value = values_of(found)[f"model.{name}.weight", "spectral norm"]
        assert value == pytest.approx(float(dense[0]), rel=1e-6)
        assert values_of(found)[f"model.{name}.weight", "matrix rank"] == 4


def test_on_its_base_it_is_the_merged_weight(adapter, tmp_path):
    merged = {
        f"model.{n}.weight": BASE[f"model.{n}.weight"] + 2.0 * LEFT[n] @ RIGHT[n] for n in NAMES
    }
    ours = values_of(scan(tmp_path / "base.safetensors", against=adapter))
    theirs = values_of(scan(BASE, against=merged))
    # merged in steps of single precision, of which the change of another has more directions
    rank = lambda read: [read.pop((f"model.{n}.weight", "change rank")) for n in NAMES]
    assert rank(ours) == [4, 4]
    assert min(rank(theirs)) >= 4
    assert set(ours) == set(theirs)
    assert len(ours) >= 2 * 7
    for key, value in ours.items():
        assert value == pytest.approx(theirs[key], rel=1e-3, abs=1e-6), key


@pytest.mark.parametrize("size", [0.01, 1, 100])
@pytest.mark.parametrize("taps", [(), (3, 3)])
def test_its_change_has_its_rank_whatever_its_size(tmp_path, size, taps):
    A, B = torch.randn(4, 48, *taps, generator=G), torch.randn(64, 4, generator=G)
    folder = tmp_path / "adapter"
    folder.mkdir()
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 4 * size}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    pair = {"lora_A": A, "lora_B": B[..., None, None] if taps else B}
    save_file(
        {f"base_model.model.c.{n}.weight": t.contiguous() for n, t in pair.items()},
        folder / "adapter_model.safetensors",
    )
    base = {"c.weight": torch.randn(64, 48, *taps, generator=G)}
    found = scan(base, against=folder)
    change = size * B.double() @ A.double().flatten(1)
    assert values_of(found)["c.weight", "change rank"] == 4
    assert values_of(found)["c.weight", "change size"] == pytest.approx(float(change.norm()))
    assert "low-rank-change" in {f.name for f in scan_findings(found)}


def test_what_it_does_not_touch_is_said(adapter, tmp_path):
    save_file({"model.layers.0.q_proj.weight": torch.ones(48, 30)}, tmp_path / "other.safetensors")
    found = scan(tmp_path / "base.safetensors", against=adapter)
    assert ("model.head.weight", "the adapter leaves it as it is") in {
        (s.site, s.why) for s in found.plan.skipped
    }
    said = {
        s.site: s.why for s in scan(tmp_path / "other.safetensors", against=adapter).plan.skipped
    }
    assert "shape [48, 30]" in said["model.layers.0.q_proj.weight"]
    assert "no weight of that name" in said["model.layers.1.q_proj.weight"]


def saved_adapter(folder, model, **settings):
    """An adapter that PEFT made and saved; the names and values of the weights that it merges."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=2, lora_alpha=8, **settings))
    with torch.no_grad():
        for name, p in tuned.named_parameters():
            if "lora_" in name:
                p.normal_()
    tuned.save_pretrained(folder)
    return {k: v.clone() for k, v in tuned.merge_and_unload().state_dict().items()}


def gpt2():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        n_layer=1, n_embd=24, n_head=2, vocab_size=24, n_positions=16, tie_word_embeddings=False
    )
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.filterwarnings("ignore")  # PEFT mends `fan_in_fan_out` as it goes, and says so
@pytest.mark.parametrize(
    "targets",
    [["c_proj"], ["c_attn", "c_fc"], ["c_proj", "lm_head"], ["lm_head", "c_attn"], ["wte"]],
)
@pytest.mark.parametrize("inward", [True, False])
def test_what_lies_transposed_is_changed_transposed(tmp_path, targets, inward):
    """Square weights too, of which the shape does not tell."""
    before = {k: v.clone() for k, v in gpt2().state_dict().items()}
    (tmp_path / "base").mkdir()
    base = gpt2()
    base.save_pretrained(tmp_path / "base")
    after = saved_adapter(tmp_path / "tuned", base, target_modules=targets, fan_in_fan_out=inward)
    ours = values_of(scan(tmp_path / "base", against=tmp_path / "tuned", effort="full"))
    moved = {k for k, v in after.items() if k in before and not torch.equal(v, before[k])}
    assert moved
    for name in moved:
        change = torch.linalg.matrix_norm((after[name] - before[name]).double())
        size = torch.linalg.matrix_norm(before[name].double())
        found = {site: v for (site, q), v in ours.items() if q == "relative change"}
        (site,) = (s for s in found if name.endswith(s) or s.endswith(name))
        assert found[site] == pytest.approx(float(change / size), rel=1e-3)
        angle = {s: v for (s, q), v in ours.items() if q == "best scale"}[site]
        inner = (before[name].double() * after[name].double()).sum()
        assert angle == pytest.approx(float(inner / size**2), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("start", "declined"),
    [
        ("pissa", True),
        ("pissa_niter_4", True),
        ("olora", True),
        ("corda", True),
        ("loftq", True),
        ("lora_ga", True),
        ("gaussian", False),
        ("orthogonal", False),
        (True, False),
        (None, False),
    ],
)
def test_starts_that_change_the_base_are_declined(adapter, tmp_path, start, declined):
    file = adapter / "adapter_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps(settings | {"init_lora_weights": start}))
    found = scan(tmp_path / "base.safetensors", against=adapter)
    whys = [s.why for s in found.plan.skipped if "changes the base as well" in s.why]
    assert len(whys) == (len(NAMES) if declined else 0)
    assert bool(found.readings) is not declined
    assert len(scan(adapter).series("spectral norm")) == len(NAMES)  # alone it is what it is


class Ready(Cut):
    """A cut that is read already."""

    def __init__(self, A):
        object.__setattr__(self, "A", A)

    def read(self):
        return self.A


def measured(B, A, scaling=1.0, **more):
    like = torch.zeros(B.shape[0], A.shape[1], dtype=B.dtype)
    return measure_product(task(like, **more), Product(Ready(B), Ready(A), scaling))


def factors(m, r, n, dtype=torch.float32, seed=0):
    g = fresh(seed)
    return torch.randn(m, r, generator=g).to(dtype), torch.randn(r, n, generator=g).to(dtype)


CASES = {
    "usual": factors(60, 8, 40),
    "half precision": factors(60, 4, 40, torch.bfloat16),
    "one direction": factors(50, 1, 40),
    "inner side larger": factors(6, 9, 5),
    "a row": factors(1, 3, 20),
    "graded": (factors(60, 8, 40)[0] * torch.logspace(0, -6, 8), factors(60, 8, 40)[1]),
    "dependent factors": (torch.ones(30, 4), factors(30, 4, 20)[1]),
    "tiny": tuple(1e-30 * M for M in factors(30, 4, 20)),
    "float64 at 1e200": tuple(1e200 * M.double() for M in factors(30, 4, 20)),
    "of two scales": tuple(
        size * M.double() for size, M in zip((1e200, 1e-250), factors(30, 4, 20), strict=True)
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("scaling", [2.0, -0.25])
def test_every_number_holds_that_of_the_product(case, scaling):
    B, A = CASES[case]
    found = measured(B, A, scaling)
    seen = {r.quantity: r.estimate for r in found.readings}
    if case == "float64 at 1e200":  # the product is beyond float64
        assert seen["spectral norm"].value == float("inf")
        B, A = B / 1e200, A / 1e200
        seen = {k: v for k, v in seen.items() if not quantity(k).unit}
    P = scaling * (B.double() @ A.double())
    for name, value in dense(P).items():
        if name in seen and name != "participation ratio":
            slack = 1e-12 * abs(value)
            assert seen[name].low - slack <= value <= seen[name].high + slack, name
            q = quantity(name)
            assert q.least <= seen[name].low <= seen[name].high <= q.most
    if case != "float64 at 1e200":
        s, exact = found.spectrum.spectrum, spectrum(P, route="exact")
        assert s.complete
        assert (s.low <= exact.high).all()
        assert (exact.low <= s.high + exact.high[0] * 1e-15).all()


def test_values_behind_the_inner_side_are_exactly_zero():
    s = measured(*factors(60, 8, 40)).spectrum.spectrum
    assert (s.sigma[:8] > 0).all()
    assert s.high[8:].eq(0).all()
    assert s.sigma.shape == (40,)


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_missing_without_a_word(case):
    found = measured(*CASES[case])
    said = {w for s in found.skipped for w in s.what.split(", ")}
    assert {r.quantity for r in found.readings} | (said - QUIET) == EVERY - PAIRS - QUIET


def test_a_product_that_is_zero_says_so():
    B, A = factors(20, 4, 10)
    for zero in (measured(0 * B, A), measured(B, 0 * A), measured(B, A, 0.0)):
        assert {r.quantity: r.estimate.value for r in zero.readings} == {
            "spectral norm": 0,
            "Frobenius norm": 0,
        }
        assert [s.why for s in zero.skipped] == ["it is exactly zero, as before training"]


def test_factors_that_are_not_finite_are_counted():
    B, A = factors(20, 4, 10)
    B[0, 0], A[1, 1], A[2, 2] = float("nan"), float("inf"), -float("inf")
    found = measured(B, A)
    (only,) = found.readings
    assert (only.quantity, only.estimate.value) == ("non-finite entries", 3)
    assert [s.why for s in found.skipped] == ["its factors are not finite"]
    assert found.spectrum is None


def test_what_is_not_asked_for_is_not_there():
    found = measured(*factors(20, 4, 10), wanted=frozenset({"stable rank"}), spectra=False)
    assert [r.quantity for r in found.readings] == ["stable rank"]
    assert found.spectrum is None
    assert found.sketch is None
