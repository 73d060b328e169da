"""Looks in Trackio, read back from its file."""

import json
import sqlite3
import subprocess
import sys

import pytest

from sigmascope.integrations.names import numbers
from tests.integrations.absent import told_without
from tests.integrations.looks import BEGINS

pytest.importorskip("trackio")


def test_looks_are_rows_at_steps_of_the_optimizer(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))  # which is read at its import
    code = (
        "import trackio\nfrom sigmascope.integrations.trackio import Trackio\n"
        "from tests.integrations.looks import BEGINS, ENDS\n"
        "of = {'auto_log_gpu': False, 'auto_log_cpu': False}\n"
        "sink = Trackio(trackio.init(project='p', name='r', **of))\n"
        "sink.write(BEGINS)\nsink.write(ENDS)\nsink.close()\ntrackio.finish()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    with sqlite3.connect(tmp_path / "p.db") as file:
        rows = list(file.execute("SELECT step, metrics FROM metrics ORDER BY step"))
    file.close()
    assert [step for step, _ in rows] == [3, 9]
    first, last = (json.loads(text) for _, text in rows)
    for name, value in numbers(BEGINS).items():
        assert float(first[name]) == value, name
    assert first["alarm/rank-collapse/blocks.3/says"] == "rank-collapse at blocks.3."
    assert last["alarm/rank-collapse/blocks.3"] == 0.0
    assert first["singular values - matrix/a"]["_type"] == "trackio.histogram"


def test_without_trackio_it_says_how_to_get_it():
    assert "pip install 'sigmascope[trackio]'" in told_without("trackio", "trackio")
