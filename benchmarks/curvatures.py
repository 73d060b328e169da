"""The top Hessian eigenvalue and the trace, against hessian-eigenthings and PyHessian.

pip install --no-deps hessian-eigenthings==1.0.0a5 pyhessian==0.1
python -m benchmarks.curvatures             # a table, for people
python -m benchmarks.curvatures | tail -1   # one line of JSON, for scripts

Everyone gets the same networks, batch and loss, in turns in one process, and as many products as
their own mean error over the seeds needs to be no larger than ours (hessian-eigenthings, which is
thus told what to spend), or as they choose to spend (PyHessian, which is matched in error by us).
"""

import json
import math
import warnings
from collections.abc import Callable, Iterator

import torch
from hessian_eigenthings.algorithms.lanczos import lanczos
from hessian_eigenthings.algorithms.trace import trace as peer_trace
from hessian_eigenthings.operators.hessian import HessianOperator
from pyhessian import hessian as PyHessian
from torch import nn
from torch.nn import functional as F

from benchmarks._timing import best_of, environment
from sigmascope.linalg import extreme_eigenvalues, krylov_space, symmetric_moments
from sigmascope.networks import mlp, resnet
from sigmascope.probes import Subject

SEEDS = range(5)
BUDGETS = (6, 9, 10, 12, 14, 16, 18, 21, 24, 30, 36, 48, 60, 72, 99, 150, 201, 300)
Ask = Callable[[int], float]  # of a seed


def networks() -> dict[str, tuple[nn.Module, torch.Tensor, torch.Tensor]]:
    """A perceptron and a residual network, with images and labels."""
    g = torch.Generator().manual_seed(0)
    small = mlp(inputs=64, outputs=10, depth=4, width=64, generator=g)
    deep = resnet(inputs=(3, 32, 32), outputs=10, depth=14, width=8, generator=g).eval()
    return {
        "MLP": (
            small,
            torch.randn(256, 64, generator=g),
            torch.randint(10, (256,), generator=g),
        ),
        "ResNet-14": (
            deep,
            torch.randn(16, 3, 32, 32, generator=g),
            torch.randint(10, (16,), generator=g),
        ),
    }


def ours_top(model: nn.Module, x: torch.Tensor, y: torch.Tensor, tolerance: float) -> Ask:
    """The largest eigenvalue, found as the run settles."""

    def ask(seed: int) -> float:
        A = Subject(model, x, y, F.cross_entropy).curvature().operator
        g = torch.Generator().manual_seed(seed)
        return extreme_eigenvalues(A, tolerance=tolerance, sides="top", generator=g).top[0].value

    return ask


def ours_trace(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int, samples: int) -> Ask:
    """The trace: a Krylov space exactly, the rest sampled."""

    def ask(seed: int) -> float:
        A = Subject(model, x, y, F.cross_entropy).curvature().operator
        g = torch.Generator().manual_seed(seed)
        space = krylov_space(A, steps=steps, generator=g)
        return symmetric_moments(A, within=space, samples=samples, generator=g)[0].value

    return ask


def error(ask: Ask, true: float) -> float:
    """Root mean square of the relative error over the seeds."""
    return math.sqrt(sum((ask(s) / true - 1) ** 2 for s in SEEDS) / len(SEEDS))


def cheapest(family: Callable[[int], Ask], true: float, aim: float) -> tuple[int, Ask]:
    """The least budget whose error is at most the aim."""
    for budget in BUDGETS:
        if error(family(budget), true) <= aim:
            return budget, family(budget)
    return BUDGETS[-1], family(BUDGETS[-1])


def peers(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, Callable[[int], Ask]]:
    """Their doors, by a budget of products."""
    theirs = HessianOperator(model, [(x, y)], lambda m, b: F.cross_entropy(m(b[0]), b[1]))
    return {
        "top": lambda k: (
            lambda s: float(lanczos(theirs, k=1, max_iter=k, which="LA", seed=s).eigenvalues[0])
        ),
        "trace": lambda k: lambda s: peer_trace(theirs, num_matvecs=k, seed=s).estimate,
    }


def old_peer(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, Ask]:
    """PyHessian with its defaults; it draws from the global generator."""

    def top(seed: int) -> float:
        torch.manual_seed(seed)
        return PyHessian(model, F.cross_entropy, data=(x, y), cuda=False).eigenvalues()[0][0]

    def trace(seed: int) -> float:
        torch.manual_seed(seed)
        found = PyHessian(model, F.cross_entropy, data=(x, y), cuda=False).trace()
        return sum(found) / len(found)

    return {"top": top, "trace": trace}


def compared(name: str, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Iterator[dict]:
    """Times and errors of all three, for both questions."""
    A = Subject(model, x, y, F.cross_entropy).curvature().operator
    g = torch.Generator().manual_seed(99)
    space = krylov_space(A, steps=100, generator=g)
    exact = {
        "top": space.ritz()[0][-1].item(),
        "trace": symmetric_moments(A, within=space, samples=400, generator=g)[0].value,
    }
    doors, old = peers(model, x, y), old_peer(model, x, y)
    for question, true in exact.items():
        ours = (
            (lambda b: ours_top(model, x, y, 10.0**-b))
            if question == "top"
            else (lambda b: ours_trace(model, x, y, b // 2, b - b // 2))
        )
        first = ours(2 if question == "top" else 60)
        aim = max(error(first, true), 1e-7)  # the rounding of float32
        budget, theirs = cheapest(doors[question], true, aim)
        pair = {"ours": lambda f=first: f(0), "theirs": lambda f=theirs: f(0)}
        yield row(name, question, "hessian-eigenthings", pair, aim, error(theirs, true), budget)
        aim = error(old[question], true)
        options = (0.3, 0.6, 1, 2, 3, 4, 5, 6) if question == "top" else BUDGETS
        ours_now = next(ours(b) for b in options if error(ours(b), true) <= max(aim, 1e-7))
        pair = {"ours": lambda f=ours_now: f(0), "theirs": lambda f=old[question]: f(0)}
        yield row(name, question, "PyHessian", pair, error(ours_now, true), aim, 0)


def row(
    name: str,
    question: str,
    peer: str,
    pair: dict[str, Callable[[], float]],
    our_error: float,
    their_error: float,
    budget: int,
) -> dict:
    """One comparison, timed in turns."""
    least = best_of(pair, repeats=3)
    return {
        "network": name,
        "question": question,
        "peer": peer,
        "ratio": least["theirs"] / least["ours"],
        "seconds": least,
        "errors": {"ours": our_error, "theirs": their_error},
        "their products": budget or "their own choice",
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # PyHessian's backward keeps its graph
    rows = []
    for name, parts in networks().items():
        for r in compared(name, *parts):
            rows.append(r)
            print(
                f"{r['network']:<10} {r['question']:<6} {r['peer']:<20} {r['ratio']:6.2f} times "
                f"faster, errors {r['errors']['ours']:.1e} and {r['errors']['theirs']:.1e}, "
                f"{r['seconds']['ours']:.2f} s and {r['seconds']['theirs']:.2f} s",
                flush=True,
            )
    print(json.dumps({**environment(), "rows": rows}))
