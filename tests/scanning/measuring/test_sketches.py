import pytest
import torch
from zoo import fresh

from sigmascope.scanning.measuring import sketch


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


def test_constant_matrices_differ_from_one_another_in_their_signs_alone():
    A, B = torch.ones(600, 700), torch.ones(600, 700)
    B[:300] *= -1
    assert abs(cosine(sketch(A), sketch(B))) < 0.4
    assert sketch(torch.zeros(3, 4)).eq(0).all()
    assert len(sketch(A, buckets=64)) == 64


def test_nothing_global_is_touched():
    state = torch.random.get_rng_state()
    sketch(torch.ones(3, 4))
    assert torch.equal(torch.random.get_rng_state(), state)
