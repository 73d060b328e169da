"""Which matrices a checkpoint holds, and why the rest of its tensors are none."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from math import prod
from typing import Any

from sigmascope.gate import Refusal, printable
from sigmascope.records import Skipped
from sigmascope.scanning.cuts import Cut, Piece, pieces, whole
from sigmascope.scanning.gates import gated
from sigmascope.scanning.heads import heads_of, part_of
from sigmascope.scanning.rules import Rule, built_in, rule_for
from sigmascope.scanning.slices import by_head
from sigmascope.sources.stored import Checkpoint, Stored

FIRST = re.compile(r"(?:^|\.)(\d+)\.")
NORMAL = re.compile(r"parametrizations\.\w+\.original|weight_(v|orig)$")
NORMALISED = "it is normalised before use; what is measured are the numbers as they are stored"


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
    shapes = {stored.name: stored.shape for stored in checkpoint.tensors}
    turned = _turned(shapes)
    found: list[tuple[Stored, Piece]] = []
    out = [Skipped(left.name, "tensor", left.why) for left in checkpoint.left_out]
    seen: dict[Any, str] = {}
    for stored in checkpoint.tensors:
        families = (*_families(stored.name, checkpoint.config), *turned)
        why = unasked(stored.name, only, skip) or _tied(stored, seen)
        rule = rule_for(stored.name, families, len(stored.shape), table)
        some = why or _pieces(stored, rule, checkpoint.config, shapes)
        if isinstance(some, str):
            out.append(Skipped(stored.name, "tensor", some))
            continue
        some = by_head(some, heads_of(stored.name, checkpoint.config)) if heads else some
        found += [(stored, _noted(stored, piece)) for piece in some]
    return found, out


def _noted(stored: Stored, piece: Piece) -> Piece:
    return replace(piece, note=piece.note or NORMALISED) if NORMAL.search(stored.name) else piece


def _families(name: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = (part_of(name, config).get("model_type"), config.get("model_type"))
    return tuple(kind for kind in kinds if isinstance(kind, str))


def _turned(shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    """The family of GPT-2, whose layers are stored as [in, out], where shapes show it."""
    fused = [s for name, s in shapes.items() if name.endswith("c_attn.weight") and len(s) == 2]
    return ("gpt2",) if fused and all(cols == 3 * rows for rows, cols in fused) else ()


def require_named(checkpoint: Checkpoint, only: Sequence[str]) -> None:
    """Refuse patterns that are the name of nothing: of what they mean, nothing would be measured.

    Raises:
        Refusal: If there is one.
    """
    names = [
        *(t.name for t in checkpoint.tensors),
        *(left.name for left in checkpoint.left_out),
        *(adapter.name for adapter in checkpoint.adapters),
    ]
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in names):
            example = f"for example {printable(names[0])}" if names else "it holds none"
            raise Refusal(
                f"`only` must be patterns of names of tensors in {printable(checkpoint.name)}, and "
                f"`{printable(pattern)}` is the name of none of its {len(names):,}: {example}."
            )


def unasked(name: str, only: Sequence[str], skip: Sequence[str]) -> str:
    """Why a tensor is not to be measured; nothing where it is."""
    if only and not any(fnmatchcase(name, pattern) for pattern in only):
        return "not asked for (--only)"
    return "left out as asked (--skip)" if any(fnmatchcase(name, p) for p in skip) else ""


def _tied(stored: Stored, seen: dict[Any, str]) -> str:
    first = seen.setdefault(stored.key(), stored.name)
    return "" if first == stored.name else f"the same numbers in the file as {first}: tied"


def _pieces(
    stored: Stored,
    rule: Rule | None,
    config: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
) -> list[Piece] | str:
    """What a tensor holds, by its rule or else by its dimensions."""
    if why := _no_matrix(stored, rule):
        return why
    if rule is not None and rule.layout == "gates":
        named = gated(stored.name, rule, shapes)
        if isinstance(named, str):
            return [replace(whole(stored, rule.kind), note=named)]
        rule = named
    if rule is not None and len(stored.shape) == (3 if rule.experts else rule.dims):
        return pieces(stored, rule, heads_of(stored.name, config))
    if len(stored.shape) == 2:
        return [whole(stored, "linear")]
    sides = [side for side in stored.shape if side != 1]
    if len(sides) == 2 and stored.shape[0] == 1:  # as position embeddings [1, places, width]
        shape = (sides[0], sides[1])
        kind = rule.kind if rule else "linear"
        return [Piece("", kind, Cut(stored, 0, 1, rows=shape[0]), shape, stored.bytes)]
    if "experts" in stored.name and len(stored.shape) == 3:
        return pieces(stored, Rule(stored.name, kind="expert", experts=True))
    flat = rule is not None and prod(stored.shape[2:]) == 1  # a kernel of one pixel is a matrix
    return [whole(stored, rule.kind if rule and flat else "convolution")]


def _no_matrix(stored: Stored, rule: Rule | None) -> str:
    """Why a tensor is no matrix; nothing where it is one."""
    sides = [side for side in stored.shape if side != 1]
    if prod(stored.shape) == 0:
        return f"it is empty, of shape {list(stored.shape)}"
    named = stored.name.endswith("weight")  # a map to one number, which is worth its row
    if len(stored.shape) < 2 or (len(sides) < 2 and not (named and len(stored.shape) == 2)):
        return "a vector: its one singular value is its norm"
    return "" if rule is None else rule.left_out


def distinct(names: Iterable[str]) -> list[str]:
    """Names are what readings are found by: a second one of a name is numbered."""
    found: dict[str, None] = {}
    for name in names:
        numbered = itertools.chain([name], (f"{name}#{i}" for i in itertools.count(2)))
        found[next(n for n in numbered if n not in found)] = None
    return [*found]


def blocks(names: Iterable[str]) -> Iterator[str]:
    """Of each name the part up to the number of its block, and to that of its expert."""
    for name in names:
        ends = [m.end(1) for m in re.finditer(r"(?:^|\.)(\d+)(?=\.|$)", name)]
        expert = re.search(r"experts\.(?:expert_)?(\d+)|\[(\d+)[.\]]", name)
        number = f" {expert[1] or expert[2]}" if expert else ""
        yield name[: ends[0] if ends else 0] + number
