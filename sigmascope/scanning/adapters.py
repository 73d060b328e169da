"""Changes of low rank, `B A`, by their factors."""

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg import schatten_norm, stable_rank
from sigmascope.quantities import SCAN
from sigmascope.records import Estimate, Item, Reading, SiteSpectrum, Skipped, Spectrum
from sigmascope.scanning.measuring import WHOLE, Measured
from sigmascope.scanning.tasks import Product, Task

EPS = 2.0**-52


def measure_product(task: Task, product: Product) -> Measured:
    """Norms and ranks of a product, from the triangular factors of both sides.

    Args:
        task: What is known of it.
        product: Its factors.
    """
    B, A = product.left.read().double(), product.right.read().double()
    matrix = task.matrix
    if not (bool(B.isfinite().all()) and bool(A.isfinite().all())):
        odd = float((~B.isfinite()).sum() + (~A.isfinite()).sum())
        found: list[Item] = [_read(task, "non-finite entries", Estimate.exactly(odd))]
        found.append(Skipped(matrix.site, "singular values", "its factors are not finite"))
        return _told(task, found)
    s = _spectrum(B, A, product.scaling)
    found = [SiteSpectrum(matrix.site, SCAN, matrix.form, s)]
    found.append(_read(task, "spectral norm", schatten_norm(s, float("inf"))))
    found.append(_read(task, "Frobenius norm", schatten_norm(s, 2.0)))
    if float(s.sigma[0]) == 0:
        found.append(Skipped(matrix.site, "ranks", "it is exactly zero, as before training"))
        return _told(task, found)
    found.append(_read(task, "stable rank", stable_rank(s)))
    found += [_read(task, name, of(s)) for name, of in WHOLE.items()]
    found.append(Skipped(matrix.site, "noise", "a product of low rank has no bulk"))
    return _told(task, found)


def _spectrum(B: Tensor, A: Tensor, scaling: float) -> Spectrum:
    """All singular values; those beyond the inner dimension are exactly zero."""
    left = torch.linalg.qr(B, mode="r")[1]
    right = torch.linalg.qr(A.mT, mode="r")[1]
    inner = scaling * torch.linalg.svdvals(left @ right.mT)
    shape = (B.shape[0], A.shape[1])
    size = float(torch.linalg.matrix_norm(left, 2) * torch.linalg.matrix_norm(right, 2))
    slack = 8 * max(*shape, 16) * EPS * abs(scaling) * size  # of both factorisations
    count = min(shape)
    sigma: Float64[Tensor, " r"] = torch.zeros(count, dtype=torch.float64)
    kept = min(len(inner), count)
    sigma[:kept] = inner.abs()[:kept]
    low, high = (sigma - slack).clamp_min(0), sigma.clone()
    high[:kept] += slack
    return Spectrum(sigma, shape, "exact, of the factors", low, high)


def _read(task: Task, name: str, estimate: Estimate) -> Reading:
    return Reading(task.matrix.site, name, estimate, SCAN, task.matrix.form)


def _told(task: Task, found: list[Item]) -> Measured:
    spectra = [item for item in found if isinstance(item, SiteSpectrum)]
    return Measured(
        task.index,
        tuple(r for r in found if isinstance(r, Reading) and r.quantity in task.wanted),
        spectra[0] if spectra and task.spectra else None,
        tuple(item for item in found if isinstance(item, Skipped)),
        None,
    )
