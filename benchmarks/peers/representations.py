"""Participation ratios, effective ranks, and what it costs to watch them in training."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from benchmarks._arms import turns
from benchmarks._watchers import LATER, PEERS
from benchmarks.peers._rows import OURS, Answer
from sigmascope import linalg
from sigmascope.linalg.spectra import spectrum
from sigmascope.models.networks import mlp

TRIES = 20


def participation() -> Iterator[Answer]:
    """Against the covariance that the samples were drawn from."""
    from ndt import participation_ratio

    g = torch.Generator().manual_seed(0)
    lam = 1.0 / torch.arange(1, 65, dtype=torch.float64)  # of the covariance
    truth = (lam.sum().square() / lam.square().sum()).item()
    batches = [torch.randn(20_000, 64, generator=g).double() * lam.sqrt() for _ in range(3)]
    ours = [linalg.participation_ratio(spectrum(b)).value for b in batches]
    theirs = [participation_ratio(b) for b in batches]
    yield Answer(
        f"participation ratio (Σλ)² / Σλ² of a covariance with eigenvalues 1/i; it is {truth:.2f}",
        "relative error, 20 000 samples",
        {OURS: abs(median(ours) / truth - 1), "ndtracker": abs(median(theirs) / truth - 1)},
        asked={OURS: "linalg.participation_ratio", "ndtracker": "participation_ratio"},
        says="ndtracker forms the ratio of singular values, not of eigenvalues of the covariance, "
        "which is another number that may be of use by itself.",
    )


def effective_ranks() -> Iterator[Answer]:
    """RankMe's bias: how much is lost with few samples, of which neither corrects."""
    g = torch.Generator().manual_seed(0)
    truth = 256.0  # directions of equal variance
    for samples in (256, 4096):
        drawn = [torch.randn(samples, 256, generator=g) for _ in range(TRIES)]
        ours = [linalg.effective_rank(spectrum(A)).value for A in drawn]
        theirs = [_rankme(A) for A in drawn]
        yield Answer(
            f"effective rank from {samples} samples of 256 equal directions",
            "bias, relative to 256",
            {OURS: median(ours) / truth - 1, "RankMe's formula": median(theirs) / truth - 1},
            asked={
                OURS: "linalg.effective_rank",
                "RankMe's formula": "Garrido et al. 2023, Eq. (1)",
            },
            says="A property of the number itself: the scan's random baseline says what noise of "
            "the same shape would give.",
        )
    low = [torch.randn(4096, 1, generator=g) @ torch.randn(1, 512, generator=g) for _ in range(5)]
    yield Answer(
        "effective rank of float32 matrices of rank one, 4096 x 512",
        "error",
        {
            OURS: median(linalg.effective_rank(spectrum(A)).value for A in low) - 1,
            "RankMe's formula": median(_rankme(A) for A in low) - 1,
        },
        asked={OURS: "linalg.effective_rank", "RankMe's formula": "with its ε of 1e-7"},
    )


def _rankme(A: Tensor) -> float:
    """`exp(-Σ p log p)`, `p = σ / Σσ + 1e-7`, as printed; no package of it is installed here."""
    sigma = torch.linalg.svdvals(A)
    p = sigma / sigma.sum() + 1e-7
    return (-(p * p.log()).sum()).exp().item()


def watching() -> Iterator[Answer]:
    """What readings at training cost, by share of the same steps without."""
    g = torch.Generator().manual_seed(0)
    model = mlp(inputs=64, outputs=10, depth=8, width=256, generator=g)
    data = [
        (torch.randn(64, 64, generator=g), torch.randint(10, (64,), generator=g)) for _ in range(16)
    ]
    chosen = {OURS: LATER["watch"]} | {k: PEERS[k] for k in ("ndtracker", "delve") if k in PEERS}
    chosen["svdvals by hand"] = PEERS["svdvals"]
    with tempfile.TemporaryDirectory() as where:
        found, same = turns(
            chosen, 3, (2, 8), model=model, data=data, steps=20, where=Path(where), count=3
        )
    cpu = {n: median(r[n][1] for turn in found for r in turn) - 1 for n in chosen}
    assert all(same.values()), same
    yield Answer(
        "watching an 8 x 256 perceptron in training, 64 rows a step",
        "processor time beyond that of the steps, as a share",
        cpu,
        asked={
            OURS: "watch(model, optimizer), its default budget",
            "ndtracker": "HighFrequencyTracker every 10 steps",
            "delve": "SaturationTracker every 10 steps",
            "svdvals by hand": "torch.linalg.svdvals of every weight, every 10 steps",
        },
        says="Not the same readings: ours measures less often where a step is short, and that is "
        "what keeps it cheap; ndtracker and delve look at activations at every tenth step.",
    )
