"""Rules on the model as it stands before training: scales, units, branches, modes."""

import math
from collections.abc import Iterator

from sigmascope.diagnosis.rules.training import STUCK, Runs
from sigmascope.diagnosis.training.runs import LARGE_INPUT, OFFSET, SMALL_INPUT
from sigmascope.diagnosis.training.trials import SCALED, UNFROZEN
from sigmascope.records import Finding, Profile

LARGE_GAIN, SMALL_GAIN = 4.0, 0.02  # of most layers; He has 1.4, PyTorch's default 0.6
MOST = 0.5  # of the layers
SAME = 1e-6  # of their size, by which inputs differ that single precision hardly shows
GROWN = 1e4  # of the stream's mean square over all branches
DEEP = 16  # branches
ZERO = "gradient of a zero weight"


def weight_scale(profile: Profile) -> Iterator[Finding]:
    """Layers most of which make differences far larger, or far smaller."""
    gains = [r for r in profile.series("gain") if r.estimate.value > 0]
    for large, beyond in (
        (True, [r for r in gains if r.estimate.value > LARGE_GAIN]),
        (False, [r for r in gains if r.estimate.value < SMALL_GAIN]),
    ):
        if len(gains) < 2 or len(beyond) <= MOST * len(gains):
            continue
        middle = math.exp(sum(math.log(r.estimate.value) for r in beyond) / len(beyond))
        yield Finding(
            "weight-scale",
            beyond[0].site,
            "warning",
            tuple(beyond[:4]),
            f"{len(beyond)} of {len(gains)} layers make differences between samples {middle:.3g} "
            "times as large (root mean square; 0.6 to 1.4 is usual): their weights are too "
            f"{'large' if large else 'small'}.",
            "He et al. 2015, Sec. 2.2",
        )


def unscaled_inputs(profile: Profile) -> Iterator[Finding]:
    """Inputs whose size is far from one, an error where training breaks on them alone."""
    runs = Runs.of(profile)
    offset = {f.site for f in offset_inputs(profile) if f.severity != "note"}
    for r in profile.series("input size"):
        if r.site in offset:
            continue
        size = r.estimate.value
        if size > LARGE_INPUT or 0 < size < SMALL_INPUT:  # of zeros there is no scale
            helps = runs.better(SCALED)
            yield Finding(
                "unscaled-inputs",
                r.site,
                "error" if helps and runs.left() == math.inf else "warning",
                (r, *(runs.evidence(SCALED) if helps else ())),
                f"The inputs have root mean square {size:.3g}: learning rates and initial weights "
                f"are made for inputs near 1.{_scaled(runs) if helps else ''}",
                "LeCun et al. 1998, Sec. 4.3",
            )


def offset_inputs(profile: Profile) -> Iterator[Finding]:
    """Inputs whose mean dwarfs what tells them apart, where training without it is better."""
    runs = Runs.of(profile)
    spreads = {r.site: r for r in profile.series("input spread")}
    for r in profile.series("input size"):
        spread, size = spreads.get(r.site), r.estimate.value
        if spread is None or not SAME * size < spread.estimate.value < OFFSET * size:
            continue
        helps = runs.better(SCALED)
        yield Finding(
            "offset-inputs",
            r.site,
            "error" if helps and runs.left() >= STUCK else "warning" if helps else "note",
            (r, spread, *(runs.evidence(SCALED) if helps else ())),
            f"The inputs have root mean square {size:.3g}, and differ from their mean by "
            f"{spread.estimate.value:.3g} only: what they have in common drowns what tells them "
            f"apart.{_scaled(runs) if helps else ''}",
            "LeCun et al. 1998, Sec. 4.3",
            ("Subtract the mean of the training samples, and divide by their spread.",),
        )


def _scaled(runs: Runs) -> str:
    """What scaled inputs change of the user's run, in words."""
    left = f"{runs.left(SCALED):.0%}"
    return f" {runs.says()}; with inputs of unit size, and nothing else changed, {left} is left."


def strong_residual(profile: Profile) -> Iterator[Finding]:
    """Branches that multiply the stream at every block of a deep network."""
    found = profile.series("branch strength")
    values = [r.estimate.value for r in found]
    growth = math.exp(min(sum(math.log1p(v * v) for v in values), 700.0))
    if len(values) < DEEP or growth < GROWN:
        return
    stream = profile.series("mean square", form="samples")
    first = next((r.estimate.value for r in stream if r.estimate.value > 0), 0.0)
    last = max((r.estimate.value for r in stream), default=0.0)
    if not last > GROWN * first > 0:  # a normaliser on the stream holds it
        return
    strongest = max(found, key=lambda r: r.estimate.value)
    yield Finding(
        "strong-residual",
        found[0].site,
        "warning",
        (found[0], strongest, found[-1]),
        f"{len(values)} residual branches have up to {strongest.estimate.value:.2g} times the size "
        f"of the stream they are added to: its mean square grows {growth:.2g} times.",
        "Zhang et al. 2019, Sec. 2",
    )


def untouched_statistics(profile: Profile) -> Iterator[Finding]:
    """Batch normalisers in evaluation mode whose statistics no batch has made."""
    found = profile.series("batches seen")
    if found:
        yield Finding(
            "untouched-statistics",
            found[0].site,
            "warning",
            found[:4],
            f"{len(found)} batch normalisers are in evaluation mode with the statistics that they "
            "were built with, mean 0 and variance 1: they normalise nothing.",
            "Ioffe & Szegedy 2015, Sec. 3.1",
            ("Call `model.train()` before training, or load a checkpoint that holds statistics.",),
        )


def frozen_layers(profile: Profile) -> Iterator[Finding]:
    """Weights that are not trained: all of them, or some without which training learns less."""
    weights = profile.series("frozen entries", form="matrix")
    names = {name for layer in profile.layers for name in layer.parameters}
    if not weights:
        return
    runs = Runs.of(profile)
    trained = any(profile.series(q) for q in ("relative gradient", ZERO))
    every, helps = names <= {r.site for r in weights} and not trained, runs.better(UNFROZEN)
    says = "" if not helps else (
        f" {runs.says()}; with all of them trained, {runs.left(UNFROZEN):.0%}."
    )  # fmt: skip
    yield Finding(
        "frozen-layer",
        weights[0].site,
        "error" if every else "warning" if helps else "note",
        (*weights[:4], *(runs.evidence(UNFROZEN) if helps else ())),
        f"{len(weights)} of {len(names)} weights are frozen, the first {weights[0].site}: they do "
        f"not require gradients, and training leaves them as they are.{says}",
        "Arithmetic: what has no gradient takes no step",
        ("If that is not meant: `parameter.requires_grad_(True)`.",),
    )


def stuck_weights(profile: Profile) -> Iterator[Finding]:
    """Weights that are zero and get no gradient: zeros between zeros."""
    zero = [r for r in profile.series(ZERO) if r.estimate.value == 0 and r.form != "cut"]
    names = {name for layer in profile.layers for name in layer.parameters}
    stuck = [r for r in zero if r.site in names]
    if stuck:
        yield Finding(
            "zero-weights",
            stuck[0].site,
            "error",
            tuple(stuck[:4]),
            f"{len(stuck)} of {len(names)} weights are zero and get no gradient, the first "
            f"{stuck[0].site}: zeros before and behind keep each other there for ever.",
            "Goodfellow et al. 2016, Sec. 8.4",
            ("Start no weight at zero but the last one of a residual branch.",),
        )


def cut_weights(profile: Profile) -> Iterator[Finding]:
    """Weights that get no gradient though they are not zero: a path that is cut."""
    names = {name for layer in profile.layers for name in layer.parameters}
    moved = profile.series("relative gradient")
    # behind a weight that starts at zero, and moves, nothing is cut off for long
    apart = [r for r in moved if r.estimate.value == 0 and r.form != "behind zeros"]
    cut = [r for r in apart if r.site in names]
    whole = len(cut) == len([r for r in moved if r.site in names])
    if cut and (not whole or _learns_nothing(profile)):
        count = f"None of the {len(cut)} weights gets a" if whole else f"{len(cut)} weights get no"
        yield Finding(
            "no-gradient",
            cut[0].site,
            "error" if whole else "warning",
            tuple(cut[:4]),
            f"{count} gradient on this batch, the first {cut[0].site}: what they write does not "
            "reach the loss, is cut off from the gradient (`detach`, `no_grad`, `.data`, NumPy), "
            "or meets units that are off for every sample.",
            "Arithmetic: what has no gradient takes no step",
            ("Follow the output of this layer to the loss, and look for what cuts it off.",),
        )


def _learns_nothing(profile: Profile) -> bool:
    """Whether steps were seen to change nothing: where all fits, there is no gradient either."""
    runs = Runs.of(profile)
    return runs.steps > 0 and not runs.left() < STUCK


def denormal_values(profile: Profile) -> Iterator[Finding]:
    """Values so small that the format holds them with few digits."""
    found = profile.series("denormal entries")
    if found:
        yield Finding(
            "denormal-values",
            found[0].site,
            "warning",
            tuple(found[:4]),
            f"{found[0].site} writes {found[0].estimate.value:.0f} numbers below the smallest "
            "normal one of their format: they have few digits left, and are slow or flushed to "
            "zero.",
            "IEEE 754",
            ("Use a format with a wider range (bfloat16).",),
        )
