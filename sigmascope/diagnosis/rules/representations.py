"""Rules on what layers read and write: its size, its directions, units that pass nothing on."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sigmascope.core import quantities as q
from sigmascope.core.records import Finding, Kind, Profile, Reading, Severity, rule
from sigmascope.diagnosis.rules.gradients import (
    EXPLODING_ADJOINTS,
    NO_GRADIENT,
    NO_TANGENTS,
    TANGENT_SIZE,
    VANISHING_ADJOINTS,
)
from sigmascope.diagnosis.rules.training import told_apart
from sigmascope.diagnosis.rules.trends import (
    MOST,
    SAME,
    Series,
    alike,
    can_part,
    empty_inputs,
    over_depth,
    share_words,
    trend,
)
from sigmascope.diagnosis.trainability.model import likely_to_fit, probability
from sigmascope.survey.views.representations import ALIKE

SIZE_ERROR, SIZE_WARNING = 1e8, 1e5  # of the mean square, over the whole depth
DEAD_ERROR, DEAD_WARNING = 0.95, 0.75
KARPATHY = "Karpathy 2019, A Recipe for Training Neural Networks (verify loss at init)"
CHANCE = 2.0  # standard deviations of what permuted targets give
QUIETER = 2.0  # times the loss of outputs that are zero
LOUD = 20.0  # times the loss of the best constant
HUNDREDTH = 4.6  # nats: the right class has a hundredth of the probability that equal scores give
TOLD, POWER = 0.045, 4.0  # upper limit of what neighbours tell; what they must tell of others
DEEP, CHANGED = 8, 1e3  # layers; of the mean square, over the whole depth
STEADY = 0.1  # of the logarithm of a factor per layer, half the width of its interval
CLEAR = 5.0
ALIGNED = 0.05  # with the targets, of inputs that can be forgotten
FORGOTTEN = 0.02  # alignment with the targets, next to the input's
ONE_DIRECTION = 1.1  # participation ratio at which all samples point nearly the same way
LOST = 0.5  # share of the input's centred directions that must be gone
FEW = 6.0  # centred directions that must not be left; a default net that cannot train has 3 to 5
FEWEST = 8  # samples of which all pairs are compared
COLLINEAR_ERROR, COLLINEAR_WARNING = 0.999, 0.99
DANESHMAND = "Daneshmand et al. 2020"
SATURATED, NEARLY = 0.75, 0.5  # share of entries at an end of the range: error, warning
SILENT = 0.25  # of the samples
HIDDEN = 1e-3  # variation before batch normalisation that hides a collapse


DENORMAL_VALUES = Kind(
    "denormal-values",
    "a layer writes numbers below the smallest normal one",
    "IEEE 754",
)


@rule("setup", DENORMAL_VALUES)
def denormal_values(profile: Profile) -> Iterator[Finding]:
    """Values so small that the format holds them with few digits."""
    found = profile.series(q.DENORMAL_ENTRIES)
    if found:
        yield DENORMAL_VALUES.finding(
            found[0].site,
            "warning",
            tuple(found[:4]),
            f"{found[0].site} writes {found[0].estimate.value:.0f} numbers below the smallest "
            "normal one of their format: they have few digits left, and are slow or flushed to "
            "zero.",
            ("Use a format with a wider range (bfloat16).",),
        )


NON_FINITE = Kind(
    "non-finite",
    "a representation or derivative holds infinities or nan although weights and data are finite",
    "IEEE 754",
    proven=True,
)


@rule("representations", NON_FINITE)
def non_finite(profile: Profile) -> Iterator[Finding]:
    """Values that overflowed or became undefined inside the network."""
    found = profile.series(q.NON_FINITE_ENTRIES)
    if found:
        first = found[0]
        what = "what it reads" if first.view == "representations" else "its derivative"
        yield NON_FINITE.finding(
            first.site,
            "error",
            found[:8],
            f"From layer {first.site} on {what} holds infinities or nan "
            f"({first.estimate.value:.0f} entries there): the computation overflows or divides by "
            "zero.",
            (
                "Scale the inputs and the initial weights down, or normalise before this layer.",
                "If it is half precision, run this layer in bfloat16 or float32.",
            ),
        )


LOUD_OUTPUT = Kind(
    "loud-output",
    "the first loss is more than 20 times that of the best constant, and twice that of outputs "
    "that are zero; or, where the loss of equal scores is the logarithm of the number of classes, "
    "4.6 nats above that: the right class has a hundredth of the probability of a guess. 36 "
    "public architectures have -0.2 to 1.3. A note where the probability of fitting is one half or "
    "more",
    KARPATHY,
)


@rule("task", LOUD_OUTPUT)
def loud_output(profile: Profile) -> Iterator[Finding]:
    """A first loss far above that of a constant: so many times, or so many nats above even odds."""
    ratios = [r for r in profile.series(q.FIRST_LOSS_OVER_A_CONSTANTS) if r.estimate.value > LOUD]
    severity: Severity = "note" if likely_to_fit(profile) else "warning"  # it is soon undone
    for r in ratios if outputs_too_large(profile) else ():
        yield LOUD_OUTPUT.finding(
            r.site,
            severity,
            (r,),
            f"The first loss is {r.estimate.value:.3g} times that of the best constant output: the "
            "outputs are far too large, and the first steps go into making them smaller.",
        )
    for r in profile.series(q.NATS_OVER_EQUAL_SCORES) if not ratios else ():
        if r.estimate.value > HUNDREDTH:
            yield LOUD_OUTPUT.finding(
                r.site,
                severity,
                (r,),
                f"The first loss is {r.estimate.value:.3g} nats above that of equal scores: the "
                f"right class has 10^-{r.estimate.value / 2.302585:.1f} of the probability that a "
                "guess gives it. The scores are far too large, and the first steps go into making "
                "them smaller.",
                (
                    "Draw the layer that writes the scores smaller; where it shares its weight "
                    "with an embedding, draw that with a standard deviation near 1/√width (GPT-2: "
                    "0.02), or divide the scores by √width.",
                ),
            )


def outputs_too_large(profile: Profile) -> bool:
    """Whether outputs of zero would have far less of a loss: if not, their size is not at fault."""
    zeros = profile.series(q.LOSS_OF_ZEROS)
    constant = profile.series(q.LEAST_LOSS_OF_A_CONSTANT)
    ratio = profile.series(q.FIRST_LOSS_OVER_A_CONSTANTS)
    if not (zeros and constant and ratio):
        return True
    return ratio[0].estimate.value * constant[0].estimate.value > QUIETER * zeros[0].estimate.value


FORGOTTEN_TARGETS = Kind(
    "forgotten-targets",
    "the alignment with the targets falls below a fiftieth of the input's, where the inputs tell "
    "the targets by 5 standard deviations and the probability of fitting is below one half (deep "
    "networks with BatchNorm that train may start without any alignment)",
    "Cortes, Mohri & Rostamizadeh 2012, Definition 4",
)


@rule("task", FORGOTTEN_TARGETS)
def forgotten_targets(profile: Profile) -> Iterator[Finding]:
    """A last representation that no longer tells what the inputs told of the targets.

    It explains why a network does not train; deep networks with BatchNorm that do may start so too.
    """
    if probability(profile) is None or likely_to_fit(profile):
        return
    signal = profile.series(q.TARGET_SIGNAL)
    found = over_depth(profile, q.TARGET_ALIGNMENT).readings
    told = max((r.estimate.value for r in signal), default=-math.inf)  # by any of the inputs
    if told < CLEAR or len(found) < 3:
        return
    first, last = found[0], found[-1]
    if first.estimate.value > ALIGNED and last.estimate.value < FORGOTTEN * first.estimate.value:
        yield FORGOTTEN_TARGETS.finding(
            last.site,
            "warning",
            (first, last),
            f"The alignment of the representation with the targets falls from "
            f"{first.estimate.value:.2g} at the input to {last.estimate.value:.2g} at {last.site}: "
            "what the inputs tell of the targets hardly gets through the initial network.",
            ("Use fewer layers, or normalise before each activation.",),
        )


DIRECTIONAL_GRADIENT_VANISHING = Kind(
    "directional-gradient-vanishing",
    "the least absolute cosine between last-layer gradients is at least 0.99 (warning) or 0.999 "
    "(error, unless a step of all weights parts the samples), among 8 samples or more; silent "
    "where the probability of fitting is one half or more, for samples were then seen to be "
    "learned apart",
    f"{DANESHMAND}, Prop. 19",
)


@rule("gradients", DIRECTIONAL_GRADIENT_VANISHING)
def directional_gradient(profile: Profile) -> Iterator[Finding]:
    """Gradients of all samples along one line in the last layer, though the samples differ.

    Silent where a probe saw progress, which is to learn samples apart, and where there are too few
    samples for a least cosine to mean something.
    """
    same = bool(alike(profile)) or any(lost_inputs(profile))
    read = (s.spectrum.shape[0] for s in profile.spectra if s.form == "samples")
    if same or likely_to_fit(profile) or max(read, default=FEWEST) < FEWEST:
        return
    least = profile.series(q.MINIMUM_COS, view="gradients")
    worst, without = "error", ""
    if can_part(profile):
        worst, without = "warning", " without the layers before it"
    mean = {r.site: r for r in profile.series(q.MEAN_COS, view="gradients")}
    for r in least:
        if r.estimate.low >= COLLINEAR_WARNING:
            yield DIRECTIONAL_GRADIENT_VANISHING.finding(
                r.site,
                worst if r.estimate.low >= COLLINEAR_ERROR else "warning",
                (r, mean[r.site]) if r.site in mean else (r,),
                f"The gradients of any two samples in the last layer {r.site} are parallel (least "
                f"|cos| {r.estimate.value:.6g}): whatever the labels, each step moves its weights "
                f"along one line, and samples cannot be learned apart{without}.",
            )


UNRELATED_TARGETS = Kind(
    "unrelated-targets",
    "neighbours and ridge regression, of every input there is, tell the targets less than 2 "
    "standard deviations better than permuted ones, and the test has the power to say so (of rows "
    "of ids it has none): at 95 %, neighbours tell at most 0.045 "
    "of a target, and 4 standard deviations of random linear functions of the inputs. Of ten "
    "draws each it speaks on 7, 9 and 10 shuffled sets of 64, 128 and 256 digits, and on none "
    "that are not shuffled; on CIFAR-10 at 64, 128 and 256 samples on 6, 9 and 10 shuffled ones "
    "and on 0 or 1, 0 and 0 others. Silent where training leaves less than 90 % on samples that "
    "it was not trained on",
    "Zhang et al. 2017, Sec. 2 (random labels)",
    even_if_it_learns=True,
)


@rule("task", UNRELATED_TARGETS)
def unrelated_targets(profile: Profile) -> Iterator[Finding]:
    """Targets that have no more to do with the inputs than permuted ones.

    It speaks only where a test of it has the power to tell, and not where training told the targets
    of other samples apart, as those of pairs, which no neighbours nor linear functions tell.
    """
    if told_apart(profile):
        return
    limits = {r.site: r.estimate.value for r in profile.series(q.TOLD_BY_NEIGHBOURS_AT_MOST)}
    powers = {r.site: r.estimate.value for r in profile.series(q.TOLD_OF_SMOOTH_TARGETS)}
    signals = profile.series(q.TARGET_SIGNAL)  # of every input there is
    able = lambda site: site not in powers or (powers[site] > POWER and limits[site] < TOLD)
    if signals and all(r.estimate.value < CHANCE and able(r.site) for r in signals):
        yield UNRELATED_TARGETS.finding(
            signals[0].site,
            "warning",
            signals,
            "Neither a sample's neighbours nor a linear fit tell its target better than chance "
            f"({max(r.estimate.value for r in signals):.1f} standard deviations from permuted "
            "targets): the targets may be shuffled against the inputs. A network may still learn "
            "them by heart.",
            (
                "Check that inputs and targets are read in the same order; measure on more samples "
                "(`--samples`).",
            ),
        )


HIDDEN_COLLAPSE = Kind(
    "hidden-collapse",
    "what a layer writes varies by less than 1e-3 of its size, and normalisation makes a "
    "participation ratio above 2 of it",
    "Daneshmand et al. 2020, Sec. 2",
)


@rule("representations", HIDDEN_COLLAPSE)
def hidden_collapse(profile: Profile) -> Iterator[Finding]:
    """A representation that batch normalisation blows up from tiny differences."""
    ratios = {r.site: r for r in profile.series(q.PARTICIPATION_RATIO, form="samples")}
    layers = [layer.site for layer in profile.layers]
    for r in profile.series(q.WRITTEN_VARIATION):
        at = layers.index(r.site) + 1 if r.site in layers else len(layers)
        after = ratios.get(layers[at]) if at < len(layers) else None
        if r.estimate.value == 0:  # the same for all by design, as places are
            continue
        blown = after is not None and after.estimate.low > 2 and r.estimate.high < HIDDEN
        if after is not None and blown:
            yield HIDDEN_COLLAPSE.finding(
                r.site,
                "warning",
                (r, after),
                f"What {r.site} writes differs between samples by {r.estimate.value:.2g} of its "
                f"size only; normalisation blows these differences up to a participation ratio of "
                f"{after.estimate.value:.3g}: rank that is held by little more than noise.",
                (
                    "Normalise in every layer, not in some, and draw weights that are symmetric "
                    "around zero.",
                ),
            )
            return


@dataclass(frozen=True, slots=True)
class _Directions:
    """What tells over depth how many directions the samples use."""

    ratio: Series
    centred: dict[str, Reading]
    variation: dict[str, Reading]

    @classmethod
    def of(cls, profile: Profile) -> "_Directions":
        def by_site(quantity: str) -> dict[str, Reading]:
            return {r.site: r for r in over_depth(profile, quantity, form="samples").readings}

        return cls(
            over_depth(profile, q.PARTICIPATION_RATIO, form="samples"),
            by_site(q.CENTRED_PARTICIPATION_RATIO),
            by_site(q.RELATIVE_VARIATION),
        )

    def collapsed(self) -> list[int]:
        """Depths at which the samples lie on one line although those of the input do not.

        Where it was not read how much samples differ (rows of zero size), none is told of.
        """
        first, found = self.ratio.readings[0].site, []
        if first not in self.variation:
            return []
        few, alike = self.centred.get(first), self.variation[first].estimate.value
        for depth, r in zip(self.ratio.depths[1:], self.ratio.readings[1:], strict=True):
            if r.site not in self.variation or r.estimate.high > ONE_DIRECTION:
                continue
            # the differences between samples are small, or few, next to those of the input
            left = self.centred.get(r.site)
            if left is None or few is None:  # all rows equal: nothing tells samples apart
                lost = few is not None
            else:
                small = self.variation[r.site].estimate.value <= min(ALIKE, 0.1 * alike)
                lost = small or left.estimate.high <= min(FEW, LOST * few.estimate.low)
            if lost:
                found.append(depth)
        return found

    def since(self) -> int | None:
        """Place from which on the samples lie on one line, to the last; None if they do not."""
        collapsed = self.collapsed() if len(self.ratio.readings) > 2 else []
        if not collapsed or self.ratio.depths[-1] not in collapsed:
            return None
        healthy = max(d for d in self.ratio.depths if d not in collapsed)
        return self.ratio.depths.index(next(d for d in collapsed if d > healthy))


RANK_COLLAPSE = Kind(
    "rank-collapse",
    "from some layer to the last, the participation ratio is at most 1.1, and samples differ by "
    "at most 0.01 of their size (and a tenth of the input's variation), or at most 6 and at most "
    "half of the input's centred directions are left in two layers or more. Error in the first "
    "case where a step of all weights does not part the samples either (by 0.01 of what it changes "
    "in their outputs), else warning; a note where it parts them, and the probability of fitting "
    "is one half or more",
    f"{DANESHMAND}, Eq. (4), Lemma 3 and Theorem 2",
    brings=(DIRECTIONAL_GRADIENT_VANISHING, FORGOTTEN_TARGETS, VANISHING_ADJOINTS, HIDDEN_COLLAPSE),
)


COLLAPSE = (RANK_COLLAPSE, DIRECTIONAL_GRADIENT_VANISHING, FORGOTTEN_TARGETS)
CUT = (NO_GRADIENT, DIRECTIONAL_GRADIENT_VANISHING)  # by an output that is wrong


@rule("representations", RANK_COLLAPSE)
def rank_collapse(profile: Profile) -> Iterator[Finding]:
    """Representations in which all samples point the same way, from some layer to the last."""
    found = _Directions.of(profile)
    ratio = found.ratio
    at = found.since()
    if at is None:
        return
    first, onset, last = ratio.readings[0], ratio.readings[at], ratio.readings[-1]
    differ = found.variation[last.site]
    severe = differ.estimate.value <= ALIKE
    if onset.site == last.site and not severe:  # one step, as of pooling, is no trend over depth
        return
    # how fast the second direction dies, and where it is gone by the numerical rank rule
    excess = [v - 1 for v in ratio.values()]
    fallen = next((i for i, e in enumerate(excess) if e < 1e-12), len(excess))
    fit, pace = trend(ratio.depths[1:fallen], excess[1:fallen]), ""
    if fit is not None and (fit.high if fit.layers > 2 else fit.factor) < 1:
        of_last = (s.spectrum.shape for s in profile.spectra if s.site == last.site)
        # excess at which the second singular value is below the rule
        depth = fit.reaches(2 * (max(next(of_last, (1, 1))) * 1e-7) ** 2)
        pace = f" What exceeds one direction shrinks by a factor {fit.says()} per layer"
        if depth is not None:
            pace += f", which makes it numerically rank one after about {depth:.0f} layers"
        pace += "."
    centred = (found.centred[s] for s in (first.site, last.site) if s in found.centred)
    steps = profile.series(q.TANGENT_VARIATION)
    parting = ""
    over = (first, onset, last, *(steps if severe else ()))
    evidence = (*over, found.variation[first.site], differ, *centred)
    if severe and can_part(profile):
        parting = (
            " A step of all weights changes outputs of single samples by amounts that differ by "
            f"{share_words(steps[0].estimate)} of their size, so that training may part them."
        )
    lost = severe and bool(steps) and not parting
    yield RANK_COLLAPSE.finding(
        onset.site,
        "error" if lost else "note" if parting and likely_to_fit(profile) else "warning",
        tuple(dict.fromkeys(evidence)),
        f"From layer {onset.site} (number {ratio.depths[at]} of {ratio.depths[-1]}) on, all "
        f"samples lie nearly on one line: the participation ratio falls from "
        f"{first.estimate.value:.3g} at the input to {last.estimate.value:.5g} at {last.site}, "
        f"where samples differ by {share_words(differ.estimate)} of their size.{pace}{parting}",
    )


VANISHING_SIGNAL = Kind(
    "vanishing-signal",
    "the mean square falls over the depth by more than a factor 1e5 (warning) or 1e8 (error), or "
    "reaches zero",
    "He et al. 2015, Sec. 2.2",
    brings=(*COLLAPSE, TANGENT_SIZE, DENORMAL_VALUES, VANISHING_ADJOINTS, NO_GRADIENT),
)


EXPLODING_SIGNAL = Kind(
    "exploding-signal",
    "the mean square grows over the depth by more than a factor 1e5 (warning) or 1e8 (error)",
    "He et al. 2015, Sec. 2.2",
    brings=(TANGENT_SIZE, LOUD_OUTPUT, EXPLODING_ADJOINTS, NON_FINITE, VANISHING_ADJOINTS),
)


SIZES = (
    EXPLODING_SIGNAL, VANISHING_SIGNAL, EXPLODING_ADJOINTS, VANISHING_ADJOINTS, TANGENT_SIZE,
)  # fmt: skip


@rule("representations", VANISHING_SIGNAL, EXPLODING_SIGNAL)
def signal_size(profile: Profile) -> Iterator[Finding]:
    """Activations that shrink or grow by orders of magnitude over the depth."""
    size = over_depth(profile, q.MEAN_SQUARE, form="samples")
    if len(size.readings) < 3:
        return
    first, last = size.readings[0], size.readings[-1]
    a, b = first.estimate.value, last.estimate.value
    if a <= 0:
        return
    fit = Series(size.readings[1:], size.depths[1:]).trend()
    pace = f", by a factor {fit.says()} per layer" if fit else ""
    if b == 0:
        zero = next(r for r in size.readings if r.estimate.value == 0)
        yield _signal(
            VANISHING_SIGNAL,
            zero,
            (first, zero),
            "error",
            f"reaches exactly zero at {zero.site}{pace}",
        )
    elif b / a < 1 / SIZE_WARNING:
        severity = "error" if b / a < 1 / SIZE_ERROR else "warning"
        yield _signal(
            VANISHING_SIGNAL, last, (first, last), severity, f"falls from {a:.2g} to {b:.2g}{pace}"
        )
    elif b / a > SIZE_WARNING:
        severity = "error" if b / a > SIZE_ERROR else "warning"
        yield _signal(
            EXPLODING_SIGNAL, last, (first, last), severity, f"grows from {a:.2g} to {b:.2g}{pace}"
        )


def _signal(
    kind: Kind, at: Reading, evidence: tuple[Reading, ...], severity: Severity, what: str
) -> Finding:
    return kind.finding(
        at.site,
        severity,
        evidence,
        f"The mean square of the activations {what}.",
    )


SATURATED_UNITS = Kind(
    "saturated-units",
    "half (warning) or three quarters (error) of what a layer reads from a sigmoid or tanh is at "
    "an end of the range",
    "Glorot & Bengio 2010, Sec. 3",
    brings=(*SIZES, *COLLAPSE, NO_GRADIENT),
)


@rule("setup", SATURATED_UNITS)
def saturated_units(profile: Profile) -> Iterator[Finding]:
    """Squashing units most of which sit at an end of their range."""
    for r in profile.series(q.SATURATED_SHARE):
        if r.estimate.value >= NEARLY:
            yield SATURATED_UNITS.finding(
                r.site,
                "error" if r.estimate.value >= SATURATED else "warning",
                (r,),
                f"{r.estimate.value:.0%} of what {r.site} reads is within a hundredth of an end of "
                f"the range of {r.form}: these units pass nearly no derivative back.",
            )
            return  # the first explains those after it


SILENT_SAMPLES = Kind(
    "silent-samples",
    "a quarter of the samples or more reach a layer as zeros, in every call of it, and no weight "
    "moves them",
    "Lu et al. 2019, Sec. 3",
    brings=(*COLLAPSE, NO_GRADIENT, VANISHING_SIGNAL),
)


@rule("setup", SILENT_SAMPLES)
def silent_samples(profile: Profile) -> Iterator[Finding]:
    """Samples of which a layer passes nothing on: all of its units are off."""
    starting = {r.site for r in profile.series(q.DEAD_UNITS) if r.form}  # zeros that learn
    found = [
        r
        for r in over_depth(profile, q.SILENT_SAMPLES).readings[1:]
        if r.estimate.value > 0 and r.site not in starting
    ]
    first = next((r for r in found if r.estimate.value >= SILENT), None)
    if first is not None:
        yield SILENT_SAMPLES.finding(
            first.site,
            "warning",
            (first,),
            f"{first.estimate.value:.0%} of the samples reach {first.site} as zeros: all units "
            "before it are off for them, and what comes behind cannot tell them apart.",
            ("Take more units in the layer before, or an activation that is never off.",),
        )


LOST_INPUTS = Kind(
    "lost-inputs",
    "the samples of the batch differ, and what the first layer with a representation reads "
    "differs by at most 1e-6 of its size, or is zero; or no output has a gradient by the inputs, "
    "and all are the same to the last bit when samples are exchanged",
    "Arithmetic: a function gives equal outputs for equal inputs",
    even_if_it_learns=True,
    brings=(*COLLAPSE, *SIZES, UNRELATED_TARGETS, NO_GRADIENT, SATURATED_UNITS),
)


DEAD_UNITS = Kind(
    "dead-units",
    "at least 75 % (warning) or 95 % (error) of the units that a layer reads are zero on every "
    "sample in every call of it, and none of the zeros has a derivative by a weight",
    "Lu et al. 2019, Sec. 3",
    brings=(*SIZES, *COLLAPSE, SILENT_SAMPLES, NO_GRADIENT, NO_TANGENTS, LOST_INPUTS),
)


@rule("representations", DEAD_UNITS)
def dead_units(profile: Profile) -> Iterator[Finding]:
    """Layers nearly all of whose units are zero on every sample."""
    found = [
        r
        for r in over_depth(profile, q.DEAD_UNITS).readings
        if r.estimate.value >= DEAD_WARNING and not r.form  # those of a form learn
    ]
    if found:
        worst = max(found, key=lambda r: r.estimate.value)
        others = f" (and most units of {len(found) - 1} other layers)" if len(found) > 1 else ""
        yield DEAD_UNITS.finding(
            found[0].site,
            "error" if worst.estimate.value >= DEAD_ERROR else "warning",
            tuple(found[:8]),
            f"{100 * worst.estimate.value:.0f} % of the units that {worst.site} reads are zero "
            f"on every sample{others}: they pass nothing on and learn nothing.",
            (
                "Lower the learning rate that killed them, or start from smaller biases.",
                "Use a leaky activation.",
            ),
        )


SIGMOID_STACK = Kind(
    "sigmoid-stack",
    "four layers or more, and half of all, read what a sigmoid wrote; or two where the rank "
    "collapses",
    "Glorot & Bengio 2010, Sec. 3.1",
    brings=(*SIZES, *COLLAPSE, SATURATED_UNITS),
)


@rule("setup", SIGMOID_STACK)
def sigmoid_stack(profile: Profile) -> Iterator[Finding]:
    """Sigmoids between most layers of a deep network without normalisation to undo them."""
    found = [r for r in profile.series(q.SATURATED_SHARE) if r.form in ("sigmoid", "hardsigmoid")]
    layers = len(profile.layers)
    explains = len(found) >= 2 and any(rank_collapse(profile))  # fewer, where samples are alike
    if (len(found) >= 4 or explains) and len(found) >= MOST * layers:
        yield SIGMOID_STACK.finding(
            found[0].site,
            "warning",
            (found[0],),
            f"{len(found)} of {layers} layers read what a sigmoid wrote: its slope is at most 1/4, "
            "so that derivatives shrink with every layer, and its outputs are all positive, so "
            "that samples become alike.",
            ("Use ReLU, GELU or tanh between layers; keep the sigmoid for gates and the end.",),
        )


LAYER_GAIN = Kind(
    "layer-gain",
    "of eight layers or more, each multiplies the mean square by the same factor (to 10 %, at 95 "
    "%), over the depth more than 1e3, and the interval of the factor excludes 1: by how much the "
    "weights must be scaled is told",
    "He et al. 2015, Sec. 2.2",
    brings=(*SIZES, LOUD_OUTPUT, SATURATED_UNITS, DENORMAL_VALUES, NO_GRADIENT),
)


@rule("representations", LAYER_GAIN)
def layer_gain(profile: Profile) -> Iterator[Finding]:
    """A deep network in which every layer changes the size of its signal by the same factor."""
    size = over_depth(profile, q.MEAN_SQUARE, form="samples")
    inner = Series(size.readings[1:], size.depths[1:])
    fit = inner.trend() if len(inner.readings) >= DEEP else None
    if fit is None or not min(inner.values()) > 0:
        return
    first, last = inner.values()[0], inner.values()[-1]
    steady = fit.low > 0 and (fit.high / fit.low) ** 0.5 < 1 + STEADY
    told = steady and not fit.low <= 1 <= fit.high
    if told and max(last / first, first / last) > CHANGED:
        scale = fit.factor**-0.5
        yield LAYER_GAIN.finding(
            inner.readings[0].site,
            "warning",
            (inner.readings[0], inner.readings[-1]),
            f"A layer multiplies the mean square of its signal by {fit.says()} on average: from "
            f"the first to the last of {len(inner.readings)} it changes by a factor "
            f"{last / first:.2g}. For this depth and activation the weights must be {scale:.2f} "
            "times as large.",
            (
                f"Multiply the initial weights of every layer by {scale:.2f}; for ReLU that is "
                "He's scale (`nn.init.kaiming_normal_`), where Glorot's is made for tanh. Or "
                "normalise.",
            ),
        )


@rule("representations", LOST_INPUTS)
def lost_inputs(profile: Profile) -> Iterator[Finding]:
    """Samples that differ, and a first representation that is the same for all of them."""
    distinct = next(iter(profile.series(q.DISTINCT_SAMPLES)), None)
    if distinct is None or distinct.estimate.low < 2:
        return
    unread = next((r for r in profile.series(q.UNREAD_SHARE) if r.site == "(model)"), None)
    if unread is not None:
        yield LOST_INPUTS.finding(
            "(model)",
            "error",
            (distinct, unread),
            f"The batch holds {distinct.estimate.value:.0f} different samples, and the output is "
            "the same whichever it is given, to the last bit: no way leads from the inputs to it.",
            (
                "Look for samples and places that are taken for one another (`batch_first=True`, a "
                "transpose), for what is read of a sequence at the end, and for a factor of zero.",
            ),
        )
        return
    every = over_depth(profile, q.RELATIVE_VARIATION, form="samples").readings
    first = next(iter(every), None)
    empty = empty_inputs(profile)
    if empty is None and (first is None or first.estimate.value > SAME):
        return
    # sequences may begin alike, and differ where the same layer reads them next
    later = (r for r in every if first and r.site.partition("#")[0] == first.site)
    if empty is None and any(r.estimate.value > HIDDEN for r in later):
        return
    read = empty or first
    assert read is not None
    apart = "it is zero" if empty else f"it differs by {share_words(read.estimate)} of its size"
    yield LOST_INPUTS.finding(
        read.site,
        "error",
        (distinct, read),
        f"The batch holds {distinct.estimate.value:.0f} different samples, and what {read.site} "
        f"reads is the same for all of them ({apart}): what tells samples apart is lost on the way "
        "to it.",
        (
            "Look at what is done between the inputs and this layer: a mask the wrong way "
            "round, a sum over samples or over padding, an index, a factor of zero.",
        ),
    )
