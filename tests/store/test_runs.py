import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from sigmascope.records import Estimate, Reading
from sigmascope.store import VERSION, Run, Unwritable

TABLES = ("environment", "layers", "readings", "spectra", "checks", "findings", "skipped")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a run with spaces.run"


def reading(value):
    return Reading("fc", "stable rank", Estimate.exactly(float(value)), "weights", "matrix")


def test_a_profile_comes_back_as_it_went_in(path, profile, findings):
    with Run(path) as run:
        run.add_profile(profile, findings, step=7)
    with Run(path, write=False) as run:
        stored = list(run.readings())
        assert [(r.site, r.quantity, r.estimate, r.view, r.form) for r in stored] == [
            (r.site, r.quantity, r.estimate, r.view, r.form) for r in profile.readings
        ]
        assert {r.step for r in stored} == {7}
        assert [(s.site, s.what, s.why) for s in run.skipped()] == [
            ("head", "weights", "lazily initialised")
        ]
        assert [(w.name, w.value) for w in run.about()] == [*profile.about.items()]
        (layer,) = run.layers()
        assert (layer.depth, layer.parameters) == (0, ("blocks.0.weight", "blocks.0.bias"))


def test_spectra_come_back_bit_for_bit(path, profile):
    with Run(path) as run:
        run.add_profile(profile)
        stored = list(run.spectra())
    for before, after in zip(profile.spectra, stored, strict=True):
        assert (after.site, after.view, after.form) == (before.site, before.view, before.form)
        assert after.spectrum.sigma.tolist() == before.spectrum.sigma.tolist()
        assert (after.spectrum.shape, after.spectrum.risk) == (
            before.spectrum.shape,
            before.spectrum.risk,
        )
    assert stored[0].spectrum.high.tolist() == profile.spectra[0].spectrum.high.tolist()
    assert stored[1].spectrum.low.tolist() == []


def test_checks_and_findings_come_back(path, profile, findings):
    with Run(path) as run:
        run.add_profile(profile, findings)
        (check,), (finding,) = run.checks(), run.findings()
    assert (check.measured, check.limit) == (profile.checks[0].measured, profile.checks[0].limit)
    assert check.record == profile.checks[0]
    assert finding.remedies == findings[0].remedies
    assert [r.estimate for r in finding.evidence] == [r.estimate for r in findings[0].evidence]


def test_what_was_stored_can_be_stored_again(tmp_path, profile, findings):
    with Run(tmp_path / "a.run") as first, Run(tmp_path / "b.run") as second:
        first.add_profile(profile, findings)
        second.add(step=0, readings=first.readings(), findings=first.findings())
        assert [r.estimate for r in second.readings()] == [r.estimate for r in profile.readings]


def test_times_are_utc_and_one_for_each_step(path, readings):
    with Run(path) as run:
        run.add(step=0, readings=readings)
        times = {r.time for r in run.readings()}
    (time,) = times
    assert time.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - time) < timedelta(minutes=1)


def test_a_run_is_resumed_by_opening_it_again(path):
    for step in (0, 10):
        with Run(path) as run:
            run.add(step=step, readings=[reading(step)])
    with Run(path) as run:
        assert run.steps() == (0, 10)


def test_a_step_that_fails_leaves_nothing(path):
    def half():
        yield reading(1)
        raise RuntimeError("the model blew up")

    with Run(path) as run:
        run.add(step=0, readings=[reading(0)])
        with pytest.raises(RuntimeError, match="blew up"):
            run.add(step=1, about={"loss": "3"}, readings=half())
        run.add(step=2, readings=[reading(2)])
        assert run.steps() == (0, 2)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("verb", ["UPDATE {} SET step = 9", "DELETE FROM {}", "REPLACE INTO {}"])
def test_nothing_in_a_run_can_be_changed(path, profile, findings, table, verb):
    with Run(path) as run:
        run.add_profile(profile, findings)
    with closing(sqlite3.connect(path)) as db:
        sql = verb.format(table)
        if verb.startswith("REPLACE"):
            sql += f" SELECT * FROM {table}"
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(sql)


def test_another_process_reads_a_run_while_it_grows(path):
    count = (
        "import sys; from sigmascope.store import Run\n"
        "with Run(sys.argv[1], write=False) as run: print(len(list(run.readings())))"
    )
    with Run(path) as run:
        for step in range(3):
            run.add(step=step, readings=[reading(step)])
        seen = subprocess.run(
            [sys.executable, "-c", count, str(path)], capture_output=True, text=True, check=True
        )
        assert seen.stdout.strip() == "3"
        run.add(step=3, readings=[reading(3)])
        assert len(list(run.readings())) == 4


def test_a_reader_cannot_write(path, readings):
    Run(path).close()
    with Run(path, write=False) as run, pytest.raises(Unwritable, match="for reading only"):
        run.add(step=0, readings=readings)


def test_a_reader_leaves_no_file_behind(path, readings):
    with Run(path) as run:
        run.add(step=0, readings=readings)
    with Run(path, write=False) as run:
        assert len(list(run.readings())) == 2
    assert list(path.parent.iterdir()) == [path]


def test_a_killed_writer_leaves_whole_steps(path):
    writer = (
        "import sys; from sigmascope.records import Estimate, Reading\n"
        "from sigmascope.store import Run\n"
        "row = Reading('fc', 'x', Estimate.exactly(1.0), 'weights', '')\n"
        "with Run(sys.argv[1]) as run:\n"
        "    for step in range(10**6):\n"
        "        def rows():\n"
        "            for i in range(500):\n"
        "                if step == 5 and i == 250: print('middle', flush=True)\n"
        "                yield row\n"
        "                if step >= 5 and i == 250: sys.stdin.read()\n"
        "        run.add(step=step, about={'loss': '1'}, readings=rows())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", writer, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout.readline() == b"middle\n"  # half of step 5 is written, not committed
        process.kill()
    with Run(path) as run:
        assert run.steps() == (0, 1, 2, 3, 4)
        assert len(list(run.readings())) == 5 * 500
        run.add(step=5, readings=[reading(5)])
        assert run.steps()[-1] == 5


def foreign_sqlite(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE photos (name TEXT)")


def newer_run(path):
    Run(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
        db.execute("PRAGMA journal_mode = DELETE")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b""), "not a sigmascope run file: it is empty"),
        (lambda path: path.write_text("step,site\n" * 50), "it is not SQLite"),
        (foreign_sqlite, "an SQLite file of another program"),
        (newer_run, "newer sigmascope .run format 3"),
    ],
)
@pytest.mark.parametrize("write", [True, False])
def test_foreign_files_are_refused_and_left_alone(path, make, says, write):
    make(path)
    before = path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir())
    with pytest.raises(ValueError, match=says):
        Run(path, write=write)
    assert before == (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir()))


def test_a_missing_folder_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="mkdir -p"):
        Run(tmp_path / "nowhere" / "a.run")
    with pytest.raises(FileNotFoundError, match="There is no run file"):
        Run(tmp_path / "a.run", write=False)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_no_run_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no run file"):
        Run(tmp_path)
