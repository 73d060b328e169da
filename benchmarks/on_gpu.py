"""Training scripts on a GPU: each is watched there as it runs, and told of as on the CPU.

python -m benchmarks.on_gpu --role faulty --jobs 8 --limit 200      # of benchmarks/scripts

Each script is written anew with the GPU as the device where tensors are made (`on_gpu`). Of those
that run so, what is found is told beside the cause; with `--same`, weights after some steps with and
without an observer are compared, to the last bit. Scripts that do not run so are named.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.script_diagnoses import CAUSES, scripts

DEVICE = 'import torch; torch.set_default_device("cuda")\n'
OWN = 'torch.Generator("cuda")'
TEXTS = (  # what of a script for the CPU does not go on with another device
    (r"torch\.Generator\(\)", OWN),
    (r"shuffle=True(?!, generator)", f"shuffle=True, generator={OWN}.manual_seed(0)"),
    (r"torch\.from_numpy\(", "torch.as_tensor("),
    (r"(?<!cpu\(\))\.numpy\(\)", ".cpu().numpy()"),
    (r'accelerator="cpu"', 'accelerator="gpu"'),
    (r"use_cpu=True", "use_cpu=False"),
)
HERE = """
import json, sys
from sigmascope.gate import Refusal
from sigmascope.scripts import Script, diagnose_script
try:
    found = diagnose_script(Script(sys.argv[1], (), "/tmp"), seconds=60.0, output="/dev/null")
except Refusal as reason:
    print(json.dumps({"refused": str(reason)}))
else:
    print(json.dumps({
        "names": [(f.severity, f.name, f.site) for f in found.findings],
        "cures": [a.name for a in found.cures()],
        "not looked at": [str(s) for s in found.unlooked] if hasattr(found, "unlooked") else [],
    }))
"""


def on_gpu(text: str) -> str:
    """The text of a script whose tensors are made on the GPU."""
    text = re.sub(r"^\s*from __future__.*$", "", text, flags=re.MULTILINE)
    lightning = "lightning" in text or "accelerate" in text or "Trainer" in text
    for old, new in TEXTS:
        if not (lightning and "Generator" in new):
            text = re.sub(old, new, text)
    return ("" if lightning else DEVICE) + text


def ran(words: list[str], seconds: float) -> tuple[int, str, str]:
    """How a process ended, and what it said."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return 124, "", "took too long"
    return done.returncode, done.stdout, done.stderr


def told(file: Path, folder: Path, *, plain: bool) -> dict[str, Any]:
    """What is found in a script on the GPU, or why it does not run there."""
    moved = folder / f"{file.parent.name}-{file.name}"
    moved.write_text(on_gpu(file.read_text(encoding="utf-8")), encoding="utf-8")
    start = time.perf_counter()
    if plain:
        code, _, errors = ran([sys.executable, str(moved)], 60)
        if code:
            return {"not run": (errors.strip().split("\n") or [""])[-1][:120]}
    middle = time.perf_counter()
    code, out, errors = ran([sys.executable, "-c", HERE, str(moved)], 150)
    if code:
        return {"broken": errors[-1500:]}
    seconds = {"plain s": round(middle - start), "s": round(time.perf_counter() - middle)}
    return {**json.loads(out.split("\n")[-2]), **seconds}


def main() -> None:
    """Run them, one line each."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("kinds", nargs="*")
    ask.add_argument("--split", default="")
    ask.add_argument("--role", default="")
    ask.add_argument("--jobs", type=int, default=8)
    ask.add_argument("--limit", type=float, default=200.0, help="seconds after which none is begun")
    given = ask.parse_args()
    chosen = [
        (file, entry, role)
        for file, entry, role in scripts(given.kinds, given.split)
        if not given.role or role == given.role
    ]
    ends = time.monotonic() + given.limit
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:

        def one(job: tuple[Path, dict[str, Any], str]) -> tuple[bool, bool] | None:
            file, entry, role = job
            if time.monotonic() > ends:
                return None
            found = told(file, Path(folder), plain=True)
            causes = CAUSES.get(entry["fault"], frozenset({entry["fault"]}))
            names = [n for _, n, _ in found.get("names", ())]
            hit = role != "faulty" or (names[:1] != [] and names[0] in causes)
            print(role, entry["name"], entry["fault"], "HIT" if hit else "", json.dumps(found), flush=True)
            return "names" in found, hit

        rows = [r for r in pool.map(one, chosen) if r]
    there = [hit for ran_there, hit in rows if ran_there]
    print(f"begun {len(rows)}, ran on the GPU {len(there)}, cause first (or not faulty) {sum(there)}")


if __name__ == "__main__":
    main()
