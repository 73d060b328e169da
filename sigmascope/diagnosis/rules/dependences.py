"""Rules on what outputs depend on besides their sample: other samples, chance, statistics."""

from collections.abc import Iterator

from sigmascope.core import quantities as q
from sigmascope.core.records import Finding, Kind, Profile, Reading, rule
from sigmascope.diagnosis.rules.gradients import NO_GRADIENT
from sigmascope.diagnosis.rules.outputs import OUT_OF_REACH
from sigmascope.diagnosis.rules.representations import (
    COLLAPSE,
    DEAD_UNITS,
    DIRECTIONAL_GRADIENT_VANISHING,
    HIDDEN_COLLAPSE,
    LAYER_GAIN,
    LOUD_OUTPUT,
    NON_FINITE,
    SATURATED_UNITS,
    SIZES,
    UNRELATED_TARGETS,
)
from sigmascope.diagnosis.rules.sequences import LATER_INPUTS_SEEN
from sigmascope.diagnosis.rules.training import TRAINING
from sigmascope.diagnosis.rules.trends import MOST
from sigmascope.diagnosis.rules.weights import STRONG_RESIDUAL, WEIGHT_SCALE

SOME = 0.1  # of the features of an input
MIXED = 1e-4  # change of outputs, over the differences between samples
HEAVY, NEARLY_ALL = 0.85, 0.97  # share of the numbers that dropout sets to zero
APART, FAR = 4.0, 100.0  # of the mean square after normalisation, from one


HEAVY_DROPOUT = Kind(
    "heavy-dropout",
    "dropout sets more than 85 % (warning) or 97 % (error) of the numbers to zero, counted in a "
    "run in training mode",
    "Srivastava et al. 2014, Sec. A.4",
    even_if_it_learns=True,
    brings=(*SIZES, *COLLAPSE, LOUD_OUTPUT, NO_GRADIENT, DEAD_UNITS),
)


@rule("setup", HEAVY_DROPOUT)
def heavy_dropout(profile: Profile) -> Iterator[Finding]:
    """Dropout that leaves next to nothing."""
    heavy = [r for r in profile.series(q.DROPPED_SHARE) if r.estimate.value > HEAVY]
    if heavy:
        worst = max(heavy, key=lambda r: r.estimate.value)
        share = worst.estimate.value
        yield HEAVY_DROPOUT.finding(
            worst.site,
            "error" if share > NEARLY_ALL else "warning",
            (worst, *(r for r in heavy[:3] if r != worst)),
            f"In training, {worst.site} sets {share:.1%} of its numbers to zero, and makes the "
            f"others {1 / max(1 - share, 1e-3):.0f} times as large: what is left is mostly noise.",
            ("Drop less: 0.1 to 0.5 is usual. `p` is the share that is dropped, not kept.",),
        )


MIXED_SAMPLES = Kind(
    "mixed-samples",
    "the output for a sample changes when other samples of the batch are exchanged; not of batch "
    "normalisation, and not where there is an output for every pair of samples, as for "
    "contrastive losses; a note where one batch holds all samples, as the nodes of a graph. What "
    "speaks of single samples is refused there",
    "Arithmetic: two runs with other samples beside the same ones",
    even_if_it_learns=True,
    brings=(
        *TRAINING,
        UNRELATED_TARGETS,
        LATER_INPUTS_SEEN,
        OUT_OF_REACH,
        NO_GRADIENT,
        DIRECTIONAL_GRADIENT_VANISHING,
    ),
)


UNMIX = (
    "Look for a reshape, transpose, softmax, mean or product over the dimension of the batch "
    "(`x.view(...)` after `transpose`, `dim=0`), and for `batch_first`.",
    "If these are no samples, but nodes of one graph or places of one sequence, it is meant: then "
    "views that need them apart stay silent. If samples lie along another dimension, say "
    "`batch_dim=` where a model is profiled (`--batch-dim`).",
)


@rule("setup", MIXED_SAMPLES)
def mixed_samples(profile: Profile) -> Iterator[Finding]:
    """Outputs of a sample that depend on the other samples of the batch."""
    whole = any(r.estimate.value == 1 for r in profile.series(q.STEPS_OF_AN_EPOCH))
    for r in profile.series(q.DEPENDENCE_ON_OTHER_SAMPLES):
        if r.form == "pairs" or r.estimate.value <= MIXED:
            continue  # samples are compared with one another
        yield MIXED_SAMPLES.finding(
            r.site,
            "note" if whole else "warning",  # nodes of one graph are all there
            (r,),
            "The output for a sample depends on the other samples of its batch: exchanged, they "
            f"change it by {r.estimate.value:.2g} of what tells samples apart. What is learned "
            "holds for the batches that it was learned in, and a sample alone gets another output.",
            UNMIX,
        )
    for fact in (f for f in profile.facts if f.quantity == q.HIDDEN_DEPENDENCE):
        yield MIXED_SAMPLES.finding(
            fact.site,
            "note" if whole else "warning",
            (fact,),
            f"Although exchanging other samples changes no output, {fact.word}: what tells samples "
            "apart is mixed with what stands beside them.",
            UNMIX,
        )


UNREAD_INPUTS = Kind(
    "unread-inputs",
    "an input of the model, or a tenth of its features or more, differs between samples and "
    "changes no output when it is given to another sample; weights that start at zero are filled "
    "before (a note; a warning where a mask hides half of the ids or more that fill no rows)",
    "Arithmetic: two runs with one input exchanged",
    even_if_it_learns=True,
)


@rule("setup", UNREAD_INPUTS)
def unread_inputs(profile: Profile) -> Iterator[Finding]:
    """A mask that is passed along and not used, or a part that reads the wrong columns."""
    for r in profile.series(q.UNREAD_SHARE):
        share = r.estimate.value
        if share < SOME or r.site == "(model)":  # all inputs: see `lost-inputs`
            continue
        what = f"{share:.0%} of the features of {r.site}" if share < 1 else f"{r.site}"
        if r.form:
            what = f"{share:.0%} of the ids in {r.site}, which `{r.form}` hides"
        yield UNREAD_INPUTS.finding(
            r.site,
            "warning" if r.form and share >= MOST else "note",
            (r,),
            f"Nothing that the model writes depends on {what}: given to another sample, it leaves "
            "all outputs as they were, to the last bit.",
            (
                "Look where it is passed along and not used (a mask, lengths, a second part), for "
                "columns or channels that are chosen by the wrong bounds, and for a mask that is "
                "the other way round: 1 (or True) keeps in one interface, and hides in another.",
            ),
        )


UNNORMALISED_ATTENTION = Kind(
    "unnormalised-attention",
    "the softmax of an attention that is written out is over another dimension than the one over "
    "which values are summed, so that its weights do not add up to one",
    "Vaswani et al. 2017, Eq. 1",
    even_if_it_learns=True,
    brings=(*TRAINING, MIXED_SAMPLES, LATER_INPUTS_SEEN, *SIZES, *COLLAPSE),
)


@rule("setup", UNNORMALISED_ATTENTION)
def unnormalised_attention(profile: Profile) -> Iterator[Finding]:
    """A softmax over queries, heads or samples, where it should be over keys."""
    for r in profile.series(q.ATTENTION_GAP):
        if r.estimate.value > MIXED:
            yield UNNORMALISED_ATTENTION.finding(
                r.site,
                "warning",
                (r,),
                f"The weights of an attention ({r.form}, counted from the last dimension) do not "
                f"add up to one where they sum up values, but to as much as {r.estimate.value:.3g} "
                "more or less: what a query reads depends on other queries, or samples.",
                ("Take the softmax over the keys: `dim=-1` where scores are queries times keys.",),
            )


STALE_STATISTICS = Kind(
    "stale-statistics",
    "batch normalisers are in evaluation mode with running statistics that are not those of the "
    "batch: after more than half of them the mean square (median over channels) is beyond 1/4 to "
    "4, or after one beyond 1/100 to 100. Brings `weight-scale`, whose remedy would do harm",
    "Ioffe & Szegedy 2015, Sec. 3.1",
    even_if_it_learns=True,
    brings=(
        *SIZES,
        *COLLAPSE,
        LOUD_OUTPUT,
        STRONG_RESIDUAL,
        WEIGHT_SCALE,
        NON_FINITE,
        SATURATED_UNITS,
        LAYER_GAIN,
        DEAD_UNITS,
        HIDDEN_COLLAPSE,
        NO_GRADIENT,
    ),
)


def _from_one(reading: Reading) -> float:
    """How many times a size is above one, or below it."""
    return max(reading.estimate.value, 1 / max(reading.estimate.value, 1e-300))


@rule("setup", STALE_STATISTICS)
def stale_statistics(profile: Profile) -> Iterator[Finding]:
    """Running statistics of batch normalisers that are not those of the data."""
    sizes = profile.series(q.NORMALISED_SQUARE)
    apart = [r for r in sizes if not 1 / APART <= r.estimate.value <= APART]
    far = [r for r in apart if not 1 / FAR <= r.estimate.value <= FAR]
    if len(apart) > MOST * len(sizes) or far:
        worst = max(apart, key=_from_one)
        yield STALE_STATISTICS.finding(
            apart[0].site,
            "warning",
            tuple(dict.fromkeys((apart[0], worst, *apart[:3]))),
            f"{len(apart)} of {len(sizes)} batch normalisers are in evaluation mode with running "
            f"statistics that are not those of this batch: after {worst.site} its mean square is "
            f"{worst.estimate.value:.3g}, and 1 is what normalisation is for. The weights may be "
            "as they should.",
            (
                "Train in training mode (`model.train()`): statistics are then those of the batch.",
                "For evaluation, `reset_running_stats()` on every normaliser with `momentum=None`, "
                "and run over the data once in training mode without a step.",
            ),
        )


UNTOUCHED_STATISTICS = Kind(
    "untouched-statistics",
    "a batch normaliser is in evaluation mode with mean 0 and variance 1",
    "Ioffe & Szegedy 2015, Sec. 3.1",
    even_if_it_learns=True,
    brings=(*SIZES, *COLLAPSE, LOUD_OUTPUT, STRONG_RESIDUAL, WEIGHT_SCALE, NON_FINITE),
)


@rule("setup", UNTOUCHED_STATISTICS)
def untouched_statistics(profile: Profile) -> Iterator[Finding]:
    """Batch normalisers in evaluation mode whose statistics no batch has made."""
    found = profile.series(q.BATCHES_SEEN)
    if found:
        yield UNTOUCHED_STATISTICS.finding(
            found[0].site,
            "warning",
            found[:4],
            f"{len(found)} batch normalisers are in evaluation mode with the statistics that they "
            "were built with, mean 0 and variance 1: they normalise nothing.",
            ("Call `model.train()` before training, or load a checkpoint that holds statistics.",),
        )


SHARED_NORMALISER = Kind(
    "shared-normaliser",
    "a batch normaliser is called at several places of a pass whose inputs have other statistics: "
    "by their mean, which evaluation will use, the mean square or the variance of one of them "
    "(median over channels) is beyond 1/4 to 4",
    "Ioffe & Szegedy 2015, Sec. 3.1",
    even_if_it_learns=True,
)


@rule("setup", SHARED_NORMALISER)
def shared_normaliser(profile: Profile) -> Iterator[Finding]:
    """Running statistics that are a mean of several places and fit none."""
    sizes = profile.series(q.SHARED_SQUARE)
    apart = [r for r in sizes if not 1 / APART <= r.estimate.value <= APART]
    if apart:
        worst = max(apart, key=_from_one)
        yield SHARED_NORMALISER.finding(
            worst.site,
            "warning",
            tuple(dict.fromkeys((worst, *apart[:3]))),
            "A batch normaliser is called several times in a pass, and keeps one mean of their "
            f"statistics, which differ: in evaluation mode what it writes at {worst.site} has a "
            f"size of {worst.estimate.value:.3g}, where in training it has 1.",
            ("Make a normaliser of its own for each place (`nn.ModuleList`).",),
        )


RANDOM_EVALUATION = Kind(
    "random-evaluation",
    "outputs in evaluation mode differ from run to run, for random numbers are drawn: by dropout "
    "that is not told the mode (a warning), or in another way (a note)",
    "Srivastava et al. 2014, Sec. 4",
    even_if_it_learns=True,
)


@rule("setup", RANDOM_EVALUATION)
def random_evaluation(profile: Profile) -> Iterator[Finding]:
    """Dropout that drops in evaluation mode, too."""
    for r in profile.series(q.EVALUATION_SPREAD):
        if r.estimate.value <= MIXED:
            continue
        name, _, where = r.form.partition(" at ")
        why = f": `{name}` ({where}) drops there, too" if name else ""
        hand = "dropout_p=p if self.training else 0" if "attention" in name else ""
        do = (
            f"Hand the mode on: `{hand or 'training=self.training'}`."
            if name
            else "Draw in training mode alone (`if self.training`), unless samples are wanted."
        )
        yield RANDOM_EVALUATION.finding(
            r.site,
            "warning" if name else "note",
            (r,),
            f"In evaluation mode two runs on the same batch differ by {r.estimate.value:.2g} of "
            f"what tells samples apart{why}: no score can be repeated.",
            (do,),
        )
