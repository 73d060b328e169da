"""Mistakes of a training loop, each told from what happened while it ran.

A rule is silent where nothing speaks against a loop, and never reads its text. What a rule finds is
a suspicion until something proves it: arithmetic (`proven`), or an intervention that cures the
script (`scripts.diagnosing`), which its kind names in `CURES`.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from math import exp, isfinite, log, log1p
from statistics import median
from types import MappingProxyType

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Finding, Kind, Reading, Rule, rule
from sigmascope.diagnosis.rules.dependences import MIXED_SAMPLES
from sigmascope.diagnosis.rules.outputs import DOUBLE_SOFTMAX, OUT_OF_REACH, SINGLE_TARGET
from sigmascope.diagnosis.rules.sequences import COPIED_TARGETS, EXPLODING_THROUGH_TIME
from sigmascope.diagnosis.rules.steps import OUTWEIGHED_ERROR
from sigmascope.diagnosis.rules.training import (
    MAXIMISED_LOSS,
    RATE_TOO_HIGH,
    RATE_TOO_LOW,
    TRAINING,
)
from sigmascope.diagnosis.scripts.functions import ALIKE
from sigmascope.diagnosis.scripts.interventions import (
    AllParameters,
    ApartLayers,
    Clipped,
    DerivedFunctions,
    FittedShapes,
    FullRate,
    HoldRate,
    Intervention,
    KeepGradients,
    KeptGraph,
    KeptWeights,
    NoClipping,
    SharperScores,
    Shuffled,
    TrainingMode,
    Unfrozen,
    ZeroGradients,
)
from sigmascope.diagnosis.scripts.replay import OF_VALUES
from sigmascope.diagnosis.scripts.seen import Line, ScriptRun

SOURCE = "What autograd and optimizers of torch do, watched"
MANY = 0.5  # of the steps, from which something is not by chance
FEW = 8  # steps, below which nothing is said of a habit
CONSIDERABLE = 0.1  # of the numbers of a model
THROUGH_TIME = 4  # calls with what was detached, in a step
DRAWN = ("sample", "normal")  # what takes a draw out of the graph
UNSHARED = 0.05  # of a logarithm, that rounding does not explain
REACH = 0.05  # of the spread of targets
LONG = 300  # steps within which the copy of a model is usually made to follow it
WON = 0.05  # of its first loss
NOTHING = 1e-3  # of it
GROWN = 1.5  # times the nodes of the graph at first
DWINDLED = 0.01  # of the highest rate
QUARTER = 0.25  # of the steps


def _where(place: Line | None) -> str:
    return "(script)" if place is None else place.says


def _named(names: tuple[str, ...]) -> str:
    """The first of many names."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"`{n}`" for n in names[:3]) + more


def _share(count: int, of: int) -> tuple[Reading, ...]:
    share = Estimate.exactly(count / max(of, 1))
    return (Reading("(script)", q.SHARE_OF_STEPS, share, "script"),)


GRADIENTS_NOT_ZEROED = Kind(
    "gradients-not-zeroed",
    "an optimizer steps by gradients that still hold those of the steps before",
    SOURCE,
    brings=TRAINING,
)


@rule("script", GRADIENTS_NOT_ZEROED)
def old_gradients(run: ScriptRun) -> Iterator[Finding]:
    """Gradients of all steps so far are added up."""
    for o in run.optimizers:
        later = max(o.looked - 1, 1)  # the first step has nothing before it
        if o.looked >= FEW and o.old >= MANY * later:
            yield GRADIENTS_NOT_ZEROED.finding(
                _where(o.backward or o.place),
                "warning",
                _share(o.old, later),
                f"{o.kind} steps by gradients that were never emptied: in {o.old} of {later} steps "
                "the backward pass added to those of the steps before.",
                (f"Call `optimizer.zero_grad()` before the backward pass ({_where(o.backward)}).",),
            )


ZEROED_BEFORE_STEP = Kind(
    "zeroed-before-step",
    "gradients are emptied between the backward pass and the step, which then does nothing",
    SOURCE,
    proven=True,
)
STEP_BEFORE_BACKWARD = Kind(
    "step-before-backward",
    "an optimizer steps before the backward pass of its loss, when gradients are empty",
    SOURCE,
    proven=True,
)


@rule("script", ZEROED_BEFORE_STEP, STEP_BEFORE_BACKWARD)
def emptied_gradients(run: ScriptRun) -> Iterator[Finding]:
    """The optimizer finds nothing where a backward pass has left something."""
    for o in run.optimizers:
        if o.looked < FEW or o.emptied < MANY * o.looked:
            continue
        if o.ahead >= MANY * o.looked:
            yield STEP_BEFORE_BACKWARD.finding(
                _where(o.place),
                "error",
                _share(o.ahead, o.looked),
                f"{o.kind} steps ({_where(o.place)}) before the backward pass of its loss "
                f"({_where(o.backward)}), and gradients are empty then: no step changes anything.",
                ("Put the step behind the backward pass.",),
            )
        else:
            yield ZEROED_BEFORE_STEP.finding(
                _where(o.zeroed or o.place),
                "error",
                _share(o.emptied, o.looked),
                f"Gradients are emptied ({_where(o.zeroed)}) between the backward pass "
                f"({_where(o.backward)}) and the step ({_where(o.place)}): nothing is changed.",
                ("Empty gradients before the backward pass, or behind the step.",),
            )


ZEROED_BETWEEN_BATCHES = Kind(
    "zeroed-between-batches",
    "several backward passes are made for a step, and gradients are emptied between them",
    SOURCE,
    brings=TRAINING,
)


@rule("script", ZEROED_BETWEEN_BATCHES)
def emptied_between(run: ScriptRun) -> Iterator[Finding]:
    """Gradients that were to be accumulated, of which the last batch alone is left."""
    for o in run.optimizers:
        if o.looked >= FEW and o.dropped >= MANY * o.looked and o.emptied < MANY * o.looked:
            yield ZEROED_BETWEEN_BATCHES.finding(
                _where(o.zeroed or o.place),
                "warning",
                _share(o.dropped, o.looked),
                f"{o.kind} steps once for several backward passes ({_where(o.backward)}), and "
                f"gradients are emptied between them ({_where(o.zeroed)}): the last alone counts.",
                ("Empty gradients behind the step, and not for each batch.",),
            )


NO_GRADIENTS_ARRIVE = Kind(
    "no-gradients-arrive",
    "no backward pass gives anything to the parameters of an optimizer that steps",
    SOURCE,
    proven=True,
)
CUT_GRAPH = Kind(
    "cut-graph",
    "parameters receive no gradient, for what they lead to is taken out of the graph",
    SOURCE,
    proven=True,
    brings=(NO_GRADIENTS_ARRIVE, *TRAINING, OUTWEIGHED_ERROR),
)
CUT_THROUGH_TIME = Kind(
    "cut-through-time",
    "a module is called with what it gave before, detached, several times in a step",
    SOURCE,
    brings=TRAINING,
)
REBUILT_LOSS = Kind(
    "rebuilt-loss",
    "`backward` is called on a number that no computation led to",
    SOURCE,
    proven=True,
    brings=(NO_GRADIENTS_ARRIVE,),
)
NO_BACKWARD = Kind(
    "no-backward",
    "an optimizer steps and no backward pass is made at all",
    SOURCE,
    proven=True,
    brings=(NO_GRADIENTS_ARRIVE,),
)
NO_STEP = Kind(
    "no-step",
    "backward passes are made, and no optimizer steps; or another one than that which holds what "
    "they give to",
    SOURCE,
    proven=True,
)
OTHER_PARAMETERS = Kind(
    "other-parameters",
    "no parameter of the models that are called is in any optimizer",
    SOURCE,
    proven=True,
    brings=(NO_GRADIENTS_ARRIVE,),
)
LEFT_OUT_PARAMETERS = Kind(
    "left-out-parameters",
    "parameters of a model that is called, which take gradients, are in no optimizer; a note where "
    "the model began with the weights of another one, which trains",
    SOURCE,
    brings=TRAINING,
)


@rule("script", REBUILT_LOSS, NO_BACKWARD, NO_STEP)
def cut_off(run: ScriptRun) -> Iterator[Finding]:
    """What the model computed never reaches the optimizer."""
    for loss in run.losses.values():
        if len(loss.values) >= FEW and loss.leaves >= MANY * len(loss.values):
            yield REBUILT_LOSS.finding(
                _where(loss.place),
                "error",
                _share(loss.leaves, len(loss.values)),
                f"`backward` at {_where(loss.place)} is called on a number that was made anew: it "
                "has no history, and no parameter receives a gradient.",
                ("Call it on the loss itself, not on a tensor built from its value.",),
            )
    main = run.main
    if main is not None and main.steps >= FEW and not run.backwards and not main.given_by_hand:
        yield NO_BACKWARD.finding(
            _where(main.place),
            "error",
            _share(main.empty, main.looked),
            f"{main.kind} has stepped {main.steps} times, and no backward pass was made.",
            ("Call `loss.backward()` before the step.",),
        )
    if main is None and run.backwards >= FEW and not run.moved_by_hand:
        loss = run.loss
        yield NO_STEP.finding(
            _where(loss.place if loss else None),
            "error",
            _share(0, run.backwards),
            f"{run.backwards} backward passes were made, and no optimizer has stepped.",
            ("Call `optimizer.step()` behind the backward pass.",),
        )

    vain = next((o for o in run.optimizers if o.vain >= FEW), None)
    unstepped = next((o for o in run.unstepped if o.given >= FEW), None)
    if vain is not None and unstepped is not None:
        yield NO_STEP.finding(
            _where(vain.place),
            "error",
            _share(vain.vain, vain.vain),
            f"{unstepped.given} backward passes gave gradients to {unstepped.kind} "
            f"({_where(unstepped.made)}), which never steps; {vain.kind} ({_where(vain.made)}) "
            f"steps at {_where(vain.place)}, and none gave it anything.",
            ("Step the optimizer that holds what is trained.",),
        )


@rule("script", OTHER_PARAMETERS, LEFT_OUT_PARAMETERS)
def left_out(run: ScriptRun) -> Iterator[Finding]:
    """Parameters that train in no optimizer."""
    for o in run.optimizers:
        if (
            len(run.optimizers) > 1
            and o.looked >= FEW
            and o.backward
            and o.missed >= MANY * o.looked
        ):
            yield OTHER_PARAMETERS.finding(
                _where(o.made or o.place),
                "error",
                _share(o.missed, o.looked),
                f"{o.kind} ({_where(o.made)}) steps at {_where(o.place)}, behind a backward pass "
                f"({_where(o.missed_by)}) that gives nothing to its parameters; what the pass at "
                f"{_where(o.backward)} gives them is emptied before. No step changes anything: two "
                "optimizers, or two losses, were taken for one another.",
                ("Step each optimizer behind the loss of its own parameters.",),
            )
    main = run.main
    called = [m for m in run.modules if m.parameters and m.in_training + m.in_evaluation >= FEW]
    by_hand = main is not None and main.given_by_hand and not (run.backwards and main.old)
    if main is None or main.steps < FEW or not called or by_hand:
        # of gradients that are derived otherwise, or handed on by a copy, it is not known where
        # they belong
        return
    free = [m for m in called if m.parameters > m.frozen]
    outside = [m for m in free if m.outside]
    idle = any(0 < 0.9 * o.looked <= o.empty + o.emptied for o in run.optimizers)
    whole = [m for m in outside if m.outside_numbers >= m.parameters - m.frozen]
    lost = (idle or run.shared) and any(m.outside_given for m in whole)
    # modules may be called with other weights than their own, as by `functional_call`
    unfed = main.vain >= FEW or main.empty + main.emptied >= MANY * main.looked
    if whole and ((unfed and len(whole) == len(free)) or lost):
        twice = f" Several optimizers hold the same {run.shared} tensors." if run.shared else ""
        yield OTHER_PARAMETERS.finding(
            _where(main.made or main.place),
            "error",
            _share(main.empty, main.looked),
            f"{main.kind} ({_where(main.made)}) holds no parameter of what is called "
            f"({', '.join(dict.fromkeys(m.kind for m in whole))}): it was made for another model, "
            f"or the model was made anew behind it.{twice}",
            ("Make the optimizer behind the model, of its `parameters()`.",),
        )
        return
    for m in outside:
        if not m.outside_given and run.backwards:
            continue  # they take none, as of a model that is called and not trained
        holder = next((o for o in run.optimizers if o.foreign >= len(m.outside)), None)
        if holder is not None:
            yield OTHER_PARAMETERS.finding(
                _where(holder.made or holder.place),
                "warning",
                _share(holder.steps, holder.steps),
                f"{holder.kind} ({_where(holder.made)}) holds {holder.foreign} tensors that no "
                f"model that is called has, and not {_named(m.outside)} of {m.kind}, which receive "
                f"gradients and never change ({m.outside_numbers:,} of {m.parameters:,} numbers): "
                "this part of the model was put in the place of another one behind it.",
                ("Make the optimizer when the model has all its parts.",),
            )
            continue
        alike = [o for o in called if o is not m and o.twin and o.kind == m.kind and not o.outside]
        if m.twin and m in whole and alike:  # it follows the other one, as targets of Q-learning do
            yield LEFT_OUT_PARAMETERS.finding(
                _where(m.place),
                "note",
                _share(main.steps, main.steps),
                f"A {m.kind} is called that began with the weights of another one, which trains; "
                "no optimizer has its own. Gradients are computed for it, and left aside: right if "
                "it is to follow the other one, as a target network does.",
                ("Call it under `torch.no_grad()`; if it is to learn, give it to the optimizer.",),
            )
            continue
        yield LEFT_OUT_PARAMETERS.finding(
            _where(main.made or main.place),
            "warning",
            _share(main.steps, main.steps),
            f"No optimizer has {_named(m.outside)} of {m.kind}: {m.outside_numbers:,} of its "
            f"{m.parameters:,} numbers receive gradients and never change.",
            ("Give the optimizer all parameters; keep layers in `nn.ModuleList`, not in a list.",),
        )


FROZEN_PARAMETERS = Kind(
    "frozen-parameters",
    "an optimizer that is made for a later phase holds parameters that take no gradient: a note "
    "unless it holds more than the one before it",
    SOURCE,
)


@rule("script", FROZEN_PARAMETERS)
def frozen_parameters(run: ScriptRun) -> Iterator[Finding]:
    """What was to be trained, too, and is frozen still."""
    whole = sum(m.parameters for m in run.modules)
    for before, o in pairwise(run.optimizers):
        later = o.began > before.ended
        if later and o.steps >= FEW and o.fixed >= CONSIDERABLE * whole > 0:
            yield FROZEN_PARAMETERS.finding(
                _where(o.made or o.place),
                "warning" if o.held > before.held else "note",
                _share(o.steps, o.steps),
                f"{o.kind} ({_where(o.made)}) is the second one, and holds {o.fixed:,} of "
                f"{whole:,} numbers that take no gradient: its steps leave them as they are.",
                ("Set `requires_grad_(True)` on what is to be trained, before its first step.",),
            )


@rule("script", CUT_GRAPH, CUT_THROUGH_TIME)
def cut_graph(run: ScriptRun) -> Iterator[Finding]:
    """Tensors that leave the graph on their way to the loss."""
    told, alone = set[str](), len(run.optimizers) == 1
    for cut in run.cuts:
        if run.steps >= FEW and cut.names and not told.issuperset(cut.names):
            told.update(cut.names)
            share = cut.numbers / max(cut.of, 1)
            yield CUT_GRAPH.finding(
                _where(cut.place),
                "warning" if share >= CONSIDERABLE else "note",
                _share(run.steps, run.steps),
                f"{_named(cut.names)} ({cut.numbers:,} of {cut.of:,} numbers) receive no gradient "
                "in any step: what they lead to is taken out of the graph at "
                f"{_where(cut.place)}, by `{cut.how}`.",
                ("Keep the tensor itself on the way to the loss.",),
            )
        elif run.steps >= FEW and cut.lost >= 2:
            yield CUT_GRAPH.finding(
                _where(cut.place),
                "warning",
                _share(run.steps, run.steps),
                f"The loss is made of a derivative that is taken at {_where(cut.place)} and has no "
                "graph itself: it is a number to it, by which no weight learns.",
                ("Take it with `torch.autograd.grad(..., create_graph=True)`.",),
            )
        elif run.steps >= FEW and cut.fed >= THROUGH_TIME:
            yield CUT_THROUGH_TIME.finding(
                _where(cut.place),
                "warning",
                _share(run.steps, run.steps),
                f"What is carried on is detached at {_where(cut.place)}, about {cut.fed:.0f} times "
                "in a step: no gradient reaches what came before, and nothing is learned of it.",
                ("Detach once for each backward pass, not with each element of a sequence.",),
            )
        elif cut.how == "grad":  # as of inputs that are moved along it
            continue
        elif alone and run.steps >= FEW and cut.across >= 1 and not cut.scored:
            drawn = cut.how in DRAWN
            yield CUT_GRAPH.finding(
                _where(cut.place),
                "warning" if drawn else "note",
                _share(run.steps, run.steps),
                f"A module is called with what is taken out of the graph at {_where(cut.place)}, "
                f"by `{cut.how}`: what leads there learns nothing from what follows.",
                (
                    "Draw by `rsample()`, or as mean plus spread times noise, which gradients go "
                    "through."
                    if drawn
                    else "Keep the tensor itself, if what leads there is to learn by it.",
                ),
            )


IDLE_PARAMETERS = Kind(
    "idle-parameters",
    "parameters that lead to the loss receive gradients of exactly zero in every step: all that an "
    "optimizer holds (error), or some that are zero themselves (a warning of a tenth of the "
    "numbers, else a note)",
    "Arithmetic: of two factors that are zero neither has a slope",
)


@rule("script", IDLE_PARAMETERS)
def idle_parameters(run: ScriptRun) -> Iterator[Finding]:
    """Weights whose slope is nothing, wherever the others go."""
    lost = {name for cut in run.cuts for name in cut.names}
    for o in run.optimizers:
        names = tuple(n for n in o.zero_names if n)
        if o.looked < FEW or not o.zero or (names and lost.issuperset(names)):
            continue
        whole, share = o.zero == o.numbers, o.zero / max(o.numbers, 1)
        if not whole and not o.zero_weights:
            continue  # a part that is left out by a factor of zero is left out on purpose
        which = _named(names) if names else f"{len(o.zero_names)} tensors"
        why = (
            "they are zero themselves, and of two factors that are zero neither learns."
            if o.zero_weights
            else "nothing that depends on them is left in the loss, or what they are multiplied by "
            "is zero."
        )
        yield IDLE_PARAMETERS.finding(
            _where(o.made or o.place),
            "error" if whole else "warning" if share >= CONSIDERABLE else "note",
            _share(o.looked, o.looked),
            f"{which} ({o.zero:,} of {o.numbers:,} numbers that {o.kind} holds) lead to the loss, "
            f"and receive gradients of exactly zero in every step: {why}",
            (
                "Draw one of the two at random, and leave the other at zero."
                if o.zero_weights
                else "Look at what is done with what they give: a softmax over one number, a unit "
                "that is off, a factor of zero.",
            ),
        )


@rule("script", NO_GRADIENTS_ARRIVE)
def nothing_arrives(run: ScriptRun) -> Iterator[Finding]:
    """Steps for which no backward pass gave anything."""
    for o in run.optimizers:
        if o.looked >= FEW and o.empty >= 0.9 * o.looked and run.backwards:
            yield NO_GRADIENTS_ARRIVE.finding(
                _where(o.place),
                "error",
                _share(o.empty, o.looked),
                f"In {o.empty} of {o.looked} steps {o.kind} found no gradient in what it holds: no "
                "backward pass reaches its parameters.",
                (
                    "Look for `detach()`, `.data`, `.item()`, `no_grad()` or a new tensor between "
                    "the model and the loss.",
                ),
            )


UNSUITED_WEIGHTS = Kind(
    "unsuited-weights",
    "a script that does not come far does with weights that are drawn as their layers draw them",
    SOURCE,
)
SUMMED_LOSS = Kind(
    "summed-loss",
    "the loss is a sum over many numbers, and with a rate that is divided by their number the "
    "script comes farther",
    SOURCE,
    brings=(RATE_TOO_HIGH,),
)
DIVIDED_TWICE = Kind(
    "divided-twice",
    "a loss is divided by the number of passes that are accumulated, and once more by what passes "
    "it back",
    "Arithmetic: gradients of so many passes add up to the mean if each is divided by their number",
    proven=True,
    brings=(RATE_TOO_LOW,),
)


@rule("script", DIVIDED_TWICE)
def divided_twice(run: ScriptRun) -> Iterator[Finding]:
    """Accumulated gradients that are as many times too small."""
    for place, by in run.divided.items():
        passes = run.backwards / max(run.steps, 1)
        if run.steps < FEW or not 0.7 * by <= passes <= 1.5 * by:  # the last round may be shorter
            continue
        moves = run.main is not None and run.main.kind in ("SGD", "ASGD")
        yield DIVIDED_TWICE.finding(
            _where(place),
            "warning" if moves else "note",
            _share(run.steps, run.steps),
            f"The loss is divided by {by} twice before it is passed back ({_where(place)}), and "
            f"{by} passes make a step: its gradient is 1/{by} of the gradient of their mean"
            + ("." if moves else ", which this optimizer makes up for."),
            ("Divide once: Accelerate, Lightning and Trainer do it where they pass a loss back.",),
        )


STALE_TARGET = Kind(
    "stale-target",
    "the copy of a model whose maximum makes the targets was never made to follow it, in all of a "
    "run; a note where that was stopped",
    "Mnih et al. 2015, Algorithm 1: the target network is reset every C steps",
    brings=TRAINING,
)


@rule("script", STALE_TARGET)
def stale_target(run: ScriptRun) -> Iterator[Finding]:
    """Targets of a network that was never trained."""
    for each in run.stale:
        if run.steps >= FEW and (not run.stopped or each.steps >= LONG):
            yield STALE_TARGET.finding(
                _where(each.place),
                "note" if run.stopped else "warning",
                _share(run.steps, run.steps),
                f"The targets at {_where(each.place)} are of a copy of {each.kind} that has "
                f"its first weights still, {each.steps} steps after its first call: they know "
                "nothing of what was learned.",
                ("Copy the weights every so many steps: `target.load_state_dict(...)`.",),
            )


UNAVERAGED_STATISTICS = Kind(
    "unaveraged-statistics",
    "a copy of the model that trains is asked in evaluation mode, and its batch normalisers hold "
    "what they were built with: weights were averaged or copied, and statistics were not",
    "Ioffe & Szegedy 2015, Sec. 3.1: evaluation takes means and variances of training",
)


@rule("script", UNAVERAGED_STATISTICS)
def unaveraged_statistics(run: ScriptRun) -> Iterator[Finding]:
    """An average of weights without the buffers that belong to them."""
    for name in dict.fromkeys(run.bare):
        yield UNAVERAGED_STATISTICS.finding(
            "(script)",
            "warning",
            _share(run.steps, run.steps),
            f"A copy of {name} is asked in evaluation mode after steps of training, and its batch "
            "normalisation has mean 0 and variance 1 still: its statistics are of no batch.",
            ("Copy the buffers, too: `for a, b in zip(copy.buffers(), model.buffers())`.",),
        )


SHUFFLED_SEQUENCES = Kind(
    "shuffled-sequences",
    "a state is carried from batch to batch, and a loader draws the batches at random",
    "Arithmetic: what goes on in the next batch is another sequence",
    brings=TRAINING,
)


@rule("script", SHUFFLED_SEQUENCES)
def shuffled_sequences(run: ScriptRun) -> Iterator[Finding]:
    """A state that belongs to other samples."""
    drawn = [e for e in run.loaders.values() if e.sampler == "RandomSampler" and (e.count or 2) > 1]
    for cut in run.cuts:
        if run.steps >= FEW and drawn and min(cut.carried, cut.fed) >= MANY:
            yield SHUFFLED_SEQUENCES.finding(
                _where(drawn[0].place),
                "warning",
                _share(run.steps, run.steps),
                "A model is called with the state that it gave for the batch before (detached at "
                f"{_where(cut.place)}), and the loader at {_where(drawn[0].place)} draws batches "
                "at random: the state is of other samples.",
                ("Leave the order as it is (`shuffle=False`), or begin with a new state.",),
            )
            return


CHANGING_CLOSURE = Kind(
    "changing-closure",
    "the closure of an optimizer that asks for the loss several times in a step is given other "
    "samples each time",
    "Liu & Nocedal 1989: values and gradients of one function are compared",
)


@rule("script", CHANGING_CLOSURE)
def changing_closure(run: ScriptRun) -> Iterator[Finding]:
    """Curvature that is the difference between two batches."""
    for o in run.optimizers:
        if o.evaluated >= 3 and o.changing >= 0.9 * o.evaluated:
            yield CHANGING_CLOSURE.finding(
                _where(o.place),
                "warning",
                _share(o.changing, o.evaluated),
                f"{o.kind} asks its closure for the loss several times in a step, and gets that of "
                f"other samples each time ({o.changing} of {o.evaluated} steps): what it takes for "
                "curvature is the difference between batches.",
                ("Draw the batch before the step, outside of the closure.",),
            )


UNRECOMPUTED_CLOSURE = Kind(
    "unrecomputed-closure",
    "an optimizer that asks its closure several times in a step is given one that computes nothing",
    "Liu & Nocedal 1989: a line is searched by values and gradients at several places",
    proven=True,
    brings=TRAINING,
)


@rule("script", UNRECOMPUTED_CLOSURE)
def unrecomputed_closure(run: ScriptRun) -> Iterator[Finding]:
    """A loss that is handed back as it was, wherever the weights are by now."""
    for o in run.optimizers:
        asks = o.options.get("max_iter", 1) > 1
        if asks and o.looked >= 3 and o.unasked >= 0.9 * o.looked:
            yield UNRECOMPUTED_CLOSURE.finding(
                _where(o.place),
                "error",
                _share(o.unasked, o.looked),
                f"{o.kind} asks its closure up to {o.options['max_iter']:.0f} times in a step, "
                "each time with other weights, and the closure neither calls the model nor passes "
                "anything back: it sees one loss and one gradient wherever it goes.",
                ("Empty gradients, compute the loss and call `backward()` within the closure.",),
            )


REWRITTEN_DATA = Kind(
    "rewritten-data",
    "the data that samples are read from are shifted and scaled once more when they are read a "
    "second time",
    "Arithmetic: what is normalised again and again comes to be a constant",
    proven=True,
    even_if_it_learns=True,
    brings=TRAINING,
)


@rule("script", REWRITTEN_DATA)
def rewritten_data(run: ScriptRun) -> Iterator[Finding]:
    """A normalisation in place, of data that several epochs share."""
    if run.rewritten > NOTHING:
        place = max(run.loaders.values(), key=lambda e: e.begun).place if run.loaders else None
        yield REWRITTEN_DATA.finding(
            _where(place),
            "warning",
            _share(1, 1),
            "Samples are not what they were when they are read a second time: they are shifted and "
            f"scaled once more, by {run.rewritten:.0%} of their size, as by a normalisation in "
            "place of what they are read from.",
            ("Copy what is read before it is changed in place (`x = self.data[i].copy()`).",),
        )


ROUNDED_STEPS = Kind(
    "rounded-steps",
    "most numbers that have a gradient are left as they were by a step, which is smaller than the "
    "rounding of their precision",
    "Micikevicius et al. 2018, Sec. 3.1: weights are kept in float32",
    proven=True,
    brings=(RATE_TOO_LOW,),
)


@rule("script", ROUNDED_STEPS)
def rounded_steps(run: ScriptRun) -> Iterator[Finding]:
    """Weights that are too coarse for their steps."""
    for o in run.optimizers:
        if o.looked >= FEW and len(o.rounded) >= 3 and (share := median(o.rounded)) > MANY:
            coarse = o.held_in in ("bfloat16", "float16")
            yield ROUNDED_STEPS.finding(
                _where(o.made or o.place),
                "warning" if coarse else "note",
                (
                    Reading(
                        "(script)", q.ROUNDED_SHARE, Estimate.exactly(share), "script", o.held_in
                    ),
                ),
                f"A step of {o.kind} leaves {share:.0%} of the numbers that have a gradient as "
                f"they were: it is smaller than the rounding of {o.held_in}.",
                (
                    "Keep weights in float32, and compute under `torch.autocast`."
                    if coarse
                    else "Take a larger rate.",
                ),
            )


EVALUATION_MODE = Kind(
    "evaluation-mode",
    "a model with dropout or batch normalisation is called in evaluation mode while it trains",
    SOURCE,
    brings=TRAINING,
)


@rule("script", EVALUATION_MODE)
def evaluation_mode(run: ScriptRun) -> Iterator[Finding]:
    """A model that trains as if it was asked."""
    main = run.main
    for m in run.modules:
        calls = m.in_training + m.in_evaluation
        if main is None or calls < FEW or not m.minds_mode or m.in_evaluation < MANY * calls:
            continue
        if m.outside_numbers >= m.parameters - m.frozen:
            continue  # of another's, as a teacher or a frozen base
        since = f"after step {m.first_evaluation}" if m.first_evaluation else "from the start"
        yield EVALUATION_MODE.finding(
            _where(m.evaluated or m.place),
            "warning",
            _share(m.in_evaluation, calls),
            f"{m.kind} is in evaluation mode {since} while it is trained ({m.in_evaluation} of "
            f"{calls} calls): dropout does nothing, and batch normalisation keeps old statistics.",
            ("Call `model.train()` before the loop, and again behind each validation.",),
        )


UNSWITCHED_EVALUATION = Kind(
    "unswitched-evaluation",
    "a model with dropout or batch normalisation is asked without gradients, batch after batch, in "
    "training mode, and never in evaluation mode (a note)",
    SOURCE,
    even_if_it_learns=True,
)


@rule("script", UNSWITCHED_EVALUATION)
def unswitched_evaluation(run: ScriptRun) -> Iterator[Finding]:
    """A score of a network that drops, or of statistics of the batch that it is counted on."""
    for m in run.modules:
        if run.steps >= FEW and m.unswitched and not m.asked and not m.repeated:
            yield UNSWITCHED_EVALUATION.finding(
                _where(m.asked_at),
                "note",
                _share(m.unswitched, m.unswitched + m.in_training + m.in_evaluation),
                f"{m.kind} is asked without gradients at {_where(m.asked_at)}, batch after batch, "
                "in training mode: dropout draws there, and batch normalisers use the batch at "
                "hand, which also moves their statistics. If that is a score, it is not the one "
                "that the model will have; if another one is taught by it, that is taught noise.",
                ("Call `model.eval()` before, and `model.train()` behind it, if it trains on.",),
            )


SLOW_STATISTICS = Kind(
    "slow-statistics",
    "a model is asked in evaluation mode while running statistics are mostly what they were built "
    "with, for their momentum is small",
    "Arithmetic: (1 - momentum) to the power of the batches",
    even_if_it_learns=True,
)


@rule("script", SLOW_STATISTICS)
def slow_statistics(run: ScriptRun) -> Iterator[Finding]:
    """Averages of batches that hardly move, by the convention of another framework."""
    for m in run.modules:
        if run.steps >= FEW and m.lagging > MANY:
            yield SLOW_STATISTICS.finding(
                _where(m.evaluated or m.place),
                "warning",
                _share(1, 1),
                f"{m.kind} is asked in evaluation mode, and {m.lagging:.0%} of its running means "
                "and variances are the 0 and 1 that they were built with: their momentum is small "
                "for as many batches.",
                (
                    "Take the default of 0.1: torch's `momentum` is the share of the new batch, "
                    "one minus that of other frameworks.",
                ),
            )


SLOW_AVERAGE = Kind(
    "slow-average",
    "an average of weights is asked that is, for the larger part, what they were before the first "
    "step; a note where the run was stopped",
    "Arithmetic: the decay to the power of the steps",
    even_if_it_learns=True,
)


@rule("script", SLOW_AVERAGE)
def slow_average(run: ScriptRun) -> Iterator[Finding]:
    """An average over more steps than there are."""
    for name, (share, place) in run.averages.items():
        if run.steps >= FEW and share > 0.5:
            yield SLOW_AVERAGE.finding(
                _where(place),
                "note" if run.stopped else "warning",
                _share(1, 1),
                f"The copy of {name} that is asked at {_where(place)} is an average of weights: "
                f"{share:.0%} of it is what they were before the first step, {run.steps} steps "
                "behind that.",
                ("Let the decay grow with the steps, as `min(decay, (1 + n) / (10 + n))`.",),
            )


LONGER_THAN_TRAINED = Kind(
    "longer-than-trained",
    "a model is asked of sequences half as long again as any that it was trained on, or longer (a "
    "note)",
    SOURCE,
    even_if_it_learns=True,
)


@rule("script", LONGER_THAN_TRAINED)
def longer_than_trained(run: ScriptRun) -> Iterator[Finding]:
    """A curriculum that stays where it began."""
    for m in run.modules:
        if run.steps >= FEW and m.asked_longest >= 1.5 * m.longest > 1.5:
            yield LONGER_THAN_TRAINED.finding(
                _where(m.place),
                "note",
                _share(run.steps, run.steps),
                f"{m.kind} is asked of {m.asked_longest} places, and in {run.steps} steps was "
                f"trained on {m.longest} at most.",
                ("Look at what decides how long the sequences of a step are.",),
            )


UNCHANGED_INPUTS = Kind(
    "unchanged-inputs",
    "some columns of what goes in come out as they were, to the last bit, and others do not: right "
    "where what is known is kept, and not where all is to be transformed, as in a flow (a note)",
    "Dinh et al. 2017, Sec. 3.4: masks of coupling layers alternate",
    even_if_it_learns=True,
)


@rule("script", UNCHANGED_INPUTS)
def unchanged_inputs(run: ScriptRun) -> Iterator[Finding]:
    """Coupling layers that all leave the same half as it is."""
    for m in run.modules:
        if run.steps >= FEW and QUARTER <= m.unchanged < 1:
            yield UNCHANGED_INPUTS.finding(
                _where(m.place),
                "note",
                _share(1, 1),
                f"{m.unchanged:.0%} of the columns that go into {m.kind} come out as they were, to "
                "the last bit: no layer transforms them.",
                ("If all are to be transformed, let the masks of its layers alternate.",),
            )


OTHER_SCALE = Kind(
    "other-scale",
    "a model is asked without gradients of inputs whose spread is ten times that of those that it "
    "is trained on, or a tenth; a note from three times on, and of one that is called behind "
    "another",
    "Arithmetic: spreads of what goes in",
    even_if_it_learns=True,
)
INTERLEAVED_CHANNELS = Kind(
    "interleaved-channels",
    "in rows and columns of images, numbers as many places apart as there are channels are nearer "
    "to one another than neighbours are: channels stood last, and were laid out anew and not moved",
    "Arithmetic: differences along the rows and columns of images",
    even_if_it_learns=True,
)
FAR_OFF, OFF = 10.0, 3.0  # times the spread of inputs
NEARER = 0.8  # times the difference of neighbours


@rule("script", OTHER_SCALE, INTERLEAVED_CHANNELS)
def odd_inputs(run: ScriptRun) -> Iterator[Finding]:
    """Inputs that are not in the form of those of training, or not in that of images."""
    for place, m in enumerate(run.modules):
        if run.steps >= FEW and m.interleaved < NEARER:
            channels = m.shapes[0][0][1] if m.shapes[0] else 0
            yield INTERLEAVED_CHANNELS.finding(
                _where(m.place),
                "warning",
                _share(1, 1),
                f"{m.kind} is called with images of {channels} channels, along whose rows and "
                f"columns numbers {channels} places apart are nearer to one another than "
                "neighbours are: channels stand beside one another, as where images whose channels "
                "are last were given another shape.",
                ("Move the dimension: `x.permute(0, 3, 1, 2)`, not `reshape` or `view`.",),
            )
        trained, asked = m.spreads
        if run.steps < FEW or not trained or not asked:
            continue
        times = median(asked) / median(trained)
        # what a later one reads may be made by the first, and be drawn in training alone
        far = place == 0 and not 1 / FAR_OFF < times < FAR_OFF
        if not 1 / OFF < times < OFF:
            yield OTHER_SCALE.finding(
                _where(m.place),
                "warning" if far else "note",
                _share(1, 1),
                f"{m.kind} is trained on inputs whose spread is {median(trained):.3g}, and asked "
                f"without gradients of such whose spread is {median(asked):.3g}: what was done to "
                "the one was not done to the other.",
                ("Shift and scale both by the same numbers, those of the training data.",),
            )


INVERTED_MASK = Kind(
    "inverted-mask",
    "a mask of attention hides all that rows of ids hold, and shows what fills their ends",
    "Arithmetic: places of ids and of the mask",
    proven=True,
    even_if_it_learns=True,
    brings=TRAINING,
)


@rule("script", INVERTED_MASK)
def inverted_mask(run: ScriptRun) -> Iterator[Finding]:
    """Which truth value hides is another one in each library."""
    for place, (turned, of) in run.masked.items():
        if run.steps >= FEW and turned == of:
            yield INVERTED_MASK.finding(
                _where(place),
                "warning",
                _share(turned, of),
                f"The mask of attention at {_where(place)} hides every place that holds something, "
                "and shows those alone that fill the ends of rows: it is inverted.",
                (
                    "Turn it round: what is true in a `key_padding_mask` is hidden, in the "
                    "`attn_mask` of `scaled_dot_product_attention` it is seen.",
                ),
            )


GROWING_GRAPH = Kind(
    "growing-graph",
    "the graph behind the loss has more operations from step to step",
    SOURCE,
    even_if_it_learns=True,
)


@rule("script", GROWING_GRAPH)
def growing_graph(run: ScriptRun) -> Iterator[Finding]:
    """What is computed hangs on to all that was computed before."""
    for loss in run.losses.values():
        counts = [n for _, n in loss.nodes]
        rising = all(b > a for a, b in pairwise(counts))
        if len(counts) >= 4 and rising and counts[-1] >= GROWN * counts[0]:
            steps = [s for s, _ in loss.nodes]
            yield GROWING_GRAPH.finding(
                _where(loss.place),
                "warning",
                _share(len(counts), len(counts)),
                f"The graph behind the loss at {_where(loss.place)} grows: {counts[0]} operations "
                f"at step {steps[0]}, {counts[-1]} at step {steps[-1]}. Each step computes "
                "through all before it.",
                (
                    "Detach what is carried from step to step, as a hidden state; add up losses by "
                    "`loss.item()`.",
                ),
            )


DWINDLING_RATE = Kind(
    "dwindling-rate",
    "a scheduler that steps with every step, or what lowers the rate by hand there, has brought it "
    "to a hundredth, early in the run",
    SOURCE,
)


@rule("script", DWINDLING_RATE)
def dwindling_rate(run: ScriptRun) -> Iterator[Finding]:
    """A scheduler that was meant for epochs."""
    for o in run.optimizers:
        stepped = [
            (kind, place) for (kind, place), n in run.scheduled.items() if n >= MANY * o.steps
        ]
        by_hand = sum(b < a for a, b in pairwise(o.rates)) >= MANY * o.steps
        if o.steps < FEW or not (stepped or by_hand) or not max(o.rates) > 0:
            continue
        peak = max(o.rates)
        low = max(i for i, rate in enumerate(o.rates, 1) if rate > DWINDLED * peak)
        # a schedule that ends with the run is low for some of it, as a cosine for 6 %
        if len(o.rates) - low >= (QUARTER if run.stopped else MANY) * len(o.rates):
            kind, place = stepped[0] if stepped else ("", o.place)
            done = f"{kind} steps" if kind else "The rate is lowered by hand"
            yield DWINDLING_RATE.finding(
                _where(place),
                "warning",
                _share(len(o.rates) - low, len(o.rates)),
                f"{done} at each step of training ({_where(place)}): the rate has fallen "
                f"from {peak:.2g} to {o.rates[-1]:.2g} by step {len(o.rates)}, and below a "
                f"hundredth since step {low}.",
                ("Step it once an epoch, or give it the number of steps that there are.",),
            )


TURNED_PLATEAU = Kind(
    "turned-plateau",
    "a scheduler waits for a number to fall, or to rise, that does the other from its first value "
    "on while the loss falls to a half, and lowers the rate for it",
    SOURCE,
    even_if_it_learns=True,
    brings=(DWINDLING_RATE, RATE_TOO_LOW),
)


@rule("script", TURNED_PLATEAU)
def turned_plateau(run: ScriptRun) -> Iterator[Finding]:
    """An accuracy that is taken for a loss, or a loss for an accuracy."""
    losses = run.loss.values if run.loss else []
    tail = losses[-max(1, len(losses) // 5) :]
    if run.steps < FEW or not tail or not median(tail) < MANY * losses[0]:
        return
    lowered = any(min(o.rates) < max(o.rates) for o in run.optimizers if o.rates)
    for place, (more, values) in run.plateaus.items():
        better = max if more else min
        # of what is overfitted a loss rises, too, but not from its first value on
        if lowered and len(values) >= THROUGH_TIME and better(values) == values[0] != values[-1]:
            yield TURNED_PLATEAU.finding(
                _where(place),
                "warning",
                _share(len(values), len(values)),
                f"The scheduler at {_where(place)} waits for a number to "
                f"{'rise' if more else 'fall'}, and that goes from {values[0]:.3g} to "
                f"{values[-1]:.3g} in {len(values)} calls, while the loss falls: what becomes "
                "better lowers the rate.",
                (
                    f"Give it `mode='{'min' if more else 'max'}'`, or a "
                    f"{'score' if more else 'loss'}.",
                ),
            )


REPEATED_BATCH = Kind(
    "repeated-batch",
    "a loader is begun anew for each step, and its first batch is all that is seen",
    SOURCE,
    brings=TRAINING,
)


@rule("script", REPEATED_BATCH)
def repeated_batch(run: ScriptRun) -> Iterator[Finding]:
    """`next(iter(loader))` in a loop."""
    for loader in run.loaders.values():
        steps = max(run.steps, run.backwards, 1)  # several batches may make a step
        ordered = loader.sampler == "SequentialSampler" and (loader.count or 0) > 1
        looked = max((o.looked for o in run.optimizers), default=steps)
        alike = max((m.alike for m in run.modules), default=0) >= 0.9 * min(looked, loader.begun)
        several = loader.count is None or loader.count > 1
        if loader.begun >= max(FEW, MANY * steps) and (ordered or (alike and several)):
            yield REPEATED_BATCH.finding(
                _where(loader.place),
                "warning",
                _share(min(loader.begun, steps), steps),
                f"The loader at {_where(loader.place)} is begun anew {loader.begun} times in "
                f"{steps} steps{', without shuffling' if ordered else ''}: of its "
                f"{'' if loader.count is None else f'{loader.count} '}batches the first is seen "
                "again and again.",
                ("Go through the loader: `for batch in loader`.",),
            )


SPENT_LOADER = Kind(
    "spent-loader",
    "an iterator of a loader that is at its end is gone through again, and has no batch left",
    SOURCE,
    even_if_it_learns=True,
)


@rule("script", SPENT_LOADER)
def spent_loader(run: ScriptRun) -> Iterator[Finding]:
    """`batches = iter(loader)` in front of the epochs."""
    for place, times in run.spent.items():
        yield SPENT_LOADER.finding(
            _where(place),
            "warning",
            _share(times, times + 1),
            f"What is gone through at {_where(place)} came to its end, and was asked for more "
            f"{times} times behind that: there is no batch in it any more, and no step is made.",
            ("Go through the loader itself in each epoch, or begin it anew: `iter(loader)`.",),
        )


EMPTY_LOADER = Kind(
    "empty-loader",
    "a loader is gone through, and has no batch: an error where no step is made",
    "Arithmetic: what is left over of samples, in batches of more",
    proven=True,
    even_if_it_learns=True,
)


@rule("script", EMPTY_LOADER)
def empty_loader(run: ScriptRun) -> Iterator[Finding]:
    """Fewer samples than a batch takes, of which what is left over is dropped."""
    for loader in run.loaders.values():
        if loader.begun and loader.count == 0:
            left = loader.samples and loader.batch
            yield EMPTY_LOADER.finding(
                _where(loader.place),
                "warning" if run.backwards else "error",
                _share(loader.begun, loader.begun),
                f"The loader at {_where(loader.place)} has no batch: there are "
                + (
                    f"{loader.samples} samples, a batch takes {loader.batch}, and what is left "
                    "over is dropped."
                    if left
                    else "no samples that it could give."
                ),
                (
                    "Take smaller batches, or leave `drop_last` out."
                    if left
                    else "Look at what is handed to it: a filter, a split, a path.",
                ),
            )


UNDRAWN_SAMPLES = Kind(
    "undrawn-samples",
    "a sampler that draws by weights has fewer of them than there are samples, and draws none of "
    "the others; an error where these are nine in ten",
    "Arithmetic: how many weights there are, and how many samples",
    proven=True,
    even_if_it_learns=True,
    brings=(*TRAINING, SINGLE_TARGET),
)


@rule("script", UNDRAWN_SAMPLES)
def undrawn_samples(run: ScriptRun) -> Iterator[Finding]:
    """Weights of classes that were handed over as those of samples."""
    for loader in run.loaders.values():
        many, weights = loader.samples or 0, loader.weights
        if weights is not None and run.steps >= FEW and weights < many:
            yield UNDRAWN_SAMPLES.finding(
                _where(loader.place),
                "error" if 10 * weights <= many else "warning",
                (Reading("(script)", q.DRAWN_SHARE, Estimate.exactly(weights / many), "script"),),
                f"The sampler at {_where(loader.place)} has {weights} weights, and there are "
                f"{many} samples: it draws the first {weights} alone.",
                (
                    "Give it a weight for each sample: `weights[targets]` of weights of classes, "
                    "with the targets in the order of the data set.",
                ),
            )


REPEATED_DRAWS = Kind(
    "repeated-draws",
    "random numbers that are drawn outside of modules are the same in each step, for their source "
    "is set anew",
    SOURCE,
    brings=TRAINING,
)


@rule("script", REPEATED_DRAWS)
def repeated_draws(run: ScriptRun) -> Iterator[Finding]:
    """A seed that is set within the loop."""
    drawn = run.drawn.items()
    again = [(key, same) for key, (same, of) in drawn if same >= FEW and same >= 0.9 * of]
    if again:
        (name, place), same = again[0]
        more = "" if len(again) == 1 else f", and what is drawn at {len(again) - 1} other places,"
        yield REPEATED_DRAWS.finding(
            _where(place),
            "warning",
            _share(same, same),
            f"`{name}` at {_where(place)}{more} gives the same numbers in each of {same + 1} "
            "steps: the source that it draws from is seeded anew, and nothing is random any more.",
            ("Seed once, before the loop, and keep the generator.",),
        )


REPEATED_ORDER = Kind(
    "repeated-order",
    "a `DistributedSampler` shuffles by the same seed in each epoch, for its epoch is never set",
    SOURCE,
    even_if_it_learns=True,
)
SAME_BATCHES = Kind(
    "same-batches",
    "processes that average their gradients learn from the same batches, number by number",
    "Arithmetic: the mean of equal gradients is each of them",
    even_if_it_learns=True,
)
UNSYNCHRONISED = Kind(
    "unsynchronised-processes",
    "processes of a group train and exchange nothing, so that each trains a model of its own",
    "Arithmetic: weights follow the gradients of their own process alone",
    even_if_it_learns=True,
)


DIFFERENT_STARTS = Kind(
    "different-starts",
    "processes that average their gradients begin with different weights, which nobody evens out",
    "Arithmetic: equal steps leave a difference as it is",
    even_if_it_learns=True,
)
IDLE_PROCESS = Kind(
    "idle-process",
    "a process of a group passes gradients back and never steps, nor is handed weights",
    "Arithmetic: its gradients stay those of the weights that it began with",
    even_if_it_learns=True,
)


@rule("script", REPEATED_ORDER)
def repeated_order(run: ScriptRun) -> Iterator[Finding]:
    """A sampler that is not told of its epochs."""
    for loader in run.loaders.values():
        if len(loader.orders) == 1 and loader.begun > 1 and (loader.count or 2) > 1:
            yield REPEATED_ORDER.finding(
                _where(loader.place),
                "warning",
                _share(loader.begun - 1, loader.begun - 1),
                f"The sampler of the loader at {_where(loader.place)} shuffles, and gave the same "
                f"order in all of {loader.begun} epochs: it draws by its seed and its epoch, and "
                "that is never set.",
                ("Call `sampler.set_epoch(epoch)` where each epoch begins.",),
            )


@rule("script", SAME_BATCHES, UNSYNCHRONISED, DIFFERENT_STARTS, IDLE_PROCESS)
def several_processes(run: ScriptRun) -> Iterator[Finding]:
    """Processes that see the same, or know nothing of each other."""
    held = max((o.trained for o in run.optimizers), default=0)
    if not run.grouped or run.steps < FEW or not held:
        return
    where = _where(run.main.place if run.main else None)
    # averages of what is logged, and statistics, are far fewer numbers than gradients or weights
    if run.exchanged < MANY * held:
        yield UNSYNCHRONISED.finding(
            where,
            "warning",
            _share(run.steps, run.steps),
            f"{run.processes} processes train, and in {run.steps} steps of this one "
            f"{run.exchanged:,} numbers were exchanged, where its weights are {held:,}: neither "
            "gradients nor weights are averaged, and each process trains a model of its own"
            + (", unless weights are averaged later than that." if run.stopped else "."),
            (
                "Call the model that `DistributedDataParallel` gives, and not what is in it; or "
                "average the gradients before each step.",
            ),
        )
    second = run.beside
    if second is None:
        return
    # of models of its own each process knows nothing, and what is handed on later may be weights
    parallel = any(m.kind == "DistributedDataParallel" for m in run.modules)
    each = 0.9 * held * (run.steps - 1)  # in nearly every step
    averaged, gradients = run.exchanged >= each, run.averaged >= each
    alone = run.exchanged - run.averaged < MANY * held
    starts = [o.start for r in (run, second) for o in r.optimizers[:1]]
    if gradients and alone and run.told < MANY * held and len({*starts}) > 1:
        yield DIFFERENT_STARTS.finding(
            where,
            "warning",
            _share(run.steps, run.steps),
            f"Run in the place of the second process, the script begins with other weights: their "
            f"sizes add up to {starts[1]:.6g}, and to {starts[0]:.6g} in the first. Gradients are "
            "averaged, weights never: those of each process stay as far from the others' as they "
            "are, and a gradient is of models that none of them has.",
            (
                "Broadcast the weights before the first step, or set the same seed before they are "
                "drawn; `DistributedDataParallel` does the former.",
            ),
        )
    handed = second.broadcast >= MANY * held * second.backwards
    if not second.steps and second.backwards >= FEW and not handed:
        yield IDLE_PROCESS.finding(
            where,
            "warning",
            _share(second.backwards, second.backwards),
            f"Run in the place of the second process, the script makes {second.backwards} backward "
            "passes and no step: its weights stay what they were, and nobody hands others on.",
            ("Step in every process; print and save in the first one alone.",),
        )
    alike = len(second.batches) >= FEW and second.batches == run.batches
    if alike and (parallel or averaged):
        yield SAME_BATCHES.finding(
            _where(next((e.place for e in run.loaders.values()), None)),
            "warning",
            _share(len(second.batches), len(second.batches)),
            f"Run in the place of the second process, the script learns from the same "
            f"{len(second.batches)} batches, number by number: {run.processes} processes do the "
            "work of one.",
            ("Give the loader a `DistributedSampler`, so that each process sees a part.",),
        )


STRONG_CLIPPING = Kind(
    "clipped-steps",
    "gradients are clipped to less than a tenth of their norm in most steps",
    SOURCE,
)


@rule("script", STRONG_CLIPPING)
def strong_clipping(run: ScriptRun) -> Iterator[Finding]:
    """A limit that is the rate in truth."""
    cut = [(place, limit, norm) for place, limit, norm in run.clipped if norm > 10 * limit > 0]
    if len(run.clipped) >= FEW and len(cut) >= 0.9 * len(run.clipped):
        place, limit, _ = cut[-1]
        usual = median(norm for *_, norm in cut)
        yield STRONG_CLIPPING.finding(
            _where(place),
            "warning",
            _share(len(cut), len(run.clipped)),
            f"Gradients are clipped to a norm of {limit:g} ({_where(place)}), and have one of "
            f"{usual:.3g}: each step is {usual / limit:.2g} times as short as the rate says.",
            ("Clip what is unusual: at several times the usual norm.",),
        )


IDLE_CLIPPING = Kind(
    "idle-clipping",
    "gradients are clipped where there are none yet, or nothing is given to be clipped",
    SOURCE,
    brings=(RATE_TOO_HIGH, EXPLODING_THROUGH_TIME),
)


@rule("script", IDLE_CLIPPING)
def idle_clipping(run: ScriptRun) -> Iterator[Finding]:
    """A limit that stands before the backward pass."""
    arrives = any(o.looked > o.empty + o.emptied for o in run.optimizers)
    for place in dict.fromkeys(place for place, *_ in run.clipped):
        norms = [norm for at, _, norm in run.clipped if at == place]
        none = sum(norm == 0 for norm in norms)
        if arrives and len(norms) >= FEW and none >= 0.9 * len(norms):
            loss = run.loss.place if run.loss else None
            yield IDLE_CLIPPING.finding(
                _where(place),
                "warning",
                _share(none, len(norms)),
                f"Gradients are clipped at {_where(place)}, and there are none in {none} of "
                f"{len(norms)} calls: they come with the backward pass ({_where(loss)}), and no "
                "step is limited.",
                (
                    "Clip between the backward pass and the step; and give it the parameters "
                    "(`model.parameters()`), not an iterator that is at its end.",
                ),
            )


SORTED_CLASSES = Kind(
    "one-class-batches",
    "most batches hold one class alone, of the several that the output has",
    SOURCE,
    even_if_it_learns=True,
    brings=TRAINING,
)


@rule("script", SORTED_CLASSES)
def sorted_classes(run: ScriptRun) -> Iterator[Finding]:
    """Samples in the order of their classes."""
    large = [(one, many) for size, one, many in run.classes if size >= 8 and many > 2]
    alone = sum(one == 1 for one, _ in large)
    if len(large) >= FEW and alone >= 0.75 * len(large):
        place = next((loader.place for loader in run.loaders.values()), None)
        yield SORTED_CLASSES.finding(
            _where(place),
            "warning",
            _share(alone, len(large)),
            f"{alone} of {len(large)} batches hold one class alone, of {large[0][1]}: samples come "
            "in the order of their classes, and each step forgets the others.",
            ("Shuffle: `DataLoader(..., shuffle=True)`.",),
        )


RECREATED_OPTIMIZER = Kind(
    "recreated-optimizer",
    "an optimizer is made anew for each step, and forgets what it has gathered",
    SOURCE,
    brings=TRAINING,
)


@rule("script", RECREATED_OPTIMIZER)
def recreated_optimizer(run: ScriptRun) -> Iterator[Finding]:
    """Momentum and moments that start again with each step."""
    main = run.main
    if main is None or main.steps < FEW:
        return
    for place, count in run.made.items():
        steps = sum(o.steps for o in run.optimizers if o.made == place)
        if count >= MANY * steps and place == main.made:
            yield RECREATED_OPTIMIZER.finding(
                _where(place),
                "warning",
                _share(min(count, steps), steps),
                f"{main.kind} is made anew {count} times in {steps} steps ({_where(place)}): "
                "momentum and step sizes start again with each.",
                ("Make it once, before the loop.",),
            )


OVERWRITTEN_WEIGHTS = Kind(
    "overwritten-weights",
    "something else writes to the weights between the steps of their optimizer; a note, unless the "
    "script comes farther without",
    SOURCE,
    brings=(RATE_TOO_HIGH, RATE_TOO_LOW),
    even_if_it_learns=True,
)


@rule("script", OVERWRITTEN_WEIGHTS)
def overwritten_weights(run: ScriptRun) -> Iterator[Finding]:
    """Averages that are copied back, or weights that are clamped."""
    for o in run.optimizers:
        if o.looked >= FEW and o.overwritten >= MANY * o.looked and run.made[o.made] <= 1:
            yield OVERWRITTEN_WEIGHTS.finding(
                _where(o.place),
                "note",
                _share(o.overwritten, o.looked),
                f"Between the steps of {o.kind} ({_where(o.place)}) something else writes to its "
                f"weights ({o.overwritten} of {o.looked} times), as clamping or an average does.",
                ("If it is an average that is copied back, keep it in a model of its own.",),
            )


GRAPH_USED_TWICE = Kind(
    "graph-used-twice",
    "a backward pass goes through the graph of a step before, which autograd refuses",
    SOURCE,
    proven=True,
)
CUT_LOSS = Kind(
    "cut-loss",
    "`backward` is called on what has no history, which autograd refuses",
    SOURCE,
    proven=True,
)


@rule("script", GRAPH_USED_TWICE, CUT_LOSS)
def refused_backward(run: ScriptRun) -> Iterator[Finding]:
    """What autograd itself has said before the script ended."""
    kind, says, _ = run.error or ("", "", "")
    where = _where(run.raised)
    if kind == "RuntimeError" and "backward through the graph a second time" in says:
        yield GRAPH_USED_TWICE.finding(
            where,
            "error",
            _share(0, 1),
            f"The backward pass at {where} goes through the graph of an earlier step, whose values "
            "are gone: something is carried from step to step with its history.",
            ("Detach what is carried, as a hidden state, before it is used again.",),
        )
    if kind == "RuntimeError" and "does not require grad" in says:
        yield CUT_LOSS.finding(
            where,
            "error",
            _share(0, 1),
            f"The loss at {where} has no history: between the parameters and it something was "
            "detached, or computed without gradients.",
            ("Look for `detach()`, `.data`, `.item()` or `no_grad()` before it.",),
        )


NON_FINITE_GRADIENTS = Kind(
    "non-finite-gradients",
    "gradients cease to be numbers in a step whose loss is one: something has no derivative at "
    "what it was computed of",
    SOURCE,
    proven=True,
)
NON_FINITE_LOSS = Kind(
    "non-finite-loss",
    "the loss ceases to be a number; the operation is named that made the first of what was",
    SOURCE,
)


NON_FINITE_DATA = Kind(
    "non-finite-data",
    "the loss is not a number, for the data hold infinities or nan before anything is computed "
    "of them",
    SOURCE,
    proven=True,
)


@rule("script", NON_FINITE_GRADIENTS, NON_FINITE_LOSS, NON_FINITE_DATA)
def broken_numbers(run: ScriptRun) -> Iterator[Finding]:
    """Where numbers cease to be numbers."""
    broken = run.broken
    if broken is None:
        return
    if broken.what == "data":
        yield NON_FINITE_DATA.finding(
            _where(broken.place),
            "error",
            (Reading("(script)", q.BROKE_AT_STEP, Estimate.exactly(broken.step), "script", ""),),
            f"The loss of step {broken.step} is not a number, and no operation made that of "
            f"numbers: what is read at {_where(broken.place)} holds infinities or nan already.",
            (
                "Look at the data before they go in (`torch.isfinite(x).all()`): values that are "
                "missing, a division by the spread of a column that is constant, memory that "
                "nothing was written to (`torch.empty`).",
            ),
        )
        return
    where = _where(broken.place or (run.loss.place if run.loss else None))
    evidence = (
        Reading("(script)", q.BROKE_AT_STEP, Estimate.exactly(broken.step), "script", broken.how),
    )
    made = f"`{broken.how}` at {where}" if broken.how and broken.place else f"`{broken.how}`"
    if broken.what == "gradients":
        yield NON_FINITE_GRADIENTS.finding(
            where,
            "error",
            evidence,
            f"In step {broken.step} the loss is a number, and gradients are none: {made} has no "
            "derivative at what it was given, as a root has none at zero; the next step makes "
            "all that it reaches not a number.",
            (
                "Keep what it is given away from there (`x.clamp_min(1e-12)`), before it and not "
                "behind it: a `torch.where` behind it lets 0 times infinity through.",
            ),
        )
        return
    how = f": {made} made the first of it" if broken.how else ""
    what = "the step itself makes weights that are" if broken.what == "step" else "the loss is"
    lost = run.loss is not None and not isfinite(run.loss.values[-1])
    yield NON_FINITE_LOSS.finding(
        where,
        "error" if lost else "warning",
        evidence,
        f"In step {broken.step} {what} not a number{how}.",
        ("Look at what it is given there: zeros under a logarithm, or numbers that grew.",),
    )


NOTHING_LOADED = Kind(
    "nothing-loaded",
    "`load_state_dict` changes nothing: with `strict=False` it finds no tensor of the model in the "
    "file, or few; or it is given the model's own tensors, handed out by `state_dict` before other "
    "steps",
    SOURCE,
    proven=True,
    even_if_it_learns=True,
    brings=TRAINING,
)


RENAME = "Rename the keys (a prefix as `module.` is often all), and pass `strict=True`."


@rule("script", NOTHING_LOADED)
def nothing_loaded(run: ScriptRun) -> Iterator[Finding]:
    """Names in a file that no parameter has."""
    for loaded in run.loaded:
        if not loaded.wanted:
            continue
        again = [o for o in run.loaded if o.place == loaded.place and not o.same]  # it follows
        if not loaded.met:
            says = (
                f"took nothing: none of {loaded.keys} names in the file is one of the "
                f"{loaded.wanted} of the model."
                if loaded.keys
                else f"took nothing: it was given no tensor, of the {loaded.wanted} that there are."
            )
        elif loaded.met < loaded.wanted / 2 and loaded.met <= loaded.keys / 2:
            says = (
                f"took {loaded.met} of {loaded.keys} tensors in the file, and {loaded.wanted} are "
                "those of the model: the others have names that it does not know."
            )
        elif loaded.shared:
            says = (
                "changed nothing: what it was given are the model's own tensors, which "
                "`state_dict` hands out and later steps have written to."
            )
        elif loaded.same and loaded.met == loaded.wanted and not loaded.at and not again:
            says = "changed nothing: what it was given are the weights that the model had before."
        else:
            continue
        do, severity = RENAME, "warning" if loaded.met or not loaded.keys else "error"
        if loaded.shared:
            do = "Keep a copy: `copy.deepcopy(model.state_dict())`."
        elif loaded.same:
            severity = "note"
            do = "Look which file it is, and whether the model behind it had been trained."
        yield NOTHING_LOADED.finding(
            _where(loaded.place),
            severity,
            _share(loaded.met, loaded.wanted),
            f"`load_state_dict` at {_where(loaded.place)} {says}",
            (do,),
        )


SOFTMAX_TWICE = Kind(
    "softmax-twice",
    "what cross-entropy is given has been through a softmax, or a sigmoid where it takes logits",
    SOURCE,
    proven=True,
    brings=(DOUBLE_SOFTMAX,),
)
SPREAD_SHAPES = Kind(
    "spread-shapes",
    "output and targets of a loss have shapes that are spread over one another",
    SOURCE,
    proven=True,
)
TWICE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cross_entropy": ("Softmax", "Sigmoid"),
        "binary_cross_entropy_with_logits": ("Sigmoid", "Softmax"),
    }
)


@rule("script", SOFTMAX_TWICE, SPREAD_SHAPES)
def misread_losses(run: ScriptRun) -> Iterator[Finding]:
    """Losses that are given what they do not take."""
    for (name, node, shapes, place), count in run.comparisons.items():
        squashed = next((w for w in TWICE.get(name, ()) if node.startswith(w)), None)
        if squashed and count >= FEW:
            yield SOFTMAX_TWICE.finding(
                _where(place),
                "error",
                _share(count, count),
                f"`{name}` at {_where(place)} takes logits, and is given what comes out of a "
                f"{squashed.lower()}: its gradient fades where the model is wrong.",
                (f"Give `{name}` the output before the {squashed.lower()}.",),
            )
        out, targets = shapes
        longest = max(len(out), len(targets))
        both = ((1,) * (longest - len(s)) + s for s in (out, targets))
        if name in OF_VALUES and any(a != b for a, b in zip(*both, strict=True)):
            yield SPREAD_SHAPES.finding(
                _where(place),
                "error",
                _share(count, count),
                f"`{name}` at {_where(place)} compares {list(out)} with {list(targets)}: each "
                "output is compared with the targets of all samples.",
                ("Give both one shape, by `squeeze(-1)` or `view_as`.",),
            )


SCRAMBLED_CLASSES = Kind(
    "scrambled-classes",
    "scores whose second dimension are classes are laid out as rows of classes without bringing "
    "that dimension to the end",
    "Arithmetic: rows then hold scores of several places, and of one class",
    proven=True,
    even_if_it_learns=True,
    brings=TRAINING,
)


@rule("script", SCRAMBLED_CLASSES)
def scrambled_classes(run: ScriptRun) -> Iterator[Finding]:
    """`scores.reshape(-1, classes)` of images or sequences with channels first."""
    for place, shape in run.scrambled.items():
        if run.steps >= FEW:
            yield SCRAMBLED_CLASSES.finding(
                _where(place),
                "error",
                _share(1, 1),
                f"Scores of shape {list(shape)} are laid out as rows of {shape[1]} classes for the "
                f"loss at {_where(place)}, and classes are not their last dimension: a row holds "
                "scores of one class at neighbouring places, and is compared with another place.",
                ("Bring classes to the end before: `scores.movedim(1, -1).reshape(-1, classes)`.",),
            )


EXCHANGED_DIMENSIONS = Kind(
    "exchanged-dimensions",
    "`view` or `reshape` gives a tensor a shape of the same lengths in another order: no number "
    "moves, and what belonged to one sample or place belongs to another; or a text runs on across "
    "the samples of a batch, and not along the steps whose next one is to be told",
    "Arithmetic: a shape alone transposes nothing",
    even_if_it_learns=True,
    brings=(*TRAINING, SCRAMBLED_CLASSES, INTERLEAVED_CHANNELS, MIXED_SAMPLES),
)


@rule("script", EXCHANGED_DIMENSIONS)
def exchanged_dimensions(run: ScriptRun) -> Iterator[Finding]:
    """`x.view(time, batch, features)` of what is `[batch, time, features]`."""
    for place, (along, across, laid) in run.across.items():
        if run.steps >= FEW and across > TELLS and across > FARTHER * along:
            yield EXCHANGED_DIMENSIONS.finding(
                _where(laid or place),
                "warning",
                _share(1, 1),
                f"Ids are to tell those one step on (the loss at {_where(place)}), and tell them "
                f"little ({max(along, 0.0):.2g} nats); each tells {across:.2g} nats of that of the "
                "next sample at the same step: the text runs on across the batch.",
                ("Lay it out by samples, then turn: `ids.view(batch, -1).t().contiguous()`.",),
            )
    for (place, (before, after)), count in run.reordered.items():
        if run.steps < FEW or count < LOOKS or place is None:
            continue
        left, order = [*range(len(before))], list[int]()
        for length in after:
            order.append(next(d for d in left if before[d] == length))
            left.remove(order[-1])
        yield EXCHANGED_DIMENSIONS.finding(
            _where(place),
            "warning",
            _share(1, 1),
            f"A tensor of shape {list(before)} is given the shape {list(after)} at "
            f"{_where(place)}: that moves no number, and exchanges no dimensions. What stood in "
            "one row stands in several, beside what does not belong there.",
            (f"If dimensions are to be exchanged: `x.permute({', '.join(map(str, order))})`.",),
        )


NARROW_SCORES = Kind(
    "narrow-scores",
    "scores of a cross-entropy are products of vectors of length one, times a number so small that "
    "half (warning) or nine tenths (error) of the loss of equal scores is out of reach",
    "Wang et al. 2017, Proposition 2: the least loss of normalised features",
    proven=True,
    brings=TRAINING,
)
REVERSED_CLASS_WEIGHTS = Kind(
    "reversed-class-weights",
    "the weights of classes in a loss, or of their samples in a sampler, are the larger, the more "
    "samples a class has",
    "King & Zeng 2001, Sec. 4: the rare ones are to weigh more",
    even_if_it_learns=True,
)
OWN_SCORE = Kind(
    "own-score",
    "each row of a cross-entropy of products of vectors of length one is compared with itself, "
    "too, and that is not its target",
    "Arithmetic: no pair is nearer than a row is to itself",
    even_if_it_learns=True,
)
UNRELATED_PAIRS = Kind(
    "unrelated-pairs",
    "rows that a loss is told to bring together are no nearer at first than any others, and "
    "others, in a fixed order, are, as inputs or by their scores",
    "Arithmetic: two views of one sample are alike",
    even_if_it_learns=True,
)
SURELY, BY_CHANCE = 8.0, 3.0  # standard errors
LOOKS = 3  # at a call of a loss, or steps
BALANCE = 1.5  # times the weight, or the number
TELLS = 0.1  # nats
FARTHER = 4.0  # times as much


@rule("script", NARROW_SCORES, OWN_SCORE, REVERSED_CLASS_WEIGHTS, UNRELATED_PAIRS)
def misled_scores(run: ScriptRun) -> Iterator[Finding]:
    """Scores that cannot tell classes apart, classes that do not count, pairs that are none."""
    for place, (many, size) in run.narrow.items():
        share = log1p((many - 1) * exp(-2 * size)) / log(many) if many > 1 else 0.0
        if run.steps >= FEW and share >= MANY:
            yield NARROW_SCORES.finding(
                _where(place),
                "error" if share >= 0.9 else "warning",
                (Reading("(script)", q.OUT_OF_REACH, Estimate.exactly(share), "script"),),
                f"The scores of the cross-entropy at {_where(place)} are products of vectors of "
                f"length one, and lie within {size:.2g} of zero: of {many} no weights bring the "
                f"loss below {share:.0%} of that of equal scores.",
                ("Divide them by a temperature of 0.05 to 0.1, or multiply them by its inverse.",),
            )
    for place, count in run.selves.items():
        if run.steps >= FEW and count >= LOOKS:
            yield OWN_SCORE.finding(
                _where(place),
                "warning",
                _share(count, count),
                f"The scores at {_where(place)} are of rows with one another, each with itself "
                "among them: no other can be nearer, and the loss stays above log 2.",
                (
                    "Leave the diagonal out: `scores.masked_fill(torch.eye(n, dtype=torch.bool), "
                    "-torch.inf)`.",
                ),
            )
    weighted = [
        (place, f"The loss at {_where(place)} weighs classes", zip(counts, weights, strict=True))
        for place, (weights, counts) in run.weighted.items()
    ] + [
        (each.place, f"The sampler at {_where(each.place)} weighs samples", each.by_class)
        for each in run.loaders.values()
    ]
    for place, says, pairs in weighted:
        seen = sorted((n, w) for n, w in pairs if n)
        if run.steps < FEW or len(seen) < 2 or seen[-1][0] < 2 * BALANCE * seen[0][0]:
            continue
        rising = all(b[1] >= a[1] for a, b in pairwise(seen) if b[0] > BALANCE * a[0])
        if rising and seen[-1][1] >= BALANCE * seen[0][1]:
            yield REVERSED_CLASS_WEIGHTS.finding(
                _where(place),
                "warning",
                _share(seen[0][0], sum(n for n, _ in seen)),
                f"{says}, and those of the most frequent class ({seen[-1][0]} samples) weigh "
                f"{seen[-1][1] / max(seen[0][1], 1e-12):.2g} times as much as those of the rarest "
                f"({seen[0][0]}): the rare one counts for less than without weights.",
                ("Take one over the frequency of a class as its weight.",),
            )
    for place, (best, shift, told) in run.pairs.items():
        if run.steps >= FEW and best > SURELY and told < BY_CHANCE:
            how = "its neighbour" if shift == 1 else f"the one {shift} rows on"
            yield UNRELATED_PAIRS.finding(
                _where(place),
                "warning",
                _share(1, 1),
                f"The loss at {_where(place)} is told which rows belong together, and at first "
                f"these are no nearer than any others ({told:.1f} standard errors); of each row "
                f"{how} is, by {best:.0f} standard errors.",
                ("Look at the order in which views are put together, and at the targets.",),
            )


@rule("script", COPIED_TARGETS)
def copied_targets(run: ScriptRun) -> Iterator[Finding]:
    """A decoder that is called place by place, and is told there what it is to say."""
    for place, count in run.copied.items():
        if run.steps >= FEW and count >= FEW:
            yield COPIED_TARGETS.finding(
                _where(place),
                "warning",
                _share(count, count),
                f"The ids that a module is called with, place by place, are the targets of the "
                f"loss at {_where(place)} at the same place: it is given what it is to put out.",
                ("Give it the targets shifted by one, behind a token that begins.",),
            )


SKIPPED_BATCHES = Kind(
    "skipped-batches",
    "a model is called for each batch of a loader, and one backward pass is made behind all of "
    "them, of the last one",
    SOURCE,
    brings=TRAINING,
)


@rule("script", SKIPPED_BATCHES)
def skipped_batches(run: ScriptRun) -> Iterator[Finding]:
    """A backward pass that stands behind the loop over batches, and not in it."""
    lost, of = run.lost_calls
    many = max((e.count or 0 for e in run.loaders.values()), default=0)
    often = any(e.begun >= 0.9 * run.steps for e in run.loaders.values())
    if run.steps >= LOOKS and often and many >= LOOKS and of and lost >= (1 - 1.5 / many) * of:
        yield SKIPPED_BATCHES.finding(
            _where(run.loss.place if run.loss else None),
            "warning",
            _share(lost, of),
            f"Of {of} calls with gradients {lost} lead to no loss that is passed back: the loader "
            f"is gone through ({many} batches) for each backward pass, which is of the last alone.",
            ("Put the backward pass and the step into the loop over batches.",),
        )


UNSWITCHED_TEACHER = Kind(
    "unswitched-teacher",
    "a model that never trains, with dropout or batch normalisation, is asked in training mode (a "
    "note)",
    SOURCE,
    even_if_it_learns=True,
)
REPEATED_LAYERS = Kind(
    "repeated-layers",
    "a list of layers holds one and the same layer several times; a note, unless the script comes "
    "farther with copies of it",
    SOURCE,
    even_if_it_learns=True,
)


@rule("script", UNSWITCHED_TEACHER, REPEATED_LAYERS)
def odd_models(run: ScriptRun) -> Iterator[Finding]:
    """A teacher that drops at random, and a stack that is one layer."""
    for name in dict.fromkeys(run.untold):
        if run.steps >= FEW:
            yield UNSWITCHED_TEACHER.finding(
                "(script)",
                "note",
                _share(run.steps, run.steps),
                f"{name} is asked without gradients alone, and in training mode: its dropout draws "
                "and its batch normalisation takes the batch at hand.",
                ("Call `eval()` on it, if it is not to draw.",),
            )
    for m in run.modules:
        if run.steps >= FEW and m.repeated_layers:
            yield REPEATED_LAYERS.finding(
                _where(m.place),
                "note",
                _share(run.steps, run.steps),
                f"{_named(m.repeated_layers)} of {m.kind} are one and the same layer, which stands "
                "in a list several times: it is called again and again with the same weights.",
                ("Make each anew: `[Block() for _ in range(n)]`, not `[Block()] * n`.",),
            )


UNMOVED_STATES = Kind(
    "unmoved-states",
    "targets that look a step ahead are of the same samples as what is learned from them",
    "Arithmetic: a state that is its own successor tells nothing of what is done",
    proven=True,
    brings=TRAINING,
)


@rule("script", UNMOVED_STATES)
def unmoved_states(run: ScriptRun) -> Iterator[Finding]:
    """A buffer that holds one array many times, which its environment goes on writing to."""
    still, of = run.unmoved
    if run.steps >= FEW and of >= THROUGH_TIME and still == of:
        yield UNMOVED_STATES.finding(
            "(script)",
            "error",
            _share(still, of),
            f"In {still} of {of} steps the states that targets look ahead of are the same, number "
            "by number, as the states before: each is its own successor.",
            ("Keep a copy of each state (`state.copy()`), not the array that is written to.",),
        )


UNUSED_DERIVATIVE = Kind(
    "unused-derivative",
    "derivatives are taken with their graph, and no loss is made of them",
    SOURCE,
    even_if_it_learns=True,
)


@rule("script", UNUSED_DERIVATIVE)
def unused_derivative(run: ScriptRun) -> Iterator[Finding]:
    """Weights that are adapted and not used, a penalty that is not added."""
    for place, (unused, of) in run.derivatives.items():
        if run.steps >= FEW and of >= 2 and unused == of:
            yield UNUSED_DERIVATIVE.finding(
                _where(place),
                "warning",
                _share(unused, of),
                f"The derivative at {_where(place)} is taken with its graph (`create_graph=True`), "
                "and the loss that is passed back is not made of it: what is computed from it is "
                "left aside.",
                ("Let the loss be of what was made of it, or do not compute it.",),
            )


AGREEING_ADVERSARIES = Kind(
    "agreeing-adversaries",
    "what one model gives is moved by one optimizer towards what another one tells the judge to "
    "say of it",
    "Goodfellow et al. 2014, Sec. 3: the generator is to be taken for data",
    even_if_it_learns=True,
)
TURNED_TRIPLETS = Kind(
    "turned-triplets",
    "what a loss of triplets is to bring near lies farther from the anchor at first, by 8 standard "
    "errors, than what it is to keep far, and neither was chosen among others",
    "Arithmetic: samples that belong together are alike",
    even_if_it_learns=True,
)
ANSWER_AMONG_INPUTS = Kind(
    "answer-among-inputs",
    "a column of the inputs is the target, shifted and scaled, in every batch; or the last step of "
    "the sequences that go in is the target as it is",
    "Kaufman et al. 2012, Sec. 3: a feature that is not there when the target is asked for",
    even_if_it_learns=True,
)

HELD_OUT_NODES = Kind(
    "held-out-nodes",
    "the loss is of all nodes of a graph, and disjoint parts of these are scored apart: none of "
    "them is held out",
    "Kipf & Welling 2017, Eq. 10: the loss is of the nodes whose labels are given",
    even_if_it_learns=True,
)
OWN_MESSAGES = Kind(
    "own-messages",
    "what is gathered at one end of the edges of a graph is added up at the same end",
    "Arithmetic: a node receives itself, as often as it has edges, and nothing of its neighbours",
    even_if_it_learns=True,
)


@rule(
    "script",
    *(AGREEING_ADVERSARIES, TURNED_TRIPLETS, ANSWER_AMONG_INPUTS, HELD_OUT_NODES, OWN_MESSAGES),
)
def mistaken_tasks(run: ScriptRun) -> Iterator[Finding]:
    """Losses that fall, and ask for something else than is meant."""
    for place, (same, of) in run.agreed.items():
        if len(run.optimizers) > 1 and of >= LOOKS and same >= 0.9 * of:
            yield AGREEING_ADVERSARIES.finding(
                _where(place),
                "warning",
                _share(same, of),
                f"The loss at {_where(place)} moves what a model gives towards the same answer "
                "that the judge is told to give of it: the two agree, and nothing is learned of "
                "the data.",
                ("Give the model that is judged the target of what is real.",),
            )
    for place, errors in run.told_apart.items():
        if run.steps >= FEW and errors > SURELY:
            yield TURNED_TRIPLETS.finding(
                _where(place),
                "warning",
                _share(1, 1),
                f"The loss of triplets at {_where(place)} is to bring near what lies farther from "
                f"its anchors at first than what it is to keep far, by {errors:.0f} standard "
                "errors: the two are exchanged.",
                ("Call it with the anchor, then what belongs to it, then what does not.",),
            )
    for place, (nodes, parts) in run.held.items():
        if run.steps >= FEW:
            yield HELD_OUT_NODES.finding(
                _where(place),
                "warning",
                _share(1, 1),
                f"The loss at {_where(place)} is of all {nodes} nodes of the graph, and parts of "
                f"them are scored apart ({', '.join(map(str, parts))}): what is scored to test is "
                "trained on, too.",
                ("Let the loss be of the nodes to train on: `out[train_mask], y[train_mask]`.",),
            )
    for place, (column, of) in run.answers.items():
        if run.steps >= FEW and column >= 0 and not of:
            yield ANSWER_AMONG_INPUTS.finding(
                _where(place),
                "warning",
                _share(1, 1),
                f"The target of the loss at {_where(place)} is the last step of the sequence that "
                "goes in, number by number: to copy it is all that is learned.",
                ("To tell what comes next, take the target one step behind the window.",),
            )
        elif run.steps >= FEW and column >= 0:
            yield ANSWER_AMONG_INPUTS.finding(
                _where(place),
                "warning",
                _share(1, 1),
                f"Column {column} of the {of} that go in is the target of the loss at "
                f"{_where(place)}, shifted and scaled, to the last digits: to copy it is all that "
                "is learned.",
                ("Leave the target out of the inputs, if it is not there where it is asked for.",),
            )
    for (gathered, added), count in run.returned.items():
        if run.steps >= FEW and count >= LOOKS:
            yield OWN_MESSAGES.finding(
                _where(gathered),
                "warning",
                _share(count, count),
                f"What is gathered at {_where(gathered)} by one end of the edges is added up at "
                f"{_where(added)} by the same end: each node receives itself, as often as it has "
                "edges, and nothing of its neighbours.",
                ("Gather where an edge begins (`x[src]`), and add up where it ends (`dst`).",),
            )


MINIMISED_ENTROPY = Kind(
    "minimised-entropy",
    "steps make the entropy of a policy smaller, which a bonus is to make larger",
    "Williams & Peng 1991; Mnih et al. 2016, Sec. 4: entropy is added to what is maximised",
    even_if_it_learns=True,
)


@rule("script", MINIMISED_ENTROPY)
def minimised_entropy(run: ScriptRun) -> Iterator[Finding]:
    """A bonus with the wrong sign: a policy that is to be sure at once."""
    for place, (down, of) in run.entropies.items():
        down = of - down if run.climbs else down
        if run.steps >= FEW and of >= FEW and down >= 0.9 * of and run.turned:
            yield MINIMISED_ENTROPY.finding(
                _where(place),
                "warning",
                _share(down, of),
                f"The entropy at {_where(place)} is made smaller by each step: the policy is drawn "
                "to do one thing always, whatever comes of it.",
                ("Take it away from the loss: `loss - 0.01 * entropy`.",),
            )


DRAWN_TWICE = Kind(
    "drawn-twice",
    "of two draws alike one goes into a model and the other one is an index, or noise that outputs "
    "are compared with, and the script comes farther where they are one",
    SOURCE,
)
FORGOTTEN_STATE = Kind(
    "forgotten-state",
    "the script comes farther where recurrent layers begin where the batch before has ended",
    SOURCE,
)
REVERSED_EDGES = Kind(
    "reversed-edges",
    "the script comes farther where the edges of its graph are turned round",
    SOURCE,
)
UNSHARED_PROBABILITIES = Kind(
    "unshared-probabilities",
    "a loss takes logarithms of the probabilities of classes, and those that it is given do not "
    "add up to one over the classes",
    SOURCE,
    proven=True,
    even_if_it_learns=True,
)
UNBOUNDED_OVERLAP = Kind(
    "unbounded-overlap",
    "what an output and a mask have in common is divided by the sum of both, as in the loss of "
    "Dice, and the output is no share: it lies beyond 0 and 1, by half of that for an error",
    "Milletari et al. 2016, Sec. 3: the overlap of what lies between 0 and 1",
    proven=True,
    even_if_it_learns=True,
)
BOUNDED_OUTPUT = Kind(
    "bounded-output",
    "a loss of values is given the output of an operation that ends in a range, and 5 % (warning) "
    "or 50 % (error) of the spread of the targets lies beyond it",
    "Arithmetic: what no output can be",
    proven=True,
    brings=(*TRAINING, OUT_OF_REACH),
)


@rule("script", UNSHARED_PROBABILITIES, UNBOUNDED_OVERLAP, BOUNDED_OUTPUT)
def unfit_outputs(run: ScriptRun) -> Iterator[Finding]:
    """Outputs that are not, or cannot be, what a loss takes."""
    for (name, place), gap in run.unshared.items():
        if run.steps >= FEW and gap > UNSHARED:
            yield UNSHARED_PROBABILITIES.finding(
                _where(place),
                "warning",
                _share(1, 1),
                f"`{name}` at {_where(place)} takes logarithms of probabilities, and what it is "
                f"given adds up to {exp(gap):.3g} times one, or as much less, over the classes: "
                "the softmax before it is missing, or over another dimension.",
                ("Give it the `log_softmax` over the dimension of the classes.",),
            )
    for place, (low, high) in run.overlaps.items():
        over = max(-low, high - 1)
        if run.steps >= FEW and over > UNSHARED:
            yield UNBOUNDED_OVERLAP.finding(
                _where(place),
                "error" if over > MANY else "warning",
                _share(1, 1),
                f"The overlap at {_where(place)} is that of a mask with outputs from {low:.3g} to "
                f"{high:.3g}: only of what lies between 0 and 1 is it a share, and smaller losses "
                "are no better masks.",
                ("Give it the `sigmoid`, or the `softmax`, of the scores.",),
            )
    for (name, place), share in run.beyond.items():
        if run.steps >= FEW and share >= REACH:
            yield BOUNDED_OUTPUT.finding(
                _where(place),
                "error" if share >= MANY else "warning",
                (Reading("(script)", q.OUT_OF_REACH, Estimate.exactly(share), "script", name),),
                f"The loss at {_where(place)} compares targets with what comes out of a {name}: "
                f"{share:.0%} of their spread lies beyond what that can be.",
                (f"Leave out the {name} at the end, or scale the targets into its range.",),
            )


@rule("script", SPREAD_SHAPES)
def spread_by_hand(run: ScriptRun) -> Iterator[Finding]:
    """A loss that is written out, of shapes that are spread over one another."""
    for (name, out, targets, place), count in run.spreads.items():
        if run.steps >= FEW and count >= min(FEW, run.steps):
            yield SPREAD_SHAPES.finding(
                _where(place),
                "error",
                _share(count, count),
                f"`{name}` at {_where(place)} takes {list(out)} with {list(targets)}: each output "
                "meets the targets of all samples.",
                ("Give both one shape, by `squeeze(-1)` or `view_as`.",),
            )


ATTACHED_TARGET = Kind(
    "attached-target",
    "the targets of a loss follow its gradient: they are sums with an output of the same weights, "
    "or of another model that the same optimizer moves, and nothing else is minimised; or it goes "
    "through what log probabilities of draws are weighted by, to what gives it",
    SOURCE,
    brings=TRAINING,
)
IDENTICAL_PAIR = Kind(
    "identical-pair",
    "a loss is to bring two tensors together, and is given the same one twice",
    SOURCE,
    proven=True,
    even_if_it_learns=True,
)


@rule("script", MAXIMISED_LOSS, ATTACHED_TARGET, IDENTICAL_PAIR)
def turned_losses(run: ScriptRun) -> Iterator[Finding]:
    """Losses that cannot do what they are for."""
    for (name, place), (up, of) in run.reversed.items():
        up = of - up if run.climbs else up
        if of >= FEW and up >= 0.9 * of and len(run.optimizers) == 1:
            how = (
                f"is what {run.optimizers[0].kind} is told to maximise (`maximize=True`)"
                if run.climbs
                else "goes into what is minimised with a minus"
            )
            yield MAXIMISED_LOSS.finding(
                _where(place),
                "error",
                _share(up, of),
                f"`{name}` at {_where(place)} {how}: each step makes it larger.",
                (f"Minimise `{name}` itself.",),
            )
    for (name, place), count in run.attached.items():
        if count >= 2 and name == "log_prob":
            yield ATTACHED_TARGET.finding(
                _where(place),
                "warning",
                _share(count, count),
                f"Log probabilities are weighted at {_where(place)} by what a network gives, and "
                "gradients go through that, too: it is moved so that draws look better or worse "
                "than they were, and not towards what they brought.",
                ("Detach the advantage: `log_prob * advantage.detach()`.",),
            )
        elif count >= 2:
            yield ATTACHED_TARGET.finding(
                _where(place),
                "warning",
                _share(count, count),
                f"The targets of `{name}` at {_where(place)} are a sum with what the same weights "
                "give, and gradients go through them: they are moved towards the output.",
                ("Compute targets under `torch.no_grad()`, or detach them.",),
            )
    for (name, place), count in run.two_sided.items():
        if count >= 2:
            yield ATTACHED_TARGET.finding(
                _where(place),
                "warning",
                _share(count, count),
                f"`{name}` at {_where(place)} is all that is minimised, and one optimizer moves "
                "what gives both of its sides: they agree where both say nothing of what they are "
                "given.",
                ("Detach the side that is the target, and leave its weights to no optimizer.",),
            )
    for (name, place), count in run.identical.items():
        if count >= FEW:
            yield IDENTICAL_PAIR.finding(
                _where(place),
                "error",
                _share(count, count),
                f"`{name}` at {_where(place)} is given the same tensor twice: a pair that is alike "
                "already teaches nothing of what belongs together.",
                ("Give it two samples that belong together, or two views of one.",),
            )


REVERSED_POLICY = Kind(
    "reversed-policy",
    "steps make log probabilities smaller, the more the larger their weight; right for costs; a "
    "note",
    "Williams 1992, Sec. 4: steps follow the gradient of reward times log probability",
    even_if_it_learns=True,
)


@rule("script", REVERSED_POLICY)
def reversed_policy(run: ScriptRun) -> Iterator[Finding]:
    """A policy that learns to do what is not rewarded."""
    for place, (turned, of) in run.turned.items():
        turned = of - turned if run.climbs else turned
        if run.steps >= FEW and of >= FEW and turned >= 0.9 * of:
            yield REVERSED_POLICY.finding(
                _where(place),
                "note",
                _share(turned, of),
                f"Log probabilities are weighted at {_where(place)}, and each step makes them "
                "smaller, the more the larger the weight: right if weights are costs, and reversed "
                "if they are rewards or advantages.",
                ("Minimise minus the mean of reward times log probability.",),
            )


SCALED_GRADIENTS = Kind(
    "scaled-gradients",
    "gradients that a scaler has made larger are clipped, or stepped by, as they are",
    "What a scaler of torch does, watched",
    proven=True,
    brings=(RATE_TOO_HIGH, STRONG_CLIPPING),
)


@rule("script", SCALED_GRADIENTS)
def scaled_gradients(run: ScriptRun) -> Iterator[Finding]:
    """A scaler that is not asked to undo what it did."""
    of = sum(n for (what, _), n in run.scaled.items() if what == "scale")
    for (what, place), count in run.scaled.items():
        if what == "scale" or of < FEW or count < MANY * of:
            continue
        clipped = what == "clipping"
        yield SCALED_GRADIENTS.finding(
            _where(place),
            "warning",
            _share(count, of),
            f"The {what} at {_where(place)} is of gradients that the scaler has multiplied by its "
            "scale" + (": the limit is as many times too strict." if clipped else "."),
            (
                "Call `scaler.unscale_(optimizer)` before gradients are clipped."
                if clipped
                else "Step by `scaler.step(optimizer)`, which divides by the scale.",
            ),
        )


LONG_WARM_UP = Kind(
    "long-warm-up",
    "a scheduler lets the rate rise for longer than there are steps",
    SOURCE,
)


@rule("script", LONG_WARM_UP)
def long_warm_up(run: ScriptRun) -> Iterator[Finding]:
    """A rate that never comes to be what it was meant to be."""
    for o in run.optimizers:
        if o.steps < FEW or not o.planned:
            continue
        rising = all(b >= a for a, b in pairwise(o.rates)) and o.rates[-1] > o.rates[0]
        ended = not run.stopped and rising and o.rates[-1] < MANY * o.planned
        meant = o.warm_up is not None and o.warm_up[0] >= 0.9 * o.warm_up[1] > 0
        if not (ended or meant):
            continue
        plan = "" if o.warm_up is None else " in {} of {} steps".format(*o.warm_up)
        place = next((place for _, place in run.scheduled), None)
        do = "Let it rise for a tenth of the steps that there are, or less."
        if 2 * sum(run.scheduled.values()) < o.steps:
            do = "Step the scheduler with each batch, if its plan counts these (of Lightning "
            do += '`"interval": "step"`), and not with each epoch.'
        yield LONG_WARM_UP.finding(
            _where(place or o.place),
            "warning",
            _share(len(o.rates), len(o.rates)),
            f"The rate rises{plan} ({_where(place)}), and is {o.rates[-1]:.2g} after {o.steps}, of "
            f"{o.planned:.2g} that it was meant to be: training ends before its warm-up does.",
            (do,),
        )


BATCH_OF_ONE = Kind(
    "batch-of-one",
    "a model with batch normalisation is trained on one sample at a time",
    SOURCE,
)


@rule("script", BATCH_OF_ONE)
def batch_of_one(run: ScriptRun) -> Iterator[Finding]:
    """Statistics of a batch that is a single sample."""
    for m in run.modules:
        if m.norms and m.in_training >= FEW and m.alone >= 0.9 * m.in_training:
            yield BATCH_OF_ONE.finding(
                _where(m.place),
                "warning",
                _share(m.alone, m.in_training),
                f"{m.kind} has batch normalisation and is called with one sample at a time "
                f"({m.alone} of {m.in_training} calls): each is normalised by itself, and in "
                "evaluation mode it is not.",
                ("Use larger batches, or `nn.GroupNorm` in the place of batch normalisation.",),
            )


HARMFUL_DECAY = Kind(
    "harmful-decay",
    "the script comes farther where weight decay spares gains, biases and embeddings, or acts "
    "beside the step of Adam and not in its gradient, and nearly as far as without any",
    "Loshchilov & Hutter 2019, Sec. 2",
)
DISCRIMINATOR_WON = Kind(
    "discriminator-won",
    "of the losses of two optimizers, one of which trains through the model of the other, one is "
    "next to nothing, and the other one large or faded; a note of a large one where the run was "
    "stopped",
    SOURCE,
)


@rule("script", DISCRIMINATOR_WON)
def discriminator_won(run: ScriptRun) -> Iterator[Finding]:
    """An adversary that is always right, and teaches nothing any more."""
    last = min((o.ended for o in run.optimizers), default=0)
    if run.ahead or not any(m.fed for m in run.modules):
        return  # a judge of what an actor does; or two that train beside one another
    beside = [o for o in run.optimizers if o.steps >= FEW and o.began < last]
    seen = [(o, run.losses.get(o.backward)) for o in beside]
    long = [(o, loss.values) for o, loss in seen if loss and len(loss.values) >= 2 * FEW]
    tails = [(o, v[0], median(v[-len(v) // 5 :]), min(v)) for o, v in long]
    # a logarithm of one plus a little is below nothing
    won = [t for t in tails if t[3] > -NOTHING * t[1] and t[2] < WON * t[1]]
    least = max((max(end / WON, WON * first) for _, first, end, _ in won), default=0.0)
    # the other one is far larger, or fades where it is one that saturates
    faded = lambda first, last, low: low < 0 and abs(last) < WON * abs(first)
    lost = [t for t in tails if t not in won and (t[2] > least or faded(*t[1:]))]
    if won and lost:
        o, first, last, low = lost[0]
        # one that grows has slopes still, and may catch up behind these steps
        open_ = run.stopped and not faded(first, last, low)
        yield DISCRIMINATOR_WON.finding(
            _where(won[0][0].backward),
            "note" if open_ else "warning",
            _share(o.steps, o.steps),
            f"The loss at {_where(won[0][0].backward)} has fallen to next to nothing, and that at "
            f"{_where(o.backward)} went from {first:.3g} to {last:.3g}: the one always wins"
            + (" in these steps." if open_ else ", and the other one learns nothing of it."),
            ("Give the one that wins a lower rate or fewer steps.",),
        )


HAND_WRITTEN_BACKWARD = Kind(
    "hand-written-backward",
    "a function of the script's own has a backward pass that is not the derivative of its forward "
    "pass; a note, unless the script comes farther with the derivative. Silent of one that leaves "
    "what it is given as it is, and where the derivative is zero, which is so on purpose",
    "Arithmetic: autograd of the forward pass in float64",
    even_if_it_learns=True,
)


@rule("script", HAND_WRITTEN_BACKWARD)
def hand_written_backward(run: ScriptRun) -> Iterator[Finding]:
    """A derivative with a mistake in it."""
    for (name, place), gaps in run.functions.items():
        if run.steps >= FEW and gaps and min(gaps) > ALIKE:
            gap = Estimate.exactly(median(gaps))
            yield HAND_WRITTEN_BACKWARD.finding(
                _where(place),
                "note",
                (Reading("(script)", q.DERIVATIVE_GAP, gap, "script", name),),
                f"The backward pass of `{name}` ({_where(place)}) gives another gradient than the "
                f"derivative of its forward pass: they differ by {median(gaps):.2g} of its size.",
                ("Compare it by `torch.autograd.gradcheck`, in float64; or leave it to autograd.",),
            )


LAST_BATCH_SCORE = Kind(
    "last-batch-score",
    "what a script prints of an evaluation depends on its last batch alone",
    "The script again, with nothing given in all batches but the last, and in the last",
    even_if_it_learns=True,
)


def last_batch_score(run: ScriptRun, count: int, before: str, after: str) -> Finding:
    """A score of one batch, where one of all was meant.

    Args:
        run: The script as it is.
        count: Batches of an evaluation.
        before: A number that was printed.
        after: The same with nothing given in the last batch.
    """
    model = next((m for m in run.modules if m.evaluated), None)
    return LAST_BATCH_SCORE.finding(
        _where(model.evaluated if model else None),
        "warning",
        (),
        f"A model is asked of {count} batches, and what is printed of it depends on the last one "
        f"alone: with nothing given in all others each number stays as it is, and with nothing "
        f"given in the last {before} is {after}.",
        ("Add up what each batch gives, weighted by its samples, and divide at the end.",),
    )


RULES: tuple[Rule[ScriptRun], ...] = (
    broken_numbers,
    refused_backward,
    cut_off,
    emptied_gradients,
    emptied_between,
    left_out,
    frozen_parameters,
    cut_graph,
    nothing_arrives,
    idle_parameters,
    misread_losses,
    scrambled_classes,
    exchanged_dimensions,
    misled_scores,
    mistaken_tasks,
    copied_targets,
    skipped_batches,
    odd_models,
    unmoved_states,
    unused_derivative,
    unfit_outputs,
    spread_by_hand,
    turned_losses,
    reversed_policy,
    minimised_entropy,
    scaled_gradients,
    old_gradients,
    evaluation_mode,
    unswitched_evaluation,
    slow_statistics,
    slow_average,
    longer_than_trained,
    unchanged_inputs,
    odd_inputs,
    inverted_mask,
    repeated_batch,
    spent_loader,
    empty_loader,
    undrawn_samples,
    repeated_draws,
    repeated_order,
    several_processes,
    divided_twice,
    stale_target,
    unaveraged_statistics,
    shuffled_sequences,
    changing_closure,
    unrecomputed_closure,
    rewritten_data,
    rounded_steps,
    dwindling_rate,
    turned_plateau,
    long_warm_up,
    batch_of_one,
    discriminator_won,
    strong_clipping,
    idle_clipping,
    sorted_classes,
    recreated_optimizer,
    growing_graph,
    hand_written_backward,
    nothing_loaded,
    overwritten_weights,
)
KINDS: tuple[Kind, ...] = (
    *dict.fromkeys(k for r in RULES for k in r.kinds if k not in (COPIED_TARGETS, MAXIMISED_LOSS)),
    # which interventions alone can tell
    *(UNSUITED_WEIGHTS, SUMMED_LOSS, HARMFUL_DECAY),
    *(DRAWN_TWICE, FORGOTTEN_STATE, REVERSED_EDGES, LAST_BATCH_SCORE),
)
CURES: Mapping[Kind, Callable[[], Intervention]] = MappingProxyType(
    {
        GRADIENTS_NOT_ZEROED: ZeroGradients,
        ZEROED_BEFORE_STEP: KeepGradients,
        ZEROED_BETWEEN_BATCHES: KeepGradients,
        LEFT_OUT_PARAMETERS: AllParameters,
        OTHER_PARAMETERS: AllParameters,
        EVALUATION_MODE: TrainingMode,
        FROZEN_PARAMETERS: Unfrozen,
        CUT_GRAPH: KeptGraph,
        CUT_THROUGH_TIME: KeptGraph,
        LONG_WARM_UP: FullRate,
        SPREAD_SHAPES: FittedShapes,
        DWINDLING_RATE: HoldRate,
        REPEATED_BATCH: Shuffled,
        STRONG_CLIPPING: NoClipping,
        IDLE_CLIPPING: Clipped,
        OVERWRITTEN_WEIGHTS: KeptWeights,
        SORTED_CLASSES: Shuffled,
        HAND_WRITTEN_BACKWARD: DerivedFunctions,
        NARROW_SCORES: SharperScores,
        REPEATED_LAYERS: ApartLayers,
    }
)


def found_in(run: ScriptRun) -> tuple[Finding, ...]:
    """What all rules say of a run, in their order."""
    return tuple(f for each in RULES for f in each(run))
