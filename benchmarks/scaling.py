"""What a profile costs as depth, width, batch, sequence and parameters grow, and how fast it grows.

python -m benchmarks.scaling                 # every part, as tables
python -m benchmarks.scaling --part batch    # depth, width, batch, sequence or parameters
python -m benchmarks.scaling --quick         # small sizes
python -m benchmarks.scaling | tail -1       # one line of JSON, for scripts

Each case runs in a process of its own, on one thread. Time is CPU time of the default views, by
that of a forward and backward pass of the same batch. Memory is the most that is resident at once,
less what is after imports, the model and a small profile. Exponents are slopes of least
squares in logarithms, over all sizes and over the larger half of them, for what does not depend on
the size hides the slope of the smaller ones.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SIZES = {
    "depth": (8, 16, 32, 64, 128, 256, 512, 1000),
    "width": (64, 128, 256, 512, 1024, 2048),
    "batch": (32, 64, 128, 256, 512, 1024),
    "sequence": (64, 128, 256, 512, 1024),
    "parameters": (1, 22, 110, 124, 350, 1000),  # millions, in round numbers
}
QUICK = {
    "depth": (8, 16, 32, 64),
    "width": (64, 128, 256),
    "batch": (32, 64, 128),
    "sequence": (64, 128, 256),
    "parameters": (1, 22),
}
CAP = "2GB"  # of sequences and parameters, beside the weights
VOCABULARY = 256
SHAPES = {  # layers, width, heads, vocabulary: tiny, MiniLM, BERT-base, GPT-2, GPT-2 medium, 1B
    1: (4, 128, 4, VOCABULARY),
    22: (6, 384, 12, 30522),
    110: (12, 768, 12, 30522),
    124: (12, 768, 12, 50257),
    350: (24, 1024, 16, 50257),
    1000: (24, 1792, 16, 50257),
}


def multilayer(*, depth: int = 8, width: int = 64, batch: int = 128) -> tuple[Any, ...]:
    """A multilayer perceptron, a batch of the digits' shape, targets and loss."""
    import torch
    from torch.nn import functional as F

    from sigmascope.models.networks import mlp

    g = torch.Generator().manual_seed(0)
    model = mlp(inputs=64, outputs=10, depth=depth, width=width, generator=g)
    x, y = torch.randn(batch, 64, generator=g), torch.randint(0, 10, (batch,), generator=g)
    return model, x, y, F.cross_entropy


def transformer(size: int, samples: int, tokens: int) -> tuple[Any, ...]:
    """A transformer of one of `SHAPES`, tokens, the next ones and the loss of predicting them."""
    import torch
    import transformers
    from torch.nn import functional as F

    layers, width, heads, vocabulary = SHAPES[size]
    torch.manual_seed(0)
    if size in (22, 110):
        config = transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
        )
        model = transformers.BertForMaskedLM(config)
    else:
        config = transformers.GPT2Config(
            vocab_size=vocabulary,
            n_embd=width,
            n_layer=layers,
            n_head=heads,
            use_cache=False,
            bos_token_id=0,
            eos_token_id=0,
        )
        model = transformers.GPT2LMHeadModel(config)
    x = torch.randint(0, vocabulary, (samples, tokens))
    loss = lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten())
    return model.eval(), x, x.roll(-1, 1), loss


def case(part: str, size: int) -> tuple[Any, ...]:
    """What one case measures: model, batch, targets, loss, memory allowed."""
    if part == "depth":
        return *multilayer(depth=size), None
    if part == "width":
        return *multilayer(width=size), None
    if part == "batch":
        return *multilayer(batch=size), None
    if part == "sequence":
        return *transformer(1, 16, size), CAP
    return *transformer(size, 2, 64), CAP


def resident() -> int:
    """Bytes that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measured(part: str, size: int) -> dict[str, float]:
    """One case, in this process."""
    import torch

    from sigmascope import survey

    torch.set_num_threads(1)
    model, x, y, loss, memory = case(part, size)
    task: dict[str, Any] = {"loss": loss, "memory": memory}
    net, inputs, labels, error = multilayer(batch=8)
    survey.profile(net, inputs, targets=labels, loss=error)  # code is loaded when it is first used
    before = resident()
    start = time.process_time()
    found = survey.profile(model, x, targets=y, **task)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    out = []
    for _ in range(2):  # the first one finds its memory
        start = time.process_time()
        result = model(x)
        loss(getattr(result, "logits", result), y).backward()
        out.append(time.process_time() - start)
    left = [s.what for s in found.skipped if s.site == "(samples)"]
    return {
        "size": size,
        "seconds": seconds,
        "passes": seconds / min(out),
        "megabytes": (peak - before) / 1e6,
        "parameters": sum(p.numel() for p in model.parameters()),
        "samples left out": float(left[0].split()[0]) if left else 0.0,
    }


def apart(part: str, size: int) -> dict[str, float]:
    """One case, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--part", part, "--one", str(size)]
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, env={**os.environ, **one}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{part} {size} ended with {done.returncode}: {done.stderr[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def exponent(rows: list[dict[str, float]], of: str) -> float:
    """Slope of least squares in logarithms; nan of fewer than two sizes."""
    points = [(math.log(r["size"]), math.log(r[of])) for r in rows if r[of] > 0]
    n = len(points)
    if n < 2:
        return math.nan
    x, y = (sum(p[i] for p in points) / n for i in (0, 1))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def table(part: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    """All sizes of one part, printed as they come."""
    print(f"{part:>10} {'CPU s':>9} {'passes':>8} {'MB':>8}  samples left out")
    rows = []
    for size in sizes:
        row = apart(part, size)
        rows.append(row)
        cells = f"{row['seconds']:>9.2f} {row['passes']:>8.1f} {row['megabytes']:>8.0f}"
        print(f"{size:>10} {cells}  {row['samples left out']:.0f}", flush=True)
    found = {}
    for of in ("seconds", "megabytes"):
        found[of] = {"all": exponent(rows, of), "larger": exponent(rows[len(rows) // 2 :], of)}
        print(
            f"  exponent of {of}: {found[of]['all']:.2f}, of the larger {found[of]['larger']:.2f}"
        )
    return {"rows": rows, "exponents": found}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=tuple(SIZES), action="append")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one", type=int, help="one size of one part, in this process")
    asked = parser.parse_args()
    if asked.one is not None:
        print(json.dumps(measured(asked.part[0], asked.one)))
    else:
        from benchmarks._timing import environment

        sizes = QUICK if asked.quick else SIZES
        parts = {part: table(part, sizes[part]) for part in asked.part or SIZES}
        print(json.dumps({**environment(), "parts": parts}))
