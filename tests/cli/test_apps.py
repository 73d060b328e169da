"""The application: help, versions, and what becomes of what commands raise."""

import errno
import os
import re
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


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("mlp", "'mlp?depth=VALUE'"),
        ("resnet50?width=8", "'resnet50?width=8&depth=VALUE'"),
        ("a:f", ""),
    ],
)
def test_what_a_network_is_made_of_is_sent_to_its_name(sigmascope, model, said):
    code, _, err = sigmascope("profile", model, "--depth", "8")
    assert code == 2
    assert "--depth" in err
    assert said in err
    assert ("VALUE" in err) == bool(said)


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


LIMITS = {  # of the shell, by exec, and what is said where a command cannot live with them
    "-v 400000": "address space",
    "-v 800000": "address space",
    "-v 1000000": "not enough memory|could not begin|ended before its|^$",
    "-n 6": "allow more|^$",
    "-n 9": "allow more|^$",
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of other systems mean other things")
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(
    "words",
    ["profile 'mlp?depth=2&width=8' --data digits", "diagnose train.py --seconds 4 --steps 8"],
)
def test_under_a_limit_of_the_shell_it_works_or_says_which(tmp_path, limit, words):
    from tests.fuzz.world import SCRIPT

    (tmp_path / "train.py").write_text(SCRIPT.replace("STEP", "pass"))
    path = {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    line = f"ulimit {limit}; exec {sys.executable} -m sigmascope {words}"
    done = subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **path},
        timeout=120,
    )
    if done.returncode < 0:  # torch's own loader ends so before a line of ours is run
        assert "bad_alloc" in done.stderr
        return
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr
    assert "fault of sigmascope" not in done.stderr
    said = done.stderr if done.returncode else ""
    assert re.search(LIMITS[limit], said), done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="limits of other systems mean other things")
def test_less_memory_than_libraries_need_to_load_is_refused_before_they_hang():
    line = f"ulimit -v 650000; exec {sys.executable} -m sigmascope explain NAME"
    said = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert said.returncode == 2
    assert "ulimit -v unlimited" in said.stderr
    assert "allows 0.67 GB" in said.stderr
    assert "take 1 GB" in said.stderr


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n 1024"),
        (ImportError("libscipy.so: failed to map segment from shared object"), "ulimit -v"),
        (ImportError("/usr/lib/x.so: undefined symbol: a"), "install it again"),
        (MemoryError(), "not enough memory"),
    ],
)
def test_what_a_machine_lacks_is_said_and_is_nobodys_fault(sigmascope, monkeypatch, error, says):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr("sigmascope.sources.open_both", fails)
    code, _, err = sigmascope("profile", "mlp")
    assert code == 2
    assert says in err
    assert "fault of sigmascope" not in err
