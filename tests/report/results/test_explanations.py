"""Explanations as text: each sense under its name, headings on the left."""

from sigmascope.report import text
from sigmascope.report.explanations import Explanation, Explanations

ONE = Explanation("rank", "quantity", (("is", "a [number]"), ("values", "0 to 3")))


def test_each_sense_stands_under_its_name():
    lines = text(Explanations((ONE, ONE))).splitlines()
    assert [line for line in lines if line.startswith("rank: quantity")] == ["rank: quantity"] * 2
    assert "" in lines


def test_rows_have_their_heading_and_what_looks_like_markup_is_text():
    lines = text(ONE).splitlines()
    assert [line.split(maxsplit=1) for line in lines[1:]] == [
        ["is", "a [number]"],
        ["values", "0 to 3"],
    ]


def test_rows_are_indented_under_the_name_and_apart_from_their_headings():
    lines = text(ONE).splitlines()
    assert [line[:2] for line in lines] == ["ra", "  ", "  "]
    assert lines[1].startswith("  is ")
    assert lines[1].index("a [number]") == lines[2].index("0 to 3")
    assert lines[2].startswith("  values  0")


def test_senses_are_apart_and_nothing_stands_before_the_first():
    lines = text(Explanations((ONE, ONE))).splitlines()
    assert lines == [*text(ONE).splitlines(), "", *text(ONE).splitlines()]
