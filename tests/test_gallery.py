"""The gallery has every figure, from rows that are all there, and says what they show."""

import importlib.util
import json
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
def test_all_rows_of_the_full_size_are_kept(figure):
    found = kept.kept(figure)
    assert kept.is_full(figure, found)
    tasks = json.loads(json.dumps(figure.tasks(found["config"])))
    assert [row["task"] for row in found["rows"]] == tasks


@each
def test_the_page_shows_it_and_no_claim_fails(figure):
    assert f"```{{kept}} {figure.name}\n```" in PAGE
    assert not [c for c in kept.claims(figure) if c.holds is False]


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


def test_a_quick_run_never_takes_the_place_of_a_full_one(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "HERE", tmp_path / "kept")
    written(tmp_path / "full", SMALL, dict(SMALL.full))
    written(tmp_path / "quick", SMALL, dict(SMALL.quick))
    assert len(list(kept.keep(tmp_path / "quick"))) == 1
    assert not kept.is_full(SMALL, kept.kept(SMALL))
    assert len(list(kept.keep(tmp_path / "full"))) == 1
    assert list(kept.keep(tmp_path / "quick")) == []
    assert kept.is_full(SMALL, kept.kept(SMALL))


def test_a_run_that_was_cut_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "HERE", tmp_path / "kept")
    written(tmp_path / "cut", SMALL, dict(SMALL.quick))
    (tmp_path / "cut" / SMALL.name / "claims.json").unlink()
    assert list(kept.keep(tmp_path / "cut")) == []


def test_long_numbers_are_cut_to_six_digits():
    assert kept._rounded({"a": [1.23456789, "b", 2, None]}) == {"a": [1.23457, "b", 2, None]}
