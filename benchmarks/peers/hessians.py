"""Second derivatives: products, largest eigenvalue, trace and its error bars, tangent kernels."""

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.peers._rows import OURS, Answer, processor_times, ratios
from benchmarks.peers.curvatures import (
    FOUR_DIGITS,
    Ask,
    Parts,
    cheapest,
    eigenthings,
    error,
    networks,
    ours,
    pyhessian,
    truth,
)
from sigmascope.models import Subject
from sigmascope.models.networks import mlp
from sigmascope.theory.landscape import curvature

SEEDS = 60
PRODUCTS = 40


def layer_norms() -> Iterator[Answer]:
    """Products with the Hessian of a network with layer normalisation, float64."""
    from curvlinops import HessianLinearOperator
    from hessian_eigenthings.operators.hessian import HessianOperator
    from pyhessian import hessian as PyHessian
    from pyhessian.utils import hessian_vector_product

    g = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(6, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 3)
        ).double()
    x, y = torch.randn(32, 6, generator=g).double(), torch.randint(3, (32,), generator=g)
    params = list(net.parameters())
    v = torch.randn(sum(p.numel() for p in params), generator=g, dtype=torch.float64)
    v /= v.norm()
    true = _quotient(net, x, y, v)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = PyHessian(net, F.cross_entropy, data=(x, y), cuda=False)
        parts = torch.nn.utils.parameters_to_vector(
            hessian_vector_product(old.gradsH, old.params, _split(v, old.params))
        )
        matrix = HessianLinearOperator(net, nn.CrossEntropyLoss(), params, [(x, y)])
        found = {
            OURS: Subject(net, x, y, F.cross_entropy).curvature().operator.apply(v[:, None])[:, 0],
            "hessian-eigenthings": HessianOperator(
                net, [(x, y)], lambda m, b: F.cross_entropy(m(b[0]), b[1])
            ).matvec(v),
            "PyHessian": parts,
            "curvlinops": matrix @ v,
        }
    yield Answer(
        "product with the Hessian of a network with layer normalisation, beside finite differences",
        "relative error, float64",
        {who: ((h.detach() - true).norm() / true.norm()).item() for who, h in found.items()},
        says="The finite differences themselves are good to about 1e-12.",
    )


def _split(v: Tensor, like: list[Tensor]) -> list[Tensor]:
    sizes = [p.numel() for p in like]
    return [t.reshape(p.shape) for t, p in zip(v.split(sizes), like, strict=True)]


def _quotient(net: nn.Module, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
    """The derivative of the gradient along `v` by differences of fourth order."""

    def gradient(t: float) -> Tensor:
        moved = copy.deepcopy(net)
        own = list(moved.parameters())
        with torch.no_grad():
            for p, step in zip(own, _split(v, own), strict=True):
                p.add_(t * step)
        found = torch.autograd.grad(F.cross_entropy(moved(x), y), own)
        return torch.nn.utils.parameters_to_vector(found)

    h = 1e-3
    near, far = gradient(h) - gradient(-h), gradient(2 * h) - gradient(-2 * h)
    return (8 * near - far) / (12 * h)


def traces() -> Iterator[Answer]:
    """How often the interval around a trace holds it."""
    from hessian_eigenthings.algorithms.trace import trace
    from hessian_eigenthings.operators.hessian import HessianOperator

    model, x, y = small()
    A = Subject(model, x, y, F.cross_entropy).curvature().operator
    true = sum(A.apply(block).diagonal(-k).sum().item() for k, block in _unit_blocks(A.shape[0]))
    hits = {OURS: 0, "hessian-eigenthings": 0, "hessian-eigenthings, hutchinson": 0}
    spent = 0
    peer = HessianOperator(model, [(x, y)], lambda m, b: F.cross_entropy(m(b[0]), b[1]))
    for seed in range(SEEDS):
        g = torch.Generator().manual_seed(seed)
        ask: dict[str, Any] = {"targets": y, "loss": F.cross_entropy, "only": ["trace"]}
        part = curvature(model, x, **ask, steps=24, samples=4, generator=g).parts[0]
        assert part.trace is not None
        hits[OURS] += part.trace.low <= true <= part.trace.high
        spent = part.products
        for who, method in (
            ("hessian-eigenthings", "hutch++"),
            ("hessian-eigenthings, hutchinson", "hutchinson"),
        ):
            found = trace(peer, num_matvecs=spent, method=method, seed=seed)
            hits[who] += abs(found.estimate - true) <= 2 * found.stderr
    yield Answer(
        f"trace of a trained perceptron's Hessian, {spent} products, {SEEDS} seeds: "
        "how often the interval misses the trace",
        "share of the seeds; at most 0.05 is promised",
        {who: 1 - count / SEEDS for who, count in hits.items()},
        asked={
            OURS: "curvature, only=trace: its interval",
            "hessian-eigenthings": "trace (hutch++): estimate ± 2 stderr",
            "hessian-eigenthings, hutchinson": "hutchinson: estimate ± 2 stderr",
        },
        says="PyHessian and curvlinops give no error with a trace.",
    )


def small() -> Parts:
    """A perceptron of a thousand weights, trained for a while."""
    _, (_, x, y) = next(networks())
    g = torch.Generator().manual_seed(0)
    model = mlp(inputs=64, outputs=10, depth=2, width=12, init="he", generator=g).double()
    x = x.double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval(), x, y


def _unit_blocks(n: int, size: int = 64) -> Iterator[tuple[int, Tensor]]:
    """Unit vectors some at a time, and the row of the first."""
    unit = torch.eye(n, dtype=torch.float64)
    for k in range(0, n, size):
        yield k, unit[:, k : k + size]


def speeds() -> Iterator[Answer]:
    """Largest eigenvalue and trace to the error that the peer has, of the MLP of `curvatures`."""
    warnings.simplefilter("ignore")
    name, parts = next(networks())
    theirs, old = eigenthings(parts), pyhessian(parts)
    for question, true in truth(parts).items():
        spent = cheapest(theirs["top"], true, FOUR_DIGITS) if question == "top" else 99
        peers = {f"hessian-eigenthings, {spent} products": theirs[question](spent)}
        peers |= {"PyHessian": old[question], "curvlinops": curvlinops(parts)[question]}
        for who, ask in peers.items():
            aim = max(error(ask, true), 2e-6)  # below is the rounding of float32
            bend = ours(parts, question, aim)
            mine = lambda seed, bend=bend, question=question: getattr(bend(seed), question).value
            seconds = processor_times({OURS: lambda f=mine: f(0), who: lambda f=ask: f(0)})
            yield Answer(
                f"{_WORDS[question]} of the Hessian of a trained {name} (17 290 weights), to the "
                f"error that {who.split(',')[0]} has: {aim:.1e}; ours in {1e3 * seconds[OURS]:.0f} "
                f"ms: {error(mine, true):.1e}",
                "processor time over ours",
                ratios(seconds),
                aim=None,
                asked={OURS: f"curvature, only={question}, tolerance={aim:.1e}"},
            )


def curvlinops(parts: Parts) -> dict[str, Ask]:
    """SciPy's Lanczos method to four digits, and Hutch++ with 99 products."""
    from curvlinops import HessianLinearOperator, hutchpp_trace
    from scipy.sparse.linalg import eigsh

    model, x, y = parts
    weights = list(model.parameters())
    make = lambda: HessianLinearOperator(model, nn.CrossEntropyLoss(), weights, [(x, y)])

    def top(seed: int) -> float:
        matrix = make().to_scipy()
        start = numpy.random.default_rng(seed).standard_normal(matrix.shape[0])
        start = start.astype(matrix.dtype)
        values = eigsh(matrix, k=1, which="LA", tol=FOUR_DIGITS, v0=start)[0]
        return float(values[0])

    def trace(seed: int) -> float:
        torch.manual_seed(seed)
        return float(hutchpp_trace(make(), 99))

    return {"top": top, "trace": trace}


_WORDS = {"top": "largest eigenvalue", "trace": "trace"}


def kernels() -> Iterator[Answer]:
    """The trace of the tangent kernel, averaged over samples."""
    from nngeometry.layercollection import LayerCollection
    from nngeometry.metrics import FIM
    from nngeometry.object import PMatDiag

    _, (model, x, y) = next(networks())
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), len(x))
    layers = LayerCollection.from_model(model)
    asked = {"variant": "regression", "layer_collection": layers}
    theirs = lambda: float(FIM(model, loader, PMatDiag, **asked).trace())
    mine = lambda: float(Subject(model, x).ntk_trace.mean())
    seconds = processor_times({OURS: mine, "nngeometry": theirs})
    yield Answer(
        "mean trace of the tangent kernel of the same perceptron on 256 digits",
        "processor time over ours",
        ratios(seconds),
        aim=None,
        asked={OURS: "Subject.ntk_trace", "nngeometry": "FIM(..., PMatDiag, 'regression').trace()"},
        says=f"The two differ by {abs(theirs() / mine() - 1):.0e}; ours takes "
        f"{1e3 * seconds[OURS]:.0f} ms, and has a number for each sample.",
    )
