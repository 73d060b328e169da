"""Results alone reach standard output; nothing reaches a terminal but through one function."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODEL = """
import os, subprocess, warnings
import torch
from torch import nn
class Loud(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("\\x1b]0;owned\\x07 é", nn.Linear(6, 3))
    def forward(self, x):
        print("printed\\x1b[31m")
        os.write(1, b"written to the descriptor\\n")
        subprocess.run(["echo", "from a child"])
        warnings.warn("warned\\x1b[31m")
        return list(self.children())[0](x)
"""
ON = ("--data", "gaussian?shape=6", "--samples", "8", "--views", "weights")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loud")
    (folder / "m.py").write_text(MODEL)
    return folder


def run(home, words, *, shell="", start=("-m", "sigmascope"), **environment):
    return subprocess.run(
        ["bash", "-c", f'exec "$0" "$@" {shell}', sys.executable, *start, *words],
        cwd=home,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


BOTH = """
import sys
from sigmascope.cli import main
for words in (sys.argv[1:], [*sys.argv[1:-1], "-"]):
    sys.argv = ["sigmascope", *words]
    try:
        main()
    except SystemExit as end:
        assert end.code == 0
    sys.stdout.write("\\f")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("latin-1", marks=pytest.mark.slow)])
def test_what_a_model_prints_is_not_among_the_results_and_any_encoding_shows_its_names(
    home, encoding
):
    """To a file, where text is the result, and then to standard output, where it stands alone."""
    words = ("profile", "m.py:Loud", *ON, "--json", "a.json")
    done = run(home, words, start=("-c", BOTH), PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    text, form, rest = done.stdout.split("\f")
    for whole in ((home / "a.json").read_text(), form):
        assert json.loads(whole)["schema"] == "sigmascope/profile/3"
    assert rest == ""
    assert r"\x1b]0;owned\x07" in text
    for said in ("printed\\x1b", "written to the descriptor", "from a child", "warned\\x1b"):
        assert said in done.stderr
        assert said not in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("shell", "code"),
    [
        (">&- 2>&- <&-", 0),
        (">/dev/full", 2),
        pytest.param(">&-", 0, marks=pytest.mark.slow),
        pytest.param("2>&-", 0, marks=pytest.mark.slow),
        pytest.param("2>/dev/full", 0, marks=pytest.mark.slow),
    ],
)
def test_streams_may_be_closed_or_full(home, shell, code):
    done = run(home, ("theorems",), shell=shell)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    if "2>&-" in shell:
        assert run(home, ("nope",), shell=shell).returncode == 2


def calls(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "print") in NAMES:
            yield ast.unparse(node.func), node.lineno


NAMES = ("write", "print", "write_text", "write_bytes")
WRITERS = ("sys.stdout.write", "sys.stderr.write", "print", "sys.stdout.buffer.write")
WRITTEN = {"core/guard.py"}  # the only file that brings bytes to the disk by itself


@pytest.mark.parametrize("room", sorted(p.name for p in (ROOT / "sigmascope").iterdir()))
def test_there_is_one_way_to_a_terminal_and_one_to_a_file(room):
    """A new place that prints or writes must go through `cli.outputs` and through `guard`."""
    files = sorted((ROOT / "sigmascope" / room).rglob("*.py"))
    printing, writing = [], []
    for path in files:
        name = str(path.relative_to(ROOT / "sigmascope"))
        for call, line in calls(path):
            if call in WRITERS and name != "cli/outputs.py":
                printing.append((name, line))
            if call.split(".")[-1] in ("write_text", "write_bytes") and name not in WRITTEN:
                writing.append((name, line, call))
    assert not printing
    assert not [w for w in writing if not w[2].startswith(("guard.", "write_text"))]
