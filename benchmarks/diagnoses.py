"""What a diagnosis costs: in passes, of two models with a plan and without; in epochs, of programs.

python -m benchmarks.diagnoses                # a minute or two
python -m benchmarks.diagnoses | tail -1      # one line of JSON, for scripts
python -m benchmarks.diagnoses --epochs       # of programs, some with a fault: ten minutes
python -m benchmarks.diagnoses --epochs gpt   # of one of them

A pass is forward and back on the 128 samples that are measured; both are timed in one process, on
one thread. The classes of the ResNet are random, so that training has much to do and nothing ends
early; the GPT reads this file. An epoch is one of the program itself, its steps timed in the same
process; the character GPT has 200 in an epoch, on text of Python's own library.
"""

import argparse
import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import sigmascope as ss
from benchmarks import _tasks
from benchmarks._timing import environment
from sigmascope.models import networks

SAMPLES, LENGTH, WORDS = 128, 64, 96
PLAN: dict[str, Any] = {"optimizer": "adam", "lr": 1e-3, "batch_size": 32, "epochs": 5}
REPEATS = 3


class Block(nn.Module):
    """Causal attention and two linear layers, each after a layer norm and beside a skip."""

    def __init__(self, width: int, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.rest = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Of `[n, T, width]`."""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        h = self.norms[0](x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.rest(self.norms[1](x))


class GPT(nn.Module):
    """Four blocks, at weights of standard deviation 0.02."""

    def __init__(self, width: int = 64, *, causal: bool = True) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, causal=causal) for _ in range(4)))
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


def letters(rate: float = 1e-3, *, causal: bool = True, shifted: bool = True) -> dict[str, Any]:
    """A character GPT of width 128 with AdamW, as people write it."""
    text = torch.cat([_tasks.text_of(m) for m in _tasks.MODULES]).remainder(WORDS)
    starts = torch.randint(len(text) - LENGTH - 1, (6400,))
    rows = torch.stack([text[s : s + LENGTH + 1] for s in starts.tolist()])
    inputs, targets = rows[:, :-1].clone(), rows[:, 1:].clone()
    how = {"loss": _tasks.letter_loss, "optimizer": "adamw", "lr": rate, "epochs": 5}
    return {
        "model": GPT(128, causal=causal),
        "data": (inputs, targets if shifted else inputs),
        **how,
    }


def digits(*layers: nn.Module, rate: float = 1e-3) -> dict[str, Any]:
    """Pictures of digits, with Adam."""
    x, y = (torch.tensor(a) for a in load_digits(return_X_y=True))
    how = {"loss": "cross_entropy", "optimizer": "adam", "lr": rate, "epochs": 10}
    return {"model": nn.Sequential(*layers), "data": (x.float().view(-1, 1, 8, 8) / 16, y), **how}


def _mlp() -> list[nn.Module]:
    return [nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]


def _cnn() -> list[nn.Module]:
    first, second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
    rest = [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)]
    return [first, nn.ReLU(), second, nn.ReLU(), *rest]


PROGRAMS: dict[str, Callable[[], dict[str, Any]]] = {
    "gpt": letters,
    "gpt, rate times 100": lambda: letters(0.1),
    "gpt, rate over 1000": lambda: letters(1e-6),
    "gpt, no causal mask": lambda: letters(causal=False),
    "gpt, targets not shifted": lambda: letters(shifted=False),
    "mlp": lambda: digits(*_mlp()),
    "mlp, double softmax": lambda: digits(*_mlp(), nn.Softmax(-1)),
    "cnn": lambda: digits(*_cnn()),
    "cnn, rate times 300": lambda: digits(*_cnn(), rate=0.3),
}


def epochs(named: list[str]) -> dict[str, float]:
    """Processor time of diagnoses over that of an epoch of the program."""
    found = {}
    for name in named or PROGRAMS:
        torch.manual_seed(0)
        program = PROGRAMS[name]()
        (x, y), size = program["data"], 32
        loss = ss.diagnosis.programs.loss_of(program["loss"])
        model = copy.deepcopy(program["model"])
        kind = torch.optim.AdamW if program["optimizer"] == "adamw" else torch.optim.Adam
        by, steps = kind(model.parameters(), program["lr"]), 40
        start = time.process_time()
        for step in range(-5, steps):
            if step == 0:  # the first ones load code
                start = time.process_time()
            rows = torch.randint(len(x), (size,))
            by.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            by.step()
        epoch = (time.process_time() - start) / steps * -(-len(x) // size)
        start = time.process_time()
        told = ss.diagnose({**program, "batch_size": size}, budget=None)
        taken = time.process_time() - start
        found[name] = round(taken / epoch, 1)
        said = ", ".join(f"{f.severity} {f.name}" for f in told.findings) or "nothing found"
        print(f"{name}: {taken:.1f} s, {found[name]} epochs of {epoch:.2f} s; {said}", flush=True)
    return found


def main() -> dict[str, float]:
    """What was asked for, over that of a pass or an epoch."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--epochs", nargs="*", choices=[*PROGRAMS], metavar="PROGRAM")
    named = ask.parse_args().epochs
    torch.set_num_threads(1)
    return passes() if named is None else epochs(named)


def passes() -> dict[str, float]:
    """Least processor time of some diagnoses over that of a pass."""
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
