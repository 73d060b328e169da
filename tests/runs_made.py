"""Run files of trainings that never were."""

import math
import random

import torch

from sigmascope.core.records import Estimate, Finding, Layer, Reading, SiteSpectrum, Spectrum
from sigmascope.core.store import Run

SITES = tuple(f"blocks.{i}.mlp" for i in range(6))
HOSTILE = "</script><img src=x onerror=alert(2)>"


def reading(site, quantity, value, form=""):
    return Reading(site, quantity, Estimate.exactly(value), "watch", form)


def looks(steps, *, seed=0, apart=None, sites=SITES):
    """Readings by step: noise around a trend; the deeper half grows from step `apart` on."""
    rng = random.Random(seed)
    for step in range(steps):
        rows = [reading("(loss)", "loss", 3 * math.exp(-step / 80) + 0.02 * rng.gauss(0, 1))]
        for i, site in enumerate(sites):
            value = 0.5 * 0.9**i * math.exp(0.1 * rng.gauss(0, 1))
            if apart is not None and step >= apart and i >= len(sites) // 2:
                value *= math.exp(0.08 * (step - apart))
            rows.append(reading(site, "gradient norm", value))
        rows.append(reading("(watch)", "watched share", rng.random() / 50))
        yield step, rows


def spectrum(site, step):
    sigma = 2 * torch.exp(-torch.arange(24, dtype=torch.float64) * (0.02 + 0.001 * step))
    return SiteSpectrum(site, "watch", "matrix", Spectrum(sigma, (32, 24), "gram"))


def alarm(site, name="gradient-growth", severity="warning", evidence=()):
    return Finding(
        name,
        site,
        severity,
        tuple(evidence),
        f"The norm of the gradient of {site} doubles every 9 steps.",
        "Pascanu, Mikolov & Bengio 2013",
        ("Clip it: `torch.nn.utils.clip_grad_norm_`.",),
    )


def over(site, name="gradient-growth"):
    return Finding(f"{name}-over", site, "note", (), "It has ended.", "Pascanu 2013")


def begin(run, about=(), sites=SITES):
    layers = [Layer(site, "Linear", i) for i, site in enumerate(sites)]
    run.add(step=0, layers=layers, about={"optimizer": "AdamW", **dict(about)})


def made(path, steps=60, about=(), sites=SITES, **how):
    """A whole run: an alarm at step 20 that ends at 30, one at 40 that does not, four spectra."""
    with Run(path) as run:
        begin(run, about, sites)
        for step, rows in looks(steps, sites=sites, **how):
            found = {20: [alarm(sites[1])], 30: [over(sites[1])]}.get(step, [])
            found += [alarm(sites[4], evidence=[rows[5]])] if step == 40 else []
            spectra = [spectrum(site, step) for site in sites[:2]] if step % 16 == 0 else []
            run.add(step=step, readings=rows, findings=found, spectra=spectra)
    return path
