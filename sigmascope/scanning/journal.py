"""What of a scan is in its run file already, and how the rest comes into it."""

import base64
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.gate import Refusal, printable
from sigmascope.quantities import SCAN
from sigmascope.records import Layer
from sigmascope.records.scans import ScanPlan
from sigmascope.scanning.measuring import Measured
from sigmascope.store import Run

DONE, SKETCH = "done", "sketch"
SAME = "fingerprint"
SCANNED = "scan"


class Journal:
    """Results as they come, in memory and, where one is named, in a run file.

    Step 0 of the file says what is scanned and how; each result is a step of its own, numbered by
    its place in the plan from 1 on, so that a result is in the file whole or not at all.

    Args:
        plan: What is scanned.
        path: The run file; one that holds a part of the same scan is gone on with.

    Raises:
        Refusal: If the file holds something else.
    """

    def __init__(self, plan: ScanPlan, path: str | os.PathLike[str] | None) -> None:
        self.found: dict[int, Measured] = {}
        self.run = None if path is None else Run(path)
        if self.run is None:
            return
        settings = {SCANNED: plan.source, **plan.settings}
        begun = {row.record.name: row.record.value for row in self.run.about() if row.step == 0}
        if begun or self.run.steps():
            _require_same(begun, settings, self.run.path)
            self.found = dict(_read(self.run))
        else:
            layers = [Layer(m.site, m.kind, m.depth, m.tensors) for m in plan.matrices]
            self.run.add(step=0, about=settings, layers=layers, views=(SCAN,))

    def add(self, one: Measured) -> None:
        """Keep a result; when this returns, it is on the disk.

        One that failed, as of a file that went away, is not: a later scan tries it again.
        """
        self.found[one.index] = one
        if self.run is not None and not one.failed:
            self.run.add(
                step=one.index + 1,
                readings=one.readings,
                spectra=() if one.spectrum is None else (one.spectrum,),
                skipped=one.skipped,
                about={DONE: "1", **({} if one.sketch is None else {SKETCH: _text(one.sketch)})},
            )

    def missing(self, jobs: Iterable[Any]) -> list[Any]:
        """Those of the jobs that are not done yet."""
        return [job for job in jobs if job.index not in self.found]

    def close(self) -> None:
        """Let go of the file."""
        if self.run is not None:
            self.run.close()


def _require_same(begun: Mapping[str, str], asked: Mapping[str, str], path: Any) -> None:
    if SCANNED not in begun:
        raise Refusal(
            f"`{path}` holds no scan: it is the run file of something else. Name another."
        )
    differing = [n for n in asked if n != SCANNED and begun.get(n) != asked[n]]
    if differing:
        was = _difference(differing, begun, asked)
        raise Refusal(f"`{path}` holds a scan {was}: ask for the same, or name another run file.")


def _difference(differing: list[str], begun: Mapping[str, str], asked: Mapping[str, str]) -> str:
    """What a scan is of, or how it was made, where it is another."""
    if "against" in differing:
        return f"{'with' if asked['against'] == 'no' else 'without'} `--against`"
    if SAME in differing:
        name = printable(begun[SCANNED])
        return f"of other files, of {name}, or of these before they changed"
    if differing == ["matrices"]:
        return (
            f"of other matrices of {printable(begun[SCANNED])}, as when there was more or less "
            "`--memory`, or another version of sigmascope"
        )
    return f"with other `{differing[0]}`, {printable(begun.get(differing[0], 'none'))}"


def _read(run: Run) -> Iterable[tuple[int, Measured]]:
    """The results of every step that is there."""
    readings, skipped, spectra = defaultdict(list), defaultdict(list), {}
    for row in run.readings():
        readings[row.step].append(row.record)
    for row in run.skipped():
        skipped[row.step].append(row.record)
    for row in run.spectra():
        spectra[row.step] = row.record
    words = [row for row in run.about() if row.step > 0]
    sketches = {row.step: _vector(row.record.value) for row in words if row.record.name == SKETCH}
    for step in sorted({row.step for row in words if row.record.name == DONE}):
        yield (
            step - 1,
            Measured(
                step - 1,
                tuple(readings[step]),
                spectra.get(step),
                tuple(skipped[step]),
                sketches.get(step),
            ),
        )


def _text(sketch: Tensor) -> str:
    return base64.b64encode(sketch.numpy().astype("<f4").tobytes()).decode("ascii")


def _vector(text: str) -> Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), "<f4").astype("=f4"))
