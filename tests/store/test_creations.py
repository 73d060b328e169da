"""Empty run files."""

from pathlib import Path

import pytest

from sigmascope.store import Run, Unwritable, creations
from sigmascope.store.creations import create


def test_what_another_run_left_is_not_taken_for_the_log_of_a_new_one(path):
    log = Path(f"{path}-wal")
    path.rename(path.with_name("old"))
    log.write_bytes(b"left")
    with pytest.raises(Unwritable, match="would be taken for its log"):
        Run(path)
    assert sorted(path.parent.iterdir()) == [log, path.with_name("old")]


def test_an_empty_run_file_is_whole_and_alone(tmp_path):
    for name in ("a.run", "b.run"):
        create(tmp_path / name)
        with Run(tmp_path / name, write=False) as run:
            assert run.steps() == ()
    assert len(list(tmp_path.iterdir())) == 2
    data = [(tmp_path / name).read_bytes() for name in ("a.run", "b.run")]
    assert [d[18:20] for d in data] == [b"\2\2"] * 2  # with a write-ahead log
    assert data[0] != data[1]  # each has a name of its own


@pytest.mark.parametrize("unnamed", [True, False])
def test_what_is_there_is_not_replaced(tmp_path, monkeypatch, unnamed):
    if not unnamed:
        monkeypatch.setattr(creations, "_unnamed", lambda *_: False)
    path = tmp_path / "a.run"
    create(path)
    first = path.read_bytes()
    create(path)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_folder_it_says_how_to_make_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"make it with `mkdir -p {tmp_path}/no`"):
        create(tmp_path / "no" / "a.run")
    assert not list(tmp_path.iterdir())


def test_the_journal_of_another_file_would_be_taken_for_its_own(tmp_path):
    (tmp_path / "a.run-journal").touch()
    with pytest.raises(Unwritable, match=r"a\.run-journal of another file of that name"):
        create(tmp_path / "a.run")
    assert [p.name for p in tmp_path.iterdir()] == ["a.run-journal"]
