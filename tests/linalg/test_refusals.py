import pytest
import torch
from zoo import NOT_FINITE

from sigmascope.linalg import frobenius_norm, spectral_norm
from sigmascope.linalg.krylov import trace
from sigmascope.linalg.spectra import principal_angles, spectrum

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
