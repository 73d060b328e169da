"""Matrices as they are cut out of stored tensors, without reading anything yet."""

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import prod

from jaxtyping import Float
from torch import Tensor

from sigmascope.scanning.heads import UNKNOWN, Heads
from sigmascope.scanning.rules import Rule
from sigmascope.sources.stored import Stored


@dataclass(frozen=True, slots=True)
class Cut:
    """One matrix within a stored tensor; what is needed to read it on another machine.

    Attributes:
        stored: The tensor.
        start: First entry of its leading dimension that is read.
        stop: Last one, not included.
        shape: What was read is seen as this first; as it is where empty.
        ranges: Then entries `[a, b)` of a dimension are taken, `(dimension, a, b)` each.
        rows: And flattened to so many rows at last.
        turned: And transposed, so that rows are outputs.
    """

    stored: Stored
    start: int
    stop: int
    shape: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int, int], ...] = ()
    rows: int = 0
    turned: bool = False

    def read(self) -> Float[Tensor, "m n"]:
        """The matrix, in the precision in which it is stored."""
        found = self.stored.read(self.start, self.stop)
        found = found.reshape(self.shape) if self.shape else found
        for dim, a, b in self.ranges:
            found = found.narrow(dim, a, b - a)
        found = found.reshape(self.rows, -1) if self.rows else found
        return found.mT if self.turned else found


@dataclass(frozen=True, slots=True)
class Piece:
    """A cut with its name and kind, and the shape that it will have.

    Attributes:
        part: Its name within the tensor; none where it is all of it.
        kind: What it is in the network.
        cut: Where it lies.
        shape: Outputs and inputs.
        bytes: Of the tensor, as many as are its own.
        note: What has to be said of it, as why it was not split.
    """

    part: str
    kind: str
    cut: Cut
    shape: tuple[int, int]
    bytes: int
    note: str = ""


def whole(stored: Stored, kind: str, *, turned: bool = False) -> Piece:
    """A tensor that is one matrix, `[out, everything else]`."""
    rows, cols = stored.shape[0], prod(stored.shape[1:])
    cut = Cut(stored, 0, rows, rows=rows, turned=turned)
    return Piece("", kind, cut, (cols, rows) if turned else (rows, cols), stored.bytes)


def pieces(stored: Stored, rule: Rule, heads: Heads = UNKNOWN) -> list[Piece]:
    """The matrices that a rule sees in a tensor; where it cannot split it, one, which says why.

    Args:
        stored: The tensor, of the dimensions that the rule wants.
        rule: Which speaks of it.
        heads: Of the model.
    """
    if rule.experts:
        return _experts(stored, rule)
    one = whole(stored, rule.kind, turned=rule.turned)
    return _parts(one, rule, heads) if rule.parts else [one]


def _experts(stored: Stored, rule: Rule) -> list[Piece]:
    count, rows, cols = stored.shape
    found: list[Piece] = []
    for i in range(count):
        cut = Cut(stored, i, i + 1, rows=rows, turned=rule.turned)
        shape = (cols, rows) if rule.turned else (rows, cols)
        one = Piece(f"{i}", rule.kind, cut, shape, stored.bytes // count)
        split = _parts(one, rule, UNKNOWN) if rule.parts else [one]
        found += [replace(p, part=f"{i}.{p.part}" if len(split) > 1 else p.part) for p in split]
    return found


def _parts(one: Piece, rule: Rule, heads: Heads) -> list[Piece]:
    """The parts that are fused along the outputs of one matrix."""
    out, inner = one.shape
    sizes = _sizes(one.shape, rule, heads)
    if isinstance(sizes, str):
        return [replace(one, note=sizes)]
    outer, each = sizes  # so many groups, in each of which the parts take so many outputs
    if rule.layout == "turns":
        outer, each = out // len(rule.parts), [1] * len(rule.parts)
    kinds = rule.kinds or (rule.kind,) * len(rule.parts)
    found = []
    for name, kind, (a, b) in zip(
        rule.parts, kinds, pairwise(accumulate(each, initial=0)), strict=True
    ):
        rows = outer * (b - a)
        cut = _part(one.cut, inner, outer, sum(each), (a, b))
        found.append(Piece(name, kind, cut, (rows, inner), one.bytes * rows // out))
    return found


def _part(cut: Cut, inner: int, outer: int, group: int, ends: tuple[int, int]) -> Cut:
    """Outputs `[a, b)` of every group; a stretch of stored rows where that is possible."""
    a, b = ends
    if cut.turned:
        shape, dim, rows = (inner, outer, group), 2, inner
    elif outer == 1 and cut.start == 0 and cut.stop == group:
        return replace(cut, start=a, stop=b, rows=b - a)
    else:
        shape, dim, rows = (outer, group, inner), 1, outer * (b - a)
    return replace(cut, shape=shape, ranges=((dim, a, b),), rows=rows)


def _sizes(shape: tuple[int, int], rule: Rule, heads: Heads) -> tuple[int, list[int]] | str:
    """Number of groups, and the outputs that each part has in one of them; or why not."""
    out, parts = shape[0], len(rule.parts)
    if rule.layout == "groups" or rule.sizes == "heads":
        return _of_heads(shape, rule, heads)
    outer = heads.queries if rule.layout == "heads" else rule.repeats
    if outer < 1 or out % (outer * parts):
        return _unknown(out, rule, "heads" if rule.layout == "heads" else "outputs")
    return outer, [out // outer // parts] * parts


def _of_heads(shape: tuple[int, int], rule: Rule, heads: Heads) -> tuple[int, list[int]] | str:
    """Queries, keys and values; thirds only where they are as many as inputs, else by heads."""
    out, inner = shape
    if rule.layout == "blocks" and not heads.fit(out) and out == 3 * inner:
        return 1, [inner] * 3
    groups = heads.groups_of(out, inner)
    if not groups:
        return _unknown(out, rule, "heads")
    size = out // (heads.queries + 2 * groups)
    if rule.layout == "blocks":
        return 1, [heads.queries * size, groups * size, groups * size]
    return groups, [heads.queries // groups * size, size, size]


def _unknown(out: int, rule: Rule, what: str) -> str:
    return (
        f"its {out} outputs were not split into {', '.join(rule.parts)}: the numbers of {what} "
        "that the configuration gives do not fit"
    )
