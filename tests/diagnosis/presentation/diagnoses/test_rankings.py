"""Designs in order, as text and as JSON."""

from sigmascope import report
from sigmascope.diagnosis.presentation import Ranking
from sigmascope.diagnosis.ranking import Ranked
from sigmascope.records import Estimate


def design(name, place, value):
    told = Estimate(value, value / 2, (1 + value) / 2, "said", 0.1)
    return Ranked(name, place, told, Estimate.exactly(value), 3e-3, 60, f"{name} was seen.")


FOUND = Ranking((design("wide", 1, 0.9), design("deep\x1b[31m", 2, 0.25)))


def test_every_design_has_its_line_and_its_reason():
    text = report.text(FOUND, width=90)
    lines = text.splitlines()
    assert lines[3].split() == ["design", "forecast", "between", "fits", "rate", "passes"]
    assert lines[4].split()[:5] == ["1", "wide", "90%", "45%", "and"]
    assert "95%" in lines[4]
    assert lines[4].split()[-3:] == ["0.90", "0.003", "60"]
    assert "wide was seen." in text
    assert "\x1b" not in text
    assert all(len(line) <= 90 for line in lines)


def test_its_json_holds_every_field():
    form = report.json_form(FOUND)
    assert form["schema"] == "sigmascope/ranking/1"
    first = form["designs"][0]
    assert set(first) == {"name", "place", "forecast", "probability", "rate", "passes", "why"}
    assert first["forecast"]["high"] == 0.95
