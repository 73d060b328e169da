"""Rules on the weights and on how layers are put together."""

import math
from collections.abc import Iterator

from sigmascope.core import quantities as q
from sigmascope.core.records import Finding, Kind, Profile, rule
from sigmascope.diagnosis.rules.gradients import NO_GRADIENT, NO_TANGENTS, ZERO
from sigmascope.diagnosis.rules.representations import (
    COLLAPSE,
    DEAD_UNITS,
    DENORMAL_VALUES,
    LAYER_GAIN,
    LOST_INPUTS,
    LOUD_OUTPUT,
    NON_FINITE,
    SATURATED_UNITS,
    SIZES,
    lost_inputs,
)
from sigmascope.diagnosis.rules.theorems import UNALIGNED_LAYERS
from sigmascope.diagnosis.rules.training import UNFROZEN, RunsTold, trains
from sigmascope.diagnosis.rules.trends import MOST, over_depth
from sigmascope.diagnosis.trainability.model import EVEN, probability
from sigmascope.survey.views.zeros import BEHIND_ZEROS

SOME = 0.2  # of the layers, that must follow another without an activation
LARGE_GAIN, SMALL_GAIN = 4.0, 0.02  # of most layers; He has 1.4, PyTorch's default 0.6
SHIFTED = 2.0  # the mean's singular value over the largest that the spread would give
GROWN = 1e4  # of the stream's mean square over all branches
DEEP = 16  # branches
GOODFELLOW = "Goodfellow et al. 2016, Sec. 6.1"
FEWEST = 3  # layers, so that the products of their means are what the network computes
COPIES = 0.5  # share of units that are no copies


LINEAR_LAYERS = Kind(
    "linear-layers",
    "more than a fifth of the layers read what another wrote, number by number, with nothing or "
    "batch normalisation between, and the place between is not narrower than what goes in and "
    "comes out. Embeddings and grouped convolutions are left out",
    "Baldi & Hornik 1989, Sec. 2",
)


@rule("setup", LINEAR_LAYERS)
def linear_layers(profile: Profile) -> Iterator[Finding]:
    """Layers that make one linear map together, where it is more than one pair of many."""
    pairs = [r for r in profile.series(q.SPARE_WIDTH) if r.estimate.value >= 1]
    if len(pairs) > SOME * len(profile.layers):
        first = pairs[0].form.removeprefix("after ")
        yield LINEAR_LAYERS.finding(
            pairs[0].site,
            "warning",
            tuple(pairs[:4]),
            f"{pairs[0].site} reads what {first} wrote with no activation between, and the place "
            "between them is not narrow"
            + (f" ({len(pairs)} such pairs)" if len(pairs) > 1 else "")
            + ": together they are one linear map, and one layer could compute the same.",
            ("Put an activation between them (ReLU, GELU), or make one layer of the two.",),
        )


FROZEN_LAYER = Kind(
    "frozen-layer",
    "a weight does not require gradients: a note, as of a base that is adapted; a warning where a "
    "copy in which all are trained learns and yours does not; an error if none is trained",
    "Arithmetic: what has no gradient takes no step",
    proven=True,
    brings=(UNALIGNED_LAYERS,),
)


@rule("setup", FROZEN_LAYER)
def frozen_layers(profile: Profile) -> Iterator[Finding]:
    """Weights that are not trained: all of them, or some without which training learns less."""
    weights = profile.series(q.FROZEN_ENTRIES, form="matrix")
    names = {name for layer in profile.layers for name in layer.parameters}
    if not weights:
        return
    runs = RunsTold.of(profile)
    trained = any(profile.series(name) for name in (q.RELATIVE_GRADIENT, ZERO))
    every, helps = names <= {r.site for r in weights} and not trained, runs.better(UNFROZEN)
    says = "" if not helps else (
        f" {runs.says()}; with all of them trained, {runs.left(UNFROZEN):.0%}."
    )  # fmt: skip
    yield FROZEN_LAYER.finding(
        weights[0].site,
        "error" if every else "warning" if helps else "note",
        (*weights[:4], *(runs.evidence(UNFROZEN) if helps else ())),
        f"{len(weights)} of {len(names)} weights are frozen, the first {weights[0].site}: they do "
        f"not require gradients, and training leaves them as they are.{says}",
        ("If that is not meant: `parameter.requires_grad_(True)`.",),
    )


LINEAR_NETWORK = Kind(
    "linear-network",
    "all layers together are one affine map, by the operations of a run, none of which is off the "
    "tape of gradients (a warning where the probability of fitting is below one half and training "
    "was not seen to work, else a note)",
    GOODFELLOW,
    brings=(LINEAR_LAYERS,),
)


@rule("setup", LINEAR_NETWORK)
def linear_network(profile: Profile) -> Iterator[Finding]:
    """Several layers that compute an affine function of the inputs."""
    chance = probability(profile)
    doubtful = chance is not None and chance.estimate.value < EVEN and not trains(profile)
    for fact in (f for f in profile.facts if f.quantity == q.AFFINE_NETWORK):
        yield LINEAR_NETWORK.finding(
            fact.site,
            "warning" if doubtful else "note",
            (fact,),
            f"All {len(profile.layers)} layers together are one linear map: there is no activation "
            "between them, and more layers can do no more than one.",
            ("Put an activation behind every layer but the last, as `nn.ReLU()`.",),
        )


WEIGHT_SCALE = Kind(
    "weight-scale",
    "more than half of the layers enlarge differences more than 4 times, or less than 0.02 times",
    "He et al. 2015, Sec. 2.2",
    brings=(
        *SIZES,
        *COLLAPSE,
        LAYER_GAIN,
        LOUD_OUTPUT,
        SATURATED_UNITS,
        DEAD_UNITS,
        NON_FINITE,
        DENORMAL_VALUES,
        NO_GRADIENT,
        UNALIGNED_LAYERS,
    ),
)


@rule("setup", WEIGHT_SCALE)
def weight_scale(profile: Profile) -> Iterator[Finding]:
    """Layers most of which make differences far larger, or far smaller."""
    gains = [r for r in profile.series(q.GAIN) if r.estimate.value > 0]
    for large, beyond in (
        (True, [r for r in gains if r.estimate.value > LARGE_GAIN]),
        (False, [r for r in gains if r.estimate.value < SMALL_GAIN]),
    ):
        if len(gains) < 2 or len(beyond) <= MOST * len(gains):
            continue
        middle = math.exp(sum(math.log(r.estimate.value) for r in beyond) / len(beyond))
        yield WEIGHT_SCALE.finding(
            beyond[0].site,
            "warning",
            tuple(beyond[:4]),
            f"{len(beyond)} of {len(gains)} layers make differences between samples {middle:.3g} "
            "times as large (root mean square; 0.6 to 1.4 is usual): their weights are too "
            f"{'large' if large else 'small'}.",
        )


STRONG_RESIDUAL = Kind(
    "strong-residual",
    "16 branches or more let the stream's mean square grow more than 1e4 times",
    "Zhang et al. 2019, Sec. 2",
    brings=(*SIZES, *COLLAPSE, LAYER_GAIN, LOUD_OUTPUT, NON_FINITE),
)


@rule("setup", STRONG_RESIDUAL)
def strong_residual(profile: Profile) -> Iterator[Finding]:
    """Branches that multiply the stream at every block of a deep network."""
    found = profile.series(q.BRANCH_STRENGTH)
    values = [r.estimate.value for r in found]
    growth = math.exp(min(sum(math.log1p(v * v) for v in values), 700.0))
    if len(values) < DEEP or growth < GROWN:
        return
    stream = profile.series(q.MEAN_SQUARE, form="samples")
    first = next((r.estimate.value for r in stream if r.estimate.value > 0), 0.0)
    last = max((r.estimate.value for r in stream), default=0.0)
    if not last > GROWN * first > 0:  # a normaliser on the stream holds it
        return
    strongest = max(found, key=lambda r: r.estimate.value)
    yield STRONG_RESIDUAL.finding(
        found[0].site,
        "warning",
        (found[0], strongest, found[-1]),
        f"{len(values)} residual branches have up to {strongest.estimate.value:.2g} times the size "
        f"of the stream they are added to: its mean square grows {growth:.2g} times.",
    )


ASYMMETRIC_WEIGHTS = Kind(
    "asymmetric-weights",
    "in most layers (three or more) the mean shift of the weights exceeds 2: the constant part of "
    "a weight sticks out of what its spread accounts for. Batch normalisation does not prevent "
    "the collapse that follows. Random symmetric weights have about `1/√width`, trained "
    "transformers below 0.5",
    "Daneshmand et al. 2020, Sec. 5 (breaking batch normalisation) and Definition 1",
    brings=(
        *SIZES,
        *COLLAPSE,
        WEIGHT_SCALE,
        LAYER_GAIN,
        LOUD_OUTPUT,
        DEAD_UNITS,
        SATURATED_UNITS,
        STRONG_RESIDUAL,
        NO_GRADIENT,
    ),
)


@rule("weights", ASYMMETRIC_WEIGHTS)
def asymmetric_weights(profile: Profile) -> Iterator[Finding]:
    """Weights whose mean is not small beside their spread, in most layers of a deep network."""
    shifts = profile.series(q.MEAN_SHIFT, view="weights")
    applied = {name for layer in profile.layers for name in layer.parameters}
    shifts = [r for r in shifts if r.site in applied]
    large = [r for r in shifts if r.estimate.low > SHIFTED]
    if len(shifts) < FEWEST or 2 * len(large) <= len(shifts):
        return
    worst = max(large, key=lambda r: r.estimate.value)
    ratio = over_depth(profile, q.PARTICIPATION_RATIO, form="samples").readings[-1:]
    reached = "".join(
        f" The participation ratio at {r.site} is {r.estimate.value:.3g}." for r in ratio
    )
    yield ASYMMETRIC_WEIGHTS.finding(
        large[0].site,
        "warning",
        (worst, large[0], *ratio) if worst != large[0] else (worst, *ratio),
        f"In {len(large)} of {len(shifts)} layers the mean of the weights is not small beside "
        f"their spread (in {worst.site} the mean alone has {worst.estimate.value:.2g} times the "
        "largest singular value that the spread accounts for): each layer maps all samples "
        "towards one direction, and batch normalisation, which needs weights that are symmetric "
        f"around zero, does not prevent it.{reached}",
    )


UNUSED_LAYERS = Kind(
    "unused-layers",
    "layers with weights to be trained are neither called nor applied in another way; a note where "
    "a pass in evaluation mode draws what it computes, and may call them another time",
    "Arithmetic: what is not computed with has no gradient",
    even_if_it_learns=True,
    brings=(NO_GRADIENT, NO_TANGENTS),
)


@rule("setup", UNUSED_LAYERS)
def unused_layers(profile: Profile) -> Iterator[Finding]:
    """Layers that hold weights to be trained and are never run."""
    unused = [*profile.series(q.TIMES_CALLED)]
    drawn = any(r.estimate.value > 0 and not r.form for r in profile.series(q.EVALUATION_SPREAD))
    if unused:
        names = ", ".join(r.site for r in unused[:3])
        more = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
        yield UNUSED_LAYERS.finding(
            unused[0].site,
            "note" if drawn else "warning",
            tuple(unused[:4]),
            f"The model never calls {names}{more} on this batch, nor applies "
            f"{'its weight' if len(unused) == 1 else 'their weights'} in another way: no "
            "output for it depends on them, and it teaches them nothing.",
            (
                "Call them in `forward`, or take them out; experts that others of your samples are "
                "sent to are well as they are.",
            ),
        )


EQUAL_UNITS = Kind(
    "equal-units",
    "half of the units of a layer or more are copies of others (error if all are). Of a weight "
    "with equal rows: if their gradients are equal too, for rows that are equal by design, as the "
    "decays of a state space model, part in the first step",
    "Goodfellow et al. 2016, Sec. 8.4",
    brings=(
        *SIZES,
        *COLLAPSE,
        ASYMMETRIC_WEIGHTS,
        LOUD_OUTPUT,
        NO_GRADIENT,
        LINEAR_LAYERS,
        LOST_INPUTS,
    ),
)


@rule("setup", EQUAL_UNITS)
def equal_units(profile: Profile) -> Iterator[Finding]:
    """Layers whose units are copies of one another.

    Where all samples arrive as one, equal values say nothing of units; equal rows of a matrix do.
    """
    lost = any(lost_inputs(profile))
    for r in profile.series(q.DISTINCT_UNITS):
        shapes = [
            s.spectrum.shape for s in profile.spectra if s.site == r.site and s.form == "channels"
        ]
        shapes += [
            s.spectrum.shape for s in profile.spectra if s.site == r.site and s.form == "samples"
        ]
        share, width = r.estimate.value, (shapes[0][1] if shapes else None)
        if share > COPIES or (lost and r.form != "matrix"):
            continue
        alone = r.form == "matrix" or (width is not None and share * width <= 1.5)
        whose = "rows" if r.form == "matrix" else "units that it reads"
        yield EQUAL_UNITS.finding(
            r.site,
            "error" if alone else "warning",
            (r,),
            f"{r.site}: {1 - share:.0%} of the {whose} are copies of others. Equal units get equal "
            "gradients, and stay equal.",
        )
        return


ZERO_WEIGHTS = Kind(
    "zero-weights",
    "a weight is zero and gets no gradient, would get one if no weight were zero, and gets none "
    "when those zeros have moved that do",
    "Goodfellow et al. 2016, Sec. 8.4",
    brings=(
        *SIZES,
        *COLLAPSE,
        EQUAL_UNITS,
        LOST_INPUTS,
        DEAD_UNITS,
        NO_GRADIENT,
        NO_TANGENTS,
        LAYER_GAIN,
        LINEAR_LAYERS,
    ),
)


@rule("task", ZERO_WEIGHTS)
def stuck_weights(profile: Profile) -> Iterator[Finding]:
    """Weights that are zero and get no gradient: zeros between zeros."""
    moves = ("cut", BEHIND_ZEROS)  # nothing would move it; or it moves when others have
    zero = [r for r in profile.series(ZERO) if r.estimate.value == 0 and r.form not in moves]
    names = {name for layer in profile.layers for name in layer.parameters}
    stuck = [r for r in zero if r.site in names]
    if stuck:
        yield ZERO_WEIGHTS.finding(
            stuck[0].site,
            "error",
            tuple(stuck[:4]),
            f"{len(stuck)} of {len(names)} weights are zero and get no gradient, the first "
            f"{stuck[0].site}: zeros before and behind keep each other there for ever.",
            ("Start no weight at zero but the last one of a residual branch.",),
        )
