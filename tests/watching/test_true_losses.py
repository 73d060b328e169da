"""Every loss that is told anywhere is a loss of the step that it is told of."""

import itertools
import random
import re

import pytest
import torch
from hypothesis import given, settings, strategies as st

from sigmascope.core.store import Run
from sigmascope.watching import part, watch
from tests.sampling import some
from tests.watching.made import Ticks, stack, task


class Stopped(Exception):
    pass


def trained(path, losses, *, hand, every, batches, slow, end, seed, start=0):
    """Train with losses made up beforehand; what was true, by step."""
    torch.manual_seed(seed)
    model, draw = stack(5, 4, 3).double(), random.Random(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = task()
    clock, true = Ticks(1e-9), {}
    optimizer.register_step_pre_hook(lambda *_: clock.wait(draw.choice([1e-5, slow])))
    watching = watch(model, optimizer, run=path, budget=0.5, clock=clock)
    try:
        with watching:
            for step in range(start + 1, start + len(losses) + 1):
                own = [losses[step - start - 1] + 1e-3 * k for k in range(batches)]
                optimizer.zero_grad()
                (model(x) - y).square().mean().backward()
                if hand == "behind":
                    optimizer.step()
                if step % every == 0:
                    true[step] = own
                    for loss in own:
                        watching.step(torch.tensor(loss) if step % 3 else loss)
                if hand == "before":
                    optimizer.step()
                if end == "fails" and step == start + len(losses):
                    raise Stopped
    except Stopped:
        pass
    return {step: [float(torch.tensor(x)) if step % 3 else x for x in own]
            for step, own in true.items()}  # fmt: skip


LOOPS = st.fixed_dictionaries({
    "hand": st.sampled_from(["behind", "before"]),
    "every": st.just(1) | st.integers(2, 9),
    "batches": st.just(1),
    "slow": st.sampled_from([1e-5, 1e-3, 1.0]),
    "end": st.sampled_from(["ends", "fails"]),
    "seed": st.integers(0, 9),
}) | st.fixed_dictionaries({
    "hand": st.just("behind"),  # gradients of several batches are added up
    "every": st.just(1),
    "batches": st.integers(2, 4),
    "slow": st.sampled_from([1e-3, 1.0]),
    "end": st.sampled_from(["ends", "fails"]),
    "seed": st.integers(0, 9),
})  # fmt: skip


def courses(length, seed):
    draw = random.Random(seed)
    level, found = 2.0, []
    for _ in range(length):
        level *= draw.choice([0.98, 0.99, 1.0, 1.01])
        found.append(round(level + (5.0 if draw.random() < 0.01 else 0.0), 4) + draw.random() / 50)
    return found


def hold(path, true):
    """Every number of a run file that is said to be a loss."""
    told = {}
    with Run(path, write=False) as run:
        for r in run.readings():
            if r.quantity != "loss":
                continue
            value = r.estimate.value
            if r.form == "":
                assert r.step in true, r.step
                assert value in true[r.step], (r.step, value, true[r.step])
                told[r.step] = value
            elif r.form == "largest":
                assert value >= min(true[r.step])
                assert value in itertools.chain.from_iterable(true.values())
            else:
                assert min(map(min, true.values())) <= value <= max(map(max, true.values()))
    return told


@settings(deadline=None, max_examples=12)
@given(of=LOOPS, steps=st.integers(1, 130))
@pytest.mark.slow
def test_of_any_loop(tmp_path_factory, of, steps):
    if of["hand"] == "before" and of["every"] > 1:
        of = {**of, "every": 1}  # nothing tells such a loop from one that hands in behind
    path = tmp_path_factory.mktemp("runs") / "a.run"
    true = trained(path, courses(steps, of["seed"]), **of)
    told = hold(path, true)
    if true:  # the last of all is told
        assert max(told) == max(true)
        assert told[max(told)] == true[max(true)][-1]


@pytest.mark.parametrize("hand", some(["behind", "before"]))
def test_of_a_run_that_goes_on_and_of_two_that_are_compared(tmp_path, hand):
    of = {"hand": hand, "every": 1, "batches": 1, "slow": 1e-3, "end": "fails"}
    paths, truths = [tmp_path / "a.run", tmp_path / "b.run"], []
    for seed, path in enumerate(paths):
        true = trained(path, courses(30 + 10 * seed, seed), seed=seed, **of)
        true |= trained(path, courses(25, seed + 5), seed=seed, start=max(true), **of)
        hold(path, true)
        truths.append(true)
    with Run(paths[0], write=False) as a, Run(paths[1], write=False) as b:
        found = part(a, b)
    for loss, step, true in zip(found.losses, found.loss_steps, truths, strict=True):
        assert step == max(true)
        assert loss.value == true[step][-1]
    words = str(found)
    for true in truths:
        (told,) = re.findall(rf"(\S+) +of step {max(true)}\b", words)
        assert float(told) == pytest.approx(true[max(true)][-1], rel=1e-3)


def test_means_over_blocks_are_those_of_their_steps(tmp_path):
    of = {"hand": "behind", "every": 1, "batches": 1, "slow": 1.0, "end": "ends", "seed": 3}
    true = trained(tmp_path / "a.run", courses(75, 3), **of)
    with Run(tmp_path / "a.run", write=False) as run:
        means = {r.step: r.estimate.value for r in run.readings() if r.form == "mean of steps"}
    before = 0
    assert max(means) == 75
    for step in sorted(means):
        block = [true[at][0] for at in range(before + 1, step + 1)]
        assert means[step] == pytest.approx(sum(block) / len(block), rel=1e-12)
        before = step
