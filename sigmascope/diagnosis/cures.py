"""Remedies of a whole program: each changes it, is trained as the user trains, and is compared.

A remedy of a network (`remedies`) knows no loss, no targets and no optimiser. What cures a program
may change any of them, so that a cure is a function from a program to a program, with the few lines
by which the user would write the same.
"""

import math
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.diagnosis.diagnoses import SAMPLES, Diagnosis, data_of, diagnose
from sigmascope.diagnosis.programs.data import Mapped
from sigmascope.diagnosis.programs.opened import Opened, opened
from sigmascope.diagnosis.programs.optimisers import Recipe
from sigmascope.diagnosis.programs.program import Program
from sigmascope.diagnosis.remedies.base import Inapplicable, Remedy, calls
from sigmascope.diagnosis.remedies.catalogue import every_remedy
from sigmascope.diagnosis.remedies.closings import EndInLinear, closing_site
from sigmascope.diagnosis.remedies.unit_scale import StandardiseInputs
from sigmascope.diagnosis.training.evidence import other_family, score_of, steps_for
from sigmascope.diagnosis.training.runs import started, work_of
from sigmascope.gate import Refusal
from sigmascope.probes.execution import called, duplicate, in_words, module_name, still
from sigmascope.probes.samples import as_tensor, prepared
from sigmascope.records import Finding, Shown

MOST = 8  # cures that are tried
LIKE = 0.03  # of a score, within which the cure of the deeper cause goes first
MORE = 10.0  # times the epochs
ENOUGH = 0.9  # a score that needs no second cure


@dataclass(frozen=True, slots=True)
class Change:
    """A changed program, and how to write the same.

    Attributes:
        name: Of the cure.
        cause: The finding that it is meant for.
        patch: Lines for the user's code.
        program: The changed one; its model is a copy.
    """

    name: str
    cause: str
    patch: tuple[str, ...]
    program: Program


@dataclass(frozen=True, slots=True, repr=False)
class Cure(Shown):
    """A program before and after a change, both trained as the user trains.

    Attributes:
        name: Of the cure.
        cause: The finding that it is meant for.
        patch: Lines for the user's code.
        program: The changed program, its model at its initial weights.
        before: Accuracy, or share of the targets' variance explained, of the program as it is.
        after: The same of the changed one, after as many steps.
        steps: So many.
    """

    name: str
    cause: str
    patch: tuple[str, ...]
    program: Program
    before: float
    after: float
    steps: int


def cures(
    program: Program, found: Diagnosis | None = None, *, samples: int = SAMPLES
) -> tuple[tuple[Cure, ...], Mapping[str, str]]:
    """Cures of a program that were tried on copies, the best first.

    Args:
        program: Left as it is.
        found: Its diagnosis, if it was made.
        samples: On how many samples.

    Returns:
        What was tried, by the score after as many steps as the plan, or up to 1000 of small
        models; scores within 0.03 stand in the order of causes. And why others do not apply.

    Raises:
        Refusal: If the program names no optimiser or holds no targets.

    Cost: for each of up to eight cures 8 passes over the samples; more for small models.
    """
    if program.optimizer is None:
        raise Refusal("Cures are trained as the user trains: name an optimiser.")
    found = found or diagnose(program, samples=samples)
    known = opened(program, samples=samples)
    bench = _Bench(samples, math.nan if known.unfit else _trained(program, known)[0])
    for maker in _makers(found.findings, known):
        if len(bench.made) < MOST:
            bench.put(maker, program, known)
    for cure in _worth_more(bench.made):
        again = opened(cure.program, samples=samples)
        for name, make in SECOND:
            bench.put(_Named(f"{cure.name}+{name}", _behind(cure, name, make)), cure.program, again)
    return tuple(_ordered(bench.made)), MappingProxyType(bench.declined)


@dataclass(slots=True)
class _Bench:
    """Where changes are tried.

    Attributes:
        samples: On how many.
        before: The score of the program as it is.
        made: What was tried.
        declined: Why others do not apply.
    """

    samples: int
    before: float
    made: list[Cure] = field(default_factory=list)
    declined: dict[str, str] = field(default_factory=dict)

    def put(self, maker: "_Named", program: Program, known: Opened) -> None:
        """Make a change and train what it gives."""
        try:
            change = maker(program, known)
            changed = opened(change.program, samples=self.samples)
            if changed.unfit:
                raise Inapplicable(changed.unfit)
            after, steps = _trained(change.program, changed)
        except Exception as error:  # noqa: BLE001 (a cured model fails in every way)
            self.declined[maker.name] = in_words(error)
            return
        words = (change.name, change.cause, change.patch, change.program)
        self.made.append(Cure(*words, self.before, after, steps))


def _worth_more(made: list[Cure]) -> list[Cure]:
    """Where no cure is enough: the first, which is meant for the deepest cause, and the best."""
    if not made or max(c.after for c in made) >= ENOUGH:
        return []
    best = max(made, key=lambda c: c.after)
    return [made[0]] if best is made[0] else [made[0], best]


def _behind(first: Cure, name: str, make: "Maker") -> "Maker":
    def both(program: Program, known: Opened) -> Change:
        second = make(program, known)
        patch = (*first.patch, *second.patch)
        return Change(f"{first.name}+{name}", first.cause, patch, second.program)

    return both


def _ordered(made: list[Cure]) -> list[Cure]:
    """The best first; those that are about as good in the order in which they were made."""
    order = sorted(made, key=lambda c: -c.after)
    best = order[0].after if order else 0.0
    good = [c for c in made if c.after >= best - LIKE]
    return good + [c for c in order if c not in good]


def _trained(program: Program, known: Opened) -> tuple[float, int]:
    """The score after training as the user trains, and after how many steps."""
    recipe = program.recipe()
    if recipe is None or not isinstance(known.targets, Tensor):
        raise Refusal("A cure is trained, which needs an optimiser and targets.")
    data = data_of(program, known)
    with still(program.model):
        steps = steps_for(work_of(program.model, data), data, known.planned)
        run = started(program.model, recipe, data.size, clip=program.clip)
        run.go_on(data, steps)
    score = score_of(run, data) if run.finite else None
    return (-1.0 if score is None else score), run.steps


Maker = Callable[[Program, Opened], Change]


def _makers(findings: tuple[Finding, ...], known: Opened) -> Iterator[Maker]:
    """What could cure the findings, in the order of causes, each once."""
    seen: set[str] = set()
    for finding in findings:
        for maker in (*_own(finding), *_of_networks(finding, known)):
            if maker.name not in seen:
                seen.add(maker.name)
                yield maker


@dataclass(frozen=True, slots=True)
class _Named:
    """A maker with its name."""

    name: str
    make: Maker

    def __call__(self, program: Program, known: Opened) -> Change:
        return self.make(program, known)


def _of_networks(finding: Finding, known: Opened) -> Iterator[_Named]:
    for remedy in sorted(
        (r for r in every_remedy(known.targets) if finding.name in r.cures),
        key=lambda r: r.cures.index(finding.name),
    ):
        yield _Named(remedy.name, _network(remedy, finding.name))


def _network(remedy: Remedy, cause: str) -> Maker:
    def make(program: Program, known: Opened) -> Change:
        model = remedy.apply(program.model, known.batch)
        patch = (f"# {remedy.says}", *_lines(remedy, program, known))
        return Change(remedy.name, cause, patch, _with(program, model=model))

    return make


def _lines(remedy: Remedy, program: Program, known: Opened) -> Iterator[str]:
    closing = getattr(type(remedy), "closing", "")
    if closing == "":
        yield "from sigmascope.diagnosis.remedies import remedy"
        yield f"model = remedy({remedy.name!r}).apply(model, batch)"
        return
    fresh = "nn.Identity()" if closing is None else f"nn.{closing.__name__}()"
    fresh = "nn.Softmax(-1)" if closing is nn.Softmax else fresh
    site = closing_site(program.model, prepared(program.model, known.batch))
    if site:
        yield f"model{_attribute(site)} = {fresh}"
    elif isinstance(program.model, nn.Sequential):
        yield f"model.append({fresh})"
    else:
        yield f"# at the end of `forward`: return {fresh}(output)"


def _attribute(site: str) -> str:
    """A name as Python reaches it from a model: `layers.3.act` is `.layers[3].act`."""
    parts = site.split(".")
    return "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in parts)


def _with(program: Program, **changed: Any) -> Program:
    """The same program with something else; its optimiser is made anew for another model."""
    return replace(program, **{"optimizer": program.recipe(), "lr": None, "options": {}, **changed})


def _own(finding: Finding) -> Iterator[_Named]:
    """Cures that change more than the network."""
    for name, make in OWN.get(finding.name, ()):
        yield _Named(name, _because(make, name, finding.name))


def _because(make: Maker, name: str, cause: str) -> Maker:
    return lambda program, known: replace(make(program, known), name=name, cause=cause)


def _rate(times: float) -> Maker:
    def make(program: Program, _: Opened) -> Change:
        recipe = _recipe(program)
        line = f"lr={recipe.rate * times:.3g}  # in place of {recipe.rate:.3g}"
        return Change("", "", (line,), _with(program, optimizer=recipe.at(times)))

    return make


def _longer(program: Program, _: Opened) -> Change:
    epochs = MORE * (program.epochs or 1.0)
    line = f"epochs = {epochs:g}  # in place of {program.epochs or 1:g}"
    return Change("", "", (line,), _with(program, epochs=epochs))


def _other(program: Program, _: Opened) -> Change:
    other = other_family(_recipe(program))
    options = "".join(f", {k}={v:g}" for k, v in other.options.items())
    kind = {"sgd": "SGD", "adam": "Adam"}[other.name]
    line = f"optimizer = torch.optim.{kind}(model.parameters(), lr={other.rate:g}{options})"
    return Change("", "", (line,), _with(program, optimizer=other))


def _smaller(program: Program, known: Opened) -> Change:
    size = max(known.size // 8, 1)
    line = f"batch_size = {size}  # in place of {known.size}"
    return Change("", "", (line,), _with(program, batch_size=size))


def _entropy(program: Program, known: Opened) -> Change:
    """Cross-entropy of scores, for one class of many; of single outputs a binary one."""
    many = len(known.targets.shape) == 1 or known.targets.shape[-1] > 1
    output = _output(program, known)
    exclusive = many and output.shape[-1] > 1 and not _several(known.targets)
    loss = "cross_entropy" if exclusive else "binary_cross_entropy_with_logits"
    model, lines = _opened_end(program, known)
    line = f"loss = F.{loss}"
    return Change("", "", (*lines, line), _with(program, model=model, loss=loss))


def _binary(program: Program, known: Opened) -> Change:
    model, lines = _opened_end(program, known)
    name = "binary_cross_entropy_with_logits"
    return Change("", "", (*lines, f"loss = F.{name}"), _with(program, model=model, loss=name))


def _per_class(program: Program, known: Opened) -> Change:
    """One output for each class, and cross-entropy of scores."""
    values = known.targets.flatten().round().long()
    least, count = int(values.min()), int(values.max() - values.min()) + 1
    model, lines = _opened_end(program, known)
    lines += _widen(model, known, count)
    back = f" - {least}" if least else ""
    lines += (f"targets = targets.flatten().long(){back}", "loss = F.cross_entropy")
    data = Mapped(program.data, lambda y: y.flatten(1)[:, 0].round().long() - least)
    changed = _with(program, model=model, loss="cross_entropy", data=data)
    return Change("", "", lines, changed)


def _as_targets(program: Program, known: Opened) -> Change:
    """As many outputs as targets have columns, and no last operation."""
    model, lines = _opened_end(program, known)
    lines += _widen(model, known, known.targets.flatten(1).shape[1])
    return Change("", "", lines, _with(program, model=model))


def _opened_end(program: Program, known: Opened) -> tuple[nn.Module, tuple[str, ...]]:
    """A copy that ends in its last layer, and the line that says so."""
    remedy = EndInLinear()
    try:
        model = remedy.apply(program.model, known.batch)
    except Inapplicable:
        return duplicate(program.model), ()
    return model, tuple(_lines(remedy, program, known))


def _widen(model: nn.Module, known: Opened, outputs: int) -> tuple[str, ...]:
    """Another number of outputs of the last layer, in place; the line that says so."""
    last = calls(model, prepared(model, known.batch))[-1]
    name, layer = module_name(last.site), last.module
    if not isinstance(layer, nn.Linear) or not name:
        raise Inapplicable(
            f"Other outputs need a last linear layer, got {type(layer).__name__} at {last.site}."
        )
    parent, _, key = name.rpartition(".")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # of the copy's new layer; restored behind it
        fresh = nn.Linear(layer.in_features, outputs, bias=layer.bias is not None)
    setattr(model.get_submodule(parent), key, fresh.to(layer.weight))
    return (f"model{_attribute(name)} = nn.Linear({layer.in_features}, {outputs})",)


def _scores(program: Program, known: Opened) -> Change:
    """The loss that takes the raw outputs for scores."""
    return replace(_entropy(program, known), name="loss-of-scores")


def _several(targets: Tensor) -> bool:
    return targets.is_floating_point() and not bool((targets.flatten(1).sum(1) == 1).all())


def _recipe(program: Program) -> Recipe:
    recipe = program.recipe()
    if recipe is None:
        raise Refusal("Cures are trained as the user trains: name an optimiser.")
    return recipe


def _output(program: Program, known: Opened) -> Tensor:
    batch = prepared(program.model, known.batch)
    with still(program.model), torch.no_grad():
        return as_tensor(called(program.model, batch))[0]


OWN: Mapping[str, tuple[tuple[str, Maker], ...]] = MappingProxyType(
    {
        "classes-on-one-output": (("one-output-per-class", _per_class),),
        "indifferent-loss": (("one-output-per-class", _per_class),),
        "spread-targets": (("outputs-as-targets", _as_targets),),
        "unfit-targets": (
            ("outputs-as-targets", _as_targets),
            ("one-output-per-class", _per_class),
        ),
        "shared-classes": (("binary-cross-entropy", _binary),),
        "squared-error-for-classes": (("cross-entropy", _entropy),),
        "raw-output": (("loss-of-scores", _scores),),
        "rate-too-high": (("lower-rate", _rate(0.1)), ("much-lower-rate", _rate(0.01))),
        "rate-too-low": (("higher-rate", _rate(10.0)), ("much-higher-rate", _rate(100.0))),
        "few-steps": (("more-epochs", _longer), ("higher-rate", _rate(10.0))),
        "other-optimiser": (("other-optimiser", _other),),
        "large-batch": (("smaller-batch", _smaller),),
        "stuck": (("other-optimiser", _other), ("lower-rate", _rate(0.1))),
        "no-progress": (("other-optimiser", _other), ("lower-rate", _rate(0.1))),
    }
)
SECOND: tuple[tuple[str, Maker], ...] = (  # behind a first cure, where it is not enough
    ("lower-rate", _rate(0.1)),
    ("much-lower-rate", _rate(0.01)),
    ("higher-rate", _rate(10.0)),
    ("more-epochs", _longer),
    ("other-optimiser", _other),
    ("standardise-inputs", _network(StandardiseInputs(), "unscaled-inputs")),
)
