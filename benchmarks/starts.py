"""How long a person waits from the start of a command: for a first word, a finding, and a scan.

python -m benchmarks.starts                # a table, for people
python -m benchmarks.starts --rounds 5     # the least of so many
python -m benchmarks.starts | tail -1      # one line of JSON, for scripts

Each command runs in a process of its own, on a terminal of its own, on one thread; seconds of wall
time until the words stand there, and processor time until the end. Beside the scans, of files made
here, stands `analyze()` of WeightWatcher on the same weights, in a fresh process too, where it is
installed.
"""

import argparse
import importlib.util
import json
import os
import pty
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks._timing import environment

PROGRAM = """
import torch
from sklearn.datasets import load_digits
from torch import nn

def program(loss="cross_entropy"):
    torch.manual_seed(0)
    x, y = (torch.tensor(a) for a in load_digits(return_X_y=True))
    if loss == "mse":
        y = y.float()
    net = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10 if loss != "mse" else 1)]
    net += [nn.Softmax(-1)] if loss != "mse" else []
    return {"model": nn.Sequential(*net), "data": (x.float() / 16, y), "loss": loss,
            "optimizer": "adam", "lr": 1e-3, "batch_size": 32, "epochs": 10}

def broadcasts():
    return program("mse")
"""
ANALYZE = """
import sys, torch, weightwatcher
from safetensors.torch import load_file
from torch import nn
torch.set_num_threads(1)
net = nn.Module()
for name, weight in load_file(sys.argv[1]).items():
    layer = nn.Linear(*weight.shape[::-1], bias=False)
    layer.weight.data = weight
    net.add_module(name.replace(".", "_"), layer)
print(len(weightwatcher.WeightWatcher(model=net).analyze()))
"""
CASES = {  # a command, and the words of its first finding
    "profile of an MLP on digits": (["profile", "mlp?depth=4&width=64", "--data", "digits"], ""),
    "diagnose, a double softmax": (["diagnose", "train.py:program"], "double-softmax"),
    "diagnose, a shape that broadcasts": (["diagnose", "train.py:broadcasts"], "broadcast"),
}


def watched(folder: Path, arguments: list[str], finding: str) -> dict[str, float]:
    """Seconds until the first word, the finding and the end; and of processor time."""
    ours, theirs = pty.openpty()
    began, spent = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "sigmascope", *arguments]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "160", "TERM": "xterm"}
    process = subprocess.Popen(
        command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    found, said = dict[str, float](), ""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        said += part.decode(errors="replace")
        found.setdefault("first word", time.monotonic() - began)
        if finding and finding in said:
            found.setdefault("finding", time.monotonic() - began)
    process.wait()
    os.close(ours)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime
    return {**found, "end": time.monotonic() - began, "processor": cpu}


def processor(command: list[str]) -> float:
    """Processor seconds of a fresh process."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    subprocess.run(command, check=True, capture_output=True, env=environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime


def encoder(file: Path, *, layers: int, width: int) -> None:
    """Weights of a transformer: noise, and eight directions that stick out of it."""
    g = torch.Generator().manual_seed(0)
    shapes = dict.fromkeys("qkvo", (width, width))
    shapes |= {"up": (4 * width, width), "down": (width, 4 * width)}
    weights = {}
    for layer in range(layers):
        for name, (m, n) in shapes.items():
            low = torch.randn(m, 8, generator=g) @ torch.randn(8, n, generator=g)
            weights[f"{layer}.{name}"] = 0.05 * torch.randn(m, n, generator=g) + 0.02 * low
    save_file(weights, file)


def main() -> None:
    """Measure, tell."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--rounds", type=int, default=3)
    rounds, told = ask.parse_args().rounds, dict[str, dict[str, float]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(PROGRAM)
        for case, (arguments, finding) in CASES.items():
            seen = [watched(folder, arguments, finding) for _ in range(rounds)]
            told[case] = {what: min(one[what] for one in seen) for what in seen[0]}
        (folder / "analyze.py").write_text(ANALYZE)
        peer = importlib.util.find_spec("weightwatcher") is not None
        for layers, width in ((6, 384), (3, 768)):
            file = folder / f"{width}.safetensors"
            encoder(file, layers=layers, width=width)
            scan = [sys.executable, "-m", "sigmascope", "scan", str(file)]
            contenders = {"scan": scan}
            if peer:
                contenders["analyze()"] = [sys.executable, str(folder / "analyze.py"), str(file)]
            turns = [{w: processor(c) for w, c in contenders.items()} for _ in range(rounds)]
            told[f"scan, {layers} layers of width {width}"] = {
                what: min(turn[what] for turn in turns) for what in contenders
            }
    for case, numbers in told.items():
        print(case, *(f"{what} {seconds:.2f} s" for what, seconds in numbers.items()), sep="; ")
    print(json.dumps({**environment(), "seconds": told}))


if __name__ == "__main__":
    main()
