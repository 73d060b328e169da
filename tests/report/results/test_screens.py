import pytest
import torch
from torch import nn

from sigmascope import report, survey
from sigmascope.report.results import Screen, grid, ruled, shortlist


def test_what_is_no_result_is_refused_by_its_type():
    for show in (report.text, report.html, report.json_form):
        with pytest.raises(TypeError, match="A result of this library was expected, got 3"):
            show(3)


def test_text_is_cut_to_the_width_and_coloured_on_demand(profile, findings):
    plain = report.text(profile, findings, width=70)
    assert max(map(len, plain.splitlines())) <= 70
    assert "\x1b[" not in plain
    assert "\x1b[" in report.text(profile, findings, colour=True)


def test_findings_that_are_not_given_are_looked_for():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    for p in model.parameters():
        nn.init.zeros_(p)
    found = survey.profile(model, torch.randn(8, 4))
    assert "No findings" not in report.text(found)
    assert "No findings" in report.text(found, ())
    assert report.json_form(found)["findings"]


def test_html_holds_the_words_of_the_text(profile, findings):
    card = report.html(profile, findings)
    assert card.startswith("<pre")
    assert "rank-collapse" in card
    assert "\x1b" not in card


def test_hostile_names_are_text_in_html(hostile, hostile_findings):
    card = report.html(hostile, hostile_findings)
    assert "<script" not in card
    assert "<img" not in card


@pytest.mark.parametrize(("whole", "listed", "more"), [(False, 2, "… 3 more"), (True, 5, "")])
def test_a_shortlist_counts_what_it_leaves_out(whole, listed, more):
    chosen, words = shortlist(range(5), 2, Screen(whole=whole))
    assert (len(chosen), words) == (listed, more)
    assert shortlist([1], 2, Screen()) == ([1], "")


def test_tables_have_a_head_only_where_they_have_titles():
    assert not grid().show_header
    table = grid("a", "b", right=("b",))
    assert [column.justify for column in table.columns] == ["left", "right"]
    assert ruled().row_count == 0
