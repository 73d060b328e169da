"""What is wrong with a training script, and what proves it: the same run with one thing changed.

A suspicion comes from what happened in the first run (`rules`), or from the network and batches
that were seen in it (`diagnosis`). It is proved where the script, run again from its start with the
same seeds and one thing done otherwise, ends lower: the gain is paired over seeds, with an
interval. A run that comes less than half as far as a cured one is an error; what is not proved is
none.
"""

import math
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sigmascope.core import quantities as q
from sigmascope.core.guard import Progress, Refusal, require_file
from sigmascope.core.records import (
    Estimate,
    Finding,
    Kind,
    Reading,
    Severity,
    Shown,
    kinds_of,
)
from sigmascope.diagnosis.engine import borne
from sigmascope.diagnosis.rules.catalogue import KINDS as OF_NETWORK, NO_PROGRESS
from sigmascope.diagnosis.rules.data import OFFSET_INPUTS, UNSCALED_INPUTS, UNSCALED_TARGETS
from sigmascope.diagnosis.rules.dependences import HEAVY_DROPOUT, RANDOM_EVALUATION
from sigmascope.diagnosis.rules.outputs import REVERSED_LOSS
from sigmascope.diagnosis.rules.representations import COLLAPSE, LAYER_GAIN, SIGMOID_STACK, SIZES
from sigmascope.diagnosis.rules.sequences import EXPLODING_THROUGH_TIME
from sigmascope.diagnosis.rules.steps import OUTWEIGHED_ERROR
from sigmascope.diagnosis.rules.training import (
    OTHER_OPTIMIZER,
    RATE_TOO_HIGH,
    RATE_TOO_LOW,
    STRONG_MOMENTUM,
    STRONG_WEIGHT_DECAY,
    STUCK_TRAINING,
    UNUSUAL_SETTINGS,
)
from sigmascope.diagnosis.rules.weights import FROZEN_LAYER
from sigmascope.diagnosis.scripts.interventions import (
    AdamSteps,
    BlankedScores,
    CarriedState,
    Clipped,
    DecayOfMatrices,
    DecoupledDecay,
    HeavierTerm,
    HoldRate,
    Intervention,
    LightDropout,
    LighterTerm,
    NoDecay,
    NormalisedLayers,
    OneDraw,
    Redrawn,
    ReversedEdges,
    ReversedSteps,
    ScaledRate,
    ScaledTargets,
    SkippedLayers,
    StandardisedInputs,
    Unfrozen,
    UsualSettings,
)
from sigmascope.diagnosis.scripts.patches import Change, changes_of, diff_of
from sigmascope.diagnosis.scripts.processes import PAIRED, NeedsOthers
from sigmascope.diagnosis.scripts.rules import (
    CURES,
    DIVIDED_TWICE,
    DRAWN_TWICE,
    FEW,
    FORGOTTEN_STATE,
    FROZEN_PARAMETERS,
    HARMFUL_DECAY,
    IDLE_PARAMETERS,
    KINDS,
    NON_FINITE_LOSS,
    REVERSED_EDGES,
    ROUNDED_STEPS,
    RULES,
    SUMMED_LOSS,
    UNSUITED_WEIGHTS,
    found_in,
    last_batch_score,
)
from sigmascope.diagnosis.scripts.running import KILLED, Job, Outcome, Runner, Script
from sigmascope.diagnosis.scripts.seen import ScriptRun

STEPS, SECONDS, SEEDS = 60, 60.0, 3
TAIL = 0.2  # of a run, over which its last loss is a mean
PROMISING = 0.02  # of the first loss, which one seed must gain before others are asked
T = MappingProxyType({2: 6.314, 3: 2.920, 4: 2.353, 5: 2.132})  # one-sided 95 % of Student's t
RISK = 0.05
DO: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {
        SUMMED_LOSS: ("Take the mean in place of the sum, or divide the rate by their number.",),
        OUTWEIGHED_ERROR: ("Give the larger loss a factor, or targets of about one in size.",),
        RATE_TOO_HIGH: ("Take the rate that was tried, and look for one nearby.",),
        RATE_TOO_LOW: ("Take the rate that was tried, and look for one nearby.",),
        UNSCALED_INPUTS: ("Shift and scale the inputs, by numbers of the training data.",),
        STRONG_WEIGHT_DECAY: ("Lower the weight decay: 1e-4 to 1e-2 is usual.",),
        HARMFUL_DECAY: (
            "Give gains, biases and embeddings a group with `weight_decay=0`, and take `AdamW` in "
            "the place of `Adam`.",
        ),
        OTHER_OPTIMIZER: ("Train by Adam, from its usual rate of 0.001 on.",),
        FROZEN_LAYER: ("Set `requires_grad_(True)` on what is to be trained.",),
        STRONG_MOMENTUM: ("Lower the momentum to 0.9.",),
        UNUSUAL_SETTINGS: ("Leave them as torch has them, or look for others nearby.",),
        DRAWN_TWICE: ("Draw once, and use what is drawn at both places.",),
        FORGOTTEN_STATE: (
            "Give the state of the batch before, detached, to the next one, if it goes on there.",
        ),
        REVERSED_EDGES: ("Gather where an edge begins, and add up where it ends.",),
    }
)
SEVERAL = 3  # batches of an evaluation
ENDLESS = 10**9  # steps
AHEAD = 3  # steps that one looks ahead of a loss that is no number
USUAL = 1e-2  # of their size, by which weights may change in a step
FAR_LARGER = 100.0  # times another loss
CLEAR = 0.1  # of the first loss, from which a gain is more than a note
NEARLY = 0.9  # of a gain
HALF = 0.5  # of what a cured run comes to
# what any cause may bring
OF_ANY = frozenset(k.name for k in (NO_PROGRESS, STUCK_TRAINING, NON_FINITE_LOSS, IDLE_PARAMETERS))
ORDER: tuple[Severity, ...] = ("error", "warning", "note")
# what is tried where a script does not come far and nothing says why
GENERIC: tuple[tuple[Kind, Callable[[], Intervention]], ...] = (
    (RATE_TOO_HIGH, lambda: ScaledRate(factor=0.1)),
    (RATE_TOO_LOW, lambda: ScaledRate(factor=10.0)),
    (RATE_TOO_HIGH, lambda: ScaledRate(factor=0.01)),
    (RATE_TOO_LOW, lambda: ScaledRate(factor=100.0)),
    (UNSCALED_INPUTS, StandardisedInputs),
    (UNSUITED_WEIGHTS, Redrawn),
    (FROZEN_LAYER, Unfrozen),
    (OTHER_OPTIMIZER, AdamSteps),
)
# what is tried for what a network that does not learn was found to have
FOR_NETWORK: Mapping[str, tuple[Callable[[], Intervention], ...]] = MappingProxyType(
    {
        **{k.name: (NormalisedLayers,) for k in (SIGMOID_STACK, LAYER_GAIN, *SIZES)},
        **{k.name: (NormalisedLayers, SkippedLayers) for k in COLLAPSE},
        EXPLODING_THROUGH_TIME.name: (Clipped,),
    }
)
BY_NAME: Mapping[str, tuple[Callable[[], Intervention], ...]] = MappingProxyType(
    {
        **{kind.name: (cure,) for kind, cure in CURES.items()},
        RATE_TOO_HIGH.name: (lambda: ScaledRate(factor=0.1), lambda: ScaledRate(factor=0.01)),
        RATE_TOO_LOW.name: (lambda: ScaledRate(factor=10.0), lambda: ScaledRate(factor=100.0)),
        STRONG_WEIGHT_DECAY.name: (NoDecay,),
        UNSCALED_TARGETS.name: (ScaledTargets,),
        HEAVY_DROPOUT.name: (LightDropout,),
        UNSCALED_INPUTS.name: (StandardisedInputs,),
        OFFSET_INPUTS.name: (StandardisedInputs,),
        FROZEN_LAYER.name: (Unfrozen,),
        REVERSED_LOSS.name: (ReversedSteps,),
    }
)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The script with one thing done otherwise.

    Attributes:
        name: Of the intervention.
        says: What was done.
        before: The last loss of the script as it is, for each seed.
        after: The last loss with it.
        first: The first loss.
        avoided: How much lower the loss ended, over the first; paired over seeds.
        values: Losses with it, of the first seed.
    """

    name: str
    says: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    first: float
    avoided: Estimate
    values: tuple[float, ...] = ()

    @property
    def once(self) -> bool:
        """Whether it came farther, and there was no time for another seed."""
        return math.isinf(self.avoided.low) and self.avoided.value > PROMISING

    @property
    def helps(self) -> bool:
        """Whether that is no chance."""
        return self.avoided.low > 0

    @property
    def halves(self) -> bool:
        """Whether the script as it is comes less than half as far."""
        far = [self.first - b for b in self.before]
        cured = [self.first - a for a in self.after]
        pairs = [(f, c) for f, c in zip(far, cured, strict=True) if math.isfinite(c)]
        return bool(pairs) and all(not f >= HALF * c and c > 0 for f, c in pairs)

    @property
    def follows(self) -> bool:
        """Whether the script as it is comes a tenth as far or more, with every seed."""
        pairs = zip(self.before, self.after, strict=True)
        return all(self.first - b >= CLEAR * (self.first - a) for b, a in pairs)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ScriptDiagnosis(Shown):
    """What a training script does, what is wrong with it, and what was tried.

    Attributes:
        script: As it was started.
        run: What was seen in the first run.
        findings: The surest first.
        attempts: What was done otherwise, the most helpful first.
        unlooked: What was not looked at, and why.
        untried: Interventions for which there was no time.
        diffs: By the name of a finding, the lines of the script to change.
    """

    script: Script
    run: ScriptRun
    findings: tuple[Finding, ...]
    attempts: tuple[Attempt, ...] = ()
    unlooked: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    diffs: Mapping[str, str] = field(default_factory=dict)

    def cures(self) -> tuple[Attempt, ...]:
        """What helped, the most first: it was tried already, to prove what is wrong."""
        return tuple(a for a in self.attempts if a.helps)


def diagnose_script(
    script: Script | str,
    *,
    steps: int = STEPS,
    seconds: float = SECONDS,
    seeds: int = SEEDS,
    output: str = "",
    progress: Progress | None = None,
    early: Callable[[tuple[Finding, ...]], None] | None = None,
) -> ScriptDiagnosis:
    """Run a training script as it is for some steps, say what is wrong, and prove it.

    Args:
        script: A file of Python, or how it is started.
        steps: Of its optimizer that each run has, 8 or more.
        seconds: For everything. The script as it is has half of it until it begins to train, and
            then a quarter; a sixth even where it makes these steps sooner, for what a script does
            in a second phase, or at its end. Loading torch in a process of its own, which takes
            some seconds, comes on top.
        seeds: From which a gain is told from chance, 2 to 5.
        output: File for what the script prints in its first run; where this process prints if not
            given. What it prints in other runs is not kept.
        progress: Called with words, what is done, and of how much.
        early: Called with what the script's first run shows, before anything is proven.

    Raises:
        Refusal: If the script is not there, or never trains, with how far it came.
    """
    script = Script(script) if isinstance(script, str) else script
    if script.is_file:
        require_file(Path(script.target), (".py",))
        script = replace(script, target=str(Path(script.target).resolve()))
    if steps < FEW:
        raise Refusal(
            f"`steps` must be {FEW} or more, got {steps}: fewer show no habit. Ask for more."
        )
    if not seconds > 0:
        raise Refusal(f"`seconds` must be above 0, got {seconds:g}. Allow about a minute.")
    if seeds not in T:
        raise Refusal(f"`seeds` must be 2 to 5, got {seeds}. Three are usual.")
    tell = progress or (lambda *_: None)
    started = time.monotonic()
    with Runner() as runner:
        tell("the script as it is", 0, 0)
        budget = seconds / 4
        whole = {"network": budget, "output": output}
        job = Job(script, steps, budget, seconds / 6, seconds / 2, **whole)
        script, first = _begun(runner, job)
        fault, run = _fault(runner, script, first), first.run
        if not (run.steps or run.backwards or found_in(run)):
            raise Refusal(_untrained(first, script.name))
        values = run.loss.values if run.loss else []
        lost = next((k for k, v in enumerate(values) if not math.isfinite(v)), None)
        if lost is not None:  # a run to the step at which numbers first cease to be numbers
            step = max(0, run.steps * lost // len(values) - AHEAD)
            how = {"start": 2 * budget, "traced": step, "output": "/dev/null"}
            run.broken = runner.run(Job(script, step + 3 * AHEAD, budget, **how)).run.broken
        bench = _Bench(runner, script, first, steps, budget, started + seconds, seeds)
        own = found_in(run)
        later = {f.name for f in own} - {f.name for f in found_in(run.compared)}
        found = [*own, *first.findings]
        if early is not None:
            early(tuple(_judged(found, {}, run)))

        def told() -> Iterator[tuple[str, Intervention, bool]]:
            for name, one, long in _asked(first, found, later):
                tell(f"again, {one.says}", round(time.monotonic() - started), round(seconds))
                yield name, one, long

        attempts = bench.tried(told()) if run.steps >= FEW else {}
        if run.steps >= FEW:
            found += bench.scored()
        findings = tuple(_judged(found, attempts, run))
        diffs = bench.checked(changes_of(run, findings))
        tell("done", 1, 1)
    unread = (f"network and task: {first.unread.rstrip('.')}",) if first.unread else ()
    if run.moved_by_hand and not run.steps:
        late = ("habits of the loop, for weights are moved by hand, and by no optimizer of torch",)
    elif run.steps < FEW:
        late = (f"habits of the loop, for it made {run.steps} steps",)
    else:
        again = ": another model like this one, trained from its start" * run.repeated
        late = (f"what comes later than these steps{again}",) if run.stopped else ()
    return ScriptDiagnosis(
        script,
        run,
        findings,
        tuple(sorted(bench.attempts, key=lambda a: -a.avoided.value)),
        (
            *fault,
            *unread,
            *late,
            *_others(script, run),
        ),
        tuple(bench.untried),
        diffs,
    )


def _begun(runner: Runner, job: Job) -> tuple[Script, Outcome]:
    """The script as it is; or as what it is to be told, so that it trains in one process.

    Of several processes the second one is run, too, for a few steps.
    """
    script, first = job.script, runner.run(job)

    def asks() -> Iterator[Script]:
        if first.run.wanted and not first.late:
            yield replace(script, launched=True)
        elif first.run.hands:
            yield replace(script, inside=first.run.hands)
        says = first.run.error[1] if first.run.error else PAIRED
        if says != PAIRED and first.run.processes > 1:
            yield replace(script, alone=True)  # it may take what others alone can give

    for form in asks():
        if not (first.run.steps or first.run.backwards):
            again = runner.run(replace(job, script=form))
            if again.run.modules or not form.alone:
                script, first = form, again
    if first.run.processes > 1 and first.run.steps >= FEW:
        how = {"start": job.start, "rank": 1, "output": "/dev/null"}
        how["objects"] = tuple(first.run.objects)
        least = min(job.seconds, 2 * FEW * first.run.seconds / first.run.steps + AHEAD)
        second = runner.run(Job(script, FEW, least, **how)).run
        first.run.beside = second if second.rank != first.run.rank else None
    return script, first


def _others(script: Script, run: ScriptRun) -> tuple[str, ...]:
    """What is not known of other processes."""
    if run.processes > 1:
        looked = run.beside is not None and run.beside.backwards >= FEW
        second = ", but for the first steps of the second one" * looked
        of = "as `torchrun` starts two" if script.launched else f"of {run.processes}"
        return (f"other processes: one {of} was run, and others are taken to do the same{second}",)
    return ("other processes: one was run",) * bool(
        script.launched or script.inside or script.alone
    )


def _fault(runner: Runner, script: Script, first: Outcome) -> tuple[str, ...]:
    """An error that came through this package, and does not come where nothing is watched.

    Raises:
        RuntimeError: If it came before anything was trained.
    """
    run = first.run
    if run.error is not None and run.error[0] == NeedsOthers.__name__ and run.steps:
        says, run.error = run.error[1], None
        return (f"what comes later: it takes several processes, {says}",)
    if run.error is None or not run.crossed:
        return ()
    allowed = 2 * run.seconds + AHEAD
    bare = Job(script, 1, 0.0, start=allowed, output="/dev/null", bare=True)
    again = runner.run(bare).run.error
    if again is not None and again[0] == run.error[0]:
        return ()
    kind, says, _ = run.error
    if not run.steps:
        raise RuntimeError(f"{kind} at {run.crossed}, while {script.name} was watched: {says}")
    run.error = None
    return (f"what comes later: {kind} of sigmascope's own at {run.crossed} ended it",)


def _untrained(first: Outcome, name: str) -> str:
    """How far a script came that trained nothing."""
    run = first.run
    if run.error is not None:
        kind, says, _ = run.error
        if kind == KILLED:
            return (
                f"The process of {name} ended by {says} in the middle of its training, and what "
                "was seen of it is gone with it. A script that leaves by `os._exit`, or is killed "
                "for want of memory, ends so: leave that call out, or try fewer steps (`--steps`)."
            )
        if kind == NeedsOthers.__name__:
            return (
                f"{name} must train in one process to be diagnosed, and asks for {says}: all its "
                "processes are taken to do the same here. Let it train with one process."
            )
        at = run.raised
        where = f" ({Path(at.file).name}, line {at.line})" if at else ""
        hint = (
            "It asks for input, of which there is none here: give it arguments behind `--`."
            if kind == "EOFError"
            else "It asks for other arguments, and has printed which: give them behind `--`."
            if (kind, says) == ("SystemExit", "2")
            else "This error is the script's own: it comes without sigmascope, too."
        )
        return (
            f"{name} must train to be diagnosed, and ended before its first backward pass with "
            f"{kind}{where}: {says.rstrip('.')}. {hint}"
        )
    if run.hands == 0:
        return (
            f"{name} must train in its own process to be diagnosed, and trains in processes of a "
            "pool. Call the function that trains without the pool, for one of its tasks."
        )
    how = "was ended" if first.late or run.stopped else "ended"
    return (
        f"{name} must train with torch in its own process to be diagnosed; it {how} after "
        f"{run.seconds:.0f} s, in which no optimizer of torch stepped and nothing was passed back"
        f"{'' if run.modules else ', nor any module called with gradients'}. Name the script that "
        "trains, or allow more time (`--seconds`)."
    )


def _asked(
    first: Outcome, found: Sequence[Finding], late: set[str]
) -> Iterator[tuple[str, Intervention, bool]]:
    """What is worth a run, which finding it would prove, and whether that takes all of the run.

    Cures of what was found come first, then others.

    Where several optimizers have losses of their own, none of these tells how far they came, and
    nothing is tried that no finding asks for; nor does that of a policy, whose data come of what it
    does, nor one of targets that look ahead. Where no loss was read
    nothing is tried.
    """
    run, seen = first.run.compared, set[str]()
    if run.loss is None or not run.loss.values:
        return
    asked = [(f.name, made()) for f in found for made in BY_NAME.get(f.name, ())]
    if not learned(run) and not learned(first.run, HALF):
        asked += [(f.name, made()) for f in found for made in FOR_NETWORK.get(f.name, ())]
    # of a policy a loss tells nothing, nor does one whose targets are made of what was learned
    if len(run.optimizers) == 1 and not (run.turned or run.acts or run.ahead):
        only = run.optimizers[0]
        decay = only.options.get("weight_decay", 0.0)
        beside = only.kind != "Adam" or only.options.get("decoupled_weight_decay")
        # a thousandth of the weights in a step, or much of the steps of Adam
        if decay * only.rates[0] > 1e-3 or (not beside and decay >= 0.01):
            asked.append((STRONG_WEIGHT_DECAY.name, NoDecay()))
        if run.scheduled:
            asked.append(("", HoldRate()))
        # where one of two losses of torch is not learned beside another that is far larger
        sizes = {k: [abs(v) for v in seen.values] for k, seen in run.terms.items()}
        usual = {k: statistics.median(v) for k, v in sizes.items() if len(v) >= FEW}
        large = max(usual, key=lambda k: usual[k], default=None)
        for small, size in usual.items():
            before, last = ends(run, small)
            alike = len(sizes[small]) == len(sizes[large])  # of the same steps
            if alike and 0 < size < usual[large] / FAR_LARGER and last > 0.9 * before:
                lighter = LighterTerm(term=large, other=small, factor=size / usual[large])
                asked.append((OUTWEIGHED_ERROR.name, lighter))
        if len(run.terms) == 1 and any(f.name == OUTWEIGHED_ERROR.name for f in found):
            asked.append(
                (OUTWEIGHED_ERROR.name, HeavierTerm(term=next(iter(run.terms)), factor=100.0))
            )
        asked += [
            (DRAWN_TWICE.name, OneDraw(places=frozenset(p))) for p, n in run.draws.items() if n > 1
        ]
        if not learned(first.run, HALF):
            if any(m.recurrent for m in run.modules):
                asked.append((FORGOTTEN_STATE.name, CarriedState()))
            if any(m.edges for m in run.modules):
                asked.append((REVERSED_EDGES.name, ReversedEdges()))
        plain = only.kind in ("SGD", "ASGD", "Rprop")
        most = max(run.summed.values(), default=1) if plain else 1
        if most > 1:
            asked.append((SUMMED_LOSS.name, ScaledRate(factor=1 / most)))
        if plain and any(f.name == DIVIDED_TWICE.name for f in found):
            asked += [(DIVIDED_TWICE.name, ScaledRate(factor=by)) for by in run.divided.values()]
        if not learned(run) and not learned(first.run, HALF):  # it may only start slowly
            moved = max(run.main.moved, default=0.0) if run.main else 0.0
            if 0 < moved < USUAL / 300:  # the rate with which a step would change a hundredth
                factor = 10.0 ** round(math.log10(USUAL / moved))
                asked.append((RATE_TOO_LOW.name, ScaledRate(factor=factor)))
            frozen = any(m.frozen for m in run.modules)
            unasked = () if frozen else (FROZEN_LAYER,)
            unasked += () if plain else (OTHER_OPTIMIZER,)
            if only.unusual:
                kind = STRONG_MOMENTUM if [*only.unusual] == ["momentum"] else UNUSUAL_SETTINGS
                asked.append((kind.name, UsualSettings(settings=only.unusual)))
            asked += [(k.name, made()) for k, made in GENERIC if k not in unasked]
        rates = run.main.rates if run.main else []
        if rates and max(rates) > 1.5 * rates[0]:
            # a rate that is warming up is low now, and is not meant to stay so
            asked = [(name, one) for name, one in asked if name != RATE_TOO_LOW.name]
    if any(one.name == NoDecay.name for _, one in asked):
        asked.append((HARMFUL_DECAY.name, DecayOfMatrices()))
        if run.optimizers[0].kind == "Adam":
            asked.append((HARMFUL_DECAY.name, DecoupledDecay()))
    if _is_idle_at_last(first.run) and any(m.frozen for m in first.run.modules):
        late, asked = {*late, FROZEN_LAYER.name}, [(FROZEN_LAYER.name, Unfrozen()), *asked]
    for name, one in asked:
        if one.name not in seen:
            seen.add(one.name)
            yield name, one, name in late


def _is_idle_at_last(run: ScriptRun) -> bool:
    """Whether the loss falls by less than a tenth in a last phase that lies behind other runs."""
    begin = run.phases[-1] if run.phases else 0
    if run.loss is None or run.early is None or begin < run.early.steps:
        return False
    values = run.loss.values[round(len(run.loss.values) * begin / max(run.steps, 1)) :]
    count = max(3, round(TAIL * len(values)))
    first, last = (statistics.fmean(side) for side in (values[:count], values[-count:]))
    return len(values) >= 2 * FEW and last > first - 0.1 * abs(first)


def learned(run: ScriptRun, share: float = 0.1) -> bool:
    """Whether the loss of a run fell by a tenth of its size or more, or by another share."""
    first, last = ends(run)
    return last < first - share * abs(first)


def ends(run: ScriptRun, term: Any = None) -> tuple[float, float]:
    """The loss before any step, and the last, as a mean over a fifth of the run.

    Args:
        run: What was seen.
        term: Name and place of a loss of torch, if that is asked for.
    """
    seen = run.loss if term is None else run.terms.get(term)
    values = seen.values if seen else []
    if not values:
        return math.nan, math.nan
    count = max(3, round(TAIL * len(values)))
    tail = values[-count:]
    return values[0], statistics.fmean(tail) if all(map(math.isfinite, tail)) else math.inf


class _Bench:
    """Runs a script with one thing done otherwise, as long as there is time.

    What is found in its first steps is tried in as many; what is found later alone (`late`) in
    runs that are as long as the first.
    """

    def __init__(
        self,
        runner: Runner,
        script: Script,
        first: Outcome,
        steps: int,
        budget: float,
        until: float,
        seeds: int,
    ) -> None:
        self._runner, self._script, self._until, self._seeds = runner, script, until, seeds
        self._steps, self._budget = min(steps, max(first.run.steps, 1)), budget
        self._whole = first.run
        self._own = {False: {0: first.run.compared}, True: {0: first.run}}  # by whether it is long
        self._costs = {long: own[0].seconds + 0.5 for long, own in self._own.items()}
        self.attempts, self.untried = list[Attempt](), list[str]()

    def tried(self, asked: Iterator[tuple[str, Intervention, bool]]) -> dict[str, list[Attempt]]:
        """Each intervention, by the name of the finding that it would prove."""
        found: dict[str, list[Attempt]] = {}
        for name, one, long in asked:
            if name == OTHER_OPTIMIZER.name and any(a.helps for a in self.attempts):
                continue  # what helps within the script's own optimizer is the better word
            whole = any(a.name == NoDecay.name and a.helps for a in self.attempts)
            if name == HARMFUL_DECAY.name and not whole:
                continue  # what part of it harms is asked where it harms
            if self._late(1, long=long):
                self.untried.append(one.says)
                continue
            runs, own = {0: self._run(one, 0, long=long)}, self._own[long]
            if self._gain(own[0], runs[0], one) > PROMISING:
                for seed in range(1, self._seeds):
                    if self._late(1 + (seed not in own), long=long):
                        break
                    if seed not in own:
                        own[seed] = self._run(Intervention(), seed, long=long)
                    runs[seed] = self._run(one, seed, long=long)
            term, loss = one.judged_by(), runs[0].loss
            attempt = Attempt(
                one.name,
                one.says,
                tuple(ends(own[s], term)[1] for s in runs),
                tuple(ends(run, term)[1] for run in runs.values()),
                ends(own[0], term)[0],
                _paired([self._gain(own[s], run, one) for s, run in runs.items()]),
                tuple(loss.values) if loss and term is None else (),
            )
            self.attempts.append(attempt)
            if name:
                found.setdefault(name, []).append(attempt)
        return found

    def scored(self) -> list[Finding]:
        """Whether what is printed of evaluations is of their last batches alone."""
        run = self._whole
        rounds = Counter(n for n in run.rounds if n >= SEVERAL)
        if not rounds or run.error is not None:
            return []
        if self._late(4, long=True):
            self.untried.append(BlankedScores.says)
            return []
        count = rounds.most_common(1)[0][0]
        own = self._printed(Intervention())
        if not own or self._printed(BlankedScores(count=count)) != own:
            return []
        last, again = (
            self._printed(i) for i in (BlankedScores(count=count, last=True), Intervention())
        )
        if again != own or len(last) != len(own):  # there is more in it that changes
            return []
        changed = [(a, b) for a, b in zip(own, last, strict=True) if a != b]
        return [last_batch_score(run, count, *changed[0])] if changed else []

    def _printed(self, one: Intervention) -> list[str]:
        """Numbers that the script prints."""
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "printed"
            steps = self._whole.steps if self._whole.stopped else ENDLESS  # what comes at its end
            self._runner.run(self._job(steps, intervention=one, output=str(output)))
            text = output.read_text(encoding="utf-8", errors="replace")
        return re.findall(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?|nan|inf", text)

    def checked(self, changes: Mapping[str, Change]) -> dict[str, str]:
        """Diffs, without those of the script's file with which it does not run any more."""
        found = dict[str, str]()
        for name, change in changes.items():
            own, here = self._whole, str(change[0].resolve()) == self._script.target
            if here and own.error is None and not self._late(1, long=False):
                job = self._job(FEW, source="".join(change[2]))
                if self._runner.run(job).run.error is not None:
                    continue
            found[name] = diff_of(change)
        return found

    def _job(self, steps: int, **how: Any) -> Job:
        """The script once more; what it prints is not kept if that is not asked for."""
        given = {"start": self._budget * 2, "output": "/dev/null", **how}
        return Job(self._script, steps, self._budget, **given)

    def _run(self, one: Intervention, seed: int, *, long: bool) -> ScriptRun:
        steps = self._whole.steps if long else self._steps
        job = self._job(steps, seed=seed, intervention=one)
        started = time.monotonic()
        found = self._runner.run(job).run
        self._costs[long] = time.monotonic() - started  # libraries are loaded but once
        return found

    def _gain(self, own: ScriptRun, run: ScriptRun, one: Intervention) -> float:
        first, before = ends(own, one.judged_by())
        after = ends(run, one.judged_by())[1]
        if one.rises():
            first, before, after = -first, -before, -after
        if not math.isfinite(after):
            return -1.0
        return min((before - after) / max(abs(first), 1e-12), 1.0) if math.isfinite(before) else 1.0

    def _late(self, runs: int, *, long: bool) -> bool:
        return time.monotonic() + runs * self._costs[long] > self._until


def _paired(gains: Sequence[float]) -> Estimate:
    """The mean gain with its interval, one-sided in each direction."""
    mean, count = statistics.fmean(gains), len(gains)
    if count < 2:
        return Estimate(mean, -math.inf, math.inf, "one seed tells no chance from a cure")
    half = T[count] * statistics.stdev(gains) / math.sqrt(count)
    how = f"paired over {count} seeds, Student's t"
    return Estimate(mean, mean - half, mean + half, how, RISK)


def _judged(
    found: Sequence[Finding], attempts: Mapping[str, Sequence[Attempt]], run: ScriptRun
) -> Iterator[Finding]:
    """Findings by what proves them; of two alike the one that was proved first."""
    every = ((*kinds_of(RULES), *KINDS), OF_NETWORK)
    own, of_network = ({kind.name: kind for kind in kinds} for kinds in every)
    far = learned(run, HALF)  # in all of the run
    if far:  # what its network has, it overcomes
        found = [f if f.name in own else borne(f, of_network.get(f.name)) for f in found]
        found = [f for f in found if f.name not in (NO_PROGRESS.name, STUCK_TRAINING.name)]
    without, part = ([*attempts.get(k.name, ())] for k in (STRONG_WEIGHT_DECAY, HARMFUL_DECAY))
    least = NEARLY * max(map(_gain_of, without), default=0.0)
    spared = any(a.helps and _gain_of(a) >= least for a in part)
    other = (STRONG_WEIGHT_DECAY if spared else HARMFUL_DECAY).name  # is not the cause
    # settings are the cause where nothing that makes up for them brings more
    most = max((_gain_of(a) for k in dict(GENERIC) for a in attempts.get(k.name, ())), default=0.0)
    made_up = {
        k.name
        for k in (STRONG_MOMENTUM, UNUSUAL_SETTINGS)
        if all(_gain_of(a) < NEARLY * most for a in attempts.get(k.name, ()))
    }
    # where a lower rate helps and a higher one, too, the one that helps less does by chance
    rates = {k.name: [*attempts.get(k.name, ())] for k in (RATE_TOO_HIGH, RATE_TOO_LOW)}
    helped = {k: max(_gain_of(a) for a in m) for k, m in rates.items() if any(a.helps for a in m)}
    weaker = min(helped, key=lambda k: helped[k]) if len(helped) > 1 else ""
    attempts = {
        name: made for name, made in attempts.items() if name not in (other, weaker, *made_up)
    }
    found = [f for f in found if f.name != other]
    alone = (OUTWEIGHED_ERROR, SUMMED_LOSS, STRONG_WEIGHT_DECAY, HARMFUL_DECAY, *dict(GENERIC))
    alone += (STRONG_MOMENTUM, UNUSUAL_SETTINGS, DRAWN_TWICE, FORGOTTEN_STATE, REVERSED_EDGES)
    by_name = {kind.name: kind for kind in alone}
    # what is frozen would lower a loss that falls further, and is not to; what is asked of the same
    # samples again and again is asked how far draws differ
    meant = (FROZEN_LAYER.name, FROZEN_PARAMETERS.name) if far else ()
    meant += (RANDOM_EVALUATION.name,) if any(m.repeated for m in run.modules) else ()
    # a rate with which a run learns that goes on is a matter of time
    slow = RATE_TOO_LOW.name if run.stopped and learned(run) else ""
    told = [_proved(f, attempts.get(f.name, ()), own.get(f.name), slow) for f in found]
    if far:  # what would bring a run that learns farther is no error of it
        told = [
            replace(f, severity="warning") if f.severity == "error" and f.name not in own else f
            for f in told
        ]
    told = [replace(f, severity="note") if f.name in meant else f for f in told]
    names = {f.name for f in found}
    for name, made in attempts.items():
        best = max((a for a in made if a.helps), default=None, key=_gain_of)
        if name not in names and best is not None:
            kind = by_name[name]
            lost = best.halves and not learned(run)  # in all of the run
            # what is slow, and falls, may come as far in a run that goes on
            lost = lost and not (kind == RATE_TOO_LOW and run.stopped and best.follows)
            severity = "error" if lost else "note" if _is_slight(best, name, slow) else "warning"
            if kind == UNSUITED_WEIGHTS:  # small weights start slowly, which is no fault
                severity = "note"
            what = "the other loss" if kind == OUTWEIGHED_ERROR else "the loss"
            says = f"With {best.says} the script comes farther in as many steps: {what} ends at "
            says += f"{best.after[0]:.3g}, and as it is at {best.before[0]:.3g}."
            place = run.main.place if run.main else None
            where = place.says if place else "(script)"
            told.append(kind.finding(where, severity, (_evidence(best),), says, DO.get(kind, ())))
    # an error where arithmetic shows it, and what it brings is found, too; but gradients that have
    # all but vanished make steps that are rounded away in full precision, too
    sure = {f.name: own[f.name].brings for f in told if f.name in own and own[f.name].proven}
    there = {f.name for f in told}
    causes = {name for name, b in sure.items() if there & ({k.name for k in b} | OF_ANY)}
    told = [
        replace(f, severity="error")
        if f.name in causes and (f.name, f.severity) != (ROUNDED_STEPS.name, "note")
        else f
        for f in told
    ]
    follows = {k.name for f in told if f.name in own for k in own[f.name].brings}
    proved = {a.name for made in attempts.values() for a in made if a.helps}
    rank = lambda f: (
        max(ORDER.index(f.severity), f.name in OF_ANY),  # behind any that says more
        f.name in follows or f.name in OF_ANY,
        not (f.name in own and own[f.name].proven)
        and proved.isdisjoint(r.form for r in f.evidence),
        f.name not in own and not proved,
    )
    # in this order, but for what another one brings, which comes behind that; what is a note
    # explains nothing, but for what a network has by what it has, and no error
    left, kinds, waiting = sorted(told, key=rank), {**of_network, **own}, list[Finding]()
    explains = lambda g, w: (
        g.severity != "note" or (w.severity != "error" and own.keys().isdisjoint((g.name, w.name)))
    )
    while left:
        f, *left = left
        pairs = [(g, k.name) for g in left if g.name in kinds for k in kinds[g.name].brings]
        late = [w for w in (*waiting, f) if any(w.name == n and explains(g, w) for g, n in pairs)]
        yield from (w for w in (f, *waiting) if w not in late)
        waiting = late


def _gain_of(attempt: Attempt) -> float:
    return attempt.avoided.value


def _is_slight(best: Attempt, name: str, slow: str) -> bool:
    """Whether what helps with something that is no mistake of the loop is worth a note alone."""
    return best.avoided.low < CLEAR or (name == slow and not best.halves)


def _proved(finding: Finding, made: Sequence[Attempt], kind: Kind | None, slow: str) -> Finding:
    """A finding as severe as what proves it."""
    if not made:  # a rate that copies say is low, and that no run of the script was asked for
        return replace(finding, severity="note") if finding.name == slow else finding
    best = max(made, key=lambda a: (a.helps, _gain_of(a)))
    proven = kind is not None and kind.proven
    if proven and not best.helps:
        return finding
    if best.helps:
        words = f" With {best.says} the loss ends at {best.after[0]:.3g}, not {best.before[0]:.3g}."
        slight = kind is None and _is_slight(best, finding.name, slow)
        severity: Severity = "error" if best.halves else "note" if slight else "warning"
        if proven and ORDER.index(finding.severity) < ORDER.index(severity):
            severity = finding.severity
    else:
        words = f" With {best.says} the script comes no farther in as many steps."
        if best.once:
            words = f" With {best.says} the loss ends at {best.after[0]:.3g}, not "
            words += f"{best.before[0]:.3g}; there was no time to tell that from chance."
        severity = "note" if kind is None or finding.severity == "note" else "warning"
    evidence = (*finding.evidence, _evidence(best))
    # what is proved by a change of its own stands for itself
    follows = "" if best.helps else finding.follows
    says = finding.says + words
    return replace(finding, severity=severity, says=says, evidence=evidence, follows=follows)


def _evidence(attempt: Attempt) -> Reading:
    return Reading("(script)", q.LOSS_AVOIDED, attempt.avoided, "script", attempt.name)
