"""Whether what is tuned on a small model holds for a large one, and which weight is in the way.

The idea: where training is the same at every width, what a weight's change does to what its layer
writes neither grows nor fades with width, from the first step on, and its initial weights pass
changes on without enlarging them. Each is a power of width (`exponents`), read at a few widths and
seeds (`measuring`). The exponent says whether a weight is in order; what is its own says who is to
blame: its rate, by the size of its step beside its gradient; its initial scale, by what it makes of
changes that it is handed. A weight that only suffers from another, as from a gradient that arrives
too large, is not accused. The invariant: nobody is accused by an exponent that the readings do not
tell from zero.

Source: Yang, Simon & Bernstein 2023, A spectral condition for feature learning; Yang & Hu 2021,
Tensor programs IV, and Yang et al. 2022, V, for the exponents of the maximal parametrisation.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import Optimizer

from sigmascope.core.guard import Refusal, door, random_states
from sigmascope.core.records import ByValue, Shown
from sigmascope.diagnosis.diagnoses import data_of
from sigmascope.diagnosis.programs.losses import LossSpec
from sigmascope.diagnosis.programs.opened import opened
from sigmascope.diagnosis.programs.optimizers import Recipe, Spec, recipe_of
from sigmascope.diagnosis.programs.outputs import joined
from sigmascope.diagnosis.programs.program import Program, program_of
from sigmascope.diagnosis.training.runs import TrainingSamples, started
from sigmascope.models.state import apart, duplicate
from sigmascope.scaling.exponents import ScalingLaw, power_law
from sigmascope.scaling.measuring import EARLY, LATE, OUTPUT, RunReadings, WeightReadings, read_run
from sigmascope.scaling.rates import FACTORS, BestRate, best_rate

Verdict = Literal["maximal", "lazy", "exploding", "vanishing", "cannot be told"]
Kind = Literal["input", "hidden", "output", "vector", "fixed", "product"]
WIDTHS = (64, 128, 256, 512)
SAMPLES = 128
EFFECT, CARRIED, FORWARD, GAIN = "effect", "carried", "forward", "gain"
PER_GRADIENT, GRADIENT, CHANGED = "step per gradient", "gradient", "changed"
STEEP = 0.5  # a degree above which an optimizer is taken to move by the gradient's size
LIKELY = 0.5  # certainty that what a layer reads is of one size, without which it is not accused
ROUNDS = 3  # of a cure that is measured again
BLUR = 0.1  # by which the degree grows with width where a constant beside the gradient matters
OWNERLESS = (
    "the whole model holds it, so that what it does by itself cannot be read: give it to a layer"
)
INITIAL, RATE, EPSILON, ATTENTION = "initial scale", "rate", "epsilon", "attention scale"


@dataclass(frozen=True, slots=True, eq=False)
class WeightScaling(ByValue):
    """How one weight, or the scores of one attention, behave as width grows.

    Attributes:
        name: Of the parameter.
        kind: By which of its sides grow with width: what it reads (`output`), what it writes
            (`input`, as rows of a table; `vector`), both (`hidden`), none (`fixed`); or the
            `product` of two.
        shape: At the smallest and the largest width, in words.
        curve: What its first step does, at each width: the geometric mean over seeds; none where a
            run told nothing.
        laws: Exponents of width, by what was read: `effect` of its first step on what its layer
            writes, and `effect at last` of all steps; `gain`, the effect beside what it reads; what
            it `carried` of changes that it was handed, over their size; `forward`, what it writes
            at first over what it reads; `gradient` and `step per gradient` of its entries; `norm of
            weight` and `norm of change at first` (largest singular values), their stable ranks.
        theory: What the exponent of `effect` is in the maximal parametrisation.
        degree: By which power of the gradient the optimizer moves it: 1 as plain SGD, 0 as Adam;
            None of products, and where the optimizer evaluates the loss itself.
        verdict: In a word.
        why: What the verdict rests on, or what would tell.
    """

    name: str
    kind: Kind
    shape: str
    curve: tuple[float, ...]
    laws: Mapping[str, ScalingLaw]
    theory: float
    degree: float | None
    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What stands in the way of a transfer, and what would take it away.

    Attributes:
        name: The weight, or the scores of an attention.
        cause: `initial scale`, `rate`, `epsilon`, `attention scale`.
        says: In a sentence.
        exponent: Of width, by which the size of the cause is off.
        cure: What to do, in a sentence.
    """

    name: str
    cause: str
    says: str
    exponent: float
    cure: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Widths(Shown):
    """What scales with width as it should, and what does not.

    Attributes:
        widths: That were trained.
        seeds: Of each.
        steps: Of training.
        optimizer: In words.
        weights: In the order of the model.
        obstacles: The largest first.
        output: Exponents of the output at first, and of its change after the steps.
        losses: By width, the mean over seeds before the first step and before the last.
        skipped: What could not be read, and why.
        initial: By which power of width the initial entries of a weight would have to be changed.
        rates: The same of its learning rate.
        after: The weights once these powers were applied to copies; none if that was not asked for.
        left: What is in the way then.
        best: The best learning rate at the smallest and the largest width, where that was tried.
        best_after: The same with these powers applied.
    """

    widths: tuple[int, ...]
    seeds: int
    steps: int
    optimizer: str
    weights: tuple[WeightScaling, ...]
    obstacles: tuple[Obstacle, ...]
    output: Mapping[str, ScalingLaw]
    losses: Mapping[int, tuple[float, float]]
    skipped: Mapping[str, str] = field(default_factory=dict)
    initial: Mapping[str, float] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    after: tuple[WeightScaling, ...] = ()
    left: tuple[Obstacle, ...] = ()
    best: tuple[BestRate, ...] = ()
    best_after: tuple[BestRate, ...] = ()

    @property
    def code(self) -> str:
        """The cure as lines to paste, for a `model` of `width`, trained at `lr` at the smallest."""
        if not self.initial and not self.rates:
            return ""
        lines = [
            f"r = width / {self.widths[0]}  # where the rate was tuned",
            "initial = {  # powers of r",
            *(f"    {name!r}: {power:g}," for name, power in self.initial.items()),
            "}",
            "rates = {",
            *(f"    {name!r}: {power:g}," for name, power in self.rates.items()),
            "}",
            "with torch.no_grad():",
            "    for name, p in model.named_parameters():",
            "        p.mul_(r ** initial.get(name, 0.0))",
            "groups = [",
            '    {"params": [p], "lr": lr * r ** rates.get(name, 0.0)}',
            "    for name, p in model.named_parameters()",
            "]  # for your optimizer, in the place of model.parameters()",
        ]
        return "\n".join(lines)


@door
def widths(
    make: Callable[[int], Any],
    widths: Sequence[int] = WIDTHS,
    data: Any = None,
    *,
    loss: LossSpec | None = None,
    optimizer: Spec = "adam",
    lr: float | None = None,
    steps: int = 3,
    seeds: int = 3,
    batch_size: int | None = None,
    cure: bool = False,
    transfer: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> Widths:
    """Say whether a small model's learning rate and initial weights will do for a large one.

    Args:
        make: `make(width)` gives a model, or a model and its optimizer (or a list of optimizers),
            or a whole program as `diagnose` takes it. It is called anew for each width and seed.
        widths: Two or more, as far apart as can be afforded; a factor of 8 tells most.
        data: A batch `(inputs, targets)`, a data set or a loader; not where `make` gives a program.
        loss: A name or a function; the one that fits the targets if not given.
        optimizer: Its name, or a function that makes one of parameters, where `make` gives none.
        lr: Its learning rate.
        steps: Of training each model. The first tells most; later ones show what grows.
        seeds: Of initial weights, for each width.
        batch_size: Samples in a step; 32 if nobody says.
        cure: Whether to change initial scales and rates of copies by the powers that were found,
            and measure again.
        transfer: Steps of training at each of nine rates, from a sixteenth of yours to sixteen
            times it, at the smallest and the largest width: whether the best one stays. Not tried
            if 0.
        progress: Called with a word, the runs made and the runs in all.
        options: What else goes with the name of the optimizer: `momentum`, `weight_decay`, ….

    Returns:
        An exponent and a verdict for each weight, and what stands in the way.

    Raises:
        Refusal: If `make` ignores its argument, gives other weights at another width, or nothing
            that can be trained; or if there are fewer than two widths.

    Cost: `steps` steps of training of every width and seed, and up to twice as much again for what
    is read; with `transfer` nine times as many at two widths. A cure costs all of it once more.

    Source:
        Yang, Simon & Bernstein 2023; Yang & Hu 2021; Yang et al. 2022.
    """
    chosen = _require_widths(widths)
    if steps < 1 or seeds < 1 or transfer < 0:
        raise Refusal(
            "`steps` and `seeds` must be 1 or more, and `transfer` 0 or more, got "
            f"{steps}, {seeds} and {transfer}."
        )
    plan = {"data": data, "loss": loss, "optimizer": optimizer, "lr": lr}
    plan |= {"batch_size": batch_size, "options": options}
    bench = _Bench(make, chosen, plan, steps, seeds, progress or (lambda *_: None))
    found = bench.judged(bench.runs())
    if transfer:
        found = replace(found, best=bench.best(transfer))
    if not cure or not (found.initial or found.rates):
        return found
    for last in (*[False] * (ROUNDS - 1), True):
        again = bench.judged(bench.runs(found))
        found = replace(found, after=again.weights, left=again.obstacles)
        if last or not (again.initial or again.rates):
            break
        # what the larger mistakes had hidden
        more = ((found.initial, again.initial), (found.rates, again.rates))
        initial, rates = ({n: a.get(n, 0.0) + b.get(n, 0.0) for n in {**a, **b}} for a, b in more)
        found = replace(found, initial=initial, rates=rates)
    best = bench.best(transfer, found) if transfer else ()
    return replace(found, best_after=best)


def _require_widths(widths: Sequence[int]) -> tuple[int, ...]:
    chosen = tuple(sorted({int(w) for w in widths}))
    if len(chosen) < 2 or chosen[0] < 1:
        raise Refusal(
            f"`widths` must be two or more different widths, got {list(widths)}: an exponent is a "
            "slope. Take e.g. 64, 128, 256 and 512."
        )
    return chosen


def made_at(make: Callable[[int], Any], width: int) -> Any:
    """What a function of the user's gives for a width.

    Raises:
        Refusal: If it raises.
    """
    try:
        return make(width)
    except Refusal:
        raise
    except Exception as error:  # a function of the user's raises anything
        raise Refusal(
            f"`make({width})` raised {type(error).__name__}: {error}. It is called with a width, "
            "and gives a model of it."
        ) from error


class _Several(Optimizer):
    """Optimizers of parts of a model that step together, as Muon and Adam do."""

    def __init__(self, parts: Sequence[Optimizer]) -> None:
        self.parts = parts
        own = [p for one in parts for group in one.param_groups for p in group["params"]]
        super().__init__(own, {})

    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Of all."""
        for part in self.parts:
            part.step()


def _recipe_of_several(parts: Sequence[Optimizer], model: nn.Module) -> Recipe:
    """How they are made again for a copy."""
    recipes = []
    for part in parts:
        names = {
            n
            for n, p in model.named_parameters()
            if any(p is q for g in part.param_groups for q in g["params"])
        }
        recipes.append((recipe_of(part, model, None), names))

    def again(copy: nn.Module) -> Optimizer:
        made = []
        for recipe, names in recipes:
            kept = _Part({n: p for n, p in copy.named_parameters() if n in names})
            made.append(recipe.make(kept))
        return _Several(made)

    name = "+".join(recipe.name for recipe, _ in recipes)
    return Recipe(name, recipes[0][0].rate, {}, again)


def _changed(program: Program, recipe: Recipe, by: Widths, ratio: float) -> tuple[Program, Recipe]:
    """A copy with other initial scales, and how it is trained at other rates."""
    model = duplicate(program.model)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.mul_(ratio ** by.initial.get(name, 0.0))

    def again(copy: nn.Module) -> Optimizer:
        made = recipe.make(copy)
        names = {id(p): name for name, p in copy.named_parameters()}
        for one in made.parts if isinstance(made, _Several) else (made,):
            groups = [*one.param_groups]
            one.param_groups.clear()
            for group in groups:
                for p in group["params"]:
                    rate = group["lr"] * ratio ** by.rates.get(names.get(id(p), ""), 0.0)
                    one.add_param_group({**group, "params": [p], "lr": rate})
        return made

    return replace(program, model=model), replace(recipe, _make=again)


class _Part(nn.Module):
    """Some parameters of a model, under their own names."""

    def __init__(self, own: Mapping[str, nn.Parameter]) -> None:
        super().__init__()
        self._own = own

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """Those."""
        return iter(self._own.items())


@dataclass(slots=True)
class _Bench:
    """Where models of all widths are trained, and judged together."""

    make: Callable[[int], Any]
    widths: tuple[int, ...]
    plan: Mapping[str, Any]
    steps: int
    seeds: int
    tell: Callable[[str, int, int], None]
    says: str = ""

    def runs(self, cured: Widths | None = None) -> dict[int, list[RunReadings]]:
        """Of every width and seed."""
        found: dict[int, list[RunReadings]] = {}
        total = len(self.widths) * self.seeds
        for width in self.widths:
            for seed in range(self.seeds):
                made = sum(map(len, found.values()))
                self.tell(f"training at width {width}", made, total)
                with self._opened(width, seed, cured) as (program, recipe, data):
                    read = read_run(program.model, recipe, data, self.steps, clip=program.clip)
                found.setdefault(width, []).append(read)
        return found

    def best(self, steps: int, cured: Widths | None = None) -> tuple[BestRate, ...]:
        """The best rate at the smallest and the largest width."""
        ends = (self.widths[0], self.widths[-1])
        total, made = len(ends) * len(FACTORS) * self.seeds, 0

        def loss_at(width: int, factor: float, seed: int) -> float:
            nonlocal made
            self.tell(f"trying rates at width {width}", made, total)
            made += 1
            with self._opened(width, seed, cured) as (program, recipe, data):
                run = started(program.model, recipe.at(factor), data.size, clip=program.clip)
                run.go_on(data, steps)
            return run.after(run.steps) if run.finite else math.inf

        return tuple(best_rate(w, partial(loss_at, w), self.seeds) for w in ends)

    @contextmanager
    def _opened(
        self, width: int, seed: int, cured: Widths | None
    ) -> Iterator[tuple[Program, Recipe, TrainingSamples]]:
        """What is trained at a width, and on what; `make` may draw from any source."""
        with apart(), random_states(seed):
            program, recipe = self._program(width)
            if cured is not None:
                program, recipe = _changed(program, recipe, cured, width / self.widths[0])
            known = opened(program, samples=max(SAMPLES, (program.batch_size or 0)))
            if known.unfit or not isinstance(known.targets, torch.Tensor):
                why = known.unfit or "there are no targets"
                raise Refusal(f"A model must be trained to see how it scales, but {why}.")
            with joined(program.model, known.joint):
                yield program, recipe, data_of(program, known)

    def _program(self, width: int) -> tuple[Program, Recipe]:
        made, plan = made_at(self.make, width), self.plan
        several: Sequence[Optimizer] | None = None
        if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module):
            model, by = made
            if isinstance(by, Sequence) and by and all(isinstance(o, Optimizer) for o in by):
                several, made = by, model
            elif isinstance(by, Optimizer):
                made = Program(model, plan["data"], plan["loss"], by, batch_size=plan["batch_size"])
        if isinstance(made, nn.Module):
            if plan["data"] is None:
                raise Refusal(
                    "`make` gives a model, and there are no data to train it on: pass `data=` "
                    "(`--data`), or let `make` give a program with its own."
                )
            by = None if several is not None else plan["optimizer"]
            of = {"lr": plan["lr"], "options": plan["options"]} if by is not None else {}
            made = Program(
                made, plan["data"], plan["loss"], by, batch_size=plan["batch_size"], **of
            )
        program = program_of(made)
        if program.optimizer is None and several is None:
            named = {"optimizer": plan["optimizer"], "lr": plan["lr"], "options": plan["options"]}
            program = replace(program, **named)
        recipe = _recipe_of_several(several, program.model) if several else program.recipe()
        assert recipe is not None
        self.says = recipe.says()
        return program, recipe

    def judged(self, runs: Mapping[int, Sequence[RunReadings]]) -> Widths:
        """What all runs say together."""
        names = [[n for n in run.weights if n != OUTPUT] for many in runs.values() for run in many]
        if any(some != names[0] for some in names):
            odd = sorted(set(names[0]) ^ set(next(some for some in names if some != names[0])))
            raise Refusal(
                "`make` must give the same weights at every width, of other sizes, got some at one "
                f"width alone: {', '.join(odd[:4]) or 'in another order'}. Change nothing but the "
                "width."
            )
        of = {
            name: {w: [run.weights[name] for run in many] for w, many in runs.items()}
            for name in names[0]
        }
        sizes = {n: _growth(by) for n, by in of.items()}
        if not any(any(growth) for growth in sizes.values()):
            raise Refusal(
                f"`make` must give another model at another width, got the same sizes at "
                f"{self.widths[0]} and {self.widths[-1]}. Use its argument."
            )
        degrees = [d for by in of.values() if (d := _degree(by)) is not None]
        usual = sum(degrees) / len(degrees) if degrees else None
        rows: list[WeightScaling] = []
        for name, by in of.items():
            asks = [r for r in rows if next(iter(of[r.name].values()))[0].asks]
            steep = any((r.degree or 0.0) > STEEP for r in asks)
            rows.append(_judged(name, by, sizes[name], usual, steep=steep))
        laws = {}
        if all(OUTPUT in run.weights for many in runs.values() for run in many):
            by = {w: [run.weights[OUTPUT] for run in many] for w, many in runs.items()}
            laws = _laws(by, ("written", f"changed{EARLY}", f"changed{LATE}"))
        shared = {n: many for run in runs[self.widths[0]] for many in run.shared for n in many}
        obstacles, initial, rates = _accused(rows, of, shared)
        mean = lambda many, at: sum(run.losses[at] for run in many) / len(many)
        losses = {w: (mean(many, 0), mean(many, -1)) for w, many in runs.items()}
        skipped = {
            n: why for many in runs.values() for run in many for n, why in run.unread.items()
        }
        skipped |= {r.name: r.why for r in rows if r.verdict == "cannot be told"}
        return Widths(
            self.widths, self.seeds, self.steps, self.says, tuple(rows), tuple(obstacles),
            MappingProxyType(laws), MappingProxyType(losses), MappingProxyType(skipped),
            MappingProxyType(initial), MappingProxyType(rates),
        )  # fmt: skip


By = Mapping[int, Sequence[WeightReadings]]  # readings of one weight, by width


def _growth(by: By) -> tuple[float, float]:
    """The powers of width by which what it sums over, and what it writes, grow."""
    small, large = min(by), max(by)
    power = lambda at: (
        math.log(by[large][0].features[at] / max(by[small][0].features[at], 1))
        / math.log(large / small)
    )
    return round(power(0), 2), round(power(1), 2)


def _laws(by: By, names: Sequence[str]) -> dict[str, ScalingLaw]:
    found = {}
    for name in names:
        if all(name in one.values for many in by.values() for one in many):
            law = power_law({w: [one.values[name] for one in many] for w, many in by.items()})
            if law is not None:
                found[name] = law
    return found


def _kind(name: str, first: WeightReadings, growth: tuple[float, float]) -> Kind:
    if not first.shape and name.startswith("("):
        return "product"
    reads, writes = (g > 0.1 for g in growth)
    if len(first.shape) < 2:
        return "vector" if writes else "fixed"
    return "hidden" if reads and writes else "output" if reads else "input" if writes else "fixed"


def _degree(by: By) -> float | None:
    """By which power of the gradient a weight moves; None where it did not in the first step."""
    known = [o.values["degree"] for many in by.values() for o in many if "degree" in o.values]
    return sum(known) / len(known) if known else None


def _judged(
    name: str, by: By, growth: tuple[float, float], usual: float | None, *, steep: bool
) -> WeightScaling:
    """One weight, by itself.

    Args:
        name: Of it.
        by: What was read of it.
        growth: Of what it sums over and of what it writes, as powers of width.
        usual: By which power of the gradient weights move, where this one did not at first.
        steep: Whether queries and keys move by the size of a gradient.
    """
    ones = [one for many in by.values() for one in many]
    first = ones[0]
    kind = _kind(name, first, growth)
    degree = None if kind == "product" else usual if (own := _degree(by)) is None else own
    steep = steep if kind == "product" else (degree or 0.0) > STEEP
    for one in ones:
        v = one.values
        if f"effect{EARLY}" in v:
            v[EFFECT] = v[f"effect{EARLY}"]
        elif f"effect{LATE}" in v:
            v[EFFECT] = v[f"effect{LATE}"]
        if EFFECT in v:
            beside = 1.0
            if len(first.shape) > 1 and v.get("read", 0) > 0:
                beside = v["read"] ** (2 if steep else 1)
            v[GAIN] = v[EFFECT] / beside
        if v.get("gradient", 0) > 0 and f"change of entry{EARLY}" in v:
            v[PER_GRADIENT] = v[f"change of entry{EARLY}"] / v["gradient"]
        if v.get("read", 0) > 0 and v.get("written", 0) > 0 and len(first.shape) > 1:
            v[FORWARD] = v["written"] / v["read"]
        if f"carried{EARLY}" in v or f"carried{LATE}" in v:
            v[CARRIED] = v.get(f"carried{EARLY}", v.get(f"carried{LATE}", 0.0))
        if f"changed{EARLY}" in v or f"changed{LATE}" in v:
            v[CHANGED] = v.get(f"changed{EARLY}", v.get(f"changed{LATE}", 0.0))
    read = (EFFECT, f"effect{LATE}", GAIN, CARRIED, FORWARD, GRADIENT, PER_GRADIENT, CHANGED)
    more = ("norm of weight", "stable rank of weight", "norm of change", "stable rank of change")
    laws = _laws(
        by,
        (
            *read,
            "written",
            "read",
            "initial entry",
            *more[:2],
            *(f"{m}{EARLY}" for m in more[2:]),
        ),
    )
    # queries meet keys by chance at first: their gradients, and what scores change by, are smaller
    # by a root of the width than once values have learned
    theory = -0.5 if (first.asks or kind == "product") and steep else 0.0
    if kind != "product" and not first.owner and sum(bool(n) for n in first.shape) > 1:
        verdict, why = "cannot be told", OWNERLESS
    else:
        verdict, why = _verdict(kind, laws, theory, is_last=first.is_last)
    sides = [" x ".join(map(str, by[w][0].shape)) for w in (min(by), max(by))]
    shape = f"{sides[0]} to {sides[1]}" if first.shape else ""
    told = CHANGED if kind == "product" else EFFECT
    mean = lambda many: math.exp(sum(math.log(o.values[told]) for o in many) / len(many))
    curve = tuple(mean(by[w]) for w in sorted(by)) if told in laws else ()
    laws = MappingProxyType(laws)
    return WeightScaling(name, kind, shape, curve, laws, theory, degree, verdict, why)


def _verdict(
    kind: Kind, laws: Mapping[str, ScalingLaw], theory: float, *, is_last: bool
) -> tuple[Verdict, str]:
    """In a word, and what it rests on."""
    at = lambda law: (
        f"{law.exponent.value:+.2f} [{law.exponent.low:+.2f}, {law.exponent.high:+.2f}]"
    )
    main = laws.get(CHANGED if kind == "product" else EFFECT)
    if main is None:
        return "cannot be told", "its change was zero, or not finite, in a run"
    beside, read = laws.get(GAIN), laws.get("read")
    if beside is not None and (read is None or read.is_sure("stays")):
        # beside what it read, which is the same at every width, where that is the clearer
        reach = lambda law: law.exponent.high - law.exponent.low
        main = min((main, beside), key=reach)
    carried, written = laws.get(CARRIED), laws.get("written")
    if main.is_sure("grows"):
        return "exploding", f"what its change does grows with width: {at(main)}"
    if carried is not None and carried.is_sure("grows"):
        return "exploding", f"its initial weights enlarge changes with width: {at(carried)}"
    if written is not None and not is_last and kind in ("input", "hidden"):
        if written.is_sure("grows"):
            return "exploding", f"what it writes at first grows with width: {at(written)}"
        if written.is_sure("falls"):
            return "vanishing", f"what it writes at first fades with width: {at(written)}"
    as_theory = theory < 0 and main.nearest in (theory, 2 * theory)
    if main.is_sure("falls") and not as_theory:
        return "lazy", f"what its change does fades with width: {at(main)}"
    if main.is_sure("stays") or as_theory:
        return "maximal", f"what its change does is the same at every width: {at(main)}"
    if not main.fits:
        return "cannot be told", f"the readings follow no power of width: {at(main)}"
    return "cannot be told", f"the exponent may be 0 or not: {at(main)}; {_would_tell(main)}"


def _would_tell(law: ScalingLaw) -> str:
    """How many more seeds would narrow the interval enough, if noise is what makes it wide."""
    reach = (law.exponent.high - law.exponent.low) / 2
    if law.seeds < 2:
        return "more seeds than one would tell"
    if law.noise < 0.02:
        return "larger widths would tell"
    times = math.ceil((reach / 0.2) ** 2)
    return f"{times} times the seeds would tell" if 1 < times <= 16 else "larger widths would tell"


def _accused(
    rows: Sequence[WeightScaling], of: Mapping[str, By], shared: Mapping[str, Sequence[str]]
) -> tuple[list[Obstacle], dict[str, float], dict[str, float]]:
    """Who is to blame, and by which powers of width they would have to be changed."""
    found: list[Obstacle] = []
    initial: dict[str, float] = {}
    rates: dict[str, float] = {}
    for row in rows:
        name, ones = row.name, of[row.name]
        if row.kind == "product":
            moved = row.laws.get(CHANGED)
            if moved is not None and moved.is_sure("grows"):
                says = (
                    f"{name[1:-1]} change by a power {moved.exponent.value:+.2f} of width: queries "
                    "and keys come to agree in training, so that their products grow as the width "
                    "of a head, for which a division by its root is not enough"
                )
                cure = "Divide scores by the width of a head, not by its root."
                found.append(Obstacle(name, ATTENTION, says, moved.nearest, cure))
            continue
        if row.why == OWNERLESS:
            continue
        others = [n for n in shared.get(name, ()) if n != name]
        tied = f"; it is one weight with {', '.join(others)}, where it does something else"
        apart = "Give it a weight of its own, or multiply what it writes by a power of r."
        if (off := _initial_off(row, ones[min(ones)][0])) is not None:
            law, words = off
            cure = apart if others else f"Multiply its initial weights by r ** {-law.nearest:g}."
            says = f"{name}: {words}{tied if others else ''}"
            found.append(Obstacle(name, INITIAL, says, law.nearest, cure))
            if not others:
                initial[name] = -law.nearest
        if (power := _rate_off(row)) is None:
            continue
        degrees = [
            sum(one.values.get("degree", 0.0) for one in ones[w]) / len(ones[w])
            for w in (min(ones), max(ones))
        ]
        if power < 0 and (row.degree or 0.0) < STEEP + BLUR and degrees[1] > degrees[0] + BLUR:
            says = (
                f"{name}: its gradient falls with width to the size of the optimizer's epsilon, "
                "beside which it moves less"
            )
            cure = "Divide epsilon by the width, or make it as small as 1e-12."
            found.append(Obstacle(name, EPSILON, says, power, cure))
            continue
        word = "too large" if power > 0 else "too small"
        says = f"{name}: its learning rate is {word} by a power {abs(power):g} of width"
        cure = apart if others else f"Multiply its learning rate by r ** {-power:g}."
        found.append(Obstacle(name, RATE, says + (tied if others else ""), power, cure))
        if not others:
            rates[name] = -power
    return sorted(found, key=lambda o: -abs(o.exponent)), initial, rates


def _initial_off(row: WeightScaling, first: WeightReadings) -> tuple[ScalingLaw, str] | None:
    """By which power of width initial weights are off."""
    if len(first.shape) < 2:
        return None
    carried, forward = row.laws.get(CARRIED), row.laws.get(FORWARD)
    if carried is not None and carried.is_sure("grows"):
        return carried, (
            f"its initial weights enlarge what training changes before it by a power "
            f"{carried.exponent.value:+.2f} of width"
        )
    if first.is_last or forward is None or row.kind == "output":
        return None
    entry, usual = row.laws.get("initial entry"), -0.5 if row.kind == "hidden" else 0.0
    for side, word in (("grows", "grows"), ("falls", "fades")):
        # of several weights of a layer, the one whose entries are not as they should be
        ours = entry is None or (entry.nearest - usual) * (1 if side == "grows" else -1) > 0
        if ours and forward.is_sure(side):  # pyright: ignore[reportArgumentType]
            return forward, (
                f"what it writes at first, beside what it reads, {word} by a power "
                f"{forward.exponent.value:+.2f} of width"
            )
    return None


def _rate_off(row: WeightScaling) -> float | None:
    """By which power of width a learning rate is off; None where it is in order, or a victim."""
    if row.degree is None:  # an optimizer that looks for its steps itself
        return None
    read = row.laws.get("read")
    if read is not None and row.kind in ("hidden", "output") and read.stays < LIKELY:
        return None  # what it reads is another thing at each width, as where biases outweigh
    gain = row.laws.get(GAIN)
    sure = gain is not None and (gain.is_sure("grows") or gain.is_sure("falls"))
    if not row.degree > STEEP:
        return gain.nearest if gain is not None and sure and gain.nearest else None
    own = row.laws.get(PER_GRADIENT)
    # where a gradient of another size makes up for it, as a multiplier does, nothing is wrong
    if own is None or (gain is not None and gain.is_sure("stays")):
        return None
    usual = {"input": 1.0, "vector": 1.0, "output": -1.0}.get(row.kind, 0.0)
    return own.nearest - usual or None
