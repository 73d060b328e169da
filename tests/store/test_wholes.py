"""Whether a run file holds what was written to it, and what is said where it does not."""

import random
from contextlib import closing
from dataclasses import replace

import pytest

from sigmascope.store import Damaged, Run, images, wholes
from tests.store.one_reading import READING
from tests.store.rewrites import THROUGH_SQLITE, rewriting


@pytest.fixture
def path(tmp_path, profile, findings):
    with Run(tmp_path / "a.run") as run:
        for step in (0, 10, 20):
            run.add_profile(replace(profile, views=("weights",)), findings, step=step)
    return tmp_path / "a.run"


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("a guard dropped", "its tables cannot be told .readings_keep_update missing or changed"),
        ("a guard added", "its tables cannot be told .x added"),
        ("a column renamed", "readings.* missing or changed"),
        ("a checksum deleted", "do not follow from each other .step 20 does not follow"),
        ("all checksums deleted", "3 were appended and 0 are there"),
        ("the count of steps altered", "9000000000000000000 were appended and 3 are there"),
        ("another name of the run", "its own checksum is"),
        ("a cell with number", "the readings of step 0 are not those that were written"),
    ],
)
def test_what_is_wrong_is_named(path, monkeypatch, kind, says):
    monkeypatch.setattr(wholes, "_PAUSE", 0.0)
    THROUGH_SQLITE[kind](path, random.Random(0))
    with pytest.raises(Damaged, match=says):
        wholes.view(path, path)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM readings WHERE id = 2", "the readings of step 0 .*2 rows were written"),
        (
            "INSERT INTO views (step, time, view) VALUES (20, 'now', 'balances')",
            "rows that belong to no step .3 rows of views were written, 4 are there",
        ),
        ("UPDATE views SET view = 'setup' WHERE id = 3", "the views of step 20 .*SHA-256"),
    ],
)
def test_every_row_is_counted_and_checked(path, monkeypatch, statement, says):
    monkeypatch.setattr(wholes, "_PAUSE", 0.0)
    with rewriting(path) as file:
        file.execute(statement)
    with pytest.raises(Damaged, match=says):
        wholes.view(path, path)


def test_what_is_wrong_while_a_writer_is_at_work_is_looked_at_again(path, monkeypatch):
    """A picture that was taken half way is followed by one that is whole."""
    monkeypatch.setattr(wholes, "_PAUSE", 0.0)
    good = images.take(path, path)
    torn = replace(good, main=good.main[:-2048] + bytes(2048))
    pictures = [torn, good]
    monkeypatch.setattr(wholes, "take", lambda *_: pictures.pop(0))
    picture, file = wholes.view(path, path)
    with closing(file):
        assert file.execute("SELECT count(*) FROM seals").fetchone() == (3,)
    assert picture.main == good.main[:100]
    pictures = [torn, torn]
    with pytest.raises(Damaged):
        wholes.view(path, path)
    assert pictures == []


def test_the_log_of_another_run_is_told_by_the_name_of_the_run(path, tmp_path):
    with Run(tmp_path / "b.run") as run:
        run.add(step=0, readings=[READING])
    mine, other = (images.take(p, p) for p in (path, tmp_path / "b.run"))
    with closing(images.opened(other)) as file, pytest.raises(Damaged, match=r"run \w{32} was exp"):
        wholes.require_kin(file, mine)
    with closing(images.opened(mine)) as file:
        wholes.require_kin(file, mine)
