"""Alarms of `ss.watch` on runs that go well and on runs that are made to fail at a known step.

    python -m benchmarks.alarms [--seed 1] [--healthy 30] [--kinds all]

A fault counts as warned of if an alarm of severity warning or error begins within 20 steps, or before
the loss shows it (1.5 times the largest of the 50 steps before). Budgets are those of the default.
"""

import argparse
import itertools
import logging
import math

import torch

from benchmarks._runs import FAULTS, KINDS, SCHEDULES, STEPS, training
from sigmascope import watch

AT, SOON, SHOWS = 250, 20, 1.5


def alarmed(kind, schedule, seed, fault=None, *, budget=0.02, steps=STEPS):
    """Alarms as (step, name, site), and the losses."""
    run = training(kind, schedule, seed)
    found, losses = [], []
    with watch(run.model, run.optimizer, budget=budget) as watching:
        for step, loss in run.steps(steps):
            losses.append(float(loss))
            for finding in watching.step(loss):
                if finding.severity != "note":
                    found.append((step, finding.name, finding.site))
            if fault and step == AT - 1:
                FAULTS[fault](run)
            if fault and step > AT + 150:
                break
    return found, losses


def shown(losses):
    """The step at which the loss shows a fault; infinity if it never does."""
    usual = max(losses[AT - 51 : AT - 1])
    for step in range(AT, len(losses) + 1):
        x = losses[step - 1]
        if not math.isfinite(x) or x > SHOWS * usual + 0.05:
            return step
    return math.inf


def main():
    """Run all and print what was alarmed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--healthy", type=int, default=30)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--budget", type=float, default=0.02)
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("sigmascope").setLevel(logging.ERROR)
    false = 0
    pairs = itertools.cycle(itertools.product(KINDS, SCHEDULES))
    for i, (kind, schedule) in zip(range(args.healthy), pairs):
        found, losses = alarmed(kind, schedule, 100 * args.seed + i, budget=args.budget)
        false += bool(found)
        if found:
            print(
                f"| healthy | {kind}, {schedule} | {losses[0]:.2f} to {losses[-1]:.2f} | {found[:4]} |",
                flush=True,
            )
    print(f"healthy runs alarmed: {false} of {args.healthy}")
    warned = total = 0
    kinds = itertools.cycle(KINDS)
    for fault in FAULTS:
        for i in range(args.each):
            kind = next(kinds)
            found, losses = alarmed(
                kind, "constant", 1000 * args.seed + i, fault, budget=args.budget
            )
            limit = max(AT + SOON, min(shown(losses), len(losses) + 1))
            mine = [f for f in found if AT <= f[0] <= limit]
            early = [f for f in found if f[0] < AT]
            total += 1
            warned += bool(mine)
            word = f"{mine[0][1]} at +{mine[0][0] - AT}" if mine else "NOT"
            late = [f for f in found if f[0] > limit][:1]
            print(
                f"| {fault} | {kind} | loss +{shown(losses) - AT} | {word} | early {early[:2]} late {late} |",
                flush=True,
            )
    print(f"warned: {warned} of {total}")


if __name__ == "__main__":
    main()
