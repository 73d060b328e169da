import math

import pytest
import torch

from sigmascope.core.records import Spectrum
from sigmascope.linalg import log_pseudo_determinant, matrix_rank, ranks


def many(generator: torch.Generator, count: int = 12, r: int = 6) -> ranks.Ends:
    """Descending values over many orders of magnitude, some zero, with gaps around them."""
    exponents = -12 * torch.rand(count, r, generator=generator, dtype=torch.float64)
    sigma = (10**exponents).sort(1, descending=True).values
    sigma[::3, -2:] = 0
    gap = 1e-9 * sigma[:, :1]
    return (sigma - gap).clamp(min=0), sigma, sigma + gap


def test_each_matrix_is_counted_as_it_would_be_alone():
    low, sigma, high = many(torch.Generator().manual_seed(0))
    shape = (6, 40)
    counts = ranks.rank_counts((low, sigma, high), shape)
    least, value, most = ranks.log_volumes((low, sigma, high), counts)
    for i, one in enumerate(sigma):
        s = Spectrum(one, shape, "told", low[i], high[i])
        rank, volume = matrix_rank(s), log_pseudo_determinant(s)
        assert (rank.low, rank.value, rank.high) == tuple(float(c[i]) for c in counts)
        assert (volume.low, volume.high) == pytest.approx((float(least[i]), float(most[i])))
        kept = one[: int(rank.value)]
        assert float(value[i]) == pytest.approx(sum(math.log(x) for x in kept.tolist()))


def test_counts_by_hand():
    sigma = torch.tensor([[4.0, 1.0, 1e-9], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).double()
    surely, apparently, possibly = ranks.rank_counts((sigma, sigma, sigma), (3, 3))
    assert apparently.tolist() == [2, 1, 0]
    assert surely.tolist() == [2, 1, 0]
    assert possibly.tolist() == [2, 1, 0]
    wide = ranks.rank_counts((sigma, sigma, sigma), (3, 3), rtol=0.5)
    assert wide[1].tolist() == [1, 1, 0]


def test_an_undecided_value_is_covered_by_both_ends():
    sigma = torch.tensor([[1.0, 0.5]]).double()
    ends = (torch.tensor([[1.0, 0.0]]).double(), sigma, torch.tensor([[1.0, 0.6]]).double())
    counts = ranks.rank_counts(ends, (2, 2))
    assert [int(c) for c in counts] == [1, 2, 2]
    low, value, high = ranks.log_volumes(ends, counts)
    assert float(low) == -math.inf
    assert float(value) == pytest.approx(math.log(0.5))
    assert float(high) == pytest.approx(0, abs=1e-12)


def test_thresholds_out_of_range_are_refused(as_users_see_it):
    sigma = torch.ones(1, 2).double()
    with pytest.raises(ValueError, match=r"`rtol` must be in \[0, 1\)"):
        ranks.rank_counts((sigma, sigma, sigma), (2, 2), rtol=1.5)
