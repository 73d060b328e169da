"""A run file that is followed through all that can become of it."""

import os

import pytest

from sigmascope.store import Run
from sigmascope.watching.live import Feed
from tests.runs_made import made, reading


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.run"


@pytest.fixture
def feed(path):
    return Feed(path, "a.run")


def look(feed):
    while feed.look():
        pass
    return feed.state()


def add(path, step):
    with Run(path) as run:
        run.add(step=step, readings=[reading("(loss)", "loss", 1.0)])


def test_a_file_that_is_not_there_is_waited_for(feed, path):
    assert look(feed)["trouble"] == "There is no run file yet."
    made(path, 3)
    state = look(feed)
    assert (state["trouble"], state["step"]) == ("", 2)


def test_a_state_that_was_seen_is_not_sent_again(feed, path):
    made(path, 3)
    seen = look(feed)["version"]
    assert feed.state(seen) == {"version": seen, "generation": 0}
    look(feed)
    assert feed.state(seen) == {"version": seen, "generation": 0}
    add(path, 7)
    assert look(feed)["step"] == 7


def test_a_file_that_is_replaced_is_read_anew_and_it_is_said(feed, path, tmp_path):
    made(path, 9)
    look(feed)
    made(tmp_path / "b.run", 3).replace(path)
    state = look(feed)
    assert (state["generation"], state["step"]) == (1, 2)
    assert "replaced by another run" in state["note"]
    assert feed.panel(0, 0, 0) == {"generation": 1}  # asked by who has not heard of it
    assert feed.panel(0, 0, 1)["rows"] == 3


def test_what_was_read_of_a_file_that_is_gone_stays(feed, path):
    made(path, 3)
    look(feed)
    path.unlink()
    state = look(feed)
    assert state["trouble"] == "The file is gone; what was read of it stays here."
    assert state["step"] == 2


def test_damage_is_said_and_mended_files_go_on(feed, path):
    made(path, 3)
    look(feed)
    whole = path.read_bytes()
    os.truncate(path, 5000)
    state = look(feed)
    assert "is damaged" in state["trouble"]
    assert state["step"] == 2
    path.write_bytes(whole)
    assert look(feed)["trouble"] == ""


def test_another_file_in_its_place_is_said(feed, path):
    path.write_text("hello " * 40)
    assert "is not a sigmascope run file" in look(feed)["trouble"]


def test_a_finding_that_cannot_be_read_is_damage(feed, path, monkeypatch):
    made(path, 30)
    monkeypatch.setattr("sigmascope.store.following.row", lambda *_: [][0])
    assert "the findings cannot be read" in look(feed)["trouble"]
    monkeypatch.undo()
    assert look(feed)["step"] == 29


def test_spectra_are_given_by_their_place(feed, path):
    made(path, 20)
    look(feed)
    assert [row[0] for row in feed.spectra(1, 0)["spectra"]] == [0, 16]
