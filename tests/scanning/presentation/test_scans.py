from dataclasses import replace

import pytest

from sigmascope.records.scans import Scan
from sigmascope.report import html, text
from tests.report.made_scans import HOSTILE, ODD, findings, plan, scan

SCAN = scan()
SAID = text(SCAN, findings(SCAN))


def under(title, said=SAID):
    """The lines of a section."""
    return said.partition(f"\n{title}\n")[2].partition("\n\n")[0].splitlines()


def test_the_first_line_says_what_was_measured():
    first, second = SAID.splitlines()[:2]
    assert first == ("model.safetensors: 74 matrices, 8.52e6 parameters, 17 MB, in 2.2 minutes.")
    assert second == "format safetensors · torch 2.13.0+cpu · workers 2 · sigmascope 0.1"


def test_a_scan_that_does_not_say_how_long_it_took_says_nothing_of_it():
    for about in ({}, {"seconds": "a while"}):
        assert text(replace(SCAN, about=about)).splitlines()[0].endswith("parameters, 17 MB.")


def test_findings_are_told_as_those_of_a_profile():
    assert "2 causes: 1 error, 1 warning; 1 finding follows from them; " in SAID
    assert f"ERROR  outlying-norm at {ODD}" in SAID
    assert f"{ODD}: spectral norm 6.961" in SAID
    assert "└ note  old-format  follows from outlying-norm" in SAID
    assert SAID.index("ERROR") < SAID.index("WARNING") < SAID.index("By kind")
    assert "No findings." in text(SCAN, ())
    assert "findings" not in text(SCAN)


def test_each_kind_has_its_medians():
    rows = [line.split() for line in under("By kind")]
    (query,) = (r for r in rows if r[:2] == ["attention", "query"])
    assert query[2:4] == ["12", "256×256"]
    norm, least, most, stable, share, spikes, noise = query[4:11]
    assert float(least) < float(norm) < float(most) == 6.96
    assert (stable, share, spikes, noise) == ("5.57", "80%", "3", "0.0135")
    (embedding,) = (r for r in rows if r[0] == "embedding")
    assert embedding[7] == "89%"  # of the shorter side


def test_exponents_stand_with_how_many_were_accepted():
    rows = {line[:18].strip(): line.split()[-3:] for line in under("By kind")}
    assert rows["attention value"] == ["0", "of", "12"]
    assert rows["embedding"] == ["0", "of", "1"]
    assert rows["attention query"][-1] == "2.58"


def test_each_kind_with_a_depth_has_its_curves():
    _, *rows = under("Over depth")
    assert len(rows) == 6
    query = next(row for row in rows if row.startswith("attention query"))
    assert query.split()[2][5] == "█"
    assert len(query.split()[2]) == 12


def test_the_unusual_are_named():
    says, _, row, *_ = under("Unusual")
    assert "robust deviations" in says
    assert row.startswith(ODD)
    assert "Unusual" not in text(scan(4))


def test_what_was_read_between_matrices_is_told():
    _, *rows = under("Between matrices")
    assert [row.split()[0] for row in rows] == ["alignment", "copy", "unit"]
    assert rows[1].endswith("embed.weight = head.weight")


def test_what_was_not_measured_and_what_was_left_out_is_counted_by_reason():
    assert "Not measured: 25" in SAID
    assert "Left out: 13" in SAID
    assert any("power-law exponent" in line and " 25 " in line for line in SAID.splitlines())


def test_the_whole_has_a_line_for_each_matrix():
    said = text(SCAN, whole=True, width=160)
    _, *rows = under("Matrices", said)
    assert [row.split()[0] for row in rows] == [m.site for m in SCAN.matrices]
    assert under("Matrices") == []


def test_numbers_of_the_whole_are_never_cut():
    _, *rows = under("Matrices", text(SCAN, whole=True, width=90))
    assert len(rows) == len(SCAN.matrices)
    assert all("…" not in row[20:] for row in rows)


@pytest.mark.parametrize("width", [50, 100, 180])
@pytest.mark.parametrize("whole", [False, True])
def test_lines_fit_and_hostile_names_do_nothing(width, whole):
    found = scan(3, hostile=True, against=True)
    found = replace(found, plan=replace(found.plan, source=HOSTILE[2]))
    said = text(found, findings(found), width=width, whole=whole)
    assert all(len(line) <= width for line in said.splitlines())
    assert not set("\x1b\x07\x00\u202e\u200b") & set(said)


def test_nothing_measured_can_be_shown():
    empty = Scan(replace(plan(1), matrices=(), skipped=()), ())
    assert "0 matrices" in text(empty)
    unread = Scan(plan(2), ())
    assert "By kind" not in text(unread)
    assert "Left out: 3" in text(unread)


def test_it_shows_itself():
    assert repr(SCAN).startswith("model.safetensors: 74 matrices")
    assert "By kind" in html(SCAN)
    assert "\x1b[" in text(SCAN, findings(SCAN), colour=True)
