"""Rules on steps that cannot be made, or that change nothing of the model."""

from collections.abc import Iterator
from types import MappingProxyType

from sigmascope.core import quantities as q
from sigmascope.core.records import Finding, Kind, Profile, rule
from sigmascope.diagnosis.rules.data import UNSCALED_TARGETS
from sigmascope.diagnosis.rules.representations import LOUD_OUTPUT
from sigmascope.diagnosis.rules.training import (
    ALONE as COMPARED,
    BETTER,
    GOOD,
    PLANNED,
    REGISTERED,
    SETTINGS,
    STUCK,
    TRAINING,
    RunsTold,
    left_words,
)

# what torch says of a step that it cannot make, and what to do about it
WORDS = MappingProxyType(
    {
        "more than 1 value per channel": (
            "Take batches of two samples or more (`batch_size` of a loader is 1 where nothing is "
            "said), and leave out a last batch of one (`drop_last=True`)."
        ),
        "backward through the graph a second time": (
            "Something that the model keeps from one step to the next, as a hidden state, still "
            "has the graph of the step before: keep `state.detach()`."
        ),
        "modified by an inplace operation": (
            "Write what is changed in place as a new tensor: `x = x + y` in place of `x += y`, "
            "activations with `inplace=False`."
        ),
        "does not require grad": (
            "Look for `argmax`, `round`, `.item()`, `.detach()`, `.data` or NumPy between the "
            "weights and the loss."
        ),
    }
)
FAILED = ("(a training step)", "(loader)")  # where a step of the user's own raised
ARITHMETIC = "Arithmetic: what is not handed over takes no step"


FAILING_TRAINING = Kind(
    "failing-training",
    "a training step at your settings raises, or one on a last batch of a single sample, which a "
    "loader leaves; or no weight is in the loss (with `diagnose`, as all rules below)",
    "Measured: training of a copy",
    proven=True,
)


@rule("training", FAILING_TRAINING)
def failing_training(profile: Profile) -> Iterator[Finding]:
    """Training steps that raise, or a loss that no weight is in."""
    for gap in profile.skipped:
        if gap.what == "training" and gap.site in FAILED:
            yield FAILING_TRAINING.finding(
                "(training)",
                "error",
                (),
                f"A training step at your settings does not work: {gap.why}",
                tuple(do for words, do in WORDS.items() if words in gap.why),
            )


OUTWEIGHED_ERROR = Kind(
    "outweighed-error",
    "the loss reads several outputs, the part that compares one of them with the targets keeps 95 "
    "% of its best constant's at your settings, and 80 % or less without the gradients of the "
    "other parts",
    "Measured: training of copies",
    proven=True,
    brings=(*SETTINGS, LOUD_OUTPUT, UNSCALED_TARGETS),
)


@rule("training", OUTWEIGHED_ERROR)
def outweighed(profile: Profile) -> Iterator[Finding]:
    """A term of the loss beside which what compares outputs with targets does not count."""
    runs = RunsTold.of(profile)
    mine, theirs = (runs.value(q.ERROR_LEFT, form) for form in (PLANNED, COMPARED))
    if mine >= STUCK and theirs < BETTER:
        yield OUTWEIGHED_ERROR.finding(
            "(loss)",
            "error",
            tuple(runs.readings[q.ERROR_LEFT, form] for form in (PLANNED, COMPARED)),
            "The loss reads several outputs, and the part that compares one of them with the "
            f"targets is not learned: {left_words(mine)} its best constant's is left after "
            f"{runs.steps} steps at your settings. Without the gradients of the other "
            f"parts, and with nothing else changed, {theirs:.0%}.",
            (
                "Weigh the terms against each other: take sums over the same dimensions and means "
                "over the same ones (a divergence that is summed over samples beside an error "
                "that is a mean), and give the other term a factor that may grow as it trains.",
            ),
        )


UNTRAINED_WEIGHTS = Kind(
    "untrained-weights",
    "the optimizer does not hold all parameters that require gradients",
    ARITHMETIC,
    brings=TRAINING,
)


@rule("training", UNTRAINED_WEIGHTS)
def untrained_weights(profile: Profile) -> Iterator[Finding]:
    """Weights to be trained that the optimizer does not hold, though it holds others."""
    held = {r.site: r.estimate.value for r in profile.series(q.WEIGHTS_HELD)}
    for r in profile.series(q.WEIGHTS_LEFT_OUT):
        if held.get(r.site) != 0:
            yield UNTRAINED_WEIGHTS.finding(
                "(training)",
                "warning",
                (r,),
                f"{r.estimate.value:.0f} parameters require gradients, and the optimizer does not "
                "hold them: no step changes them.",
                ("Give the optimizer `model.parameters()`, or freeze what is not to be trained.",),
            )


UNREGISTERED_WEIGHTS = Kind(
    "unregistered-weights",
    "the loss depends on trainable tensors that the model holds and that are none of its "
    "parameters, as layers in a plain list (an error where a copy in which they are trained "
    "learns, and yours does not)",
    ARITHMETIC,
    proven=True,
    brings=(*SETTINGS, UNTRAINED_WEIGHTS),
)


@rule("training", UNREGISTERED_WEIGHTS)
def unregistered(profile: Profile) -> Iterator[Finding]:
    """Weights that the loss depends on and that are no parameters of the model."""
    runs = RunsTold.of(profile)
    for r in profile.series(q.WEIGHTS_THAT_NO_MODULE_HOLDS):
        helps = runs.better(REGISTERED)
        says = "" if not helps else (
            f" {runs.says()}; with all of them trained, {runs.left(REGISTERED):.0%}."
        )  # fmt: skip
        yield UNREGISTERED_WEIGHTS.finding(
            "(training)",
            "error" if helps and runs.left() >= GOOD else "warning",
            (r, *(runs.evidence(REGISTERED) if helps else ())),
            f"The loss depends on {r.estimate.value:.0f} trainable tensors that are no parameters "
            f"of the model, the first {r.form}: `model.parameters()` does not give them, so that "
            f"no step changes them, `.to()` does not move them and no checkpoint holds them.{says}",
            (
                "Keep layers in `nn.ModuleList` or `nn.ModuleDict`, and single tensors as "
                "`nn.Parameter` attributes, rather than in plain lists and dictionaries.",
            ),
        )


FOREIGN_OPTIMIZER = Kind(
    "foreign-optimizer",
    "the optimizer holds no parameter of the model",
    ARITHMETIC,
    proven=True,
    brings=TRAINING,
)


@rule("training", FOREIGN_OPTIMIZER)
def foreign_optimizer(profile: Profile) -> Iterator[Finding]:
    """An optimizer that was made for another model."""
    held = {r.site: r.estimate.value for r in profile.series(q.WEIGHTS_HELD)}
    for r in profile.series(q.WEIGHTS_LEFT_OUT):
        if held.get(r.site) == 0:
            yield FOREIGN_OPTIMIZER.finding(
                "(training)",
                "error",
                (r, *profile.series(q.WEIGHTS_HELD)),
                "The optimizer holds no parameter of the model, which has "
                f"{r.estimate.value:.0f} to be trained: it was made for another model, or the "
                "model was made anew behind it. No step changes anything.",
                ("Make the optimizer behind the model, of `model.parameters()`.",),
            )
