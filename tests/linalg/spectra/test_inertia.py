import pytest
import torch

from sigmascope.linalg.spectra import counts_above


@pytest.mark.parametrize("d", [1, 2, 3, 8, 33])
def test_many_counts_are_those_of_one_at_a_time(d):
    g = torch.Generator().manual_seed(d)
    A = torch.randn(5, 4, d, d, generator=g, dtype=torch.float64)
    M = A + A.mT
    for tau in (-1.0, 0.0, 0.7):
        expected = (torch.linalg.eigvalsh(M) >= tau).sum(-1).double()
        assert torch.equal(counts_above(M, tau), expected)


def test_many_counts_take_ties_with_the_threshold():
    many = torch.eye(6, dtype=torch.float64).expand(3, 6, 6)
    assert counts_above(many, 1.0).tolist() == [6, 6, 6]
    assert counts_above(many, 1 + 1e-9).tolist() == [0, 0, 0]


def test_many_counts_see_blocks_of_size_two():
    """Zero diagonals make every pivot a block of one positive and one negative eigenvalue."""
    block = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    M = torch.block_diag(block, block, block)[None]
    assert counts_above(M, 0.5).tolist() == [3]
