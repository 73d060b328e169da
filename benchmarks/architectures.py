"""What the rules say of public architectures as they come, and of faults planted in five of them.

python -m benchmarks.architectures --healthy      # 37 architectures: what is found (15 minutes)
python -m benchmarks.architectures --healthy --more   # 42 others, held out (20 minutes)
python -m benchmarks.architectures --healthy --last   # 28 others, drawn after those (15 minutes)
python -m benchmarks.architectures --faults       # 67 faults: what is named first (12 minutes)
python -m benchmarks.architectures ... | tail -1  # one line of JSON, for scripts

Libraries: `pip install timm torchvision transformers diffusers monai torch_geometric pykan`; those
that are missing are named. CIFAR-10 is read from `$SIGMASCOPE_DATA`. `--only NAME` takes some.
"""

import argparse
import json
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from benchmarks._architecture_faults import FAMILIES, TUNED, case, faults
from benchmarks._architectures import ALL, LAST, MORE, Architecture
from benchmarks._timing import environment
from sigmascope import diagnosis

Z = 1.96
SEVERITIES = ("error", "warning")


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The interval of a share at 95 % (Wilson 1927)."""
    if not of:
        return 0.0, 1.0
    p, z = hits / of, Z * Z / of
    middle, half = p + z / 2, Z * math.sqrt(p * (1 - p) / of + z / (4 * of))
    return (middle - half) / (1 + z), (middle + half) / (1 + z)


def share(hits: int, of: int) -> str:
    """In words."""
    low, high = wilson(hits, of)
    return f"{hits} of {of}, {hits / max(of, 1):.0%} [{low:.0%}, {high:.0%}]"


def looked(model: torch.nn.Module, batch: Any, targets: Any, loss: Any) -> dict[str, Any]:
    """What a user is told, in order, and the probability of fitting."""
    measured = diagnosis.assess(model, batch, targets=targets, loss=loss, budget=None)
    chance = diagnosis.trainability.probability(measured)
    return {
        "found": [(f.name, f.severity, f.follows) for f in diagnosis.judge(measured)],
        "p": None if chance is None else round(chance.estimate.value, 3),
    }


def healthy(only: str, seed: int, among: Iterable[Architecture] = ALL) -> Iterator[dict[str, Any]]:
    """Every architecture that is installed, with its library's own initial weights."""
    for a in among:
        if only.lower() not in a.name.lower():
            continue
        if not a.installed:
            print(f"| {a.name} | {a.library} is not installed |", flush=True)
            continue
        torch.manual_seed(seed)
        model, task = a.make(), a.task()
        size = sum(p.numel() for p in model.parameters())
        try:
            seen = looked(model, task.batch, task.targets, task.loss)
        except Exception as refused:  # noqa: BLE001 (it is told, counts, and the rest is looked at)
            seen = {"found": [(f"refused: {refused}", "error", "")], "p": None}
        row = {"name": a.name, "library": a.library, "parameters": size, **seen}
        cells = (a.name, a.library, size, seen["p"], words(seen["found"]))
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
        yield row


def planted(only: str) -> Iterator[dict[str, Any]]:
    """Every fault, and the five families without one."""
    none = [("none", family, lambda _: None, ()) for family in FAMILIES]
    for kind, family, change, rules in (*none, *faults()):
        if only.lower() not in f"{kind} {family}".lower():
            continue
        program = case(family)
        change(program)
        try:
            seen = looked(program.model, program.batch, program.targets, program.loss)
        except Exception as error:  # noqa: BLE001 (a fault may end in a refusal, which is told)
            seen = {"found": [], "p": None, "refused": str(error)[:200]}
        names = [name for name, *_ in seen["found"]]
        first = bool(names) and names[0] in rules
        row = {"kind": kind, "family": family, "first": first, **seen}
        row["three"] = any(name in rules for name in names[:3])
        mark = "–" if kind == "none" else "yes" if first else "no"
        print(f"| {kind} | {family} | {mark} | {seen['p']} | {words(seen['found'])} |", flush=True)
        yield row


def words(found: Iterable[tuple[str, str, str]]) -> str:
    """Causes with their severity."""
    return ", ".join(f"{n} ({s})" for n, s, follows in found if not follows) or "nothing"


def told(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Shares of healthy architectures that are alarmed, by the severest finding."""
    worst = [{s for _, s, _ in row["found"]} for row in rows]
    errors = sum("error" in s for s in worst)
    either = sum(bool(s & set(SEVERITIES)) for s in worst)
    return {"with an error": share(errors, len(rows)), "with a warning": share(either, len(rows))}


def scored(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Shares of faults whose cause is named first, among three, and at all alarmed."""
    found = {}
    for title, families in (("tuned on", TUNED), ("reported", set(FAMILIES) - set(TUNED))):
        some = [r for r in rows if r["family"] in families and r["kind"] != "none"]
        for key in ("first", "three"):
            found[f"{title}, {key}"] = share(sum(r[key] for r in some), len(some))
        found[f"{title}, alarmed"] = share(sum(bool(r["found"]) for r in some), len(some))
    return found


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--more", action="store_const", const=MORE, default=ALL, dest="among")
    parser.add_argument("--last", action="store_const", const=LAST, dest="among")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the libraries
    result: dict[str, Any] = environment()
    if asked.healthy or not asked.faults:
        rows = [*healthy(asked.only, asked.seed, asked.among)]
        result["healthy"] = {"rows": rows, **told(rows)}
        print(told(rows), Counter(n for r in rows for n, *_ in r["found"]))
    if asked.faults:
        rows = [*planted(asked.only)]
        result["faults"] = {"rows": rows, **scored(rows)}
        print(scored(rows))
    print(json.dumps(result, allow_nan=False))


if __name__ == "__main__":
    main()
