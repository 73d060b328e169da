"""A scan is cut off anywhere and comes to the same numbers, to the last bit."""

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

from sigmascope.gate import Refusal
from sigmascope.scanning import plan, scan
from tests.scanning.checkpoints import SMALL, numbers, stored

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
    for after in range(0, CALLS + 1, 1 if spectra else 5):
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
    assert cuts >= (len(SMALL) if spectra else 2)


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
    from sigmascope.store import Run

    try:
        with Run(run, write=False) as file:
            return len(file.steps())
    except (FileNotFoundError, ValueError):
        return 0


def _alive(session):
    """Processes of a session, whose leader is gone."""
    listed = subprocess.run(["ps", "-o", "pid=,stat=", "-s", str(session)], capture_output=True)
    return [line for line in listed.stdout.decode().splitlines() if "Z" not in line.split()[1]]
