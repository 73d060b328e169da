"""Several processes read what one does of the joined batch, and none ever waits for another."""

import random
import time
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sigmascope.core.guard import Refusal
from sigmascope.core.store import Run
from sigmascope.watching import Watch
from sigmascope.watching.probes import (
    Activations,
    Attention,
    Gradients,
    Losses,
    Representations,
    Updates,
    WeightSpectra,
)
from watching import layouts
from watching.layouts import STEPS, Kept, small, trained
from watching.together import together

TOLERANCE = 1e-10
LAYOUTS = {
    2: {"ddp": (9, 3), "fsdp": (5, 7), "tp": 2},
    4: {
        "ddp": (3, 0, 4, 5),
        "fsdp": (3, 0, 4, 5),
        "beside": (1, 2, 4, 5),
        "tp": 4,
        "both": (5, 7),
    },
}
BY_ENTRIES = {"noise edge", "spikes"}  # of weights, not read where they are sharded


def work(rank, count, folder):
    found = {}
    for name, layout in LAYOUTS[count].items():
        run = folder / f"{name}{count}.sqlite"
        found[name] = trained_in(name, rank, layout, run)
    return found


def trained_in(name, rank, layout, run):
    named = {"run": run} if name == "ddp" else {}
    return getattr(layouts, name)(rank, layout, **named)


@pytest.fixture(scope="module")
def alone():
    return trained(small())


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return cache(lambda count: together(count, work, count, folder)), folder


BY_COUNT = [2, pytest.param(4, marks=pytest.mark.slow)]
CASES = [
    pytest.param(n, name, marks=pytest.mark.slow if n > 2 else ())
    for n in LAYOUTS
    for name in LAYOUTS[n]
]


@pytest.mark.parametrize(("count", "name"), CASES)
def test_readings_are_those_of_one_process_on_the_joined_batch(alone, read, count, name):
    one, _ = alone
    (found, skipped), *others = (each[name] for each in read[0](count))
    cut = name != "ddp"
    last = {at for at in one if at[0] == STEPS and at[2] == "loss"}  # nobody waits at the end
    missing = {(site, what) for _, site, what, _ in one.keys() - last - found.keys()}
    assert {what for _, what in missing} == (BY_ENTRIES if cut else set())
    assert found.keys() <= one.keys()
    assert not [s for s in skipped if "sharded" not in s.what]
    assert not any(values for values, _ in others)
    for at, value in found.items():
        assert abs(value - one[at]) <= TOLERANCE * abs(one[at]), at


@pytest.mark.parametrize("count", BY_COUNT)
def test_one_process_writes_what_all_have_read(read, count):
    found, _ = read[0](count)[0]["ddp"]
    run = Run(read[1] / f"ddp{count}.sqlite")
    filed = {
        (r.step, r.site, r.quantity, r.form): r.estimate.value
        for r in run.readings()
        if r.quantity != "watched share"
    }
    assert filed == {at: v for at, v in found.items() if at[2] != "spectrum"}


FAULTS = [
    (Gradients, "before", "gradients"),
    (Updates, "stepped", "updates"),
    (Activations, "open", "activations"),
    (Activations, "local", "activations"),
    (Attention, "hear", "attention"),
    (Attention, "agree", "attention"),
    (Representations, "agree", "representations"),
    (Representations, "_hear", "representations"),
    (Representations, "local", "representations"),
    (WeightSpectra, "agree", "spectra"),
    (WeightSpectra, "local", "spectra"),
    (WeightSpectra, "read", "spectra"),
    (Losses, "local", "loss"),
]


def fail(*_):
    raise ZeroDivisionError("on purpose")


def failing(rank):
    """Each fault, in the first process or in the second, in two layouts."""
    found = []
    for number, (probe, method, name) in enumerate(FAULTS):
        for where in (0, 1) if method == "read" else (number % 2,):
            good = getattr(probe, method)
            if rank == where:
                setattr(probe, method, fail)
            layout = layouts.ddp if name in {"attention", "loss", "updates"} else layouts.fsdp
            values, skipped = layout(rank, (6, 6), steps=5)
            setattr(probe, method, good)
            found.append((where, method, name, {at[2] for at in values}, skipped))
    return found


def test_a_probe_that_fails_in_one_process_is_dropped_in_all_and_training_goes_on():
    first, second = together(2, failing)
    for (where, method, name, quantities, skipped), (*_, other, _) in zip(
        first, second, strict=True
    ):
        said = [s for s in skipped if s.what == name]
        if method == "read" and where == 1:
            assert not said  # only the first reads
        else:
            assert len(said) == 1, (method, name)
        assert "gradient norm" in quantities or name == "gradients"
        assert "attention entropy" in quantities or name == "attention"
        assert not other


def odd(rank):
    """What happens to loops: a step left out, an early end, a lost process, Ctrl-C."""
    return {
        "scaled": scaled(rank),
        "join": joined(rank),
        "early": early(rank),
        "unwritable": unwritable(rank),
        "statistics": statistics(rank),
        "random": untouched(rank),
        "lost": lost(rank),  # the last: it parts the two
    }


def scaled(rank):
    torch.manual_seed(0)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)))
    optimizer, scaler = torch.optim.SGD(net.parameters(), 0.1), torch.amp.GradScaler("cpu")
    with Watch(net, optimizer, budget=1.0, clock=lambda: 0.0) as watch:
        for step in range(8):
            optimizer.zero_grad()
            loss = net(torch.ones(3, 4)).square().mean()
            broken = step == 3 and rank == 1
            scaler.scale(loss * float("inf") if broken else loss).backward()
            scaler.step(optimizer)
            scaler.update()
            watch.step(loss)
    return watch.steps


def joined(rank):
    """One has three batches more than the other."""
    net = DistributedDataParallel(nn.Linear(4, 2))
    optimizer, kept = torch.optim.SGD(net.parameters(), 0.1), Kept()
    with Watch(net, optimizer, sinks=[kept], budget=1.0, clock=lambda: 0.0) as watch, net.join():
        for _ in range(4 + 3 * rank):
            optimizer.zero_grad()
            net(torch.ones(3, 4)).square().mean().backward()
            optimizer.step()
            watch.step()
    return [s.what for look in kept.looks for s in look.skipped], watch.steps


def early(rank):
    net = DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    watch = Watch(net, optimizer, budget=1.0, clock=lambda: 0.0)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.ones(3, 4)).square().mean().backward()
        optimizer.step()
    if rank:
        time.sleep(1.5)
    start = time.monotonic()
    watch.close()
    took = time.monotonic() - start
    torch.distributed.barrier()
    return took


def unwritable(rank):
    net = DistributedDataParallel(nn.Linear(4, 2))
    try:
        Watch(net, torch.optim.SGD(net.parameters(), 0.1), run="/nowhere/at/all.sqlite")
    except (Refusal, OSError) as error:
        return type(error).__name__, str(error)
    return None


def statistics(rank):
    """Drift where each process has running statistics of its own, and what it must be."""
    torch.manual_seed(rank)
    norm = nn.BatchNorm1d(3, momentum=0.3).double()
    net = DistributedDataParallel(nn.Sequential(norm, nn.Linear(3, 1).double()), **OWN_BUFFERS)
    optimizer, kept = torch.optim.SGD(net.parameters(), 0.01), Kept()
    x = torch.randn(5 + 4 * rank, 3, dtype=torch.float64) * (1 + rank)
    with Watch(net, optimizer, sinks=[kept], budget=1.0, clock=lambda: 0.0) as watch:
        for _ in range(2):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
            watch.step()
    drift = {at: v for at, v in kept.values().items() if at[2] == "statistics drift"}
    return drift, x, norm.running_mean, norm.running_var


OWN_BUFFERS = {"broadcast_buffers": False}


def untouched(rank):
    """Whether the random numbers of Python and of torch are those that they were."""
    model = DistributedDataParallel(small())
    before = random.getstate(), torch.get_rng_state()
    trained(model, steps=3)
    return random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])


def lost(rank):
    """One is gone while the other trains on, with nothing else that waits for it."""
    net = nn.Linear(4, 2)
    optimizer, kept = torch.optim.SGD(net.parameters(), 0.1), Kept()
    named = {"sinks": [kept], "together": True, "budget": 1.0, "clock": lambda: 0.0}
    watch = Watch(net, optimizer, **named)
    for step in range(6):
        if rank and step == 3:
            torch.distributed.destroy_process_group()
            return None
        optimizer.zero_grad()
        net(torch.ones(3, 4)).square().mean().backward()
        optimizer.step()
    watch.close()
    return [s.what for look in kept.looks for s in look.skipped]


@pytest.fixture(scope="module")
def found():
    return together(2, odd)


@pytest.mark.slow
def test_a_step_that_all_leave_out_counts_in_none(found):
    assert [each["scaled"] for each in found] == [7, 7]


def test_inside_of_join_nothing_is_read_and_it_is_said(found):
    assert found[0]["join"] == (["watching"], 4)  # steps are counted on
    assert found[1]["join"] == ([], 7)


def test_closing_waits_for_nobody(found):
    assert found[0]["early"] < 1


def test_a_run_file_that_cannot_be_written_stops_all_alike(found):
    assert all(each["unwritable"] for each in found)
    assert "`run` must be" in found[1]["unwritable"][1]


def test_running_statistics_of_each_process_are_weighed_by_its_samples(found):
    parts = [each["statistics"] for each in found]
    (value,) = (v for at, v in parts[0][0].items() if at[0] == 2)
    counts = torch.tensor([float(len(p[1])) for p in parts], dtype=torch.float64)
    x = torch.cat([p[1] for p in parts])
    mean = sum(p[2] * n for p, n in zip(parts, counts, strict=True)) / counts.sum()
    variance = sum(p[3] * n for p, n in zip(parts, counts, strict=True)) / counts.sum()
    spread = x.var(0, correction=0)
    square = (x.mean(0) - mean).square() / spread + (0.5 * (spread / variance).log()).square()
    assert value == pytest.approx(float(square.mean().sqrt()), rel=TOLERANCE)


def test_no_random_number_is_drawn(found):
    assert all(each["random"] for each in found)


def test_a_process_that_is_lost_ends_the_watch_and_not_the_training(found):
    assert found[0]["lost"] == ["watching"]
