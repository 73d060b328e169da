"""Doors on a GPU beside the CPU of the same machine: seconds, agreement, and what is carried back.

python -m benchmarks.devices                        # every network and door, as a table
python -m benchmarks.devices --only gpt-12          # one of them
python -m benchmarks.devices --matrices             # float64 LAPACK here, or on the device
python -m benchmarks.devices | tail -1              # one line of JSON, for scripts

The CPU has all threads that torch takes by itself. A time is the least of two, behind one that
loads kernels (on the CPU the first, where it is long). "Back" is what was copied from the device's
memory, in MB and in the number of copies, single numbers (`item`) among them: each waits for all
that the device has yet to do.
"Apart" is the largest relative difference of a reading, and which it is.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks._timing import best_of, environment
from benchmarks.profiles import NETWORKS, Task
from sigmascope import diagnosis, scanning, survey
from sigmascope.core import quantities
from sigmascope.models import Subject
from sigmascope.models.samples import as_tensor
from sigmascope.theory.landscape import curvature
from sigmascope.watching import watch

SIZES = (64, 256, 768, 1024, 2048, 4096)
SHORT = 1.0  # seconds of a run on the CPU, above which it is run once
NEAR = 1e-6  # of the largest of its kind, below which a reading is rounding


class CopiesBack(TorchDispatchMode):
    """Counts what is copied from a device to the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.copies = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it; add what came back."""
        out = func(*args, **(kwargs or {}))
        given = [a for a in args if isinstance(a, Tensor)]
        name = func.overloadpacket.__name__
        there = [a for a in given if a.device.type != "cpu"]
        if name == "_local_scalar_dense" and there:
            self.copies += 1
        elif name == "_to_copy" and there and out.device.type == "cpu":
            self.copies, self.bytes = self.copies + 1, self.bytes + out.nbytes
        elif name == "copy_" and given[0].device.type == "cpu" and given[1].device.type != "cpu":
            self.copies, self.bytes = self.copies + 1, self.bytes + given[0].nbytes
        return out


def doors(task: Task) -> dict[str, Callable[[], Any]]:
    """What is timed, of a model and its data in one place."""
    model, x, y, loss = task
    seeded = lambda: torch.Generator().manual_seed(0)
    asked = {"targets": y, "loss": loss}

    def step() -> None:
        """One pass forward and backward."""
        loss(as_tensor(model(x))[0], y).backward()
        model.zero_grad()

    def watched() -> None:
        """Twenty steps of training, under watch."""
        _trained(model, x, y, loss, steps=20, watched=True)

    found: dict[str, Callable[[], Any]] = {
        "a pass": step,
        "profile": lambda: survey.profile(model, x, **asked, views=[*quantities.ALL]),
        "first findings": lambda: diagnosis.diagnose(model, (x, y), loss=loss, quick=True),
        "20 steps, watched": watched,
        "20 steps": lambda: _trained(model, x, y, loss, steps=20),
        "scan": lambda: scanning.scan(model),
        "largest eigenvalue, trace": lambda: curvature(
            model, x, **asked, only=["top", "trace"], steps=8, samples=4, generator=seeded()
        ),
    }
    if sum(p.numel() for p in model.parameters()) < 10**7:
        found["kernel's trace"] = lambda: Subject(model, x).ntk_trace
    return found


def _trained(
    model: nn.Module, x: Tensor, y: Tensor, loss: Any, *, steps: int, watched: bool = False
) -> None:
    """Steps at a rate that moves nothing."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    seen = watch(model, optimizer) if watched else None
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(as_tensor(model(x))[0], y)
        value.backward()
        optimizer.step()
        if seen is not None:
            seen.step(value)
    if seen is not None:
        seen.close()
    optimizer.zero_grad()


def placed(task: Task, device: str) -> Task:
    """A task's model and data there."""
    model, x, y, loss = task
    return model.to(device), x.to(device), y.to(device), loss


def apart(here: Any, there: Any) -> tuple[float, str]:
    """The largest relative difference of readings of two profiles, and which it is."""
    mine = {(r.site, r.quantity, str(r.form)): r.estimate for r in here.readings}
    theirs = {(r.site, r.quantity, str(r.form)): r.estimate for r in there.readings}
    worst = (0.0, "")
    if lost := mine.keys() ^ theirs.keys():
        worst = (math.inf, f"{len(lost)} are read on one alone: {sorted(map(str, lost))[:3]}")
    for key in mine.keys() & theirs.keys():
        a, b = mine[key], theirs[key]
        if a.value == b.value or (a.low <= b.value <= a.high and b.low <= a.value <= b.high):
            continue
        most = max(abs(a.value), abs(b.value), NEAR)
        gap = abs(a.value - b.value) / most if math.isfinite(most) else math.inf
        worst = max(worst, (gap, f"{key}: {a.value:.6g}, {b.value:.6g}"))
    return worst


def compared(name: str) -> dict[str, Any]:
    """Rows of one network."""
    rows: dict[str, Any] = {}
    places = {d: doors(placed(NETWORKS[name][0](), d)) for d in ("cuda", "cpu")}
    results = {}
    for what in places["cpu"]:
        row = rows[what] = {}
        for device, runs in places.items():
            try:
                start = time.perf_counter()
                results[device] = runs[what]()
                row[device] = time.perf_counter() - start
                if device == "cuda" or row[device] < SHORT:
                    row[device] = best_of({what: runs[what]}, repeats=2)[what]
                if device == "cuda":
                    with CopiesBack() as back:
                        runs[what]()
                    row["MB back"], row["copies back"] = back.bytes / 1e6, back.copies
            except Exception as error:  # noqa: BLE001 (a row that says so; the others are wanted)
                row[device] = f"{type(error).__name__}: {str(error)[:300]}"
        told = ", ".join(f"{k} {v if isinstance(v, str) else round(v, 4)}" for k, v in row.items())
        print(f"{name:10} {what:26} {told}", flush=True)
        if what == "profile":
            gap, which = row["apart"] = apart(results["cpu"], results["cuda"])
            print(f"{'':10} readings apart: {gap:.2g} {which}", flush=True)
    return rows


def _matrices() -> Iterator[dict[str, Any]]:
    """Seconds of `eigvalsh` and `svdvals` in float64 on both, alone and in stacks."""
    for size in SIZES:
        for count in (1, 24) if size <= 1024 else (1,):
            A = torch.randn(count, size, size, dtype=torch.float64)
            G = A @ A.mT
            row: dict[str, Any] = {"size": size, "count": count}
            for name, run in (
                ("eigvalsh", torch.linalg.eigvalsh),
                ("svdvals", torch.linalg.svdvals),
            ):
                if name == "svdvals" and count * size**3 > 2e10:
                    continue
                for device in ("cpu", "cuda"):
                    M = (G if name == "eigvalsh" else A).to(device)
                    row[f"{name} {device}"] = _median(lambda M=M, run=run: run(M).cpu())
                    if device == "cuda":
                        row[f"{name} there and back"] = _median(lambda M=M, run=run: run(M.cpu()))
            yield row


def _median(run: Callable[[], Any], times: int = 3) -> float:
    """Seconds of a call that ends with its result on the CPU."""
    run()
    took = []
    for _ in range(times):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def main() -> None:
    """Measure, tell."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--only", choices=NETWORKS)
    ask.add_argument("--matrices", action="store_true")
    given = ask.parse_args()
    if not torch.cuda.is_available():
        ask.exit(2, "There is no GPU here that torch can use; the stand-in of tests/test_devices.py"
                    " shows that doors run on a second device, not how fast.\n")  # fmt: skip
    told: dict[str, Any] = {}
    if given.matrices:
        for row in _matrices():
            told[f"{row['count']} x {row['size']}"] = row
            print({k: round(v, 5) for k, v in row.items()}, flush=True)
    else:
        for name in (given.only,) if given.only else NETWORKS:
            told[name] = compared(name)
    print(json.dumps({**environment(), "device": torch.cuda.get_device_name(), "rows": told}))


if __name__ == "__main__":
    main()
