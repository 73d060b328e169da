import pytest

from sigmascope.core.records import Estimate, Reading, changes


def reading(site, low, high, quantity="stable rank"):
    return Reading(site, quantity, Estimate((low + high) / 2, low, high, "exact"), "weights")


def test_what_both_have_is_paired_in_the_order_of_the_first():
    before = reading("b", 1, 2), reading("a", 3, 4), reading("only before", 1, 1)
    after = reading("a", 3.5, 5), reading("b", 4, 4), reading("only after", 1, 1)
    found = changes(before, after)
    assert [(c.site, c.before.value, c.after.value) for c in found] == [
        ("b", 1.5, 4.0),
        ("a", 3.5, 4.25),
    ]


@pytest.mark.parametrize(
    ("first", "second", "moved"),
    [((1, 2), (2.1, 3), True), ((1, 2), (2, 3), False), ((1, 3), (2, 4), False)],
)
def test_a_change_has_moved_where_the_intervals_are_apart(first, second, moved):
    for before, after in ((first, second), (second, first)):
        (change,) = changes((reading("a", *before),), (reading("a", *after),))
        assert change.moved is moved


def test_the_factor_from_zero_is_infinite_and_none_between_zeros_is_one():
    from_zero, zeros, double = changes(
        (reading("a", 0, 0), reading("b", 0, 0), reading("c", 1, 1)),
        (reading("a", 1, 1), reading("b", 0, 0), reading("c", 2, 2)),
    )
    assert from_zero.factor == float("inf")
    assert zeros.factor == 1
    assert double.factor == 2
