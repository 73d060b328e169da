"""`sigmascope explain`."""

import json
from types import SimpleNamespace

from sigmascope import report


def test_a_name_is_explained(sigmascope):
    code, out, _ = sigmascope("explain", "dead-units")
    assert code == 0
    assert out.startswith("dead-units: finding")
    assert "cured by" in out


def test_without_a_name_all_are_listed(sigmascope):
    code, out, _ = sigmascope("explain")
    assert code == 0
    assert {"alarm of a watch", "quantity", "theorem"} <= set(out.splitlines())
    assert "  participation ratio" in out.splitlines()


def test_on_a_terminal_names_share_lines_and_each_stays_on_one(sigmascope, monkeypatch):
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("sigmascope.cli.explanations.results", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = sigmascope("explain")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    told = [n for line in out.splitlines() for n in line.strip().removesuffix(" ·").split(" · ")]
    assert {n for names in report.every_name().values() for n in names} <= {*told}
    assert len(out.splitlines()) < 300


def test_json_takes_the_place_of_the_text(sigmascope):
    code, out, _ = sigmascope("explain", "batch-norm", "--json", "-")
    assert code == 0
    (sense,) = json.loads(out)["senses"]
    assert "rank-collapse" in sense["for"]
