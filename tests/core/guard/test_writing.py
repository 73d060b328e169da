"""Files appear whole or not at all, and never over what is not ours."""

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from sigmascope.core import guard

MARK = guard.Mark(b"made here", b"one")
NEW = "made here, the new one"


@pytest.fixture
def old(tmp_path):
    file = tmp_path / "file.json"
    file.write_bytes(b"made here, the old one")
    return file


def test_a_file_is_written_and_nothing_beside_it(tmp_path):
    guard.write_text(tmp_path / "a", NEW, mark=MARK)
    assert (tmp_path / "a").read_text() == NEW
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_what_we_wrote_is_written_again_with_its_mode(old):
    old.chmod(0o640)
    guard.write_text(old, NEW, mark=MARK)
    assert old.read_text() == NEW
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


def test_a_fresh_file_may_be_read_as_any_other(tmp_path):
    (tmp_path / "usual").touch()
    guard.write_text(tmp_path / "a", NEW, mark=MARK)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "a")}
    assert len(modes) == 1


def test_a_file_with_nothing_in_it_is_free(tmp_path):
    (tmp_path / "a").touch()
    guard.write_text(tmp_path / "a", NEW, mark=MARK)
    assert (tmp_path / "a").read_text() == NEW


@pytest.mark.parametrize(
    "content",
    [
        b"my notes",
        b"0",
        b"[]\n",
        b"{}",
        b" \n",
        b"x" * 300_000,
        b"made  here, one",
        b"not made here, one",
        b"made here, two",
        b"I quote: made here, the one",
        b"\nmade here one",
    ],
)
def test_what_is_not_ours_is_left(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    for door in (guard.require_target, lambda p, mark: guard.write_text(p, NEW, mark=mark)):
        with pytest.raises(guard.Refusal, match="no file of this kind that sigmascope wrote"):
            door(tmp_path / "a", mark=MARK)
    assert (tmp_path / "a").read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_mark_is_how_a_file_begins_and_ends(tmp_path):
    (tmp_path / "a").write_bytes(b"made here" + bytes(500_000) + b"one")
    guard.write_text(tmp_path / "a", NEW, mark=MARK)
    assert (tmp_path / "a").read_text() == NEW


def test_a_link_stays_a_link(old, tmp_path):
    (tmp_path / "link").symlink_to(old)
    guard.write_text(tmp_path / "link", NEW, mark=MARK)
    assert (tmp_path / "link").is_symlink()
    assert old.read_text() == NEW


def test_a_link_to_what_is_not_ours_is_refused(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to("mine")
    with pytest.raises(guard.Refusal, match="no file of this kind"):
        guard.write_text(tmp_path / "link", NEW, mark=MARK)
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_link_in_a_circle_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(guard.Refusal, match="cannot be written"):
        guard.require_target(tmp_path / "loop", mark=MARK)
    assert (tmp_path / "loop").is_symlink()


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full", "/dev/zero"])
def test_devices_stay_devices(device):
    before = os.lstat(device)
    with pytest.raises(guard.Refusal, match="must be a file or nothing, got a device"):
        guard.write_text(device, NEW, mark=MARK)
    assert os.lstat(device).st_mode == before.st_mode


def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(guard.Refusal, match="pipe"):
        guard.write_text(tmp_path / "pipe", NEW, mark=MARK)


def test_folders_that_are_not_there_or_take_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="mkdir -p"):
        guard.require_target(tmp_path / "no" / "a", mark=MARK)
    with pytest.raises(guard.Refusal, match="is a folder"):
        guard.require_target(tmp_path, mark=MARK)
    with pytest.raises(guard.Refusal, match="cannot be written"):
        guard.require_target("/proc/a", mark=MARK)
    with pytest.raises(guard.Refusal, match="cannot be written"):
        guard.require_target(tmp_path / ("x" * 300), mark=MARK)
    with pytest.raises(guard.Refusal, match=r"cannot be written|does not exist"):
        guard.require_target("a\0b", mark=MARK)


def test_a_long_name_has_room_for_its_fresh_file(tmp_path):
    file = tmp_path / ("ä" * 127)  # 254 bytes
    guard.write_text(file, NEW, mark=MARK)
    assert file.read_text() == NEW


def test_half_a_character_is_written_as_an_escape(tmp_path):
    guard.write_text(tmp_path / "a", "\udce9", mark=MARK)
    assert (tmp_path / "a").read_text() == r"\udce9"


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, MemoryError])
def test_what_stops_in_the_middle_leaves_the_old_file(old, error):
    def halfway():
        with guard.replacing(old, mark=MARK) as fresh:
            fresh.write_text("half")
            raise error

    with pytest.raises(error):
        halfway()
    assert old.read_text() == "made here, the old one"
    assert [p.name for p in old.parent.iterdir()] == [old.name]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
def test_every_call_may_fail(old, monkeypatch, code, call):
    """Wherever the system says no, the old file is whole and nothing lies beside it."""

    def fails(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(guard.Refusal, match=f"{old.name} cannot be written"):
        guard.write_text(old, NEW, mark=MARK)
    assert old.read_text() == "made here, the old one"
    assert [p.name for p in old.parent.iterdir()] == [old.name]


KILLED = """
import os, signal, sys
from pathlib import Path
from sigmascope.core import guard
calls, at = 0, int(sys.argv[2])
def dying(call):
    def made(*a, **k):
        global calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*a, **k)
    return made
for name in ("open", "close", "fsync", "replace", "chmod", "stat", "unlink"):
    setattr(os, name, dying(getattr(os, name)))
Path.write_bytes = dying(Path.write_bytes)
guard.write_text(sys.argv[1], "made here, the new one", mark=guard.Mark(b"made here"))
print("written", calls)
"""


def killed_at(old, call):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(old), str(call)], capture_output=True, text=True
    )
    return done.returncode == -signal.SIGKILL, old.read_text()


def test_killed_before_any_call_there_is_the_old_file_or_the_new(old):
    died = True
    seen = []
    for call in range(1, 40):
        died, content = killed_at(old, call)
        seen.append(content)
        if not died:
            break
    assert not died
    assert len(seen) > 8
    assert set(seen) == {"made here, the old one", NEW}
    assert seen == sorted(seen, key=lambda c: c == NEW)  # old until it is replaced
