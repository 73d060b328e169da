"""Every interval of a random route holds as often as it promises, also where few numbers are all.

Each entry of `ROUTES` is one public function that draws; `test_none_is_missing` fails for one that
has an interval and is not there.
"""

import inspect
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from zoo import fresh

from sigmascope import linalg, models, survey, theory
from sigmascope.core import records
from sigmascope.linalg.krylov import Operator
from sigmascope.models.sequences import step_gradients
from sigmascope.theory.daneshmand2020 import layer_growth, product_exponents
from sigmascope.theory.random_chains import LinearChain

MANY = (24, pytest.param(200, marks=pytest.mark.slow))  # seeds
FEW = (2, 3, 4, 16)  # samples, in turn
N = 24


def symmetric(kind: str) -> torch.Tensor:
    """Symmetric matrices, of which all but the first are nearly one number."""
    g = fresh(7)
    flat = torch.ones(N, dtype=torch.float64) / N**0.5
    A = torch.randn(N, N, generator=g, dtype=torch.float64)
    A = (A + A.mT) / 2
    if kind == "spike":  # one direction, dense
        return 1e-3 * A + 50 * torch.outer(flat, flat)
    if kind == "entry":  # one entry, and zero elsewhere
        return 3 * torch.eye(N, dtype=torch.float64)[:, 5:6] * torch.eye(N)[5]
    if kind == "cancelling":  # two that cancel in the trace
        other = torch.linspace(-1, 1, N, dtype=torch.float64)
        other = other / other.norm()
        return A + 40 * (torch.outer(flat, flat) - torch.outer(other, other))
    if kind == "heavy":  # Cauchy: every scale there is
        tails = torch.tan(math.pi * (torch.rand(N, generator=g, dtype=torch.float64) - 0.5))
        Q = torch.linalg.qr(A)[0]
        return (Q * tails**3) @ Q.mT
    return A


KINDS = ("gaussian", "spike", "entry", "cancelling", "heavy")


def misses(told, true: float, *, scale: float) -> int:
    room = 1e-9 * scale
    return sum(not e.low - room <= true <= e.high + room for e in told)


def allowed(risk: float, count: int) -> float:
    """As many misses as the promise allows, and what chance adds to exactly that."""
    return risk * count + 3 * math.sqrt(risk * (1 - risk) * count) + 0.5


def sure(told, true, *, scale=1.0):
    told = list(told)
    assert misses(told, true, scale=scale) <= allowed(max(e.risk for e in told), len(told))


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_trace(kind, seeds):
    A = symmetric(kind)
    draw = lambda s: linalg.krylov.trace(Operator.of(A), samples=FEW[s % 4], generator=fresh(s))
    sure(map(draw, range(seeds)), A.trace().item(), scale=A.norm().item())


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_leading(kind, seeds):
    A = symmetric(kind)
    true = torch.linalg.svdvals(A)
    for i in range(3):
        sure((leading(A, i, s) for s in range(seeds)), true[i].item(), scale=A.norm().item())


def leading(A, i, seed):
    found = linalg.krylov.leading(A, block=3 + seed % 3, steps=1 + seed % 4, generator=fresh(seed))
    s = found.spectrum
    return records.Estimate(s.sigma[i].item(), s.low[i].item(), s.high[i].item(), s.how, s.risk)


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("exponent", [1.5, 2.5, 4.0])
def test_power_law(exponent, seeds):
    def told(seed):
        u = torch.rand(60 + 40 * (seed % 3), generator=fresh(seed), dtype=torch.float64)
        fit = linalg.random_matrix.power_law(u ** (-1 / (exponent - 1)), generator=fresh(seed))
        return fit.exponent

    sure(map(told, range(seeds)), exponent)


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_frobenius_norm(kind, seeds):
    A = symmetric(kind)
    draw = lambda s: linalg.frobenius_norm(Operator.of(A), samples=FEW[s % 4], generator=fresh(s))
    sure(map(draw, range(seeds)), A.norm().item(), scale=A.norm().item())


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("blocks", [1, 6])
@pytest.mark.parametrize("risk", [0.01, 0.5])
def test_trace_of_forms(k, blocks, risk):
    """Of one eigenvalue, of equal ones, and of a few that decay, in blocks."""
    for weights in (torch.ones(1), torch.ones(30), 0.3 ** torch.arange(6)):
        told = []
        for seed in range(60):
            z = torch.randn(blocks, len(weights), k, generator=fresh(seed), dtype=torch.float64)
            scale = (
                torch.ones(blocks, 1).double() if seed % 2 else torch.eye(blocks)[:, :1].double()
            )
            forms = scale * torch.einsum("w,bwk->bk", weights.double(), z.square())
            total = float(scale.sum() * weights.sum())
            e = linalg.krylov.trace_of_forms(forms / total, how="drawn", risk=risk)
            told.append(e)
        sure(told, 1.0)


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_symmetric_moments(kind, seeds):
    A = symmetric(kind)
    told = []
    for seed in range(seeds):
        g, samples = fresh(seed), FEW[seed % 3]
        space = linalg.krylov.krylov_space(Operator.of(A), steps=1, generator=g)
        told.append(
            linalg.krylov.symmetric_moments(
                Operator.of(A), within=space, samples=samples, generator=g
            )
        )
    sure([t for t, _ in told], A.trace().item(), scale=A.norm().item())
    sure([f for _, f in told], A.norm().item(), scale=A.norm().item())


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_moments_within(kind, seeds):
    """Also where the samples themselves said that there were enough of them."""
    A = symmetric(kind)
    told = []
    for seed in range(seeds):
        g, tolerance = fresh(seed), (0.5, 0.2, 0.05)[seed % 3]
        space = linalg.krylov.krylov_space(Operator.of(A), steps=1 + seed % 2, generator=g)
        told.append(
            linalg.krylov.moments_within(
                Operator.of(A), within=space, tolerance=tolerance, most=60, generator=g
            )
        )
    # of a trace that cancels nothing is ever a small share, and all samples are drawn
    drawn = {count for _, _, count in told}
    assert drawn == {60} if kind == "cancelling" else len(drawn) > 1
    sure([t for t, _, _ in told], A.trace().item(), scale=A.norm().item())
    sure([f for _, f, _ in told], A.norm().item(), scale=A.norm().item())


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_spectral_density(kind, seeds):
    A = symmetric(kind)
    lam = torch.linalg.eigvalsh(A)
    levels = [
        float(lam[0] + lam[1]) / 2,
        float(lam[-1] + lam[-2]) / 2,
        0.3 * float(lam.abs().max()),
    ]
    told = [
        linalg.krylov.spectral_density(
            Operator.of(A), samples=FEW[s % 3], steps=3, generator=fresh(s)
        )
        for s in range(seeds)
    ]
    for level in levels:
        sure([d.below(level) for d in told], float((lam <= level).double().mean()))


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_extreme_eigenvalues(kind, seeds):
    A = symmetric(kind)
    lam = torch.linalg.eigvalsh(A)
    told = [
        linalg.krylov.extreme_eigenvalues(Operator.of(A), steps=1 + s % 5, generator=fresh(s))
        for s in range(seeds)
    ]
    size = float(lam.abs().max())
    sure([e.top[0] for e in told], float(lam[-1]), scale=size)
    sure([e.bottom[0] for e in told], float(lam[0]), scale=size)


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("kind", KINDS)
def test_spectrum_and_spectral_norm(kind, seeds):
    A = symmetric(kind)[:, : N - 3]
    sigma = torch.linalg.svdvals(A)
    for seed in range(seeds):
        steps = 1 + seed % 4
        s = linalg.spectra.spectrum(
            Operator.of(A), route="free", steps=steps, generator=fresh(seed)
        )
        assert bool((s.low <= sigma[: len(s.low)] + 1e-9 * sigma[0]).all())
        assert bool((s.high >= sigma[: len(s.high)] - 1e-9 * sigma[0]).all())
    norm = linalg.spectral_norm(Operator.of(A), route="free", steps=2, generator=fresh(0))
    assert norm.low <= float(sigma[0]) * (1 + 1e-9)
    assert norm.high >= float(sigma[0]) * (1 - 1e-9)


class Wide(nn.Module):
    """Many outputs, of which all, or one, or nearly none speak."""

    def __init__(self, kind: str):
        super().__init__()
        self.first, self.head = nn.Linear(4, 3), nn.Linear(3, 60)
        scale = {"gaussian": torch.ones(60), "spike": torch.full((60,), 1e-3)}.get(kind)
        scale = torch.zeros(60) if scale is None else scale
        if kind != "gaussian":
            scale[17] = 100.0
        self.register_buffer("scale", scale)

    def forward(self, x):
        return self.head(self.first(x).tanh()) * self.scale


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("kind", ["gaussian", "spike", "entry"])
def test_profile(kind, seeds):
    torch.manual_seed(3)
    model, x = Wide(kind).double(), torch.randn(2, 4).double()
    whole = {
        (r.site, r.quantity): r.estimate.value
        for r in survey.profile(model, x, views=["features"], outputs=60).readings
    }
    told = {key: [] for key in whole if key[1] != "adjoint log pseudo-determinant"}
    for seed in range(seeds):
        subject = models.Subject(model, x, outputs=1 + seed % 4, generator=fresh(seed))
        for r in survey.views.features.feature_items(subject):
            if isinstance(r, records.Reading):
                told[r.site, r.quantity].append(r.estimate)
    for key, found in told.items():
        assert len(found) == seeds
        sure(found, whole[key], scale=whole[key])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "spike"])
def test_curvature(kind):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(40, 7), nn.Tanh(), nn.Linear(7, 2)).double()  # 303 weights
    x, y = torch.randn(6, 40).double(), torch.randn(6, 2).double()
    if kind == "spike":
        x[0] *= 1000
    loss = nn.functional.mse_loss
    H = models.Subject(model, x, y, loss).curvature("hessian").operator.dense()
    lam = torch.linalg.eigvalsh((H + H.mT) / 2)
    told = [
        theory.landscape.curvature(
            model, x, targets=y, loss=loss, steps=2, samples=2, generator=fresh(seed)
        ).parts[0]
        for seed in range(40)
    ]
    size = float(lam.abs().max())
    sure([b.trace for b in told], float(lam.sum()), scale=size)
    sure([b.frobenius for b in told], float(lam.norm()), scale=size)
    sure([b.top for b in told], float(lam[-1]), scale=size)
    sure([b.bottom for b in told], float(lam[0]), scale=size)


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_step_factor(kind, seeds):
    told, true = [], []
    for seed in range(seeds):
        torch.manual_seed(seed)
        layer, x = kind(1, 5), torch.randn(8 + 8 * (seed % 2), 16, 1)
        draws = (1, 2, 8)[seed % 3]
        told.append(step_gradients(layer, x, draws=draws, generator=fresh(seed)).factor())
        true.append(step_gradients(layer, x, generator=fresh(0)).factor().value)
    ends = zip(told, true, strict=True)
    sure([replace(e, value=e.value / t, low=e.low / t, high=e.high / t) for e, t in ends], 1.0)


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("skew", [False, True])
def test_time_average(memory, skew, seeds):
    """Of a process that forgets at a known pace, in stretches of a few of its steps."""

    def told(seed):
        g = fresh(seed)
        noise = torch.randn(8, 420, generator=g, dtype=torch.float64)
        if skew:
            noise = noise.square() - 1
        found, x = [], noise[:, 0] / math.sqrt(1 - memory**2)
        for at in range(1, 420):
            x = memory * x + noise[:, at]
            found.append(x)
        length = (1, 4, 20)[seed % 3]
        kept = torch.stack(found[20 - 1 :], 1)[:, :400]
        return linalg.lyapunov.time_average(kept.unflatten(1, (-1, length)).mean(2))

    sure(map(told, range(seeds)), 0.0, scale=0.0)


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("width", [3, 6])
def test_exponents_of_products(width, seeds):
    exact = product_exponents(width)

    def told(seed):
        return LinearChain(width, math.inf, chains=8, generator=fresh(seed)).exponents(60)

    found = [told(seed) for seed in range(seeds)]
    for i, each in enumerate(exact):
        sure([f[i] for f in found], each.value)


@pytest.mark.parametrize("seeds", MANY)
@pytest.mark.parametrize("weights", ["gaussian", "uniform"])
def test_layer_growth(weights, seeds):
    M = 0.5 * torch.eye(4, dtype=torch.float64) + 0.5
    draw = lambda g, n: layer_growth(M, 0.1, weights=weights, pairs=n, generator=g)
    sure((draw(fresh(s), 200) for s in range(seeds)), draw(fresh(10**6), 100_000).value)


ROUTES = {
    "linalg.krylov.leading": test_leading,
    "linalg.random_matrix.power_law": test_power_law,
    "linalg.krylov.trace": test_trace,
    "linalg.frobenius_norm": test_frobenius_norm,
    "linalg.krylov.symmetric_moments": test_symmetric_moments,
    "linalg.krylov.moments_within": test_moments_within,
    "linalg.krylov.spectral_density": test_spectral_density,
    "linalg.krylov.extreme_eigenvalues": test_extreme_eigenvalues,
    "linalg.spectra.spectrum": test_spectrum_and_spectral_norm,
    "linalg.spectral_norm": test_spectrum_and_spectral_norm,
    "survey.profile": test_profile,
    "theory.landscape.curvature": test_curvature,
    "models.Subject": test_profile,
    "models.sequences.step_gradients": test_step_factor,
    "theory.random_chains.LinearChain": test_exponents_of_products,
    "theory.daneshmand2020.layer_growth": test_layer_growth,
}
WITHOUT = {
    **dict.fromkeys(
        [f"models.networks.{n}" for n in ("build", "mlp", "resnet", "resnet50", "vgg", "vgg19")],
        "nets",
    ),
    "theory.random_chains.random_numbers": "a source of numbers",
    "theory.random_chains.BatchNormChain": "its averages are those of `time_average`",
    "linalg.random_matrix.RandomSigns": "its alarms: tests/linalg/random_matrix/test_noise.py",
    **dict.fromkeys(
        ["linalg.measure", "linalg.measures.measure"], "routes that are here, or exact"
    ),
    "linalg.krylov.krylov_space": "a space, of which others give intervals",
    "theory.bottleneck.bottleneck": "it draws mixtures of outputs; see `inner_dimension`",
    "theory.landscape.loss_surface": "losses, each of which is exact",
    "theory.bottleneck.predict": "averages along chains: tests/linalg/test_lyapunov.py",
    "theory.bottleneck.settle": "trains",
}


def test_none_is_missing():
    drawing = {
        f"{module.__name__.removeprefix('sigmascope.')}.{name}"
        for room in (linalg, models, survey, theory)
        for module in (room, *_packages(room))
        for name in module.__all__
        if callable(thing := getattr(module, name))
        and "generator" in getattr(_signature(thing), "parameters", {})
    }
    assert drawing == set(ROUTES) | set(WITHOUT)
    assert all(test.__name__ in globals() for test in ROUTES.values())


def _packages(room):
    return [m for m in vars(room).values() if inspect.ismodule(m) and hasattr(m, "__all__")]


def _signature(thing):
    try:
        return inspect.signature(thing)
    except (TypeError, ValueError):  # some aliases of types have none
        return None


COUNTS = {
    "matrix_rank": lambda A, level: linalg.matrix_rank(linalg.spectra.spectrum(A), rtol=level),
    "soft_rank": lambda A, level: linalg.soft_rank(
        linalg.spectra.spectrum(A),
        level**2 * float(torch.linalg.matrix_norm(A.double(), 2)) ** 2 / len(A),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", COUNTS)
def test_counts_hold_the_true_one_at_a_value_within_rounding_of_the_level(count, dtype):
    """Singular values that are known, one of them at the threshold or a few roundings off."""
    for seed in range(6):
        sigma = torch.tensor([1.0, 0.5, 0.25, 2.0**-6, 2.0**-9, 0.0], dtype=torch.float64)
        order = torch.randperm(6, generator=fresh(seed))
        A = torch.zeros(9, 6, dtype=torch.float64)
        A[torch.randperm(9, generator=fresh(seed))[:6], order] = sigma  # exact in either precision
        for place in (1, 3, 4):
            for ulps in (-4, 0, 4):
                level = float(sigma[place]) * (1 + ulps * 2.0**-52)
                e = COUNTS[count](A.to(dtype), level)
                least, most = int((sigma > level).sum()), int((sigma >= level).sum())
                assert e.low <= most
                assert least <= e.high
