"""Noise of many laws, with and without directions that stick out of it."""

import math

import torch

from sigmascope.core.records import Estimate
from sigmascope.linalg.krylov import leading
from sigmascope.linalg.random_matrix import Noise, RandomSigns, noise
from sigmascope.linalg.spectra import spectrum


def _normal(g, m, n):
    return torch.randn(m, n, generator=g)


def _student(g, m, n):
    under = sum(_normal(g, m, n).square() for _ in range(5)) / 5
    return _normal(g, m, n) / under.sqrt()


LAWS = {
    "normal": _normal,
    "uniform": lambda g, m, n: torch.rand(m, n, generator=g) - 0.5,
    "signs": lambda g, m, n: torch.randint(0, 2, (m, n), generator=g) * 2.0 - 1,
    "sparse": lambda g, m, n: _normal(g, m, n) * (torch.rand(m, n, generator=g) < 0.05),
    "t(5)": _student,
    "skewed": lambda g, m, n: -torch.rand(m, n, generator=g).clamp_min(1e-9).log() - 1,
    "rows of many scales": lambda g, m, n: _normal(g, m, n) * torch.logspace(0, 1, m)[:, None],
    "some large columns": lambda g, m, n: _normal(g, m, n) * (1 + 9 * (torch.arange(n) % 40 == 0)),
    "bfloat16": lambda g, m, n: (0.02 * _normal(g, m, n)).bfloat16(),
    "float16": lambda g, m, n: (0.02 * _normal(g, m, n)).half(),
    "float8": lambda g, m, n: _normal(g, m, n).to(torch.float8_e4m3fn).float(),
}


def of(A, seed=0, *, steps=None, known=True) -> Noise:
    """The noise in a matrix: of all its values, or of the leading ones of some steps."""
    g = torch.Generator().manual_seed(seed)
    D = A.double()
    energy = Estimate.sum_of_squares(D)
    rms = math.sqrt(energy.value / D.numel())
    longest = tuple(float(torch.linalg.vector_norm(D, dim=d).max()) for d in (1, 0))
    about = {"longest": longest, "largest": float(D.abs().max())} if known else {}
    if steps is None:
        s = spectrum(A, route="exact")
    else:
        s = leading(A, energy=energy.high, steps=steps, vectors=0, generator=g).spectrum
    return noise(s, energy=energy, signs=RandomSigns(A, rms=rms, generator=g, **about))


def planted(A, strengths, seed=0):
    """`A` with directions so many times as strong as its largest singular value."""
    g = torch.Generator().manual_seed(1000 + seed)
    k = len(strengths)
    U, V = (torch.linalg.qr(torch.randn(d, k, generator=g).double())[0] for d in A.shape)
    top = torch.linalg.matrix_norm(A.double(), 2)
    return A.double() + (U * (top * torch.tensor(strengths, dtype=torch.float64))) @ V.mT
