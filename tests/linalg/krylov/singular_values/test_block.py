import itertools
import math

import pytest
import torch
from hypothesis import given, strategies as st
from zoo import MATRICES, fresh

from sigmascope.linalg.krylov import Operator, leading
from sigmascope.linalg.krylov.singular_values import RISK, missed
from sigmascope.linalg.spectra import spectrum

SMALL = {"few": {"block": 2, "steps": 3}, "one": {"block": 3, "steps": 1}, "usual": {}}


def require_inside(found, exact):
    """Fail where an interval misses the one of the dense route."""
    k = len(found.sigma)
    assert found.sigma.isfinite().all()
    assert (found.low <= found.sigma).all()
    assert (found.sigma <= found.high).all()
    assert (found.low <= exact.high[:k]).all()
    assert (exact.low[:k] <= found.high).all()


def require_orthonormal(X, tolerance):
    X = X.double()
    assert (X.mT @ X - torch.eye(X.shape[1])).abs().max() < tolerance


@pytest.mark.parametrize("case", MATRICES)
@pytest.mark.parametrize("run", SMALL)
def test_intervals_hold_the_singular_values(case, run):
    A = MATRICES[case]
    exact = spectrum(A, route="exact")
    for B in (A, Operator.of(A.double())):
        for vectors in (0, None):
            found = leading(B, **SMALL[run], vectors=vectors, generator=fresh(1))
            require_inside(found.spectrum, exact)
            assert found.spectrum.shape == tuple(A.shape)


@pytest.mark.parametrize("case", MATRICES)
def test_vectors_are_orthonormal_whatever_the_rank(case):
    A = MATRICES[case]
    found = leading(A, block=4, steps=4, generator=fresh())
    tolerance = 1e-12 if A.dtype == torch.float64 else 1e-5
    require_orthonormal(found.left, tolerance)
    require_orthonormal(found.right, tolerance)


KINDS = st.sampled_from(["graded", "clustered", "repeated", "deficient", "random"])
SIDE = st.integers(1, 24)
STORED = st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16])


def made(kind, m, n, seed):
    """A matrix with singular values of a kind."""
    k, draw = min(m, n), fresh(seed)
    values = {
        "graded": torch.logspace(0, -14, k),
        "clustered": 1 + 1e-5 * torch.rand(k, generator=draw),
        "repeated": torch.ones(k),
        "deficient": (torch.arange(k) < (k + 1) // 2).float(),
        "random": torch.rand(k, generator=draw),
    }[kind]
    U, V = (
        torch.linalg.qr(torch.randn(s, k, generator=draw, dtype=torch.float64))[0] for s in (m, n)
    )
    return U * values.double() @ V.mT


@given(KINDS, SIDE, SIDE, STORED, st.integers(-148, 126), st.integers(1, 6), st.integers(1, 5))
def test_intervals_hold_whatever_the_spectrum_the_scale_and_the_format(
    kind, m, n, dtype, power, block, steps
):
    A = (made(kind, m, n, power % 7) * 2.0 ** (power // 2) * 2.0 ** (power - power // 2)).to(dtype)
    if not A.isfinite().all():
        A = A.sign().nan_to_num()
    exact = spectrum(A, route="exact")
    found = leading(A, block=block, steps=steps, generator=fresh(steps))
    require_inside(found.spectrum, exact)
    assert found.left.isfinite().all()
    assert found.right.isfinite().all()


@pytest.mark.parametrize("size", [1e-44, 1e-38, 3e38])
def test_the_ends_of_single_precision_are_no_edge(size):
    A = torch.randn(30, 20, generator=fresh()).clamp(-1, 1) * size
    found, exact = leading(A, generator=fresh()), spectrum(A, route="exact")
    require_inside(found.spectrum, exact)
    assert found.spectrum.high[0] < found.spectrum.low[0] * (1 + 1e-3)
    require_orthonormal(found.left, 1e-5)


def test_an_energy_that_float64_cannot_hold_is_summed_here():
    A = MATRICES["float64 at 1e-200"]
    exact = spectrum(A, route="exact")
    for energy in (0.0, 5e-324):  # what is left of its squares
        found = leading(A, energy=energy, block=2, steps=2, generator=fresh()).spectrum
        require_inside(found, exact)
        assert found.high[0] < 2 * exact.sigma[0]


def test_the_energy_narrows_what_a_matrix_and_an_operator_say():
    A = torch.diag(torch.tensor([3.0, 2.0, *[1e-3] * 40], dtype=torch.float64))
    energy = float(A.square().sum()) * (1 + 1e-12)
    brief = {"block": 3, "steps": 2, "vectors": 0}
    own = leading(A, **brief, generator=fresh()).spectrum
    given_ = leading(Operator.of(A), energy=energy, **brief, generator=fresh()).spectrum
    unknown = leading(Operator.of(A), **brief, generator=fresh()).spectrum
    torch.testing.assert_close(own.high, given_.high, rtol=1e-6, atol=0)
    assert own.high[0] < math.sqrt(13.001)
    assert own.high[2] < 0.1
    assert unknown.high.isinf().all()


@pytest.mark.parametrize("block", [4, 6, 9])
def test_half_as_many_values_as_a_block_has_vectors_have_an_upper_end_of_their_own(block):
    """The others of an operator of unknown energy have that of the last of these."""
    A = torch.diag(0.5 ** torch.arange(200.0, dtype=torch.float64))
    s = leading(Operator.of(A), block=block, steps=8, vectors=0, generator=fresh()).spectrum
    own, wide = block // 2, {"size": 200, "block": block, "steps": 8}
    for i in range(own):
        room = math.sqrt(1 - missed(i + 1, risk=RISK / own, **wide))
        assert s.high[i].item() == pytest.approx(s.sigma[i].item() / room, rel=1e-9)
    assert (s.high[own : own + 3] == s.high[own - 1]).all()
    narrow = Operator.of(A.float())  # what rounding may hide of a value is above it
    s = leading(narrow, block=block, steps=8, vectors=0, generator=fresh()).spectrum
    for i in range(own):
        room = math.sqrt(1 - missed(i + 1, risk=RISK / own, **wide))
        assert s.high[i] * room > s.sigma[i] * (1 + 1e-6)


def test_values_and_vectors_belong_together():
    for shape in ((60, 40), (40, 60)):
        A = torch.randn(shape, generator=fresh(), dtype=torch.float64)
        found = leading(A, block=8, steps=5, generator=fresh())
        residual = A @ found.right - found.left * found.spectrum.sigma
        if shape[0] < shape[1]:  # the side that is multiplied is the other one
            residual = A.mT @ found.left - found.right * found.spectrum.sigma
        assert residual.abs().max() < 1e-12
        single = leading(A.float(), generator=fresh())
        k = 5
        rest = (
            A @ single.right[:, :k].double()
            - single.left[:, :k].double() * (single.spectrum.sigma[:k])
        )
        assert torch.linalg.matrix_norm(rest, 2) < 2e-6 * single.spectrum.sigma[0]


def test_as_many_values_and_vectors_as_are_asked_for():
    A = torch.randn(50, 30, generator=fresh())
    found = leading(A, count=5, vectors=3, generator=fresh())
    assert len(found.spectrum.sigma) == 5
    assert found.left.shape == (50, 3)
    assert found.right.shape == (30, 3)
    none = leading(A, count=99, vectors=0, generator=fresh())
    assert len(none.spectrum.sigma) == 30
    assert none.left.shape == (50, 0)
    again = leading(A, vectors=99, generator=fresh())
    assert again.left.shape == (50, 30)
    torch.testing.assert_close(again.spectrum.sigma, none.spectrum.sigma, rtol=1e-10, atol=0)


def test_more_steps_claim_more():
    A = torch.randn(300, 200, generator=fresh(), dtype=torch.float64)
    runs = [leading(A, steps=k, vectors=0, generator=fresh()).spectrum for k in (3, 6, 9, 13)]
    widths = [float(s.high[0] - s.low[0]) for s in runs]
    assert all(b < a for a, b in itertools.pairwise(widths))
    assert not runs[-2].complete
    assert runs[-2].risk == RISK
    assert runs[-1].complete
    assert runs[-1].risk == 0
    assert widths[-1] < 1e-11


def test_a_wide_space_bounds_half_a_block_by_chance_and_the_rest_by_those():
    A = Operator.of(torch.randn(600, 500, generator=fresh(), dtype=torch.float64))
    s = leading(A, vectors=0, generator=fresh()).spectrum
    excess = s.high[:8] / s.sigma[:8]
    assert ((excess > 1.01) & (excess < 1.12)).all()
    assert (s.high[8:] == s.high[7]).all()


def spread(size, gap):
    """One value above an interval that is filled: the hardest for a polynomial."""
    return torch.cat([torch.ones(1), torch.linspace(1 - gap, 0, size - 1)]).double().sqrt()


@pytest.mark.parametrize(("block", "steps"), [(2, 3), (2, 6), (4, 4), (6, 5)])
@pytest.mark.parametrize("risk", [0.5, 0.1])
def test_no_block_misses_more_than_chance_allows(block, steps, risk):
    sigma = spread(120, 0.1)
    A = Operator.of(torch.diag(sigma))
    most = [missed(i + 1, size=120, block=block, steps=steps, risk=risk) for i in range(block // 2)]
    short = torch.stack(
        [
            1
            - leading(A, block=block, steps=steps, vectors=0, generator=fresh(seed))
            .spectrum.sigma[: block // 2]
            .div(sigma[: block // 2])
            .square()
            for seed in range(60)
        ]
    )
    assert ((short > torch.tensor(most)).double().mean(0) <= risk).all()
    assert short.amax() > most[0] / 12  # the bound is not far from what happens


def test_the_shortfall_that_is_allowed_for():
    usual = {"size": 4096, "block": 16, "steps": 12}
    assert missed(1, **usual) == pytest.approx(0.1083, abs=1e-3)
    assert missed(8, **usual) == pytest.approx(0.1555, abs=1e-3)
    assert missed(1, **{**usual, "steps": 400}) < 1e-3
    assert missed(1, **{**usual, "steps": 1}) > 1
    assert missed(1, **usual, risk=1e-2) < missed(1, **usual) < missed(1, **usual, risk=1e-9)
    assert [missed(i, **usual) for i in range(1, 9)] == sorted(
        missed(i, **usual) for i in range(1, 9)
    )


def test_low_precision_operators_claim_less():
    A = torch.randn(40, 30, generator=fresh(), dtype=torch.float64)
    widths = []
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        B = A.to(dtype)
        s = leading(Operator.of(B), vectors=0, generator=fresh()).spectrum
        require_inside(s, spectrum(B, route="exact"))
        widths.append(float(s.high[0] - s.low[0]))
    assert widths[0] < 1e-11 < widths[1] < 0.02 < widths[2]


def test_counts_products():
    calls = []
    A = torch.randn(90, 70, generator=fresh(), dtype=torch.float64)
    spy = Operator(
        (90, 70),
        lambda x: calls.append(x.shape[1]) or A @ x,
        lambda y: calls.append(-y.shape[1]) or A.mT @ y,
        A,
    )
    leading(spy, block=4, steps=3, generator=fresh())
    assert calls == [4, -4, 4, -4, 4]


def test_derivatives_are_not_kept():
    A = torch.randn(9, 7, generator=fresh(), requires_grad=True)
    assert not leading(A, generator=fresh()).left.requires_grad
    assert not leading(Operator.of(A), generator=fresh()).left.requires_grad


@pytest.mark.parametrize("size", [1e-28, 1e-12, 1e9, 1e22, 1e33])
@pytest.mark.parametrize("door", [torch.Tensor.clone, Operator.of])
def test_spaces_grow_the_same_at_any_scale_of_single_precision(size, door):
    A = torch.randn(300, 250, generator=fresh()) * torch.logspace(0, -3, 250)
    power = 2.0 ** round(math.log2(size))
    one, other = (leading(door(B), generator=fresh()).spectrum for B in (A, A * power))
    torch.testing.assert_close(other.sigma[:9] / power, one.sigma[:9], rtol=1e-5, atol=0)
