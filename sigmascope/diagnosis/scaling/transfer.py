"""Whether what is tuned on a small model holds for a large one: models of all sizes, side by side.

`width` and `depth` judge what was read of them. The invariant: models of the user's are made anew
for each size and seed, and copies of them are trained; nothing of the user's is changed.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from sigmascope.core.guard import Progress, Refusal, door, random_states
from sigmascope.diagnosis.diagnoses import data_of
from sigmascope.diagnosis.programs.losses import LossSpec
from sigmascope.diagnosis.programs.opened import SIZE, opened
from sigmascope.diagnosis.programs.optimizers import Recipe, Spec, recipe_of
from sigmascope.diagnosis.programs.outputs import joined
from sigmascope.diagnosis.programs.program import Program, program_of
from sigmascope.diagnosis.scaling import depth as deep, width as wide
from sigmascope.diagnosis.scaling.measuring import read_run
from sigmascope.diagnosis.scaling.rates import FACTORS, BestRate, best_rate
from sigmascope.diagnosis.scaling.results import Axis, Roles, Widths
from sigmascope.diagnosis.training.runs import TrainingSamples, started
from sigmascope.models.state import apart, duplicate

WIDTHS, DEPTHS = (64, 128, 256, 512), (4, 8, 16, 32)
SAMPLES = 128  # at least
ROUNDS = 3  # of a cure that is measured again


@door
def widths(
    make: Any,
    widths: Sequence[int] | None = None,
    data: Any = None,
    *,
    depths: Sequence[int] | None = None,
    field: str | Sequence[str] | None = None,
    loss: LossSpec | None = None,
    optimizer: Spec = "adam",
    lr: float | None = None,
    steps: int = 3,
    seeds: int | None = None,
    batch_size: int | None = None,
    cure: bool = False,
    transfer: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Widths:
    """Say whether a small model's learning rate and initial weights will do for a large one.

    Args:
        make: `make(width)` gives a model, or a model and its optimizer (or a list of optimizers),
            or a whole program as `diagnose` takes it. It is called anew for each width and seed.
            Or a configuration of Transformers, with `field`.
        widths: Two or more, as far apart as can be afforded; a factor of 8 tells most. 64, 128, 256
            and 512 if not given.
        data: A batch `(inputs, targets)`, a data set or a loader; not where `make` gives a program.
        depths: Two or more, in the place of widths: `make` is called with a number of layers, or by
            name (`make(width, depth=…)`) where it takes a `depth` beside a width; one width is
            given then.
        field: Of a configuration: what its width (or depth) is called, as `n_embd`, `hidden_size`,
            `num_hidden_layers`. With several names the others grow in proportion to the first, as
            the width of its feed-forward layers does by itself.
        loss: A name or a function; the one that fits the targets if not given.
        optimizer: Its name, or a function that makes one of parameters, where `make` gives none.
        lr: Its learning rate.
        steps: Of training each model. The first tells most; later ones show what grows.
        seeds: Of initial weights, for each width; 3 if not given, 6 with depths, where readings
            stray more.
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
        Yang, Simon & Bernstein 2023; Yang & Hu 2021; Yang et al. 2022. With depth: Yang et al.
        2023, Tensor programs VI; Bordelon et al. 2023.
    """
    seeds = (3 if depths is None else 6) if seeds is None else seeds
    if steps < 1 or seeds < 1 or transfer < 0:
        raise Refusal(
            "`steps` and `seeds` must be 1 or more, and `transfer` 0 or more, got "
            f"{steps}, {seeds} and {transfer}."
        )
    family = family_of(make, widths=widths, depths=depths, field=field)
    plan = {"data": data, "loss": loss, "optimizer": optimizer, "lr": lr}
    plan |= {"batch_size": batch_size, "options": options}
    bench = _Bench(family, plan, steps, seeds, progress or (lambda *_: None))
    found = bench.judged()
    if transfer:
        found = replace(found, best=bench.best(transfer))
    if not cure or not (found.initial or found.rates):
        return found
    for last in (*[False] * (ROUNDS - 1), True):
        again = bench.judged(found)
        found = replace(found, after=again.weights, left=again.obstacles)
        if last or not (again.initial or again.rates):
            break
        # what the larger mistakes had hidden
        more = ((found.initial, again.initial), (found.rates, again.rates))
        initial, rates = ({n: a.get(n, 0.0) + b.get(n, 0.0) for n in {**a, **b}} for a, b in more)
        found = replace(found, initial=initial, rates=rates)
    best = bench.best(transfer, found) if transfer else ()
    return replace(found, best_after=best)


@dataclass(frozen=True, slots=True)
class Family:
    """One model at several sizes.

    Attributes:
        make: What gives it at a size.
        sizes: In ascending order.
        axis: Whether they are widths or depths.
    """

    make: Callable[[int], Any]
    sizes: tuple[int, ...]
    axis: Axis

    def at(self, size: int) -> Any:
        """What the user's function gives for a size.

        Raises:
            Refusal: If it raises.
        """
        try:
            return self.make(size)
        except Refusal:
            raise
        except Exception as error:  # a function of the user's raises anything
            raise Refusal(
                f"`make` raised {type(error).__name__} at {self.axis} {size}: {error}. It is "
                f"called with a {self.axis}, and gives a model of it."
            ) from error


def family_of(
    make: Any,
    *,
    widths: Sequence[int] | None,
    depths: Sequence[int] | None,
    field: str | Sequence[str] | None = None,
) -> Family:
    """What `widths` compares, from what the user gave.

    Raises:
        Refusal: If nothing can be made of it, or there are fewer than two sizes.
    """
    axis: Axis = "width" if depths is None else "depth"
    fields = [field] if isinstance(field, str) else [*(field or ())]
    if callable(getattr(make, "to_dict", None)) and hasattr(make, "model_type"):
        make = _configured(make, fields)
    elif fields:
        raise Refusal(
            "`field` names a width in a configuration of Transformers, got a function beside it. "
            "Leave it out: `make` sets its width itself."
        )
    elif not callable(make):
        raise Refusal(
            "`make` must be a function of a width that gives a model, or a configuration of "
            f"Transformers, got {type(make).__name__}. Write e.g. `lambda width: MyModel(width)`."
        )
    if depths is None:
        return Family(make, _sizes(WIDTHS if widths is None else widths, axis), axis)
    try:
        named = "depth" in inspect.signature(make).parameters
    except (TypeError, ValueError):  # what is written in C says nothing
        named = False
    if widths is not None and (not named or len(widths) != 1):
        raise Refusal(
            "`depths` go with one width, of a `make` that takes a `depth` by name beside it, got "
            f"widths {[*widths]}. Leave the widths out, or write `def make(width, depth)`."
        )
    at = (lambda depth: make(widths[0], depth=depth)) if widths is not None else make
    if widths is None and named:
        at = lambda depth: make(depth=depth)
    return Family(at, _sizes(depths, axis), axis)


def _sizes(sizes: Sequence[int], axis: Axis) -> tuple[int, ...]:
    chosen = tuple(sorted({int(w) for w in sizes}))
    if len(chosen) < 2 or chosen[0] < 1:
        usual = WIDTHS if axis == "width" else DEPTHS
        raise Refusal(
            f"`{axis}s` must be two or more different {axis}s, got {list(sizes)}: an exponent is a "
            f"slope. Take e.g. {', '.join(map(str, usual[:-1]))} and {usual[-1]}."
        )
    return chosen


# what grows with the width of a configuration where nobody says so
_INNER = ("intermediate_size", "ffn_dim", "d_ff", "n_inner", "encoder_ffn_dim", "decoder_ffn_dim")


def _configured(config: Any, fields: Sequence[str]) -> Callable[[int], nn.Module]:
    """Models of a configuration of Transformers at another width, or depth."""
    if not fields or not all(isinstance(getattr(config, name, None), int) for name in fields):
        known = [k for k, v in config.to_dict().items() if isinstance(v, int) and v > 1]
        raise Refusal(
            "`field` must name the width (or depth) of the configuration, got "
            f"{', '.join(fields) or 'none'}. Its numbers are {', '.join(known)}."
        )
    first = getattr(config, fields[0])
    is_depth = "layer" in fields[0]
    inner = () if is_depth else [n for n in _INNER if isinstance(getattr(config, n, None), int)]
    grow = dict.fromkeys((*fields, *inner))

    def make(size: int) -> nn.Module:
        import transformers

        own = type(config)(**config.to_dict())
        for name in grow:
            setattr(own, name, round(getattr(config, name) * size / first))
        kinds = [getattr(transformers, n, None) for n in (config.architectures or ())]
        if (kind := next((k for k in kinds if k is not None), None)) is not None:
            return kind(own)
        return transformers.AutoModelForCausalLM.from_config(own)

    return make


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
            p.mul_(ratio ** by.initial.get(by.key(name, p), 0.0))

    def again(copy: nn.Module) -> Optimizer:
        made = recipe.make(copy)
        names = {id(p): by.key(name, p) for name, p in copy.named_parameters()}
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
    """Where models of all sizes are trained, and judged together."""

    family: Family
    plan: Mapping[str, Any]
    steps: int
    seeds: int
    tell: Progress
    says: str = ""
    uses: tuple[str, ...] = ()
    roles: Roles | None = None
    repeated: frozenset[str] = frozenset()

    def judged(self, cured: Widths | None = None) -> Widths:
        """What runs of every size and seed say together."""
        sizes, axis = self.family.sizes, self.family.axis
        total, made = len(sizes) * self.seeds, 0
        if not self.says:
            self._look()
        roles, read = self.roles, read_run
        drawn: list[dict[str, torch.Tensor]] = [{} for _ in range(self.seeds)]
        if roles:
            read = partial(deep.read_run, roles=roles, repeated=self.repeated)
        found: dict[int, list[Any]] = {}
        for size in sizes:
            for seed in range(self.seeds):
                self.tell(f"training at {axis} {size}", made, total)
                made += 1
                with self._opened(size, seed, cured) as (program, recipe, data):
                    more: dict[str, Any] = {}
                    if roles:
                        more = {"shared": drawn[seed], "curves": seed == 0 and cured is None}
                    run = read(program.model, recipe, data, self.steps, clip=program.clip, **more)
                found.setdefault(size, []).append(run)
        if roles:
            result = deep.judged(found, roles, self.steps, self.says)
        else:
            result = wide.judged(found, self.steps, self.says)
        return replace(result, uses=self.uses)

    def _look(self) -> None:
        """How weights are named and trained, and what is in use for a transfer already."""
        models: list[nn.Module] = []
        for size in self.family.sizes:
            with apart(), random_states(0):
                program, recipe = self._program(size)
            models.append(program.model)
            self.says = self.says or recipe.says()
        # what libraries have for a transfer and these models use already, in sentences
        axis, found = self.family.axis, list[str]()
        bare = [n for n, p in models[-1].named_parameters() if not hasattr(p, "infshape")]
        if len(bare) < sum(1 for _ in models[-1].parameters()):
            which = f"all but {', '.join(bare[:4])}" if bare else "every weight"
            found.append(
                f"mup: base shapes are set for {which}; what follows is measured with its "
                "multipliers"
            )
        values = [getattr(getattr(m, "config", None), "to_dict", dict)() for m in models]
        for name in sorted(n for n in values[0] if _MULTIPLIER.search(n)):
            numbers = [own.get(name) for own in values]
            if all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers):
                goes = f"{numbers[0]:g} at every {axis}"
                if len(set(numbers)) > 1:
                    ends = f"{numbers[0]:g} to {numbers[-1]:g}"
                    goes = f"{ends} from the smallest {axis} to the largest"
                found.append(f"`{name}` of the configuration: {goes}")
        self.uses = tuple(found)
        if self.seeds > 1:
            with apart(), random_states(1), _seeds_apart(1):
                program, _ = self._program(self.family.sizes[0])
            pairs = zip(models[0].parameters(), program.model.parameters(), strict=True)
            if all(torch.equal(p, q) for p, q in pairs):
                self.seeds, self.uses = 1, (*self.uses, FIXED)
        if axis == "depth":
            self.roles, self.repeated = deep.roles_of(models)

    def best(self, steps: int, cured: Widths | None = None) -> tuple[BestRate, ...]:
        """The best rate at the smallest and the largest size."""
        ends = (self.family.sizes[0], self.family.sizes[-1])
        total, made = len(ends) * len(FACTORS) * self.seeds, 0

        def loss_at(size: int, factor: float, seed: int) -> float:
            nonlocal made
            self.tell(f"trying rates at {self.family.axis} {size}", made, total)
            made += 1
            with self._opened(size, seed, cured, steps) as (program, recipe, data):
                run = started(program.model, recipe.at(factor), data.size, clip=program.clip)
                run.go_on(data, steps)
            return run.after(run.steps) if run.finite else math.inf

        return tuple(best_rate(w, partial(loss_at, w), self.seeds) for w in ends)

    @contextmanager
    def _opened(
        self, size: int, seed: int, cured: Widths | None, steps: int = 1
    ) -> Iterator[tuple[Program, Recipe, TrainingSamples]]:
        """What is trained at a size, and on what; `make` may draw from any source."""
        with apart(), random_states(seed):
            with _seeds_apart(seed):
                program, recipe = self._program(size)
            if cured is not None:
                program, recipe = _changed(program, recipe, cured, size / self.family.sizes[0])
            known = opened(program, samples=max(SAMPLES, (program.batch_size or SIZE) * steps))
            if known.unfit or not isinstance(known.targets, torch.Tensor):
                why = known.unfit or "there are no targets"
                raise Refusal(f"A model must be trained to see how it scales, but {why}.")
            with joined(program.model, known.joint):
                yield program, recipe, data_of(program, known)

    def _program(self, size: int) -> tuple[Program, Recipe]:
        made, plan = self.family.at(size), self.plan
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
        return program, recipe


# what is read once is told with the interval of one reading, whatever number of seeds is asked for
FIXED = (
    "`make` gives the same initial weights at every call, so that more seeds say nothing: each "
    "width is read once. Draw them with torch's global generator, which `widths` seeds"
)


@contextmanager
def _seeds_apart(seed: int) -> Iterator[None]:
    """Where a function of the user's seeds torch, it draws otherwise for another seed of ours.

    Many a `make` begins with `torch.manual_seed(0)`. Then all models of one width would be one
    model, and what they say would look certain.
    """
    own = torch.manual_seed
    other = lambda number: own(int(number) + seed * 2**20)
    torch.manual_seed = torch.random.manual_seed = other
    try:
        yield
    finally:
        torch.manual_seed = torch.random.manual_seed = own


_MULTIPLIER = re.compile(r"multiplier|mup|scale_emb|scale_depth|logits?_scal|dim_model_base")
