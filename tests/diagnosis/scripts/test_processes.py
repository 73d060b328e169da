"""A process that stands for all of its group, against groups of real ones that do the same."""

import os

import pytest
import torch
from torch import distributed, multiprocessing, nn

from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.scripts import diagnose_script
from sigmascope.diagnosis.scripts.diagnosing import _begun, _others
from sigmascope.diagnosis.scripts.processes import NeedsOthers, as_one
from sigmascope.diagnosis.scripts.rules import found_in
from sigmascope.diagnosis.scripts.running import Job, Script
from sigmascope.diagnosis.scripts.seen import ScriptRun
from tests.diagnosis.scripts.loops import code

pytestmark = pytest.mark.skipif(
    not distributed.is_available(), reason="this torch is built without groups of processes"
)
ops = distributed.ReduceOp
REDUCED = (ops.SUM, ops.AVG, ops.MAX, ops.MIN, ops.PRODUCT)


def collected(rank, size):
    """What comes of all that processes which hold the same do together."""
    given = torch.arange(1.0, 7.0).reshape(2, 3) / 4
    found = []
    # an average is not among what gloo knows
    for op in REDUCED[:1] + REDUCED[2:]:
        own = given.clone()
        distributed.all_reduce(own, op=op)
        found.append(own)
    bits = torch.tensor([5, 3])
    for op in (ops.BAND, ops.BOR, ops.BXOR):
        own = bits.clone()
        distributed.all_reduce(own, op=op)
        found.append(own)
    copies = [torch.zeros_like(given) for _ in range(size)]
    distributed.all_gather(copies, given)
    found += copies
    parts = [given + k for k in range(size)]
    out = torch.zeros_like(given)
    distributed.reduce_scatter(out, parts)
    found.append(out)
    got = [torch.zeros_like(given) for _ in range(size)]
    distributed.gather(given, got if rank == 0 else None, dst=0)
    found += got if rank == 0 else []
    own = given.clone()
    distributed.broadcast(own, 0)
    distributed.reduce(own, 0)
    found += [own] if rank == 0 else []
    objects = [None] * size
    distributed.all_gather_object(objects, {"loss": 2.5})
    assert objects == [{"loss": 2.5}] * size
    distributed.barrier()
    found.append(torch.tensor([distributed.get_world_size(), distributed.get_rank()]))
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
    model(given).square().mean().backward()
    assert model.module.weight.grad is not None
    return [*found, model.module.weight.grad.clone()]


def really(rank, size, store, path):
    distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=size)
    torch.save(collected(rank, size), f"{path}.{rank}")
    distributed.destroy_process_group()


@pytest.fixture
def ended():
    """No group is left, whatever a test does."""
    yield
    if distributed.is_initialized():
        distributed.destroy_process_group()


@pytest.mark.parametrize(("rank", "size"), [(0, 2), (1, 3)])
def test_one_process_finds_what_each_of_several_alike_finds(rank, size, tmp_path, ended):
    multiprocessing.start_processes(
        really, (size, tmp_path / "store", tmp_path / "found"), size, start_method="fork"
    )
    there = torch.load(tmp_path / f"found.{rank}")
    run = ScriptRun(backwards=1)
    with as_one(run, 0):
        distributed.init_process_group("gloo", rank=rank, world_size=size)
        here = collected(rank, size)
    assert len(here) == len(there)
    for a, b in zip(here, there, strict=True):
        torch.testing.assert_close(a, b)
    assert (run.processes, run.rank) == (size, rank)
    assert run.exchanged > 0


def test_shards_are_gathered_and_parts_go_round(ended):
    run, given = ScriptRun(), torch.arange(6.0).reshape(3, 2)
    with as_one(run, 0):
        distributed.init_process_group(world_size=3, rank=1)
    own = given.clone()
    distributed.all_reduce(own, op=ops.AVG)
    out, part = torch.zeros(9, 2), torch.zeros(2)
    distributed.distributed_c10d._get_default_group()._allgather_base(out, given)
    distributed.distributed_c10d._get_default_group()._reduce_scatter_base(part, given)
    parts = torch.zeros(3, 2)
    distributed.all_to_all_single(parts, given)
    several = [torch.zeros(2) for _ in range(3)]
    distributed.all_to_all(several, [*given])
    assert torch.equal(own, given)
    assert torch.equal(out, given.repeat(3, 1))
    assert torch.equal(part, 3 * given[1])
    assert torch.equal(parts, given[1].expand(3, 2))
    assert torch.equal(torch.stack(several), parts)


@pytest.mark.parametrize(
    "asked",
    [
        lambda: distributed.send(torch.zeros(2), 0),
        lambda: distributed.recv(torch.zeros(2), 0),
        lambda: distributed.scatter(torch.zeros(2), None, src=0),
        lambda: distributed.broadcast_object_list([None], src=0),
    ],
)
def test_what_others_alone_can_give_is_asked_of_nobody(asked, ended):
    with as_one(ScriptRun(), 0):
        distributed.init_process_group(world_size=2, rank=1)
        with pytest.raises(NeedsOthers):
            asked()


def test_nothing_of_torch_or_python_is_left_otherwise(ended):
    from multiprocessing.process import BaseProcess

    def now():
        spawns = multiprocessing.spawn, multiprocessing.start_processes
        groups = distributed.init_process_group, distributed.broadcast_object_list
        return (*spawns, *groups, BaseProcess.start, BaseProcess.join)

    before, environment = now(), dict(os.environ)
    with as_one(ScriptRun(), 0):
        assert now() != before
    assert now() == before
    assert dict(os.environ) == environment
    with as_one(run := ScriptRun(), 0, alone=True):
        distributed.init_process_group("gloo", rank=1, world_size=4)
        assert distributed.get_world_size() == 1
    assert run.processes == 1


# ------------------------------------------------------------------------------
# Scripts.

GROUPED = """\
import os, sys, torch
from torch import distributed as dist, multiprocessing as mp
from torch.utils.data.distributed import DistributedSampler
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533"}
"""
PARTS = """\
sampler = DistributedSampler(data, size, rank)
loader = torch.utils.data.DataLoader(data, batch_size=16, sampler=sampler)"""
WHOLE = "loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)"
WRAPPED = "model = nn.parallel.DistributedDataParallel(model)"
SPAWNED = "mp.spawn(work, (2,), nprocs=2)"
STARTED = """\
ones = [mp.Process(target=work, args=(k, 2)) for k in range(2)]
    for one in ones: one.start()
    for one in ones: one.join()"""
FORKED = """\
one = mp.Process(target=work, args=(1, 2)); one.start()
    work(0, 2); one.join()"""
ELASTIC = """\
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
    how = LaunchConfig(1, 1, 2, rdzv_backend="c10d", rdzv_endpoint="127.0.0.1:0")
    elastic_launch(how, lambda: work(int(os.environ["RANK"]), 2))()"""
AVERAGED = """\
        loss.backward()
        for p in model.parameters(): dist.all_reduce(p.grad); p.grad /= dist.get_world_size()
"""


def script(*changes, start=SPAWNED, group=True):
    """The loop as the work of each of two processes."""
    inside = ("import torch\n", GROUPED), (WHOLE, PARTS), ("# setup", WRAPPED)
    text = code(*inside, ("    for x, y in", "    sampler.set_epoch(epoch)\n    for x, y in"))
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    head, _, body = text.partition("\ntorch.manual_seed")
    lines = [f"    {line}" for line in f"torch.manual_seed{body}".splitlines()]
    asks = 'dist.init_process_group("gloo", rank=rank, world_size=size)' if group else "pass"
    work = "\n".join(["def work(rank, size):", f"    {asks}", *lines])
    return f'{head}\n\n{work}\n\nif __name__ == "__main__":\n    {start}\n'


UNSET = ("    sampler.set_epoch(epoch)\n", "")
ALL = (PARTS, f"sampler = DistributedSampler(data, size, rank); {WHOLE}")
OWN = ("torch.manual_seed(0)", "torch.manual_seed(rank)")
BARE = (WRAPPED, "pass")
PASSED = ("model(x), y", "model.module(x), y")
BY_HAND = ("        loss.backward()\n", AVERAGED)
LOGGED = ("opt.step()\n", "opt.step(); dist.all_reduce(loss.detach())\n")
FROZEN = ("nn.Linear(8, 16)", "nn.Linear(8, 16).requires_grad_(False)")
CASES = {  # what is told first, and of what
    "healthy": (None, script()),
    "started": (None, script(start=STARTED)),
    "forked": (None, script(start=FORKED)),
    "elastic": (None, script(start=ELASTIC)),
    "by hand": (None, script(BARE, BY_HAND)),
    "own seed": (None, script(ALL, OWN)),
    "frozen": (None, script(FROZEN)),
    "apart": (None, script(BARE, group=False)),
    "unset": ("repeated-order", script(UNSET)),
    "same": ("same-batches", script(ALL)),
    "same, by hand": ("same-batches", script(ALL, BARE, BY_HAND, start=STARTED)),
    "bare": ("unsynchronised-processes", script(BARE)),
    "bare, logged": ("unsynchronised-processes", script(BARE, LOGGED)),
    "passed by": ("unsynchronised-processes", script(PASSED, start=STARTED)),
    "softmax": ("softmax-twice", script(("(model(x), y)", "(model(x).softmax(1), y)"))),
}  # fmt: skip


def begun(runner, tmp_path, text):
    (tmp_path / "train.py").write_text(text)
    job = Job(Script(str(tmp_path / "train.py")), 60, 20.0, start=20.0, output="/dev/null")
    return _begun(runner, job)


@pytest.mark.parametrize(("first", "text"), CASES.values(), ids=CASES)
def test_of_several_processes_one_is_run_and_tells_of_them(first, text, tmp_path, runner):
    script, found = begun(runner, tmp_path, text)
    assert found.run.error is None
    assert found.run.steps >= 8
    assert "other processes" in _others(script, found.run)[0]
    names = [f.name for f in found_in(found.run) if f.severity != "note"]
    assert names[:1] == ([] if first is None else [first])


def test_what_only_prepares_is_done_for_all_processes(tmp_path, runner):
    prepare = f"""\
import sys
from pathlib import Path
from torch import multiprocessing as mp
def prepare(rank, folder): Path(folder, str(rank)).write_text("there")
if __name__ == "__main__":
    folder = Path({str(tmp_path)!r})
    mp.spawn(prepare, (folder,), nprocs=3)
    ones = [mp.Process(target=prepare, args=(k, folder)) for k in (3, 4)]
    [one.start() for one in ones]; [one.join() for one in ones]
    assert all((folder / str(k)).exists() for k in range(5))
"""
    text = prepare + "".join(f"    {line}\n" for line in code().splitlines())
    found = begun(runner, tmp_path, text)[1]
    assert found.run.steps >= 8
    assert found.run.error is None


def test_a_script_whose_processes_take_of_one_another_is_refused_as_that(tmp_path):
    piped = ("        loss.backward()\n", "        dist.send(x, 1)\n        loss.backward()\n")
    (tmp_path / "train.py").write_text(script(piped))
    with pytest.raises(Refusal, match="send"):
        diagnose_script(str(tmp_path / "train.py"), output="/dev/null", seconds=20)


def test_what_takes_others_later_is_told_and_no_error_of_the_script(tmp_path):
    late = ("        opt.step()\n", "        opt.step()\n    if epoch == 1: dist.recv(loss, 1)\n")
    (tmp_path / "train.py").write_text(script(late))
    found = diagnose_script(str(tmp_path / "train.py"), output="/dev/null", seconds=20, seeds=2)
    assert found.run.error is None
    assert any("several processes" in why for why in found.unlooked)


def test_shards_of_weights_are_held_by_one_process_alone(tmp_path, runner):
    sharded = """\
from torch.distributed.fsdp import fully_shard
opt = torch.optim.SGD(fully_shard(model).parameters(), lr=0.5)"""
    how, found = begun(runner, tmp_path, script((WRAPPED, sharded)))
    assert how.alone
    assert found.run.steps >= 8
    assert not found_in(found.run)
