"""Put the questions, and keep the answers in `results.json`."""

import argparse
import json
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from benchmarks._timing import environment
from benchmarks.peers import hessians, parametrisations, representations, weights
from benchmarks.peers._rows import Answer

FILE = Path(__file__).with_name("results.json")
QUESTIONS: Mapping[str, Callable[[], Iterator[Answer]]] = {
    "effective-ranks": representations.effective_ranks,
    "participation": representations.participation,
    "convolutions": weights.convolutions,
    "power-laws": weights.power_laws,
    "traces": hessians.traces,
    "layer-norms": hessians.layer_norms,
    "scans": weights.scans,
    "speeds": hessians.speeds,
    "kernels": hessians.kernels,
    "watching": representations.watching,
    "parametrisations": parametrisations.widths,
}
PACKAGES = (  # as `pip` knows them
    "sigmascope",
    "weightwatcher",
    "powerlaw",
    "ndtracker",
    "delve",
    "hessian-eigenthings",
    "pyhessian",
    "curvlinops-for-pytorch",
    "nngeometry",
    "mup",
)


def versions(known: Mapping[str, str]) -> dict[str, str]:
    """Of every package; where one is not installed, the known one that kept rows were made by."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = known.get(name, "not installed")
    return found


def main() -> None:
    """Ask, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(QUESTIONS)}")
    asked = parser.parse_args().names or list(QUESTIONS)
    torch.set_num_threads(1)
    kept = json.loads(FILE.read_text()) if FILE.exists() else {"answers": {}}
    for name in asked:
        answers = [asdict(a) for a in QUESTIONS[name]()]
        for a in answers:
            print(f"{a['question']}: {a['number']}", flush=True)
            for who, value in a["found"].items():
                print(f"  {who:34} {value:.3g}", flush=True)
            print(f"  {a['says']}", flush=True)
        kept["answers"][name] = answers
        about = environment() | {"python": platform.python_version()}
        kept |= {"configuration": about, "versions": versions(kept.get("versions", {}))}
        kept["answers"] = {n: kept["answers"][n] for n in QUESTIONS if n in kept["answers"]}
        FILE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
