"""What the probability of fitting takes of memory and time, beside plain training of one copy.

python -m benchmarks.fitting                     # a table, for people
python -m benchmarks.fitting | tail -1           # one line of JSON, for scripts
python -m benchmarks.fitting --only gpt2         # one case
python -m benchmarks.fitting --budget 20         # seconds that each may take; 120 if not said

Each case runs in a process of its own. Memory is the most that the process held beyond what it held
with the model loaded and one step of it behind it, in multiples of the bytes of the parameters:
for the probe, and for two steps of Adam on one copy with the gradients and moments that go with it.
"""

import argparse
import copy
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._timing import environment
from sigmascope.core.guard import Budget, Refusal
from sigmascope.diagnosis.trainability import probe
from sigmascope.models.networks import mlp, resnet
from sigmascope.models.samples import as_tensor

SECONDS = 120.0
STATUS = Path("/proc/self/status")
Case = tuple[nn.Module, Any, Tensor]


def dense(width: int, depth: int) -> Case:
    """An MLP on 256 samples of 64 values."""
    g = torch.Generator().manual_seed(0)
    model = mlp(inputs=64, outputs=10, depth=depth, width=width, generator=g)
    return model, torch.randn(256, 64, generator=g), torch.randint(10, (256,), generator=g)


def residual() -> Case:
    """ResNet-20 on 64 images of 16 x 16."""
    g = torch.Generator().manual_seed(0)
    model = resnet(inputs=(3, 16, 16), outputs=10, depth=20, width=16, generator=g)
    return model, torch.randn(64, 3, 16, 16, generator=g), torch.randint(10, (64,), generator=g)


def minilm() -> Case:
    """A classifier of the size of MiniLM-L6 on 64 texts of 32 tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    g = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    ids = torch.randint(30000, (64, 32), generator=g)
    return BertForSequenceClassification(config), {"input_ids": ids}, ids[:, 0] % 2


def gpt2(samples: int) -> Case:
    """GPT-2 of 124 million parameters on so many texts of 64 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    g = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    ids = torch.randint(50000, (samples, 65), generator=g)
    batch = {"input_ids": ids[:, :-1].contiguous(), "use_cache": False}
    return GPT2LMHeadModel(GPT2Config()), batch, ids[:, 1:].contiguous()


CASES: dict[str, Callable[[], Case]] = {
    "MLP, 1M": lambda: dense(560, 4),
    "MLP, 20M": lambda: dense(2048, 6),
    "ResNet-20": residual,
    "MiniLM, 23M": minilm,
    "gpt2, 124M, 2x64 tokens": lambda: gpt2(2),
    "gpt2, 124M, 32x64 tokens": lambda: gpt2(32),
}


def loss_of(output: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of classes, and of the next tokens."""
    return F.cross_entropy(output.flatten(0, -2), targets.flatten())


def held(line: str) -> int:
    """Bytes that the process holds (`VmRSS`), or held at most (`VmHWM`)."""
    found = next(row for row in STATUS.read_text().splitlines() if row.startswith(line))
    return 1024 * int(found.split()[1])


def stepped(case: Case, steps: int) -> None:
    """So many steps of Adam on a copy."""
    model, batch, targets = case
    twin = copy.deepcopy(model).train()
    by = torch.optim.Adam(twin.parameters(), fused=True)
    for _ in range(steps):
        by.zero_grad()
        output = as_tensor(twin(**batch) if isinstance(batch, dict) else twin(batch))[0]
        loss_of(output, targets).backward()
        by.step()


def peak(work: Callable[[], object]) -> int:
    """The most that a process held beyond what it held before."""
    before = held("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark starts anew
    work()
    return held("VmHWM") - before


def measured(name: str, seconds: float, way: str) -> dict[str, Any]:
    """One case in this process."""
    torch.set_num_threads(1)
    stepped(dense(8, 2), 2)  # what torch loads once
    model, batch, targets = case = CASES[name]()
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if way == "plain":
        return {"plain step": round(peak(lambda: stepped(case, 2)) / size, 2)}
    seen: dict[str, Any] = {"parameters": size // 4}

    def probed() -> None:
        began, used = time.perf_counter(), time.process_time()
        try:
            found = probe(model, batch, targets=targets, loss=loss_of, budget=Budget(seconds))
            seen["steps"] = sum(len(c.steps) for c in found.curves)
        except Refusal as error:
            seen["stopped"] = str(error)
        seen["wall"] = round(time.perf_counter() - began, 1)
        seen["cpu"] = round(time.process_time() - used, 1)

    return {**seen, "memory": round(peak(probed) / size, 2), **seen}


def main() -> dict[str, Any]:
    """Every case."""
    words = argparse.ArgumentParser()
    words.add_argument("--only", default="")
    words.add_argument("--budget", type=float, default=SECONDS)
    words.add_argument("--case", nargs=2)
    said = words.parse_args()
    if said.case:
        return measured(said.case[0], said.budget, said.case[1])
    found: dict[str, Any] = {}
    for name in (n for n in CASES if n.startswith(said.only)):
        found[name] = {}
        for way in ("probe", "plain"):
            command = [sys.executable, "-m", "benchmarks.fitting", "--case", name, way]
            command += ["--budget", str(said.budget)]
            ran = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name] |= json.loads(ran.stdout.splitlines()[-1])
        row = found[name]
        print(
            f"{name}: {row['memory']}x (plain step {row['plain step']}x), {row['cpu']} s of CPU, "
            f"{row.get('steps', row.get('stopped'))}"
        )
    return {**found, **environment()}


if __name__ == "__main__":
    print(json.dumps(main()))
