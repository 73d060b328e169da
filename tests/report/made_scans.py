"""Scans as they could come, made up without measuring anything."""

import math

import torch

from sigmascope.core.quantities import SCAN
from sigmascope.core.records import (
    Estimate,
    Finding,
    Matrix,
    Reading,
    Scan,
    ScanPlan,
    SiteSpectrum,
    Skipped,
    Spectrum,
)

KINDS = {
    "attention query": (256, 256),
    "attention key": (64, 256),
    "attention value": (64, 256),
    "attention output": (256, 256),
    "feed-forward in": (1024, 256),
    "feed-forward out": (256, 1024),
}
ODD = "blocks.5.attention_query.weight"  # three times as large as its neighbours
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\x1b[31mred\x07\x00 \u2028\u202edlrow\u200b ℓ₀ 漢字",
    "[bold red]markup[/] → \"quoted\" & 'quoted' ${data} = b",
    "__proto__",
)


def matrices(blocks, *, scale=1, hostile=False):
    """An embedding, the matrices of each block, and a readout."""
    found = [_matrix("embed.weight", "embedding", -1, (512 * scale, 256 * scale))]
    for depth in range(blocks):
        for kind, (rows, cols) in KINDS.items():
            site = f"blocks.{depth}.{kind.replace(' ', '_').replace('-', '_')}.weight"
            found.append(_matrix(site, kind, depth, (rows * scale, cols * scale)))
    found.append(_matrix("head.weight", "readout", -1, (512 * scale, 256 * scale)))
    if hostile:
        for i, name in enumerate(HOSTILE):
            found[i + 1] = _matrix(name, name if i < 2 else found[i + 1].kind, 0, (64, 32))
    return tuple(found)


def _matrix(site, kind, depth, shape):
    rows, cols = shape
    work = float(rows * cols * min(shape))
    return Matrix(site, kind, depth, rows, cols, "bfloat16", (site,), 2 * rows * cols, "full", work)


def plan(blocks=12, **more):
    made = matrices(blocks, **more)
    norms = [Skipped(f"blocks.{i}.norm.weight", "tensor", "it is a vector") for i in range(blocks)]
    left = (*norms, Skipped("rotary.inv_freq", "tensor", "it is a buffer, not a weight"))
    return ScanPlan(
        "model.safetensors",
        made,
        left,
        tensors=len(made) + len(left),
        bytes=sum(m.bytes for m in made),
        seconds=260.0,
        memory=1_300_000_000,
        workers=2,
        about={"format": "safetensors", "torch": "2.13.0+cpu"},
    )


def sigma(matrix, i):
    """A Marchenko-Pastur bulk with three spikes, by quantiles."""
    m, n = sorted(matrix.shape)
    q, s = m / n, 0.02 * (1 + 0.2 * math.sin(i))
    x = torch.linspace(0, 1, 400, dtype=torch.float64)[1:-1]
    low, high = (1 - q**0.5) ** 2, (1 + q**0.5) ** 2
    x = low + (high - low) * x
    mass = ((high - x) * (x - low)).sqrt() / x
    cumulated = mass.cumsum(0) / mass.sum()
    at = (torch.arange(m, dtype=torch.float64) + 0.5) / m
    lam = x[torch.searchsorted(cumulated, at).clamp(max=len(x) - 1)]
    values = s * (n * lam).sqrt()
    values[-3:] = values.max() * torch.tensor([1.5, 2.2, 4.0], dtype=torch.float64)
    return values.flip(0), s, s * math.sqrt(n) * (1 + q**0.5)


def readings_of(matrix, i):
    values, s, edge = sigma(matrix, i)
    top, squares = values[0].item(), values.square()
    share = values / values.sum()
    odd = 3.0 if matrix.site == ODD else 1.0
    energy = squares.sum().item()
    exact = {
        "spectral norm": odd * top,
        "Frobenius norm": odd * math.sqrt(energy),
        "stable rank": energy / top**2,
        "effective rank": math.exp(-(share * share.log()).sum().item()),
        "participation ratio": energy**2 / squares.square().sum().item(),
        "matrix rank": float(len(values)),
        "condition number": top / values[-1].item(),
        "spectral entropy": 0.93,
        "energy rank": round(0.8 * len(values)),
        "noise distance": 0.01 + 0.001 * (i % 7),
        "noise edge": odd * edge,
        "random baseline": odd * edge * 0.98,
        "spikes": 3.0,
        "spike energy": 0.11,
        "power-law p-value": 0.4 if i % 3 else 0.01,
        "largest entry": 5.0 + math.sin(i),
        "zero rows": 0.0,
        "zero columns": 0.0,
        "zero entries": 0.001 * (i % 5),
        "saturated entries": 0.0,
        "subnormal entries": 0.0,
    }
    for name, value in exact.items():
        estimate = Estimate.rounded(value, ulps=8, how="gram")
        yield Reading(matrix.site, name, estimate, SCAN, matrix.form)
    wide = {"noise level": odd * s} | ({"power-law exponent": 3.1 + math.sin(i)} if i % 3 else {})
    for name, value in wide.items():
        estimate = Estimate(value, 0.95 * value, 1.1 * value, "maximum likelihood", 0.05)
        yield Reading(matrix.site, name, estimate, SCAN, matrix.form)


def changes_of(matrix, i):
    """As against an earlier version: later blocks moved more."""
    far = 0.01 * (2 + max(0, matrix.depth)) * (1 + 0.3 * math.sin(i))
    for name, value in {
        "relative change": far,
        "best scale": 1.0 + far / 7,
        "turned change": 0.9 * far,
        "change norm": far,
        "change stable rank": 12.0,
        "change spikes": float(i % 4),
        "largest angle": min(1.5, 5 * far),
        "intruders": float(i % 9 == 0),
        "change size": 3 * far,
        "spectral change": far / 2,
        "change rank": float(8 + i % 5),
        "change by rounding": 1e-3,
        "change in top eighth": 0.6,
    }.items():
        yield Reading(matrix.site, name, Estimate.exactly(value), SCAN, "matrix")
    inside = Estimate(0.02, 0.01, 0.03, "leading directions", 1e-6)
    yield Reading(matrix.site, "change in leading directions", inside, SCAN, "10 directions")


def meetings(found):
    """What was read of two matrices: neighbours that meet, and a copy."""
    for a, b in zip(found[:-1:9], found[1::9], strict=False):
        site = f"{a.site} → {b.site}"
        for name, value in (("alignment", 0.12), ("unit imbalance", 0.4)):
            yield Reading(site, name, Estimate.rounded(value, ulps=8, how="exact"), SCAN)
    copy = Estimate.exactly(0.999)
    yield Reading(f"{found[0].site} = {found[-1].site}", "copy cosine", copy, SCAN)


def scan(blocks=12, *, against=False, **more):
    """A scan of everything that `plan` has."""
    planned = plan(blocks, **more)
    readings, spectra, skipped = [], [], []
    for i, matrix in enumerate(planned.matrices):
        readings += readings_of(matrix, i)
        readings += changes_of(matrix, i) if against else ()
        values = sigma(matrix, i)[0] * (3.0 if matrix.site == ODD else 1.0)
        kept = Spectrum(values, matrix.shape, "gram")
        spectra.append(SiteSpectrum(matrix.site, SCAN, matrix.form, kept))
        if i % 3 == 0:
            why = "the fit is rejected: p-value 0.01 is below 0.1"
            skipped.append(Skipped(matrix.site, "power-law exponent", why))
    readings += meetings(planned.matrices)
    about = {"seconds": "131.7", "workers": "2", "sigmascope": "0.1"}
    return Scan(planned, tuple(readings), tuple(spectra), tuple(skipped), about)


def findings(scan):
    """One of each severity: of a matrix, of two that meet, and of the whole."""
    at = {m.site: i for i, m in enumerate(scan.matrices)}
    norm = next(r for r in scan.readings if r.site == ODD) if ODD in at else scan.readings[0]
    pair = next(r for r in scan.readings if " → " in r.site and r.site not in at)
    return (
        Finding(
            "outlying-norm",
            norm.site,
            "error",
            (norm,),
            f"{norm.site} is three times as large as its neighbours.",
            "Golub & Van Loan 2013, Sec. 2.3.3",
            ("Look at `blocks.5`.",),
        ),
        Finding("unbalanced", pair.site, "warning", (pair,), "It is lopsided.", "Le 2022", ()),
        Finding("old-format", "", "note", (), "The file is old.", "–", (), "outlying-norm"),
    )
