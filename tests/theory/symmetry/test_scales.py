import numpy as np
import pytest
import torch
from torch import nn

from sigmascope.theory.symmetry import Passed, symmetries
from sigmascope.theory.symmetry.scales import Frame, Unknowns, edges
from tests.theory.symmetry.test_families import hidden


def along(view, parameter, split=1):
    found = edges(
        view, int(parameter.storage_offset()), Frame("w", tuple(parameter.shape), split, 0)
    )
    return None if found is None else [(side, index.tolist()) for side, index in found]


W = torch.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (W, [("rows", [0, 1, 2]), ("columns", [0, 1, 2, 3])]),
        (W.t(), [("columns", [0, 1, 2, 3]), ("rows", [0, 1, 2])]),
        (W[1:], [("rows", [1, 2]), ("columns", [0, 1, 2, 3])]),
        (W[::2, 1:3], [("rows", [0, 2]), ("columns", [1, 2])]),
        (W[1:2].t(), [("columns", [0, 1, 2, 3]), ("rows", [1])]),
        (W[1:2], [("rows", [1]), ("columns", [0, 1, 2, 3])]),
        (W[:, 2:3], [("rows", [0, 1, 2]), ("columns", [2])]),
        (W[1:2, 2:3], [("rows", [1]), ("columns", [2])]),
        (W.view(4, 3), None),
        (W.view(1, 12), None),
    ],
)
def test_views_know_what_their_axes_run_along(view, expected):
    assert along(view, W) == expected


def test_a_parameter_of_three_axes_is_split_where_it_is_used():
    P = torch.arange(24.0).reshape(2, 3, 4)
    assert along(P.view(2, 12), P, 1) == [("rows", [0, 1]), ("columns", list(range(12)))]
    assert along(P.view(6, 4), P, 2) == [("rows", list(range(6))), ("columns", [0, 1, 2, 3])]
    assert along(P.view(6, 4), P, 1) is None


def test_slabs_and_dots_of_grouped_kernels():
    K = torch.randn(6, 2, 3, 3, dtype=torch.float64)
    frame = Frame("k", (6, 2, 3, 3), 1, groups=3)
    assert frame.counts == (6, 6)
    columns = frame.slabs(K, "columns")
    assert torch.equal(columns[3], K[2:4, 1].flatten())  # second channel of the second group
    L = torch.randn_like(K)
    for side in ("rows", "columns"):
        slabs = frame.slabs(K, side)
        assert torch.allclose(frame.dots(K, K, side), slabs.square().sum(1))
        assert torch.allclose(frame.sums(K * K, side), slabs.square().sum(1))
        assert torch.allclose(frame.dots(K, L, side), (slabs * frame.slabs(L, side)).sum(1))
    assert frame.group_of("rows").tolist() == [0, 0, 1, 1, 2, 2]
    assert frame.group_of("columns").tolist() == [0, 0, 1, 1, 2, 2]


def test_a_vector_is_one_row():
    v = torch.arange(5.0)
    frame = Frame("v", (5,), 0, 0)
    assert frame.counts == (1, 5)
    found = edges(v[:, None], 0, frame)
    assert [(s, i.tolist()) for s, i in found] == [("columns", [0, 1, 2, 3, 4]), ("rows", [0])]
    assert np.array_equal(found[1][1], [0])


def ids(*many):
    return np.array(many, dtype=np.int64)


def four():
    u = Unknowns()
    assert u.fresh(4, 7) == 1
    return u


def test_equalities_and_opposites_multiply_along_the_way():
    u = four()
    u.equal(ids(1, 3), ids(2, 4), -1.0)
    u.equal(ids(2), ids(3), 2.0)
    root, f4 = u.root(4)
    factors = {i: u.root(i)[1] / f4 for i in (1, 2, 3, 4)}
    assert {u.root(i)[0] for i in (1, 2, 3, 4)} == {root}
    assert factors == {1: 2, 2: -2, 3: -1, 4: 1}
    assert u.pinned(root) is None


def test_an_unknown_that_is_minus_itself_is_zero():
    u = four()
    u.equal(ids(1), ids(2))
    u.equal(ids(2), ids(1), -1.0)
    assert u.pinned(u.root(1)[0]) == "the same weight is on both sides of it"
    assert u.pinned(u.root(3)[0]) is None


def test_zero_spreads_with_the_first_reason():
    u = four()
    u.equal(ids(0), ids(1), why="the input")
    u.equal(ids(2), ids(1))
    u.pin(ids(2), "the output")
    assert u.pinned(u.root(2)[0]) == "the input"


def test_sums_are_substituted_until_nothing_changes():
    u = Unknowns()
    u.fresh(6, 1)
    u.total(ids(3), ids(1), ids(2))  # 3 = 1 + 2
    u.total(ids(5), ids(3), ids(4))  # 5 = 3 + 4
    u.pin(ids(2, 4), "fixed")
    assert u.solve() == {}
    assert u.root(5)[0] == u.root(1)[0] == u.root(3)[0]


def test_a_sum_of_fixed_things_is_fixed_and_a_double_is_two_times():
    u = four()
    u.total(ids(3), ids(1), ids(1))
    u.total(ids(4), ids(2), ids(2), 0.5, 0.0)
    u.solve()
    assert u.root(3)[1] / u.root(1)[1] == 2
    assert u.root(4)[1] / u.root(2)[1] == 0.5
    u.pin(ids(1), "fixed")
    assert u.pinned(u.root(3)[0]) == "fixed"


def test_what_three_free_unknowns_obey_expresses_one_by_the_others():
    u = four()
    u.total(ids(3), ids(1), ids(2))
    u.total(ids(4), ids(3), ids(1))  # 4 = 2 * 1 + 2
    found = u.solve()
    free = [r for r in range(1, 5) if r not in found]
    assert len(found) == len(free) == 2
    for values in (dict(zip(free, v, strict=True)) for v in ((5.0, 7.0), (-1.0, 3.0))):
        x = values | {r: sum(c * values[f] for f, c in by.items()) for r, by in found.items()}
        assert x[3] == pytest.approx(x[1] + x[2])
        assert x[4] == pytest.approx(x[3] + x[1])


def test_slack_stays_with_the_root():
    u = four()
    u.loosen(ids(1), 1e-5)
    u.loosen(ids(1), 1e-6)
    u.equal(ids(1), ids(2))
    assert u.slack(u.root(2)[0]) == pytest.approx(1e-5)


def test_facts_survive_growth():
    u = Unknowns()
    first = u.fresh(1000, 3)
    u.signature[first + 5] = 9
    u.fresh(5000, 4)
    assert (u.signature[first + 5], u.bundle[first], u.bundle[-1]) == (9, 3, 4)


def test_factors_of_either_side_multiply():
    """`1 = 2·2`, `2 = 3·3`, then `4 = 5·1`: in units of 3 they are 6, 3, 1 and 30."""
    u = four()
    u.equal(ids(1), ids(2), 2.0)
    u.equal(ids(2), ids(3), 3.0)
    u.equal(ids(4), ids(1), 5.0)
    _, unit = u.root(3)
    assert [u.root(i)[1] / unit for i in (1, 2, 3, 4)] == [6, 3, 1, 30]
    u.equal(ids(4), ids(2), 10.0)  # as it is already
    assert u.pinned(u.root(1)[0]) is None
    u.equal(ids(4), ids(2), 9.0)
    assert u.pinned(u.root(1)[0]) == "the same weight is on both sides of it"


def test_weights_that_are_not_trained_are_constants():
    net = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(3, 2))
    assert len(symmetries(net, torch.randn(2, 4)).scalings) == 2
    net[1].requires_grad_(False)
    assert symmetries(net, torch.randn(2, 4)).scalings == ()
    net[1].requires_grad_(True)
    net[0].requires_grad_(False)
    (family,) = symmetries(net, torch.randn(2, 4)).scalings
    assert {p.tensor for p in family.parts} == {"1.weight", "1.bias", "2.weight"}


def test_units_that_are_treated_alike_may_be_mixed():
    (family,) = hidden(lambda h: 3 * h).scalings
    assert bool(family.mask.all())
    assert family.passed == 0
    (scaled,) = hidden(lambda h: h * torch.tensor([1.0, 1, 2, 2, 2, 3], dtype=h.dtype)).scalings
    assert scaled.mask.sum(1).tolist() == [2, 2, 3, 3, 3, 1]
    assert scaled.passed == Passed.DATA


@pytest.mark.parametrize("place", [0, 1, 4])
def test_units_that_are_treated_in_their_own_way_at_one_sample_alone_may_not(place):
    """The other four are treated alike."""
    factors = torch.ones(5, 6, dtype=torch.float64)
    factors[place, 1], factors[(place + 1) % 5, 2] = 2, 2
    (family,) = hidden(lambda h: h * factors[: len(h)]).scalings
    assert family.mask.sum(1).tolist() == [4, 1, 1, 4, 4, 4]


def test_units_of_a_relu_may_be_mixed_where_they_are_on_together():
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(5))
    net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2))
    with torch.no_grad():
        on = net[0](x) > 0
    (family,) = symmetries(net, x).scalings
    alike = (on[:, :, None] == on[:, None]).all(0)
    assert 12 < int(alike.sum()) < 144
    assert torch.equal(family.mask, alike)
