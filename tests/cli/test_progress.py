"""What a terminal shows while a command works, which is gone before anything else is written."""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import rich.console

from sigmascope.cli.progress import MOST, Status, progress_bar
from sigmascope.core.records import Finding


@pytest.fixture
def screen(monkeypatch):
    """A terminal of 100 columns, whose writings are kept; and a line of progress on it."""
    told, made = io.StringIO(), rich.console.Console
    how = {"file": told, "force_terminal": True, "width": 100, "_environ": {}}
    monkeypatch.setattr(rich.console, "Console", lambda **_: made(**how))
    status = Status()
    yield status, told
    status.end()


def finding(name, severity="warning", says="It is so.", site="fc"):
    return Finding(name, site, severity, (), says, "")


def visible(text):
    """Text without what moves the cursor or colours it."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def drawn(status, told):
    """What is drawn anew."""
    at = told.tell()
    status._live.refresh()
    return visible(told.getvalue()[at:])


def test_what_is_done_is_there_at_once_and_how_far_it_is(screen):
    status, told = screen
    status.begin("loading")
    assert "loading" in visible(told.getvalue())
    status("features", 3, 4)
    assert "features" in drawn(status, told)
    assert "75 %" in drawn(status, told)


def test_another_stage_has_a_rate_of_its_own(screen):
    status, _ = screen
    status.begin("loading")
    for done in (1, 2, 99):
        status("one", done, 100)
    bar, task = status._bar, status._task
    assert bar.tasks[task].speed is not None
    status("other", 1, 100)
    assert bar.tasks[task].speed is None
    assert bar.tasks[task].completed == 1


def test_findings_stand_below_and_the_newest_count(screen):
    status, told = screen
    status.begin("features")
    status.found([finding("old-one")])
    status.found([finding(f"cause-{i}") for i in range(MOST + 2)] + [finding("remark", "note")])
    said = drawn(status, told)
    assert "old-one" not in said
    assert "remark" not in said
    assert [f"cause-{i}" in said for i in range(MOST + 2)] == [True] * MOST + [False] * 2
    assert "and 2 more" in said


def test_notes_are_shown_where_there_is_nothing_else(screen):
    status, told = screen
    status.begin("features")
    status.found([finding("remark", "note")])
    assert "remark" in drawn(status, told)


def test_names_do_not_act_on_the_terminal(screen):
    status, told = screen
    status.begin("opening \x1b]0;title\x07 \x1b[2J")
    status.found([finding("cause", says="red \x1b[31m\nline", site="\x1b[2Jfc")])
    drawn(status, told)
    assert "\x1b]0" not in told.getvalue()
    assert "\x1b[2J" not in told.getvalue()
    assert "\x07" not in told.getvalue()


def test_it_is_gone_when_it_rests_and_comes_back(screen):
    status, told = screen
    status.begin("loading")
    status.rest()
    at = told.tell()
    assert told.getvalue().endswith(("\x1b[2K", "\x1b[?25h"))
    status("features", 1, 2)
    assert "features" in visible(told.getvalue()[at:])


def test_another_is_left_the_terminal(screen):
    status, told = screen
    status.begin("loading")
    status.leave("loop.py [as] it is:")
    assert visible(told.getvalue()).endswith("loop.py [as] it is:\n")
    assert status._live is None


def test_nothing_is_shown_where_there_is_no_terminal(capsys):
    with progress_bar() as progress:
        progress("features", 1, 2)
        progress.found([finding("cause")])
        progress.leave("another")
    assert capsys.readouterr() == ("", "")


def on_terminal(folder, *arguments):
    """What a terminal gets from a command, and when each part came."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm"}
    command = [sys.executable, "-m", "sigmascope", *arguments]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # the other end is closed
        pass
    out = process.communicate(timeout=60)[0].decode()
    os.close(ours)
    return process.returncode, out, said.decode()


PROGRAM = """
import time, torch
from torch import nn
print("a word of the program")
def program():
    torch.manual_seed(0)
    x = torch.randn(256, 6)
    y = (x[:, 0] > 0).long()
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(1))
    return {"model": net, "data": (x, y), "loss": "cross_entropy", "optimizer": "adam", "lr": 1e-3,
            "batch_size": 32, "epochs": 200}
"""


def test_a_person_sees_first_what_is_done_then_what_is_found_then_the_result(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    code, out, said = on_terminal(tmp_path, "diagnose", "train.py:program")
    assert code == 0
    assert "double-softmax" in out
    assert "\x1b" not in out  # it goes to a pipe
    seen = visible(said)
    order = ["loading torch", "opening train.py:program", "a word of the program", "setup"]
    order += ["so far", "training at your settings"]
    places = [seen.index(words) for words in order]
    assert places == sorted(places)
    assert said.rstrip("\r\n").endswith("\x1b[2K")  # and nothing is left of it


def test_where_standard_error_is_no_terminal_it_is_empty(sigmascope):
    Path("train.py").write_text(PROGRAM.replace('print("a word of the program")', ""))
    code, out, err = sigmascope("diagnose", "train.py:program", "--quick")
    assert (code, err) == (0, "")
    assert "double-softmax" in out
    assert "training" in out  # among what was not looked at
