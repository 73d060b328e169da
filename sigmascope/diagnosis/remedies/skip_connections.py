"""Skip connections: added around blocks, or their branches started at zero."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, final

from torch import Tensor, nn

from sigmascope.core import quantities as q
from sigmascope.core.records import Kind
from sigmascope.diagnosis.remedies.base import Inapplicable, Remedy, calls, hooked
from sigmascope.diagnosis.rules.gradients import EXPLODING_ADJOINTS, VANISHING_ADJOINTS
from sigmascope.diagnosis.rules.representations import (
    DIRECTIONAL_GRADIENT_VANISHING,
    EXPLODING_SIGNAL,
    FORGOTTEN_TARGETS,
    LOUD_OUTPUT,
    RANK_COLLAPSE,
    SIGMOID_STACK,
    VANISHING_SIGNAL,
)
from sigmascope.diagnosis.rules.theorems import ILL_CONDITIONED_LAYER
from sigmascope.diagnosis.rules.weights import STRONG_RESIDUAL
from sigmascope.models.layers import layers
from sigmascope.models.networks import Block
from sigmascope.models.samples import Batch
from sigmascope.models.structure import Branch, branches

NO_BRANCH = (
    "This needs residual branches that end in a weight, a normaliser or a learned factor, got "
    "none. In other models, multiply the branch by 1/√depth in the code."
)


class SkipConnection(nn.Module):
    """`x + strength * inner(x)`."""

    def __init__(self, inner: nn.Module, strength: float) -> None:
        super().__init__()
        self.inner = inner
        self.strength = strength

    def forward(self, input: Tensor) -> Tensor:
        """The input, and what the inner module makes of it."""
        return input + self.strength * self.inner(input)


@final
@dataclass(frozen=True, slots=True)
class SkipConnections(Remedy):
    """Add a skip connection around every block whose output has the shape of its input.

    A block is a layer with what follows it up to the next one inside an `nn.Sequential`, or a
    module of the user's around one layer or more. Branches are scaled by one over the root of their
    number.
    """

    name: ClassVar[str] = "skip-connections"
    cures: ClassVar[tuple[Kind, ...]] = (
        RANK_COLLAPSE,
        SIGMOID_STACK,
        VANISHING_ADJOINTS,
        EXPLODING_ADJOINTS,
        VANISHING_SIGNAL,
        DIRECTIONAL_GRADIENT_VANISHING,
        FORGOTTEN_TARGETS,
        ILL_CONDITIONED_LAYER,
    )
    says: ClassVar[str] = "Add a scaled skip connection around every block that keeps its shape."
    unless: ClassVar[str] = "there are residual branches already; no block keeps its shape"
    source: ClassVar[str] = "He et al. 2016b, Sec. 2; Riedi et al. 2022, Theorem 22"
    rebuilds: ClassVar[bool] = True

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        if branches(model, batches[0]):
            raise Inapplicable("The model has residual branches already; `rescale-residual` and "
                               "`zero-branches` change them.")  # fmt: skip
        # shapes that modules called once, tensor in and tensor out, read and wrote
        shapes: dict[nn.Module, tuple[Any, Any]] = {}

        def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            plain = len(inputs) == 1 and all(isinstance(t, Tensor) for t in (*inputs, output))
            once = plain and module not in shapes
            shapes[module] = (tuple(inputs[0].shape), tuple(output.shape)) if once else (None, None)

        hooked(model, batches[0], model.modules(), keep)
        called = {c.module for c in calls(model, batches[0])}
        # parents, with the names of consecutive children that make a block of equal shapes
        found, taken = list[tuple[nn.Module, list[str]]](), set[nn.Module]()
        for parent in model.modules():
            if parent in taken:
                continue
            names = list(dict(parent.named_children()))
            children = [parent.get_submodule(n) for n in names]
            if isinstance(parent, nn.Sequential) and not called.isdisjoint(children):
                starts = [i for i, c in enumerate(children) if layers(c)]
                for start, end in pairwise(starts):  # what follows the last layer is the output
                    if _keeps(children[start], children[end - 1], shapes):
                        found.append((parent, names[start:end]))
                taken.update(parent.modules())
            elif isinstance(parent, nn.Sequential | nn.ModuleList):
                for name, child in zip(names, children, strict=True):
                    holds = any(layers(child))  # a layer's own name in itself is empty
                    if holds and _keeps(child, child, shapes):
                        found.append((parent, [name]))
                        taken.update(child.modules())
        if not found:
            raise Inapplicable(
                "Skip connections need blocks whose output has the shape of their input, in an "
                "`nn.Sequential` or as modules, got none. Make hidden layers of equal width."
            )
        strength = 1 / math.sqrt(len(found))
        for parent, names in found:
            parts = [parent.get_submodule(n) for n in names]
            inner = parts[0] if len(parts) == 1 else nn.Sequential(*parts)
            around = SkipConnection(inner, strength)
            around.training = parent.training  # the parts keep modes of their own
            if len(parts) > 1:
                inner.training = parent.training
            setattr(parent, names[0], around)
            for name in names[1:]:
                setattr(parent, name, nn.Identity())


@final
@dataclass(frozen=True, slots=True)
class ZeroBranches(Remedy):
    """Start every residual branch at zero, so that the initial network is its stream."""

    name: ClassVar[str] = "zero-branches"
    cures: ClassVar[tuple[Kind, ...]] = (
        STRONG_RESIDUAL,
        EXPLODING_SIGNAL,
        EXPLODING_ADJOINTS,
        RANK_COLLAPSE,
        LOUD_OUTPUT,
    )
    says: ClassVar[str] = "Set the last weight of every residual branch to zero."
    unless: ClassVar[str] = "there is no branch, or none ends in a weight"
    source: ClassVar[str] = "Goyal et al. 2017, Sec. 5.1; Zhang et al. 2019"
    needs: ClassVar[str] = q.BRANCH_STRENGTH

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        found = scaled_branches(model, batches[0])
        if not found:
            raise Inapplicable(NO_BRANCH)
        if not all(b.linear for b in found):
            raise Inapplicable(
                "A branch that ends in ReLU would stay at zero for ever. Put the activation before "
                "the last weight of the branch, or use `rescale-residual`."
            )
        multiply(model, found, 0.0)


def scaled_branches(model: nn.Module, batch: Batch) -> list[Branch]:
    """Residual branches whose last weight can be told."""
    return [b for b in branches(model, batch) if b.scales]


def multiply(model: nn.Module, found: list[Branch], factor: float) -> None:
    """Multiply branches by a factor, a weight that several share once."""
    for name in dict.fromkeys(n for b in found for n in b.scales):
        model.get_parameter(name).data.mul_(factor)


def _keeps(first: nn.Module, last: nn.Module, shapes: dict[nn.Module, tuple[Any, Any]]) -> bool:
    if first not in shapes or last not in shapes:
        return False
    return shapes[first][0] == shapes[last][1] and shapes[first][0] is not None


# ------------------------------------------------------------------------------
# Scaling residual branches to the depth.


@final
@dataclass(frozen=True, slots=True)
class RescaleResidual(Remedy):
    """Multiply every residual branch by `c / √depth`.

    Products of `I + gamma W` lose their second direction at a rate of about `gamma²` per layer, so
    that this keeps it for any depth, and `1 / depth` would be weaker than needed. Blocks of
    `networks.mlp` have a `gamma`, which is set to it; other branches are scaled in their last
    weight, or the last normaliser's, whatever their strength was.

    Attributes:
        c: Strength of all branches together.
    """

    name: ClassVar[str] = "rescale-residual"
    cures: ClassVar[tuple[Kind, ...]] = (
        STRONG_RESIDUAL,
        RANK_COLLAPSE,
        EXPLODING_SIGNAL,
        EXPLODING_ADJOINTS,
    )
    says: ClassVar[str] = "Scale every residual branch by one over the root of their number."
    unless: ClassVar[str] = "there is no branch, or none ends in a weight"
    source: ClassVar[str] = "Daneshmand et al. 2020, Lemma 3, for small gamma"
    needs: ClassVar[str] = q.BRANCH_STRENGTH

    c: float = 1.0

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        blocks = [m for m in model.modules() if isinstance(m, Block) and m.gamma is not None]
        if blocks:
            for block in blocks:
                block.gamma = self.c / math.sqrt(len(blocks))
            return
        found = scaled_branches(model, batches[0])
        if not found:
            raise Inapplicable(NO_BRANCH)
        multiply(model, found, self.c / math.sqrt(len(found)))
