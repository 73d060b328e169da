import pytest
import torch
from zoo import MATRICES, NOT_FINITE, fresh

from sigmascope.linalg import frobenius_norm, spectral_norm
from sigmascope.linalg.krylov import (
    Operator,
    extreme_eigenvalues,
    krylov_space,
    leading,
    spectral_density,
    trace,
)
from sigmascope.linalg.krylov.singular_values import largest
from sigmascope.linalg.refusals import require_symmetric
from sigmascope.linalg.spectra import Moments, principal_angles, spectra, spectrum

pytestmark = pytest.mark.usefixtures("as_users_see_it")
DOORS = [spectrum, spectral_norm, frobenius_norm, trace, lambda A: principal_angles(A, A)]


@pytest.mark.parametrize("door", DOORS)
class TestEveryDoor:
    @pytest.mark.parametrize("shape", [(), (3,), (2, 3, 3), (0, 4), (4, 0)])
    def test_refuses_what_is_no_matrix(self, door, shape):
        with pytest.raises(
            ValueError, match=r"must be a non-empty matrix \[rows, cols\], got shape"
        ):
            door(torch.ones(shape))

    @pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
    def test_refuses_whole_numbers_and_says_what_to_do(self, door, dtype):
        with pytest.raises(TypeError, match=r"must be floating point, got torch\..*\.double\(\)"):
            door(torch.ones(2, 2, dtype=dtype))

    def test_refuses_complex_and_says_what_to_do(self, door):
        with pytest.raises(TypeError, match=r"must be real, got torch.complex64.*\[\[Re, -Im\]"):
            door(torch.ones(2, 2, dtype=torch.complex64))

    def test_refuses_the_meta_device(self, door):
        with pytest.raises(ValueError, match=r"must have values, got shape \(2, 2\) on the meta"):
            door(torch.ones(2, 2, device="meta"))

    @pytest.mark.parametrize("case", NOT_FINITE)
    def test_refuses_what_is_not_finite_and_says_where(self, door, case):
        with pytest.raises(ValueError, match=r"1 of 4 entries not finite, the first at \(1, 0\)"):
            door(NOT_FINITE[case])


def test_says_what_a_stack_and_a_kernel_need():
    with pytest.raises(
        ValueError, match=r"`models.as_matrix\(weight\)`.*`linalg.spectra.spectra\(stack\)`"
    ):
        spectrum(torch.ones(4, 3, 3, 3))


ONE, EYE, WIDE = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.eye(3), torch.ones(2, 3)
A, NAN = Operator.of(EYE), float("nan")
ODD = Operator((3, 3), lambda x: x * NAN, lambda x: x, EYE)
HUGE = torch.full((4, 4), 1.7e308, dtype=torch.float64)
SQUARE, SYMMETRIC = r"`{}` must be square, got shape \(2, 3\)", "`{}` must be symmetric"
STEPS, SAMPLES = "`steps` must be at least 1, got 0", "`samples` must be at least 2, got 1"
RISK, FINITE = "`risk` must be", "must have finite products, got nan or inf"
BEYOND = "largest singular value that float64 can hold"


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: trace(WIDE), SQUARE.format("A")),
        (lambda: trace(Operator.of(WIDE)), SQUARE.format("A")),
        (lambda: trace(A, samples=1), SAMPLES),
        (lambda: trace(A, risk=0.0), RISK),
        (lambda: trace(A, risk=1.0), RISK),
        (lambda: extreme_eigenvalues(ONE), SYMMETRIC.format("A")),
        (lambda: extreme_eigenvalues(Operator.of(WIDE)), SQUARE.format("A")),
        (lambda: extreme_eigenvalues(EYE, count=4), "`count` must be from 1 to the 3 steps"),
        (lambda: extreme_eigenvalues(A, steps=0), STEPS),
        (lambda: extreme_eigenvalues(EYE, risk=0.0), RISK),
        (lambda: extreme_eigenvalues(ODD), FINITE),
        (lambda: krylov_space(Operator.of(WIDE)), SQUARE.format("A")),
        (lambda: krylov_space(A, steps=0), STEPS),
        (lambda: krylov_space(ODD), FINITE),
        (lambda: spectral_density(ONE), SYMMETRIC.format("A")),
        (lambda: spectral_density(A, samples=1), SAMPLES),
        (lambda: spectral_density(A, risk=2.0), RISK),
        (lambda: leading(EYE, steps=0), STEPS),
        (lambda: leading(EYE, block=0), r"`block` must be in \[1, inf\), got 0. Omit it for the"),
        (lambda: leading(torch.tensor([[1.0, 2.0], [NAN, 3.0]])), "`A` has 1 of 4 entries not fin"),
        (lambda: leading(torch.zeros(0, 3)), "`A` must be a non-empty matrix"),
        (lambda: leading(HUGE, generator=fresh()), f"`A` must have a {BEYOND}"),
        (lambda: leading(Operator.of(NAN * EYE), generator=fresh()), f"`A` {FINITE}"),
        (lambda: largest(EYE, steps=0), "steps"),
        *(
            (lambda route=route: spectrum(HUGE, route=route, generator=fresh()), BEYOND)
            for route in ("exact", "gram", "free")
        ),
        (lambda: spectrum(MATRICES["tall"], route="free", steps=0), STEPS),
        (lambda: spectrum(Operator.of(NAN * torch.ones(2, 2))), "4 of 4 entries not finite"),
        (lambda: spectra([EYE, NAN * EYE]), r"`matrices\[1\]` has 9 of 9 entries not finite"),
        (lambda: Moments.of(torch.ones(3)), "`rows` must be a non-empty matrix"),
        (
            lambda: Moments.of(torch.ones(1, 2)) + Moments.of(torch.ones(1, 3)),
            "length, got 2 and 3",
        ),
        (lambda: Moments.of(NAN * EYE), "entries not finite"),
        (lambda: principal_angles(torch.eye(6)[:, :1], torch.eye(5)[:, :1]), "got 6 and 5 rows"),
    ],
)
def test_what_no_number_can_be_told_of_is_refused_in_words(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 2.0**40])
def test_what_rounding_leaves_apart_is_symmetric_and_no_more(dtype, scale):
    """Eight roundings of the largest entry for each row, however small the others are."""
    M = torch.diag(torch.tensor([scale, 0.0, 1.0], dtype=dtype))
    apart = 8 * 3 * torch.finfo(dtype).eps * scale
    M[1, 0] = apart
    require_symmetric(M, name="M")
    M[1, 0] = apart * (1 + 2**-10)
    with pytest.raises(ValueError, match=r"`M` must be symmetric.* at \((0, 1|1, 0)\) and"):
        require_symmetric(M, name="M")
