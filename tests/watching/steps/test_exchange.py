"""Several processes hear the same losses at the same steps, and alarms reach each of them."""

import math
import random

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sigmascope.watching import Watch
from sigmascope.watching.steps import FARTHEST
from watching.layouts import Kept
from watching.together import together

FAULT, STEPS = 120, 200


def learner(wrap):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    if wrap == "ddp":
        return DistributedDataParallel(net)
    from torch.distributed.fsdp import fully_shard

    return fully_shard(net)


def run(rank, wrap, fault=None, hand=lambda rank, step, loss: loss, steps=STEPS, **named):
    """Train on rows of one's own; the alarms by step, the losses, and what was filed."""
    net, kept = learner(wrap), Kept()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    told, losses, scale = [], [], 1.0
    with Watch(net, optimizer, sinks=[kept], **named) as watch:
        for step in range(1, steps + 1):
            if step == FAULT and fault == "rate":
                optimizer.param_groups[0]["lr"] *= 100
            if step == FAULT and fault == "inputs":
                scale = 10.0
            x = scale * torch.randn(16, 6, generator=generator)
            y = x[:, :2].sum(1, keepdim=True) / scale
            optimizer.zero_grad()
            loss = (net(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
            handed = hand(rank, step, loss)
            found = watch.step(*(() if handed is None else (handed,)))
            told += [(step, f.name, f.site, f.says) for f in found]
    return told, losses, kept.values(), [f.name for f in watch.alarms]


def faults(rank):
    return {(wrap, fault): run(rank, wrap, fault)
            for wrap in ("ddp", "fsdp") for fault in ("rate", "inputs", None)}  # fmt: skip


@pytest.fixture(scope="module")
def failed():
    return together(2, faults)


@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
@pytest.mark.parametrize("fault", ["rate", "inputs"])
def test_an_alarm_rings_soon_and_in_every_process_at_the_same_step(failed, wrap, fault):
    (told, *_, force), (other, *_, elsewhere) = (each[wrap, fault] for each in failed)
    warned = [step for step, *_ in told if step >= FAULT]
    assert warned
    assert warned[0] <= FAULT + 20
    assert told == other
    assert force == elsewhere


@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_training_that_goes_well_is_silent(failed, wrap):
    told, losses, *_ = failed[0][wrap, None]
    assert losses[-1] < 0.1 * losses[0]
    assert told == []


@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_a_loss_that_is_filed_is_the_mean_of_that_step_over_processes(failed, wrap):
    (_, one, filed, _), (_, other, *_) = (each[wrap, None] for each in failed)
    found = {at[0]: value for at, value in filed.items() if at[2:] == ("loss", "")}
    assert len(found) > 1
    assert max(found) >= STEPS - 2 * FARTHEST
    for step, value in found.items():
        assert value == pytest.approx((one[step - 1] + other[step - 1]) / 2, rel=1e-12)


def _unlike(rank, seed):
    """Loops in which processes do not hand in the same: fuzzed, and none may wait for another."""
    draw = random.Random(100 * seed + rank)
    odd = [None, math.nan, torch.ones(3), "none", math.inf, torch.tensor(1e30)]

    def hand(rank, step, loss):
        if draw.random() < 0.3:
            return draw.choice(odd)
        return loss if draw.random() < 0.5 else float(loss)

    told, *_ = run(rank, "ddp", None, hand, 60, budget=draw.choice([0.02, 1.0]))
    return told


def unlike(rank):
    return [_unlike(rank, seed) for seed in range(6)]


def test_processes_that_hand_in_unlike_losses_go_on_together():
    one, other = together(2, unlike)
    assert one == other


def parted(rank):
    """Watches that are closed between what is sent and what is taken."""
    found = []
    for at in (5, 6, 7, 8):
        net = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        watch = Watch(net, optimizer, together=True)
        for step in range(at):
            optimizer.zero_grad()
            net(torch.ones(3, 4)).square().mean().backward()
            optimizer.step()
            watch.step(float(step))
        watch.close()
        torch.distributed.barrier()
        found.append(watch.steps)
    return found


def test_closing_waits_for_nobody_whatever_was_sent():
    assert together(2, parted) == [[5, 6, 7, 8]] * 2
