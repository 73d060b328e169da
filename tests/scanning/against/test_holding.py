import math

import pytest
import torch
from zoo import MATRICES, NOT_FINITE, fresh

from sigmascope.quantities import quantity
from sigmascope.records import Reading
from sigmascope.scanning.against import hold, meet
from sigmascope.scanning.measuring import ends_alone
from tests.scanning.made import pair, task

CHANGES = frozenset(
    {
        "relative change", "best scale", "turned change", "change norm", "change stable rank",
        "change spikes", "largest angle", "intruders",
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


def dense(A, B):
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
    }
    if s[0] == 0:
        return ref
    ref["change stable rank"] = float(s.square().sum() / s[0] ** 2)
    k = min(10, min(A.shape) // 2)
    if k == 0:
        return ref
    (U, a, V), (X, b, Y) = (torch.linalg.svd(M, full_matrices=False) for M in (A, B))
    if all(v[k - 1] - v[k] > 1e-9 * v[0] for v in (a, b)):
        widest = max(sine(U[:, :k], X[:, :k]), sine(V[:k].mT, Y[:k].mT))
        ref["largest angle"] = math.asin(widest)
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
    for name, value in dense(A, B).items():
        assert name in seen or name in said
        if name in seen:
            slack = 1e-13 * abs(value)
            assert seen[name].low - slack <= value <= seen[name].high + slack, name
    for name, estimate in seen.items():
        q = quantity(name)
        assert q.least <= estimate.low <= estimate.high <= q.most, name
        assert math.isfinite(estimate.value)
    assert CHANGES - {*seen} == said
    for name in ("relative change", "turned change", "change norm", "change stable rank"):
        if name in seen:
            assert seen[name].high - seen[name].low < 0.12 * seen[name].value + 1e-6


def test_equal_versions_have_not_changed():
    seen, said = held(LARGE, LARGE.clone())
    assert seen["best scale"].value == pytest.approx(1)
    assert [seen[n].value for n in ("relative change", "turned change", "change norm")] == [0] * 3
    assert said == {"change stable rank", "change spikes", "largest angle", "intruders"}


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
    assert seen["intruders"].value == dense(LARGE, B).get("intruders", 4) >= 3
    assert seen["largest angle"].value > 1.3


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


def test_layers_of_which_one_is_zero_do_not_meet():
    for A, B in ((LARGE, torch.zeros(5, 300)), (torch.zeros(300, 5), LARGE.mT)):
        seen, items = met(A, B)
        assert not seen
        (skipped,) = items
        assert skipped.why == "one of them is exactly zero, or not finite"
    assert {*met(LARGE, LARGE.mT, frozenset({"alignment"}))[0]} == {"alignment"}
