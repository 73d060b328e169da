"""The page as one file has all there is."""

import json
import re

import pytest

from sigmascope.gate import Refusal
from sigmascope.store import Damaged
from sigmascope.watching import live
from tests.runs_made import made


def test_all_of_two_runs_is_in_the_file(tmp_path):
    runs = [made(tmp_path / "a.run"), made(tmp_path / "b.run", 30)]
    text = live.written(tmp_path / "x.html", runs).read_text()
    data = json.loads(re.search(r'<script type="application/json".*?>(.*?)</script>', text)[1])
    assert data["live"] is False
    assert [run["step"] for run in data["runs"]] == [59, 29]
    for run in data["runs"]:
        assert [form["rows"] for form in run["columns"]] == [p["rows"] for p in run["panels"]]
        assert [len(rows) for rows in run["scrubbed"]] == [s["rows"] for s in run["spectra"]]


def test_a_long_run_is_read_in_several_looks(tmp_path, monkeypatch):
    path = made(tmp_path / "a.run")
    whole = live.history(path, "a").state()
    since = live.since
    monkeypatch.setattr(live, "since", lambda path, mark: since(path, mark, most=50))
    assert live.history(path, "a").state() == whole


def test_nothing_is_written_of_what_cannot_be_read(tmp_path):
    path = made(tmp_path / "a.run", 9)
    path.write_bytes(path.read_bytes()[:-4096] + bytes(4096))
    with pytest.raises(Damaged):
        live.written(tmp_path / "x.html", [path])
    assert not (tmp_path / "x.html").exists()


def test_another_file_is_left_alone(tmp_path):
    (tmp_path / "x.html").write_text("mine")
    with pytest.raises(Refusal):
        live.written(tmp_path / "x.html", [made(tmp_path / "a.run", 2)])
    assert (tmp_path / "x.html").read_text() == "mine"
