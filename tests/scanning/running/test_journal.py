"""A run file holds one scan, and whatever else it may hold is left as it is."""

import dataclasses

import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.records import Skipped
from sigmascope.records.scans import Matrix
from sigmascope.scanning import plan, scan
from sigmascope.scanning.measuring import Measured
from sigmascope.scanning.running import Journal
from sigmascope.store import Run
from tests.scanning.checkpoints import SMALL, stored


@pytest.fixture
def file(tmp_path):
    return stored(tmp_path)


@pytest.fixture
def run(tmp_path, file):
    path = tmp_path / "a.run"
    scan(file, run=path)
    return path


def test_nothing_is_kept_on_disk_without_a_name():
    journal = Journal(plan(SMALL), None)
    journal.add(Measured(0, (), None, (), None))
    assert [*journal.found] == [0]
    journal.close()


def test_results_come_back_as_they_were(run, file):
    journal = Journal(plan(file), run)
    again = Journal(plan(file), run)
    assert journal.found.keys() == again.found.keys()
    for i, one in journal.found.items():
        for field in dataclasses.fields(Measured):
            mine, other = getattr(one, field.name), getattr(again.found[i], field.name)
            if isinstance(mine, torch.Tensor):
                assert torch.equal(mine, other)
            elif field.name != "spectrum":
                assert mine == other
    assert not journal.missing([type("Job", (), {"index": i}) for i in journal.found])


def test_what_failed_is_not_kept(tmp_path, file):
    path = tmp_path / "b.run"
    journal = Journal(plan(file), path)
    lost = Measured(0, (), None, (Skipped("a", "all of it", "it has gone"),), None, failed=True)
    journal.add(lost)
    journal.add(Measured(1, (), None, (), torch.arange(4.0)))
    assert [*journal.found] == [0, 1]
    later = Journal(plan(file), path)
    assert [*later.found] == [1]
    assert torch.equal(later.found[1].sketch, torch.arange(4.0))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"seed": 1}, "other `seed`, 0"),
        ({"spectra": False}, "other `spectra`"),
        ({"effort": "leading"}, "other `effort`"),
        ({"heads": True}, "other `heads`"),
        ({"only": ["layers*"]}, "other `only`"),
        ({"skip": ["nan*"]}, "other `skip`"),
        ({"quantities": ["spikes"]}, "other `quantities`"),
    ],
)
def test_a_scan_that_asks_for_something_else_is_refused(run, file, asked, says):
    before = run.read_bytes()
    with pytest.raises(Refusal, match="name another run file") as refused:
        scan(file, run=run, **asked)
    assert says in str(refused.value)
    assert run.read_bytes() == before


def test_a_scan_of_other_files_is_refused(run, file, tmp_path):
    before = run.read_bytes()
    other = stored(tmp_path, {"a.weight": torch.randn(9, 9)}, "other.safetensors")
    with pytest.raises(Refusal, match="of other files"):
        scan(other, run=run)
    with pytest.raises(Refusal, match="without `--against`"):
        scan(file, against=other, run=run)
    pair = tmp_path / "pair.run"
    scan(file, against=file, run=pair)
    with pytest.raises(Refusal, match="with `--against`"):
        scan(file, run=pair)
    assert run.read_bytes() == before


def test_a_file_that_holds_no_scan_is_refused_and_left_as_it_is(tmp_path, file):
    profile = tmp_path / "profile.run"
    with Run(profile) as mine:
        mine.add(step=5, about={"model": "mlp"})
    foreign = tmp_path / "notes.txt"
    foreign.write_text("mine")
    before = profile.read_bytes()
    with pytest.raises(Refusal, match="holds no scan"):
        scan(file, run=profile)
    with pytest.raises(ValueError, match="run file"):
        scan(file, run=foreign)
    assert profile.read_bytes() == before
    assert foreign.read_text() == "mine"


def test_a_file_that_was_begun_and_has_nothing_yet_is_taken(tmp_path, file):
    path = tmp_path / "new.run"
    Run(path).close()
    assert scan(file, run=path).readings


def test_a_plan_of_other_matrices_is_another_scan(run, file):
    one = plan(file)
    matrices: tuple[Matrix, ...] = one.matrices
    assert one.settings["matrices"] != plan(file, heads=True, only=["zero*"]).settings["matrices"]
    changed = dataclasses.replace(
        one, matrices=matrices[1:], settings={**one.settings, "spectra": "True", "matrices": "odd"}
    )
    full = {**changed.settings, "quantities": _quantities(run)}
    with pytest.raises(Refusal, match="other matrices"):
        Journal(dataclasses.replace(changed, settings=full), run)


def _quantities(run):
    with Run(run, write=False) as file:
        return {row.record.name: row.record.value for row in file.about()}["quantities"]
