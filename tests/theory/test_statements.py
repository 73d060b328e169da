"""Nothing that a paper numbers is left out, and what is said of it can be seen where it is said."""

import functools
import os
import pydoc
import re
from pathlib import Path

import pytest

from sigmascope import report
from sigmascope.report import explanations
from sigmascope.theory import THEOREMS
from sigmascope.theory.statements import PAPERS, STATEMENTS, STATES
from sigmascope_experiments import FIGURES

ROOT = Path(__file__).parents[2]
TEXTS = Path(os.environ.get("SIGMASCOPE_DATA", ROOT.parent / "shared/data")).parent / "papers"
FILES = {
    "daneshmand2020": ("000_*.txt", "001_*.txt"),
    "le2022": ("002_*.txt",),
    "jacot2023": ("003_*.txt",),
    "riedi2022": ("004_*.txt",),
}
KINDS = (
    "Lemma|Theorem|Proposition|Corollary|Definition|Example|Remark|Claim|Assumption|Algorithm|"
    "Figure|Table"
)
NUMBERED = re.compile(rf"\b({KINDS})s?[ \xa0]?(\d+(?:\.\d+)?)\b")
OF_OTHERS = {  # numbers of what a paper cites
    "daneshmand2020": {"Theorem 5", "Theorem 5.2"},  # the first is a slip for Lemma 5
    "le2022": {"Theorem 2.1", "Theorem 4.8"},
    "jacot2023": {"Theorem 2"},
    "riedi2022": {"Lemma 1", "Proposition 3.1", "Theorem 6.1", "Theorem 6.2"},
}


def of(paper):
    return [s for s in STATEMENTS if s.paper == paper]


@functools.cache
def text_of(file):
    return (ROOT / file).read_text("utf-8")


def anchors(paper):
    page = text_of(f"docs/theory/{paper}.md")
    heads = re.findall(r"^#+ (.+)$", page, flags=re.M)
    slugs = {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in heads}
    return slugs | set(re.findall(r"^\((\S+)\)=$", page, flags=re.M))


@pytest.mark.parametrize("paper", PAPERS)
def test_each_number_stands_once(paper):
    labels = [s.label for s in of(paper)]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("paper", PAPERS)
def test_nothing_that_a_paper_numbers_is_blank(paper):
    files = [file for name in FILES[paper] for file in TEXTS.glob(name)]
    if not files:
        pytest.skip("the texts of the papers are not here")
    found = {
        f"{kind} {number}"
        for file in files
        for kind, number in NUMBERED.findall(file.read_text("utf-8"))
    }
    told = {s.label for s in of(paper)}
    named = {n for n in found if not any(t == n or t.startswith(f"{n}(") for t in told)}
    assert named - OF_OTHERS[paper] == set()


@pytest.mark.parametrize("paper", PAPERS)
def test_what_is_said_of_each_can_be_seen(paper):
    known = {
        "theorem": {theorem.name for theorem in THEOREMS},
        "figure": {figure.name for figure in FIGURES},
        "page": {f"#{name}" for name in anchors(paper)},
    }
    for statement in of(paper):
        assert statement.says
        assert statement.words
        kinds = {where.partition(":")[0] for where in statement.where}
        assert kinds & {*STATES[statement.state][1]}, f"{statement.name}: {kinds}"
        assert kinds <= {"theorem", "test", "page", "code", "figure", "source"}
        for kind, names in known.items():
            assert {*statement.places(kind)} <= names, statement.name
        for file, _, test in (p.partition("::") for p in statement.places("test")):
            assert f"def {test.partition('[')[0]}(" in text_of(file), statement.name
        for place in statement.places("code"):
            pydoc.resolve(place, forceload=0)


def test_each_is_found_by_its_number_and_by_its_words(monkeypatch):
    every = (*explanations._every(),)  # is read once
    monkeypatch.setattr(explanations, "_every", lambda: every)
    for statement in STATEMENTS:
        for said in (statement.name.upper(), statement.label, *statement.words):
            assert statement.name in [e.name for e in report.explain(said).senses], said


def test_where_each_can_be_seen_is_what_one_would_type_or_open():
    places = {"theorem": "sigmascope explain ", "figure": "sigmascope reproduce "}
    for statement in STATEMENTS:
        for kind, typed in places.items():
            said = [f"{typed}{name}" for name in statement.places(kind)]
            assert [shown for k, shown in statement.seen() if k == kind] == said
        for kind, shown in statement.seen():
            if kind in ("test", "page"):
                assert (ROOT / shown.partition("#")[0]).is_file(), statement.name
