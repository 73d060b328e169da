"""What is found of a family of models: exponents, verdicts, who is to blame, a cure.

A family is one model at several sizes: widths, or depths. What is said of a depth is said of a
role, which is all weights of one name but for the number of their layer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from sigmascope.core.records import ByValue, Shown
from sigmascope.diagnosis.scaling.exponents import ScalingLaw
from sigmascope.diagnosis.scaling.rates import BestRate

Axis = Literal["width", "depth"]
Verdict = Literal["maximal", "lazy", "exploding", "vanishing", "cannot be told"]
Kind = Literal["input", "hidden", "output", "vector", "fixed", "product", "repeated", "single"]
INITIAL, RATE, EPSILON, ATTENTION = "initial scale", "rate", "epsilon", "attention scale"
BRANCHES, CHAIN = "residual scale", "no skip connection"
EFFECT, CARRIED, CHANGED = "effect", "carried", "changed"
STREAM = "(residual stream)"


@dataclass(frozen=True, slots=True, eq=False)
class WeightScaling(ByValue):
    """How one weight, or the scores of one attention, behave as models grow.

    Attributes:
        name: Of the parameter; with depth, of its role: numbers of layers are `*`.
        kind: By which of its sides grow with width: what it reads (`output`), what it writes
            (`input`, as rows of a table; `vector`), both (`hidden`), none (`fixed`); or the
            `product` of two. With depth `repeated`, if there are more of it in deeper models, or
            `single`.
        shape: At the smallest and the largest size, in words.
        curve: What its first step does, at each size: the geometric mean over seeds; none where a
            run told nothing.
        laws: Exponents of size, by what was read. With width: `effect` of its first step on what
            its layer writes, and `effect at last` of all steps; `gain`, the effect beside what it
            reads; `alignment`, the effect beside the most that a change of that norm could have on
            what it reads; what it `carried` of changes that it was handed, over their size;
            `forward`, what it writes at first over what it reads; `gradient` and `step per
            gradient` of its entries; `norm of weight` and `norm of change at first` (largest
            singular values), their stable ranks. With depth: `effect` of the first step of all that
            have its name on what the model writes, and `effect at last`; of the residual stream
            `changed`, what all layers add beside what the first one reads.
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

    @property
    def law(self) -> ScalingLaw | None:
        """What the verdict is about first: of what its change does."""
        return self.laws.get(CHANGED if self.kind == "product" else EFFECT)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What stands in the way of a transfer, and what would take it away.

    Attributes:
        name: The weight, or the scores of an attention, or the residual stream.
        cause: `initial scale`, `rate`, `epsilon`, `attention scale`; with depth `residual scale`,
            `rate`, `no skip connection`.
        says: In a sentence.
        exponent: Of size, by which the size of the cause is off.
        cure: What to do, in a sentence.
    """

    name: str
    cause: str
    says: str
    exponent: float
    cure: str


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of weights without the numbers of their layers, for which `*` stands.

    Attributes:
        number: What a number looks like in a name.
        counted: Behind which beginnings of names a number counts layers; others belong to the name.
        shaped: Whether a shape must tell apart what has one name then.
    """

    number: str
    counted: tuple[str, ...]
    shaped: bool

    def of(self, name: str, p: Tensor) -> str:
        """The role of a weight of this name."""
        role, end = "", 0
        for found in re.finditer(self.number, name):
            role += name[end : found.start()]
            role += "*" if role in self.counted else found[0]
            end = found.end()
        return role + name[end:] + (f" {tuple(p.shape)}" if self.shaped else "")

    @property
    def code(self) -> str:
        """Lines that find the role of a `name` and its `p` among those of a cure."""
        name = 'name + f" {tuple(p.shape)}"' if self.shaped else "name"
        return "\n".join(
            (
                r'same = lambda k, name: re.fullmatch(re.escape(k).replace(r"\*", r"\d+"), name)',
                "roles = {**initial, **rates}",
                f"role = lambda name, p: next((k for k in roles if same(k, {name})), None)",
            )
        )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Widths(Shown):
    """What scales with width (or depth) as it should, and what does not.

    Attributes:
        widths: That were trained; depths, where `axis` says so.
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
        axis: `width` or `depth`.
        roles: How weights of a depth are named; None of a width.
        beside: With depth, numbers at each: `rank of the last representation` (effective rank;
            Daneshmand et al. 2020 on why it falls) and `layer factor` (how unevenly the layers
            behind let the first repeated one learn; Riedi et al. 2022).
        uses: What is in use already for this purpose, in sentences.
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
    axis: Axis = "width"
    roles: Roles | None = None
    beside: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    uses: tuple[str, ...] = ()

    def key(self, name: str, p: Tensor) -> str:
        """Under which name the powers of a weight stand in `initial` and `rates`."""
        return name if self.roles is None else self.roles.of(name, p)

    @property
    def code(self) -> str:
        """The cure as lines to paste, for a `model` of `width`, trained at `lr` at the smallest."""
        if not self.initial and not self.rates:
            return ""
        roles, key = self.roles, "name"
        lines = ["import re", ""] if roles else []
        lines.append(f"r = {self.axis} / {self.widths[0]}  # where the rate was tuned")
        for what, powers in (("initial", self.initial), ("rates", self.rates)):
            rows = [f"    {name!r}: {power:g}," for name, power in powers.items()]
            lines += [f"{what} = {{  # powers of r", *rows, "}"] if rows else [f"{what} = {{}}"]
        if roles:
            lines.append(roles.code)
            key = "role(name, p)"
        lines += [
            "with torch.no_grad():",
            "    for name, p in model.named_parameters():",
            f"        p.mul_(r ** initial.get({key}, 0.0))",
            "groups = [",
            f'    {{"params": [p], "lr": lr * r ** rates.get({key}, 0.0)}}',
            "    for name, p in model.named_parameters()",
            "]  # for your optimizer, in the place of model.parameters()",
        ]
        return "\n".join(lines)
