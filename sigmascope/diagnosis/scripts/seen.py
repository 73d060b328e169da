"""What was seen of a training script, as plain records that a file can hold."""

import linecache
import re
import sysconfig
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sigmascope.diagnosis.scripts.replay import Step

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's code."""

    file: str
    line: int

    @property
    def text(self) -> str:
        """The line as it is written, without the space around it."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def says(self) -> str:
        """`train.py:34`."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(slots=True)
class OptimizerSeen:
    """One optimizer.

    Attributes:
        kind: Its class.
        made: Where it was made.
        held: How many parameters it was given.
        place: Where it steps.
        zeroed: Where gradients are emptied.
        backward: Where the pass is that gives to it.
        steps: It has made.
        looked: At how many of them one looked; what is counted below is counted of these.
        rates: At each of all, of its first group.
        planned: The rate that its schedulers were given; None where there are none.
        warm_up: Steps in which a scheduler lets the rate rise, and steps it is planned for, where
            it says so.
        options: Other numbers of its first group.
        unusual: Those of its settings that are not as they are usual, with what is.
        old: Steps made of gradients that hold what was there before the last one.
        emptied: Steps whose gradients were emptied behind the backward pass.
        ahead: Those of them that come before the backward pass of their own loss.
        dropped: Steps before which a backward pass was made whose gradients were emptied, and the
            same pass once more.
        empty: Steps for which no backward pass gave anything.
        missed: Steps before which the last backward pass gave nothing to it, when nothing was left.
        missed_by: Where that pass is.
        overwritten: Steps before which something else had written to a parameter that is followed.
        moved: Largest change of a parameter that is followed over its size, now and then.
        began: Steps that all optimizers had made before its first.
        ended: And before its last.
        foreign: Parameters that it holds and no model that was called has.
        fixed: Numbers that it holds and that take no gradient.
        given: Backward passes that gave to it since its last step.
        vain: Steps in a row before which none did.
        evaluated: Steps in which a closure called a model more than once.
        changing: Those of them in which no call was given what another one was.
        start: Sum of the sizes of what it holds before its first step, in a group of processes.
        rounded: Share of the numbers with a gradient that a step left as they were, now and then.
        held_in: The precision of the first of them.
        unasked: Steps whose closure called no model and passed nothing back.
        numbers: That it holds.
        trained: Those that take a gradient.
        zero: How many of all led to a loss and received a gradient of zeros each time.
        zero_names: Of their tensors, where these are known.
        zero_weights: Whether they are zero themselves.
    """

    kind: str
    made: Line | None
    held: int
    place: Line | None = None
    zeroed: Line | None = None
    backward: Line | None = None
    steps: int = 0
    looked: int = 0
    rates: list[float] = field(default_factory=list)
    planned: float | None = None
    warm_up: tuple[int, int] | None = None
    options: dict[str, float] = field(default_factory=dict)
    unusual: dict[str, Any] = field(default_factory=dict)
    old: int = 0
    emptied: int = 0
    ahead: int = 0
    dropped: int = 0
    empty: int = 0
    missed: int = 0
    missed_by: Line | None = None
    overwritten: int = 0
    moved: list[float] = field(default_factory=list)
    began: int = 0
    ended: int = 0
    foreign: int = 0
    fixed: int = 0
    given: int = 0
    vain: int = 0
    evaluated: int = 0
    changing: int = 0
    start: float = 0.0
    rounded: list[float] = field(default_factory=list)
    held_in: str = ""
    unasked: int = 0
    numbers: int = 0
    trained: int = 0
    zero: int = 0
    zero_names: tuple[str, ...] = ()
    zero_weights: bool = False

    @property
    def given_by_hand(self) -> bool:
        """Whether gradients are there in some steps, and no backward pass gave any of them."""
        return self.vain >= self.looked > self.empty + self.emptied


@dataclass(slots=True)
class Called:
    """A module that the script calls itself, with gradients.

    Attributes:
        kind: Its class.
        place: Where it was called first.
        parameters: Numbers that it has.
        minds_mode: Whether dropout or batch normalisation is in it.
        in_training: Calls in training mode.
        in_evaluation: Calls in evaluation mode.
        alone: Calls with a single sample.
        norms: Whether batch normalisation is in it.
        first_evaluation: Steps made before the first of these.
        evaluated: Where it was last put into evaluation mode.
        frozen: Numbers that take no gradient.
        outside: Parameters that take gradients and that no optimizer has, when one looked last.
        outside_numbers: How many numbers these are.
        outside_given: How many of them were given a gradient by the next step.
        shapes: Of what goes in and of what comes out.
        alike: How often one was called with the samples of the most frequent batch.
        asked: Calls without gradients in evaluation mode.
        unswitched: Calls without gradients of a module that minds its mode, in training mode, each
            right behind another one.
        repeated: Whether it is called without gradients for the same samples twice in a row.
        asked_at: Where the first of those was.
        fed: Whether it is called with what another computation made, and gradients go through.
        recurrent: Whether a recurrent layer of torch is in it.
        edges: Whether it is called with what may be the edges of a graph.
        longest: The second size of what it is called with, at most.
        asked_longest: The same, where it is called without gradients.
        unchanged: Share of the columns of what goes in that come out as they were.
        repeated_layers: Names of layers with parameters that stand in a list more than once.
        interleaved: Squared difference of numbers of images that lie as many places apart as there
            are channels, over that of neighbours, where those nearer and farther apart differ more.
        spreads: Of the numbers in what it is called with first, and in what it is first called
            with without gradients, one each, of samples of the same shape.
        twin: Whether another one has the same weights when the later of the two is called first.
        lagging: Share of running statistics that was what they were built with still, when it was
            asked in evaluation mode last.
    """

    kind: str
    place: Line | None
    parameters: int = 0
    minds_mode: bool = False
    in_training: int = 0
    in_evaluation: int = 0
    alone: int = 0
    norms: bool = False
    first_evaluation: int | None = None
    evaluated: Line | None = None
    frozen: int = 0
    outside: tuple[str, ...] = ()
    outside_numbers: int = 0
    outside_given: int = 0
    shapes: tuple[Shapes, Shapes] = ((), ())
    alike: int = 0
    asked: int = 0
    unswitched: int = 0
    repeated: bool = False
    asked_at: Line | None = None
    fed: bool = False
    recurrent: bool = False
    edges: bool = False
    longest: int = 0
    asked_longest: int = 0
    unchanged: float = 0.0
    repeated_layers: tuple[str, ...] = ()
    interleaved: float = 1.0
    spreads: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    twin: bool = False
    lagging: float = 0.0


@dataclass(slots=True)
class LossSeen:
    """What one call of `backward` is made on.

    Attributes:
        place: Where.
        values: One a pass.
        leaves: Passes on a number that no computation led to.
        nodes: Steps made, and nodes of the graph, now and then.
    """

    place: Line | None
    values: list[float] = field(default_factory=list)
    leaves: int = 0
    nodes: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class LoaderSeen:
    """A `DataLoader`.

    Attributes:
        place: Where it was iterated first.
        count: Batches it has; None where it does not say.
        sampler: Its class.
        begun: How often it was begun.
        samples: In its data set; None where that does not say.
        batch: Of how many of these a batch is; None where it draws batches otherwise.
        orders: What the order of a `DistributedSampler` that shuffles was drawn by, each time.
        weights: How many a sampler that draws samples by weights has; None of others.
        by_class: Where the data set says the class of each sample, and these weights are one for
            each class: how many samples it has, and its weight.
    """

    place: Line | None
    count: int | None
    sampler: str
    begun: int = 0
    samples: int | None = None
    batch: int | None = None
    orders: set[tuple[int, int]] = field(default_factory=set)
    weights: int | None = None
    by_class: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """A call of `load_state_dict`: keys in the file, keys of the model, and those that met.

    Attributes:
        same: Whether all that met was there already.
        shared: Whether all that met are the model's own tensors.
        kept: Where these were handed out, before other steps.
        at: Steps made before.
    """

    place: Line | None
    keys: int
    wanted: int
    met: int
    same: bool = False
    at: int = 0
    shared: bool = False
    kept: Line | None = None


@dataclass(frozen=True, slots=True)
class CutSeen:
    """A place at which something is taken out of the graph, seen in the first steps.

    Attributes:
        place: Where.
        how: The function that does it.
        names: Parameters that lead there, are in an optimizer and never receive a gradient.
        numbers: How many numbers these are.
        of: Of how many of their models.
        fed: How often a module that led to it is called with what was taken out, in a step.
        across: How often another module is, or with what is made of it.
        scored: Whether it is a draw whose probability is asked for, as a policy's.
        carried: How often it was of what a module gave before the last backward pass, in a step.
        lost: How often it was a derivative without a graph that a loss is made of.
    """

    place: Line | None
    how: str
    names: tuple[str, ...] = ()
    numbers: int = 0
    of: int = 0
    fed: float = 0.0
    across: float = 0.0
    scored: bool = False
    carried: float = 0.0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class StaleSeen:
    """A copy of a model that trains, whose maximum makes targets, and that never changes.

    Attributes:
        kind: Its class.
        place: Where the maximum is taken.
        steps: Made since it was called first.
    """

    kind: str
    place: Line | None
    steps: int


@dataclass(frozen=True, slots=True)
class BrokenSeen:
    """Where numbers first ceased to be numbers.

    Attributes:
        step: How many were made before.
        what: `loss`, `gradients` of one that is a number, the `step` behind them, or `data` where
            they never were.
        how: The operation that made it, or whose derivative it is; empty where it is not known.
        place: The line on which that was computed; of data, on which they were met first.
    """

    step: int
    what: str
    how: str
    place: Line | None


@dataclass(slots=True)
class ScriptRun:
    """A script while it trained, as far as it was watched.

    Attributes:
        steps: Of all optimizers.
        backwards: Backward passes.
        moved_by_hand: How many of the first of them, before any step of an optimizer, found weights
            that were others than at the pass before.
        seconds: It ran.
        step_seconds: From one step to the next.
        stopped: Whether it was ended because enough was seen.
        repeated: Whether that was where another model like the first is trained from its start.
        error: What it raised: the name of the class, the message, and its traceback.
        crossed: The last place of this package that it came through, if any.
        modules: That it calls itself, in the order of their first calls.
        optimizers: In the order of their first steps.
        unstepped: Those that never stepped, and were given gradients.
        losses: By the place of their backward pass.
        comparisons: Losses of torch that were called: name, operation that made the output,
            shapes of output and targets, place; how often.
        terms: Values of losses of torch that were called, by name and place.
        phases: Steps made when another model was called first, or another optimizer stepped.
        unshared: Logarithm of the sum of what a loss takes for logarithms of shares, at least, by
            its name and place.
        shares: Where a softmax made what such a loss of rows is given, by its place.
        beyond: Share of the spread of targets that lies beyond the range of the operation that
            ends the output, at least, by its name and place.
        summed: How many numbers a loss is the sum of, by place.
        divided: A number by which a loss is divided twice, by place.
        stale: Copies that make targets and never change.
        averages: Of copies whose weights lie between those of a model that trains and what these
            were before the first step: the share of the latter when one was asked last, and where,
            by class.
        rounds: How often a model that trains was asked without gradients, from one step or loader
            to the next.
        untold: Classes of models with dropout or batch normalisation that never train and are asked
            in training mode.
        bare: Classes of copies that are asked in evaluation mode, with batch normalisers that no
            batch has told anything.
        classes: Of targets that are classes: samples, different classes, and columns of the output.
        made: How often optimizers were made, by place.
        loaders: By identity.
        scheduled: Schedulers that stepped, by class and place.
        plateaus: What schedulers were given that lower a rate where it does not become better:
            whether better is more, and the values, by place.
        clipped: Place, limit and norm before, of each clipping.
        loaded: State dicts.
        cuts: Where something is taken out of the graph.
        reversed: How often a loss of torch was one that a backward pass makes larger, by name and
            place; and how often it was one at all.
        attached: How often the targets of a loss had gradients of the parameters of its output,
            and were a sum, by name and place.
        two_sided: How often a loss of two outputs was all that was passed back, and one optimizer
            had weights of both, by name and place.
        turned: How often log probabilities that are weighted were made smaller by a step, the more
            the larger their weight, by place; and how often there were any.
        acts: Whether something was drawn of a distribution that went into no module, as a policy's
            actions, which later data come of.
        drawn: How often, from one step to the next, random numbers that are drawn at a place were
            the same, and how often there were any, by function and place.
        scaled: How often a scaler made a loss larger, and how often gradients that were still so
            were clipped or stepped by: what, and place.
        identical: How often two tensors that a loss is to bring together were the same, by name
            and place.
        spent: How often an iterator of a loader that was at its end was asked for more, by place.
        shared: Parameters that several optimizers hold.
        narrow: By the place of a cross-entropy of products of vectors of length one: how many
            scores a row has, and how large they can be.
        selves: How often each row of such scores was among them itself, and was not to be told, by
            place.
        weighted: Weights of classes, and how many samples of each there were, by place.
        pairs: By the place of a cross-entropy that says which rows belong together: by how many
            standard errors others in a fixed order were nearer than any, how many rows on these
            are (1 for neighbours), and by how many those were that it names.
        copied: How often a decoder was given, place by place, what it is to put out there.
        unmoved: How often what lies ahead of samples was the same as these, and how often targets
            were made of it.
        ahead: Whether targets were made of data and of what a model gave without gradients.
        derivatives: How often a derivative with a graph led to no loss, and how often there was
            one, by place.
        entropies: How often entropies of distributions were made smaller by a step, and how often
            there were any, by place.
        draws: How often of two draws alike one went into a model and the other was an index, or
            what an output is compared with, by the places of both.
        rewritten: How far data were changed over their size by being read.
        lost_calls: Calls of models with gradients that led to no loss, and all there were, behind
            the first backward pass.
        masked: How often a mask of attention hid all of what rows of ids hold and nothing of what
            fills their ends, and how often rows were filled, by place.
        agreed: How often an optimizer moved what its model gives towards what another one tells
            the judge of both to say of that, by the place of the loss, and how often there was one.
        told_apart: By how many standard errors what is to be far from an anchor lay nearer at first
            than what is to be near, by the place of the loss.
        answers: A column of the inputs that tells all targets, and of how many, by the place of
            the loss; -1 where there was none. Of none, where it is one of the last steps of
            sequences.
        scrambled: Shapes of scores that were laid out as rows of classes though classes are not
            their last dimension, by the place of their loss.
        reordered: How often a tensor was given a shape of the same lengths in another order, by
            place and both shapes, in the first steps.
        held: Nodes of a graph that a loss is of, all of them, and how many are in each of the parts
            that are scored apart, by the place of the loss.
        across: What an id tells of the one that is to follow it, and of that of the next sample at
            the same step, in nats, by the place of the loss; and where they were laid out in rows.
        overlaps: Between which numbers outputs lie that an overlap with zeros and ones is taken of,
            as what both have in common over the sum of both, by place.
        returned: How often rows that are gathered at the ends of edges were added up at the same
            ends, by the places of both.
        spreads: Operations between output and loss that spread an output over targets of another
            rank: name, both shapes, place; how often in the steps that were recorded.
        step: The one of the main optimizer, if it was recorded.
        unheard: Why not, if it was to be.
        functions: How far the backward pass of a function of the script's own is from the
            derivative of its forward pass, at its first calls, by its name and place.
        broken: Where numbers first ceased to be numbers, if they did, and it was looked for.
        batches: What models were called with first, with gradients: shapes, and sums of numbers.
        processes: How many the script asks for, of which this is one.
        grouped: Whether they are a group, and know of one another.
        rank: Of this one in it.
        told: Numbers that these gave to one another before the first backward pass.
        exchanged: From there on.
        averaged: Those of them that they gave between a backward pass and a step.
        broadcast: Those of them that one gave to all.
        objects: What this one broadcasts that is no tensor, in order.
        beside: The first steps of the second process, where that was run, too.
        wanted: Whether it asked for what a launcher tells a process, and that was not there.
        hands: Which of the functions that it gave to processes trains, from 1 on; 0 for one that a
            pool of processes calls, None for none.
        early: The same when as many steps were made as other runs are given, where it went on.
    """

    steps: int = 0
    backwards: int = 0
    moved_by_hand: int = 0
    seconds: float = 0.0
    step_seconds: list[float] = field(default_factory=list)
    stopped: bool = False
    repeated: bool = False
    error: tuple[str, str, str] | None = None
    crossed: str = ""
    modules: list[Called] = field(default_factory=list)
    optimizers: list[OptimizerSeen] = field(default_factory=list)
    unstepped: list[OptimizerSeen] = field(default_factory=list)
    losses: dict[Line | None, LossSeen] = field(default_factory=dict)
    comparisons: Counter[Any] = field(default_factory=Counter)
    terms: dict[Any, LossSeen] = field(default_factory=dict)
    phases: list[int] = field(default_factory=list)
    unshared: dict[Any, float] = field(default_factory=dict)
    shares: dict[Any, Line | None] = field(default_factory=dict)
    beyond: dict[Any, float] = field(default_factory=dict)
    summed: dict[Any, int] = field(default_factory=dict)
    divided: dict[Any, int] = field(default_factory=dict)
    stale: list[StaleSeen] = field(default_factory=list)
    averages: dict[str, tuple[float, Line | None]] = field(default_factory=dict)
    rounds: list[int] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    classes: list[tuple[int, int, int]] = field(default_factory=list)
    made: Counter[Any] = field(default_factory=Counter)
    loaders: dict[int, LoaderSeen] = field(default_factory=dict)
    scheduled: Counter[Any] = field(default_factory=Counter)
    plateaus: dict[Line | None, tuple[bool, list[float]]] = field(default_factory=dict)
    clipped: list[tuple[Line | None, float, float]] = field(default_factory=list)
    loaded: list[Loaded] = field(default_factory=list)
    cuts: list[CutSeen] = field(default_factory=list)
    reversed: dict[Any, tuple[int, int]] = field(default_factory=dict)
    attached: Counter[Any] = field(default_factory=Counter)
    two_sided: Counter[Any] = field(default_factory=Counter)
    acts: bool = False
    drawn: dict[Any, tuple[int, int]] = field(default_factory=dict)
    scaled: Counter[Any] = field(default_factory=Counter)
    turned: dict[Any, tuple[int, int]] = field(default_factory=dict)
    identical: Counter[Any] = field(default_factory=Counter)
    spent: Counter[Any] = field(default_factory=Counter)
    shared: int = 0
    narrow: dict[Any, tuple[int, float]] = field(default_factory=dict)
    selves: Counter[Any] = field(default_factory=Counter)
    weighted: dict[Any, tuple[list[float], list[int]]] = field(default_factory=dict)
    pairs: dict[Any, tuple[float, int, float]] = field(default_factory=dict)
    copied: Counter[Any] = field(default_factory=Counter)
    unmoved: tuple[int, int] = (0, 0)
    ahead: bool = False
    derivatives: dict[Any, tuple[int, int]] = field(default_factory=dict)
    entropies: dict[Any, tuple[int, int]] = field(default_factory=dict)
    draws: Counter[Any] = field(default_factory=Counter)
    rewritten: float = 0.0
    lost_calls: tuple[int, int] = (0, 0)
    scrambled: dict[Line | None, tuple[int, ...]] = field(default_factory=dict)
    reordered: Counter[Any] = field(default_factory=Counter)
    held: dict[Line | None, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    across: dict[Line | None, tuple[float, float, Line | None]] = field(default_factory=dict)
    masked: dict[Line | None, tuple[int, int]] = field(default_factory=dict)
    agreed: dict[Line | None, tuple[int, int]] = field(default_factory=dict)
    told_apart: dict[Line | None, float] = field(default_factory=dict)
    answers: dict[Line | None, tuple[int, int]] = field(default_factory=dict)
    overlaps: dict[Line | None, tuple[float, float]] = field(default_factory=dict)
    returned: Counter[Any] = field(default_factory=Counter)
    spreads: Counter[Any] = field(default_factory=Counter)
    step: Step | None = field(default=None, compare=False)
    unheard: str = ""
    functions: dict[Any, list[float]] = field(default_factory=dict)
    broken: BrokenSeen | None = None
    batches: list[tuple[tuple[int, ...], float]] = field(default_factory=list)
    processes: int = 1
    grouped: bool = False
    rank: int = 0
    told: int = 0
    exchanged: int = 0
    averaged: int = 0
    broadcast: int = 0
    objects: list[bytes] = field(default_factory=list)
    beside: "ScriptRun | None" = field(default=None, compare=False)
    wanted: bool = False
    hands: int | None = None
    early: "ScriptRun | None" = field(default=None, compare=False)

    @property
    def compared(self) -> "ScriptRun":
        """As many steps of it as other runs are given."""
        return self.early or self

    @property
    def climbs(self) -> bool:
        """Whether what is passed back is made larger: the only optimizer is told to maximise it."""
        return [bool(o.options.get("maximize")) for o in self.optimizers] == [True]

    @property
    def successive(self) -> bool:
        """Whether there are several optimizers, each of which begins when one is done."""
        return len(self.optimizers) > 1 and all(
            after.began > before.ended for before, after in pairwise(self.optimizers)
        )

    @property
    def raised(self) -> Line | None:
        """The line of the script's own code at which it ended with an error."""
        trace = self.error[2] if self.error else ""
        places = re.findall(r'File "([^"]+)", line (\d+)', trace)
        library = sysconfig.get_path("stdlib")
        own = [
            Line(file, int(at))
            for file, at in places
            if "site-packages" not in file and not file.startswith(library)
        ]
        return own[-1] if own else None

    @property
    def main(self) -> OptimizerSeen | None:
        """The optimizer that makes most steps, the first of these."""
        return max(self.optimizers, key=lambda o: o.steps, default=None)

    @property
    def loss(self) -> LossSeen | None:
        """The loss that is followed: that of the main optimizer."""
        main = self.main
        own = self.losses.get(main.backward) if main else None
        return own or max(self.losses.values(), key=lambda seen: len(seen.values), default=None)
