"""Units that may be rescaled, put together in families that touch the same parameters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Shaped
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief, ByValue
from sigmascope.models import Subject
from sigmascope.models.layers import called, require_finite_batch, require_model, require_real
from sigmascope.models.samples import Batch, Loss, as_tensor, beside, prepared, tensors
from sigmascope.models.state import alive, unwrapped
from sigmascope.theory.symmetry.scales import Frame, Passed, Shadows, Side, mixed
from sigmascope.theory.symmetry.symbolic_run import SymbolicTrace, zero_sums


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Part(ByValue):
    """The share of one parameter in a family of units.

    Attributes:
        tensor: Name of the parameter.
        side: `"rows"`, `"columns"` (input channels of a convolution), or `"entries"`.
        index: For each unit, the places of its rows, columns or entries.
        factor: By which power of the unit's scale they are multiplied.
        frame: How the parameter is read as rows and columns.
        whole: Whether the units are all rows, columns or entries, in order.
    """

    tensor: str
    side: Side | Literal["entries"]
    index: Shaped[np.ndarray, "units copies"]
    factor: float
    frame: Frame | None
    whole: bool

    def dots(self, left: Tensor, right: Tensor) -> Tensor:
        """Products of two tensors of the parameter's shape, summed over each unit; in float64."""
        if self.frame is None or self.side == "entries":
            found = (left.double() * right.double()).reshape(-1)
        else:
            found = self.frame.dots(left, right, self.side)
        return found if self.whole else found[torch.from_numpy(self.index)].sum(1)

    def slabs(self, tensor: Tensor) -> Tensor:
        """Of a tensor of the parameter's shape, what belongs to each unit: `[units, entries]`."""
        if self.frame is None or self.side == "entries":
            return tensor.reshape(-1)[torch.from_numpy(self.index)]
        slabs = self.frame.slabs(tensor, self.side)
        if self.whole:
            return slabs
        return slabs[torch.from_numpy(self.index)].flatten(1)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Symmetry(ByValue):
    """Units of one kind whose weights may be rescaled, and which of them may be mixed.

    `Σ factor * (slab of unit u) · (slab of unit v)` over the parts is conserved by gradient flow
    for every pair in the mask.

    Attributes:
        parts: The parameters that the units touch.
        blocks: For each unit the number of its block; units of one block may be mixed.
        passed: Kinds of operation that the units go through.
        slack: How far the symmetry is from exact, relatively: a normaliser's `eps`.
    """

    parts: tuple[Part, ...]
    blocks: Shaped[np.ndarray, " units"]
    passed: Passed
    slack: float

    @property
    def units(self) -> int:
        """How many."""
        return len(self.blocks)

    @property
    def groups(self) -> int:
        """In how many blocks they may be mixed; 1 where all may, as many as units where none."""
        return len(set(self.blocks.tolist()))

    def apart(self) -> "Symmetry":
        """The same units, none of which may be mixed."""
        return replace(self, blocks=np.arange(self.units))

    @property
    def mask(self) -> Bool[Tensor, "units units"]:
        """Which pairs of units may be mixed; the diagonal always."""
        blocks = torch.from_numpy(self.blocks.astype(np.int64))
        return blocks[:, None] == blocks[None]


@dataclass(frozen=True, slots=True)
class Fixed:
    """Rows or columns of a parameter that may not be rescaled, and why.

    Attributes:
        tensor: Name of the parameter.
        side: `"rows"`, `"columns"` or `"entries"`.
        count: How many of them.
        of: Of how many.
        why: In words.
    """

    tensor: str
    side: str
    count: int
    of: int
    why: str


def families(shadows: Shadows) -> tuple[list[Symmetry], list[Fixed]]:
    """What the equations of a run leave free, and what they do not.

    Args:
        shadows: After the run.
    """
    unknowns = shadows.unknowns
    expressed = unknowns.solve()
    # every row, column and entry of the parameters that has an unknown
    unknown, part, index = ([np.zeros(0, np.int64)] for _ in range(3))
    names: list[tuple[str, Any, Frame | None]] = []
    for frame in shadows.frames.values():
        for side, first, count in (
            ("rows", frame.rows, frame.counts[0]),
            ("columns", frame.columns, frame.counts[1]),
        ):
            unknown.append(np.arange(first, first + count))
            part.append(np.full(count, len(names)))
            index.append(np.arange(count))
            names.append((frame.name, side, frame))
    for owner in (o for many in shadows.owners.values() for o in many if o.first):
        size = owner.tensor.numel()
        unknown.append(np.arange(owner.first, owner.first + size))
        part.append(np.full(size, len(names)))
        index.append(np.arange(size))
        names.append((owner.name, "entries", None))
    sizes = np.bincount(np.concatenate(part))
    resolved = [unknowns.root(i) for i in range(len(unknowns))]
    roots = np.array([r for r, _ in resolved])
    factors = np.array([f for _, f in resolved])
    # for each root, how all unknowns of it were made and treated, and what they passed
    each = mixed(unknowns.bundle ^ mixed(unknowns.signature ^ mixed(factors.view(np.uint64))))
    made = np.zeros(len(unknowns), np.uint64)
    np.add.at(made, roots, each)
    passed = np.zeros(len(unknowns), np.uint64)
    np.bitwise_or.at(passed, roots, unknowns.passed)
    # what every free root multiplies (part, place in it, factor); and how much of each part is
    # fixed, with why
    members: dict[int, list[tuple[int, int, float]]] = {}
    fixed: dict[tuple[int, str], int] = {}
    whole = (np.concatenate(many).tolist() for many in (unknown, part, index))
    for one, p, i in zip(*whole, strict=True):
        root, factor = int(roots[one]), float(factors[one])
        why = unknowns.pinned(root)
        if why is not None:
            fixed[p, why] = fixed.get((p, why), 0) + 1
            continue
        for free, share in expressed.get(root, {root: 1.0}).items():
            members.setdefault(free, []).append((p, i, factor * share))
    tangled = {r for e in expressed.values() for r in e}
    alike: dict[Any, list[int]] = {}
    for root, places in members.items():
        shape = tuple(sorted((p, f) for p, _, f in places))
        alike.setdefault(shape, []).append(root)
        if root in tangled:  # its scale is tied to two others: no mixing goes unnoticed
            made[root] = root
    # roots that multiply the same share of the same parts are the units of one family
    found: list[Symmetry] = []
    for units in alike.values():
        kinds = sorted({(p, f) for p, _, f in members[units[0]]})
        lead = next((f for p, f in kinds if names[p][1] == "columns"), kinds[0][1])
        parts: list[Part] = []
        for p, f in sorted(kinds, key=lambda k: (k[1] * lead < 0, k)):
            name, side, frame = names[p]
            places = np.array([[i for q, i, g in members[r] if (q, g) == (p, f)] for r in units])
            every = places.shape == (sizes[p], 1) and bool((np.diff(places[:, 0]) == 1).all())
            parts.append(Part(name, side, places, f * math.copysign(1, lead), frame, every))
        blocks = np.unique(made[units], return_inverse=True)[1]
        kind = Passed(int(np.bitwise_or.reduce(passed[units])))
        found.append(Symmetry(tuple(parts), blocks, kind, max(map(unknowns.slack, units))))
    whys = [
        Fixed(names[p][0], names[p][1], count, int(sizes[p]), why)
        for (p, why), count in fixed.items()
    ]
    return found, whys


# ------------------------------------------------------------------------------
# Which rescalings of the weights leave a network as it is: the door.


@dataclass(frozen=True, slots=True)
class StillSum:
    """Sums of a gradient that are zero whatever the loss.

    Attributes:
        tensor: Name of the parameter.
        axes: Over which its gradient sums to zero; none where each entry is zero.
        count: How many sums there are.
        terms: Of how many entries each.
    """

    tensor: str
    axes: tuple[int, ...]
    count: int
    terms: int


@dataclass(frozen=True, slots=True)
class Symmetries:
    """All that was found in one run.

    Attributes:
        scalings: Families of units that may be rescaled.
        sums: Gradients that sum to zero.
        fixed: What may not be rescaled.
    """

    scalings: tuple[Symmetry, ...]
    sums: tuple[StillSum, ...]
    fixed: tuple[Fixed, ...]


def symmetries(
    model: nn.Module, batch: Batch, *, targets: Any = None, loss: Loss | None = None
) -> Symmetries:
    """How the weights may be changed without changing what the model computes on a batch.

    One run is followed operation by operation, in the model's own modes; every unit gets an unknown
    scale, every operation gives equations between them. Operations that are not known let nothing
    be rescaled. Patterns of activations count on the samples of this batch only.

    Args:
        model: Left as it was found. Parameters that need no gradient count as constants.
        batch: As for `Subject`.
        targets: What `loss` compares the output with.
        loss: Followed too, if given: a softmax in it forgets what is added to all logits.

    Raises:
        Refusal: If the model or the batch cannot be run.
    """
    model = unwrapped(model)
    require_model(model)
    batch = prepared(model, batch)
    require_finite_batch(model, batch)
    learnable = {n: p for n, p in model.named_parameters() if p.requires_grad}
    if not learnable:
        raise Refusal(
            "`model` must have parameters that are trained, got none that need a gradient. "
            "Call requires_grad_() on those that the optimizer changes."
        )
    require_real(learnable, "What is conserved")
    shadows = Shadows()
    shadows.own(learnable)
    frozen = {n: p for n, p in model.named_parameters() if not p.requires_grad}
    shadows.disown({**frozen, **dict(model.named_buffers())})
    with alive(model), SymbolicTrace(shadows) as trace:
        out = called(model, batch)
        if loss is not None and targets is not None:
            out = loss(as_tensor(out)[0], beside(model, targets))
    for t in tensors(out):
        if t.is_floating_point() and t.numel():
            shadows.pin(t, "the network's output")
    shadows.settle()
    wanted = {trace.key(p): n for n, p in learnable.items()}
    sums = zero_sums(trace.steps, wanted, [trace.key(t) for t in tensors(out)])
    stills: list[StillSum] = []
    for n, a in sums.items():
        for axes in sorted(map(sorted, a)):
            parameter = learnable[n]
            terms = int(np.prod([parameter.shape[a] for a in axes]))
            stills.append(StillSum(n, tuple(axes), parameter.numel() // terms, terms))
    scalings, fixed = families(shadows)
    return Symmetries(tuple(scalings), tuple(stills), tuple(fixed))


# ------------------------------------------------------------------------------
# Squares of a step, summed over units.


@dataclass(frozen=True, slots=True, repr=False)
class StepSums(Brief):
    """Squares of one step's tensors, summed over the rows and columns that units are.

    A unit of one layer is a row there and a column of the next, so each tensor is squared once. In
    the tensors' own precision: what the sums round is as random as what the step itself did to the
    weights, and smaller by the square of how far they moved.

    Attributes:
        tensors: By name, detached.
    """

    tensors: Mapping[str, Tensor]
    _squared: dict[str, Tensor] = field(default_factory=dict)

    def of(self, part: Part) -> Tensor:
        """Sums over the units of a part."""
        squared = self._squared.get(part.tensor)
        if squared is None:
            tensor = self.tensors[part.tensor]
            tensor = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
            squared = self._squared[part.tensor] = tensor * tensor
        if part.frame is None or part.side == "entries":
            found = squared.reshape(-1)
        else:
            found = part.frame.sums(squared, part.side)
        return found if part.whole else found[torch.from_numpy(part.index)].sum(1)


def symmetries_of(subject: Subject) -> Symmetries:
    """How the weights of a subject may be rescaled; found once for each subject."""
    return subject.once(_of_subject)


def _of_subject(subject: Subject) -> Symmetries:
    _ = subject.calls  # which refuses what the model or the loss misreads
    return symmetries(subject.model, subject.batch, targets=subject.targets, loss=subject.loss)
