"""Runs the training scripts of `benchmarks/scripts` and files what they reach.

python -m benchmarks.scripts_check               # all
python -m benchmarks.scripts_check gan rnn_lstm  # some kinds or names
python -m benchmarks.scripts_check --missing     # those whose metrics are not yet in the index

Each script is run twice, in a folder that is thrown away, and must end within `SECONDS` of
processor time with the same last line `final METRIC VALUE`; a patched script must be clearly better
than its faulty one. The metrics are written into `benchmarks/scripts/index.toml`.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "scripts"
INDEX = FOLDER / "index.toml"
SECONDS = 30.0
HIGHER, LOWER = 0.93, 1.25  # the faulty metric is at most, or at least, so much of the patched one

Entry = dict[str, Any]
KEYS = (
    "name", "kind", "split", "fault", "line", "says", "metric", "metric_faulty", "metric_patched",
    "higher_is_better",
)  # fmt: skip


def entries() -> list[Entry]:
    """What the index holds, in its order."""
    return tomllib.loads(INDEX.read_text(encoding="utf-8"))["script"]


def write(rows: list[Entry]) -> None:
    """Writes the index again, in one stroke."""
    parts = [
        "# Training scripts with their causes: README.md says how this is read. Metrics and their"
        " names are written by\n# python -m benchmarks.scripts_check, all else by hand.\n"
    ]
    for row in rows:
        lines = ["[[script]]"]
        for key in KEYS:
            if key in row:
                value = row[key]
                text = repr(value) if isinstance(value, float) else json.dumps(value)
                lines.append(f"{key} = {text}")
        parts.append("\n".join(lines) + "\n")
    beside = INDEX.with_suffix(".new")
    beside.write_text("\n".join(parts), encoding="utf-8")
    beside.replace(INDEX)


def paths(row: Entry) -> dict[str, Path]:
    """The files of an entry, by the metric that they reach."""
    folder = FOLDER / ("healthy" if not row["fault"] else row["kind"])
    if not row["fault"]:
        return {"metric_patched": folder / f"{row['name']}.py"}
    return {
        "metric_faulty": folder / f"{row['name']}.py",
        "metric_patched": folder / f"{row['name']}_patched.py",
    }


def reached(path: Path) -> tuple[str, float, float]:
    """The metric of a script with its value, and the processor time it took."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(path.resolve())],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=4 * SECONDS,  # by the clock, others may hold the processor
            check=False,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    words = done.stdout.split("\n")[-2].split() if "\n" in done.stdout else []
    if done.returncode or len(words) != 3 or words[0] != "final":
        raise RuntimeError(f"{path.name} ended otherwise: {words} {done.stderr[-600:]}")
    return words[1], float(words[2]), spent


def clearly_better(row: Entry) -> bool:
    """Whether the patched metric is better by far."""
    faulty, patched = row["metric_faulty"], row["metric_patched"]
    if not math.isfinite(patched):
        return False
    if not math.isfinite(faulty):
        return True
    return faulty <= HIGHER * patched if row["higher_is_better"] else faulty >= LOWER * patched


def check(row: Entry, runs: int) -> tuple[Entry, list[str]]:
    """An entry with its metrics, and what is wrong with it."""
    wrong = []
    row = dict(row)
    for key, path in paths(row).items():
        try:
            told = [reached(path) for _ in range(runs)]
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return row, [*wrong, str(error)]
        row["metric"], row[key], spent = told[0]
        if any(t[2] > SECONDS for t in told):
            wrong.append(f"{path.name} took {max(t[2] for t in told):.0f} s")
        if len({(t[0], repr(t[1])) for t in told}) > 1:
            wrong.append(f"{path.name} reaches {[t[1] for t in told]}: it is not seeded whole")
        if path.read_text(encoding="utf-8").count("sigmascope"):
            wrong.append(f"{path.name} names this project")
        print(f"  {row[key]:<12.6g} {spent:5.1f} s  {path.parent.name}/{path.name}", flush=True)
    if row["fault"] and not clearly_better(row):
        wrong.append(f"{row['metric_faulty']} against {row['metric_patched']}: not clearly better")
    return row, wrong


def main() -> int:
    """Checks what is asked for; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("which", nargs="*", help="names, kinds, or `healthy`; all where none")
    parser.add_argument("--missing", action="store_true", help="only those without metrics")
    parser.add_argument("--runs", type=int, default=2, help="how often each is run")
    args = parser.parse_args()
    bad = 0
    for asked in entries():
        called = {asked["name"], asked["kind"]} | (set() if asked["fault"] else {"healthy"})
        if args.which and not called & set(args.which):
            continue
        if args.missing and "metric_patched" in asked:
            continue
        print(asked["name"], flush=True)
        row, wrong = check(asked, args.runs)
        for line in wrong:
            print(f"  WRONG {line}", flush=True)
        bad += bool(wrong)
        # read again: another process may have added to it
        keep = {k: v for k, v in row.items() if k.startswith("metric")} if not wrong else {}
        write([e | keep if e["name"] == row["name"] else e for e in entries()])
    print(f"{bad} wrong" if bad else "all as they should be")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
