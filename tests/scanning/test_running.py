"""The same bits whoever does the work, in whatever order, however often it was cut off."""

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import save_file

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Matrix, Skipped
from sigmascope.core.store import Run
from sigmascope.integrations.processes import WorkerProcesses
from sigmascope.scanning import plan, scan
from sigmascope.scanning.measuring import Measured
from sigmascope.scanning.planning import Settings, quantities_named, worked_out
from sigmascope.scanning.running import BATCH, Journal, batches, results, run_batch, work
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
    [
        pytest.param(backwards, id="backwards"),
        pytest.param(one_by_one, id="one by one"),
        # by day the scan that is killed has them
        pytest.param(WorkerProcesses(2), id="processes", marks=pytest.mark.slow),
    ],
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


CALLS = len(scan(SMALL).matrices) + 3  # with pairs that meet, and copies


class Cut(Exception):
    pass


def ending(after, with_=Cut):
    """One job at a time, and an end after so many."""
    left = itertools.count()

    def mapper(run, many):
        for batch in many:
            for job in batch.jobs:
                if next(left) == after:
                    raise with_
                yield run(type(batch)((job,)))

    return mapper


@pytest.mark.parametrize("spectra", [True, False])
def test_a_scan_that_is_cut_off_anywhere_comes_to_the_same_numbers(tmp_path, spectra):
    file = stored(tmp_path)
    whole = numbers(scan(file, spectra=spectra))
    cuts = 0
    for after in range(0, CALLS + 1, 2 if spectra else 5):
        run = tmp_path / f"{after}.run"
        try:
            scan(file, run=run, spectra=spectra, mapper=ending(after))
        except Cut:
            cuts += 1
        told = []
        found = scan(file, run=run, spectra=spectra, told=lambda m, one, to=told: to.append(m.site))
        assert numbers(found) == whole
        assert sorted(told) == sorted(m.site for m in found.matrices)  # with those of before
        silent = scan(file, run=run, spectra=spectra, mapper=ending(0))  # nothing is done again
        assert numbers(silent) == whole
    assert cuts >= (len(SMALL) // 2 if spectra else 2)


def test_an_interruption_keeps_what_was_done(tmp_path):
    file, run = stored(tmp_path), tmp_path / "a.run"
    with pytest.raises(KeyboardInterrupt):
        scan(file, run=run, mapper=ending(4, KeyboardInterrupt))
    done = []
    left = lambda job, many: (done.extend(j for b in many for j in b.jobs), map(job, many))[1]
    scan(file, run=run, mapper=lambda f, many: left(f, [*many]))
    assert 0 < len(done) <= CALLS - 4


def test_progress_reaches_its_end_also_where_a_part_was_done_before(tmp_path):
    file, run, seen = stored(tmp_path), tmp_path / "a.run", []
    with pytest.raises(Cut):
        scan(file, run=run, mapper=ending(3))
    scan(file, run=run, progress=lambda *told: seen.append(told))
    words, done, total = seen[-1]
    assert done == total
    assert words.split()[0] == words.split()[2]


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    names = {}
    for i in range(3):
        name = f"model-{i + 1}-of-3.safetensors"
        save_file({f"layers.{i}.up_proj.weight": torch.randn(20, 12)}, folder / name)
        names[f"layers.{i}.up_proj.weight"] = name
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    return folder


@pytest.mark.parametrize("how", ["gone", "cut short"])
def test_a_shard_that_goes_away_is_said_and_tried_again_when_it_is_back(shards, tmp_path, how):
    run, second = tmp_path / "a.run", shards / "model-2-of-3.safetensors"
    kept, times = second.read_bytes(), second.stat()

    def mapper(job, many):
        if how == "gone":
            second.unlink(missing_ok=True)
        else:
            second.write_bytes(kept[:100])
        return [job(item) for item in many]

    found = scan(str(shards), run=run, mapper=mapper)
    (lost,) = [s for s in found.skipped if s.what == "all of it"]
    assert lost.site == "layers.1.up_proj.weight"
    assert {r.site for r in found.series("spectral norm")} == {
        "layers.0.up_proj.weight", "layers.2.up_proj.weight"
    }  # fmt: skip
    if how == "gone":
        with pytest.raises(Refusal):
            scan(str(shards), run=run)
    second.write_bytes(kept)
    os.utime(second, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert numbers(scan(str(shards), run=run)) == numbers(scan(str(shards)))
    os.utime(second, ns=(times.st_atime_ns, times.st_mtime_ns + 10**9))
    with pytest.raises(Refusal, match="before they changed"):
        scan(str(shards), run=run)


def test_a_pair_of_copies_is_found_though_one_of_three_failed_at_first(tmp_path):
    same = torch.randn(20, 16)
    file = stored(tmp_path, {f"layers.{i}.up_proj.weight": same.clone() for i in range(3)})
    run = tmp_path / "a.run"

    def mapper(job, many):
        for batch in many:
            for each in batch.jobs:
                done = job(type(batch)((each,)))
                yield [one for one in done if one.index != 0]  # the first is lost

    scan(file, run=run, mapper=mapper)
    sites = {r.site for r in scan(file, run=run).series("copy cosine")}
    assert sites >= {r.site for r in scan(file).series("copy cosine")}


def test_an_effort_that_is_not_known_is_refused(as_users_see_it):
    with pytest.raises(Refusal, match="`auto`, `full` or `leading`"):
        scan(SMALL, effort="best")
    with pytest.raises(Refusal, match="must be one of"):
        plan(SMALL, quantities=["spike"])


@pytest.mark.parametrize(("effort", "known"), [("auto", False), ("full", True)])
def test_small_singular_values_are_known_where_all_is_asked_for(effort, known):
    weight = torch.diag(torch.tensor([1.0, 0.5, 1e-10]))
    (found,) = scan({"a.weight": weight}, effort=effort, spectra=True).spectra
    assert (float(found.spectrum.low[-1]) > 0.9e-10) is known


def test_memory_leaves_out_what_is_too_large_by_name(tmp_path):
    found = scan(SMALL, memory=10**6)
    assert not found.matrices
    assert all("more than the 1" in s.why for s in found.plan.skipped if s.site != "norm.bias")
    file, run = stored(tmp_path), tmp_path / "a.run"
    scan(file, run=run)
    with pytest.raises(Refusal, match="other matrices"):
        scan(file, run=run, memory=10**6)


def test_a_scan_of_a_process_that_was_killed_is_gone_on_with_and_nobody_stays(tmp_path):
    draw = torch.Generator().manual_seed(0)
    state = {f"w.{i}.up": torch.randn(600, 600, generator=draw) for i in range(20)}
    file = stored(tmp_path, state, "big.safetensors")
    command = [sys.executable, "-m", "sigmascope", "scan", "big.safetensors", "--workers", "2"]
    command += ["--exact", "--quantities", "stable rank", "effective rank"]
    run = tmp_path / "a.run"
    started = subprocess.Popen(
        [*command, "--run", "a.run"], cwd=tmp_path, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 60
    while time.monotonic() < until and started.poll() is None and _steps(run) < 3:
        time.sleep(0.05)
    was_running = started.poll() is None
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert was_running
    steps = _steps(run)
    assert 3 <= steps < 21
    until = time.monotonic() + 20
    while _alive(started.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _alive(started.pid)
    of = {"effort": "full", "quantities": ["stable rank", "effective rank"]}
    assert numbers(scan(file, run=run, **of)) == numbers(scan(file, **of))


def _steps(run):
    from sigmascope.core.store import Run

    try:
        with Run(run, write=False) as file:
            return len(file.steps())
    except (FileNotFoundError, ValueError):
        return 0


def _alive(session):
    """Processes of a session, whose leader is gone."""
    listed = subprocess.run(["ps", "-o", "pid=,stat=", "-s", str(session)], capture_output=True)
    return [line for line in listed.stdout.decode().splitlines() if "Z" not in line.split()[1]]


CHANGES = {
    "replaced": lambda file, data: (
        file.with_name("new").write_bytes(data) and file.with_name("new").replace(file)
    ),
    "written over": lambda file, data: file.write_bytes(data),
    "cut": lambda file, data: file.write_bytes(data[:-100]),
    "removed": lambda file, data: file.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
def test_numbers_of_a_file_that_changes_while_it_is_scanned_are_never_mixed(
    tmp_path, change, suffix
):
    file = tmp_path / f"model.{suffix}"
    save = save_file if suffix == "safetensors" else torch.save
    generator = torch.Generator().manual_seed(0)
    weights = {f"h.{i}.weight": torch.randn(16, 12, generator=generator) for i in range(6)}
    save({name: 2 * w for name, w in weights.items()}, file)
    other = file.read_bytes()
    save(weights, file)
    whole = {r.site: r for r in scan(file).series("spectral norm")}
    begun = plan(file)
    assert len(begun.matrices) == 6
    mapper = lambda run, batches: _one_by_one(run, batches, lambda: CHANGES[change](file, other))
    found = scan(file, mapper=mapper)
    read = {r.site: r for r in found.series("spectral norm")}
    assert 0 < len(read) < 6
    assert all(read[site] == whole[site] for site in read)
    left = {s.site for s in found.skipped if s.what == "all of it"}
    assert left == {m.site for m in begun.matrices} - {*read}


def _one_by_one(run, batches, change):
    """Carry out the jobs of all batches one at a time; the file changes after the second."""
    jobs = [job for batch in batches for job in batch.jobs if not hasattr(job, "tasks")]
    for place, job in enumerate(jobs):
        if place == 2:
            change()
        yield run(type(next(iter([*batches])))((job,)))
