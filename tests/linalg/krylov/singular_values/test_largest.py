import math

import pytest
import torch
from hypothesis import given, strategies as st
from zoo import MATRICES, fresh

from sigmascope.linalg.krylov.singular_values import largest, short_of


def norm_of(A):
    top = A.double().abs().max()
    return float(torch.linalg.matrix_norm(A.double() / top, 2) * top) if top > 0 else 0.0


@pytest.mark.parametrize("case", MATRICES)
def test_never_above_and_in_a_few_dozen_steps_close(case):
    A = MATRICES[case]
    found, truth = largest(A, steps=40, generator=fresh()), norm_of(A)
    rounding = 1e-12 if A.dtype == torch.float64 else 1e-5
    assert 0 <= found <= truth * (1 + rounding) + 2.0**-1074
    assert found >= 0.98 * truth


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(0, 10**6),
    st.integers(-30, 30),
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
)
def test_below_whatever_the_shape_the_scale_and_the_steps(m, n, steps, seed, power, dtype):
    A = (torch.randn(m, n, generator=fresh(seed)) * 2.0**power).to(dtype)
    found, truth = largest(A, steps=steps, generator=fresh(seed)), norm_of(A)
    assert found <= truth * (1 + 1e-5)
    if steps >= min(m, n):
        assert found == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("shape", [(400, 400), (150, 900), (900, 150), (2000, 300)])
@pytest.mark.parametrize("steps", [14, 24])
def test_how_far_below_the_edge_of_noise_is_foretold(shape, steps):
    factors = []
    for seed in range(5):
        A = torch.randn(shape, generator=fresh(seed))
        factors.append(norm_of(A) / largest(A, steps=steps, generator=fresh(seed + 9)))
    assert 1 - 1e-5 < max(factors) <= short_of(steps)
    assert short_of(steps) - 1 < 20 / steps**2


def test_more_steps_allow_for_less():
    allowed = [short_of(steps) for steps in range(1, 60)]
    assert allowed == sorted(allowed, reverse=True)
    assert all(x > 1 and math.isfinite(x) for x in allowed)
