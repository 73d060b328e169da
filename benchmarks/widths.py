"""Whether `ss.widths` says of each weight what theory says, and names the one that was spoilt.

python -m benchmarks.widths              # standard and right parametrisations, then mistakes
python -m benchmarks.widths --mistakes   # these alone
python -m benchmarks.widths --depths     # residual networks of 4 to 32 layers
python -m benchmarks.widths --rates docs/_static/rates.svg  # best rates, with a picture
python -m benchmarks.widths | tail -1    # one line of JSON, for scripts

MLP, ResNet and decoder-only transformer at widths 64 to 512, three seeds, three steps, with SGD,
Adam and Muon. The right parametrisation is written here from Table 8 of Yang et al. 2022, for a
base width of 64, and knows nothing of the cure that `widths` gives. A mistake is one thing changed
in it.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._timing import environment
from sigmascope import sources
from sigmascope.diagnosis import scaling

WIDTHS, BASE = (64, 128, 256, 512), 64
RATES = {"sgd": 0.05, "adam": 2e-3, "muon": 0.02}


class MLP(nn.Module):
    """Three hidden layers."""

    def __init__(self, n: int, how: "Plan") -> None:
        super().__init__()
        self.inp = nn.Linear(64, n)
        self.hid = nn.ModuleList(nn.Linear(n, n) for _ in range(2))
        self.out = nn.Linear(n, 10)
        self.times = how.times(n)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = F.relu(self.inp(x))
        for layer in self.hid:
            x = F.relu(layer(x))
        return self.out(x) * self.times


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, reads: int, writes: int, stride: int) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(reads, writes, 3, stride, 1, bias=False)
        self.n1 = nn.BatchNorm2d(writes)
        self.c2 = nn.Conv2d(writes, writes, 3, 1, 1, bias=False)
        self.n2 = nn.BatchNorm2d(writes)
        self.short = (
            nn.Conv2d(reads, writes, 1, stride, bias=False) if stride > 1 else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        """A map of features."""
        return F.relu(self.n2(self.c2(F.relu(self.n1(self.c1(x))))) + self.short(x))


class ResNet(nn.Module):
    """A stem and two blocks, of a quarter of the width."""

    def __init__(self, n: int, how: "Plan") -> None:
        super().__init__()
        n //= 4
        self.stem = nn.Conv2d(3, n, 3, 1, 1, bias=False)
        self.b1, self.b2 = Block(n, n, 1), Block(n, 2 * n, 2)
        self.out = nn.Linear(2 * n, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.out(self.b2(self.b1(F.relu(self.stem(x)))).mean((2, 3)))


class Attention(nn.Module):
    """Causal, of four heads."""

    def __init__(self, n: int, scale: float) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(n, n, bias=False) for _ in range(4))
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """As many numbers as it reads."""
        heads = (m(x).unflatten(2, (4, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True, scale=self.scale)
        return self.o(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Of a transformer, norms first."""

    def __init__(self, n: int, scale: float) -> None:
        super().__init__()
        self.n1, self.a, self.n2 = nn.LayerNorm(n), Attention(n, scale), nn.LayerNorm(n)
        self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

    def forward(self, x: Tensor) -> Tensor:
        """The residual stream."""
        x = x + self.a(self.n1(x))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    """Two layers, 64 tokens, a context of 32."""

    def __init__(self, n: int, how: "Plan") -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(64, n), nn.Embedding(32, n)
        d = n // 4
        root = how.standard or how.mistake == "attention by the root"
        scale = d**-0.5 if root else math.sqrt(BASE / 4) / d
        self.layers = nn.ModuleList(Layer(n, scale) for _ in range(2))
        self.norm, self.out = nn.LayerNorm(n), nn.Linear(n, 64, bias=False)
        if how.mistake == "tied readout":
            self.out.weight = self.tok.weight

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the next token, position by position."""
        h = self.tok(x) + self.pos(torch.arange(x.shape[1]))
        for layer in self.layers:
            h = layer(h)
        return self.out(self.norm(h)).flatten(0, 1)


KINDS: dict[str, Callable[..., nn.Module]] = {"mlp": MLP, "resnet": ResNet, "gpt": GPT}


@dataclass(frozen=True)
class Plan:
    """A network, how it is trained, and what is wrong with that."""

    network: str
    optimizer: str
    standard: bool = False
    mistake: str = ""
    at: str = ""  # the weight that is spoilt
    power: float = 0.0  # by which its scale or rate is off

    def times(self, n: int) -> float:
        """What the output is multiplied by."""
        return BASE / n if self.mistake == "multiplier twice" else 1.0

    def __call__(self, n: int) -> Any:
        """The model and its optimizers at a width."""
        model, r = KINDS[self.network](n, self), n / BASE
        groups: list[dict[str, Any]] = []
        for name, p in model.named_parameters():
            kind = _kind(name, p)
            by = self.optimizer if self.optimizer == "sgd" else "adam"
            # powers of width, of initial entries beside torch's own and of rates
            initial = -0.5 if kind == "out" else 0.0
            rate = {"sgd": {"in": 1, "vector": 1, "out": -1}, "adam": {"hidden": -1, "out": -1}}[by]
            power = rate.get(kind, 0)
            if self.standard:
                initial = power = 0.0
            if name == self.at and self.mistake == "initial scale":
                initial += self.power
            if name == self.at and self.mistake == "rate":
                power += self.power
            with torch.no_grad():
                p.mul_(r**initial)
            base = RATES[self.optimizer] if by == "sgd" else RATES["adam"]
            groups.append({"params": [p], "lr": base * r**power, "name": name})
        if self.optimizer == "sgd":
            return model, torch.optim.SGD(groups, lr=RATES["sgd"])
        eps = 1e-4 if self.mistake == "epsilon" else 1e-12
        if self.optimizer == "adam":
            return model, torch.optim.Adam(groups, eps=eps)
        turned = [g for g in groups if _kind(g["name"], g["params"][0]) == "hidden"]
        rest = [g for g in groups if _kind(g["name"], g["params"][0]) != "hidden"]
        adjust = "match_rms_adamw" if self.standard else "original"
        muon = torch.optim.Muon(
            [
                {
                    "params": g["params"],
                    "lr": RATES["muon"] * (r**self.power if g["name"] == self.at else 1.0),
                }
                for g in turned
            ],
            weight_decay=0.0,
            adjust_lr_fn=adjust,
        )
        return model, [muon, torch.optim.Adam(rest, eps=eps)]


def _kind(name: str, p: Tensor) -> str:
    if name == "out.bias":
        return "fixed"
    if p.ndim == 1:
        return "vector"
    first = name.split(".")[0]
    return {"inp": "in", "stem": "in", "tok": "in", "pos": "in", "out": "out"}.get(first, "hidden")


def expected(plan: Plan, name: str, kind: str) -> tuple[str, float | None]:
    """The verdict, and the exponent of what its change does where theory has it exactly."""
    asks = name.endswith((".q.weight", ".k.weight"))
    if not plan.standard:
        return "maximal", None if asks and plan.optimizer == "sgd" else 0.0
    if plan.optimizer == "sgd":
        power = {"in": -0.5, "vector": -0.5, "hidden": 0.5, "out": 1.0, "fixed": 0.0}[kind]
    elif plan.optimizer == "adam":
        power = {"hidden": 1.0, "out": 1.0}.get(kind, 0.0)
    else:
        power = {"hidden": 0.5, "out": 1.0}.get(kind, 0.0)
    if asks and plan.optimizer == "sgd":
        return "maximal", None  # gradients by chance and by the scale make up for one another
    return "maximal" if power == 0 else "lazy" if power < 0 else "exploding", power


CELLS = [
    Plan(network, optimizer, standard)
    for network in KINDS
    for optimizer in RATES
    for standard in (True, False)
    if (network, optimizer) != ("resnet", "muon")  # it takes no convolutions
]
MISTAKES = [
    (replace(Plan(net, by), mistake=what, at=at, power=power), named)
    for net, by, what, at, power, named in (
        ("mlp", "adam", "initial scale", "hid.0.weight", 0.5, ""),
        ("mlp", "adam", "initial scale", "inp.weight", -0.5, ""),
        ("mlp", "adam", "initial scale", "out.weight", 0.5, ""),
        ("mlp", "adam", "rate", "hid.1.weight", 1.0, ""),
        ("mlp", "adam", "rate", "out.weight", 1.0, ""),
        ("mlp", "adam", "rate", "inp.weight", -1.0, ""),
        ("mlp", "adam", "rate", "hid.0.bias", -1.0, ""),
        ("mlp", "adam", "epsilon", "", 0.0, "(epsilon)"),
        ("mlp", "adam", "multiplier twice", "", 0.0, "out.weight"),
        ("mlp", "sgd", "rate", "inp.weight", -1.0, ""),
        ("mlp", "sgd", "initial scale", "out.weight", 0.5, ""),
        ("mlp", "sgd", "rate", "hid.1.weight", 1.0, ""),
        ("mlp", "sgd", "rate", "out.weight", 1.0, ""),
        ("resnet", "adam", "rate", "b1.c2.weight", 1.0, ""),
        ("resnet", "adam", "initial scale", "stem.weight", -0.5, ""),
        ("resnet", "adam", "rate", "b2.n1.weight", -1.0, ""),
        ("gpt", "adam", "attention by the root", "", 0.0, "(scores"),
        ("gpt", "adam", "tied readout", "", 0.0, "out.weight"),
        ("gpt", "adam", "rate", "layers.1.down.weight", 1.0, ""),
        ("gpt", "adam", "rate", "tok.weight", -1.0, ""),
        ("gpt", "adam", "initial scale", "layers.0.up.weight", 0.5, ""),
        ("gpt", "muon", "rate", "layers.0.up.weight", 0.5, ""),
    )
]


def task(network: str) -> dict[str, Any]:
    """Data, loss and size of a batch."""
    g = torch.Generator().manual_seed(0)
    if network == "gpt":
        x = torch.randint(64, (32, 32), generator=g)
        loss = lambda out, y: F.cross_entropy(out, y.flatten())
        return {"data": (x, x.roll(-1, 1)), "loss": loss, "batch_size": 8}
    shape, size = ((256, 64), 64) if network == "mlp" else ((64, 3, 16, 16), 32)
    x = torch.randn(*shape, generator=g)
    # targets that can be learned: gradients of random ones are mostly what does not cancel
    y = (x.flatten(1) @ torch.randn(x[0].numel(), 10, generator=g)).argmax(1)
    return {"data": (x, y), "loss": "cross_entropy", "batch_size": size}


def looked(plan: Plan, seeds: int, *, cure: bool = False) -> scaling.Widths:
    """One of them, looked at."""
    return scaling.widths(plan, WIDTHS, seeds=seeds, cure=cure, **task(plan.network))


def cells(seeds: int) -> Iterator[dict[str, Any]]:
    """Verdicts of each weight against theory; who is accused; whether the cure cures."""
    for plan in CELLS:
        begun = time.process_time()
        found = looked(plan, seeds, cure=plan.standard)
        right = sure = held = exact = 0
        wrong: list[str] = []
        for row in found.weights:
            if row.kind == "product":
                continue
            verdict, power = expected(
                plan,
                row.name,
                _kind(row.name, torch.empty((1,) * (1 if row.kind in ("vector", "fixed") else 2))),
            )
            if (
                plan.standard
                and verdict == "maximal"
                and row.name.endswith((".q.weight", ".k.weight"))
            ):
                continue
            right += row.verdict == verdict
            sure += row.verdict != "cannot be told"
            if row.verdict not in (verdict, "cannot be told"):
                wrong.append(f"{row.name}: {row.verdict}")
            law = row.laws.get("effect")
            if power is not None and law is not None:
                exact += 1
                held += law.exponent.low <= power <= law.exponent.high
        count = sum(r.kind != "product" for r in found.weights)
        yield {
            "network": plan.network,
            "optimizer": plan.optimizer,
            "standard": plan.standard,
            "weights": count,
            "right": right,
            "told": sure,
            "wrong": wrong,
            "held": held,
            "exact": exact,
            "accused": [o.name for o in found.obstacles],
            "left": [f"{r.name}: {r.verdict}" for r in found.after
                     if r.verdict not in ("maximal", "cannot be told")],
            "seconds": time.process_time() - begun,
        }  # fmt: skip


def mistakes(seeds: int) -> Iterator[dict[str, Any]]:
    """Who is named first."""
    for plan, named in MISTAKES:
        found = looked(plan, seeds)
        want = named or plan.at
        first = found.obstacles[0] if found.obstacles else None
        hit = first is not None and (
            first.cause == "epsilon" if want == "(epsilon)" else first.name.startswith(want)
        )
        yield {
            "network": plan.network,
            "optimizer": plan.optimizer,
            "mistake": plan.mistake,
            "wanted": want,
            "first": "" if first is None else f"{first.name}, {first.cause}",
            "named": hit,
            "all": [f"{o.name}, {o.cause}" for o in found.obstacles],
        }


DEPTHS = (4, 8, 16, 32)


class Residual(nn.Module):
    """Layers that add to what they read, times a power of their number."""

    def __init__(self, depth: int, network: str, power: float) -> None:
        super().__init__()
        self.times, n = (depth / DEPTHS[0]) ** -power, 32
        self.inp, self.norm, self.out = nn.Linear(64, n), nn.LayerNorm(n), nn.Linear(n, 10)
        of = {
            "mlp": lambda: nn.Sequential(
                nn.LayerNorm(n), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n)
            ),
            "gelu": lambda: nn.Sequential(
                nn.LayerNorm(n), nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n, bias=False)
            ),
            "bare": lambda: nn.Sequential(nn.Linear(n, n), nn.Tanh(), nn.Linear(n, n)),
        }[network]
        self.layers = nn.ModuleList(of() for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = self.inp(x)
        for layer in self.layers:
            x = x + self.times * layer(x)
        return self.out(self.norm(x))


def depths(seeds: int) -> Iterator[dict[str, Any]]:
    """Exponents of depth against theory, where it has them; who is accused."""
    for network in ("mlp", "gelu", "bare"):
        for optimizer, lr in (("adam", 1e-3), ("sgd", 0.05)):
            for power in (0.0, 0.5, 1.0):
                begun = time.process_time()
                found = scaling.widths(
                    lambda depth: Residual(depth, network, power),  # noqa: B023 (called at once)
                    depths=DEPTHS, seeds=seeds, optimizer=optimizer, lr=lr, steps=1,
                    cure=power == 0, **task("mlp"),
                )  # fmt: skip
                rows = [r for r in found.weights if r.kind == "repeated"]
                stream = next(r for r in found.weights if r.name == "(residual stream)")
                # sums of L branches, and of L changes; with plain steps the branch counts twice
                wanted = (1 - power) if optimizer == "adam" else 1 - 2 * power
                laws = [r.law.exponent for r in rows if r.law is not None]
                exact = len(laws) if power else 0  # as it is, the stream outgrows what it adds to
                law = stream.laws["changed"].exponent
                yield {
                    "network": network,
                    "optimizer": optimizer,
                    "power": power,
                    "stream": [
                        # without norms branches grow with what they read
                        None if network == "bare" and not power
                        else law.low <= 0.5 - power <= law.high,
                        stream.verdict,
                    ],
                    "held": sum(e.low <= wanted <= e.high for e in laws) if power else 0,
                    "exact": exact,
                    "verdicts": sorted(r.verdict for r in rows),
                    "first": [f"{o.name}, {o.cause}" for o in found.obstacles[:1]],
                    "accused": sorted({o.cause for o in found.obstacles}),
                    "left": [f"{r.name}: {r.verdict}" for r in found.after
                             if r.verdict not in ("maximal", "cannot be told")],
                    "seconds": time.process_time() - begun,
                }  # fmt: skip


class Plain(nn.Module):
    """Images through four hidden layers with norms."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.inp, self.out = nn.Linear(784, n), nn.Linear(n, 10)
        self.hid = nn.ModuleList(nn.Linear(n, n) for _ in range(4))
        self.norm = nn.ModuleList(nn.LayerNorm(n) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = F.relu(self.inp(x.flatten(1)))
        for hidden, norm in zip(self.hid, self.norm, strict=True):
            x = F.relu(norm(hidden(x)))
        return self.out(x)


class Wide(nn.Module):
    """Images through four layers that add to what they read."""

    def __init__(self, n: int, pixels: int) -> None:
        super().__init__()
        self.inp, self.norm, self.out = nn.Linear(pixels, n), nn.LayerNorm(n), nn.Linear(n, 10)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(n), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
            for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = self.inp(x.flatten(1))
        for layer in self.layers:
            x = x + layer(x)
        return self.out(self.norm(x))


TASKS = {  # the model, its data, the rate that is given, and for how many steps it is trained
    "residual, digits": (lambda n: Wide(n, 64), ("digits", 1797), 2e-3, 28),
    "residual, Fashion-MNIST": (lambda n: Wide(n, 784), ("fashion-mnist", 6400), 1e-3, 100),
    "MLP with norms, Fashion-MNIST": (Plain, ("fashion-mnist", 6400), 2e-3, 100),
}


def rates(seeds: int, picture: str) -> Iterator[dict[str, Any]]:
    """Where the best rate lies at widths 64 and 512, as it is and with the cure; drawn."""
    from matplotlib import pyplot

    _, axes = pyplot.subplots(2, len(TASKS), figsize=(9, 5), sharex="col", sharey="col")
    for place, (title, (kind, (data, samples), lr, steps)) in enumerate(TASKS.items()):
        known = sources.open_data(data, samples=samples, generator=torch.Generator().manual_seed(0))
        found = scaling.widths(
            kind, WIDTHS, known, lr=lr, batch_size=64, seeds=seeds, cure=True, transfer=steps
        )
        row: dict[str, Any] = {"task": title, "steps": steps, "seeds": seeds, "code": found.code}
        for which, (says, pair) in enumerate(
            (("as it is", found.best), ("cured", found.best_after))
        ):
            by = scaling.moved(*pair)
            row[says] = [by.value, by.low, by.high]
            ax = axes[which][place]
            for one, colour in zip(pair, ("tab:blue", "tab:red"), strict=True):
                x = [lr * f for f, loss in one.curve.items() if math.isfinite(loss)]
                y = [loss for loss in one.curve.values() if math.isfinite(loss)]
                ax.plot(x, y, "o-", color=colour, markersize=3, label=f"width {one.width}")
                ax.axvline(lr * one.factor.value, color=colour, linewidth=0.8, linestyle=":")
            ax.set(xscale="log", yscale="log")
            if which:
                ax.set_xlabel("learning rate")
            moves = f"moves by {by.value:.1f} [{by.low:.1f}, {by.high:.1f}]"
            ax.set_title(f"{title}\n{says}: {moves}", fontsize=7)
        yield row
    for side in axes:
        side[0].set_ylabel("loss")
    axes[0][0].legend(fontsize=7)
    pyplot.tight_layout()
    pyplot.savefig(picture)


def main() -> None:
    """Measure, tell."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--mistakes", action="store_true")
    ask.add_argument("--depths", action="store_true")
    ask.add_argument("--rates", metavar="PICTURE", default="")
    ask.add_argument("--seeds", type=int, default=3)
    given = ask.parse_args()
    if given.rates or given.depths:
        for row in rates(given.seeds, given.rates) if given.rates else depths(2 * given.seeds):
            print(json.dumps(row), flush=True)
        return
    kept: dict[str, list[dict[str, Any]]] = {"cells": [], "mistakes": []}
    if not given.mistakes:
        for row in cells(given.seeds):
            kept["cells"].append(row)
            how = "standard" if row["standard"] else "right"
            print(
                f"{row['network']:7} {row['optimizer']:5} {how:8} {row['right']} of "
                f"{row['weights']} right, {row['told']} told, wrong: {row['wrong']}; theory in "
                f"{row['held']} of {row['exact']} intervals; {len(row['accused'])} accused"
                f"{'' if row['standard'] else ': ' + str(row['accused'])}; left after the cure: "
                f"{row['left']}; {row['seconds']:.0f} s",
                flush=True,
            )
    for row in mistakes(given.seeds):
        kept["mistakes"].append(row)
        mark = "named" if row["named"] else "MISSED"
        print(
            f"{mark:6} {row['network']} {row['optimizer']} {row['mistake']} {row['wanted']}: "
            f"{row['all'][:4]}",
            flush=True,
        )
    print(json.dumps({**environment(), **kept}))


if __name__ == "__main__":
    main()
