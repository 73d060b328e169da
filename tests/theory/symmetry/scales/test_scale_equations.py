import numpy as np
import pytest

from sigmascope.theory.symmetry.scales import Unknowns


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
