"""What every command line is held to, whatever is typed and whatever lies in the files."""

import contextlib
import gc
import hashlib
import io
import json
import random
import signal
import stat
import sys
import unicodedata
from itertools import pairwise

import numpy as np
import torch

from sigmascope import cli

OUTPUTS = (
    "--json",
    "--plot",
    "--write",
    "--scratch",
    "--html",
    "--run",
    "--save",
    "--out",
    "--file",
    "--picture",
    "--tree",
    "--lines",
)
PATIENCE = 120  # seconds; everything here is tiny
TOO_LONG = "it took too long"


def contents(folder):
    """Everything in a folder that can be looked at, by name."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            small = status.st_size < 1 << 30
            found[path] = hashlib.sha256(path.read_bytes()).hexdigest() if small else status.st_size
        else:
            found[path] = str(path.readlink()) if path.is_symlink() else stat.S_IFMT(status.st_mode)
    return found


def surroundings():
    return (
        hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest(),
        hashlib.sha256(np.random.get_state()[1].tobytes()).hexdigest(),
        hash(random.getstate()),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.backends.mha.get_fastpath_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        sys.stdout is sys.__stdout__,
    )


class Late(BaseException):
    """Raised by the alarm: no handler of ours may swallow it."""


def run(words):
    """Exit code, standard output and standard error of one command line."""
    out, err = io.StringIO(), io.StringIO()

    def late(*_):
        raise Late(TOO_LONG)

    before = signal.signal(signal.SIGALRM, late)
    argv, sys.argv = sys.argv, ["sigmascope", *words]
    signal.alarm(PATIENCE)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                cli.main()
            except SystemExit as end:
                code = end.code
    finally:
        signal.alarm(0)
        sys.argv = argv
        signal.signal(signal.SIGALRM, before)
    return code, out.getvalue(), err.getvalue()


def acting(text):
    return {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs")}


def named_outputs(words, folder):
    """Files that a command line names as its outputs, and what their links lead to."""
    if words[:1] == ("export",) and "--out" not in words:  # beside the run file
        yield from folder.glob("*-*.csv")
        yield from folder.glob("*-*.json")
        yield from folder.glob("*-*.parquet")
    for option, value in pairwise(words):
        if option in OUTPUTS:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                yield (folder / value).resolve()


def require_as_promised(words, folder):
    before, around = contents(folder), surroundings()
    code, out, err = run(words)
    gc.collect()
    assert code in (0, 1, 2), (code, err)
    assert "Traceback" not in out + err
    assert "fault of sigmascope" not in err, err
    assert not acting(out), acting(out)
    assert not acting(err), acting(err)
    assert not any(line.startswith("FAKE") for line in (out + err).splitlines())
    if code == 2:
        assert out == "", "a refusal writes no results"
        assert err.strip()
    if ("--json", "-") in pairwise(words) and out:
        json.loads(out)
    for had, has in zip(around, surroundings(), strict=True):
        assert had == has
    mine = set(named_outputs(words, folder))
    after = contents(folder)
    for path in before.keys() | after.keys():
        if before.get(path) == after.get(path):
            continue
        assert path.resolve() in mine or any(path.is_relative_to(m) for m in mine), (
            f"{path} changed"
        )
        assert path in after, f"{path} is gone"
        assert path not in before or path.name.startswith(("out", "empty")), (
            f"{path} was the user's"
        )
    assert not (folder / "it_ran").exists()
    for path in after.keys() - before.keys():
        with contextlib.suppress(OSError):
            path.unlink() if not path.is_dir() else None
