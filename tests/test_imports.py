"""Importing does nothing but import."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sigmascope
from sigmascope.cli import COMMANDS

ROOT = Path(__file__).parents[1]

PROBE = """
import json, logging, random, sys, warnings
import numpy, torch
# what these do at import is their own affair
import torch.distributed.tensor, torch.export, scipy.stats, plotly.offline, sklearn
import rich.console, cyclopts
def world():
    return {
        "handlers": len(logging.getLogger().handlers),
        "filters": len(warnings.filters),
        "dtype": str(torch.get_default_dtype()),
        "threads": torch.get_num_threads(),
        "torch state": torch.get_rng_state().sum().item(),
        "random": hash(random.getstate()),
        "numpy": numpy.random.get_state()[1].tolist(),
        "path": sys.path[:],
        "grad": torch.is_grad_enabled(),
    }
before = world()
import sigmascope as ss
absent = [n for n in ss.__all__ if not hasattr(ss, n)]
from sigmascope import cli, linalg, models, theory, survey, diagnosis, report
from sigmascope.models import networks
import sigmascope_experiments
from sigmascope import integrations, sources
from sigmascope.core import store
after = world()
same = all((
    ss.profile is ss.survey.profile, ss.diagnose is ss.diagnosis.diagnose,
    ss.Estimate is ss.records.Estimate, ss.check is ss.theory.check,
))
print(json.dumps([[k for k in before if before[k] != after[k]], absent, same]))
"""


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_one_import_has_the_doors_and_the_rooms_and_changes_nothing():
    assert python(PROBE) == [[], [], True]


def test_help_waits_for_nothing_heavy():
    code = """
import io, json, sys
from contextlib import redirect_stdout
from sigmascope.cli import main
for words in (["--help"], ["profile", "--help"], ["--version"]):
    sys.argv = ["sigmascope", *words]
    with redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            assert end.code == 0
print(json.dumps([m for m in ("torch", "numpy", "scipy", "plotly") if m in sys.modules]))
"""
    assert python(code) == []


def test_every_command_has_its_door_and_nobody_must_hold_more_than_forty_names():
    """The library's names are those of the command line, where it has them."""
    names = set(sigmascope.__all__)
    assert len(names - {"__version__"}) <= 40
    doors = {"balances": None, "compress": "compression", "scale": None, "reproduce": None,
             "theorems": None, "view": None}  # fmt: skip
    for command in COMMANDS:
        door = doors.get(command.__name__, command.__name__)
        assert door is None or door in names, command


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("proflie", "Did you mean `profile`"),
        ("diagnosis_", "Did you mean `diagnosis`"),
        ("watching", "from sigmascope import watching"),
        ("zzzz", "has no `zzzz`.$"),
    ],
)
def test_a_name_that_is_not_there_has_a_neighbour(name, says):
    """Asked of a fresh process: a room that was imported is there."""
    code = f"import sigmascope as ss\ntry: ss.{name}\nexcept AttributeError as e: print(e)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search(says, said.stdout.strip()), said.stdout
    assert not hasattr(sigmascope, "__wrapped__")


def test_what_is_imported_when_it_is_first_asked_for_draws_no_number():
    """Asked of a fresh process: rich draws one as it is imported."""
    code = """
import random, torch, sigmascope as ss
random.seed(7)
print(ss.profile(torch.nn.Linear(3, 2), torch.randn(5, 3), views=("weights",)))
ss.text(ss.explain("rank-collapse"))
seen = random.random()
random.seed(7)
print(seen == random.random())
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "True"
