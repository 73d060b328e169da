"""Alarms begin and end with hysteresis."""

from itertools import chain

from sigmascope.watching.alarms import Alarms
from sigmascope.watching.alarms.rules import CALM, UNSURE, AlarmRule, Sign
from sigmascope.watching.sinks import Column

SURE = Sign(True, False, "a", "It is there.", (("dead units", "a", ""),))


class Said(AlarmRule):
    """A rule that says what it is told to, one after the other."""

    def look(self, step, tracks):
        return SIGNS[step]


SIGNS = {}


def heard(signs, patience=2, rest=3):
    SIGNS.clear()
    SIGNS.update(enumerate(signs, 1))
    alarms = Alarms(
        [
            Said(
                "x",
                "it is there",
                "warning",
                frozenset({"dead units"}),
                "s",
                ("Do.",),
                patience,
                rest,
            )
        ]
    )
    column = Column("dead units", ["a"], [0.5])
    return [[f.name for f in alarms.look(step, [column])] for step in SIGNS], alarms


def test_an_alarm_needs_some_looks_to_begin_and_some_to_end():
    found, alarms = heard([SURE, SURE, SURE, CALM, CALM, CALM, CALM])
    assert found == [[], ["x"], [], [], [], ["x-over"], []]
    assert alarms.in_force == ()


def test_a_look_that_is_neither_changes_nothing():
    found, alarms = heard([SURE, UNSURE, SURE, CALM, CALM, UNSURE, CALM])
    assert found == [[], [], ["x"], [], [], [], ["x-over"]]
    assert alarms.in_force == ()


def test_flicker_does_not_ring_again():
    found, _ = heard([SURE, SURE, CALM, SURE, CALM, SURE, CALM])
    assert [*chain(*found)] == ["x"]


def test_one_calm_look_starts_the_count_anew():
    found, _ = heard([SURE, CALM, SURE, CALM])
    assert [*chain(*found)] == []


def test_an_alarm_has_evidence_source_and_what_to_do():
    _, alarms = heard([SURE, SURE])
    (alarm,) = alarms.in_force
    assert alarm.evidence[0].estimate.value == 0.5
    assert (alarm.site, alarm.source, alarm.remedies) == ("a", "s", ("Do.",))


def test_its_end_says_when_it_began():
    SIGNS.clear()
    SIGNS.update(enumerate([SURE, SURE, CALM, CALM, CALM], 1))
    alarms = Alarms([Said("x", "there", "warning", frozenset({"dead units"}), "s", ("Do.",), 2, 3)])
    found = [f for step in SIGNS for f in alarms.look(step, [Column("dead units", ["a"], [0.5])])]
    assert found[-1].severity == "note"
    assert found[-1].says.startswith("Over at step 5: what began at step 2 at a")


def test_a_rule_is_asked_only_where_what_it_reads_was_read():
    SIGNS.clear()
    alarms = Alarms([Said("x", "there", "warning", frozenset({"dead units"}), "s", ())])
    assert alarms.look(1, [Column("mean square", ["a"], [0.5])]) == []
