"""Matrices as they are cut out of stored tensors, without reading anything yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import prod
from typing import Any

from jaxtyping import Float
from torch import Tensor

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
    """A cut with its name and kind, and the shape that it will have."""

    part: str
    kind: str
    cut: Cut
    shape: tuple[int, int]
    bytes: int


def whole(stored: Stored, kind: str, *, turned: bool = False) -> Piece:
    """A tensor that is one matrix, `[out, everything else]`."""
    rows, cols = stored.shape[0], prod(stored.shape[1:])
    cut = Cut(stored, 0, rows, rows=rows, turned=turned)
    return Piece("", kind, cut, (cols, rows) if turned else (rows, cols), stored.bytes)


def pieces(stored: Stored, rule: Rule, config: Mapping[str, Any]) -> list[Piece] | str:
    """The matrices that a rule sees in a tensor, or why it cannot.

    Args:
        stored: The tensor.
        rule: Which speaks of it.
        config: Of the model, for numbers of heads.
    """
    if rule.experts:
        return _experts(stored, rule)
    if len(stored.shape) != 2:
        return f"it has {len(stored.shape)} dimensions, where the rule for its name wants 2"
    if not rule.parts:
        return [whole(stored, rule.kind, turned=rule.turned)]
    return _parts(whole(stored, rule.kind, turned=rule.turned), rule, config)


def _experts(stored: Stored, rule: Rule) -> list[Piece] | str:
    if len(stored.shape) != 3:
        return f"it has {len(stored.shape)} dimensions, where a stack of experts has 3"
    count, rows, cols = stored.shape
    found: list[Piece] = []
    for i in range(count):
        cut = Cut(stored, i, i + 1, rows=rows, turned=rule.turned)
        shape = (cols, rows) if rule.turned else (rows, cols)
        one = Piece(f"{i}", rule.kind, cut, shape, stored.bytes // count)
        split = _parts(one, rule, {}) if rule.parts else [one]
        if isinstance(split, str):
            return split
        found += [replace(p, part=f"{i}.{p.part}" if rule.parts else p.part) for p in split]
    return found


def _parts(one: Piece, rule: Rule, config: Mapping[str, Any]) -> list[Piece] | str:
    """The parts that are fused along the outputs of one matrix."""
    out, inner = one.shape
    sizes = _sizes(out, rule, config)
    if isinstance(sizes, str):
        return sizes
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


def _sizes(out: int, rule: Rule, config: Mapping[str, Any]) -> tuple[int, list[int]] | str:
    """Number of groups, and the outputs that each part has in one of them; or why not."""
    parts = len(rule.parts)
    heads, groups, size = _heads(config)
    if rule.layout == "groups":
        groups = groups or 1
        per = heads // groups if heads else 0
        if not heads or heads % groups or out != groups * (per + 2) * size:
            return _unknown(out, rule, "heads")
        return groups, [per * size, size, size]
    if rule.layout == "heads":
        if not heads or out % (heads * parts):
            return _unknown(out, rule, "heads")
        return heads, [out // heads // parts] * parts
    if rule.sizes == "heads" and heads and parts == 3 and out == (heads + 2 * groups) * size:
        return 1, [heads * size, groups * size, groups * size]
    if out % parts:
        return _unknown(out, rule, "outputs")
    return 1, [out // parts] * parts


def _heads(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Heads of queries, heads of keys, and the size of one, as far as the configuration says."""
    heads = _number(config, "num_attention_heads", "n_head", "n_heads", "num_heads")
    groups = _number(config, "num_key_value_heads", "num_kv_heads", "n_head_kv") or heads
    if config.get("multi_query") is True and not config.get("new_decoder_architecture"):
        groups = 1
    width = _number(config, "hidden_size", "n_embd", "d_model", "dim")
    size = _number(config, "head_dim") or (width // heads if heads else 0)
    return heads, groups, size


def _number(config: Mapping[str, Any], *names: str) -> int:
    return next((v for n in names if isinstance(v := config.get(n), int) and v > 0), 0)


def _unknown(out: int, rule: Rule, what: str) -> str:
    return (
        f"its {out} outputs cannot be split into {', '.join(rule.parts)}: the numbers of {what} "
        "that the configuration gives do not fit"
    )


def by_head(pieces_: Sequence[Piece], config: Mapping[str, Any]) -> list[Piece]:
    """Queries, keys, values and outputs of attention, a matrix for each head."""
    _, _, size = _heads(config)
    found: list[Piece] = []
    for piece in pieces_:
        found += _split_heads(piece, size) if piece.kind.startswith("attention ") else [piece]
    return found


def _split_heads(piece: Piece, size: int) -> list[Piece]:
    """Rows of queries, keys and values; columns of what mixes the heads."""
    side = 1 if piece.kind == "attention output" else 0
    if piece.kind == "attention latent" or size < 1 or piece.shape[side] % size or piece.cut.shape:
        return [piece]
    count = piece.shape[side] // size
    stored_dim = side if not piece.cut.turned else 1 - side
    rows, cols = piece.shape
    shape = (rows, size) if side else (size, cols)
    found = []
    for i in range(count):
        cut = replace(piece.cut, ranges=((stored_dim, i * size, (i + 1) * size),), rows=0)
        if stored_dim == 0 and len(piece.cut.stored.shape) == 2:
            first = piece.cut.start + i * size
            cut = replace(piece.cut, start=first, stop=first + size, rows=size)
        name = f"{piece.part} head {i}".strip()
        found.append(Piece(name, piece.kind, cut, shape, piece.bytes // count))
    return found
