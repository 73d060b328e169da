"""Every command has two examples, in its help and in the documentation, and they run."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from sigmascope.cli import COMMANDS, UNDER, app
from sigmascope.cli.outputs import examples
from tests.diagnosis.scripts.loops import code
from tests.runs_made import made

DOCS = Path(__file__).parents[3] / "docs"
NAMES = {
    **{(command.__name__,): command for command in COMMANDS},
    **{(name, below.__name__): below for name, parts in UNDER.items() for below in parts},
}
NET = """
from torch import nn

def build(width=6): return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))
def wide(): return build(12)
def tiny(): return build(2)
def deep(depth):
    middle = [nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(depth)]
    return nn.Sequential(*middle, nn.Linear(6, 3))
"""
TRAIN = """
import torch
from net import build

def program():
    g = torch.Generator().manual_seed(0)
    data = torch.randn(64, 6, generator=g), torch.randint(3, (64,), generator=g)
    return {"model": build(), "data": data, "loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1,
            "batch_size": 16, "epochs": 2}
"""
LINES = [
    pytest.param(words, line, id=f"{' '.join(words)} {i}")
    for words, command in NAMES.items()
    for i, line in enumerate(
        [line for line in examples(command).splitlines() if line and not line.startswith("#")]
    )
]
SMALL = {
    "depth=32": "depth=5",
    "--depths 6 8 12 16 20": "--depths 3 4 --steps 10",
    "--steps 300": "--steps 10",
    "--steps 40 --seconds 20": "--steps 8 --seconds 6",
}
LONG = {  # minutes as they stand: what makes them small enough for a test
    "profile": "--no-fit --budget 0.1s --samples 8 --views representations weights",
    "diagnose train.py:program": "--budget 0.5s --samples 16",
    "remedy": "--budget 0.1s --samples 16",
    "rank": "--passes 54 --samples 16",
    "landscape": "--samples 16",
    "predict": "--layers 50 --chains 2",
    "widths": "--seeds 2 --steps 1",
}


def build(home):
    (home / "net.py").write_text(NET)
    (home / "train.py").write_text(TRAIN)
    (home / "loop.py").write_text(code())
    g = torch.Generator().manual_seed(0)
    x = torch.randn(96, 6, generator=g)
    np.savez(home / "set.npz", x=x.numpy(), y=torch.randint(3, (96,), generator=g).numpy())
    shapes = {"0.weight": (6, 6), "0.bias": (6,), "2.weight": (3, 6), "2.bias": (3,)}
    for name in ("weights", "before", "after", "model", "tuned"):
        state = {k: 0.4 * torch.randn(shape, generator=g) for k, shape in shapes.items()}
        torch.save(state, home / f"{name}.pt")
        save_file(state, home / f"{name}.safetensors")
    for seed, name in enumerate(("first.run", "second.run")):
        made(home / name, 30, seed=seed)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with every file that an example names."""
    place = tmp_path_factory.mktemp("files")
    build(place)
    return place


@pytest.fixture
def home(sigmascope, monkeypatch, files):
    """A command line in a copy of it; `import net` finds the one that is there."""
    shutil.copytree(files, Path(), dirs_exist_ok=True)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "net", raising=False)
    return sigmascope


def runnable(one):
    """The script is run in a process of its own: at each commit `test_diagnoses.py` runs one."""
    words, line = one.values
    marks = pytest.mark.slow if line.startswith("sigmascope diagnose loop.py ") else ()
    return pytest.param(words, line, id=one.id, marks=marks)


def words_of(line):
    words = shlex.split(line.partition(" | ")[0])
    assert words[0] == "sigmascope"
    return words[1:]


@pytest.mark.parametrize("words", NAMES, ids=" ".join)
def test_help_and_documentation_show_two_examples_of_every_command(sigmascope, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    shown = examples(NAMES[words])
    assert shown.count("\nsigmascope ") == 2
    assert shown.count("# ") == 2  # what each is for
    assert all(
        line.startswith(f"sigmascope {' '.join(words)}") for line in shown.splitlines()[1::3]
    )
    assert max(map(len, shown.splitlines())) <= 78  # one line of a terminal
    code, out, _ = sigmascope(*words, "--help")
    assert code == 0
    assert all(line in out for line in shown.splitlines())
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## sigmascope {' '.join(words)}\n")[2].partition("\n## ")[0]
    assert shown in section


@pytest.mark.parametrize(("words", "line"), LINES)
def test_every_example_is_understood(words, line):
    command, bound, ignored = app.parse_args(
        words_of(line), exit_on_error=False, print_error=False
    )[:3]
    assert command is NAMES[words]
    assert bound.arguments or command.__name__ in ("theorems", "reproduce", "explain")
    assert not ignored


@pytest.mark.parametrize(
    ("words", "line"),
    # the one that serves until it is interrupted is run in `test_views.py`
    [runnable(one) for one in LINES if one.values[1] != "sigmascope view first.run"],
)
def test_every_example_runs(home, words, line):
    for long, short in SMALL.items():
        line = line.replace(long, short)
    said = words_of(line)
    for start, more in LONG.items():
        if " ".join(said).startswith(start):
            said += more.split()
    code, out, err = home(*said)
    assert code in (0, 1), err  # 1: an error was found, and `--strict` was said
    written = [w for w in said if re.search(r"\.(html|json|csv|pt|svg|jsonl)$", w)]
    assert out or written or "Wrote" in err
    assert all(Path(name).exists() for name in written)


def test_the_completion_of_every_shell_knows_every_command_and_option():
    for shell in ("bash", "zsh", "fish"):
        script = app.generate_completion(shell=shell)
        for words in NAMES:
            assert re.search(rf"\b{words[-1]}\b", script), (shell, words)
        assert "--checkpoint" in script or "-l checkpoint" in script
        checker = shutil.which(shell)
        if checker is not None:  # the shell itself reads it
            done = subprocess.run([checker, "-n"], input=script, text=True, capture_output=True)
            assert (done.returncode, done.stderr) == (0, ""), shell


def test_bash_completes_a_command():
    script = app.generate_completion(shell="bash")
    ask = 'COMP_WORDS=(sigmascope sc); COMP_CWORD=1; _sigmascope; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], text=True, capture_output=True)
    assert done.stdout.split() == ["scan", "scale"]
