"""The top Hessian eigenvalue and the trace, against hessian-eigenthings and PyHessian.

pip install --no-deps hessian-eigenthings==1.0.0a5 pyhessian==0.1
python -m benchmarks.peers.curvatures             # a table, for people
python -m benchmarks.peers.curvatures | tail -1   # one line of JSON, for scripts

A perceptron and a residual network, trained on digits for a while. A peer spends what it spends by
default (hessian-eigenthings needs to be told how many Lanczos steps: as few as give four digits,
which is found out here from the truth and given to it for nothing). We are asked as a user asks,
with `curvature(only=..., tolerance=...)` and the error that the peer has as the tolerance; how much
that takes we have to find out ourselves. Both are timed in turns, from the model to the number.
"""

import json
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from hessian_eigenthings.algorithms.lanczos import lanczos
from hessian_eigenthings.algorithms.trace import trace as peer_trace
from hessian_eigenthings.operators.hessian import HessianOperator
from pyhessian import hessian as PyHessian
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._timing import best_of, environment
from sigmascope import sources
from sigmascope.linalg.krylov import krylov_space, symmetric_moments
from sigmascope.models import Subject
from sigmascope.models.networks import mlp, resnet
from sigmascope.theory.landscape import Bend, curvature

SEEDS = range(10)
BUDGETS = (*range(2, 10), *range(10, 24, 2), *range(24, 120, 9), 126, 150, 201)
FOUR_DIGITS = 1e-4
Ask = Callable[[int], float]  # of a seed
Parts = tuple[nn.Module, Tensor, Tensor]


def networks() -> Iterator[tuple[str, Parts]]:
    """A perceptron and a residual network after 200 steps on digits."""
    data = sources.open_data("digits", samples=256)
    assert isinstance(data.inputs, Tensor)
    assert data.targets is not None
    x, y = data.inputs.float(), data.targets
    x = (x - x.mean(0)) / x.std()
    g = torch.Generator().manual_seed(0)
    for name, model, inputs in (
        (
            "MLP",
            mlp(inputs=64, outputs=10, depth=4, width=64, init="he", generator=g),
            x.flatten(1),
        ),
        (
            "ResNet-20",
            resnet(inputs=(1, 8, 8), outputs=10, depth=20, width=16, generator=g),
            x.reshape(-1, 1, 8, 8),
        ),
    ):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(200):
            rows = torch.randperm(len(x), generator=g)[:64]
            optimizer.zero_grad()
            F.cross_entropy(model(inputs[rows]), y[rows]).backward()
            optimizer.step()
        yield name, (model.eval(), inputs, y)


def ours(parts: Parts, question: str, tolerance: float) -> Callable[[int], Bend]:
    """By the door, of a seed."""
    model, x, y = parts
    ask: dict[str, Any] = {"only": [question], "tolerance": tolerance}
    ask |= {"targets": y, "loss": F.cross_entropy}
    seeded = lambda seed: torch.Generator().manual_seed(seed)
    return lambda seed: curvature(model, x, **ask, generator=seeded(seed)).parts[0]


def eigenthings(parts: Parts) -> dict[str, Callable[[int], Ask]]:
    """By products; the trace by its default, Hutch++."""
    model, x, y = parts
    make = lambda: HessianOperator(model, [(x, y)], lambda m, b: F.cross_entropy(m(b[0]), b[1]))
    return {
        "top": lambda k: (
            lambda s: float(lanczos(make(), k=1, max_iter=k, which="LA", seed=s).eigenvalues[0])
        ),
        "trace": lambda k: lambda s: peer_trace(make(), num_matvecs=k, seed=s).estimate,
    }


def pyhessian(parts: Parts) -> dict[str, Ask]:
    """With its defaults; it draws from the global generator."""
    model, x, y = parts

    def top(seed: int) -> float:
        torch.manual_seed(seed)
        return PyHessian(model, F.cross_entropy, data=(x, y), cuda=False).eigenvalues()[0][0]

    def trace(seed: int) -> float:
        torch.manual_seed(seed)
        found = PyHessian(model, F.cross_entropy, data=(x, y), cuda=False).trace()
        return sum(found) / len(found)

    return {"top": top, "trace": trace}


def error(ask: Ask, true: float) -> float:
    """Root mean square of the relative error over the seeds."""
    return math.sqrt(sum((ask(s) / true - 1) ** 2 for s in SEEDS) / len(SEEDS))


def cheapest(family: Callable[[int], Ask], true: float, aim: float) -> int:
    """The least budget whose error is at most the aim."""
    return next((b for b in BUDGETS if error(family(b), true) <= aim), BUDGETS[-1])


def truth(parts: Parts) -> dict[str, float]:
    """To far more digits than anyone is asked for."""
    model, x, y = parts
    A = Subject(model, x, y, F.cross_entropy).curvature().operator
    g = torch.Generator().manual_seed(99)
    space = krylov_space(A, steps=250, generator=g)
    trace = symmetric_moments(A, within=space, samples=250, generator=g)[0]
    return {"top": space.ritz()[0][-1].item(), "trace": trace.value}


def compared(name: str, parts: Parts) -> Iterator[dict]:
    """Times and errors, for both questions and both peers."""
    theirs, old = eigenthings(parts), pyhessian(parts)
    for question, true in truth(parts).items():
        spent = cheapest(theirs["top"], true, FOUR_DIGITS) if question == "top" else 99
        for peer, ask in (
            (f"hessian-eigenthings, {spent} products", theirs[question](spent)),
            ("PyHessian, its own choice", old[question]),
        ):
            aim = max(error(ask, true), 2e-6)  # below is the rounding of float32
            bend = ours(parts, question, aim)
            mine = lambda seed, bend=bend, question=question: getattr(bend(seed), question).value
            least = best_of({"ours": lambda f=mine: f(0), "theirs": lambda f=ask: f(0)}, repeats=5)
            yield {
                "network": name,
                "question": question,
                "peer": peer,
                "ratio": least["theirs"] / least["ours"],
                "products": sum(bend(s).products for s in SEEDS) / len(SEEDS),
                "errors": {"ours": error(mine, true), "theirs": error(ask, true)},
                "seconds": least,
            }


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # PyHessian's backward keeps its graph
    rows = []
    for name, parts in networks():
        for r in compared(name, parts):
            rows.append(r)
            print(
                f"{r['network']:<10} {r['question']:<6} {r['ratio']:5.2f} times faster than "
                f"{r['peer']:<34} with {r['products']:.0f} products, errors "
                f"{r['errors']['ours']:.1e} and {r['errors']['theirs']:.1e}",
                flush=True,
            )
    print(json.dumps({**environment(), "rows": rows}))
