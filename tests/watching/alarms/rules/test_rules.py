"""The list of alarms."""

from sigmascope.quantities import quantity
from sigmascope.watching.alarms.rules import RULES, Deviation


def test_names_are_their_own_and_every_alarm_says_what_to_do_and_why():
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.remedies
        assert rule.source
        assert all(r.endswith(".") for r in rule.remedies)


def test_every_quantity_that_is_read_is_one_of_watching():
    for rule in RULES:
        assert all("watch" in quantity(name).views for name in rule.reads)


def test_every_change_asks_for_something_and_can_be_said():
    for rule in RULES:
        if isinstance(rule, Deviation):
            assert (rule.usual, rule.first, rule.beyond) != (None, None, None)
            assert rule.quantity in rule.reads
            rule.words.format(value=1, times=1, first=1, from_first=1)
