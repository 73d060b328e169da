import math

import pytest

from sigmascope.theory.bottleneck import Trained, read_sweep


def trained(depth, rank, *, uses=None, norm=None, fits=True, tangent=70.0, seed=0, ridge=1e-3):
    norm = 16 + rank * depth if norm is None else norm
    ranks, uses = (rank, rank, rank), uses or (rank, rank, rank)
    return Trained(depth, ridge, seed, 0.004 if fits else 0.03, norm, ranks, uses, tangent, fits)


def test_segments_are_affine_with_the_rank_as_slope():
    two = (2, 2, 2)
    found = read_sweep(
        [trained(d, 3, uses=two) for d in (6, 7, 8)] + [trained(d, 2) for d in (10, 12, 16)]
    )
    assert [s.rank for s in found.segments] == [3, 2]
    for s in found.segments:
        assert s.slope.value == pytest.approx(s.rank)
        assert s.offset == pytest.approx(16)
    assert (found.rank.low, found.rank.value, found.rank.high) == (2, 2, 2)
    assert "The task has 2 dimensions, told by 6 of 6 networks that fit" in found.says
    assert "at depth 16 they pass 2 through" in found.says
    kinds = [n.kind for n in found.networks]
    assert kinds == ["overestimating"] * 3 + ["recovering"] * 3


def test_minima_of_too_low_a_rank_are_told_apart():
    deep = trained(24, 1, norm=52.0, fits=False, tangent=450.0)
    found = read_sweep([trained(d, 2) for d in (10, 12, 16)] + [deep])
    assert found.rank.value == 2
    assert found.networks[-1].kind == "underestimating"
    assert not found.segments[-1].fits
    assert "some fell to 1, which does not fit" in found.says
    assert "6.4 times as large" in found.says


def test_networks_that_disagree_leave_a_wider_interval():
    found = read_sweep([trained(6, 3), trained(8, 3), trained(10, 2), trained(12, 2)])
    assert found.rank.value == 2  # the deeper ones decide where counts are even
    assert (found.rank.low, found.rank.high) == (2, 3)
    doubtful = [trained(d, 3, uses=(3, 2, 3)) for d in (8, 12)]
    assert read_sweep(doubtful).rank.low == 2
    one_of_many = [trained(d, 2) for d in range(4, 12)] + [trained(12, 3)]
    assert read_sweep(one_of_many).rank.high == 2


def test_penalties_have_segments_of_their_own():
    weak = [trained(d, 3, norm=20 + 3 * d, ridge=1e-4) for d in (6, 8)]
    found = read_sweep(weak + [trained(d, 2) for d in (6, 8)])
    assert [(s.ridge, s.rank) for s in found.segments] == [(1e-4, 3), (1e-3, 2)]
    assert [s.slope.value for s in found.segments] == pytest.approx([3, 2])


def test_the_clearest_network_is_the_deepest_that_recovers():
    many = [
        trained(6, 2),
        trained(10, 2),
        trained(14, 3, uses=(2, 2, 2)),
        trained(20, 1, fits=False),
    ]
    assert read_sweep(many).clearest is many[1]
    assert read_sweep(many[2:]).clearest is many[2]
    assert read_sweep(many[3:]).clearest is None


def test_nothing_that_fits_is_said():
    found = read_sweep([trained(20, 1, fits=False)])
    assert found.rank.high == math.inf
    assert "No network fits" in found.says


def test_the_slope_has_an_interval_from_the_scatter():
    norms = [36.1, 40.3, 44.0, 48.2]
    found = read_sweep(
        [trained(d, 2, norm=n) for d, n in zip((10, 12, 14, 16), norms, strict=True)]
    )
    slope = found.segments[0].slope
    assert slope.low < 2 < slope.high
    assert slope.high - slope.low < 0.4
