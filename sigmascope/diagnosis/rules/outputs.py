"""Rules on whether outputs, targets and loss suit one another, whatever the weights.

They speak in an order: what makes an output or a loss meaningless comes first, and silences what
would only repeat it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sigmascope.core import quantities as q
from sigmascope.core.records import Fact, Finding, Kind, Profile, Reading, Severity, rule
from sigmascope.diagnosis.rules.data import UNSCALED_TARGETS
from sigmascope.diagnosis.rules.gradients import NO_GRADIENT, NO_TANGENTS
from sigmascope.diagnosis.rules.representations import (
    COLLAPSE,
    CUT,
    DIRECTIONAL_GRADIENT_VANISHING,
    LOUD_OUTPUT,
    UNRELATED_TARGETS,
)
from sigmascope.diagnosis.rules.training import TRAINING
from sigmascope.diagnosis.rules.trends import samples_of
from sigmascope.diagnosis.trainability.model import likely_to_fit
from sigmascope.survey.views.task import ADRIFT, ENDLESS, EVENLY, UNPAIRED

SEARCHED = "quasi-newton"  # through operations number by number or row by row
WHOLE = 2e-3  # of a number of classes, by which one that is found may miss
REACH_ERROR, REACH_WARNING = 0.5, 0.05  # of the way from the least loss to the best constant's
GOODFELLOW = "Goodfellow et al. 2016, Sec. 6.2.2"
BISHOP = "Bishop 2006, Sec. 4.3"
CLASSES = ("classes", "one of many")
UNFIT = "unfit targets"  # what was not measured where targets do not go with the output
LOGARITHM = 1e-3  # no logarithm of a probability is above zero
NOTHING = 1e-6  # a loss that is none, but for rounding
ONE_COLUMN = "constant, of one column"
UNIT = 1.0 + 1e-3  # outputs up to this lie between 0 and 1
INDIFFERENT = "The loss does not change with the outputs, whatever these are: its gradient is zero."
ALONE = " A softmax over one output is always 1, and its cross-entropy 0."
ELSEWHERE = (
    " It has one at the weights all the same, which reach it in another way, as where the loss "
    "calls the model itself: then it is as it is meant, and nothing can be said of outputs."
)
ONE_EACH = "Give the model one output for each class, or take a loss for one output."
STEPPED = (
    "The loss changes with the outputs in steps only, as what is rounded, compared or chosen by "
    "`argmax` does, or is cut off from them: its gradient is zero."
)
READ = "Hand the loss what the model puts out for these targets; look for `detach` and `.data`."
SMOOTH = "Take a loss of the scores themselves (cross-entropy for classes); count hits beside it."
DOUBLE = (
    "The model ends in {op}, and the loss takes scores, of which it makes probabilities by a "
    "softmax of its own: of numbers between 0 and 1 it makes probabilities that are nearly equal, "
    "and gradients are small."
)
SCORES = (
    "The model ends in {op}, and the loss takes scores of any size, of which it makes "
    "probabilities by a softmax of its own: {op} keeps them in a range, and units at its end "
    "learn nothing."
)
BEYOND_UNIT = (
    "The loss takes probabilities, and the model ends in {op}, which goes beyond 0 or 1: there the "
    "loss is cut off or undefined, and units that {op} switches off learn nothing."
)
APART = (
    "One class of many holds for each row, and the loss takes the probability of each class; the "
    "model ends in {op}, whose outputs do not sum to one: what is said of one class says nothing "
    "of the others."
)
LOGS = (
    "The loss takes logarithms of probabilities, and the model ends in {op}: it is no logarithm, "
    "and the loss has no steep slope where the answer is wrong."
)
LEFT_OVER = (
    "as it should be where the output is what an equation leaves over, or scores of which the "
    "first is right; else there is nothing to tell apart."
)


@dataclass(frozen=True, slots=True)
class _Task:
    """What a profile tells of outputs, targets and loss."""

    readings: dict[str, Reading]
    facts: dict[str, Fact]

    @classmethod
    def of(cls, profile: Profile) -> "_Task":
        read = {r.quantity: r for r in reversed(profile.readings) if r.view == "setup"}
        return cls(read, {f.quantity: f for f in reversed(profile.facts)})

    def has(self, name: str) -> bool:
        return name in self.readings or name in self.facts

    def word(self, name: str) -> str:
        return self.facts[name].word if name in self.facts else ""

    def value(self, name: str, default: float = math.nan) -> float:
        return self.readings[name].estimate.value if name in self.readings else default

    def evidence(self, *names: str) -> tuple[Reading | Fact, ...]:
        every = self.readings | self.facts
        return tuple(every[n] for n in names if n in every)

    @property
    def kind(self) -> str:
        """What the targets are; a single one that is no number of a class is a value."""
        kind = self.word(q.KIND_OF_TARGETS)
        alone = self.value(q.DISTINCT_TARGETS) == 1 and kind != "classes"
        return "values" if alone else kind

    @property
    def coupling(self) -> str:
        return self.word(q.COUNTED_BY_THE_LOSS)

    @property
    def probabilities(self) -> bool:
        return self.word(q.TAKEN_BY_THE_LOSS) == "probabilities"

    @property
    def closing(self) -> str:
        """The last operation, in words; empty where nothing is done behind the last weight."""
        return self.word(q.LAST_OPERATION).replace("none", "")

    @property
    def known(self) -> bool:
        """Whether it is known which outputs the model can have."""
        return self.has(q.LAST_OPERATION)

    @property
    def within_unit(self) -> bool:
        """Whether all outputs lie between 0 and 1."""
        least, most = self.value(q.LEAST_OUTPUT, -math.inf), self.value(q.GREATEST_OUTPUT, math.inf)
        return least > -1e-3 and most < UNIT

    @property
    def meaningless(self) -> bool:
        """Whether no weights could matter."""
        return self.has(q.CONSTANT_OUTPUT) or self.indifferent

    @property
    def indifferent(self) -> bool:
        """Whether the loss has no slope at all by the outputs."""
        return self.word(q.INDIFFERENT_LOSS) not in ("", UNPAIRED)


SQUARED_ERROR_FOR_CLASSES = Kind(
    "squared-error-for-classes",
    "targets are classes, and the loss is least at outputs of 0 and 1, as a squared error is (a "
    "note)",
    GOODFELLOW,
)


@rule("task", SQUARED_ERROR_FOR_CLASSES)
def squared_error_for_classes(profile: Profile) -> Iterator[Finding]:
    """Classes, and a loss that takes their numbers for values."""
    task = _Task.of(profile)
    classes = task.kind in (*CLASSES, "yes or no", "several of many")
    plain = task.has(q.TAKEN_BY_THE_LOSS) and not task.probabilities
    other = task.coupling == "scores" or task.has(q.LOSS_OF_LOGARITHMS)
    if not classes or not plain or other or task.meaningless:
        return
    if not task.has(q.LABELS_ARE_THE_BEST_OUTPUTS):  # as logits are not
        return
    yield SQUARED_ERROR_FOR_CLASSES.finding(
        "(loss)",
        "note",
        task.evidence(
            q.DISTINCT_TARGETS,
            q.KIND_OF_TARGETS,
            q.TAKEN_BY_THE_LOSS,
            q.LAST_OPERATION,
        ),
        "The targets are classes, and the loss takes outputs for values, as a squared error does: "
        "its slope vanishes where a wrong class is put out with certainty.",
        ("Take cross-entropy: for classes of scores, or a binary one for each label.",),
    )


OUT_OF_REACH = Kind(
    "out-of-reach",
    "the least loss of the outputs that the model can have, whatever its weights, is 5 % "
    "(warning) or 50 % (error) of the way from the least loss of all outputs to that of the best "
    "constant; or so much of the targets' variance is beyond the width of the last layer. Looked "
    "for where outputs that are what the targets say have about the least loss. An error only "
    "where the range of the output excludes targets, number by number or row by row; a search "
    "that found no better is a note, and classes that can be told apart all the same make it a "
    "warning",
    "Arithmetic: the best outputs within the range of the last operation",
    proven=True,
    brings=(
        *TRAINING,
        UNSCALED_TARGETS,
        LOUD_OUTPUT,
        SQUARED_ERROR_FOR_CLASSES,
        *CUT,
    ),
)


@rule("task", OUT_OF_REACH)
def out_of_reach(profile: Profile) -> Iterator[Finding]:
    """Targets that the operations behind the last weight cannot express.

    An error where the outputs have an end that targets lie beyond, or sum to one: that is
    arithmetic. Elsewhere the best outputs were searched for and not found, which a smooth map that
    joins many numbers, as an upsampling does, may be the reason of.
    """
    task = _Task.of(profile)
    beyond = task.value(q.OUT_OF_REACH, 0.0)
    repeated = task.meaningless or task.has(q.SPREAD_TARGETS) or bool(_unsuited(task))
    if beyond < REACH_WARNING or repeated or any(shared_classes(profile)) or not task.kind:
        return
    ends = (q.LEAST_OUTPUT, q.GREATEST_OUTPUT, q.ROWS_THAT_SUM_TO_ONE)
    decided = task.kind in CLASSES and not task.has(q.WRONG_AT_THE_BEST)
    alike = task.has(q.OUT_OF_REACH) and task.readings[q.OUT_OF_REACH].estimate.how == SEARCHED
    bounded = alike and any(map(task.has, ends))
    severity: Severity = "warning" if bounded else "note"
    if bounded and beyond >= REACH_ERROR and not decided:
        severity = "error"
    what = f"{_amount(beyond)} is out of reach, whatever the weights."
    if not bounded:
        what = (
            f"{_amount(beyond)} lies beyond the best outputs that a search through what follows "
            "the last weights has found."
        )
    yield OUT_OF_REACH.finding(
        "(output)",
        severity,
        task.evidence(q.OUT_OF_REACH, *ends, q.WRONG_AT_THE_BEST),
        f"The model ends in {task.closing or 'its last layer'}, and cannot put out what is wanted: "
        f"{what}" + (" Classes can still be told apart." if decided else ""),
        (
            "End in the linear layer itself, or scale the targets into the range of the last "
            "operation.",
        ),
    )


def _amount(beyond: float) -> str:
    if beyond > 1.0:
        return f"even the loss of the best constant ({beyond:.2g} times as far)"
    return f"{beyond:.0%} of the way from the best constant's loss to the least one"


@rule("task", OUT_OF_REACH)
def too_narrow(profile: Profile) -> Iterator[Finding]:
    """A last layer that reads fewer columns than the targets have directions."""
    for r in profile.series(q.VARIANCE_OUT_OF_REACH):
        if r.estimate.value >= REACH_WARNING:
            yield OUT_OF_REACH.finding(
                r.site,
                "error" if r.estimate.value >= REACH_ERROR else "warning",
                (r,),
                f"What {r.site} reads has fewer columns than the targets have directions: "
                f"{r.estimate.value:.0%} of their variance is out of reach, whatever the weights.",
                ("Widen the layer before the last.",),
            )


SOFTMAX_IN_THE_LOSS = Kind(
    "softmax-in-the-loss",
    "no outputs whatever take the loss below `log(1 + (k - 1) / e)` for a whole number k of "
    "classes, which is what a softmax of a softmax leaves",
    GOODFELLOW,
    even_if_it_learns=True,
    brings=(*TRAINING, *CUT),
)


@rule("task", SOFTMAX_IN_THE_LOSS)
def softmax_in_the_loss(profile: Profile) -> Iterator[Finding]:
    """A loss that makes shares of shares: no output takes it below `log(1 + (k - 1) / e)`.

    That is the cross-entropy of a softmax of `k` numbers of which one is 1 and the others are 0.
    """
    task = _Task.of(profile)
    floor, classes = task.value(q.LEAST_LOSS), task.value(q.DISTINCT_TARGETS)
    if task.kind not in CLASSES or task.coupling != "scores" or not floor > 0:
        return
    k = 1 + math.e * math.expm1(min(floor, 50.0))
    if abs(k - round(k)) <= WHOLE * k and round(k) >= max(classes, 2):
        yield SOFTMAX_IN_THE_LOSS.finding(
            "(loss)",
            "warning",
            task.evidence(q.LEAST_LOSS, q.LEAST_LOSS_OF_A_CONSTANT),
            f"No outputs whatever take the loss below {floor:.4g}, which is what a softmax of a "
            f"softmax over {round(k)} classes leaves: the loss takes shares of shares, and its "
            "gradients are small.",
            ("Hand the scores to cross-entropy as they are, without a softmax before it.",),
        )


UNSUITED_CLOSING = Kind(
    "unsuited-closing",
    "the loss takes scores, and the model ends in an operation other than softmax that keeps them "
    "in a range (a note where that keeps little out of reach, and the probability of fitting is "
    "one half or more); or it takes probabilities, and the model ends in one that goes beyond 0 or "
    "1, or whose rows do not sum to one where one class of many holds",
    GOODFELLOW,
    even_if_it_learns=True,
    brings=(*TRAINING, OUT_OF_REACH, *CUT),
)


DOUBLE_SOFTMAX = Kind(
    "double-softmax",
    "the loss takes scores, of which it makes probabilities by a softmax of its own, and the "
    "model ends in a softmax",
    GOODFELLOW,
    even_if_it_learns=True,
    brings=(*TRAINING, OUT_OF_REACH, *CUT),
)


@rule("task", UNSUITED_CLOSING, DOUBLE_SOFTMAX)
def unsuited_closing(profile: Profile) -> Iterator[Finding]:
    """A last operation that does not go with the loss."""
    task = _Task.of(profile)
    shares = task.has(q.ROWS_THAT_SUM_TO_ONE)
    if not task.known or not (task.closing or shares) or task.meaningless:
        return
    why, beyond = _unsuited(task), task.value(q.OUT_OF_REACH, 0.0)
    both = task.has(q.GREATEST_OUTPUT) and task.has(q.LEAST_OUTPUT)
    if not why or (why is SCORES and both and beyond < REACH_WARNING):  # a cap that keeps nothing
        return
    little = task.has(q.OUT_OF_REACH) and beyond < REACH_WARNING
    bears = why is SCORES and little and likely_to_fit(profile)
    severity: Severity = "error" if beyond >= REACH_ERROR and why is not DOUBLE else "warning"
    closing = task.closing or "a mixture of probabilities"
    instead = f"{_closing_for(task)} in place of {closing}."
    if not task.closing:
        instead = "Take the logarithm of the probabilities, and a loss of these (`nll_loss`)."
    elif task.coupling == "scores":
        instead = f"Leave out the {closing}: the loss takes scores as they are."
    elif task.has(q.LOSS_OF_LOGARITHMS) and not task.probabilities:
        instead = "End in a log_softmax, or leave it out and take cross-entropy of scores."
    said = why.format(op=closing)
    if why is DOUBLE and task.has(q.OUT_OF_REACH):
        said += f" {beyond:.0%} of the way to the best constant's loss is out of reach."
    yield (DOUBLE_SOFTMAX if why is DOUBLE else UNSUITED_CLOSING).finding(
        "(output)",
        "note" if bears else severity,
        task.evidence(q.LAST_OPERATION, q.TAKEN_BY_THE_LOSS, q.OUT_OF_REACH, q.GREATEST_OUTPUT),
        said,
        (instead,),
    )


def _unsuited(task: _Task) -> str:
    shares, exclusive = task.has(q.ROWS_THAT_SUM_TO_ONE), task.kind in CLASSES
    bounded = task.has(q.GREATEST_OUTPUT) or task.has(q.LEAST_OUTPUT)
    if task.coupling == "scores":
        logs = task.value(q.GREATEST_OUTPUT, math.inf) <= LOGARITHM
        if shares:
            return DOUBLE
        return SCORES if bounded and not logs else ""
    if task.has(q.LOSS_OF_LOGARITHMS) and not task.probabilities:
        return "" if task.value(q.GREATEST_OUTPUT, math.inf) <= LOGARITHM else LOGS
    if not task.probabilities:
        return ""
    if task.coupling in ("shares", "picked") or exclusive:
        if not shares:
            return APART if task.within_unit else BEYOND_UNIT
        return ""
    return "" if task.within_unit else BEYOND_UNIT


RAW_OUTPUT = Kind(
    "raw-output",
    "the loss takes probabilities, or their logarithms, and the model ends in its last layer as "
    "it is",
    GOODFELLOW,
    even_if_it_learns=True,
    brings=(*TRAINING, LOUD_OUTPUT, *CUT),
)


@rule("task", RAW_OUTPUT)
def raw_output(profile: Profile) -> Iterator[Finding]:
    """A loss of probabilities, and outputs that are not held between 0 and 1."""
    task = _Task.of(profile)
    if not task.known or task.meaningless or task.closing or task.has(q.ROWS_THAT_SUM_TO_ONE):
        return
    logs = task.has(q.LOSS_OF_LOGARITHMS)
    if not (task.probabilities or logs):
        return
    what = "a logarithm of probabilities" if logs and not task.probabilities else "probabilities"
    yield RAW_OUTPUT.finding(
        "(output)",
        "error",
        task.evidence(q.LAST_OPERATION, q.TAKEN_BY_THE_LOSS, q.LOSS_OF_LOGARITHMS),
        f"The loss takes {what}, and the model ends in its last layer as it is: outputs below 0 "
        "and above 1 are none. Where they are cut off, nothing is learned.",
        (f"{_closing_for(task)}, or take the loss that has it inside.",),
    )


def _closing_for(task: _Task) -> str:
    exclusive = task.kind in CLASSES or task.coupling in ("shares", "picked", "scores")
    return f"End in a {'softmax' if exclusive else 'sigmoid'}"


SHARED_CLASSES = Kind(
    "shared-classes",
    "rows of the targets hold several ones or none, and a softmax shares one among them",
    BISHOP,
    even_if_it_learns=True,
    brings=(*TRAINING, OUT_OF_REACH, SQUARED_ERROR_FOR_CLASSES),
)


@rule("task", SHARED_CLASSES)
def shared_classes(profile: Profile) -> Iterator[Finding]:
    """Several labels at once, under a softmax that shares one among them."""
    task = _Task.of(profile)
    softmax = task.has(q.ROWS_THAT_SUM_TO_ONE) or task.coupling in ("scores", "shares")
    if task.kind == "several of many" and softmax and not task.meaningless:
        where = "The model ends" if task.has(q.ROWS_THAT_SUM_TO_ONE) else "The loss begins"
        yield SHARED_CLASSES.finding(
            "(output)",
            "error" if task.value(q.OUT_OF_REACH, 0.0) >= REACH_ERROR else "warning",
            task.evidence(q.KIND_OF_TARGETS, q.ROWS_THAT_SUM_TO_ONE, q.OUT_OF_REACH),
            f"Several labels can hold at once, or none. {where} in a softmax, which shares a "
            "probability of one among them.",
            ("End in a sigmoid for each label, and take binary cross-entropy.",),
        )


SPREAD_TARGETS = Kind(
    "spread-targets",
    "the output has more numbers than the targets, which the loss spreads over it",
    "Arithmetic of shapes",
    proven=True,
    brings=(*TRAINING, OUT_OF_REACH, DIRECTIONAL_GRADIENT_VANISHING),
)


@rule("task", SPREAD_TARGETS)
def spread_targets(profile: Profile) -> Iterator[Finding]:
    """Outputs and targets of different shapes, that the loss compares all the same."""
    task = _Task.of(profile)
    if task.has(q.SPREAD_TARGETS):
        yield SPREAD_TARGETS.finding(
            "(loss)",
            "error",
            task.evidence(q.SPREAD_TARGETS),
            "The output has more numbers than the targets, and the loss compares each with each by "
            "spreading the targets (broadcasting): every output of a sample is drawn to the same "
            "value.",
            ("Give the last layer as many outputs as the targets have columns.",),
        )


CLASSES_ON_ONE_OUTPUT = Kind(
    "classes-on-one-output",
    "targets are few whole numbers that come again and again, on one output that is to be a "
    "probability (error), or a value (note)",
    BISHOP,
    even_if_it_learns=True,
    brings=(*TRAINING, OUT_OF_REACH, UNSCALED_TARGETS),
)


@rule("task", CLASSES_ON_ONE_OUTPUT)
def classes_on_one_output(profile: Profile) -> Iterator[Finding]:
    """Classes by number, of which one output is to be a probability."""
    task = _Task.of(profile)
    if task.kind != "ids as values" or task.meaningless:
        return
    probability = task.probabilities or (task.known and task.within_unit)
    count = task.value(q.DISTINCT_TARGETS)
    yield CLASSES_ON_ONE_OUTPUT.finding(
        "(targets)",
        "error" if probability else "note",
        task.evidence(
            q.DISTINCT_TARGETS,
            q.KIND_OF_TARGETS,
            q.TAKEN_BY_THE_LOSS,
            q.GREATEST_OUTPUT,
        ),
        f"The targets are {count:.0f} whole numbers that come again and again, on one output"
        + (
            " that is to be a probability: of several classes one number between 0 and 1 cannot "
            "tell which."
            if probability
            else ". If they name classes, the distance between their numbers means nothing."
        ),
        (f"Take one output for each of the {count:.0f} classes, and cross-entropy.",),
    )


SINGLE_TARGET = Kind(
    "single-target",
    "all targets are the same (error from eight samples on; a note where nothing that the last "
    "weight could write for all samples alike is known to give them, as where the output is a "
    "residual)",
    "Arithmetic: a constant has no variance",
    even_if_it_learns=True,
    brings=(*TRAINING, *COLLAPSE, UNRELATED_TARGETS),
)


@rule("task", SINGLE_TARGET)
def single_target(profile: Profile) -> Iterator[Finding]:
    """Targets that are all the same."""
    task = _Task.of(profile)
    told = profile.series(q.DISTINCT_TARGETS)
    if told and told[0].estimate.value == 1 and samples_of(profile) > 1:
        severity: Severity = "error" if samples_of(profile) >= 8 else "warning"
        says = "there is nothing to tell apart, and a constant fits them."
        if any(gap.what == EVENLY for gap in profile.skipped):
            severity, says = "note", LEFT_OVER
        yield SINGLE_TARGET.finding(
            "(targets)",
            severity,
            task.evidence(q.DISTINCT_TARGETS),
            f"All targets are the same: {says}",
            ("Look at what made the targets; read samples in random order.",),
        )


MISPLACED_MASKS = Kind(
    "misplaced-masks",
    "half of the masks or more belong to their images in another place, flipped, turned or "
    "shifted, each in its own way",
    "Arithmetic: cross-correlation of a mask and its image, in all places",
    even_if_it_learns=True,
    brings=TRAINING,
)


@rule("task", MISPLACED_MASKS)
def misplaced_masks(profile: Profile) -> Iterator[Finding]:
    """Images that were moved without their masks."""
    for r in profile.series(q.MISPLACED_MASKS):
        if r.estimate.value >= 0.5:
            yield MISPLACED_MASKS.finding(
                r.site,
                "warning",
                (r,),
                f"{r.estimate.value:.0%} of the masks agree twice as well with their images when "
                "they are flipped, turned or shifted, each in its own way: images were moved, and "
                "their masks were not.",
                ("Move both by the same draw: flips, turns and shifts are of the pair.",),
            )


OMITTED_CLASS = Kind(
    "omitted-class",
    "outputs have no gradient wherever one class holds, which is no filling: not at the ends of "
    "rows, nor of a token of its own",
    "Arithmetic: what has no gradient is not learned",
    even_if_it_learns=True,
)


@rule("task", OMITTED_CLASS)
def omitted_class(profile: Profile) -> Iterator[Finding]:
    """A class of the targets that the loss leaves out."""
    found = profile.series(q.OMITTED_CLASS)
    if found:
        names = ", ".join(r.form for r in found[:3])
        share = math.fsum(r.estimate.value for r in found)
        yield OMITTED_CLASS.finding(
            "(loss)",
            "warning",
            tuple(found[:4]),
            f"{share:.0%} of the targets are {names}, and the loss leaves them out: its gradient "
            "is zero wherever they hold, so that nothing is learned of them, and what the loss "
            "says of the rest does not count them.",
            (
                "Look at `ignore_index` and `weight` of the loss: a number that is a class here is "
                "taken for filling. Number classes from 0, and fill with -100.",
            ),
        )


REVERSED_LOSS = Kind(
    "reversed-loss",
    "the loss of outputs that are what the targets say is larger than that of outputs that "
    "contradict them (a note of one output for yes or no that has no range, which may be a "
    "distance). Of classes by number only where columns are their scores: at equal outputs the "
    "label's is drawn one way, and none of the others that way",
    "Arithmetic: the loss of the targets themselves",
    proven=True,
    brings=(
        *TRAINING,
        *COLLAPSE,
        OUT_OF_REACH,
        RAW_OUTPUT,
        UNSUITED_CLOSING,
        LOUD_OUTPUT,
        UNSCALED_TARGETS,
        NO_GRADIENT,
    ),
)


@rule("task", REVERSED_LOSS)
def reversed_loss(profile: Profile) -> Iterator[Finding]:
    """A loss that is least where the answers are wrong."""
    task = _Task.of(profile)
    names = (q.LOSS_OF_RIGHT_ANSWERS, q.LOSS_OF_WRONG_ANSWERS)
    if task.has(names[0]) and not task.meaningless and not task.has(q.MAXIMISES):
        right, wrong = (task.value(name) for name in names)
        alone = bool(task.readings[names[0]].form)
        distance = task.kind == "yes or no" and not task.within_unit and alone  # small if yes
        yield REVERSED_LOSS.finding(
            "(loss)",
            "note" if distance else "error",
            task.evidence(*names),
            f"The loss of outputs that are what the targets say is {right:.3g}, and that of "
            f"outputs that contradict them {wrong:.3g}: training makes the answers wrong.",
            ("Turn its sign: return `1 - score` or `-score` of what is to be large.",),
        )


UNBOUNDED = Kind(
    "unbounded-loss",
    "the loss falls without end as outputs grow: faster than they do, along its gradient or at "
    "random, for a term of it has the wrong sign, or lacks what holds it; or by what is added to "
    "some columns, for scores of parts are taken for logarithms of their shares",
    "Arithmetic: the loss of outputs that are moved ever farther",
    even_if_it_learns=True,
    brings=(*TRAINING, *COLLAPSE, OUT_OF_REACH, LOUD_OUTPUT, UNSCALED_TARGETS, REVERSED_LOSS),
)


@rule("task", UNBOUNDED)
def unbounded_loss(profile: Profile) -> Iterator[Finding]:
    """A loss that is the lower the larger the outputs are, without end."""
    task = _Task.of(profile)
    if task.word(q.UNBOUNDED_LOSS) == ENDLESS:
        yield UNBOUNDED.finding(
            "(loss)",
            "warning",
            task.evidence(q.UNBOUNDED_LOSS),
            "The loss falls without end as outputs grow, faster than they do: training makes them "
            "large, and not right.",
            (
                "Look for a term with the wrong sign (a divergence that is taken away, an error "
                "that is maximised), or give what is to be large a bound, as a margin.",
            ),
        )
    elif task.word(q.UNBOUNDED_LOSS) == ADRIFT:
        yield UNBOUNDED.finding(
            "(loss)",
            "warning",
            task.evidence(q.UNBOUNDED_LOSS),
            "What is added to some columns of the output comes off the loss, at every sample and "
            "wherever outputs are: training makes them large without end, and the loss falls.",
            (
                "Take `log_softmax` of these columns first, as of the weights of a mixture: what "
                "the loss takes for logarithms of shares is to add up to one.",
            ),
        )


UNPAIRED_LOSS = Kind(
    "unpaired-loss",
    "the gradient of the loss is the same at every sample, for outputs of all sizes and targets "
    "that differ, as where errors are averaged before they are squared",
    "Arithmetic: the gradient of an average of errors",
    proven=True,
    brings=(*TRAINING, *COLLAPSE, OUT_OF_REACH, NO_GRADIENT),
)


@rule("task", UNPAIRED_LOSS)
def unpaired_loss(profile: Profile) -> Iterator[Finding]:
    """A loss that draws the outputs of all samples the same way, whatever their targets."""
    task = _Task.of(profile)
    if task.word(q.INDIFFERENT_LOSS) == UNPAIRED:
        yield UNPAIRED_LOSS.finding(
            "(loss)",
            "error",
            task.evidence(q.INDIFFERENT_LOSS, q.DISTINCT_TARGETS),
            "The gradient of the loss is the same at the outputs of all samples, whatever these "
            "and their targets are: it moves all of them together, and no sample learns a target "
            "of its own.",
            (
                "Make a loss of each error before the mean is taken: `(output - target).square()"
                ".mean()` or `.abs().mean()`, not the square of a mean, nor the mean alone.",
            ),
        )


INDIFFERENT_LOSS = Kind(
    "indifferent-loss",
    "the gradient of the loss is zero at outputs that are made up: it is the same for all, or "
    "changes in steps, as behind `argmax` (a note where it has a gradient at the weights all the "
    "same, as a loss that calls the model itself)",
    "Arithmetic: a constant has no slope",
    proven=True,
    brings=(*TRAINING, *COLLAPSE, NO_GRADIENT, CLASSES_ON_ONE_OUTPUT),
)


@rule("task", INDIFFERENT_LOSS)
def indifferent_loss(profile: Profile) -> Iterator[Finding]:
    """A loss that no output changes."""
    task = _Task.of(profile)
    if task.indifferent and not task.has(q.CONSTANT_OUTPUT):
        kind, classes = task.kind, f"{task.value(q.DISTINCT_TARGETS):.0f}"
        many = f" There are {classes} different targets." if kind == "ids as values" else ""
        form, elsewhere = task.word(q.INDIFFERENT_LOSS), heard_elsewhere(profile)
        alone = form == ONE_COLUMN and abs(task.value(q.LOSS_OF_ZEROS, 0.0)) < NOTHING
        says = f"{INDIFFERENT}{ALONE if alone else ''}{many}"
        yield INDIFFERENT_LOSS.finding(
            "(loss)",
            "note" if elsewhere else "error",
            task.evidence(q.INDIFFERENT_LOSS, q.DISTINCT_TARGETS, q.POLYAK_STEP),
            INDIFFERENT + ELSEWHERE if elsewhere else STEPPED if form == "in steps" else says,
            () if elsewhere else (SMOOTH if form == "in steps" else ONE_EACH if alone else READ,),
        )


def heard_elsewhere(profile: Profile) -> bool:
    """Whether weights are in a loss that knows no outputs, as where it calls the model by itself.

    Copies cannot be trained by it then: it calls the model, and not them.
    """
    task = _Task.of(profile)
    return task.indifferent and task.has(q.POLYAK_STEP)


CONSTANT_OUTPUT = Kind(
    "constant-output",
    "what follows the last weight makes the same of everything, as a softmax over one unit: it is "
    "run by itself on numbers of four sizes",
    "Arithmetic: exp(z) / exp(z) = 1",
    proven=True,
    brings=(
        *TRAINING,
        *COLLAPSE,
        NO_TANGENTS,
        NO_GRADIENT,
        OUT_OF_REACH,
        UNSCALED_TARGETS,
        SQUARED_ERROR_FOR_CLASSES,
    ),
)


@rule("task", CONSTANT_OUTPUT)
def constant_output(profile: Profile) -> Iterator[Finding]:
    """A last operation that makes the same of everything, as softmax over one unit."""
    task = _Task.of(profile)
    if task.has(q.CONSTANT_OUTPUT):
        value = task.value(q.LEAST_OUTPUT)
        yield CONSTANT_OUTPUT.finding(
            "(output)",
            "error",
            task.evidence(q.CONSTANT_OUTPUT, q.OUT_OF_REACH),
            f"The model ends in {task.closing} of what its last weight writes, and that is "
            f"{value:.3g} whatever the weights: nothing can be learned.",
            ("For one probability end in a sigmoid; for a value, in the linear layer itself.",),
        )


UNFIT_TARGETS = Kind(
    "unfit-targets",
    "the loss does not take the targets, or sets each output against the targets of other samples",
    "Arithmetic of shapes",
    proven=True,
)


@rule("task", UNFIT_TARGETS)
def unfit_targets(profile: Profile) -> Iterator[Finding]:
    """Targets that the loss does not take, or sets against outputs of other samples."""
    for gap in profile.skipped:
        if gap.what == UNFIT:
            yield UNFIT_TARGETS.finding(
                gap.site,
                "error",
                (),
                f"Output, targets and loss do not go together: {gap.why}",
            )
