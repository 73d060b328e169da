import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from zoo import MATRICES, NOT_FINITE, fresh

from sigmascope.linalg.dense import tamed
from sigmascope.linalg.entries import LIMITS, _Seen, entries

STORED = {name: getattr(torch, name) for name in LIMITS}


def stored(A):
    return str(A.dtype).removeprefix("torch.")


@pytest.mark.parametrize("case", MATRICES)
def test_sums_are_those_of_numpy(case):
    A = MATRICES[case]
    X, power = tamed(A)
    seen = entries(A, stored(A), power=power)
    D = X.double().numpy()
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12)
    close(seen.rows, (D**2).sum(1))
    close(seen.cols, (D**2).sum(0))
    assert seen.energy.low <= math.fsum((D**2).flat) <= seen.energy.high
    assert seen.mean.low <= math.fsum(D.flat) / D.size <= seen.mean.high
    assert seen.largest == abs(D).max()
    exact = A.double().numpy()
    assert seen.zeros == (exact == 0).sum()
    assert seen.empty == ((exact == 0).all(1).sum(), (exact == 0).all(0).sum())
    assert seen.count == D.size
    assert seen.odd == 0
    assert seen.spread.low <= D.std() * (1 + 1e-12)
    assert D.std() * (1 - 1e-12) <= seen.spread.high
    assert seen.rms == pytest.approx(math.sqrt((D**2).mean()), rel=1e-12)


@pytest.mark.parametrize("case", NOT_FINITE)
def test_what_is_not_finite_is_counted(case):
    A = NOT_FINITE[case]
    assert entries(A, stored(A)).odd == 1
    B = torch.full((700, 600), 2.0)  # of several panels
    B[3, 5] = B[650, 7] = math.inf
    B[600, 1] = math.nan
    assert entries(B, "float32").odd == 3


@pytest.mark.parametrize("name", STORED)
def test_the_ends_of_every_format_are_counted(name):
    dtype, info = STORED[name], torch.finfo(STORED[name])
    A = torch.ones(5, 4, dtype=dtype)
    A[0, 0], A[0, 1], A[1, 0] = info.max, info.min, info.max / 2
    A[2, 0], A[2, 1], A[2, 2] = info.tiny, info.tiny / 2, -info.tiny / 4
    A[3, :3] = 0
    seen = entries(A, name, power=tamed(A)[1])
    assert (seen.saturated, seen.subnormal, seen.zeros) == (2, 2, 3)
    unknown = entries(A, "unheard of", power=tamed(A)[1])
    assert (unknown.saturated, unknown.subnormal, unknown.zeros) == (0, 0, 3)


def test_a_small_row_is_not_an_empty_one():
    A = torch.ones(4, 3, dtype=torch.float64)
    A[1], A[2] = 1e-200, 0
    A[:, 1] *= 1e-180
    assert entries(A, "float64").empty == (1, 0)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(list(STORED)), st.integers(1, 400))
def test_panels_change_nothing(m, n, name, panel):
    A = torch.randn(m, n, generator=fresh(m * n)).to(STORED[name])
    whole = entries(A, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sigmascope.linalg.entries.PANEL", panel)
        parts = entries(A, name)
    torch.testing.assert_close(parts.rows, whole.rows, rtol=1e-14, atol=0)
    torch.testing.assert_close(parts.cols, whole.cols, rtol=1e-13, atol=0)
    assert parts.zeros == whole.zeros
    assert parts.largest == whole.largest
    assert parts.energy.value == pytest.approx(whole.energy.value, rel=1e-13)


def test_a_spread_that_may_be_rounding_is_not_told_from_none():
    assert entries(torch.full((50, 40), 0.1), "float32").spread.low == 0
    near = entries(1e4 + torch.randn(50, 40, generator=fresh()), "float32").spread
    assert 0.9 < near.low < near.high < 1.1


@pytest.mark.parametrize("shape", [(2048, 1024), (3, 2**18), (5, 2**18 + 1)])
def test_no_more_is_copied_at_once_than_the_cache_holds(shape, monkeypatch):
    """Two panels in float64 are 4 MiB, unless a single row is more."""
    sizes, read = [], _Seen.read
    monkeypatch.setattr(_Seen, "read", lambda own, p: (sizes.append(p.numel()), read(own, p)))
    entries(torch.ones(1).expand(shape), "float32")
    assert max(sizes) == max(2**18, shape[1])
