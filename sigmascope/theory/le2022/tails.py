"""The linear layers at the end of a network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.probes import Subject
from sigmascope.probes.symmetry import Part, Passed, Symmetry
from sigmascope.theory.le2022.conservation.invariants import Tensors
from sigmascope.theory.le2022.ranks import Layer


@final
@dataclass(frozen=True, slots=True)
class Tail:
    """The linear layers at the end of a network.

    Attributes:
        layers: In the order of the forward pass, without the last.
        last: The weight of the last layer.
        biased: Whether one of them, the last one left out, has a bias.
        skipped: The layers at which the tail begins because an identity skip adds to what they
            write; empty where it begins for another reason.
    """

    layers: tuple[Layer, ...]
    last: Float64[Tensor, "outputs m"]
    biased: bool
    skipped: str = ""

    @classmethod
    def of(cls, subject: Subject) -> "Tail | None":
        """The tail of a network; None where the last layer reads no linear layer.

        Args:
            subject: Its families of units all of which may be mixed are followed from the output.
        """
        parameters = {n: p.detach() for n, p in subject.model.named_parameters()}
        fixed = {f.tensor for f in subject.symmetries.fixed if f.side == "rows"}
        families = [f for f in subject.symmetries.scalings if _linear(f)]
        ends = [f for f in families if len(_above(f)) == 1 and _above(f)[0].tensor in fixed]
        if len(ends) != 1:
            return None
        (end,) = _above(ends[0])
        assert end.frame is not None
        last = end.frame.slabs(parameters[end.tensor], "rows").double().cpu()
        path, skipped = _path(families, ends[0])
        layers = [_layer(families, f, below, parameters) for f, below in path]
        biased = any(p.side == "entries" for f, _ in path for p in f.parts)
        return cls(tuple(reversed(layers)), last, biased, skipped)


def _linear(family: Symmetry) -> bool:
    """Whether all units may be mixed, exactly, and on other batches too."""
    if Passed.ACTIVATION in family.passed:
        return False
    return not family.slack and family.groups == 1 and bool(_below(family))


def _above(family: Symmetry) -> list[Part]:
    return [p for p in family.parts if p.factor == 1 and p.side == "columns"]


def _below(family: Symmetry) -> list[Part]:
    return [p for p in family.parts if p.factor == -1 and p.side == "rows"]


Step = tuple[Symmetry, Symmetry | None]


def _path(families: Sequence[Symmetry], top: Symmetry) -> tuple[list[Step], str]:
    """The units between layers, from the last ones backwards, each with those before them.

    It ends where the path is no longer linear, and at an identity skip: there nothing is conserved
    between a layer and the next, only between all that share the stream.
    """
    path: list[Step] = []
    family: Symmetry | None = top
    while family is not None:
        names = {p.tensor for p in _below(family)}
        if names & {p.tensor for p in _above(family)}:
            return path, " + ".join(p.tensor for p in _below(family))
        reading = (f for f in families if {p.tensor for p in _above(f)} & names)
        below = next((f for f in reading if f is not family and not _inside(f, names)), None)
        path.append((family, below))
        family = below
    return path, ""


def _layer(
    families: Sequence[Symmetry], family: Symmetry, below: Symmetry | None, parameters: Tensors
) -> Layer:
    """The layer that writes a family of units, which reads those before it."""
    written = _below(family)
    names = {p.tensor for p in written}
    inside = next((f for f in families if _inside(f, names)), None)
    outer = torch.cat([_slabs(p, parameters) for p in written], dim=1)
    read = [] if below is None else [p for p in _above(below) if p.tensor in _reach(names, inside)]
    inner = torch.cat([_slabs(p, parameters) for p in read], dim=1).mT if read else outer[:1]
    return Layer(
        " + ".join(p.tensor for p in written),
        outer,
        inner,
        None if inside is None or len(names) == 1 else _balance(inside, parameters),
        max((_copies(p, parameters) for p in read if p.tensor in names), default=1),
    )


def _reach(names: set[str], inside: Symmetry | None) -> set[str]:
    """The tensors of a layer: of a residual block, those that its hidden units read too."""
    return names | (set() if inside is None else {p.tensor for p in _below(inside)})


def _inside(family: Symmetry, names: set[str]) -> bool:
    """Whether a family is that of the hidden units of a block, whose U is among the names."""
    above, below = ([p.tensor for p in side] for side in (_above(family), _below(family)))
    return len(names) > 1 and len(above) == 1 and above[0] in names and below[0] not in names


def _slabs(part: Part, parameters: Tensors) -> Tensor:
    return part.slabs(parameters[part.tensor]).double().cpu()


def _copies(part: Part, parameters: Tensors) -> int:
    """Entries that one unit that is read has in one row."""
    assert part.frame is not None
    return _slabs(part, parameters).shape[1] // part.frame.counts[0]


def _balance(family: Symmetry, parameters: Tensors) -> Tensor:
    above = torch.cat([_slabs(p, parameters) for p in _above(family)], dim=1)
    below = torch.cat([_slabs(p, parameters) for p in _below(family)], dim=1)
    return above @ above.mT - below @ below.mT
