"""Rules on steps that cannot be made, or that change nothing of the model."""

from collections.abc import Iterator
from types import MappingProxyType

from sigmascope.diagnosis.rules.training import BETTER, STUCK, Runs, left_words
from sigmascope.diagnosis.training.trials import (
    ALONE as COMPARED,
    GOOD,
    PLANNED,
    REGISTERED,
)
from sigmascope.records import Finding, Profile

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
ALONE, BY_CHANCE = 0.5, 0.05  # share of batches of one class, and where samples are mixed
ARITHMETIC = "Arithmetic: what is not handed over takes no step"


def left_out(profile: Profile) -> Iterator[Finding]:
    """Weights to be trained that the optimiser does not hold."""
    held = {r.site: r.estimate.value for r in profile.series("weights held")}
    for r in profile.series("weights left out"):
        if held.get(r.site) == 0:
            yield Finding(
                "foreign-optimiser",
                "(training)",
                "error",
                (r, *profile.series("weights held")),
                "The optimiser holds no parameter of the model, which has "
                f"{r.estimate.value:.0f} to be trained: it was made for another model, or the "
                "model was made anew behind it. No step changes anything.",
                ARITHMETIC,
                ("Make the optimiser behind the model, of `model.parameters()`.",),
            )
        else:
            yield Finding(
                "untrained-weights",
                "(training)",
                "warning",
                (r,),
                f"{r.estimate.value:.0f} parameters require gradients, and the optimiser does not "
                "hold them: no step changes them.",
                ARITHMETIC,
                ("Give the optimiser `model.parameters()`, or freeze what is not to be trained.",),
            )


def unregistered(profile: Profile) -> Iterator[Finding]:
    """Weights that the loss depends on and that are no parameters of the model."""
    runs = Runs.of(profile)
    for r in profile.series("weights that no module holds"):
        helps = runs.better(REGISTERED)
        says = "" if not helps else (
            f" {runs.says()}; with all of them trained, {runs.left(REGISTERED):.0%}."
        )  # fmt: skip
        yield Finding(
            "unregistered-weights",
            "(training)",
            "error" if helps and runs.left() >= GOOD else "warning",
            (r, *(runs.evidence(REGISTERED) if helps else ())),
            f"The loss depends on {r.estimate.value:.0f} trainable tensors that are no parameters "
            f"of the model, the first {r.form}: `model.parameters()` does not give them, so that "
            f"no step changes them, `.to()` does not move them and no checkpoint holds them.{says}",
            ARITHMETIC,
            (
                "Keep layers in `nn.ModuleList` or `nn.ModuleDict`, and single tensors as "
                "`nn.Parameter` attributes, rather than in plain lists and dictionaries.",
            ),
        )


def outweighed(profile: Profile) -> Iterator[Finding]:
    """A term of the loss beside which what compares outputs with targets does not count."""
    runs = Runs.of(profile)
    mine, theirs = (runs.value("error left", form) for form in (PLANNED, COMPARED))
    if mine >= STUCK and theirs < BETTER:
        yield Finding(
            "outweighed-error",
            "(loss)",
            "error",
            tuple(runs.readings["error left", form] for form in (PLANNED, COMPARED)),
            "The loss reads several outputs, and the part that compares one of them with the "
            f"targets is not learned: {left_words(mine)} its best constant's is left after "
            f"{runs.steps} steps at your settings. Without the gradients of the other "
            f"parts, and with nothing else changed, {theirs:.0%}.",
            "Measured: training of copies",
            (
                "Weigh the terms against each other: take sums over the same dimensions and means "
                "over the same ones (a divergence that is summed over samples beside an error "
                "that is a mean), and give the other term a factor that may grow as it trains.",
            ),
        )


def failing_training(profile: Profile) -> Iterator[Finding]:
    """Training steps that raise, or a loss that no weight is in."""
    for gap in profile.skipped:
        if gap.what == "training" and gap.site in FAILED:
            yield Finding(
                "failing-training",
                "(training)",
                "error",
                (),
                f"A training step at your settings does not work: {gap.why}",
                "Measured: training of a copy",
                tuple(do for words, do in WORDS.items() if words in gap.why),
            )


def sorted_samples(profile: Profile) -> Iterator[Finding]:
    """A loader that gives samples as they lie, one class after the other."""
    mixed = {r.site: r for r in profile.series("the same if mixed")}
    for r in profile.series("batches of one class"):
        chance = mixed[r.site]
        if r.estimate.value >= ALONE and chance.estimate.value < BY_CHANCE:
            yield Finding(
                "sorted-samples",
                r.site,
                "warning",
                (r, chance),
                f"The loader gives samples as they lie, and {r.estimate.value:.0%} of the batches "
                f"that were looked at hold one class alone, where {chance.estimate.value:.2g} of "
                "mixed ones would: each step unlearns what those before it taught.",
                "Bottou, Curtis & Nocedal 2018, Sec. 4",
                ("Mix the samples: `DataLoader(…, shuffle=True)`.",),
            )
