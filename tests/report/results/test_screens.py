from dataclasses import dataclass

import pytest
import torch
from torch import nn

from sigmascope import report, survey
from sigmascope.core.records import Estimate
from sigmascope.report.console import rendered
from sigmascope.report.results import (
    Screen,
    grid,
    is_record_of_ours,
    ruled,
    section,
    shortlist,
)


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


@dataclass(frozen=True)
class Foreign:
    """A record that is none of ours."""

    number: float


def test_records_of_others_are_no_results():
    assert not is_record_of_ours(Foreign(1.0))
    assert not is_record_of_ours(Estimate)
    assert is_record_of_ours(Estimate.exactly(1.0))
    assert not is_record_of_ours("text")
    for show in (report.text, report.json_form, report.table):
        with pytest.raises(TypeError, match="Foreign"):
            show(Foreign(1.0))


def test_cells_of_a_row_are_apart_and_rows_begin_at_the_margin():
    for table in (grid("a", "b"), ruled()):
        if not table.columns:
            table.add_column("a")
            table.add_column("b")
        table.add_row("one", "two")
        lines = [line for line in rendered([table], colour=False, width=40).splitlines() if line]
        assert all(not line.startswith(" ") for line in lines)
        assert lines[-1].split() == ["one", "two"]
        assert "onetwo" not in lines[-1]


@pytest.mark.parametrize(("fold", "kept"), [(False, "…"), (True, "end")])
def test_cells_that_are_too_wide_are_cut_or_go_on(fold, kept):
    table = grid("name", fold=fold)
    table.add_row("x" * 40 + "end")
    said = rendered([table], colour=False, width=20)
    assert kept in said
    assert max(map(len, said.splitlines())) <= 20


def test_a_section_has_its_heading_after_an_empty_line():
    assert rendered(section("Title", "inside"), colour=False, width=40).splitlines() == [
        "", "Title", "inside",
    ]  # fmt: skip


def test_a_long_table_is_cut_short_unless_all_of_it_is_wanted():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(60)))
    found = survey.profile(model, torch.randn(8, 4), views=["weights"])
    short, whole = report.text(found, ()), report.text(found, (), whole=True)
    assert len(short.splitlines()) < len(whole.splitlines())
    assert "57" in whole
