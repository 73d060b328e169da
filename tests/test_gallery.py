"""The gallery has every figure, from rows that are all there, and says what they show."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from sigmascope_experiments import FIGURES

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("kept", ROOT / "docs/kept.py")
kept = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kept)
PAGE = (ROOT / "docs/gallery.md").read_text("utf-8")
each = pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.name)
SMALL = next(f for f in FIGURES if f.name == "jacot2023/example20")


@each
def test_all_rows_of_the_usual_size_are_kept_and_all_or_none_of_the_papers(figure):
    for full, config in enumerate((figure.usual, figure.full)):
        found = kept.kept(figure, full=bool(full))
        if found or not full:
            assert kept.is_of(config, found)
            tasks = json.loads(json.dumps(figure.tasks(found["config"])))
            assert [row["task"] for row in found["rows"]] == tasks


@each
def test_the_page_shows_it_and_no_claim_fails(figure):
    assert f"```{{kept}} {figure.name}\n```" in PAGE
    assert not [c for c in kept.claims(figure) if c.holds is False]


@each
def test_the_papers_size_stands_beside_ours_or_what_would_make_it_is_said(figure):
    section = PAGE.partition(f"## {figure.name}\n")[2].partition("\n## ")[0]
    assert "The paper's size: " in section
    command = f"sigmascope reproduce {figure.name}"
    larger = kept.kept(figure, full=True)
    assert ("found at the paper's size" in section) is bool(larger)
    assert ("No such rows are kept yet" in section) is (figure.full is not None and not larger)
    assert section.count(command) == 1 + (figure.full is not None)
    if figure.full is not None:
        assert f"{len(figure.tasks(figure.full))} row" in section


def test_what_is_kept_stays_small():
    assert sum(file.stat().st_size for file in kept.HERE.iterdir()) < 1_500_000


def written(folder, figure, config):
    """A folder of results, as a run of these sizes leaves it, with rows of nothing."""
    place = folder / figure.name
    place.mkdir(parents=True)
    rows = [{"task": t, "versions": {"torch": "0"}} for t in figure.tasks(config)]
    first = {"recipe": {"figure": figure.name, **config}}
    text = "\n".join(json.dumps(line) for line in (first, *rows))
    (place / "rows.jsonl").write_text(text)
    (place / "claims.json").write_text("[]")


def test_a_quick_run_never_takes_the_place_of_a_usual_one(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "HERE", tmp_path / "kept")
    written(tmp_path / "full", SMALL, dict(SMALL.usual))
    written(tmp_path / "quick", SMALL, dict(SMALL.quick))
    assert len(list(kept.keep(tmp_path / "quick"))) == 1
    assert not kept.is_of(SMALL.usual, kept.kept(SMALL))
    assert len(list(kept.keep(tmp_path / "full"))) == 1
    assert list(kept.keep(tmp_path / "quick")) == []
    assert kept.is_of(SMALL.usual, kept.kept(SMALL))


def test_rows_at_the_papers_size_are_kept_beside_ours_with_all_that_computed_them(
    tmp_path, monkeypatch
):
    figure = next(f for f in FIGURES if f.name == "jacot2023/fig1a")
    monkeypatch.setattr(kept, "HERE", tmp_path / "kept")
    monkeypatch.setattr(kept, "LARGE", 10**9)
    written(tmp_path / "both", figure, dict(figure.usual))
    larger = replace(figure, name=f"{figure.name}-full")
    written(tmp_path / "both", larger, dict(figure.full))
    rows = tmp_path / "both/jacot2023/fig1a-full/rows.jsonl"
    head, first, *others = rows.read_text().splitlines()
    rows.write_text("\n".join([head, first.replace('"0"', '"1"'), *others]))
    assert len(list(kept.keep(tmp_path / "both"))) == 2
    ours, papers = kept.kept(figure), kept.kept(figure, full=True)
    assert (ours["versions"], papers["versions"]) == ({"torch": "0"}, {"torch": "1 and 0"})
    assert len(papers["rows"]) == len(figure.tasks(figure.full)) > len(ours["rows"])


def test_a_run_that_was_cut_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "HERE", tmp_path / "kept")
    written(tmp_path / "cut", SMALL, dict(SMALL.quick))
    (tmp_path / "cut" / SMALL.name / "claims.json").unlink()
    assert list(kept.keep(tmp_path / "cut")) == []


def test_long_numbers_are_cut_to_six_digits():
    assert kept._rounded({"a": [1.23456789, "b", 2, None]}) == {"a": [1.23457, "b", 2, None]}
