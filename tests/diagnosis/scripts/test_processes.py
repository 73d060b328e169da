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

pytestmark = [
    pytest.mark.skipif(
        not distributed.is_available(), reason="this torch is built without groups of processes"
    ),
    pytest.mark.usefixtures("one_process"),
]
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
EACH = "for p in model.parameters(): "
HANDED = ("pass\n", f"{EACH}dist.broadcast(p.data, 0)\n")
AVERAGED_WEIGHTS = (
    "opt.step()\n",
    f"opt.step()\n        {EACH}dist.all_reduce(p.data); p.data /= 2\n",
)
IDLE = ("opt.step()\n", "rank or opt.step()\n")
SERVED = (
    "        rank or opt.step()\n",
    f"        {EACH}dist.reduce(p.grad, 0)\n        rank or opt.step()\n"
    f"        {EACH}dist.broadcast(p.data, 0)\n",
)
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
    "same, by hand": ("same-batches", script(ALL, BARE, BY_HAND)),
    "bare": ("unsynchronised-processes", script(BARE)),
    "bare, logged": ("unsynchronised-processes", script(BARE, LOGGED)),
    "passed by": ("unsynchronised-processes", script(PASSED)),
    "own starts": ("different-starts", script(OWN, BARE, BY_HAND)),
    "broadcast": (None, script(OWN, BARE, BY_HAND, HANDED)),
    "averaged weights": (None, script(OWN, BARE, BY_HAND, AVERAGED_WEIGHTS)),
    "idle": ("idle-process", script(IDLE)),
    "served": (None, script(IDLE, BARE, SERVED)),
    "softmax": ("softmax-twice", script(("(model(x), y)", "(model(x).softmax(1), y)"))),
}  # fmt: skip


def begun(runner, tmp_path, text):
    (tmp_path / "train.py").write_text(text)
    job = Job(Script(str(tmp_path / "train.py")), 32, 20.0, start=20.0, output="/dev/null")
    return _begun(runner, job)


@pytest.mark.parametrize(("first", "text"), CASES.values(), ids=CASES)
def test_of_several_processes_one_is_run_and_tells_of_them(first, text, tmp_path, runner):
    script, found = begun(runner, tmp_path, text)
    assert found.run.error is None
    assert found.run.steps >= 8
    assert _others(script, found.run)[0].startswith("other processes: one of 2 was run")
    names = [f.name for f in found_in(found.run) if f.severity != "note"]
    assert names[:1] == ([] if first is None else [first])


def test_same_batches_are_no_fault_of_processes_that_average_nothing(tmp_path, runner):
    _, found = begun(runner, tmp_path, script(ALL, BARE))
    assert found.run.beside is not None
    assert found.run.beside.batches == found.run.batches
    assert [f.name for f in found_in(found.run)] == ["unsynchronised-processes"]


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


LONE = """\
import os, sys, time, torch
from torch import multiprocessing as mp, nn
from torch.nn import functional as F

def pieces(net, steps=20):
    for _ in range(steps):
        x = torch.randn(32, 8)
        yield net, F.cross_entropy(net(x), (x[:, 0] > 0).long())

def learn(k, told, shared, stop):
    torch.manual_seed(k)
    net = nn.Linear(8, 2) if shared is None else shared
    opt = torch.optim.SGD(net.parameters(), lr=0.3)
    for _, loss in pieces(net):
        opt.zero_grad(); loss.backward(); opt.step()
    told.put(loss.item()); stop.set()

def follow(told, shared, stop):
    while not stop.is_set(): shared(torch.zeros(1, 8)); time.sleep(0.01)

def copied(k, told, shared, stop):
    net, opt = nn.Linear(8, 2), torch.optim.SGD(shared.parameters(), lr=0.3)
    for _, loss in pieces(net):
        net.zero_grad(); loss.backward()
        for p, q in zip(net.parameters(), shared.parameters()): q.grad = p.grad
        opt.step(); net.load_state_dict(shared.state_dict())
    told.put(loss.item()); stop.set()

if __name__ == "__main__":
    how = mp.get_context("spawn")
    told, stop, shared = how.Queue(), how.Event(), nn.Linear(8, 2).share_memory()
"""
ENDED = "    assert len([told.get(timeout=20) for _ in range(count)]) == count\n"
ENDED += "    for one in ones: one.join()\n    print('ended')\n"
OF_LEARNERS = "ones = [how.Process(target={}, args=(k, told, {}, stop)) for k in range({})]"
FOLLOWS = "first = how.Process(target=follow, args=(told, shared, stop)); first.start()"


def roles(learner, shared, *, count, before="pass", **of):
    ones = OF_LEARNERS.format(learner, shared, count)
    own = f"    count = {count}\n    {before}\n    {ones}\n    for one in ones: one.start()\n"
    return LONE + own + ENDED


ROLES = {
    "results are waited for": (roles("learn", None, count=3), 1),
    "shared weights": (roles("learn", "shared", count=2), 1),
    "one that tests comes first": (roles("learn", "shared", count=2, before=FOLLOWS), 2),
    "gradients are handed on": (roles("copied", "shared", count=2, before=FOLLOWS), 2),
}


@pytest.mark.parametrize(("text", "inside"), ROLES.values(), ids=ROLES)
def test_the_process_that_trains_is_found_among_others(text, inside, tmp_path, runner):
    (tmp_path / "train.py").write_text(text)
    output = tmp_path / "printed"
    job = Job(Script(str(tmp_path / "train.py")), 60, 20.0, start=20.0, output=str(output))
    how, found = _begun(runner, job)
    assert (how.inside, found.late, found.run.error) == (inside, False, None)
    assert found.run.steps == 20
    assert not [f for f in found_in(found.run) if f.severity != "note"]
    assert output.read_text().endswith("ended\n")


def test_what_waits_for_results_of_others_that_are_spawned_has_them(tmp_path, runner):
    text = LONE + "    mp.spawn(learn, (told, None, stop), nprocs=3); count, ones = 3, []\n" + ENDED
    found = begun(runner, tmp_path, text)[1]
    assert (found.run.steps, found.run.error, found.late) == (20, None, False)


def test_a_script_that_trains_in_a_pool_is_refused_as_that(tmp_path):
    pooled = """\
    with mp.get_context("fork").Pool(2) as pool: pool.map(alone, range(2))
"""
    alone = """\
def alone(k):
    net = nn.Linear(8, 2)
    for _, loss in pieces(net): loss.backward()

if __name__"""
    (tmp_path / "train.py").write_text((LONE + pooled).replace("if __name__", alone))
    with pytest.raises(Refusal, match="in processes of a pool"):
        diagnose_script(str(tmp_path / "train.py"), output="/dev/null", seconds=20)


ASKED = {
    "number": 'int(os.getenv("RANK"))',
    "assertion": 'assert "LOCAL_RANK" in os.environ, "start it by torchrun"',
    "exit": 'os.environ.get("LOCAL_RANK") or sys.exit("start it by torchrun")',
    "silent exit": '"WORLD_SIZE" in os.environ or sys.exit(0)',
    "key": 'os.environ["LOCAL_RANK"]',
}


@pytest.mark.parametrize("asks", ASKED.values(), ids=ASKED)
def test_what_a_launcher_tells_is_told_to_whoever_asks_for_it(asks, tmp_path, runner):
    ranked = f'{asks}; work(int(os.environ["RANK"]), 2)'
    how, found = begun(runner, tmp_path, script(start=ranked))
    assert how.launched
    assert (found.run.processes, found.run.error) == (2, None)
    assert found.run.steps >= 8


def test_other_processes_are_given_what_the_first_broadcasts(tmp_path, runner):
    wanted = f"""\
settings = [{{"size": 16}} if rank == 0 else None]
dist.broadcast_object_list(settings, src=0)
dist.monitored_barrier()
assert settings[0]["size"] == 16
{WRAPPED}"""
    found = begun(runner, tmp_path, script((WRAPPED, wanted)))[1]
    assert found.run.error is None
    assert found.run.beside.error is None
    assert found.run.beside.steps == 8


def test_shards_whose_memory_is_given_back_are_not_read(tmp_path, runner):
    sharded = """\
from torch.distributed.fsdp import fully_shard
[fully_shard(layer) for layer in model if isinstance(layer, nn.Linear)]
opt = torch.optim.SGD(fully_shard(model).parameters(), lr=0.5)"""
    how, found = begun(runner, tmp_path, script((WRAPPED, sharded)))
    assert how.alone
    assert (found.run.error, found.run.steps >= 8) == (None, True)


def test_a_part_that_lies_in_what_is_gathered_is_gathered(ended):
    with as_one(ScriptRun(), 0):
        distributed.init_process_group(world_size=2, rank=1)
    whole = torch.arange(4.0)
    distributed.distributed_c10d._get_default_group()._allgather_base(whole, whole[2:])
    assert whole.tolist() == [2, 3, 2, 3]
