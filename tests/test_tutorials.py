"""Every tutorial is found, has its parts, and its cells say of themselves what the text says.

The cells are run by `make docs`, which ends where one fails. On another processor sums are rounded
in another way, after which training ends elsewhere: the slow test runs them with rounded weights.
"""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sigmascope.core import quantities, references

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/tutorials"
TUTORIALS = sorted(p for p in FOLDER.glob("*.md") if p.name != "index.md")
INSTALLED = {"sigmascope", "matplotlib", "torch", "numpy", "sklearn"}  # what the index promises

spec = importlib.util.spec_from_file_location("bands", ROOT / "docs/bands.py")
bands = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bands)

each = pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)


def cells(page):
    return re.findall(r"^```{code-cell} ipython3\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)


def tree(cell):
    options = re.compile(r"\A(?:---\n.*?^---\n|(?::[^\n]*\n)*)", re.M | re.S)  # as `:tags: [...]`
    return ast.parse(options.sub("", cell))


def headings(page):
    words = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    return re.findall(r"^##? (.*)", words, re.M)


def test_tutorials_come_first():
    toctrees = re.findall(r"{toctree}\n(.*?)```", (ROOT / "docs/index.md").read_text("utf-8"), re.S)
    assert "tutorials/index" in toctrees[0].splitlines()


@each
def test_the_index_lists_it_and_says_for_which_problem(page):
    words, _, toctree = (FOLDER / "index.md").read_text("utf-8").partition("{toctree}")
    assert page.stem in toctree.splitlines()
    title = re.escape(headings(page)[0])
    assert re.search(rf"^\| [^|]{{20,}} \| \[{title}\]\({page.name}\) \|$", words, re.M)


@each
def test_it_says_what_a_good_value_is(page):
    text = page.read_text("utf-8")
    box = re.search(r"^:::+{admonition} What is a good value\?\n(.*?)^:::+$", text, re.M | re.S)
    assert box
    table = re.search(r"^```{bands}\n(.*?)^```$", box[1], re.M | re.S)
    assert table, "the box has a table of bands"
    for quantity in table[1].split("\n"):
        assert not quantity or list(bands.rows(quantity))


@each
def test_it_names_commands_and_shows_them(page):
    part = page.read_text("utf-8").rpartition("\n## On the command line\n")[2]
    assert re.search(r"^sigmascope [a-z]+", part, re.M)  # that they exist: tests/test_docs.py


@each
def test_it_needs_nothing_that_is_not_promised(page):
    for node in (node for cell in cells(page) for node in ast.walk(tree(cell))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert name.split(".")[0] in INSTALLED | sys.stdlib_module_names, name


def band(**changed):
    numbers = {"p05": 1.0, "p25": 2.0, "median": 3.0, "p75": 4.0, "p95": 5.0}
    row = {"view": "weights", "form": "", "stage": "trained", "networks": 7, "readings": 40}
    return references.Reference(**{"quantity": "rank", **row, **numbers, **changed})


ROUNDED = """
import matplotlib, sys, torch
matplotlib.use("agg")
g = torch.Generator().manual_seed(int(sys.argv[1]))
made = torch.optim.Optimizer.__init__

def rounded(self, *args):
    made(self, *args)
    for p in (p for group in self.param_groups for p in group["params"]):
        if p.is_floating_point() and not p.is_meta:
            p.data.mul_(1 + 3e-7 * torch.randn(p.shape, generator=g, dtype=p.dtype))

torch.optim.Optimizer.__init__ = rounded
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", ["quick", "full"])
@pytest.mark.parametrize("seed", [1, 2, 3])
@each
def test_what_it_asserts_does_not_hang_on_rounding(page, seed, size, tmp_path):
    script = tmp_path / "cells.py"
    script.write_text("\n".join([ROUNDED, *map(ast.unparse, map(tree, cells(page)))]), "utf-8")
    found = subprocess.run(
        [sys.executable, script, str(seed)], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"SIGMASCOPE_TUTORIALS": size},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-2000:]


def test_bands_are_those_of_the_references(monkeypatch):
    monkeypatch.setattr(bands, "references_of", lambda _: [band(), band(form="samples")])
    first, second = bands.rows("participation ratio")
    assert first == ("rank", "after it", "1", "2", "3", "4", "5", "7")
    assert second[0] == "rank (samples)"
    assert list(bands.rows("participation ratio (samples)")) == [second]


def test_bands_of_a_view_are_of_all_its_quantities_that_have_some():
    found = {row[0].partition(" (")[0] for row in bands.rows("view: weights")}
    assert {"stable rank", "Frobenius norm"} <= found
    assert found <= {q.name for q in quantities.in_view("weights")}


def test_bands_that_are_missing_are_said_and_unknown_quantities_refused(monkeypatch):
    monkeypatch.setattr(bands, "references_of", lambda _: [])
    (row,) = bands.rows("participation ratio")
    assert row[1] == "too few reference networks"
    with pytest.raises(ValueError, match="must be one of"):
        list(bands.rows("participation rate"))
