from types import MappingProxyType

import pytest
import torch

from sigmascope.core.records import (
    Assumption,
    Check,
    Estimate,
    Fact,
    Finding,
    Layer,
    Profile,
    Reading,
    SiteSpectrum,
    Skipped,
    Spectrum,
    Verdict,
)
from sigmascope.core.store import Run
from tests.core.store.one_reading import READING

HOSTILE = "a'; DROP TABLE readings;--\n\x00<script>\u2028ℓ₀"


@pytest.fixture
def readings():
    sharp = Estimate.exactly(1 / 3)
    open_above = Estimate(2.5, 1e-300, float("inf"), "golub-kahan(steps=64)", 1e-9)
    return (
        Reading("blocks.0", "participation ratio", sharp, "representations", "samples"),
        Reading(HOSTILE, "condition number", open_above, "weights", "matrix"),
    )


@pytest.fixture
def profile(readings):
    sigma = torch.tensor([3.0, 1.0, 1e-320], dtype=torch.float64)
    spectrum = Spectrum(sigma, (5, 3), "free", sigma, sigma * 2, 1e-3)
    plain = Spectrum(torch.zeros(0, dtype=torch.float64), (2, 2), "exact")
    check = Check(
        "rank-participation",
        "Daneshmand et al. 2020, Lemma 1.1",
        "rank(H) ≥ r(H)",
        "blocks.0",
        Estimate.exactly(64.0),
        Estimate.rounded(12.0, ulps=4),
        "at least",
        (Assumption("H is not zero", True), Assumption("cannot be told", None)),
        Verdict.HOLDS,
    )
    return Profile(
        readings=readings,
        checks=(check,),
        skipped=(Skipped("head", "weights", "lazily initialised"),),
        layers=(Layer("blocks.0", "Linear", 0, ("blocks.0.weight", "blocks.0.bias")),),
        spectra=(
            SiteSpectrum("blocks.0", "representations", "samples", spectrum),
            SiteSpectrum(HOSTILE, "weights", "matrix", plain),
        ),
        about=MappingProxyType({"model": "mlp", "torch": "2.13"}),
        facts=(Fact("(output)", "last operation", "setup", HOSTILE),),
    )


@pytest.fixture
def findings(readings):
    return (
        Finding(
            "rank-collapse",
            "blocks.0",
            "error",
            readings,
            "It collapses.",
            "Daneshmand et al. 2020",
            ("Add BatchNorm.", "Use fewer layers."),
            facts=(Fact("(loss)", "unbounded loss", "setup"),),
        ),
    )


@pytest.fixture
def path(tmp_path):
    with Run(tmp_path / "a.run") as run:
        run.add(step=0, readings=[READING])
    return tmp_path / "a.run"
