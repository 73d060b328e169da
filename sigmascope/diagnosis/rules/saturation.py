"""Rules on units: those at the end of their range, copies of one another, and blown up noise."""

from collections.abc import Iterator

from sigmascope.diagnosis.rules.collapse import lost_inputs, rank_collapse
from sigmascope.diagnosis.rules.setup import MOST
from sigmascope.diagnosis.rules.trends import over_depth
from sigmascope.records import Finding, Profile

SATURATED, NEARLY = 0.75, 0.5  # share of entries at an end of the range: error, warning
COPIES = 0.5  # share of units that are no copies
SILENT = 0.25  # of the samples
HIDDEN = 1e-3  # variation before batch normalisation that hides a collapse


def saturated_units(profile: Profile) -> Iterator[Finding]:
    """Squashing units most of which sit at an end of their range."""
    for r in profile.series("saturated share"):
        if r.estimate.value >= NEARLY:
            yield Finding(
                "saturated-units",
                r.site,
                "error" if r.estimate.value >= SATURATED else "warning",
                (r,),
                f"{r.estimate.value:.0%} of what {r.site} reads is within a hundredth of an end of "
                f"the range of {r.form}: these units pass nearly no derivative back.",
                "Glorot & Bengio 2010, Sec. 3",
            )
            return  # the first explains those after it


def sigmoid_stack(profile: Profile) -> Iterator[Finding]:
    """Sigmoids between most layers of a deep network without normalisation to undo them."""
    found = [r for r in profile.series("saturated share") if r.form in ("sigmoid", "hardsigmoid")]
    layers = len(profile.layers)
    explains = len(found) >= 2 and any(rank_collapse(profile))  # fewer, where samples are alike
    if (len(found) >= 4 or explains) and len(found) >= MOST * layers:
        yield Finding(
            "sigmoid-stack",
            found[0].site,
            "warning",
            (found[0],),
            f"{len(found)} of {layers} layers read what a sigmoid wrote: its slope is at most 1/4, "
            "so that derivatives shrink with every layer, and its outputs are all positive, so "
            "that samples become alike.",
            "Glorot & Bengio 2010, Sec. 3.1",
            ("Use ReLU, GELU or tanh between layers; keep the sigmoid for gates and the end.",),
        )


def silent_samples(profile: Profile) -> Iterator[Finding]:
    """Samples of which a layer passes nothing on: all of its units are off."""
    found = [r for r in over_depth(profile, "silent samples").readings[1:] if r.estimate.value > 0]
    first = next((r for r in found if r.estimate.value >= SILENT), None)
    if first is not None:
        yield Finding(
            "silent-samples",
            first.site,
            "warning",
            (first,),
            f"{first.estimate.value:.0%} of the samples reach {first.site} as zeros: all units "
            "before it are off for them, and what comes behind cannot tell them apart.",
            "Lu et al. 2019, Sec. 3",
            ("Take more units in the layer before, or an activation that is never off.",),
        )


def equal_units(profile: Profile) -> Iterator[Finding]:
    """Layers whose units are copies of one another.

    Where all samples arrive as one, equal values say nothing of units; equal rows of a matrix do.
    """
    lost = any(lost_inputs(profile))
    for r in profile.series("distinct units"):
        share, width = r.estimate.value, _width(profile, r.site)
        if share > COPIES or (lost and r.form != "matrix"):
            continue
        alone = r.form == "matrix" or (width is not None and share * width <= 1.5)
        whose = "rows" if r.form == "matrix" else "units that it reads"
        yield Finding(
            "equal-units",
            r.site,
            "error" if alone else "warning",
            (r,),
            f"{r.site}: {1 - share:.0%} of the {whose} are copies of others. Equal units get equal "
            "gradients, and stay equal.",
            "Goodfellow et al. 2016, Sec. 8.4",
        )
        return


def hidden_collapse(profile: Profile) -> Iterator[Finding]:
    """A representation that batch normalisation blows up from tiny differences."""
    ratios = {r.site: r for r in profile.series("participation ratio", form="samples")}
    layers = [layer.site for layer in profile.layers]
    for r in profile.series("written variation"):
        at = layers.index(r.site) + 1 if r.site in layers else len(layers)
        after = ratios.get(layers[at]) if at < len(layers) else None
        if r.estimate.value == 0:  # the same for all by design, as places are
            continue
        blown = after is not None and after.estimate.low > 2 and r.estimate.high < HIDDEN
        if after is not None and blown:
            yield Finding(
                "hidden-collapse",
                r.site,
                "warning",
                (r, after),
                f"What {r.site} writes differs between samples by {r.estimate.value:.2g} of its "
                f"size only; normalisation blows these differences up to a participation ratio of "
                f"{after.estimate.value:.3g}: rank that is held by little more than noise.",
                "Daneshmand et al. 2020, Sec. 2",
                (
                    "Normalise in every layer, not in some, and draw weights that are symmetric "
                    "around zero.",
                ),
            )
            return


def _width(profile: Profile, site: str) -> int | None:
    shapes = [s.spectrum.shape for s in profile.spectra if s.site == site and s.form == "channels"]
    shapes += [s.spectrum.shape for s in profile.spectra if s.site == site and s.form == "samples"]
    return shapes[0][1] if shapes else None
