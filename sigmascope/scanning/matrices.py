"""Which matrices a checkpoint holds, and why the rest of its tensors are none."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from math import prod
from typing import Any

from sigmascope.records import Skipped
from sigmascope.scanning.cuts import Cut, Piece, by_head, pieces, whole
from sigmascope.scanning.rules import Rule, built_in, rule_for
from sigmascope.sources.stored import Checkpoint, Stored

FIRST = re.compile(r"(?:^|\.)(\d+)\.")


def depth_of(name: str) -> int:
    """Number of the block that a tensor belongs to, the outermost; -1 where its name has none."""
    found = FIRST.search(name)
    return int(found[1]) if found else -1


def found_in(
    checkpoint: Checkpoint,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    rules: Iterable[Rule] = (),
    heads: bool = False,
) -> tuple[list[tuple[Stored, Piece]], list[Skipped]]:
    """The matrices of a checkpoint in its order, and what is left out with the reason.

    Args:
        checkpoint: Opened.
        only: Patterns of names, as of a shell; any name if empty.
        skip: Patterns of names that are left out.
        rules: A user's own, which come before those of the table.
        heads: Whether matrices of attention are split into heads.
    """
    table = (*rules, *built_in())
    family = str(checkpoint.config.get("model_type", ""))
    found: list[tuple[Stored, Piece]] = []
    out = [Skipped(left.name, "tensor", left.why) for left in checkpoint.left_out]
    seen: dict[Any, str] = {}
    for stored in checkpoint.tensors:
        why = _unasked(stored.name, only, skip) or _tied(stored, seen)
        some = why or _pieces(stored, rule_for(stored.name, family, table), checkpoint.config)
        if isinstance(some, str):
            out.append(Skipped(stored.name, "tensor", some))
            continue
        some = by_head(some, checkpoint.config) if heads else some
        found += [(stored, piece) for piece in some]
    return found, out


def _unasked(name: str, only: Sequence[str], skip: Sequence[str]) -> str:
    if only and not any(fnmatchcase(name, pattern) for pattern in only):
        return "not asked for (--only)"
    return "left out as asked (--skip)" if any(fnmatchcase(name, p) for p in skip) else ""


def _tied(stored: Stored, seen: dict[Any, str]) -> str:
    first = seen.setdefault(stored.key(), stored.name)
    return "" if first == stored.name else f"the same numbers in the file as {first}: tied"


def _pieces(stored: Stored, rule: Rule | None, config: Mapping[str, Any]) -> list[Piece] | str:
    """What a tensor holds, by its rule or else by its dimensions."""
    sides = [side for side in stored.shape if side != 1]
    if prod(stored.shape) == 0:
        return f"it is empty, of shape {list(stored.shape)}"
    if len(stored.shape) < 2 or (len(sides) < 2 and stored.shape[0] == 1 and len(stored.shape) > 2):
        return "a vector: its one singular value is its norm"
    if rule is not None and (rule.experts or len(stored.shape) == 2):
        return pieces(stored, rule, config)
    if len(stored.shape) == 2:
        return [whole(stored, "linear")]
    if len(sides) == 2 and stored.shape[0] == 1:  # as position embeddings [1, places, width]
        shape = (sides[0], sides[1])
        kind = rule.kind if rule else "linear"
        return [Piece("", kind, Cut(stored, 0, 1, rows=shape[0]), shape, stored.bytes)]
    if "experts" in stored.name:
        return pieces(stored, Rule(stored.name, kind="expert", experts=True), config)
    return [whole(stored, "convolution")]


def blocks(names: Iterable[str]) -> Iterator[str]:
    """Of each name the part up to the number of its block, and to that of its expert."""
    for name in names:
        ends = [m.end(1) for m in re.finditer(r"(?:^|\.)(\d+)(?=\.|$)", name)]
        expert = re.search(r"experts\.(\d+)|\[(\d+)[.\]]", name)
        yield name[: ends[0] if ends else 0] + (f" {expert[0]}" if expert else "")
