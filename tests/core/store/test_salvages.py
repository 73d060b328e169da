"""What `sigmascope export` makes of damaged run files, with its exit codes."""

import csv
import shutil
import sqlite3
import sys
from contextlib import closing

import pytest

from sigmascope.cli import main
from sigmascope.core.store import Damaged, Run, export, salvage
from tests.core.store.one_reading import READING
from tests.core.store.rewrites import unsafely

STEPS = (0, 10, 20)


@pytest.fixture
def path(tmp_path, profile, findings):
    with Run(tmp_path / "a.run") as run:
        for step in STEPS:
            run.add_profile(profile, findings, step=step)
    return tmp_path / "a.run"


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["sigmascope", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return run


def change(path, *statements):
    with unsafely(path) as file:
        for statement in statements:
            file.execute(statement)


def steps_in(file):
    with file.open(newline="", encoding="utf-8") as text:
        return sorted({int(row["step"]) for row in csv.DictReader(text)})


def test_a_whole_file_is_exported_with_code_0(path, command):
    code, out, err = command("export", path, "--to", "csv")
    assert (code, out, err) == (0, "", f"Wrote {path.with_name('a-readings.csv')}\n")


@pytest.mark.parametrize(("lost", "more"), [(20, ""), (21, " and 1 more"), (23, " and 3 more")])
def test_twenty_lost_steps_are_named_and_more_are_counted(tmp_path, lost, more):
    path = tmp_path / "long.run"
    with Run(path) as run:
        for step in range(24):
            run.add(step=step, readings=(READING,))
    change(path, f"UPDATE readings SET value = 2 WHERE step < {lost}")
    said = salvage(path, to="csv", path=tmp_path / "out.csv")
    named = ", ".join(map(str, range(20)))
    whole = f"{24 - lost} of 24 steps have their readings whole"
    assert said == f"{whole}; not whole: step {named}{more}."
    assert steps_in(tmp_path / "out.csv") == [*range(lost, 24)]


def test_the_whole_steps_are_written_and_the_others_named_with_code_1(path, tmp_path, command):
    change(path, "UPDATE readings SET value = value * 2 WHERE step = 10")
    before = path.read_bytes()
    code, _, err = command("export", path, "--to", "csv", "--out", tmp_path / "out.csv")
    assert code == 1
    damage, wrote = err.splitlines()
    assert damage.startswith(f"{path} is damaged: the readings of step 10 are not those that were")
    assert damage.endswith("It was left as it is.")
    assert wrote.endswith("out.csv: 2 of 3 steps have their readings whole; not whole: step 10.")
    assert steps_in(tmp_path / "out.csv") == [0, 20]
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path, tmp_path / "out.csv"]


def test_a_table_that_is_whole_in_a_damaged_file_is_written_whole(path, tmp_path, command):
    change(path, "UPDATE readings SET value = value * 2 WHERE step = 10")
    words = ("export", path, "--to", "csv", "--table", "findings", "--out", tmp_path / "out.csv")
    code, _, err = command(*words)
    assert code == 1
    assert "3 of 3 steps have their findings whole." in err
    assert steps_in(tmp_path / "out.csv") == [*STEPS]


def test_a_file_cut_off_gives_what_comes_before_or_code_2(path, tmp_path, command):
    whole = path.read_bytes()
    for share in (0.95, 0.5, 0.1, 0.01):
        path.write_bytes(whole[: int(len(whole) * share)])
        out = tmp_path / "out.csv"
        code, _, err = command("export", path, "--to", "csv", "--out", out)
        assert code in (1, 2)
        assert "Traceback" not in err
        assert out.exists() == (code == 1)
        assert not out.exists() or set(steps_in(out)) <= {*STEPS}
        out.unlink(missing_ok=True)
        assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_database_any_more_is_code_2_and_says_what_to_do(path, command):
    data = bytearray(path.read_bytes())
    data[3] ^= 4
    path.write_bytes(data)
    with pytest.raises(Damaged, match="file is not a database"):
        export(path, to="csv", path=path.with_name("out.csv"))
    code, _, err = command("export", path, "--to", "csv")
    assert code == 2
    assert "no step can be read" in err
    assert ".recover" in err
    assert path.read_bytes() == data


def test_the_count_of_pages_may_be_wrong(path, tmp_path):
    data = path.read_bytes()
    path.write_bytes(data[:28] + (999).to_bytes(4, "big") + data[32:])
    with pytest.raises(Damaged, match="malformed"):
        export(path, to="csv", path=tmp_path / "out.csv")
    said = salvage(path, to="csv", path=tmp_path / "out.csv")
    assert said == "3 of 3 steps have their readings whole."


def test_a_step_whose_name_cannot_be_read_is_told_by_its_number(path, tmp_path):
    change(path, "UPDATE steps SET rows = x'00' WHERE id = 2")
    said = salvage(path, to="csv", path=tmp_path / "out.csv")
    assert said == (
        "2 of 3 steps have their readings whole; not whole: step (number 2, whose name cannot be "
        "read)."
    )
    assert steps_in(tmp_path / "out.csv") == [0, 20]


def test_nothing_whole_is_code_2_and_writes_nothing(path, tmp_path, command):
    change(path, "UPDATE readings SET value = value * 2")
    code, _, err = command("export", path, "--to", "csv")
    assert (code, err.count("\n")) == (2, 2)  # the sentence and its page
    assert "none of its steps has its readings whole" in err
    assert list(tmp_path.iterdir()) == [path]


def test_of_format_1_nobody_can_tell_what_is_whole(tmp_path, command):
    from tests.core.store.test_versions import OLD

    path = tmp_path / "old.run"
    shutil.copy(OLD, path)
    path.write_bytes(path.read_bytes()[:20_000])
    code, _, err = command("export", path, "--to", "csv")
    assert code == 2
    assert "no checksums" in err
    assert ".recover" in err


@pytest.mark.parametrize("content", [b"", b"step,site\n" * 50, bytes(5000)])
def test_what_is_no_run_file_is_code_2(tmp_path, command, content):
    (tmp_path / "a.run").write_bytes(content)
    code, _, err = command("export", tmp_path / "a.run", "--to", "csv")
    assert (code, err.count("\n")) == (2, 2)
    assert "is not a sigmascope run file" in err


SMALL = ("profile", "mlp?depth=2&width=8", "--samples", "16")


def test_profile_refuses_a_damaged_run_file_before_measuring(path, command):
    path.write_bytes(path.read_bytes()[:-4096])
    code, out, err = command(*SMALL, "--run", path)
    assert (code, out, err.count("\n")) == (2, "", 2)
    assert "is damaged" in err


def test_profile_shows_what_it_measured_where_the_disk_is_full(path, command, monkeypatch):
    from sigmascope.core.store import runs

    def full(*_):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(runs, "append", full)
    code, out, err = command(*SMALL, "--run", path)
    assert code == 2
    assert out
    assert "the disk is full" in err
    assert err.count("\n") == 2


def test_a_locked_run_file_is_exported_all_the_same(path, command):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert command("export", path, "--to", "csv")[0] == 0


@pytest.mark.parametrize("version", [0, 2**30, 2**31])
def test_a_format_that_never_was_is_damage_or_newer(path, version):
    """`user_version` stands in bytes 60 to 63; no run file was ever of format 0."""
    data = bytearray(path.read_bytes())
    data[60:64] = version.to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(ValueError, match="a newer" if version == 2**30 else "its format is"):
        Run(path, write=False)
    assert path.read_bytes() == data
