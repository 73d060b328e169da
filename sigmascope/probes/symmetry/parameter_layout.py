"""A learnable parameter as a grid of rows and columns, each of which may be rescaled."""

import math
from dataclasses import dataclass
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
class Edge:
    """One axis of an operand that is a view of a parameter: which rows or columns it runs along."""

    frame: Frame
    side: Side
    index: NDArray[np.int64]

    @property
    def unknowns(self) -> NDArray[np.int64]:
        """The unknown at each place along the axis."""
        first = self.frame.rows if self.side == "rows" else self.frame.columns
        return first + self.index


def splits(shape: tuple[int, ...]) -> range:
    """Ways to tell rows from columns: vectors are one row, others have at least one axis each."""
    return range(1) if len(shape) == 1 else range(1, len(shape))


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
    found = [_along(view.shape[a], view.stride(a), start, columns) for a in (0, 1)]
    if view.shape[0] == 1 or view.shape[1] == 1:
        found = _lone(view, start, columns, found)
    first, second = found
    if first is None or second is None or first[0] == second[0]:
        return None
    return first, second


def _along(
    count: int, stride: int, start: int, columns: int
) -> tuple[Side, NDArray[np.int64]] | None:
    row, column = divmod(start, columns)
    steps = np.arange(count, dtype=np.int64)
    if count > 1 and stride > 0 and stride % columns == 0:
        return "rows", row + steps * (stride // columns)
    if count > 1 and stride > 0 and column + (count - 1) * stride < columns:
        return "columns", column + steps * stride
    return None


def _lone(view: Tensor, start: int, columns: int, found: list) -> list:
    """An axis of one entry runs along whatever the other axis does not."""
    row, column = divmod(start, columns)
    for axis in (0, 1):
        if view.shape[axis] == 1:
            other = found[1 - axis]
            side: Side = "rows" if other is None or other[0] == "columns" else "columns"
            found[axis] = (side, np.array([row if side == "rows" else column]))
    if found[0] is not None and found[1] is not None and found[0][0] == found[1][0]:
        found[1] = ("columns", np.array([column]))
    return found


def ids_of(tensor: Tensor) -> NDArray[np.int64]:
    """Numbers of unknowns for the solver."""
    return tensor.detach().to("cpu", torch.int64).numpy()
