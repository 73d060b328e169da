"""Which rescalings of units a network does not notice: unknowns, equations, and their solution."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Side = Literal["rows", "columns"]


@dataclass(slots=True)
class Frame:
    """A parameter whose entry at row r and column c is rescaled by `row_r + column_c`.

    Attributes:
        name: Of the parameter.
        shape: Of the parameter.
        split: How many of its dimensions count rows; the others count columns.
        groups: Of a convolution; 0 for a matrix.
        rows: The unknown of its first row.
        columns: The unknown of its first column (of the first group).
    """

    name: str
    shape: tuple[int, ...]
    split: int
    groups: int
    rows: int = 0
    columns: int = 0

    def __hash__(self) -> int:
        return hash((self.name, self.shape))  # the unknowns are numbered later

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows and columns there are; a convolution has its groups' columns in turn."""
        if self.groups:
            return self.shape[0], self.groups * self.shape[1]
        before, after = self.shape[: self.split], self.shape[self.split :]
        return math.prod(before), math.prod(after)

    @property
    def firsts(self) -> tuple[int, int]:
        """The unknowns of the first row and column."""
        return self.rows, self.columns

    def slabs(self, tensor: Tensor, side: Side) -> Tensor:
        """The entries of each row or column of a tensor of the parameter's shape, as rows."""
        rows, columns = self.counts
        if not self.groups:
            grid = tensor.reshape(rows, columns)
            return grid if side == "rows" else grid.mT
        if side == "rows":
            return tensor.flatten(1)
        parts = tensor.reshape(self.groups, rows // self.groups, self.shape[1], -1)
        return parts.transpose(1, 2).reshape(columns, -1)

    def dots(self, left: Tensor, right: Tensor, side: Side) -> Tensor:
        """Products of two tensors of the parameter's shape, summed over each row or column."""
        rows, columns = self.counts
        grid = (self.groups or 1, rows // (self.groups or 1), columns // (self.groups or 1), -1)
        a, b = left.reshape(grid), right.reshape(grid)
        axes = (2, 3) if side == "rows" else (1, 3)
        if left is right:  # without a copy of the whole tensor
            return torch.linalg.vector_norm(a, dim=axes, dtype=torch.float64).square().flatten()
        return (a.double() * b.double()).sum(axes).flatten()

    def sums(self, tensor: Tensor, side: Side) -> Tensor:
        """A tensor of the parameter's shape, summed over each row or column."""
        rows, columns = self.counts
        groups = self.groups or 1
        if side == "rows":
            flat = tensor.reshape(rows, -1)
            return flat @ flat.new_ones(flat.shape[1])
        if groups > 1:
            return (
                tensor.reshape(groups, rows // groups, columns // groups, -1).sum((1, 3)).flatten()
            )
        flat = tensor.reshape(rows, -1)
        return (flat.new_ones(rows) @ flat).reshape(columns, -1).sum(1)

    def group_of(self, side: Side) -> NDArray[np.uint64]:
        """The group of a convolution that each row or column belongs to."""
        count = self.counts[0 if side == "rows" else 1]
        each = max(1, count // max(1, self.groups))
        return (np.arange(count) // each).astype(np.uint64)


@dataclass(frozen=True, slots=True)
class AxisView:
    """One axis of an operand that is a view of a parameter: which rows or columns it runs along."""

    frame: Frame
    side: Side
    index: NDArray[np.int64]

    @property
    def unknowns(self) -> NDArray[np.int64]:
        """The unknown at each place along the axis."""
        first = self.frame.rows if self.side == "rows" else self.frame.columns
        return first + self.index


def edges(
    view: Tensor, offset: int, frame: Frame
) -> tuple[tuple[Side, NDArray[np.int64]], tuple[Side, NDArray[np.int64]]] | None:
    """What the two axes of a matrix run along; None where they mix rows and columns.

    Args:
        view: The matrix, which shares the parameter's memory.
        offset: Where the parameter begins in that memory.
        frame: Says which dimensions are rows.
    """
    columns = frame.counts[1]
    start = int(view.storage_offset()) - offset
    row, column = divmod(start, columns)
    found: list[tuple[Side, NDArray[np.int64]] | None] = [None, None]
    for axis in (0, 1):
        count, stride = view.shape[axis], view.stride(axis)
        steps = np.arange(count, dtype=np.int64)
        if count > 1 and stride > 0 and stride % columns == 0:
            found[axis] = ("rows", row + steps * (stride // columns))
        elif count > 1 and stride > 0 and column + (count - 1) * stride < columns:
            found[axis] = ("columns", column + steps * stride)
    if view.shape[0] == 1 or view.shape[1] == 1:
        # an axis of one entry runs along whatever the other axis does not
        for axis in (0, 1):
            if view.shape[axis] == 1:
                other = found[1 - axis]
                side: Side = "rows" if other is None or other[0] == "columns" else "columns"
                found[axis] = (side, np.array([row if side == "rows" else column]))
        if found[0] is not None and found[1] is not None and found[0][0] == found[1][0]:
            found[1] = ("columns", np.array([column]))
    first, second = found
    if first is None or second is None or first[0] == second[0]:
        return None
    return first, second


def ids_of(tensor: Tensor) -> NDArray[np.int64]:
    """Numbers of unknowns for the solver."""
    return tensor.detach().to("cpu", torch.int64).numpy()


# ------------------------------------------------------------------------------
# Logarithmic scales of units as unknowns, and the linear equations between them.
#
# The idea: to rescale a unit by `exp(s)` is to add `s` to the logarithm of all that it touches, so
# that every operation of a run gives linear equations between few unknowns, nearly all of the form
# `x_i = factor x_j`. These are kept as a forest; the few sums that are left are solved by
# elimination. The invariant: an equation is never forgotten, and where nothing is known an unknown
# is pinned to zero, so that what stays free may be rescaled indeed.
#
# Source: Tarjan 1975 for the forest; Le & Jegelka 2022 for what is conserved where a scale is free.


Ids = NDArray[np.int64]
ZERO = 0  # the unknown that is zero: what no rescaling of the weights may change
ROUNDS = 64  # of substitution; each but the last pins or joins something


class Unknowns:
    """Unknowns `x_i` that obey `x_i = factor x_j`, `x_i = 0` and `x_i = a x_j + b x_k`.

    Kept as weighted union-find: every unknown is a multiple of the root of its tree. Beside it each
    unknown has a bundle (where it was made: the rows of one weight, say) and a signature, which two
    unknowns of one bundle share as long as every operation has treated them alike.
    """

    def __init__(self) -> None:
        self._parent: list[int] = [ZERO]
        self._factor: list[float] = [1.0]
        self._pinned: dict[int, str] = {ZERO: "a constant"}
        self._slack: dict[int, float] = {}
        self._sums: list[tuple[int, float, int, float, int]] = []
        self._facts = np.zeros((3, 1024), np.uint64)  # bundle, signature, passed

    def __len__(self) -> int:
        return len(self._parent)

    @property
    def bundle(self) -> NDArray[np.uint64]:
        """Where each unknown was made."""
        return self._facts[0, : len(self)]

    @property
    def signature(self) -> NDArray[np.uint64]:
        """How each was treated by all operations; wraps around."""
        return self._facts[1, : len(self)]

    @property
    def passed(self) -> NDArray[np.uint64]:
        """Kinds of operation that each went through, one bit a kind."""
        return self._facts[2, : len(self)]

    def fresh(self, count: int, bundle: int) -> int:
        """New unknowns of one bundle; the first of their numbers."""
        first = len(self)
        self._parent.extend(range(first, first + count))
        self._factor.extend([1.0] * count)
        room = self._facts.shape[1]
        if len(self) > room:
            grown = np.zeros((3, max(len(self), 2 * room)), np.uint64)
            grown[:, :room] = self._facts
            self._facts = grown
        self._facts[0, first : len(self)] = bundle
        return first

    def root(self, i: int) -> tuple[int, float]:
        """The root of an unknown, and the factor to it."""
        path: list[int] = []
        while self._parent[i] != i:
            path.append(i)
            i = self._parent[i]
        total = 1.0
        for j in reversed(path):
            total *= self._factor[j]
            self._parent[j], self._factor[j] = i, total
        return i, total

    def pin(self, ids: Ids, why: str) -> None:
        """Say that unknowns are zero."""
        for i in np.unique(ids).tolist():
            self._pinned.setdefault(self.root(i)[0], why)

    def pinned(self, root: int) -> str | None:
        """Why a root is zero; None where it is free."""
        return self._pinned.get(root)

    def slack(self, root: int) -> float:
        """How far, relatively, the equations of a root are from exact."""
        return self._slack.get(root, 0.0)

    def loosen(self, ids: Ids, slack: float) -> None:
        """Say that equations of these unknowns hold up to a relative `slack` only."""
        for i in np.unique(ids).tolist():
            root = self.root(i)[0]
            self._slack[root] = max(self.slack(root), slack)

    def equal(self, left: Ids, right: Ids, factor: float = 1.0, why: str = "a constant") -> None:
        """Say that `left = factor * right`; `why` is the reason where one of them is zero."""
        pairs = np.unique(np.stack([left.ravel(), right.ravel()]), axis=1)
        for i, j in pairs.T.tolist():
            if ZERO in (i, j):
                self._pinned.setdefault(self.root(max(i, j))[0], why)
            else:
                self._join(i, j, factor)

    def _join(self, i: int, j: int, factor: float) -> None:
        (a, fa), (b, fb) = self.root(i), self.root(j)
        ratio = factor * fb / fa  # a = ratio b
        if a == b:
            if ratio != 1.0:
                self._pinned.setdefault(a, "the same weight is on both sides of it")
            return
        self._parent[a], self._factor[a] = b, ratio
        if a in self._pinned:
            self._pinned.setdefault(b, self._pinned[a])
        if a in self._slack:
            self._slack[b] = max(self.slack(b), self._slack[a])

    def total(self, whole: Ids, left: Ids, right: Ids, a: float = 1.0, b: float = 1.0) -> None:
        """Say that `whole = a left + b right`, element by element."""
        triples = np.unique(np.stack([whole.ravel(), left.ravel(), right.ravel()]), axis=1)
        self._sums.extend((w, a, i, b, j) for w, i, j in triples.T.tolist())

    def solve(self) -> dict[int, dict[int, float]]:
        """Substitute until nothing changes; what is left expresses some roots by others."""
        for _ in range(ROUNDS):
            left: list[tuple[int, float, int, float, int]] = []
            for equation in self._sums:
                terms = self._terms(equation)
                if len(terms) == 1:
                    ends = (equation[2], equation[4], equation[0])
                    known = (self._pinned.get(self.root(i)[0]) for i in ends)
                    self.pin(np.array(list(terms)), next((k for k in known if k), "a constant"))
                elif len(terms) == 2:
                    (i, c), (j, d) = terms.items()
                    self._join(i, j, -d / c)
                elif terms:
                    left.append(equation)
            if len(left) == len(self._sums):
                break
            self._sums = left
        # roots by roots, by elimination of the equations with three free terms
        done: dict[int, dict[int, float]] = {}
        for equation in self._sums:
            terms = {}
            for root, c in self._terms(equation).items():
                for r, f in done.get(root, {root: 1.0}).items():
                    terms[r] = terms.get(r, 0.0) + c * f
            terms = {r: c for r, c in terms.items() if c != 0.0}
            if not terms:
                continue
            whole, c = next(iter(terms.items()))
            by = {r: -d / c for r, d in terms.items() if r != whole}
            for root, expression in done.items():
                if whole in expression:
                    c = expression.pop(whole)
                    for r, d in by.items():
                        expression[r] = expression.get(r, 0.0) + c * d
                    done[root] = {r: d for r, d in expression.items() if d != 0.0}
            done[whole] = by
        return done

    def _terms(self, equation: tuple[int, float, int, float, int]) -> dict[int, float]:
        """An equation `Σ c_r r = 0` over free roots."""
        whole, a, left, b, right = equation
        terms: dict[int, float] = {}
        for coefficient, unknown in ((-1.0, whole), (a, left), (b, right)):
            root, factor = self.root(unknown)
            if root not in self._pinned:
                terms[root] = terms.get(root, 0.0) + coefficient * factor
        return {r: c for r, c in terms.items() if c != 0.0}


# ------------------------------------------------------------------------------
# Beside every number of one run, the unknown by which a rescaling of units multiplies it.
#
# Labels lie in shadows of the tensors' memory, so that views need no rule: whatever shares memory
# shares labels. Label 0 is what no rescaling may change.


MOST_ENTRIES = 2**20  # of a parameter whose entries are followed one by one
INPUT = "the input, which no weight scales"
ZEROS = "zeros"  # which go with every scale


@dataclass(slots=True)
class Owner:
    """A learnable parameter, and where it begins in its memory."""

    name: str
    tensor: Tensor
    first: int = 0  # the unknown of its first entry, if they are followed one by one
    clash: str = ""


@dataclass(slots=True)
class Shadows:
    """Labels of tensors, and the equations that operations impose on them."""

    unknowns: Unknowns = field(default_factory=Unknowns)
    owners: dict[int, list[Owner]] = field(default_factory=dict)
    frames: dict[str, Frame] = field(default_factory=dict)
    _labels: dict[int, Tensor] = field(default_factory=dict)
    _reasons: dict[int, str] = field(default_factory=dict)
    _held: list[Tensor] = field(default_factory=list)
    _bundles: int = 0

    def own(self, parameters: Mapping[str, Tensor]) -> None:
        """Say which tensors are learnable parameters."""
        for name, p in parameters.items():
            owner = Owner(name, p, clash="" if p.is_contiguous() else "it is not stored in order")
            self.owners.setdefault(memory_of(p), []).append(owner)

    def disown(self, constants: Mapping[str, Tensor]) -> None:
        """Say which tensors of the model are not trained."""
        for name, t in constants.items():
            self._reasons[memory_of(t)] = f"what comes from {name}, which is not trained"

    def new_bundle(self) -> int:
        """A number for a place where unknowns are made."""
        self._bundles += 1
        return self._bundles

    def hold(self, values: Iterable[Tensor]) -> None:
        """Keep tensors alive, so that no memory is used twice."""
        self._held.extend(values)

    def owner(self, t: Tensor) -> Owner | None:
        """The learnable parameter that a tensor is a view of."""
        for owner in self.owners.get(memory_of(t), ()):
            start = int(owner.tensor.storage_offset())
            if start <= int(t.storage_offset()) < start + owner.tensor.numel():
                return owner
        return None

    def of(self, t: Tensor) -> Tensor | None:
        """Labels of a tensor, entry by entry; None where all are zero."""
        memory = memory_of(t)
        owner = self.owner(t) if memory in self.owners else None
        if owner is not None and not (owner.first or owner.clash):
            size = owner.tensor.numel()
            if owner.name in self.frames:
                owner.clash = "it is used as a matrix and entry by entry"
            elif size > MOST_ENTRIES:
                owner.clash = "it is too large to be followed entry by entry"
            else:  # an unknown of its own for each entry of a parameter
                owner.first = self.unknowns.fresh(size, self.new_bundle())
                ids = torch.arange(owner.first, owner.first + size, dtype=torch.int32)
                start = int(owner.tensor.storage_offset())
                self._shadow(owner.tensor)[start : start + size] = ids
        shadow = self._labels.get(memory)
        if shadow is None or not t.is_floating_point():
            return None
        found = shadow.as_strided(t.size(), t.stride(), t.storage_offset())
        return found if bool(found.any()) else None

    def _shadow(self, t: Tensor) -> Tensor:
        memory = memory_of(t)
        if memory not in self._labels:
            count = t.untyped_storage().nbytes() // t.element_size()
            self._labels[memory] = torch.zeros(count, dtype=torch.int32)
        return self._labels[memory]

    def write(self, t: Tensor, labels: Tensor | None, why: str = "") -> None:
        """Set the labels of what an operation wrote."""
        memory = memory_of(t)
        known = self._reasons.get(memory, INPUT)
        why = why if labels is None and why else known
        if why == ZEROS:  # which is said of memory where all that no weight scales is 0
            alone = t if labels is None else t[(labels.expand(t.shape) == 0).to(t.device)]
            whole = t.numel() * t.element_size() == t.untyped_storage().nbytes()
            why = "a constant" if bool(alone.any()) else ZEROS if whole else known
        self._reasons[memory] = why
        if labels is None:
            if memory not in self._labels:
                return
            labels = torch.zeros((), dtype=torch.int32)
        if memory in self.owners:  # a parameter was overwritten in the forward pass
            for owner in self.owners[memory]:
                owner.clash = "the forward pass overwrites it"
            return
        shadow = self._shadow(t).as_strided(t.size(), t.stride(), t.storage_offset())
        shadow.copy_(labels.expand(t.shape))

    def why(self, t: Tensor) -> str:
        """Why the labels of a tensor are zero."""
        owner = self.owner(t)
        if owner is not None and owner.clash:
            return f"{owner.name}: {owner.clash}"
        return self._reasons.get(memory_of(t), INPUT)

    def pin(self, t: Tensor, why: str) -> None:
        """Say that nothing may rescale a tensor."""
        owner = self.owner(t)
        if owner is not None and not owner.first:
            owner.clash = owner.clash or f"it is read by {why}"
            return
        labels = self.of(t)
        if labels is not None:
            self.unknowns.pin(ids_of(compact(labels)[0].unique()), why)

    def edges(self, matrix: Tensor) -> tuple[AxisView, AxisView] | None:
        """What the two axes of a parameter's view run along; None if it is no such view."""
        owner = self.owner(matrix)
        if owner is None or owner.clash:
            return None
        if owner.first:
            owner.clash = "it is used as a matrix and entry by entry"
            return None
        frame = self.frames.get(owner.name)
        shape, offset = tuple(owner.tensor.shape), int(owner.tensor.storage_offset())
        # ways to tell rows from columns: vectors are one row, others have at least one axis each
        splits = range(1) if len(shape) == 1 else range(1, len(shape))
        tried = [frame] if frame else [Frame(owner.name, shape, s, 0) for s in splits]
        for candidate in tried:
            found = None if candidate.groups else edges(matrix, offset, candidate)
            if found is not None:
                made = self._made(candidate)
                return AxisView(made, *found[0]), AxisView(made, *found[1])
        owner.clash = "its rows and columns are mixed before it is used"
        return None

    def kernel(self, weight: Tensor, groups: int) -> Frame | None:
        """The frame of a convolution's kernel; None if it is no learnable parameter."""
        owner = self.owner(weight)
        if owner is None or owner.clash:
            return None
        frame = self.frames.get(owner.name)
        whole = tuple(weight.shape) == tuple(owner.tensor.shape) and weight.is_contiguous()
        if owner.first or not whole or (frame is not None and frame.groups != groups):
            owner.clash = "it is used as a kernel and otherwise"
            return None
        return self._made(frame or Frame(owner.name, tuple(weight.shape), 1, groups))

    def _made(self, frame: Frame) -> Frame:
        if frame.name not in self.frames:
            rows, columns = frame.counts
            frame.rows = self.unknowns.fresh(rows, self.new_bundle())
            frame.columns = self.unknowns.fresh(columns, self.new_bundle())
            self.frames[frame.name] = frame
            if frame.groups > 1:  # units of different groups read different channels
                signature = self.unknowns.signature
                signature[frame.rows : frame.rows + rows] = frame.group_of("rows")
                signature[frame.columns : frame.columns + columns] = frame.group_of("columns")
        return frame

    def derived(self, *operands: tuple[float, Tensor]) -> Tensor:
        """Labels of a product of powers: `Σ factor * label`, for one or two operands."""
        shapes = torch.broadcast_shapes(*(ids.shape for _, ids in operands))
        spread = [ids.expand(shapes) for _, ids in operands]
        small = compact(*spread)
        keys = torch.stack([t.flatten().long() for t in small])
        unique, places = keys.unique(dim=1, return_inverse=True)
        new = torch.zeros(unique.shape[1], dtype=torch.int32)
        alive = unique.any(0)
        first = self.unknowns.fresh(int(alive.sum()), self.new_bundle())
        new[alive] = torch.arange(first, len(self.unknowns), dtype=torch.int32)
        left, right = unique[0, alive], unique[-1, alive] if len(unique) > 1 else None
        whole, a = new[alive], operands[0][0]
        if right is None:
            self.unknowns.total(ids_of(whole), ids_of(left), np.full(len(left), ZERO), a, 0.0)
        else:
            b = operands[1][0]
            self.unknowns.total(ids_of(whole), ids_of(left), ids_of(right), a, b)
        return new[places].reshape(small[0].shape).expand(shapes)

    def settle(self) -> None:
        """Pin what cannot be followed: parameters that are used in several incompatible ways."""
        for owner in (o for many in self.owners.values() for o in many if o.clash):
            why = f"{owner.name}: {owner.clash}"
            if owner.first:
                self.unknowns.pin(np.arange(owner.first, owner.first + owner.tensor.numel()), why)
            frame = self.frames.get(owner.name)
            if frame is not None:
                rows, columns = frame.counts
                self.unknowns.pin(np.arange(frame.rows, frame.rows + rows), why)
                self.unknowns.pin(np.arange(frame.columns, frame.columns + columns), why)


def compact(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors of one shape, without the repeats along axes on which all are constant."""
    found = tensors
    for axis in range(tensors[0].ndim):
        if all(
            t.shape[axis] <= 1 or t.stride(axis) == 0 or bool((t == t.narrow(axis, 0, 1)).all())
            for t in found
        ):
            found = tuple(t.narrow(axis, 0, 1) for t in found)
    return found


def memory_of(t: Tensor) -> int:
    """The address of the memory that a tensor lies in, the same for NumPy's views of it, too."""
    if t.layout != torch.strided:  # a sparse one lies in several, and nothing is a view of it
        return -id(t)
    return t.untyped_storage().data_ptr()


# ------------------------------------------------------------------------------
# Whether an operation treats two units alike, so that mixing them would go unnoticed too.
#
# Every operation that is not the same linear map for all units adds to the signature of each unit a
# number that depends on how it treats that unit; units of one signature may be mixed.


ODD = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: spreads consecutive numbers


class Passed(IntFlag):
    """Kinds of operation that keep units apart."""

    ACTIVATION = 1
    POOLING = 2
    GAIN = 4  # a learnable number for each unit
    DATA = 8  # numbers that differ by unit: a mask, a gate, a rotation of positions
    HEADS = 16  # each head on its own
    NORMALISER = 32  # divided by its own size


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers scattered over 64 bits (the finaliser of splitmix64; Steele et al. 2014)."""
    z = numbers + np.uint64(ODD)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def told_apart(shadows: Shadows, labels: Tensor, kind: Passed) -> None:
    """Every unit is treated in its own way."""
    ids = np.unique(ids_of(compact(labels)[0]))
    _add(shadows, ids, ids.astype(np.uint64), kind)


def treated(shadows: Shadows, labels: Tensor, values: Tensor, kind: Passed) -> None:
    """Each unit is treated as `values` say, entry by entry.

    An activation that treats all units alike here keeps none apart; it is passed all the same.
    """
    shape = torch.broadcast_shapes(labels.shape, values.shape)
    labels, values = labels.expand(shape), values.expand(shape)
    # all entries are one number: all units are treated alike
    if values.numel() > 0 and bool((values == values.reshape(-1)[:1]).all()):
        ids = np.unique(ids_of(compact(labels)[0]))
        shadows.unknowns.passed[ids[ids > 0]] |= np.uint64(kind & Passed.ACTIVATION)
        return
    varying = [a for a in range(labels.ndim) if len(compact(labels.movedim(a, 0))[0]) > 1]
    rest = [a for a in range(labels.ndim) if a not in varying]
    order = (*varying, *rest)
    units = labels.permute(order)
    for _ in rest:
        units = units[..., 0]
    ids = ids_of(units.reshape(-1))
    ordered = values.permute(order)
    if not ordered.is_floating_point():
        bits = ordered.to("cpu", torch.int64)
    else:
        bits = ordered.detach().to("cpu", torch.float64).contiguous().view(torch.int64)
    rows = bits.reshape(len(ids), -1)
    # a number for each row
    places = mixed(np.arange(rows.shape[1], dtype=np.uint64))
    weights = torch.from_numpy(places.view(np.int64))
    found = np.empty(len(rows), np.uint64)
    for i, row in enumerate(rows):
        scattered = mixed(row.contiguous().numpy().view(np.uint64))
        found[i] = (scattered * weights.numpy().view(np.uint64)).sum(dtype=np.uint64)
    _add(shadows, ids, found, kind)


def by_place(shadows: Shadows, labels: Tensor, axis: int, kind: Passed) -> None:
    """Each unit is treated as its places along one axis say."""
    places = torch.arange(labels.shape[axis], dtype=torch.int64)
    shape = [1] * labels.ndim
    shape[axis] = -1
    spread = places.reshape(shape).expand(labels.shape)
    small = compact(labels, spread)
    pairs = torch.stack([t.flatten().long() for t in small]).unique(dim=1).numpy()
    _add(shadows, pairs[0], mixed(pairs[1].astype(np.uint64)), kind, alike=True)


def _add(
    shadows: Shadows,
    ids: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    kind: Passed,
    *,
    alike: bool = False,
) -> None:
    """Add to signatures; the second treatment of one unit counts as such, unless `alike`."""
    unknowns = shadows.unknowns
    operation = np.uint64(shadows.new_bundle())
    if not alike:
        order = np.argsort(ids, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(ids[order]) != 0])
        lengths = np.diff(np.r_[starts, len(ids)])
        rank = np.empty(len(ids), np.uint64)
        rank[order] = np.arange(len(ids)) - np.repeat(starts, lengths)
        hashes = hashes + rank * np.uint64(ODD)
    hashes = mixed(hashes ^ mixed(np.full(1, operation))[0])
    alive = ids > 0
    np.add.at(unknowns.signature, ids[alive], hashes[alive])
    unknowns.passed[ids[alive]] |= np.uint64(kind)
