"""What a diagnosis costs, in passes: of a ResNet-20 and a small GPT, with a plan and without.

python -m benchmarks.diagnoses            # a minute or two
python -m benchmarks.diagnoses | tail -1  # one line of JSON, for scripts

A pass is forward and back on the 128 samples that are measured; both are timed in one process, on
one thread. The classes of the ResNet are random, so that training has much to do and nothing ends
early; the GPT reads this file.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import sigmascope as ss
from benchmarks._timing import environment
from sigmascope.models import networks

SAMPLES, LENGTH, WORDS = 128, 64, 96
PLAN: dict[str, Any] = {"optimizer": "adam", "lr": 1e-3, "batch_size": 32, "epochs": 5}
REPEATS = 3


class Block(nn.Module):
    """Causal attention and two linear layers, each after a layer norm and beside a skip."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.rest = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Of `[n, T, width]`."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        h = self.norms[0](x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.rest(self.norms[1](x))


class GPT(nn.Module):
    """Four blocks of width 64, at weights of standard deviation 0.02."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, 0, 0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """Scores `[n, T, words]`."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def cases() -> dict[str, tuple[nn.Module, Tensor, Tensor]]:
    """Model, inputs and targets."""
    g = torch.Generator().manual_seed(0)
    pixels = torch.randn(SAMPLES, 3, 32, 32, generator=g)
    net = networks.build("resnet?depth=20&width=16", inputs=(3, 32, 32), outputs=10, generator=g)
    text = torch.tensor([*Path(__file__).read_bytes()]).remainder(WORDS)
    ids = text.repeat(4)[: SAMPLES * LENGTH].reshape(SAMPLES, LENGTH)
    following = torch.full_like(ids, -100)
    following[:, :-1] = ids[:, 1:]
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(0)
        gpt = GPT()
    classes = torch.randint(10, (SAMPLES,), generator=g)
    return {"ResNet-20": (net, pixels, classes), "GPT": (gpt, ids, following)}


def main() -> dict[str, float]:
    """Least processor time of some diagnoses over that of a pass."""
    torch.set_num_threads(1)
    found = {}
    for name, (model, x, y) in cases().items():
        one = _least(_step, model, x, y)
        for how, plan in (("", {}), (", with a plan", PLAN)):
            taken = _least(ss.diagnose, model, (x, y), loss="cross_entropy", **plan)
            found[name + how] = round(taken / one, 1)
            print(f"{name}{how}: {found[name + how]} passes of {1000 * one:.0f} ms")
    return found


def _step(model: nn.Module, x: Tensor, y: Tensor) -> None:
    model.train()
    ss.diagnosis.programs.loss_of("cross_entropy")(model(x), y).backward()
    model.zero_grad(set_to_none=True)


def _least(run: Callable[..., object], *args: Any, **options: Any) -> float:
    """Seconds of the processor, the least of some runs."""
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        run(*args, **options)
        taken.append(time.process_time() - start)
    return min(taken)


if __name__ == "__main__":
    print(json.dumps({**main(), **environment()}))
