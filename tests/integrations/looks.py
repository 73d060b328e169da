"""Looks that are hard to name."""

import math

import torch

from sigmascope.core.records import Estimate, Finding, Reading, SiteSpectrum, Skipped, Spectrum
from sigmascope.watching import LOSS, OVER, WHOLE, Look


def reading(site, quantity, value, form=""):
    return Reading(site, quantity, Estimate.exactly(value), "watch", form)


def finding(name, site):
    evidence = (reading(LOSS, "loss", 3.0),)
    return Finding(
        name, site, "warning", evidence, f"{name} at {site}.", "Pascanu 2013", ("Rest.",)
    )


READINGS = (
    reading(LOSS, "loss", 2.5),
    reading("blocks.3.linear", "gradient norm", 0.25),
    reading("blocks.3.linear#2", "gradient norm", 0.5),
    reading('odd/name, "quoted"', "gradient norm", 1.0),
    reading("matrix", "spectral norm", 4.0),
    reading("a", "spectral norm", 5.0, "matrix"),
    reading(WHOLE, "gradient norm", math.inf),
    reading("loss", "loss", 7.0),
)
SPECTRA = (
    SiteSpectrum(
        "a", "watch", "matrix", Spectrum(torch.arange(8.0).flip(0).double(), (8, 9), "exact")
    ),
)


def look(step, *, findings=(), readings=READINGS):
    return Look(step, readings, SPECTRA, findings, (Skipped("a", "ntk", "the budget is spent"),))


BEGINS = look(3, findings=(finding("rank-collapse", "blocks.3"),))
ENDS = look(9, findings=(finding(f"rank-collapse{OVER}", "blocks.3"),))
