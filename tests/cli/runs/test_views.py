"""A run file is followed on a page of this machine until Ctrl-C, or written as one file."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from sigmascope.core.store import Run
from tests.runs_made import made


def test_the_page_is_written_as_one_file(sigmascope):
    for name in ("a.run", "b.run"):
        made(Path(name), 5)
    code, out, err = sigmascope("view", "a.run", "b.run", "--html", "x.html")
    assert (code, out) == (0, "")
    assert "Wrote x.html" in err
    assert "a page of sigmascope" in Path("x.html").read_text()
    assert sigmascope("view", "a.run", "--html", "x.html")[0] == 0  # ours may be written again


def test_it_serves_until_ctrl_c(tmp_path):
    made(tmp_path / "a.run", 5)
    words = [sys.executable, "-m", "sigmascope", "view", "a.run", "late.run"]
    said = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": tmp_path}
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(words, env=env, **said) as child:
        assert child.stderr.readline() == "There is no late.run yet; it is waited for.\n"
        line = child.stderr.readline()
        url = re.match(r"(http://127\.0\.0\.1:\d+/) shows a\.run and late\.run; Ctrl-C", line)[1]
        assert b"sigmascope" in urllib.request.urlopen(url).read()
        child.send_signal(signal.SIGINT)
        try:
            assert child.wait(20) == 130
        finally:
            child.kill()  # else leaving the block waits for ever
        assert child.stderr.read() == "Interrupted.\n"
        assert child.stdout.read() == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("none.run", "--html", "x.html"), "There is no run file at none.run"),
        (("none/a.run",), "there is no such folder. Name the file"),
        (("mine.py",), "is not a sigmascope run file"),
        (("a.run", "./a.run"), "got a.run twice: name another"),
        (("a.run", "--port", "70000"), "Must be < 65536"),
        (("a.run", "--html", "mine.py"), "mine.py"),
        (("a.run", "--html", "a.run"), "is read by this command"),
        (("a.run", "--html", "none/x.html"), "mkdir -p"),
    ],
)
def test_refusals(sigmascope, words, says):
    Run("a.run").close()
    code, out, err = sigmascope("view", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert 0 < err.count("\n") <= 2  # the sentence, which names the help


def test_a_port_in_use_is_refused(sigmascope, tmp_path):
    from sigmascope.watching.live import Server

    run = made(tmp_path / "a.run", 2)
    with Server([run]) as server:
        port = server.url.rstrip("/").rpartition(":")[2]
        code, _, err = sigmascope("view", str(run), "--port", port)
    assert code == 2
    assert "another program uses it. Name another with `--port`" in err
