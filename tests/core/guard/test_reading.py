"""A file of the user's is read, or refused at once: nothing is waited for, nothing fills memory."""

import os
import socket

import pytest

from sigmascope.core.guard import Refusal, opened, read_file, require_file


def bound(path):
    there = socket.socket(socket.AF_UNIX)
    there.bind(str(path))
    there.close()


NO_FILES = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "socket": bound,
}


@pytest.mark.parametrize("what", NO_FILES)
def test_what_is_no_file_is_refused_at_once(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    path = tmp_path / "x"
    NO_FILES[what]("x" if what == "socket" else path)
    with pytest.raises(Refusal, match=what):
        require_file(path, (".toml",))
    with pytest.raises(OSError if what == "socket" else Refusal):  # which nobody can open
        read_file(path, most=9)


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"words")
    assert require_file(path, ()) == path
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Refusal, match="pipe"), opened(path):
        pass


@pytest.mark.parametrize(("size", "fits"), [(0, True), (8, True), (9, True), (10, False)])
def test_a_file_is_read_whole_up_to_its_limit(size, fits, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"a" * size)
    if fits:
        assert read_file(path, most=9) == b"a" * size
    else:
        with pytest.raises(Refusal, match="9 bytes"):
            read_file(path, most=9)


def test_a_file_of_a_terabyte_that_takes_no_room_is_not_read(tmp_path):
    with (tmp_path / "x").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Refusal, match="has more"):
        read_file(tmp_path / "x", most=1 << 20)


def test_a_file_that_is_not_there_has_a_neighbour(tmp_path):
    (tmp_path / "rules.toml").touch()
    os.mkfifo(tmp_path / "rule.toml")
    with pytest.raises(Refusal, match=r"Did you mean `rules.toml`"):
        require_file(tmp_path / "rulez.toml", ())
    (tmp_path / "notes.txt").touch()
    with pytest.raises(Refusal, match=r"a folder.*`rules.toml`") as said:
        require_file(tmp_path, (".toml",))
    assert "notes.txt" not in str(said.value)
    with pytest.raises(Refusal, match=r"no folder `.*none`"):
        require_file(tmp_path / "none" / "x", ())


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000, "loop/x", "file/x"])
def test_what_is_no_name_is_refused(name, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    with pytest.raises(Refusal):
        require_file(tmp_path / name, ())
