"""What is heard of every step: losses, rates, the scale of inputs, in one process or several."""

import math
import random
from functools import cache
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sigmascope.watching import Watch, watch
from sigmascope.watching.alarms import Alarms
from sigmascope.watching.probes import Losses
from sigmascope.watching.processes import Processes
from sigmascope.watching.schedule import Buckets
from sigmascope.watching.steps import Exchange, Inputs, LossListener, LossMeans, block
from tests.watching.made import Shelf, Ticks, stack, trained
from watching.layouts import Kept
from watching.together import together

BLOCKS, CALLS, EVERY, FARTHEST, FEWEST, KNOWN, MOST, SLOTS = 16, 3.0, 16, 12, 8, 4, 32, 32


def test_every_octave_has_as_many_blocks_and_each_is_as_wide_as_the_others():
    ends = sorted({block(step) for step in range(1, 4097)})
    assert ends[: 2 * BLOCKS - 1] == [*range(1, 2 * BLOCKS)]
    for power in range(5, 12):
        low, high = 2**power, 2 ** (power + 1)
        assert len([e for e in ends if low < e <= high]) == BLOCKS
    assert all(block(end) == end for end in ends)


def test_a_mean_is_given_once_its_block_is_over():
    means = LossMeans()
    for step in range(64, 70):
        means.add(step, float(step))
    ((end, reading),) = [m for m in means.take() if m[0] > 64]
    assert end == 68
    assert reading.estimate.value == sum(range(65, 69)) / 4
    assert means.take() == ()


def test_losses_that_are_no_numbers_are_left_out():
    means = LossMeans()
    for step, loss in enumerate([1.0, math.nan, math.inf, 2.0, 3.0], 1):
        means.add(step, loss)
    assert [end for end, _ in means.take()] == [1, 4]


def test_what_nobody_takes_hardly_grows():
    means = LossMeans()
    for step in range(1, 2**16 + 1):
        means.add(step, 1.0)
    assert len(means.take()) < 18 * BLOCKS


class Glanced:
    """A model that reads batches, and who is asked for looks."""

    def __init__(self, model=None, **of):
        self.model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)) if model is None else model
        self.inputs = Inputs(self.model, Alarms(), budget=0.02, clock=Ticks(1e-6), **of)
        self.buckets, self.asked, self.step, self.granted = Buckets([Losses()], 0.02), [], 0, True
        self.glances = 0

    def hurry(self, step, probe):
        self.asked.append(step)
        return self.granted

    def run(self, steps, scale=1.0):
        for _ in range(steps):
            self.buckets.earn(1.0, 1)
            if self.inputs._handles:
                self.glances += 1
            self.model(torch.full((8, 4), scale))
            self.step += 1
            self.inputs.turn(self.step, self.buckets, self.hurry)
        return self


@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_a_look_is_wanted_once_and_soon_where_the_scale_of_inputs_has_changed(factor):
    loop = Glanced().run(EVERY * (KNOWN + 3))
    at = loop.step
    loop.run(200, factor)
    assert len(loop.asked) == 1
    assert loop.asked[0] <= at + EVERY + 2


def test_what_changes_by_less_is_usual():
    loop = Glanced().run(EVERY * (KNOWN + 3))
    for k in range(20):
        loop.run(EVERY, 2.0 if k % 2 else 1.0)
    assert loop.asked == []


def test_it_is_asked_for_again_until_it_is_granted():
    loop = Glanced().run(EVERY * (KNOWN + 3))
    loop.granted = False
    loop.run(EVERY + 20, 10.0)
    assert len(loop.asked) > 3
    loop.granted = True
    count = len(loop.run(3, 10.0).asked)
    assert len(loop.run(100, 10.0).asked) == count


def test_glances_are_some_steps_apart_and_paid_for():
    loop = Glanced().run(400)
    assert 400 / (EVERY + 4) <= loop.glances <= 400 / EVERY
    assert loop.buckets.spent > 0
    assert not loop.model[0]._forward_hooks or loop.inputs._handles


def test_what_is_not_a_number_is_left_to_others():
    loop = Glanced().run(EVERY * (KNOWN + 3))
    loop.run(100, math.nan)
    assert loop.asked == []


def test_tokens_modules_that_run_compiled_and_no_model_are_left_alone():
    tokens = Glanced(nn.Sequential(nn.Embedding(9, 3), nn.Linear(3, 2)))
    tokens.model.forward = lambda x: nn.Sequential.forward(tokens.model, x.long())
    assert math.isinf(tokens.run(100).inputs.next)
    compiled = nn.Linear(4, 2)
    compiled.compile(backend="eager")
    assert math.isinf(Inputs(compiled, Alarms(), budget=0.02, clock=Ticks()).next)
    assert math.isinf(Inputs(None, Alarms(), budget=0.02, clock=Ticks()).next)


def test_changed_inputs_are_an_alarm_within_twenty_steps_though_looks_are_far_apart():
    torch.manual_seed(0)
    model = stack(5, 8, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x, y = torch.randn(64, 5), torch.randn(64, 3)
    clock, shelf = Ticks(1e-6), Shelf()
    optimizer.register_step_pre_hook(lambda *_: clock.wait(2e-3))
    with watch(model, optimizer, clock=clock, sinks=[shelf]) as watching:
        trained(model, x, y, optimizer, 1000, watching)
        trained(model, 100 * x, y, optimizer, 20, watching)
        assert "inputs-changed" in [f.name for f in watching.alarms]


class Heard(Alarms):
    def __init__(self):
        super().__init__()
        self.losses, self.rates = [], []

    def hear(self, rates, losses, apart=1):
        self.losses += losses
        self.rates += rates
        return super().hear(rates, losses, apart)


class Stepped:
    """An optimizer, as far as it is heard."""

    def __init__(self):
        self.param_groups = [{"lr": 0.1}]


class Loop:
    """Steps that take so long each, heard when it is time."""

    def __init__(self, seconds, *, tick=1e-5, **options):
        self.alarms, self.read, self.buckets = Heard(), Losses(), Buckets([Losses()], 0.02)
        self.means = LossMeans()
        self.hearing = LossListener(
            self.alarms, self.read, self.means, 0.02, Ticks(tick), self.turn, **options
        )
        self.hearing.wait(math.inf)
        self.seconds, self.optimizer, self.turns, self.worth = seconds, Stepped(), 0, []

    def run(self, steps, loss=None):
        """Usual losses, or those of a function of the step."""
        for step in range(steps):
            self.step((loss or usual)(step))
        return self

    def turn(self):
        self.turns += 1
        if self.hearing.full:
            self.hear()

    def hear(self):
        self.worth.append(self.hearing.hear(self.buckets))

    def step(self, loss=None):
        self.buckets.earn(self.seconds, 1)
        self.hearing.stepped(self.optimizer)
        if self.hearing.skip:
            self.hearing.skip -= 1
        elif loss is not None and self.hearing.loss(loss):
            self.hear()


def usual(step):
    return torch.tensor(1.0 + 0.01 * (step % 3), requires_grad=True)


def test_every_rate_is_heard_and_every_step_counted_however_short_steps_are():
    for seconds in (1.0, 1e-3, 1e-6):
        loop = Loop(seconds)
        for step in range(200):
            loop.step(usual(step))
            assert loop.hearing.steps == step + 1
        loop.hear()
        assert loop.alarms.rates == [0.1] * 200
        assert loop.hearing.steps == 200


def test_every_loss_of_long_steps_is_heard_in_order():
    loop = Loop(1.0).run(200, float)
    loop.hear()
    assert loop.alarms.losses == [float(i) for i in range(200)]


def test_usual_losses_are_heard_together_and_fewer_of_them_where_steps_are_short():
    found = {}
    for seconds in (1.0, 1e-5):
        loop = Loop(seconds)
        for step in range(800):
            loop.step(usual(step))
            assert step > 90 or loop.hearing.apart == 1
        found[seconds] = loop.hearing.apart, len(loop.worth)
        loop.hear()
        apart = 1 if seconds == 1.0 else FEWEST
        assert abs(len(loop.alarms.losses) - (100 + 700 / apart)) <= (0 if apart == 1 else 60)
    assert found[1.0][0] == 1
    assert found[1e-5][0] == FEWEST
    assert all(heard < 16 + 3 * 800 / MOST for _, heard in found.values())


def test_a_rise_is_heard_at_once_and_from_then_on_at_every_step():
    for seconds in (1.0, 1e-5):
        loop = Loop(seconds).run(400)
        before = len(loop.alarms.losses)
        for _ in range(FEWEST + 3):
            loop.step(50.0)
        assert loop.alarms.losses[before:].count(50.0) >= 3
        assert any(loop.worth)


@pytest.mark.parametrize(("loss", "factor"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, 100.0),
                                              (1.0, 0.0)])  # fmt: skip
def test_a_loss_that_is_no_number_and_a_rate_that_is_not_usual_are_heard_at_once(loss, factor):
    loop = Loop(1.0).run(100)
    heard = len(loop.worth)
    loop.optimizer.param_groups[0]["lr"] *= factor
    loop.step(loss)
    assert len(loop.worth) == heard + 1
    assert loop.worth[-1]


def test_a_schedule_is_heard_some_steps_at_a_time():
    loop = Loop(1.0)
    for step in range(640):
        loop.optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / 641)
        loop.step()
    assert len(loop.worth) <= 2 + 640 / MOST


def test_a_rate_in_a_tensor_is_counted_and_not_waited_for():
    class Elsewhere:
        def __float__(self):
            raise AssertionError("waited for")

        __le__ = __ge__ = __bool__ = __float__

    loop = Loop(1.0)
    loop.optimizer.param_groups[0]["lr"] = Elsewhere()
    for step in range(100):
        loop.step(usual(step))
    assert loop.hearing.steps == 100
    assert loop.alarms.rates == []


def test_a_step_before_the_next_look_is_a_turn():
    loop = Loop(1.0)
    loop.hearing.wait(10)
    turns = loop.run(8).turns
    loop.step(usual(0))
    assert loop.turns == turns + 1


def test_calls_that_note_no_loss_are_paid_for_too():
    """Each step is two calls, whatever comes of them; the note of a rate is their measure."""
    tick, steps = 1e-5, 2000
    loop = Loop(1e-5, tick=tick).run(steps)
    loop.hear()
    assert loop.hearing.apart == FEWEST
    notes = tick * len(loop.alarms.losses)
    assert loop.buckets.spent == pytest.approx(tick * (CALLS * steps + len(loop.worth)) + notes)


def test_losses_that_were_heard_are_read_at_the_next_look():
    loop = Loop(1.0)
    loop.step(torch.tensor(2.0, requires_grad=True))
    loop.step(3.0)
    loop.hear()
    found = list(loop.read.read(loop.read.local()))
    assert [c.values for c in found] == [[3.0], [3.0]]


def test_losses_are_those_of_their_steps_in_the_means_of_blocks():
    loop = Loop(1.0)
    for step in range(1, 21):
        loop.step(float(step))
    loop.hear()
    found = {step: reading.estimate.value for step, reading in loop.means.take()}
    assert found == {step: float(step) for step in range(1, 20)}


@pytest.mark.parametrize("tensors", [False, True])
def test_losses_without_steps_are_told_once(caplog, tensors):
    loop = Loop(1.0)
    loss = torch.tensor(1.0) if tensors else 1.0
    for _ in range(40):
        loop.step(loss)
    for _ in range(1000):  # another optimizer steps
        if loop.hearing.loss(loss):
            loop.hear()
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 1
    assert "steps behind step 40" in said[0]


def test_accumulation_over_many_batches_is_no_such_thing(caplog):
    loop = Loop(1.0)
    for _ in range(4):
        for _ in range(200):
            if loop.hearing.loss(torch.tensor(1.0)):
                loop.hear()
        loop.step()
    assert not caplog.records


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


def faults(rank, wrap):
    soon = {fault: run(rank, wrap, fault, steps=FAULT + 21) for fault in ("rate", "inputs")}
    return soon | {None: run(rank, wrap)}


WRAPS = ["ddp", pytest.param("fsdp", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def failed():
    return cache(lambda wrap: together(2, faults, wrap))


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("fault", ["rate", "inputs"])
def test_an_alarm_rings_soon_and_in_every_process_at_the_same_step(failed, wrap, fault):
    (told, *_, force), (other, *_, elsewhere) = (each[fault] for each in failed(wrap))
    warned = [step for step, *_ in told if step >= FAULT]
    assert warned
    assert warned[0] <= FAULT + 20
    assert told == other
    assert force == elsewhere


@pytest.mark.parametrize("wrap", WRAPS)
def test_training_that_goes_well_is_silent(failed, wrap):
    told, losses, *_ = failed(wrap)[0][None]
    assert losses[-1] < 0.1 * losses[0]
    assert told == []


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_loss_that_is_filed_is_the_mean_of_that_step_over_processes(failed, wrap):
    (_, one, filed, _), (_, other, *_) = (each[None] for each in failed(wrap))
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
    return [_unlike(rank, seed) for seed in range(4)]


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


class Adding(Processes):
    """One of several in this process: what each sends is added up, as `all_reduce` does."""

    total = torch.zeros(3 * SLOTS + 2, dtype=torch.float64)

    def sent(self, part):
        return self.total.add_(part), SimpleNamespace(wait=lambda: None)


def test_what_is_taken_are_means_over_the_processes_of_what_each_has_noted():
    draw, base, exchanges = random.Random(3), 5, [Exchange(Adding(3, rank), 5) for rank in range(3)]
    for until in (6, 9, 9 + SLOTS, 70 + SLOTS):  # of many steps the last are sent
        Adding.total.zero_()
        steps = range(base + 1, until + 1)
        noted = [[(s, draw.random()) for s in sorted(draw.choices(steps, k=9))] for _ in exchanges]
        rates = [*(draw.random() for _ in steps[1:]), torch.tensor(0.5)]  # which is left out
        for rank, exchange in enumerate(exchanges):
            known = rates if rank == 0 else [9.0] * len(steps)
            wish = until == 9 and rank == 2
            exchange.send(until, noted[rank], known, wish=wish, apart=7 + rank)
        means = {}
        for step in steps[-SLOTS:]:
            each = [[loss for at, loss in own if at == step] for own in noted]
            each = [sum(own) / len(own) for own in each if own]
            means |= {step: sum(each) / len(each)} if each else {}
        assert means
        for exchange in exchanges:
            heard = exchange.take()
            assert not exchange.flying
            assert dict(heard.losses) == pytest.approx(means)
            assert heard.rates == rates[-SLOTS:-1]
            assert (heard.wished, heard.apart) == (until == 9, 7)
        base = until
