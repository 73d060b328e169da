"""The application: help, versions, and what becomes of what commands raise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sigmascope import __version__

COMMANDS = ("profile", "check", "theorems", "export")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_a_line_to_paste(sigmascope, command):
    code, out, _ = sigmascope(command, "--help")
    assert code == 0
    assert "Examples" in out
    assert "--no-" not in out.replace("--no-fit", "")  # where the default is neither
    assert "--empty-" not in out


def test_help_names_every_command_and_the_version(sigmascope):
    code, out, _ = sigmascope("--help")
    assert code == 0
    assert all(command in out for command in COMMANDS)
    assert sigmascope("--version")[1].strip() == __version__


def test_words_that_are_left_over_are_told(sigmascope):
    code, _, err = sigmascope("predict", "64", "24")
    assert code == 2
    assert "`64 24` is left over: what belongs to an option stands behind its name" in err


@pytest.mark.parametrize("columns", ["0", "1", "2", "-5", "x"])
def test_help_fits_any_terminal(sigmascope, monkeypatch, columns):
    for words in (("profile", "--help"), ("--help",)):
        monkeypatch.setenv("COLUMNS", columns)  # the application puts its own in its place
        code, out, _ = sigmascope(*words)
        assert code == 0
        assert "Usage" in out


def test_a_working_folder_that_is_gone(tmp_path):
    line = f"mkdir gone; cd gone; rmdir ../gone; exec {sys.executable} -m sigmascope theorems"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 2
    assert "working folder is gone" in done.stderr


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("profile", "nothing.py:here"), "sigmascope profile"),
        (("scan", "nothing.safetensors"), "sigmascope scan"),
        (("bottleneck", "train", "digits", "--width", "0"), "sigmascope bottleneck train"),
        (("explain", "rank-colapse"), "sigmascope explain"),
        (("profle",), "sigmascope"),
    ],
)
def test_a_refusal_ends_with_the_help_that_there_is(sigmascope, words, command):
    code, _, err = sigmascope(*words)
    assert code == 2
    assert f"`{command} --help`" in err.splitlines()[-1]
    assert "http" not in err


def test_what_is_our_fault_has_no_help(sigmascope, monkeypatch):
    def fails(*_, **__):
        raise KeyError("ours")

    monkeypatch.setattr("sigmascope.sources.open_both", fails)
    code, _, err = sigmascope("profile", "mlp")
    assert code == 2
    assert "fault of sigmascope" in err
    assert "--help" not in err
