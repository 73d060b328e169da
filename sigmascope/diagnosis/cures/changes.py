"""Changes of a program: another rate, another loss, another number of outputs, and so on.

Each is a function from a program to a changed one, with the few lines by which the user would write
the same. Models are copies; nothing is trained here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from inspect import signature
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.core.guard import Refusal, random_states
from sigmascope.core.records import Finding, Kind
from sigmascope.diagnosis.programs.data import Mapped
from sigmascope.diagnosis.programs.losses import loss_of
from sigmascope.diagnosis.programs.opened import Opened
from sigmascope.diagnosis.programs.optimizers import Recipe, unusual_settings
from sigmascope.diagnosis.programs.program import Program
from sigmascope.diagnosis.remedies.base import Inapplicable, Remedy, calls, in_python, put_in_python
from sigmascope.diagnosis.remedies.catalogue import in_code, informed, remedies_for
from sigmascope.diagnosis.remedies.closings import (
    EndIn,
    EndInLinear,
    StandardiseTargets,
    closing_site,
)
from sigmascope.diagnosis.remedies.unit_scale import StandardiseInputs
from sigmascope.diagnosis.rules.catalogue import NO_PROGRESS
from sigmascope.diagnosis.rules.data import UNSCALED_TARGETS
from sigmascope.diagnosis.rules.dependences import HEAVY_DROPOUT, MIXED_SAMPLES
from sigmascope.diagnosis.rules.outputs import (
    CLASSES_ON_ONE_OUTPUT,
    DOUBLE_SOFTMAX,
    INDIFFERENT_LOSS,
    OMITTED_CLASS,
    OUT_OF_REACH,
    RAW_OUTPUT,
    REVERSED_LOSS,
    SHARED_CLASSES,
    SOFTMAX_IN_THE_LOSS,
    SPREAD_TARGETS,
    SQUARED_ERROR_FOR_CLASSES,
    UNFIT_TARGETS,
    UNSUITED_CLOSING,
)
from sigmascope.diagnosis.rules.sequences import EXPLODING_THROUGH_TIME
from sigmascope.diagnosis.rules.steps import (
    FOREIGN_OPTIMIZER,
    OUTWEIGHED_ERROR,
    UNREGISTERED_WEIGHTS,
    UNTRAINED_WEIGHTS,
)
from sigmascope.diagnosis.rules.training import (
    FEW_STEPS,
    LARGE_BATCH,
    MAXIMISED_LOSS,
    OTHER_OPTIMIZER,
    RATE_TOO_HIGH,
    RATE_TOO_LOW,
    STRONG_CLIPPING,
    STRONG_MOMENTUM,
    STRONG_WEIGHT_DECAY,
    STUCK_TRAINING,
    UNUSUAL_SETTINGS,
)
from sigmascope.diagnosis.rules.weights import FROZEN_LAYER, LINEAR_LAYERS, LINEAR_NETWORK
from sigmascope.diagnosis.training.trials import BEYOND, at_usual, other_family
from sigmascope.models.layers import called, module_name
from sigmascope.models.samples import IGNORED, as_tensor, prepared
from sigmascope.models.state import duplicate, still
from sigmascope.models.structure import tail

MORE = 10.0  # times the epochs
EVEN = 0.5  # of the numbers, more than which are rarely dropped on purpose
WEAKER = 1e-4  # times the gradients of outputs that are not compared with targets
LISTS = {nn.Module: nn.ModuleList, nn.Parameter: nn.ParameterList}
MAPPINGS = {nn.Module: nn.ModuleDict, nn.Parameter: nn.ParameterDict}


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """A changed program, and how to write the same.

    Attributes:
        patch: Lines for the user's code.
        program: The changed one; its model is a copy.
    """

    patch: tuple[str, ...]
    program: Program


Maker = Callable[[Program, Opened], ProgramChange]


@dataclass(frozen=True, slots=True)
class DeclaredChange:
    """A change that is declared: its name, and the kinds of findings that it is meant for."""

    name: str
    cures: tuple[Kind, ...]
    make: Maker


def of_network(remedy: Remedy) -> Maker:
    """A remedy of the network as a change of the program."""

    def make(program: Program, known: Opened) -> ProgramChange:
        model = informed(remedy, known.targets).apply(program.model, known.batch)
        patch = (f"# {remedy.says}", *_lines(remedy, program, known))
        return ProgramChange(patch, _with(program, model=model))

    return make


def _lines(remedy: Remedy, program: Program, known: Opened) -> Iterator[str]:
    if not isinstance(remedy, EndIn):
        yield "import sigmascope as ss"
        yield f"model = {in_code(informed(remedy, known.targets))}.apply(model, batch)"
        return
    closing = type(remedy).closing
    fresh = "nn.Identity()" if closing is None else f"nn.{closing.__name__}()"
    fresh = "nn.Softmax(-1)" if closing is nn.Softmax else fresh
    site = closing_site(program.model, prepared(program.model, known.batch))
    if site:
        yield put_in_python(site, fresh)
    elif isinstance(program.model, nn.Sequential):
        yield f"model.append({fresh})"
    else:
        yield f"# at the end of `forward`: return {fresh}(output)"


def _with(program: Program, **changed: Any) -> Program:
    """The same program with something else; its optimizer is made anew for another model."""
    return replace(program, **{"optimizer": program.recipe(), "lr": None, "options": {}, **changed})


def changes_for(finding: Finding) -> Iterator[tuple[str, Maker]]:
    """What is meant for a finding, by name, the surest first: changes of the program, remedies."""
    for change in CHANGES:
        if finding.name in [kind.name for kind in change.cures]:
            yield change.name, change.make
    yield from ((remedy.name, of_network(remedy)) for remedy in remedies_for(finding))


def _rate(times: float) -> Maker:
    def make(program: Program, _: Opened) -> ProgramChange:
        recipe = require_recipe(program)
        line = f"lr={recipe.rate * times:.3g}  # in place of {recipe.rate:.3g}"
        return ProgramChange((line,), _with(program, optimizer=recipe.at(times)))

    return make


def _usual(program: Program, _: Opened) -> ProgramChange:
    recipe = require_recipe(program)
    usual = at_usual(recipe)
    if recipe.rate / BEYOND <= usual.rate <= recipe.rate * BEYOND:
        raise Inapplicable("the usual rate is within a few hundred times yours")
    line = f"lr={usual.rate:.3g}  # in place of {recipe.rate:.3g}"
    return ProgramChange((line,), _with(program, optimizer=usual))


def _longer(program: Program, _: Opened) -> ProgramChange:
    epochs = MORE * (program.epochs or 1.0)
    line = f"epochs = {epochs:g}  # in place of {program.epochs or 1:g}"
    return ProgramChange((line,), _with(program, epochs=epochs))


def _other(program: Program, _: Opened) -> ProgramChange:
    other = other_family(require_recipe(program))
    options = "".join(f", {k}={v:g}" for k, v in other.options.items())
    kind = {"sgd": "SGD", "adam": "Adam"}[other.name]
    line = f"optimizer = torch.optim.{kind}(model.parameters(), lr={other.rate:g}{options})"
    return ProgramChange((line,), _with(program, optimizer=other))


def _option(name: str, value: float) -> Maker:
    def make(program: Program, _: Opened) -> ProgramChange:
        recipe = require_recipe(program)
        changed = recipe.having(**{name: value})
        line = f"{name}={value}" if isinstance(value, bool) else f"{name}={value:g}"
        return ProgramChange((line,), _with(program, optimizer=changed))

    return make


def _usual_settings(program: Program, _: Opened) -> ProgramChange:
    recipe = require_recipe(program)
    usual = unusual_settings(recipe.make(duplicate(program.model)))
    lines = tuple(f"{name}={value}" for name, value in usual.items())
    return ProgramChange(lines, _with(program, optimizer=recipe.having(**usual)))


def _clip_at_one(program: Program, _: Opened) -> ProgramChange:
    line = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    return ProgramChange((line,), _with(program, clip=1.0))


def _all_parameters(program: Program, _: Opened) -> ProgramChange:
    """The optimizer at its rate, of all that requires gradients."""
    made = require_recipe(program).make(duplicate(program.model))
    kind, group, takes = type(made), made.param_groups[0], signature(type(made)).parameters
    options = {k: v for k, v in group.items() if k in takes and k != "params"}
    fresh = lambda parameters: kind(parameters, **options)
    own = (k for k in ("lr", "momentum", "weight_decay") if options.get(k))
    said = "".join(f", {k}={options[k]:g}" for k in own)
    line = f"optimizer = torch.optim.{kind.__name__}(model.parameters(){said})"
    return ProgramChange((line,), _with(program, optimizer=fresh))


def _smaller(program: Program, known: Opened) -> ProgramChange:
    size = max(known.size // 8, 1)
    line = f"batch_size = {size}  # in place of {known.size}"
    return ProgramChange((line,), _with(program, batch_size=size))


def _entropy(program: Program, known: Opened) -> ProgramChange:
    """Cross-entropy of scores, for one class of many; of single outputs a binary one."""
    many = len(known.targets.shape) == 1 or known.targets.shape[-1] > 1
    output = _output(program, known)
    exclusive = (
        many
        and output.shape[-1] > 1
        and not (
            known.targets.is_floating_point()
            and not bool((known.targets.flatten(1).sum(1) == 1).all())
        )
    )
    loss = "cross_entropy" if exclusive else "binary_cross_entropy_with_logits"
    model, lines = _opened_end(program, known)
    line = f"loss = F.{loss}"
    return ProgramChange((*lines, line), _with(program, model=model, loss=loss))


def _binary(program: Program, known: Opened) -> ProgramChange:
    model, lines = _opened_end(program, known)
    name = "binary_cross_entropy_with_logits"
    return ProgramChange((*lines, f"loss = F.{name}"), _with(program, model=model, loss=name))


def _per_class(program: Program, known: Opened) -> ProgramChange:
    """One output for each class, and cross-entropy of scores."""
    given = known.targets.flatten()
    if given.is_floating_point() and not torch.equal(given, given.round()):
        raise Inapplicable("the targets are values, and no numbers of classes")
    values = given.round().long()
    least, count = int(values.min()), int(values.max() - values.min()) + 1
    model, lines = _opened_end(program, known)
    lines += _widen(model, known, count)
    back = f" - {least}" if least else ""
    lines += (f"targets = targets.flatten().long(){back}", "loss = F.cross_entropy")
    data = Mapped(program.data, lambda y: y.flatten(1)[:, 0].round().long() - least)
    changed = _with(program, model=model, loss="cross_entropy", data=data)
    return ProgramChange(lines, changed)


def _in_form(program: Program, known: Opened) -> ProgramChange:
    """Targets in the form of the outputs, of as many numbers."""
    shape = tuple(_output(program, known).shape[1:])
    if known.targets.shape[1:].numel() != torch.Size(shape).numel():
        raise Inapplicable("targets and outputs are not of as many numbers")
    data = Mapped(program.data, lambda y: y.reshape(len(y), *shape))
    line = f"targets = targets.reshape({', '.join(map(str, (-1, *shape)))})"
    return ProgramChange((line,), _with(program, data=data))


def _opposite(program: Program, known: Opened) -> ProgramChange:
    """The loss with the opposite sign."""
    given = loss_of(program.loss) if program.loss is not None else known.loss
    line = "# at the end of the loss: return the opposite, `-value`, or `1 - value` of a share"
    return ProgramChange((line,), _with(program, loss=lambda o, y: -given(o, y)))


def _every_class(program: Program, _: Opened) -> ProgramChange:
    """The loss with no class left out."""
    loss: Any = program.loss
    if not isinstance(loss, nn.Module) or not hasattr(loss, "ignore_index"):
        raise Inapplicable("what the loss leaves out is written in a function")
    whole: Any = duplicate(loss)
    whole.ignore_index = IGNORED
    weight = getattr(whole, "weight", None)
    if isinstance(weight, Tensor):
        whole.weight = torch.where(weight == 0, torch.ones_like(weight), weight)
    line = f"# where the loss is made: ignore_index={IGNORED}, and no weight that is zero"
    return ProgramChange((line,), _with(program, loss=whole))


def _registered(program: Program, known: Opened) -> ProgramChange:
    """Layers and tensors of plain lists and mappings as parameters of the model."""
    model, lines = duplicate(program.model), dict[str, None]()
    own = {id(p) for p in model.parameters()}
    for name, module in [*model.named_modules()]:
        for key, held in [*vars(module).items()]:
            if key.startswith("_") or not isinstance(held, list | tuple | dict) or not held:
                continue
            parts = [*held.values()] if isinstance(held, dict) else [*held]
            kinds = LISTS if not isinstance(held, dict) else MAPPINGS
            for kind, holder in kinds.items():
                inside: Any = holder(held) if all(isinstance(p, kind) for p in parts) else None
                if inside is not None and {id(p) for p in inside.parameters()} - own:
                    delattr(module, key)
                    setattr(module, key, inside)
                    place = f"{name}.{key}".removeprefix(".")
                    made = f"nn.{holder.__name__}({in_python(name)}.{key})"
                    lines[put_in_python(place, made)] = None
    if not lines:
        raise Inapplicable("the tensors lie in no list or mapping of modules or parameters")
    changed = _with(program, model=model)
    whole = _all_parameters(changed, known)
    return replace(whole, patch=(*lines, *whole.patch))


def _thawed(program: Program, known: Opened) -> ProgramChange:
    """Every weight to be trained."""
    whole = _all_parameters(_with(program, model=duplicate(program.model).requires_grad_()), known)
    return replace(whole, patch=("model.requires_grad_()", *whole.patch))


def _weaker(program: Program, known: Opened) -> ProgramChange:
    """Smaller gradients of the outputs that are not compared with the targets."""
    joint, given = known.joint, program.loss
    own = None if joint is None else joint.columns_like(known.targets)
    if joint is None or own is None or not callable(given):
        raise Inapplicable("no output is compared with the targets beside others that are not")

    def weaker(whole: Any, targets: Any) -> Tensor:
        both = joint.join(whole)
        small = both.detach() + WEAKER * (both - both.detach())
        with joint.holding(both):  # what is beside the parts is of this forward pass
            weak = joint.apart(torch.where(own.to(both.device), both, small))
        return given(weak, targets)

    line = f"# in the loss: the terms of other outputs than the compared one times {WEAKER:g}"
    return ProgramChange((line,), _with(program, loss=weaker))


def _activated(program: Program, known: Opened) -> ProgramChange:
    """A ReLU behind every layer that another reads with no activation between them."""
    found = calls(program.model, prepared(program.model, known.batch))
    model, lines = duplicate(program.model), list[str]()
    for before, after in pairwise(found):
        name = module_name(before.site)
        same = before.output.shape == after.input.shape
        if name and same and torch.equal(before.output, after.input):
            parent, _, key = name.rpartition(".")
            layer = model.get_submodule(name)
            setattr(model.get_submodule(parent), key, nn.Sequential(layer, nn.ReLU()))
            lines.append(put_in_python(name, f"nn.Sequential({in_python(name)}, nn.ReLU())"))
    if not lines:
        raise Inapplicable("no layer reads what another wrote as it is")
    return ProgramChange(tuple(lines), _with(program, model=model))


def _batch_first(program: Program, _: Opened) -> ProgramChange:
    """Layers that take the first dimension for that of samples."""
    model = duplicate(program.model)
    found = [m for m in model.modules() if getattr(m, "batch_first", True) is False]
    for module in found:
        module.__dict__["batch_first"] = True
    if not found:
        raise Inapplicable("no layer takes samples along another dimension than the first")
    kinds = ", ".join(dict.fromkeys(type(m).__name__ for m in found))
    line = f"# where layers are made ({kinds}): batch_first=True"
    return ProgramChange((line,), _with(program, model=model))


def _over_classes(program: Program, known: Opened) -> ProgramChange:
    """A softmax over the classes in place of one over the samples."""
    output = _output(program, known)
    if output.ndim < 2:
        raise Inapplicable("the output has no dimension of classes")
    last = 1 if output.ndim > 2 else -1
    model, lines = duplicate(program.model), list[str]()
    for name, module in model.named_modules():
        if isinstance(module, nn.Softmax | nn.LogSoftmax) and module.dim == 0:
            module.dim = last
            lines.append(f"{in_python(name)}.dim = {last}")
    if not lines:
        closing = tail(program.model, prepared(program.model, known.batch)).closing
        kind = {"softmax": nn.Softmax, "log_softmax": nn.LogSoftmax}.get(closing)
        if kind is None:
            raise Inapplicable("the model ends in no softmax")
        model = nn.Sequential(_unclosed(program, known), kind(last))
        lines = [f"# at the end of `forward`: {closing}(output, dim={last})"]
    return ProgramChange(tuple(lines), _with(program, model=model))


class Unclosed(nn.Module):
    """A model that gives what its last layer writes.

    Attributes:
        model: The whole.
        name: Of the layer.
    """

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """What the layer wrote last, and not what was made of it."""
        wrote: list[Tensor] = []
        layer = self.model.get_submodule(self.name)

        def note(_: nn.Module, _inputs: Any, out: Tensor) -> None:
            wrote.append(out)

        handle = layer.register_forward_hook(note)
        try:
            self.model(*inputs, **named)
        finally:
            handle.remove()
        return wrote[-1]


def _unclosed(program: Program, known: Opened) -> nn.Module:
    """A copy without what is done behind its last layer."""
    last, output = calls(program.model, prepared(program.model, known.batch))[-1], known.shape
    name = module_name(last.site)
    if not name or last.output.shape != torch.Size(output):
        raise Inapplicable("the output is not in the form in which the last layer writes it")
    return Unclosed(duplicate(program.model), name)


def _without_closing(program: Program, known: Opened) -> ProgramChange:
    """No last operation, where it is written in `forward`."""
    batch = prepared(program.model, known.batch)
    closing = tail(program.model, batch).closing
    if not closing or closing_site(program.model, batch):
        raise Inapplicable("the last operation is a module of its own, or there is none")
    line = f"# at the end of `forward`: return what the last layer writes, without {closing}"
    return ProgramChange((line,), _with(program, model=_unclosed(program, known)))


def _less_dropout(program: Program, _: Opened) -> ProgramChange:
    """Dropout of the share that is kept, where next to nothing is."""
    model, lines = duplicate(program.model), list[str]()
    for name, module in model.named_modules():
        share = getattr(module, "p", None)
        if "Dropout" in type(module).__name__ and isinstance(share, float) and share > EVEN:
            kept = module.__dict__["p"] = round(1 - share, 6)
            lines.append(f"{in_python(name)}.p = {kept:g}")
    if not lines:
        raise Inapplicable("no dropout of the model drops more than half")
    return ProgramChange(tuple(lines), _with(program, model=model))


def _as_targets(program: Program, known: Opened) -> ProgramChange:
    """As many outputs as targets have columns, and no last operation."""
    model, lines = _opened_end(program, known)
    lines += _widen(model, known, known.targets.flatten(1).shape[1])
    return ProgramChange(lines, _with(program, model=model))


def _opened_end(program: Program, known: Opened) -> tuple[nn.Module, tuple[str, ...]]:
    """A copy that ends in its last layer, and the line that says so."""
    remedy = EndInLinear()
    try:
        model = remedy.apply(program.model, known.batch)
    except Inapplicable:
        if tail(program.model, prepared(program.model, known.batch)).closing:
            raise  # it is written in `forward`, where scores would go through it
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
    with random_states(0):  # of the copy's new layer
        fresh = nn.Linear(layer.in_features, outputs, bias=layer.bias is not None)
    setattr(model.get_submodule(parent), key, fresh.to(layer.weight))
    return (put_in_python(name, f"nn.Linear({layer.in_features}, {outputs})"),)


def require_recipe(program: Program) -> Recipe:
    """How a program trains.

    Raises:
        Refusal: If it does not say.
    """
    recipe = program.recipe()
    if recipe is None:
        raise Refusal("Cures are trained as the user trains: name an optimizer.")
    return recipe


def _output(program: Program, known: Opened) -> Tensor:
    batch = prepared(program.model, known.batch)
    with still(program.model), torch.no_grad():
        return as_tensor(called(program.model, batch))[0]


CHANGES: tuple[DeclaredChange, ...] = (  # of several for one finding, the surest first
    DeclaredChange("opposite-sign", (REVERSED_LOSS,), _opposite),
    DeclaredChange(
        "without-closing", (DOUBLE_SOFTMAX, OUT_OF_REACH, UNSUITED_CLOSING), _without_closing
    ),
    DeclaredChange("less-dropout", (HEAVY_DROPOUT,), _less_dropout),
    DeclaredChange("every-class", (OMITTED_CLASS,), _every_class),
    DeclaredChange("registered-weights", (UNREGISTERED_WEIGHTS,), _registered),
    DeclaredChange("weaker-other-terms", (OUTWEIGHED_ERROR,), _weaker),
    DeclaredChange("nothing-frozen", (FROZEN_LAYER,), _thawed),
    DeclaredChange("batch-first", (MIXED_SAMPLES,), _batch_first),
    DeclaredChange("softmax-of-classes", (MIXED_SAMPLES,), _over_classes),
    DeclaredChange("activations", (LINEAR_NETWORK, LINEAR_LAYERS), _activated),
    DeclaredChange("targets-as-outputs", (SPREAD_TARGETS, UNFIT_TARGETS), _in_form),
    DeclaredChange("outputs-as-targets", (SPREAD_TARGETS, UNFIT_TARGETS), _as_targets),
    DeclaredChange(
        "one-output-per-class",
        (CLASSES_ON_ONE_OUTPUT, INDIFFERENT_LOSS, UNFIT_TARGETS),
        _per_class,
    ),
    DeclaredChange("binary-cross-entropy", (SHARED_CLASSES,), _binary),
    DeclaredChange("cross-entropy", (SQUARED_ERROR_FOR_CLASSES, SOFTMAX_IN_THE_LOSS), _entropy),
    DeclaredChange("loss-of-scores", (RAW_OUTPUT,), _entropy),
    DeclaredChange(
        "standardise-targets",
        (UNSCALED_TARGETS,),
        lambda program, known: of_network(StandardiseTargets(known.targets))(program, known),
    ),
    DeclaredChange("less-weight-decay", (STRONG_WEIGHT_DECAY,), _option("weight_decay", 1e-4)),
    DeclaredChange("less-momentum", (STRONG_MOMENTUM,), _option("momentum", 0.9)),
    DeclaredChange("usual-settings", (UNUSUAL_SETTINGS,), _usual_settings),
    DeclaredChange("minimise", (MAXIMISED_LOSS,), _option("maximize", False)),
    DeclaredChange("clip-at-one", (STRONG_CLIPPING, EXPLODING_THROUGH_TIME), _clip_at_one),
    DeclaredChange("all-parameters", (UNTRAINED_WEIGHTS, FOREIGN_OPTIMIZER), _all_parameters),
    DeclaredChange("other-optimizer", (OTHER_OPTIMIZER, STUCK_TRAINING, NO_PROGRESS), _other),
    DeclaredChange("lower-rate", (RATE_TOO_HIGH, STUCK_TRAINING, NO_PROGRESS), _rate(0.1)),
    DeclaredChange("much-lower-rate", (RATE_TOO_HIGH,), _rate(0.01)),
    DeclaredChange("more-epochs", (FEW_STEPS,), _longer),
    DeclaredChange("higher-rate", (RATE_TOO_LOW, FEW_STEPS), _rate(10.0)),
    DeclaredChange("much-higher-rate", (RATE_TOO_LOW,), _rate(100.0)),
    DeclaredChange("usual-rate", (RATE_TOO_HIGH, RATE_TOO_LOW), _usual),
    DeclaredChange("smaller-batch", (LARGE_BATCH,), _smaller),
)
SECOND: tuple[tuple[str, Maker], ...] = (  # behind a first cure, where it is not enough
    ("lower-rate", _rate(0.1)),
    ("much-lower-rate", _rate(0.01)),
    ("higher-rate", _rate(10.0)),
    ("more-epochs", _longer),
    ("other-optimizer", _other),
    ("standardise-inputs", of_network(StandardiseInputs())),
)
