"""Norms of convolutions, exponents of power laws, and what a scan of a trained model costs."""

import contextlib
import io
import logging
import math
import warnings
from collections.abc import Iterator
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import sigmascope as ss
from benchmarks._shipped import shipped
from benchmarks.peers._rows import OURS, Answer, processor_times, ratios
from sigmascope import linalg
from sigmascope.models import convolution_operator
from sigmascope.scanning import scan

WATCHER = "WeightWatcher"
GRID = (8, 8)
MATRICES = 40
ALIKE = (  # what `analyze()` says without options
    "spectral norm",
    "Frobenius norm",
    "stable rank",
    "matrix rank",
    "effective rank",
    "power-law exponent",
    "power-law p-value",
)


def analyzed(model: nn.Module, **options: bool) -> list[dict]:
    """WeightWatcher's table of a model, a row for each layer."""
    import weightwatcher

    logging.disable(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return weightwatcher.WeightWatcher(model=model).analyze(**options).to_dict("records")


def convolutions() -> Iterator[Answer]:
    """How far the spectral norm of a convolution is from that of the matrix that it is."""
    g = torch.Generator().manual_seed(0)
    layers = [nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1, stride=2)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.1, generator=g)
    model = nn.Sequential(
        layers[0], nn.ReLU(), layers[1], nn.ReLU(), nn.Flatten(), nn.Linear(256, 4)
    )
    truths = [torch.linalg.matrix_norm(_written_out(c), 2).item() for c in layers]
    profile = ss.profile(model, torch.randn(4, 8, *GRID, generator=g), views=["weights"])
    periodic = [r.estimate.value for r in profile.series("spectral norm") if r.form == "operator"]
    exact = [linalg.spectral_norm(convolution_operator(c, grid=GRID)).value for c in layers]
    found = {
        OURS: periodic,
        f"{OURS}, own padding": exact,
        WATCHER: [math.sqrt(r["spectral_norm"]) for r in analyzed(model)],
        f"{WATCHER}, conv2d_fft": [
            math.sqrt(r["spectral_norm"]) for r in analyzed(model, conv2d_fft=True)
        ],
    }
    yield Answer(
        "spectral norm of two convolutions on 8 x 8 images, against the matrix written out",
        "largest relative error",
        {
            who: max(abs(a / b - 1) for a, b in zip(v, truths, strict=False))
            for who, v in found.items()
        },
        asked={
            OURS: "profile, views=weights (periodic images)",
            f"{OURS}, own padding": "linalg.spectral_norm(convolution_operator)",
            WATCHER: "root of analyze()'s spectral_norm",
            f"{WATCHER}, conv2d_fft": "the same with conv2d_fft=True",
        },
        says="WeightWatcher cuts kernels into matrices, one for each place, and scales them for "
        "its fits; its Fourier transform is not normalised.",
    )


def _written_out(c: nn.Conv2d) -> Tensor:
    size = c.in_channels * math.prod(GRID)
    unit = torch.eye(size, dtype=torch.float64).reshape(size, c.in_channels, *GRID)
    written = F.conv2d(unit, c.weight.detach().double(), stride=c.stride, padding=c.padding)
    return written.flatten(1).T


def power_laws() -> Iterator[Answer]:
    """Exponents of noise, where there are none, and of tails whose exponent is known."""
    g = torch.Generator().manual_seed(0)
    noise = [torch.randn(256, 256, generator=g) / 16 for _ in range(MATRICES)]
    theirs = [r for r in _of_matrices(noise) if r["status"] == "success"]
    ours = sum(bool(scan({"a.weight": W}).series("power-law exponent")) for W in noise)
    yield Answer(
        f"{MATRICES} matrices of Gaussian noise, 256 x 256: exponents of a power law reported",
        "share of the matrices",
        {OURS: ours / MATRICES, WATCHER: len(theirs) / MATRICES},
        asked={OURS: "scan", WATCHER: "analyze()"},
        says=f"WeightWatcher calls {sum(not r['warning'] for r in theirs)} of these {MATRICES} "
        "layers neither over- nor under-trained; its options mp_fit and randomize compare with "
        "noise, and were not used.",
    )
    tails = [_tailed(2.5, g) for _ in range(MATRICES // 2)]
    ours_found = [
        s[0].estimate.value
        for W in tails
        if (s := scan({"a.weight": W}).series("power-law exponent"))
    ]
    found = {OURS: ours_found, WATCHER: [r["alpha"] for r in _of_matrices(tails)]}
    yield Answer(
        f"{MATRICES // 2} matrices, squared singular values from a power law of exponent 2.5",
        "median error of the exponents reported",
        {who: median(abs(a - 2.5) for a in values) for who, values in found.items()},
        asked={OURS: "scan", WATCHER: "analyze()"},
        says=f"Reported for {len(ours_found)} and {len(found[WATCHER])} of {len(tails)} matrices.",
    )


def _tailed(exponent: float, g: torch.Generator) -> Tensor:
    """A square matrix with random singular vectors and Pareto squared singular values."""
    U, V = (torch.linalg.qr(torch.randn(256, 256, generator=g))[0] for _ in range(2))
    lam = torch.rand(256, generator=g) ** (-1 / (exponent - 1))
    return U * lam.sqrt() @ V.T / 16


def _of_matrices(matrices: list[Tensor]) -> list[dict]:
    layers = [nn.Linear(*W.shape[::-1], bias=False) for W in matrices]
    with torch.no_grad():
        for layer, W in zip(layers, matrices, strict=True):
            layer.weight.copy_(W)
    return analyzed(nn.Sequential(*layers))


def scans() -> Iterator[Answer]:
    """Processor time for all weights of a trained sentence encoder of 22 million parameters."""
    from transformers import AutoModel

    file = shipped()
    model = AutoModel.from_pretrained(file.parent)
    seconds = processor_times(
        {
            OURS: lambda: scan(file, quantities=ALIKE),
            f"{OURS}, every quantity": lambda: scan(file),
            f"{OURS}, without power laws": lambda: scan(file, quantities=ALIKE[:-2]),
            WATCHER: lambda: analyzed(model),
        },
        rounds=3,
    )
    yield Answer(
        "norms, ranks and exponents of all weights of a sentence encoder (all-MiniLM-L6-v2)",
        "processor time over ours",
        ratios(seconds),
        aim=None,
        asked={OURS: "scan, quantities as analyze() has", WATCHER: "analyze()"},
        says=f"Ours takes {seconds[OURS]:.1f} s, read from the file; theirs has the model loaded. "
        "Two thirds of ours goes into the singular values.",
        beside=(f"{OURS}, without power laws",),
    )
