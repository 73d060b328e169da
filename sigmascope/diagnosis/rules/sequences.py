"""Rules on sequence models: what they may see, what they are to write, what is only filling."""

import math
from collections.abc import Iterator

from sigmascope.core import quantities as q
from sigmascope.core.records import Finding, Kind, Profile, Reading, rule
from sigmascope.diagnosis.rules.gradients import NO_GRADIENT
from sigmascope.diagnosis.rules.representations import COLLAPSE, LOUD_OUTPUT, NON_FINITE, SIZES
from sigmascope.diagnosis.rules.training import REMEMBERING, TRAINING, RunsTold

COUNTED = "which targets count"  # where a program decides it by itself
COPIES = 0.99  # share of targets that are inputs
BY_CHANCE = 0.5  # share of such copies that other samples' inputs give
SEEN = 1e-3  # change of earlier outputs, over the differences between samples
FILLED = 0.05  # share of the counted targets
GROWN, SHRUNK = 1e3, 1e-6  # of a gradient over all steps of a recurrent layer
FORGOTTEN = 1e-3  # of the last step's gradient, below which an input hardly counts
PASCANU = "Pascanu, Mikolov & Bengio 2013, Sec. 2.1"


VANISHING_THROUGH_TIME = Kind(
    "vanishing-through-time",
    "the same falls to a millionth or less; a note, or a warning where training learns with "
    "orthogonal recurrent weights and open gates, and did not before",
    PASCANU,
    brings=(*COLLAPSE, NO_GRADIENT),
)


READ_PADDING = Kind(
    "read-padding",
    "a quarter or more of the places that a recurrent layer reads fill the ends of rows, and "
    "outputs change with them (a note)",
    "Arithmetic: the last state of a row that is filled is that of what fills it",
    brings=(VANISHING_THROUGH_TIME, *COLLAPSE, NO_GRADIENT, *TRAINING),
)
READ = 0.25  # of the places of a row


@rule("setup", READ_PADDING)
def read_padding(profile: Profile) -> Iterator[Finding]:
    """States that are taken behind what fills the rows."""
    for r in profile.series(q.READ_FILLING):
        if r.estimate.value >= READ:
            yield READ_PADDING.finding(
                r.site,
                "note",
                (r,),
                f"{r.estimate.value:.0%} of the places that {r.site} reads repeat what fills the "
                "ends of rows, and outputs change with them: what a row says lies as many steps "
                "back.",
                (
                    "Pack the rows (`nn.utils.rnn.pack_padded_sequence`), or take the state of the "
                    "last place of each row that is its own.",
                ),
            )


@rule("setup", VANISHING_THROUGH_TIME)
def vanishing_through_time(profile: Profile) -> Iterator[Finding]:
    """Recurrent layers whose last state hardly depends on what they read first."""
    runs = RunsTold.of(profile)
    helps = runs.ahead(REMEMBERING)
    for steps, factor in _recurrent(profile):
        if _over(factor.estimate.high, steps) < math.log(SHRUNK):
            each = factor.estimate.value
            reach = math.log(FORGOTTEN) / math.log(each) if each > 0 else 0.0
            yield VANISHING_THROUGH_TIME.finding(
                factor.site,
                "warning" if helps else "note",
                (factor, steps, *(runs.evidence(REMEMBERING) if helps else ())),
                f"With every step back the gradient of {factor.site}'s last state by its inputs "
                f"shrinks to {each:.3g} of what it was: of {steps.estimate.value:.0f} steps, those "
                f"more than {reach:.0f} before the last move it less than a thousandth as much, "
                "and what they hold is hardly learned." + (_longer(runs) if helps else ""),
                (
                    "Where early steps matter, read the states of all steps (their mean, or "
                    "attention over them), or both directions.",
                ),
            )


EXPLODING_THROUGH_TIME = Kind(
    "exploding-through-time",
    "over all steps of a recurrent layer, the gradient of its last state by its inputs grows a "
    "thousandfold or more (an error where training breaks, and does not with recurrent weights "
    "that keep what is read)",
    PASCANU,
    brings=(*SIZES, *TRAINING, LOUD_OUTPUT, NON_FINITE),
)


@rule("setup", EXPLODING_THROUGH_TIME)
def exploding_through_time(profile: Profile) -> Iterator[Finding]:
    """Recurrent layers that enlarge gradients from step to step, too far over all.

    An error where training breaks on that alone.
    """
    runs = RunsTold.of(profile)
    broken = runs.left() == math.inf > runs.left(REMEMBERING) or runs.driven(REMEMBERING)
    helps = broken or runs.ahead(REMEMBERING)
    for steps, factor in _recurrent(profile):
        total = _over(factor.estimate.low, steps)
        if total > math.log(GROWN):
            each = factor.estimate.value
            grown = _over(each, steps)  # a logarithm, whose number may be too large
            power = f"{math.exp(grown):.2g}" if grown < 700 else f"1e{grown / math.log(10):.0f}"
            yield EXPLODING_THROUGH_TIME.finding(
                factor.site,
                "error" if broken else "warning",
                (factor, steps, *(runs.evidence(REMEMBERING) if helps else ())),
                f"With every step back the gradient of {factor.site}'s last state by its inputs "
                f"grows {each:.3g} times, and {power} times over the "
                f"{steps.estimate.value:.0f} steps: what is read first outweighs all else, and a "
                "small change of the weights or inputs changes the output beyond recognition."
                + (_longer(runs) if helps else ""),
                ("Clip gradients (`torch.nn.utils.clip_grad_norm_`), or read shorter pieces.",),
            )


def _longer(runs: RunsTold) -> str:
    """What a longer memory changes of the user's run, in words."""
    left = f"{runs.left(REMEMBERING):.0%}"
    kept = "with recurrent weights that keep what is read, and nothing else changed"
    return f" {runs.says()}; {kept}, {left} is left."


def _recurrent(profile: Profile) -> Iterator[tuple[Reading, Reading]]:
    steps = {r.site: r for r in profile.series(q.STEPS)}
    for factor in profile.series(q.STEP_FACTOR):
        if factor.site in steps:
            yield steps[factor.site], factor


def _over(factor: float, steps: Reading) -> float:
    """Logarithm of a factor to the power of the steps between the first and the last."""
    return (steps.estimate.value - 1) * math.log(factor) if factor > 0 else -math.inf


COUNTED_PADDING = Kind(
    "counted-padding",
    "more than 5 % of the targets that have a gradient are one id that fills the ends of rows, to "
    "different lengths, and stands nowhere else",
    "Arithmetic: a mean over all places",
    even_if_it_learns=True,
    brings=TRAINING,
)


@rule("task", COUNTED_PADDING)
def counted_padding(profile: Profile) -> Iterator[Finding]:
    """Filling at the ends of rows that counts in the loss."""
    for r in profile.series(q.COUNTED_PADDING):
        if r.estimate.value > FILLED:
            id_ = r.form.removeprefix("id ")
            yield COUNTED_PADDING.finding(
                r.site,
                "warning",
                (r,),
                f"{r.estimate.value:.0%} of the targets that count in the loss are {id_}, which "
                "fills the ends of rows and stands nowhere else: this share of every step goes "
                "into telling the filling, and the loss is an average over it.",
                (
                    f"Leave it out: `cross_entropy(..., ignore_index={id_})`, or -100 in the "
                    "targets there (but for the first, where it ends the text).",
                ),
            )


COPIED_TARGETS = Kind(
    "copied-targets",
    "more than 99 % of the targets are the input at the place of their output, which chance does "
    "not explain, and no input holds them one place on",
    "Arithmetic: equal inputs and targets",
    even_if_it_learns=True,
    eases=True,
)


@rule("task", COPIED_TARGETS)
def copied_targets(profile: Profile) -> Iterator[Finding]:
    """Targets that stand among the inputs at their own place."""
    chance = {r.site: r.estimate.value for r in profile.series(q.CHANCE_COPIES)}
    if any(r.estimate.value > COPIES for r in profile.series(q.NEXT_INPUTS)):
        return  # which are what is asked for; another input may hold them as well
    if any(s.what == COUNTED for s in profile.skipped):
        return  # places that the model hides may be all that counts
    for r in profile.series(q.TARGETS_THAT_ARE_INPUTS):
        if r.estimate.value > COPIES and chance.get(r.site, 1.0) < BY_CHANCE:
            yield COPIED_TARGETS.finding(
                r.site,
                "warning",
                (r,),
                f"{r.estimate.value:.0%} of the targets are the input at the place of their "
                "output: to copy what is read is all that is asked for.",
                (
                    "To tell the next input, shift: inputs `ids[:, :-1]`, targets `ids[:, 1:]`. To "
                    "fill in what is hidden, hide it among the inputs and let only it count.",
                ),
            )


SKIPPED_INPUTS = Kind(
    "skipped-inputs",
    "more than 99 % of the targets are the input two places on: they were shifted by the data and "
    "once more by the loss",
    "Arithmetic: equal inputs and targets",
    even_if_it_learns=True,
)


@rule("task", SKIPPED_INPUTS)
def skipped_inputs(profile: Profile) -> Iterator[Finding]:
    """The next input is told by nothing that is asked for, but the one behind it."""
    for r in profile.series(q.SKIPPED_INPUTS):
        if r.estimate.value > COPIES:
            yield SKIPPED_INPUTS.finding(
                r.site,
                "warning",
                (r,),
                f"{r.estimate.value:.0%} of the targets are the input two places on from their "
                "output, and not the next one: they are shifted twice.",
                (
                    "Shift once: a model that takes `labels` and computes its loss shifts them "
                    "itself, and is given the inputs as labels.",
                ),
            )


UNSEEN_ORDER = Kind(
    "unseen-order",
    "ids are read by attention, and outputs stay as they are, to rounding, when places between the "
    "first and the last are exchanged among them: no positions are told; right for sets",
    "Vaswani et al. 2017, Sec. 3.5",
    brings=TRAINING,
)


@rule("setup", UNSEEN_ORDER)
def unseen_order(profile: Profile) -> Iterator[Finding]:
    """Attention that is told no positions."""
    for r in profile.series(q.DEPENDENCE_ON_ORDER):
        if r.estimate.value == 0.0:
            yield UNSEEN_ORDER.finding(
                r.site,
                "warning",
                (r,),
                "Outputs stay as they are when places between the first and the last are exchanged "
                "among them: attention is told no positions, and what it reads is a set to it.",
                (
                    "Add positions to what is read (`x + positions[: x.shape[1]]`), unless the "
                    "order of the ids says nothing.",
                ),
            )


LATER_INPUTS_SEEN = Kind(
    "later-inputs-seen",
    "nearly all targets are the next input, and outputs at earlier places change when inputs at "
    "later ones are exchanged (by more than 1e-3 of what tells samples apart): no causal mask",
    "Vaswani et al. 2017, Sec. 3.2.3",
    even_if_it_learns=True,
    eases=True,
)


@rule("task", LATER_INPUTS_SEEN)
def later_inputs_seen(profile: Profile) -> Iterator[Finding]:
    """Outputs that see the inputs that they are to tell."""
    after = {r.site: r for r in profile.series(q.NEXT_INPUTS)}
    for r in profile.series(q.DEPENDENCE_ON_LATER_INPUTS):
        if r.estimate.value > SEEN and r.site in after:
            yield LATER_INPUTS_SEEN.finding(
                r.site,
                "error",
                (r, after[r.site]),
                f"{after[r.site].estimate.value:.0%} of the targets are the next input, and "
                "outputs at earlier places change when inputs at later ones are exchanged, by "
                f"{r.estimate.value:.2g} of what tells samples apart: the model reads the answers. "
                "Its loss will fall, and it will be of no use where later inputs are not there.",
                (
                    "Mask what is later in every operation over the places: `is_causal=True` or a "
                    "lower triangular mask in attention, padding on the left in convolutions, no "
                    "backward direction in recurrent layers, no statistics over places.",
                ),
            )
