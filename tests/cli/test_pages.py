"""Refusals end with the page that explains them, and every such page is there."""

import re
from pathlib import Path
from tomllib import loads

import pytest

from sigmascope.cli import COMMANDS, UNDER, pages

ROOT = Path(__file__).parents[2]
USED = [
    *(page for _, page in pages.BY_WORDS),
    *pages.BY_COMMAND.values(),
    *(pages.using((c.__name__,)).removeprefix(f"{pages.DOCS}/") for c in COMMANDS),
    *(
        pages.using((name, below.__name__)).removeprefix(f"{pages.DOCS}/")
        for name, parts in UNDER.items()
        for below in parts
    ),
]


def anchors(file):
    titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", sorted(set(USED)))
def test_every_page_and_place_that_is_named_exists(page):
    name, _, place = page.partition("#")
    assert (ROOT / "docs" / name).is_file()
    assert not place or place in anchors(ROOT / "docs" / name)


def test_every_command_has_a_page():
    assert set(pages.BY_COMMAND) == {command.__name__ for command in COMMANDS}


def test_the_address_is_that_of_the_project():
    urls = loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Repository"] == pages.REPOSITORY
    assert urls["Documentation"] == pages.DOCS


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (("profile", "nothing.py:here"), "getting-started.md#your-own-model-and-data"),
        (("scan", "nothing.safetensors"), "scan.md#what-can-be-read"),
        (("export", "nothing.run", "--to", "csv"), "runs.md"),
        (("scale", "64", "--condition", "-3"), "landscape.md#before-there-is-a-network"),
        (("bottleneck", "train", "digits", "--width", "0"), "cli.md#sigmascope-bottleneck-train"),
        (("profle",), "cli.md"),
        ((), None),
    ],
)
def test_a_refusal_ends_with_its_page(sigmascope, words, page):
    code, _, err = sigmascope(*words)
    last = err.splitlines()[-1] if err else None
    assert last == (page and f"See docs: {pages.DOCS}/{page}")
    assert code == (2 if page else 0)


def test_what_is_our_fault_has_no_page(sigmascope, monkeypatch):
    def fails(*_, **__):
        raise KeyError("ours")

    monkeypatch.setattr("sigmascope.sources.open_both", fails)
    code, _, err = sigmascope("profile", "mlp")
    assert code == 2
    assert "fault of sigmascope" in err
    assert "See docs" not in err
