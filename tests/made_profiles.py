"""A realistic profile, made up: 33 layers, of which the deeper half has collapsed."""

import math
import shutil
from dataclasses import replace
from types import MappingProxyType

import pytest
import torch

from sigmascope.core.records import (
    Assumption,
    Check,
    Estimate,
    Finding,
    Layer,
    Profile,
    Reading,
    SiteSpectrum,
    Skipped,
    Spectrum,
    Verdict,
)

CHROMIUM, DRIVER = "chromium", "chromedriver"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --window-size=1280,1000"
)
DEPTH, WIDTH, SAMPLES = 32, 128, 256
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"quoted\" & 'quoted' %{x} $\\sum$ {{x}}",
    "[bold red]markup[/bold red] :smile: [/]",
    "\x1b[31mred\x07 \u2028\u202edlrow\u200b ℓ₀ 漢字 <b>b</b>",
)


def name(i, hostile=False):
    if hostile and i < len(HOSTILE):
        return HOSTILE[i]
    return f"hidden.{i}.linear" if i < DEPTH else "readout"


def decay(i):
    """Participation ratio of what layer `i` reads: 40 at first, then towards 1."""
    return 1 + 39 * math.exp(-i / 3.2) + 0.02


def sigmas(i):
    rank = SAMPLES if i == 0 else WIDTH
    k = torch.arange(min(rank, WIDTH if i else 64), dtype=torch.float64)
    return (0.8**i) * torch.exp(-k * (0.04 + 0.012 * i)) * 60


def representation(site, i, form="samples"):
    quantities = {
        "matrix rank": max(3.0, round(128 * math.exp(-max(0, i - 8) / 9))) if i else 61.0,
        "soft rank": max(1.0, round(50 * math.exp(-i / 4))),
        "participation ratio": decay(i),
        "centred participation ratio": 1 + 39 * math.exp(-i / 9),
        "effective rank": 1.3 * decay(i),
        "mean square": 0.30 * 0.68**i,
        "dead units": 0.0 if i == 0 else min(0.9, 0.1 + 0.008 * i),
    }
    for quantity, value in quantities.items():
        estimate = Estimate.rounded(value, ulps=8, how="gram")
        one = "" if quantity == "dead units" else form  # a share of units is no matrix
        yield Reading(site, quantity, estimate, "representations", one)


def weight(site, i):
    for quantity, value in {
        "spectral norm": 1.13 + 0.01 * math.sin(i),
        "Frobenius norm": 6.5,
        "stable rank": 33 + math.cos(i),
        "effective rank": 91.0 + math.sin(3 * i),
        "condition number": 10.0 ** (2 + math.sin(i)) if i != 7 else math.inf,
    }.items():
        yield (
            Reading(
                site, quantity, Estimate.rounded(value, ulps=8, how="gram"), "weights", "matrix"
            )
            if value < math.inf
            else Reading(
                site, quantity, Estimate(1e16, 1e15, math.inf, "gram"), "weights", "matrix"
            )
        )


def feature(site, i):
    norm = 0.9 * 0.82 ** (DEPTH - i)
    yield Reading(
        site, "adjoint norm", Estimate(norm, 0.8 * norm, 1.25 * norm, "4 of 10", 0.05), "features"
    )
    yield Reading(site, "adjoint rank", Estimate.exactly(float(min(10, 3 + i))), "features")
    yield Reading(site, "adjoint log pseudo-determinant", Estimate.exactly(-40.0 + i), "features")
    yield Reading(site, "NTK trace", Estimate.exactly(norm**2 * 128 * 0.3 * 0.68**i), "features")


def check(site, i):
    return Check(
        "rank-participation",
        "Daneshmand et al. 2020, Lemma 1.1",
        "rank(H) ≥ r(H)",
        site,
        Estimate.rounded(
            max(3.0, round(128 * math.exp(-max(0, i - 8) / 9))) if i else 61.0, ulps=8, how="gram"
        ),
        Estimate.rounded(decay(i), ulps=8, how="gram"),
        "at least",
        (Assumption("H is not zero", True),),
        Verdict.HOLDS,
    )


def build(hostile=False):
    layers = tuple(
        Layer(name(i, hostile), "Linear", i, (f"{name(i, hostile)}.weight",))
        for i in range(DEPTH + 1)
    )
    readings, spectra = [], []
    for layer in layers:
        site, i = layer.site, layer.depth
        readings += [*representation(site, i), *weight(f"{site}.weight", i), *feature(site, i)]
        spectrum = Spectrum(sigmas(i), (SAMPLES, WIDTH if i else 64), "gram")
        spectra.append(SiteSpectrum(site, "representations", "samples", spectrum))
        w = torch.linspace(1.13, 0.004, WIDTH, dtype=torch.float64)
        spectra.append(
            SiteSpectrum(f"{site}.weight", "weights", "matrix", Spectrum(w, (WIDTH, WIDTH), "gram"))
        )
    readings += representation("(output)", DEPTH + 1)
    last = layers[-1].site
    readings.append(Reading(last, "minimum |cos|", Estimate.exactly(0.9991), "gradients"))
    readings.append(Reading(last, "mean |cos|", Estimate.exactly(0.99993), "gradients"))
    checks = [check(layer.site, layer.depth) for layer in layers]
    checks.append(
        Check(
            "gradient-collinearity",
            "Daneshmand et al. 2020, Prop. 19",
            "min |cos(g_i, g_j)| ≥ 1 - ε",
            last,
            Estimate.exactly(0.9991),
            Estimate.exactly(0.99),
            "at least",
            (Assumption("the loss is cross-entropy", None), Assumption("no bias", False)),
            Verdict.INAPPLICABLE,
        )
    )
    return Profile(
        tuple(readings),
        tuple(checks),
        (
            Skipped("embedding", "representations", "it reads integers, which have no spectrum"),
            Skipped("readout", "curvature", "not asked for: views=('representations', ...)"),
        ),
        layers,
        tuple(spectra),
        MappingProxyType(
            {
                "model": "mlp?depth=32&width=128&norm=none",
                "batch": "256 samples of digits",
                "mode": "eval",
                "output": "logits [256, 10]",
                "parameters": "530,954",
                "seconds": "1.84",
                "torch": "2.13.0+cpu",
            }
        ),
    )


def collapse(profile):
    def at(depth, quantity):
        site = profile.layers[depth].site
        return next(r for r in profile.readings if r.site == site and r.quantity == quantity)

    return (
        Finding(
            "rank-collapse",
            profile.layers[9].site,
            "error",
            (at(9, "participation ratio"), at(32, "participation ratio"), at(0, "matrix rank")),
            f"From {profile.layers[9].site} on, all samples point in nearly one direction: the "
            "participation ratio falls from 40 to 1.02, by 27 % a layer.",
            "Daneshmand et al. 2020, Theorem 2",
            (
                "Put BatchNorm before each activation: `sigmascope remedy m.py --apply bn`.",
                "Or use fewer than 9 layers.",
            ),
        ),
        Finding(
            "vanishing-adjoints",
            profile.layers[2].site,
            "warning",
            (at(2, "adjoint norm"), at(32, "adjoint norm")),
            "The derivative of the output shrinks by 18 % a layer towards the input.",
            "Daneshmand et al. 2020, Sec. 3",
            ("Use He initialisation.",),
        ),
        Finding(
            "dead-units",
            profile.layers[20].site,
            "note",
            (at(20, "dead units"),),
            "A quarter of the units never fire on this batch.",
            "—",
            (),
        ),
    )


@pytest.fixture(scope="session")
def profile():
    return build()


@pytest.fixture(scope="session")
def findings(profile):
    return collapse(profile)


@pytest.fixture(scope="session")
def hostile():
    return build(hostile=True)


@pytest.fixture(scope="session")
def hostile_findings(hostile):
    site = hostile.layers[0].site
    finding = collapse(hostile)[0]
    return (
        Finding(
            finding.name,
            site,
            finding.severity,
            (hostile.readings[2], *finding.evidence[1:]),
            f"The layer {site} collapses.",
            "</script><script>alert(3)</script>",
            ("<img src=x onerror=alert(4)>",),
        ),
    )


def training():
    """At a rate that is too low, beside ten times it and a hundred times it, which breaks."""
    for form, quantity, value in (
        ("as planned", "steps tried", 40.0),
        ("as planned", "planned steps", 400.0),
        ("as planned", "rate", 1e-4),
        ("as planned", "loss left", 0.98),
        ("rate x 10", "rate", 1e-3),
        ("rate x 10", "loss left", 0.31),
        ("rate x 10", "loss left by then", 0.99),
        ("rate x 100", "broke at step", 7.0),
        ("as planned", "score", 0.25),
        ("as planned", "probability at your settings", 0.02),
    ):
        yield Reading("(training)", quantity, Estimate.exactly(value), "training", form)


@pytest.fixture(scope="session")
def trained(profile):
    """The same, with what was seen of training and both probabilities."""
    usual = Reading("(model)", "probability of fitting", Estimate.exactly(0.8), "setup")
    about = MappingProxyType({**profile.about, "training": "sgd at 0.0001, batches of 32"})
    return replace(profile, readings=(*profile.readings, usual, *training()), about=about)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Of a module: one that waits through the other tests takes twice the time of its own."""
    if not (shutil.which(CHROMIUM) and shutil.which(DRIVER)):
        pytest.skip("chromium and chromedriver are not installed: apt-get install chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which(CHROMIUM)
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which(DRIVER)))
    # a window behind others is sent no focus and no blur
    driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    yield driver
    driver.quit()
