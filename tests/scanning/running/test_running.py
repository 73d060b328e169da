"""The same bits whoever does the work, in whatever order."""

import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.integrations.processes import WorkerProcesses
from sigmascope.scanning import scan
from sigmascope.scanning.planning import Settings, quantities_named, worked_out
from sigmascope.scanning.running import BATCH, batches, results, run_batch, work
from tests.scanning.checkpoints import SMALL, numbers, stored


def jobs_of(source):
    todo = worked_out(source, Settings(wanted=quantities_named(None)))
    return [*todo.tasks, *todo.pairs]


def backwards(run, many):
    return [run(item) for item in reversed([*many])]


def one_by_one(run, many):
    """Every job alone, so that nothing that one leaves behind is of use to the next."""
    for batch in many:
        for job in batch.jobs:
            yield run(type(batch)((job,)))


@pytest.mark.parametrize(
    "mapper",
    [backwards, one_by_one, WorkerProcesses(2)],
    ids=["backwards", "one by one", "processes"],
)
def test_numbers_do_not_depend_on_who_does_the_work(mapper, tmp_path):
    file = stored(tmp_path)
    assert numbers(scan(file, mapper=mapper)) == numbers(scan(file))


def test_every_job_is_in_one_batch_and_the_dearest_come_first():
    jobs = jobs_of(SMALL)
    found = batches(jobs)
    assert sorted(job.index for b in found for job in b.jobs) == [*range(len(jobs))]
    large = {f"{i}": torch.empty(1500, 1500) for i in range(3)} | {"z": torch.empty(4000, 4000)}
    dearest = batches(jobs_of({**large, "odd.bias": torch.empty(3)}))
    assert dearest[0].jobs[0].matrix.site == "z"
    assert all(sum(map(work, b.jobs)) >= BATCH for b in dearest[:-1])
    assert batches([]) == []


def test_matrices_that_meet_are_in_one_batch():
    jobs = jobs_of(SMALL)
    pair = next(job for job in jobs if not hasattr(job, "matrix"))
    homes = [[job.index for job in b.jobs] for b in batches(jobs)]
    places = next(home for home in homes if pair.index in home)
    assert places.index(pair.index) > max(places.index(task.index) for task in pair.tasks)


class Torn:
    """Stands for a tensor whose file has gone, or whose machine is too small."""

    def __init__(self, error):
        self.error = error

    def read(self, *_):
        raise self.error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Refusal("`b` has changed"), "has changed"),
        (MemoryError("9 GB"), "not enough memory (9 GB)"),
        (OSError(5, "Input/output error"), "could not be read: [Errno 5]"),
        (RuntimeError("no convergence\nat all"), "torch gave up: no convergence"),
    ],
)
def test_one_that_fails_is_said_and_the_rest_are_measured(error, says, monkeypatch):
    jobs = jobs_of(SMALL)
    first = jobs[0].matrix.site
    read = type(jobs[0].cut.stored).read
    torn = lambda stored, *a: Torn(error).read() if stored.name == first else read(stored, *a)
    monkeypatch.setattr(type(jobs[0].cut.stored), "read", torn)
    found = {one.index: one for one in results(jobs, map)}
    assert found.keys() == {job.index for job in jobs}
    assert says in found[0].skipped[0].why
    assert found[0].failed
    sound = [m for i, m in found.items() if not m.failed]
    assert len(sound) >= len(jobs) - 2
    assert all(m.readings for m in sound)


def test_what_has_to_be_said_of_a_matrix_is_said_with_its_numbers():
    task = jobs_of({"a.qkv.weight": torch.randn(7, 5)})[0]
    (found,) = [one for b in batches([task]) for one in run_batch(b)]
    assert found.skipped[0].what == "parts"
    assert "were not split" in found.skipped[0].why


def test_threads_are_as_they_were_after_work():
    before = torch.get_num_threads()
    [*results(jobs_of(SMALL), map)]
    assert torch.get_num_threads() == before
