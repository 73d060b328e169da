"""Attention taken apart into heads."""

from collections.abc import Sequence
from dataclasses import replace

from sigmascope.scanning.cuts import Cut, Piece
from sigmascope.scanning.heads import Heads

MIXED = "attention output"  # whose inputs are heads, where those of others are outputs


def by_head(found: Sequence[Piece], heads: Heads) -> list[Piece]:
    """Queries, keys, values and outputs of attention, a matrix for each head.

    Args:
        found: The matrices of one tensor.
        heads: Of the model.
    """
    return [head for piece in found for head in _heads(piece, heads)]


def _heads(piece: Piece, heads: Heads) -> list[Piece]:
    if not piece.kind.startswith("attention ") or piece.kind == "attention latent" or piece.note:
        return [piece]
    side = 1 if piece.kind == MIXED else 0
    count = heads.among(piece.kind, piece.shape[side])
    size = piece.shape[side] // count if count else 0
    cuts = [_cut(piece, i, size) for i in range(count)]
    if not cuts or None in cuts:
        why = "it was not split into heads: the configuration does not say how many fit it"
        return [replace(piece, note=why)]
    rows, cols = piece.shape
    shape = (rows, size) if side else (size, cols)
    return [
        Piece(f"{piece.part} head {i}".strip(), piece.kind, cut, shape, piece.bytes // count)
        for i, cut in enumerate(cuts)
        if cut is not None
    ]


def _cut(piece: Piece, i: int, size: int) -> Cut | None:
    """Head i of so many outputs, or inputs; None where it does not lie in one stretch."""
    cut, (a, b) = piece.cut, (i * size, (i + 1) * size)
    if piece.kind == MIXED:
        if cut.turned:
            return replace(cut, start=cut.start + a, stop=cut.start + b, rows=size)
        return replace(cut, ranges=((1, a, b),), rows=piece.shape[0])
    if not cut.shape:
        if cut.turned:
            return replace(cut, ranges=((1, a, b),), rows=piece.shape[1])
        return replace(cut, start=cut.start + a, stop=cut.start + b, rows=size)
    ((_, first, last),) = cut.ranges  # of each group the heads of this part
    if (last - first) % size:
        return None
    group, place = divmod(i, (last - first) // size)
    first += place * size
    if cut.turned:
        return replace(cut, ranges=((1, group, group + 1), (2, first, first + size)))
    start = cut.start + group * cut.shape[1] + first
    return replace(cut, start=start, stop=start + size, shape=(), ranges=(), rows=size)
