"""The documentation speaks of everything there is, and what it shows runs."""

import ast
import functools
import importlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import typing
import warnings
from operator import attrgetter
from pathlib import Path

import pytest
import torch

import sigmascope
from sigmascope import cli, diagnosis, survey, theory
from sigmascope.core import products

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)
everything = "\n".join(p.read_text(encoding="utf-8") for p in DOCS.glob("*.md"))
PAPERS = sorted((DOCS / "theory").glob("*.md"))  # what they print: tests/test_theory_pages.py
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))  # the rest of them: tests/test_tutorials.py
SHOWN = [*sorted(DOCS.glob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]


def test_a_theorem_that_no_page_tells_of_is_named():
    papers = tomllib.loads((DOCS / "theorems.toml").read_text("utf-8"))["paper"]
    known = [theorem.name for theorem in theory.THEOREMS]
    assert not [*generate._untold(known, papers)]
    (first, *_) = generate._untold([*known, "a-new-one"], papers)
    assert first == "`a-new-one` has no entry in docs/theorems.toml"
    papers[0]["question"][0]["theorems"]["a-new-one"] = {}
    (first, *_) = generate._untold([*known, "a-new-one"], papers)
    assert first == "docs/theory/daneshmand2020.md has no link to theorems.md#a-new-one"
    (first, *_) = generate._untold(known, papers)
    assert first.startswith("`a-new-one` of docs/theorems.toml is none of")


def test_generated_pages_are_not_stale():
    assert generate.stale() == []


def test_every_command_is_documented():
    from sigmascope.cli import app

    commands = [name for name in app if not name.startswith("-")]
    assert sorted(commands) == sorted(f.__name__ for f in generate.COMMANDS)


def test_every_theorem_and_every_finding_is_documented():
    for theorem in theory.THEOREMS:
        assert f"## {theorem.name}" in everything
        assert re.search(r"(19|20)\d\d, \w+", theorem.source), theorem.name
    rules = (*products.FINDINGS, *products.CHECKPOINT_FINDINGS, *products.ALARMS)
    for kind in (kind for module in products.modules(rules) for kind in module.KINDS):
        assert f"`{kind.name}`" in everything, kind.name


def test_every_field_of_the_json_form_is_documented():
    page = (DOCS / "json.md").read_text(encoding="utf-8")
    parts = [diagnosis.presentation.SCHEMA, *diagnosis.presentation.SCHEMA["$defs"].values()]
    for name in {name for part in parts for name in part.get("properties", ())}:
        assert f"`{name}`" in page, name


def test_what_overflows_is_documented():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    torch.nn.init.constant_(model[0].weight, 3e38)
    profile = survey.profile(model, torch.full((3, 2), 1e10))
    assert "non-finite entries" in {r.quantity for r in profile.readings}
    assert "| non-finite entries |" in everything


def fenced(page, language):
    blocks = re.findall(r"^```([^`\n]*)\n(.*?)^```$", page.read_text("utf-8"), flags=re.M | re.S)
    return [code for found, code in blocks if found == language]


NEEDED = {"integrations.md": ("lightning", "transformers", "accelerate", "tensorboard")}


@pytest.mark.parametrize("page", [p for p in SHOWN if fenced(p, "python")], ids=lambda p: p.name)
def test_python_that_is_shown_runs(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what it writes
    for package in NEEDED.get(page.name, ()):
        pytest.importorskip(package)
        warnings.simplefilter("ignore")  # theirs
    exec("\n".join(fenced(page, "python")), {})
    told = (
        "rank-collapse|chain-participation-ratio holds|worst layer|unexplained|inner dimension"
        "|lower rank"
        "|probability|energy-of-rank|alarms in force|double-softmax"
        "|1 matrix, 2048 parameters|trained .* networks|gradients-not-zeroed|what is tuned"
    )
    assert re.search(told, capsys.readouterr().out)


@functools.cache
def known_options():
    """Of every command."""
    sections = generate.commands().split("\n## sigmascope ")[1:]
    options = {s.splitlines()[0]: set(re.findall(r"--[a-z-]+", s)) for s in sections}
    return options | {"--install-completion": {"--shell", "--output"}}


@pytest.mark.parametrize("page", [*SHOWN, *PAPERS, *TUTORIALS], ids=lambda p: p.name)
def test_commands_that_are_shown_exist(page):
    options = known_options()
    lines = "\n".join(fenced(page, "")).splitlines() + re.findall(
        r"`(sigmascope [^`]+)`", page.read_text("utf-8")
    )
    for line in lines:
        name, *words = line.removeprefix("$ ").partition(" -- ")[0].split()[1:] or [""]
        if line.removeprefix("$ ").startswith("sigmascope ") and name.islower():
            below = " ".join((name, *words[:1]))  # a command of a command
            name = below if below in options else name
            assert name in options, line
            assert {w for w in words if re.match(r"--[a-z]", w)} <= options[name], line


def test_the_page_on_design_names_every_room():
    page = (DOCS / "design.md").read_text(encoding="utf-8")
    for folder in (ROOT / "sigmascope").glob("*/__init__.py"):
        assert f"{folder.parent.name}/" in page, folder.parent.name


def shown_cells():
    names = {}
    for cell in fenced(DOCS / "notebooks.md", "{code-cell} ipython3"):
        *before, last = ast.parse(cell).body
        exec(compile(ast.Module(before, []), "<cell>", "exec"), names)
        yield eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def test_cells_of_the_page_on_notebooks_show_their_results():
    results = list(shown_cells())
    assert len(results) >= 4
    for result in results:
        if (html := result._repr_html_()) is None:  # a figure
            assert result._repr_png_().startswith(b"\x89PNG")
            continue
        assert "<script" not in html
        assert str(getattr(result, "site", "")).replace("(", "") in html.replace("(", "")
    assert "rank-collapse" in [getattr(r, "name", "") for r in results]


def test_results_that_the_page_on_notebooks_names_show_themselves():
    from sigmascope.core.records import Shown

    words = (DOCS / "notebooks.md").read_text("utf-8").partition("## Which results")[2]
    doors = re.findall(r"`([\w.]+)`", words.partition("Tuples of them")[0])
    assert len(doors) >= 9
    for door in doors:
        returned = typing.get_type_hints(attrgetter(door)(sigmascope)).get("return")
        assert issubclass(returned, Shown), door


def test_what_pages_take_from_the_package_is_there_in_a_fresh_interpreter():
    found = {p: set(re.findall(r"\bss\.(\w+)", p.read_text("utf-8"))) for p in DOCS.rglob("*.md")}
    assert any(found.values())
    assert not {p: taken for p, taken in found.items() if not taken <= set(sigmascope.__all__)}


def test_the_package_says_which_rooms_it_has():
    rooms = {p.parent.name for p in Path(sigmascope.__file__).parent.glob("*/__init__.py")}
    said = set(re.findall(r"`ss\.(\w+)`", sigmascope.__doc__)) & rooms
    assert said == set(sigmascope.__all__) & rooms


COLUMN, PHONE = 736, 354  # pixels of a page's text on a desk, and on a telephone
LAID_OUT = """<!doctype html>
<style>.highlight pre, pre {{ padding: 10px 14px; overflow: auto; font: 13px monospace }}</style>
<style>{css}</style><body style="margin: 0"><article style="width: {width}px">
<div class="cell_output highlight"><div class="output"><pre>{row}</pre></div>
<div class="output"><pre>-</pre></div><div class="output"><pre>{prose}</pre></div></div>
<div class="code highlight"><pre>{row}</pre></div></article><script>
const boxes = [...document.querySelectorAll(".output")], high = boxes.map((b) => b.clientHeight)
document.title = [...high.slice(0, 2), ...boxes.map((b) => b.scrollWidth),
  document.querySelector(".code > pre").scrollWidth].join(" ")</script>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_results_are_whole_on_a_page_and_scroll_on_a_telephone(tmp_path):
    css = (DOCS / "_static/cells.css").read_text("utf-8")
    row, prose = "m" * 100, "a sentence " * 40
    for width in (COLUMN, PHONE):
        page = tmp_path / f"{width}.html"
        page.write_text(LAID_OUT.format(css=css, width=width, row=row, prose=prose), "utf-8")
        flags = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/user")
        words = ["chromium", *flags, "--dump-dom", page.as_uri()]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout
        title = re.search("<title>(.*?)</title>", shown)
        row_high, one_high, row_wide, _, prose_wide, code_wide = map(int, title[1].split())
        assert row_high == one_high  # what is in columns is never broken
        assert prose_wide <= max(COLUMN, width)
        if width == COLUMN:
            assert max(row_wide, code_wide) <= COLUMN


def test_what_the_readme_shows_of_a_command_is_what_it_prints(monkeypatch, capsys):
    """Numbers to two digits, for the last ones are the machine's."""
    shown = next(b for b in fenced(ROOT / "README.md", "") if b.startswith("$ sigmascope profile"))
    call, *lines = shown.rstrip().splitlines()
    monkeypatch.setattr(sys, "argv", shlex.split(call.removeprefix("$ ")))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    rounded = lambda text: re.sub(
        r"\d+\.?\d*(e-?\d+)?", lambda n: f"{float(n[0]):.2g}", " ".join(text.split())
    )
    said = rounded(capsys.readouterr().out)
    for part in "\n".join(lines).split("…"):
        assert rounded(part) in said
