import importlib
import os
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.sources import open_model

FILE = """
from __future__ import annotations

import sys
from dataclasses import dataclass

import torch
from torch import nn
import neighbour

@dataclass
class Config:
    width: int = neighbour.WIDTH

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Linear(64, width)
    def forward(self, x):
        return self.layer(x)

    @staticmethod
    def small():
        return Net(2)

model = Net()
lazily = lambda: nn.Linear(64, neighbour.later())
number = 3

def build(): return Net(Config().width)
def with_default(width=5): return Net(width)
def needs(width, *, depth): return Net(width)
def nothing(): Net()
def wrong(): return [Net()]
def weights(): return Net().state_dict()
def kind(): return Net
def raises(): raise KeyError("width")
def leaves(): sys.exit("usage: ...")
def silent(): raise RuntimeError
async def later(): return Net()
def inside(): return nn.Linear(3, -1)
def impossible(): return nn.Linear("a", 3)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(textwrap.dedent(FILE))
    (tmp_path / "neighbour.py").write_text(
        "WIDTH = 7\ndef later():\n    import later_on\n    return 9"
    )
    (tmp_path / "later_on.py").write_text("")
    (tmp_path / "wrong_syntax.py").write_text("def build(:\n")
    (tmp_path / "nul.py").write_bytes(b"x = 1\0")
    (tmp_path / "missing.py").write_text("import a_package_that_is_not_there\n")
    (tmp_path / "from_missing.py").write_text("from torch import a_name_that_is_not_there\n")
    (tmp_path / "raising.py").write_text("raise RuntimeError('first line\\nsecond line')\n")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(1)\n")
    (tmp_path / "lazy.py").write_text(
        "try:\n    raise OSError('no operator')\n"
        "except OSError as error:\n    raise ModuleNotFoundError('no `A`. Why?') from error\n"
    )
    (tmp_path / "library.py").write_text("from torch import nn\n\nmodel = nn.Linear(3, -1)\n")
    (tmp_path / "random.py").write_text("from torch import nn\nmodel = nn.Linear(2, 3)\n")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "long.py").touch()
    os.truncate(tmp_path / "long.py", 17 << 20)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "width"),
    [("build", 7), ("model", 4), ("Net", 4), ("with_default", 5), ("Net.small", 2), ("lazily", 9)],
)
def test_a_module_a_class_or_a_function_in_a_file(folder, name, width):
    model = open_model(f"{folder / 'mine.py'}:{name}")
    assert model.module(torch.zeros(3, 64)).shape == (3, width)
    assert model.origin == "python"
    assert model.module.training


def test_nothing_is_left_behind(folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    modules, path, files = set(sys.modules), list(sys.path), sorted(folder.rglob("*"))
    importlib.invalidate_caches()  # which forgets what leads nowhere, whoever calls it first
    cached = set(sys.path_importer_cache)
    for name in ("build", "lazily", "raises"):
        try:
            open_model(f"{folder / 'mine.py'}:{name}")
        except Refusal:
            assert name == "raises"
    assert sys.path == path
    assert not {"mine", "neighbour", "later_on"} & (set(sys.modules) - modules)
    assert sorted(folder.rglob("*")) == files
    assert not sys.dont_write_bytecode
    assert set(sys.path_importer_cache) == cached


def test_a_file_that_changed_is_read_again(folder):
    path = folder / "random.py"
    assert open_model(f"{path}:model").module.out_features == 3
    path.write_text("from torch import nn\nmodel = nn.Linear(2, 4)\n")
    assert open_model(f"{path}:model").module.out_features == 4


def test_a_file_may_have_the_name_of_a_module(folder):
    import random

    open_model(f"{folder / 'random.py'}:model")
    assert sys.modules["random"] is random


def test_a_module_path_is_found_from_the_working_folder(folder, monkeypatch):
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "models.py").write_text(
        "from torch import nn\nfrom package import parts\nbuild = parts.build\n"
    )
    (package / "parts.py").write_text("from torch import nn\ndef build(): return nn.Linear(2, 3)\n")
    monkeypatch.chdir(folder)
    assert isinstance(open_model("package.models:build").module, nn.Linear)
    assert "package.parts" not in sys.modules
    assert list(folder.rglob("__pycache__")) == []


def test_an_installed_module_stays_imported():
    model = open_model("torch.nn:Identity")
    assert isinstance(model.module, nn.Identity)
    assert "torch.nn" in sys.modules


def test_a_generator_makes_a_factory_repeatable(folder):
    before = torch.get_rng_state()
    first, second, other = (
        open_model(f"{folder / 'mine.py'}:build", generator=torch.Generator().manual_seed(s)).module
        for s in (0, 0, 1)
    )
    assert torch.equal(first.layer.weight, second.layer.weight)
    assert not torch.equal(first.layer.weight, other.layer.weight)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("mine.py", r"followed by the name of a factory in it \(it has `build`, .*mine.py:NAME`"),
        ("mien.py:build", "There is no file .*Did you mean `mine.py`"),
        ("nowhere/mine.py:build", "there is no folder"),
        ("mien.py", "There is no file"),
        ("notes.txt:build", "neither a Python file"),
        ("mine.py:biuld", "there is no `biuld` in `mine`; it has .*Did you mean `build`"),
        ("mine.py:", "must be followed by the name of a factory in it"),
        ("mine.py:Net.large", "there is no `Net.large`"),
        ("mine.py:number", "got a value of type int"),
        ("mine.py:needs", "needs the arguments `width`, `depth`"),
        ("mine.py:nothing", "got None: does it end"),
        ("mine.py:wrong", "got a value of type list: return the model alone"),
        ("mine.py:weights", "got a value of type OrderedDict: weights go with `--checkpoint FILE`"),
        ("mine.py:kind", "the class Net: call it"),
        ("mine.py:raises", r"raised KeyError: 'width' \(mine.py, line \d+\)"),
        ("mine.py:leaves", "raised SystemExit: usage"),
        ("mine.py:silent", r"raised RuntimeError \(mine.py"),
        ("mine.py:later", "a coroutine: write `def`"),
        ("mine.py:impossible", "raised TypeError"),
        ("wrong_syntax.py:build", "is not valid Python: .*line 1"),
        ("nul.py:build", "not valid Python|raised"),
        ("missing.py:build", r"imports `a_package_that_is_not_there`.*missing.py, line 1"),
        (
            "lazy.py:build",
            r"Error: no `A`. Why\?, from OSError: no operator \(lazy.py, line 4",
        ),
        ("library.py:model", r"raised RuntimeError: .*\(library.py, line 3\)"),
        ("mine.py:inside", r"raised RuntimeError: .*\(mine.py, line \d+\)"),
        ("from_missing.py:build", "raised ImportError: cannot import name"),
        ("raising.py:build", "raised RuntimeError: first line"),
        ("leaving.py:build", "raised SystemExit: 1"),
        ("long.py:build", "at most 16 MiB"),
    ],
)
def test_what_builds_no_model_is_refused_in_one_sentence(folder, spec, says):
    modules, path = set(sys.modules), list(sys.path)
    with pytest.raises(Refusal, match=says) as refusal:
        open_model(str(folder / spec))
    assert "\n" not in str(refusal.value)
    assert " raised KeyError" not in str(refusal.value) or isinstance(
        refusal.value.__cause__, KeyError
    )
    assert str(refusal.value).endswith((".", "?"))
    assert not str(refusal.value).endswith(("..", "?."))
    assert sys.path == path
    assert not {Path(p).stem for p in folder.glob("*.py")} & (set(sys.modules) - modules)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("no.such.module:build", "no module `no.such.module`"),
        ("torch.nothing:build", "no module `torch.nothing`"),
        ("torch.nn:Linear", "needs the arguments `in_features`, `out_features`"),
        ("torch.nn:Linaer", "Did you mean `Linear`"),
        ("torch:pi", "got a value of type float"),
        (":build", "There is no model `:build`"),
    ],
)
def test_a_module_path_that_leads_nowhere_is_refused(spec, says):
    with pytest.raises(Refusal, match=says):
        open_model(spec)


def test_a_pipe_with_the_name_of_a_program_is_no_file_that_is_missing(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    for spec in (f"{tmp_path}/pipe.py:build", f"{tmp_path}/pipe.py"):
        with pytest.raises(Refusal, match="device, pipe or socket"):
            open_model(spec)
