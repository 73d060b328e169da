"""How many small changes of the code the tests notice.

python -m benchmarks.mutants                          # 300 changes, of all rooms (an hour or two)
python -m benchmarks.mutants --room theory --count 75 --out mutants.jsonl
python -m benchmarks.mutants --show mutants.jsonl     # the table, and what was not noticed

A change is drawn with a fixed seed: the files of a room take turns. It is tried against the quick
tests that run the changed line (of a line that runs on import: those that run its module, or one
that imports from it): of the file that mirrors the module, then others of its room (of `theory` and
`models` of their neighbours too) and those of the numbers that are kept, the fastest first, until
one fails, within a budget of processor time. With `--out` the record is kept, and a second run goes
on where the first stopped. What takes much longer, or asks for much more memory than before, counts
as noticed. Tests whose work is done by other processes see no change: those read the files.
Changes that change nothing are listed in `_equivalents.py`, each with its reason, and do not count.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import hypothesis
import mpmath
import scipy.integrate
import scipy.optimize
import scipy.stats
import torch

from benchmarks import _forks as forks
from benchmarks._equivalents import reason
from benchmarks._mutations import Mutant, draw

ROOT = Path(__file__).parents[1]
ROOMS = (
    *("core", "linalg", "models", "report", "checkpoints"),
    *("sources", "survey", "diagnosis", "watching", "scanning", "theory"),
)
TESTED_BY = {  # their own tests where nothing is said
    "core": ("core", "report"),
    "theory": ("theory", "models"),
    "models": ("models", "survey", "theory"),
}
OF_ALL = ("tests/test_kept_numbers.py",)  # what doors say, in numbers: it runs code of every room
IMPORT = ""  # in the place of a test: what runs when the package is imported
LIMIT = 1200.0  # seconds of wall time after which a mutant counts as hanging
Map = dict[str, list[Any]]  # test -> seconds, lines by file

assert all(
    (hypothesis, mpmath, scipy.integrate, scipy.optimize, scipy.stats)
)  # so that forks have them


def _digest(*paths: Path) -> str:
    found = hashlib.sha256()
    for p in paths:
        found.update(p.read_bytes())
    return found.hexdigest()[:16]


def _test_files(rooms: Iterable[str]) -> list[str]:
    files = []
    for room in rooms:
        files += sorted((ROOT / "tests" / room).rglob("test_*.py"))
        modules = sorted((ROOT / "sigmascope" / room).rglob("*.py"))
        files += [p for p in modules if ">>> " in p.read_text()]
    return [*(str(p.relative_to(ROOT)) for p in files), *OF_ALL]


def _kept(files: Iterable[str]) -> dict[str, Path]:
    """Where what test files run is kept, until the code or the test changes."""
    ours = (ROOT / "conftest.py", Path(forks.__file__))  # who says what is checked and what is kept
    code = _digest(*sorted((ROOT / "sigmascope").rglob("*.py")), *ours)
    folder = Path(tempfile.gettempdir()) / f"sigmascope-mutants-{os.getuid()}" / code
    folder.mkdir(parents=True, exist_ok=True)
    tests = {f: folder / f"{_digest(ROOT / f)}-{f.replace('/', '.')}.json" for f in files}
    return {IMPORT: folder / "import.json"} | tests


def trace(kept: dict[str, Path]) -> int:
    """Find out which statements each quick test of some files runs, in forks."""
    modules, ran = forks.import_telling(ROOT)
    if where := kept.pop(IMPORT, None):
        where.write_text(json.dumps({IMPORT: [0.0, forks.by_file(modules, ran)]}))
    for file, where in kept.items():
        found = forks.in_fork(lambda f=file: forks.trace(f, modules, ran), seconds=LIMIT)
        if found is None:
            raise RuntimeError(f"The tests of {file} could not be traced. Run them by hand.")
        where.write_text(json.dumps(found))
        print(f"traced {file}: {len(found)} tests", file=sys.stderr, flush=True)
    return len(kept)


def coverage(rooms: Iterable[str]) -> Map:
    """What each quick test of some rooms runs, from the temporary folder or traced now."""
    kept = _kept(_test_files(rooms))
    missing = {file: where for file, where in kept.items() if not where.exists()}
    if missing and forks.in_fork(lambda: trace(missing), seconds=20 * LIMIT) is None:
        raise RuntimeError("The tests could not be traced. What stopped them is said above.")
    found: Map = {}
    for where in kept.values():
        found |= json.loads(where.read_text())
    return found


def as_it_runs(drawn: Iterable[Mutant], on_import: dict[str, str]) -> list[Mutant]:
    """A change inside a function that runs on import is none inside: it would come too late."""
    return [replace(m, inside=m.inside and not _ran(on_import, m)) for m in drawn]


def chosen(found: Map, m: Mutant, budget: float) -> dict[str, float]:
    """The tests that run the changed line: of the mirror, of the room, of the next."""
    users = [] if m.inside else _users(m.path)
    seconds = {
        test: s
        for test, (s, ran) in found.items()
        if _ran(ran, m) or any(user in ran for user in users)
    }
    path = m.path.removeprefix("sigmascope/")
    place = Path("tests", path)
    mirror = (str(place.parent / f"test_{place.name}"), f"{place.with_suffix('')}/")
    room = path.partition("/")[0]

    def far(test: str) -> tuple[int, float]:
        return (0 if test.startswith(mirror) else 1 if f"/{room}/" in test else 2), seconds[test]

    kept, spent = {}, 0.0
    for test in sorted(seconds, key=far):
        if spent + seconds[test] <= budget or test.startswith(mirror):
            kept[test] = seconds[test]
            spent += seconds[test]
    return kept


def _ran(lines: dict[str, str], m: Mutant) -> bool:
    """Whether the statement that a mutant is in is among those that ran."""
    return bool(int(lines.get(m.path, "0"), 16) >> m.statement & 1)


def _users(path: str) -> list[str]:
    """A module and those that import from it."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, own = name.rpartition(".")
    named = re.compile(rf"from {name} import|import {name}\b|from {package} import .*\b{own}\b")
    modules = (ROOT / "sigmascope").rglob("*.py")
    using = [p for p in modules if named.search(p.read_text())]
    return [path, *(str(p.relative_to(ROOT)) for p in using)]


def attempt(m: Mutant, tests: dict[str, float], found: forks.Functions | None) -> dict[str, Any]:
    """What notices a mutant; `found` are the functions where the package is imported already."""
    path, source = Path(m.path), m.source(ROOT)

    def run() -> str:
        if found is None:
            with forks.read_instead(path, source):
                try:
                    forks.import_all()
                except Exception as e:  # noqa: BLE001  (a package that cannot be imported is noticed)
                    return f"import: {type(e).__name__}"
        elif not forks.exchange(found, path, source):
            return "error: nothing was exchanged"
        return forks.killer(tests)

    killer = forks.in_fork(run, seconds=LIMIT) if tests else ""
    died = killer is None
    return asdict(m) | {
        "key": m.key,
        "tests": len(tests),
        "killer": "time: died" if died else killer,
    }


def _record(out: Path | None, row: dict[str, Any]) -> None:
    state = "killed" if row["killer"] else "equivalent" if reason(ROOT, row) else "SURVIVED"
    print(f"{state}  {row['path']}:{row['line']}  {row['before']}  →  {row['after']}", flush=True)
    if out:
        with out.open("a") as f:
            f.write(json.dumps(row) + "\n")


def table(rows: list[dict[str, Any]]) -> None:
    """Killed of those that count, by room, and those not noticed."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        room = row["path"].split("/")[1]
        why = reason(ROOT, row)
        state = "killed" if row["killer"] else "equivalent" if why else "survived"
        for name in (room, "all"):
            counts[name, state] += 1
        if state == "survived":
            print(f"{row['path']}:{row['line']}  {row['before']}  →  {row['after']}")
    print(
        f"\n{'room':10} {'drawn':>6} {'equivalent':>11} {'killed':>7} {'survived':>9} {'rate':>6}"
    )
    for room in (*ROOMS, "all"):
        killed, same, lived = (counts[room, s] for s in ("killed", "equivalent", "survived"))
        if killed + lived:
            rate = killed / (killed + lived)
            print(f"{room:10} {killed + same + lived:6} {same:11} {killed:7} {lived:9} {rate:6.1%}")
    print(json.dumps({f"{room} {state}": n for (room, state), n in sorted(counts.items())}))


def main() -> None:
    """Draw, try, tell."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--count", type=int, default=300)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--room", choices=ROOMS, action="append")
    p.add_argument("--without", action="append", default=[], help="files that end so are not drawn")
    p.add_argument("--budget", type=float, default=60.0, help="seconds of tests a mutant")
    p.add_argument("--part", default="0/1", help="i/n: every n-th, to share the work")
    p.add_argument("--again", action="store_true", help="try once more what was not noticed")
    p.add_argument("--out", type=Path)
    p.add_argument("--show", type=Path, help="only the table of a record")
    args = p.parse_args()
    if args.show:
        table([json.loads(line) for line in args.show.read_text().splitlines()])
        return
    torch.set_num_threads(1)
    os.chdir(ROOT)
    rooms = tuple(args.room or ROOMS)
    drawn = [
        m
        for room in rooms
        for m in draw(
            ROOT,
            room,
            count=args.count // len(rooms),
            seed=args.seed,
            without=tuple(args.without),
        )
    ]
    table(_tried(drawn, args))


def _tried(drawn: list[Mutant], args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each mutant: those on record, then those that need an import, then the others."""
    lines = args.out.read_text().splitlines() if args.out and args.out.exists() else []
    rows = {row["key"]: row for row in map(json.loads, lines)}
    if args.again:
        rows = {k: row for k, row in rows.items() if row["killer"] or reason(ROOT, row)}
    i, n = map(int, args.part.split("/"))
    ahead = [m for m in drawn if m.key not in rows][i::n]
    if not ahead:
        return [rows[m.key] for m in drawn if m.key in rows]
    rooms = dict.fromkeys(
        t for m in ahead for r in [m.path.split("/")[1]] for t in TESTED_BY.get(r, (r,))
    )
    found, functions = coverage(rooms), None
    _, on_import = found.pop(IMPORT)
    for m in sorted(as_it_runs(ahead, on_import), key=lambda m: m.inside):
        if m.inside and functions is None:
            forks.import_all()
            functions = forks.functions()
        rows[m.key] = attempt(m, chosen(found, m, args.budget), functions)
        _record(args.out, rows[m.key])
    return [rows[m.key] for m in drawn if m.key in rows]


if __name__ == "__main__":
    main()
