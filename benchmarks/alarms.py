"""Alarms of `ss.watch` on runs that go well and on runs that are made to fail at a known step.

    python -m benchmarks.alarms [--seed 1] [--healthy 30] [--each 3] [--budget 0.02] [--decay 2]
        [--processes 2 [--wrap ddp|fsdp2]] [--ruin 10]

With `--processes` each run is trained by so many, each with its part of every batch. With `--ruin`
so many runs that have learned are undone slowly; each counts as warned of within a tenth of that
time. With `--decay` only `decay-at-odds` is asked for, in longer runs of perceptrons whose layers
decay apart.

A fault counts as warned of if an alarm of severity warning or error begins within 20 steps, or
before the loss shows it (1.5 times the largest of the 50 steps before).
"""

import argparse
import itertools
import logging
import math
import tempfile
from functools import partial

import torch

from benchmarks._runs import FAULTS, KINDS, RUINS, SCHEDULES, STEPS, training
from sigmascope.watching import watch

LONG = 6000
SIDES = {"all": slice(None), "every second": slice(1, None, 2), "the others": slice(0, None, 2),
         "the last": slice(-1, None)}  # fmt: skip
AT, SOON, AFTER, SHOWS, RUIN = 250, 20, 150, 1.5, 1500
UNDONE = 0.03  # of the first loss: what else is no ruin


def alarmed(
    kind: str,
    schedule: str,
    seed: int,
    fault: str | None = None,
    *,
    budget: float,
    wrap: str = "",
    ruin: int = 0,
) -> tuple[list[tuple[int, str, str]], list[float]]:
    """Alarms as (step, name, site), and the losses; of this process, where it is one of several.

    Args:
        kind: Of `KINDS`.
        schedule: Of `SCHEDULES`.
        seed: Of the run.
        fault: Of `FAULTS`, or of `RUINS`.
        budget: Of the watch.
        wrap: How several processes train it; alone if empty.
        ruin: Steps of slow ruin by `fault`, behind as many of learning as a fault has.
    """
    run = training(kind, schedule, seed)
    run = run.together(wrap) if wrap else run
    found, losses = [], []
    last = AT + ruin if ruin else AT + AFTER if fault else STEPS
    with watch(run.model, run.optimizer, budget=budget) as watching:
        for step, loss in run.steps(last):
            losses.append(float(loss))
            told = [f for f in watching.step(loss) if f.severity != "note"]
            found += [(step, f.name, f.site) for f in told]
            if ruin and fault:
                if step >= AT:
                    RUINS[fault](run, (step - AT + 1) / ruin)
            elif fault and step == AT - 1:
                FAULTS[fault](run)
    return found, losses


def shown(losses: list[float]) -> float:
    """The step at which the loss shows a fault; infinity if it never does."""
    usual = max(losses[AT - 51 : AT - 1])
    for step in range(AT, len(losses) + 1):
        x = losses[step - 1]
        if not math.isfinite(x) or x > SHOWS * usual + 0.05:
            return step
    return math.inf


def healthy(count: int, seed: int, budget: float, wrap: str = "") -> int:
    """How many runs that go well raise an alarm."""
    alarms = 0
    pairs = itertools.cycle(itertools.product(KINDS, SCHEDULES))
    for i, (kind, schedule) in enumerate(itertools.islice(pairs, count)):
        found, losses = alarmed(kind, schedule, 100 * seed + i, budget=budget, wrap=wrap)
        alarms += bool(found)
        if found:
            course = f"{losses[0]:.2f} to {losses[-1]:.2f}"
            say(f"| healthy | {kind}, {schedule} | {course} | {found[:4]} |")
    return alarms


def failing(each: int, seed: int, budget: float, wrap: str = "") -> list[bool]:
    """Of each run that is made to fail, whether it was warned of."""
    warned = []
    kinds = itertools.cycle(KINDS)
    for fault in FAULTS:
        for i in range(each):
            kind = next(kinds)
            of = {"budget": budget, "wrap": wrap}
            found, losses = alarmed(kind, "constant", 1000 * seed + i, fault, **of)
            limit = max(AT + SOON, min(shown(losses), len(losses) + 1))
            mine = [f for f in found if AT <= f[0] <= limit]
            early = [f for f in found if f[0] < AT][:2]
            late = [f for f in found if f[0] > limit][:1]
            warned.append(bool(mine))
            word = f"{mine[0][1]} at +{mine[0][0] - AT}" if mine else "NOT"
            course = f"loss +{shown(losses) - AT}"
            say(f"| {fault} | {kind} | {course} | {word} | {early} {late} |")
    return warned


def ruined(count: int, seed: int, budget: float, wrap: str = "") -> list[bool]:
    """Of each run that is slowly undone, whether it was warned of within a tenth of that time."""
    warned = []
    pairs = ((kind, ruin) for kind in KINDS for ruin in RUINS)
    chosen = itertools.islice(pairs, seed % 3, None, 3)  # of each way with two kinds
    for i, (kind, ruin) in enumerate(chosen):
        if len(warned) == count:
            break
        of = {"budget": budget, "wrap": wrap, "ruin": RUIN}
        found, losses = alarmed(kind, "constant", 2000 * seed + i, ruin, **of)
        before, after = (math.fsum(losses[at - 50 : at]) / 50 for at in (AT, len(losses)))
        mine = [f for f in found if f[0] >= AT]
        if after < before + UNDONE * losses[0]:
            say(f"| {ruin} | {kind} | {before:.3g} to {after:.3g} | no ruin | {found[:1]} |")
            continue
        warned.append(bool(mine) and mine[0][0] <= AT + RUIN / 10)
        word = f"{mine[0][1]} at +{mine[0][0] - AT}" if mine else "NOT"
        early = [f for f in found if f[0] < AT][:2]
        say(f"| {ruin} | {kind} | {before:.3g} to {after:.3g} | {word} | {early} |")
    return warned


def say(line: str) -> None:
    """Print it, in one of several processes."""
    if not (torch.distributed.is_initialized() and torch.distributed.get_rank()):
        print(line, flush=True)


def parted(which: str, decay: float, seed: int, budget: float, *, adam: bool) -> str:
    """Train with decay of some weights alone; when `decay-at-odds` began."""
    run = training("relu, momentum", "constant", seed)
    weights = [p for p in run.model.parameters() if p.ndim > 1]
    mine = {id(p) for p in weights[SIDES[which]]}
    groups = [
        {"params": [p for p in run.model.parameters() if (id(p) in mine) == decays],
         "weight_decay": decay * decays}
        for decays in (True, False)
    ]  # fmt: skip
    groups = [g for g in groups if g["params"]]
    sgd = partial(torch.optim.SGD, lr=0.05, momentum=0.9)
    run.optimizer = partial(torch.optim.AdamW, lr=1e-3)(groups) if adam else sgd(groups)
    rung = ""
    with watch(run.model, run.optimizer, budget=budget) as watching:
        for step, loss in run.steps(LONG):
            odd = [f for f in watching.step(loss) if f.name == "decay-at-odds"]
            rung = rung or "".join(f"{f.site} at {step}" for f in odd)
    return rung


def decays(each: int, seed: int, budget: float) -> None:
    """Decay of one side, strong and usual, and of all weights: where it is an alarm."""
    seeds = range(100 * seed, 100 * seed + each)
    for adam, decay in ((False, 5e-3), (False, 5e-4), (True, 2.0), (True, 0.1)):
        for which in SIDES:
            rung = [parted(which, decay, s, budget, adam=adam) or "-" for s in seeds]
            name = "AdamW" if adam else "momentum"
            print(f"| {name}, {decay:g} | {which} | {', '.join(rung)} |", flush=True)


def measured(args: argparse.Namespace, wrap: str = "") -> None:
    """Healthy runs, faults and slow ruin."""
    of = args.seed, args.budget, wrap
    torch.set_num_threads(1)
    logging.getLogger("sigmascope").setLevel(logging.ERROR)
    if args.healthy:
        say(f"healthy runs alarmed: {healthy(args.healthy, *of)} of {args.healthy}")
    if args.each:
        warned = failing(args.each, *of)
        say(f"warned: {sum(warned)} of {len(warned)}")
    if args.ruin:
        warned = ruined(args.ruin, *of)
        say(f"warned of slow ruin within a tenth of it: {sum(warned)} of {len(warned)}")


def _one(rank: int, args: argparse.Namespace, folder: str) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=args.processes
    )
    measured(args, args.wrap)
    torch.distributed.destroy_process_group()


def main() -> None:
    """Run all and print what was alarmed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--healthy", type=int, default=30)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--ruin", type=int, default=0)
    parser.add_argument("--budget", type=float, default=0.02)
    parser.add_argument("--decay", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--wrap", choices=["ddp", "fsdp2"], default="ddp")
    args = parser.parse_args()
    if args.decay:
        torch.set_num_threads(1)
        logging.getLogger("sigmascope").setLevel(logging.ERROR)
        decays(args.decay, args.seed, args.budget)
    elif args.processes > 1:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(_one, (args, folder), nprocs=args.processes)
    else:
        measured(args)


if __name__ == "__main__":
    main()
