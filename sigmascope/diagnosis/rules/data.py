"""Rules on inputs and targets as they are handed over."""

import math
from collections.abc import Iterator

from sigmascope.core import quantities as q
from sigmascope.core.records import Finding, Kind, Profile, rule
from sigmascope.diagnosis.rules.gradients import NO_GRADIENT
from sigmascope.diagnosis.rules.representations import (
    COLLAPSE,
    DENORMAL_VALUES,
    DIRECTIONAL_GRADIENT_VANISHING,
    HIDDEN_COLLAPSE,
    LAYER_GAIN,
    LOUD,
    LOUD_OUTPUT,
    SATURATED_UNITS,
    SIZES,
    UNRELATED_TARGETS,
    outputs_too_large,
)
from sigmascope.diagnosis.rules.training import (
    SCALED,
    STUCK,
    TRAINING,
    RunsTold,
)
from sigmascope.diagnosis.rules.trends import (
    SAME,
    alike,
    empty_inputs,
    samples_of,
    share_words,
)
from sigmascope.diagnosis.rules.weights import EQUAL_UNITS
from sigmascope.survey.views.task import LARGE_INPUT, SMALL_INPUT

ALONE, BY_CHANCE = 0.5, 0.05  # share of batches of one class, and where samples are mixed
CONTRADICTED = 0.5  # of the variance of targets, which the inputs cannot tell
OFFSET = 0.05  # spread over root mean square, below which they are tried without their mean
LARGE_TARGET, SMALL_TARGET = 100.0, 0.01  # root mean square


SORTED_SAMPLES = Kind(
    "sorted-samples",
    "a loader gives samples as they lie, and half of its batches or more (16 are looked at) hold "
    "one class alone, of which less than 0.05 is to be expected of mixed samples. Of a batch, or "
    "of loaders with a sampler of their own, it is not known",
    "Bottou, Curtis & Nocedal 2018, Sec. 4",
    even_if_it_learns=True,
)


@rule("setup", SORTED_SAMPLES)
def sorted_samples(profile: Profile) -> Iterator[Finding]:
    """A loader that gives samples as they lie, one class after the other."""
    mixed = {r.site: r for r in profile.series(q.THE_SAME_IF_MIXED)}
    for r in profile.series(q.BATCHES_OF_ONE_CLASS):
        chance = mixed[r.site]
        if r.estimate.value >= ALONE and chance.estimate.value < BY_CHANCE:
            yield SORTED_SAMPLES.finding(
                r.site,
                "warning",
                (r, chance),
                f"The loader gives samples as they lie, and {r.estimate.value:.0%} of the batches "
                f"that were looked at hold one class alone, where {chance.estimate.value:.2g} of "
                "mixed ones would: each step unlearns what those before it taught.",
                ("Mix the samples: `DataLoader(…, shuffle=True)`.",),
            )


UNSCALED_TARGETS = Kind(
    "unscaled-targets",
    "the root mean square of targets that are values is above 100 or below 0.01",
    "LeCun et al. 1998, Sec. 4.5",
    brings=(LOUD_OUTPUT,),
)


@rule("task", UNSCALED_TARGETS)
def unscaled_targets(profile: Profile) -> Iterator[Finding]:
    """Values to be fitted whose size is far from one."""
    far = [r for r in profile.series(q.FIRST_LOSS_OVER_A_CONSTANTS) if r.estimate.value > LOUD]
    far = () if outputs_too_large(profile) else far  # outputs of zero are as far off
    for r in profile.series(q.TARGET_SIZE):
        size = r.estimate.value
        if size > LARGE_TARGET or size < SMALL_TARGET or far:
            yield UNSCALED_TARGETS.finding(
                r.site,
                "warning",
                (r, *far),
                f"The targets have root mean square {size:.3g}, and a network's first outputs are "
                + (
                    f"far from them: the first loss is {far[0].estimate.value:.3g} times that of "
                    "the best constant."
                    if far
                    else "near 1."
                )
                + " At usual learning rates most of the training goes into their size.",
                (
                    "Fit targets less their mean, over their standard deviation, and undo that on "
                    "the outputs.",
                ),
            )


OF_SCALE = (  # what follows from inputs whose size or offset is wrong
    *SIZES, *TRAINING, *COLLAPSE,
    LAYER_GAIN, HIDDEN_COLLAPSE, LOUD_OUTPUT, SATURATED_UNITS, NO_GRADIENT,
)  # fmt: skip
UNSCALED_INPUTS = Kind(
    "unscaled-inputs",
    "the root mean square of the inputs is above 30, or below 0.01 and not zero, and outputs "
    "change with it (an error where training breaks, and does not with inputs of unit size and "
    "nothing else changed)",
    "LeCun et al. 1998, Sec. 4.3",
    proven=True,
    brings=(*OF_SCALE, DENORMAL_VALUES),
)


@rule("setup", UNSCALED_INPUTS)
def unscaled_inputs(profile: Profile) -> Iterator[Finding]:
    """Inputs whose size is far from one, an error where training breaks on them alone."""
    runs = RunsTold.of(profile)
    offset = {f.site for f in offset_inputs(profile) if f.severity != "note"}
    told = {f.site for f in profile.facts if f.quantity == q.FORGOTTEN_SCALE}
    for r in profile.series(q.INPUT_SIZE):
        if r.site in offset or (name := r.site.partition("#")[0]) in told:
            continue  # of a layer that is called once more it was said
        size = r.estimate.value
        if size > LARGE_INPUT or 0 < size < SMALL_INPUT:  # of zeros there is no scale
            told.add(name)
            helps = runs.better(SCALED)
            yield UNSCALED_INPUTS.finding(
                r.site,
                "error" if helps and runs.left() == math.inf else "warning",
                (r, *(runs.evidence(SCALED) if helps else ())),
                f"The inputs have root mean square {size:.3g}: learning rates and initial weights "
                f"are made for inputs near 1.{_scaled(runs) if helps else ''}",
            )


OFFSET_INPUTS = Kind(
    "offset-inputs",
    "what samples have in common is more than 20 times what tells them apart (root mean squares); "
    "a note, a warning where training is better with inputs of unit size and nothing else "
    "changed, an error where 95 % is left without",
    "LeCun et al. 1998, Sec. 4.3",
    proven=True,
    brings=(*OF_SCALE, UNSCALED_INPUTS),
)


@rule("setup", OFFSET_INPUTS)
def offset_inputs(profile: Profile) -> Iterator[Finding]:
    """Inputs whose mean dwarfs what tells them apart, where training without it is better."""
    runs = RunsTold.of(profile)
    spreads = {r.site: r for r in profile.series(q.INPUT_SPREAD)}
    for r in profile.series(q.INPUT_SIZE):
        spread, size = spreads.get(r.site), r.estimate.value
        if spread is None or not SAME * size < spread.estimate.value < OFFSET * size:
            continue
        helps = runs.better(SCALED)
        yield OFFSET_INPUTS.finding(
            r.site,
            "error" if helps and runs.left() >= STUCK else "warning" if helps else "note",
            (r, spread, *(runs.evidence(SCALED) if helps else ())),
            f"The inputs have root mean square {size:.3g}, and differ from their mean by "
            f"{spread.estimate.value:.3g} only: what they have in common drowns what tells them "
            f"apart.{_scaled(runs) if helps else ''}",
            ("Subtract the mean of the training samples, and divide by their spread.",),
        )


def _scaled(runs: RunsTold) -> str:
    """What scaled inputs change of the user's run, in words."""
    left = f"{runs.left(SCALED):.0%}"
    return f" {runs.says()}; with inputs of unit size, and nothing else changed, {left} is left."


REPEATED_INPUTS = Kind(
    "repeated-inputs",
    "of the variance of the targets, more than half lies between samples whose inputs are the "
    "same; silent where all are (`alike-inputs`)",
    "Bishop 2006, Eq. (1.90)",
    even_if_it_learns=True,
    brings=(UNRELATED_TARGETS, DIRECTIONAL_GRADIENT_VANISHING),
)


@rule("task", REPEATED_INPUTS)
def repeated_inputs(profile: Profile) -> Iterator[Finding]:
    """Samples that come again and again, each time with other targets."""
    for r in profile.series(q.CONTRADICTED_TARGETS):
        for distinct in profile.series(q.DISTINCT_SAMPLES)[:1]:
            if r.estimate.low <= CONTRADICTED:
                continue
            yield REPEATED_INPUTS.finding(
                distinct.site,
                "warning",
                (r, distinct),
                f"Only {distinct.estimate.value:.0f} of the {samples_of(profile)} samples of the "
                f"batch differ, and equal ones have different targets: {r.estimate.value:.0%} of "
                "the variance of the targets is among them, which no function of the inputs can "
                "tell.",
                (
                    "Look at what makes samples the same: integers divided or cast, an index that "
                    "does not move on, a vocabulary that knows few words, a mask.",
                ),
            )


ALIKE_INPUTS = Kind(
    "alike-inputs",
    "samples of the batch differ by at most 1e-6 of their size, are zero, or are the same ids, "
    "and no other part of the batch may tell them apart; the other rules on directions are then "
    "silent",
    "Arithmetic: a function gives equal outputs for equal inputs",
    even_if_it_learns=True,
    brings=(*COLLAPSE, UNRELATED_TARGETS, NO_GRADIENT, EQUAL_UNITS),
)


@rule("representations", ALIKE_INPUTS)
def alike_inputs(profile: Profile) -> Iterator[Finding]:
    """A batch whose samples are all the same: then nothing can be said of the network."""
    found = alike(profile)
    if not found:
        return
    empty = empty_inputs(profile)
    small = next((r for r in found if r.quantity == q.RELATIVE_VARIATION), None)
    apart = (
        "" if small is None else f" (they differ by {share_words(small.estimate)} of their size)"
    )
    yield ALIKE_INPUTS.finding(
        found[0].site if small is None else small.site,
        "warning",
        found,
        f"The samples of this batch are {'all zero' if empty else f'the same{apart}'}: what is "
        "measured here speaks of the batch, not of the network.",
        (
            "Look at what is done to them before the model sees them: integers divided or cast, an "
            "index that does not move, a vocabulary that knows no word, a mask.",
            "Measure on samples that differ, in the scale in which the network is trained.",
        ),
    )
