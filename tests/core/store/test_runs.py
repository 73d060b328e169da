import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from sigmascope.core.records import Estimate, Reading
from sigmascope.core.store import Run, Unwritable
from tests.core.store.one_reading import READING, values


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a run with spaces.run"


HOLD = """
import sqlite3, sys, time
file = sqlite3.connect(sys.argv[1])
file.execute("BEGIN")
print(*file.execute("SELECT count(*) FROM steps").fetchone(), flush=True)
time.sleep(60)
"""


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


def test_a_step_may_be_added_to(path):
    with Run(path) as run:
        for step in (10, 0, 10):
            run.add(step=step, readings=[reading(step)])
        assert run.steps() == (0, 10)
        assert [r.step for r in run.readings()] == [10, 0, 10]


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


def test_another_process_reads_a_run_while_it_grows(path):
    count = (
        "import sys; from sigmascope.core.store import Run\n"
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


def test_a_writer_that_is_done_leaves_one_file(path):
    """Also where somebody read while its last step ended."""
    with Run(path) as run:
        run.add(step=0, readings=[READING] * 2)
        reader = run.readings()
        next(reader)
        run.add(step=1, readings=[READING])
        assert len(list(path.parent.iterdir())) == 3
        killed = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
        assert killed.stdout.readline()
        reader.close()
        killed.kill()
        killed.communicate()
        assert len(list(path.parent.iterdir())) == 3
    assert list(path.parent.iterdir()) == [path]
    assert [step for step, _ in values(path)] == [0, 0, 1]


def test_a_link_to_a_run_file_is_that_run_file(path, tmp_path):
    with Run(path) as run:
        run.add(step=0, readings=[READING])
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "link.run"
    link.symlink_to(path)
    with Run(link) as run:
        run.add(step=1, readings=[READING])
    assert values(link) == values(path) == [(0, 1.5), (1, 1.5)]
    assert sorted(tmp_path.rglob("*")) == sorted([path, link.parent, link])


def test_a_run_that_was_closed_says_so(path):
    run = Run(path)
    run.close()
    with pytest.raises(ValueError, match="was closed"):
        run.add(step=1, readings=[READING])
    with pytest.raises(ValueError, match="was closed"):
        run.steps()


def test_several_steps_are_added_together_or_none_of_them(tmp_path):
    with Run(tmp_path / "a.run") as run:
        run.add_steps(
            [{"step": 1, "about": {"a": "b"}}, {"step": 2}, {"step": 3, "views": ["watch"]}]
        )
        assert run.steps() == (1, 3)
        with pytest.raises(Unwritable):
            run.add_steps([{"step": 4, "about": {"a": "b"}}, {"step": 2**70, "views": ["watch"]}])
        assert run.steps() == (1, 3)


def test_a_run_says_which_file_it_is_and_whether_it_can_be_written(tmp_path):
    path = tmp_path / "a.run"
    with Run(path) as run:
        assert repr(run) == f"Run({str(path)!r}), open"
    assert repr(run).endswith(", closed")
    with Run(path, write=False) as run:
        assert repr(run).endswith(", open for reading")
