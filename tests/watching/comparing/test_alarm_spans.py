from datetime import UTC, datetime

from sigmascope.store import Row
from sigmascope.watching import alarm_spans
from tests.runs_made import alarm, over


def rows(*pairs):
    return [Row(step, datetime.now(UTC), finding) for step, finding in pairs]


def spans(*pairs):
    return [(s.finding.site, s.begin, s.end) for s in alarm_spans(rows(*pairs))]


def test_an_alarm_lasts_until_its_own_end():
    found = spans((3, alarm("a")), (4, alarm("b")), (9, over("b")), (12, alarm("b")))
    assert found == [("a", 3, None), ("b", 4, 9), ("b", 12, None)]


def test_an_end_without_a_beginning_says_nothing():
    assert spans((3, over("a"))) == []


def test_alarms_of_other_names_at_one_place_are_apart():
    pairs = rows((1, alarm("a")), (2, alarm("a", "dead-units")), (3, over("a", "dead-units")))
    assert [(s.finding.name, s.end) for s in alarm_spans(pairs)] == [
        ("gradient-growth", None),
        ("dead-units", 3),
    ]


def test_one_that_begins_anew_after_a_restart_goes_on():
    assert spans((30, alarm("a")), (20, alarm("a")), (40, over("a"))) == [("a", 20, 40)]
