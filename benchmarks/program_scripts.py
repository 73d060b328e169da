"""What is said of programs that people write, and of real faulty ones, when they run as scripts.

OMP_NUM_THREADS=1 python -m benchmarks.program_scripts --jobs 2   # all, with shares at the end
OMP_NUM_THREADS=1 python -m benchmarks.program_scripts programs --role healthy

Each is a file of three lines that makes one of the programs beside the data (`programs` and
`real_faults` in `$SIGMASCOPE_DATA`) and trains it by the loop that lies there: nothing is known of
its parts but what happens. Causes are those of `benchmarks.programs` and `benchmarks.real_faults`.
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.programs import CAUSES
from benchmarks.real_faults import NAMES, shows
from benchmarks.script_diagnoses import said_of

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("SIGMASCOPE_DATA", BESIDE)).resolve()
ALSO = {"clip_small": {"clipped-steps"}, "layers_in_list": {"left-out-parameters"}}
LOOP = {  # of a script's own mistakes, in the labels of the real ones
    "clipped-steps": {"lr-low"},
    "summed-loss": {"loss", "lr-high"},
    "softmax-twice": {"act-last-wrong", "loss"},
    "spread-shapes": {"units-output"},
    "unsuited-weights": {"init"},
}


@dataclass(frozen=True)
class Case:
    """A program as a script.

    Attributes:
        source: `"programs"` or `"real_faults"`.
        name: Of the program.
        role: `"faulty"`, `"patched"` or `"healthy"`.
        code: Of the script.
        causes: Findings that name what is wrong; none where nothing is.
    """

    source: str
    name: str
    role: str
    code: str
    causes: frozenset[str] = frozenset()


def cases() -> Iterator[Case]:
    """All of them."""
    for folder in ("programs", "real_faults"):
        sys.path.insert(0, str(DATA / folder))
    own = f"import sys\nsys.path.insert(0, {str(DATA / 'programs')!r})\n"
    faulty: Any = importlib.import_module("faulty")
    for name in faulty.CASES:
        for role in ("faulty", "patched"):
            code = f"{own}import faulty\nfaulty.train(faulty.{name}_{role}())\n"
            causes = CAUSES.get(name, set()) | ALSO.get(name, set()) if role == "faulty" else ()
            yield Case("programs", name, role, code, frozenset(causes))
    healthy: Any = importlib.import_module("healthy")
    for name in healthy.H:
        code = f"{own}import healthy\nhealthy.train(healthy.H[{name!r}]['make']())\n"
        yield Case("programs", name, "healthy", code)
    real: Any = importlib.import_module("cases")
    verified = json.loads((DATA / "real_faults" / "verified.json").read_text())
    for case in real.CASES:
        if not shows(case, verified):
            continue
        for role, part in (("faulty", "bug"), ("patched", "fix")):
            code = (
                f"import sys\nsys.path.insert(0, {str(DATA / 'real_faults')!r})\n"
                "import cases, kit\n"
                f"p = next(c for c in cases.CASES if c.name == {case.name!r})\n"
                f"kit.train(p.{part}, p.{part}.model(0), *kit.prepared(p.{part}, p.data()), 0)\n"
            )
            rules = (n for n, of in {**NAMES, **LOOP}.items() if of & set(case.labels))
            causes = frozenset(rules) if role == "faulty" else frozenset()
            yield Case("real_faults", case.name, role, code, causes)


def main() -> None:
    """Run them, one line each, with the shares at the end."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("sources", nargs="*")
    ask.add_argument("--role", default="", choices=["", "faulty", "patched", "healthy"])
    ask.add_argument("--seconds", type=float, default=60.0)
    ask.add_argument("--jobs", type=int, default=1)
    ask.add_argument("--names", nargs="*")
    given = ask.parse_args()
    chosen = [
        case
        for case in cases()
        if (not given.sources or case.source in given.sources)
        and (not given.role or case.role == given.role)
        and (not given.names or case.name in given.names)
    ]
    counts: dict[str, list[bool]] = {}
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(given.jobs) as pool:
        jobs = []
        for i, case in enumerate(chosen):
            file = Path(folder) / f"train_{i}.py"
            file.write_text(case.code)
            jobs.append((file, {"name": case.name}, case.role, given.seconds, False))
        for case, (_, _, found) in zip(chosen, pool.map(said_of, jobs), strict=True):
            names = [] if isinstance(found, str) else found[0]
            told = " ".join(f"{s[0].upper()}:{n}@{at}" for s, n, at in names) or "nothing"
            word = f"REFUSED {found[:150]}" if isinstance(found, str) else told
            print(f"{case.source:11} {case.role:8} {case.name:26} {word}", flush=True)
            order, worst = [n for _, n, _ in names], {s for s, _, _ in names}
            hits = {
                "cause first": bool(order[:1]) and order[0] in case.causes,
                "cause in three": not case.causes.isdisjoint(order[:3]),
                "something said": bool(order),
            }
            if case.role != "faulty":
                hits = {
                    "an error": "error" in worst,
                    "a warning or an error": bool(worst - {"note"}),
                }
            for what, hit in hits.items():
                counts.setdefault(f"{case.source} {case.role}: {what}", []).append(hit)
    for word, hits in counts.items():
        print(f"{word:48} {sum(hits)} of {len(hits)}")


if __name__ == "__main__":
    main()
