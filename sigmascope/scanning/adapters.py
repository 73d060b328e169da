"""Changes of low rank, `B A`, by their factors."""

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.linalg import schatten_norm
from sigmascope.linalg.krylov import tamed
from sigmascope.records import Estimate, Item, SiteSpectrum, Spectrum
from sigmascope.scanning.measuring import Measured, of_whole, told
from sigmascope.scanning.noises import NOISE, TAIL
from sigmascope.scanning.tasks import Product, Task, read, skip
from sigmascope.scanning.units import in_unit

EPS = 2.0**-52
ENTRIES = "mean shift, largest entry, longest row, longest column"


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
        found: list[Item] = [read(matrix, q.NON_FINITE_ENTRIES, Estimate.exactly(odd))]
        found.append(skip(matrix, "all else", "its factors are not finite"))
        return told(task, found)
    (B, left), (A, right) = tamed(B), tamed(A)
    s = _spectrum(B, A, product.scaling)
    found = [SiteSpectrum(matrix.site, q.SCAN, matrix.form, s)]
    found.append(read(matrix, q.SPECTRAL_NORM, schatten_norm(s, float("inf"))))
    found.append(read(matrix, q.FROBENIUS_NORM, schatten_norm(s, 2.0)))
    if float(s.sigma[0]) == 0:
        found.append(skip(matrix, "all else", "it is exactly zero, as before training"))
        return told(task, found)
    found += of_whole(s, matrix)
    found.append(skip(matrix, ", ".join((*NOISE, *TAIL)), "a product of low rank: no bulk"))
    found.append(skip(matrix, ENTRIES, "the product of its factors is never formed"))
    return told(task, [in_unit(item, left + right) for item in found])


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
