"""How plans, scans and changes look, as text and as JSON."""

import json
import math
import re
from dataclasses import replace

import pytest

from sigmascope.core.records import Estimate, Scan, Skipped
from sigmascope.report import html, json_form, text
from sigmascope.scanning.presentation import SCAN_SCHEMA, matrix_form, shape
from tests.report.made_scans import HOSTILE, ODD, findings, plan, scan


def test_the_first_lines_say_what_is_read_and_what_it_costs():
    first, second, third = text(plan()).splitlines()[:3]
    assert first == "model.safetensors: 74 matrices in 87 tensors, 17 MB to read."
    assert second == (
        "About 4.3 minutes of processor time, 2.2 minutes with 2 processes; at most 1.3 GB of "
        "memory each."
    )
    assert third == "format safetensors · torch 2.13.0+cpu"


def test_each_kind_has_a_row():
    rows = [line.split() for line in text(plan()).splitlines()]
    assert ["attention", "key", "12", "64×256", "bfloat16", "393", "kB", "12", "·"] in rows


def test_the_commonest_shape_stands_for_its_kind():
    one, two, *_ = plan().matrices
    assert shape([one, one, two]) == "512×256 +1"


def test_how_much_is_measured_is_counted():
    planned = plan()
    leading = tuple(replace(m, effort="leading") for m in planned.matrices[:1])
    said = text(replace(planned, matrices=(*leading, *planned.matrices[1:])))
    row = next(line for line in said.splitlines() if line.startswith("embedding"))
    assert row.split()[-2:] == ["·", "1"]


def test_what_is_left_out_is_counted_by_reason_with_examples():
    said = text(plan())
    assert "Left out: 13 of 87 tensors" in said
    row = next(line for line in said.splitlines() if "it is a vector" in line)
    assert row.split() == ["tensor", "12", "it", "is", "a", "vector", "blocks.0.norm.weight"]
    assert "blocks.11.norm.weight" not in said
    assert "blocks.11.norm.weight" in text(plan(), whole=True)


def test_many_reasons_are_counted_and_never_dropped_in_silence():
    many = tuple(
        Skipped(f"t{i}", "tensor", f"reason {c}") for i, c in enumerate("abcdefghijklmnopqrst")
    )
    said = text(replace(plan(), skipped=many))
    assert "… 8 more reasons" in said
    assert "reason t" in text(replace(plan(), skipped=many), whole=True)


def test_a_plan_of_nothing_can_be_shown():
    said = text(replace(plan(), matrices=(), skipped=(), tensors=0, bytes=0, about={}))
    assert said.splitlines()[0] == "model.safetensors: 0 matrices in 0 tensors, 0 bytes to read."


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
    assert "No findings, for no matrix was measured." in text(replace(SCAN, readings=()), ())
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


@pytest.mark.parametrize("width", [40, 50, 80, 100, 180, 200])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("planned", [False, True])
def test_lines_fit_and_hostile_names_do_nothing(width, whole, planned):
    if planned:
        left = tuple(Skipped(name, name, name) for name in HOSTILE)
        found = replace(plan(3, hostile=True), source=HOSTILE[2], skipped=left)
        said = text(found, width=width, whole=whole)
    else:
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


MOVED = scan(12, against=True)
MOVED_SAID = text(MOVED)


def test_each_kind_says_how_far_it_moved():
    says, _, *rows = under("Moved", MOVED_SAID)
    assert says == "74 of 74 matrices changed."
    assert len(rows) == 8
    (keys,) = (row for row in rows if row.startswith("attention key"))
    n, change, most, turned, scale, *_ = keys.split()[2:]
    assert n == "12"
    assert float(most) >= float(change) > float(turned)
    assert 1 < float(scale) < 1.1


def test_the_ten_that_moved_most_are_named_in_order():
    _, *rows, more = under("Moved most", MOVED_SAID)
    far = [float(row.split()[1]) for row in rows]
    assert len(far) == 10
    assert far == sorted(far, reverse=True)
    changes = sorted((r.estimate.value for r in MOVED.series("relative change")), reverse=True)
    assert abs(far[0] - changes[0]) < 1e-3
    assert more == "… 64 more (--whole lists them)"
    assert len(under("Moved most", text(MOVED, whole=True))) == 75


def test_the_spread_over_matrices_and_directions_is_told():
    rows = under("Spread", MOVED_SAID)
    says = " ".join(rows)
    squares = sorted((r.estimate.value**2 for r in MOVED.series("change size")), reverse=True)
    half = next(i for i in range(1, 75) if sum(squares[:i]) >= sum(squares) / 2)
    assert f" {half} of 74 matrices" in says
    assert f"({squares[0] / sum(squares):.0%})" in says
    kinds = [row for row in rows if "×" in row]
    assert len(kinds) == 8
    shares = [float(s) for row in kinds for s in re.findall(r"([\d.]+)%", row)[:1]]
    assert sum(shares) == pytest.approx(100, abs=0.5)
    (keys,) = (row for row in kinds if row.startswith("attention key"))
    (matrix,) = {m.shape for m in MOVED.matrices if m.kind == "attention key"}
    times = float(re.findall(r"\(([\d.e]+)×\)", keys)[0])
    assert times == pytest.approx(0.02 * matrix[0] * matrix[1] / 100, rel=0.06)


def test_new_and_turned_directions_are_counted():
    intruders, angle, *_ = under("Directions", MOVED_SAID)
    assert intruders == "9 intruders in 9 of 74 matrices, most in embed.weight: 1."
    assert "turned by 20° (median), at most by 48°" in angle


def test_the_matrix_with_most_new_directions_is_named():
    sites = [r.site for r in MOVED.series("intruders") if r.estimate.value > 0]
    most = sites[len(sites) // 2]
    more = lambda r: r.quantity == "intruders" and r.site == most
    readings = tuple(
        replace(r, estimate=Estimate.exactly(4.0)) if more(r) else r for r in MOVED.readings
    )
    said, *_ = under("Directions", text(replace(MOVED, readings=readings)))
    assert said.endswith(f"most in {most}: 4.")


def test_where_no_direction_was_compared_none_are_told():
    compared = ("largest angle", "intruders")
    few = replace(MOVED, readings=tuple(r for r in MOVED.readings if r.quantity not in compared))
    assert "Directions" in MOVED_SAID
    assert "Directions" not in text(few)


def test_either_kinds_are_told_or_how_they_moved():
    assert "By kind" not in MOVED_SAID
    assert "By kind" in SAID
    assert "Moved" not in SAID


@pytest.mark.parametrize("high", [0.0, 5e-324])  # a sum of zeros, and what its rounding may be
def test_versions_that_are_the_same_did_not_move(high):
    still = tuple(
        replace(r, estimate=Estimate(0.0, 0.0, high, "exact"))
        if r.quantity in ("relative change", "intruders")
        else r
        for r in MOVED.readings
    )
    said = text(replace(MOVED, readings=still))
    assert "0 of 74 matrices changed." in said
    assert "Moved most" not in said
    assert "No intruders" in said


def test_angles_of_several_forms_are_read_together():
    more = tuple(replace(r, form="leading 4") for r in MOVED.series("largest angle"))
    assert "at most by 48°" in text(replace(MOVED, readings=(*MOVED.readings, *more)))


@pytest.fixture
def validate():
    return pytest.importorskip("jsonschema").Draft202012Validator(SCAN_SCHEMA).validate


def through_json(form):
    return json.loads(json.dumps(form, allow_nan=False))


@pytest.mark.parametrize("hostile", [False, True])
def test_a_scan_is_valid_json_by_its_schema(hostile, validate):
    found = scan(3, against=True, hostile=hostile)
    form = through_json(json_form(found, findings(found)))
    validate(form)
    assert next(iter(form)) == "schema"
    assert form["schema"] == "sigmascope/scan/2"
    assert [f["name"] for f in form["findings"]] == ["outlying-norm", "unbalanced", "old-format"]
    assert [m["site"] for m in form["plan"]["matrices"]] == [m.site for m in found.matrices]
    assert form["plan"]["matrices"][0]["depth"] == -1
    assert len(form["readings"]) == len(found.readings)
    assert "spectra" not in form


def test_numbers_that_json_lacks_are_words(validate):
    found = scan(2)
    odd = replace(found.readings[0], estimate=Estimate(1.0, 0.0, math.inf, "free"))
    form = through_json(json_form(replace(found, readings=(odd,), spectra=())))
    validate(form)
    assert form["readings"][0]["high"] == "Infinity"
    assert form["findings"] == []


def test_a_field_that_is_not_in_the_schema_is_refused(validate):
    form = json_form(scan(1))
    with pytest.raises(pytest.importorskip("jsonschema").ValidationError):
        validate({**form, "more": 1})


def test_a_plan_has_every_field_of_the_record():
    planned = plan(2)
    form = through_json(json_form(planned))
    assert form["schema"] == "sigmascope/scan-plan/1"
    assert form["seconds"] == planned.seconds
    assert form["memory"] == planned.memory
    assert [s["why"] for s in form["skipped"]] == [s.why for s in planned.skipped]
    assert form["matrices"][3]["tensors"] == list(planned.matrices[3].tensors)


def test_a_matrix_is_one_line_with_what_was_read_and_what_was_not():
    found = scan(2)
    matrix = found.matrices[0]
    readings = [r for r in found.readings if r.site == matrix.site]
    skipped = [s for s in found.skipped if s.site == matrix.site]
    line = json.dumps(matrix_form(matrix, readings, skipped), allow_nan=False)
    assert "\n" not in line
    form = json.loads(line)
    assert form["schema"] == "sigmascope/scan-matrix/1"
    assert (form["site"], form["kind"], form["rows"]) == (matrix.site, matrix.kind, matrix.rows)
    assert form["readings"][0]["value"] == readings[0].estimate.value
    assert form["skipped"][0]["why"] == skipped[0].why
