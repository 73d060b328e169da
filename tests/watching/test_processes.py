"""Which processes train one model, and which part of a tensor each holds."""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sigmascope.core.guard import Refusal
from sigmascope.watching import Watch
from sigmascope.watching.processes import LocalShard, Processes, entries, features, part
from watching.together import together


def test_a_model_that_nothing_wraps_is_trained_by_one_process_alone():
    processes = Processes.of(nn.Linear(2, 2), None)
    assert (processes.count, processes.rank, processes.ending) == (1, 0, False)
    assert processes.agreed([1.0, 2.0]) == [1.0, 2.0]
    assert processes.alike([3.0, -1.0]) == [True, True]
    assert torch.equal(processes.summed(torch.ones(2)), torch.ones(2, dtype=torch.float64))
    assert part(torch.ones(2), processes).copies == 1


def test_processes_that_were_not_started_cannot_train_together():
    with pytest.raises(Refusal, match="init_process_group"):
        Processes.of(nn.Linear(2, 2), True)


def held(rank):
    """Shapes of parts of a tensor of 7 x 3 on a mesh of two by two."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    torch.manual_seed(0)
    whole = torch.randn(7, 3, dtype=torch.float64)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    everyone = Processes.of(nn.Linear(2, 2), True)
    found = {}
    for name, placements in {
        "copies": (Replicate(), Replicate()),
        "rows": (Replicate(), Shard(0)),
        "twice": (Shard(0), Shard(0)),
        "blocks": (Shard(0), Shard(1)),
    }.items():
        tensor = distribute_tensor(whole, mesh, placements)
        mine: LocalShard = part(tensor, everyone)
        norm = everyone.summed(mine.tensor.square().sum()[None] / mine.copies)
        local, at, width = features(tensor, 1)
        columns = torch.zeros(width, dtype=torch.float64)
        columns[at] = local.sum(0)
        total = everyone.summed(columns) / mine.copies
        found[name] = (float(norm - whole.square().sum()), float((total - whole.sum(0)).norm()))
    from torch.distributed.tensor import DTensor

    sum_of = DTensor.from_local(whole, mesh, [Partial(), Replicate()])
    try:
        entries(sum_of)
    except ValueError as error:
        found["partial"] = str(error)
    found["alike"] = everyone.alike([1.0, float(rank), -float(rank), 0.5])
    found["agreed"] = everyone.agreed([10.0 + rank])
    found["group"] = pairs(rank)
    found["flat"] = flat()
    found["gradients"] = parts_of_sums(mesh)
    return found


def pairs(rank):
    """Two by two processes train two models."""
    groups = [torch.distributed.new_group([0, 1]), torch.distributed.new_group([2, 3])]
    net = DistributedDataParallel(nn.Linear(2, 2), process_group=groups[rank // 2])
    processes = Processes.of(net, None)
    mine = processes.summed(torch.tensor([float(rank)]))
    return processes.count, processes.rank, float(mine), processes.agreed([float(rank)])[0]


def flat():
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.manual_seed(0)
    net = FullyShardedDataParallel(nn.Linear(4, 4), device_id=torch.device("cpu"))
    try:
        Watch(net, torch.optim.SGD(net.parameters(), 0.1))
    except Refusal as refusal:
        return str(refusal)
    return None


def parts_of_sums(mesh):
    """Gradient norms where gradients are parts of sums over processes that are not taken."""
    from torch.distributed.tensor import Shard, distribute_module, distribute_tensor

    from watching.layouts import Kept

    torch.manual_seed(0)
    net, alone = nn.LayerNorm(4).double(), nn.LayerNorm(4).double()
    x, weights = torch.randn(2, 8, 4, dtype=torch.float64)
    distribute_module(net, mesh["b"])
    kept = Kept()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with Watch(net, optimizer, sinks=[kept], budget=1.0, clock=lambda: 0.0, together=True):
        rows = distribute_tensor(x, mesh["b"], [Shard(0)])
        scale = distribute_tensor(weights, mesh["b"], [Shard(0)])
        (net(rows) * scale).sum().backward()
        kinds = [str(p.grad.placements) for p in net.parameters()]
        optimizer.step()
    (alone(x) * weights).sum().backward()
    norm = torch.cat([p.grad for p in alone.parameters()]).norm()
    found = [v for at, v in kept.values().items() if at[2] == "gradient norm"]
    return kinds, found, float(norm)


@pytest.fixture(scope="module")
def found():
    return together(4, held)


@pytest.mark.parametrize("name", ["copies", "rows", "twice", "blocks"])
def test_parts_add_up_to_the_whole(found, name):
    assert found[0][name] == pytest.approx((0, 0), abs=1e-12)


def test_parts_of_sums_are_refused(found):
    assert "part of a sum" in found[0]["partial"]


def test_all_hear_the_first_and_whether_they_agree(found):
    for each in found:
        assert each["alike"] == [True, False, False, True]
        assert each["agreed"] == [10.0]


def test_processes_are_those_of_the_group_that_a_model_is_wrapped_for(found):
    assert [each["group"] for each in found] == [
        (2, 0, 1.0, 0.0),
        (2, 1, 1.0, 0.0),
        (2, 0, 5.0, 2.0),
        (2, 1, 5.0, 2.0),
    ]


def test_flat_shards_are_refused(found):
    assert all("fully_shard" in each["flat"] for each in found)


def test_gradients_that_are_parts_of_sums_are_added_up_before_their_norm(found):
    kinds, (norm,), expected = found[0]["gradients"]
    assert any("artial" in kind or "P" in kind for kind in kinds), kinds
    assert norm == pytest.approx(expected, rel=1e-10)
