"""Training scripts on a GPU: each is watched there as it runs, and told of as on the CPU.

python -m benchmarks.on_gpu --role faulty --jobs 8 --limit 200      # of benchmarks/scripts

Each script is written anew with the GPU as the device where its tensors are made (`on_gpu`). Of
those that run so it is told what is found beside the cause, and whether what they print at last is
the same with and without an observer, to the last digit. Scripts that do not run so are named.
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
WATCHED = """
import runpy, sys
import sigmascope as ss
sys.argv = sys.argv[1:]
with ss.observe():
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
TOLD = """
import json, sys
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.scripts import Script, diagnose_script
try:
    found = diagnose_script(Script(sys.argv[1], (), "/tmp"), seconds=60.0, output="/dev/null")
except Refusal as reason:
    print(json.dumps({"refused": str(reason)}))
else:
    names = [(f.severity, f.name, f.site) for f in found.findings]
    cures = [a.name for a in found.cures()]
    print(json.dumps({"names": names, "cures": cures, "not looked at": found.unlooked}))
"""


def on_gpu(text: str) -> str:
    """The text of a script whose tensors are made on the GPU."""
    text = re.sub(r"^\s*from __future__.*$", "", text, flags=re.MULTILINE)
    placed = any(word in text for word in ("lightning", "accelerate", "Trainer", '"cuda"'))
    for old, new in TEXTS:
        if not (placed and "Generator" in new):
            text = re.sub(old, new, text)
    return ("" if placed else DEVICE) + text


def ran(*words: str, seconds: float = 150.0) -> tuple[str, str]:
    """The last line that a process printed, and with what it failed."""
    run: dict[str, Any] = {"capture_output": True, "text": True, "timeout": seconds}
    try:
        done = subprocess.run([sys.executable, *words], check=False, **run)
    except subprocess.TimeoutExpired:
        return "", "took too long"
    last = (done.stdout.strip().split("\n") or [""])[-1]
    return last, "" if not done.returncode else done.stderr.strip()[-1500:] or "failed"


def told(file: Path, folder: Path) -> dict[str, Any]:
    """What is found in a script on the GPU, or why it does not run there."""
    moved = folder / f"{file.parent.name}-{file.name}"
    moved.write_text(on_gpu(file.read_text(encoding="utf-8")), encoding="utf-8")
    plain, why = ran(str(moved), seconds=60.0)
    if why:
        return {"not run": why.split("\n")[-1][:120]}
    watched, broken = ran("-c", WATCHED, str(moved))
    start = time.perf_counter()
    found, why = ran("-c", TOLD, str(moved))
    if why or broken:
        return {"broken": why or broken}
    seconds = round(time.perf_counter() - start)
    return {**json.loads(found), "same": watched == plain, "seconds": seconds}


def main() -> None:
    """Run them, one line each."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("kinds", nargs="*")
    ask.add_argument("--split", default="")
    ask.add_argument("--role", default="")
    ask.add_argument("--jobs", type=int, default=8)
    ask.add_argument("--limit", type=float, default=200.0, help="seconds after which none is begun")
    given = ask.parse_args()
    every = scripts(given.kinds, given.split)
    chosen = [job for job in every if not given.role or job[2] == given.role]
    ends = time.monotonic() + given.limit
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:

        def one(job: tuple[Path, dict[str, Any], str]) -> tuple[bool, bool] | None:
            file, entry, role = job
            if time.monotonic() > ends:
                return None
            found = told(file, Path(folder))
            causes = CAUSES.get(entry["fault"], frozenset({entry["fault"]}))
            names = [n for _, n, _ in found.get("names", ())]
            hit = not names if role != "faulty" else names[:1] != [] and names[0] in causes
            row = [role, entry["name"], entry["fault"], "HIT" if hit else "", json.dumps(found)]
            print(*row, flush=True)
            return ("names" in found and (found["same"], hit)) or None

        rows = [row for row in pool.map(one, chosen) if row]
    same, hits = (sum(column) for column in zip(*rows, strict=True)) if rows else (0, 0)
    print(f"ran on the GPU: {len(rows)}; the same when watched: {same}; as it should be: {hits}")


if __name__ == "__main__":
    main()
