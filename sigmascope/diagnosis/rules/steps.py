"""Rules on steps that cannot be made, or that change nothing of the model."""

from collections.abc import Iterator
from types import MappingProxyType

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


def failing_training(profile: Profile) -> Iterator[Finding]:
    """Training steps that raise, or a loss that no weight is in."""
    for gap in profile.skipped:
        if gap.what == "training" and gap.site != "(training)":
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
