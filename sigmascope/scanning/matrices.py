"""Which matrices a checkpoint holds, and why the rest of its tensors are none."""

import itertools
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import accumulate, pairwise
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from jaxtyping import Float
from torch import Tensor

from sigmascope.checkpoints import Checkpoint, Stored
from sigmascope.core.guard import Refusal, printable, read_file, require_file
from sigmascope.core.records import Skipped

# ------------------------------------------------------------------------------
# The table of what is a matrix: which tensors hold one, which several, and how they lie.


Layout = Literal["blocks", "heads", "groups", "turns", "gates"]
Sizes = Literal["equal", "heads"]
T = TypeVar("T")
WORDS: dict[type, str] = {str: "text", list: "list of texts", bool: "true or false", int: "number"}
LARGEST = 1 << 20  # bytes of a file of rules
FILE = Path(__file__).with_name("layouts.toml")


@dataclass(frozen=True, slots=True)
class NameRule:
    """What tensors of some names are.

    Attributes:
        name: Regular expression, searched for in the name of the tensor.
        kind: What it is in the network, where it is one matrix.
        parts: Names of the matrices that are fused in it; none where it is one.
        kinds: What each part is.
        families: Model types (`model_type` of `config.json`) for which it holds; all if empty.
        turned: Whether it is stored as `[in, out]`.
        experts: Whether its first dimension counts experts, each a matrix.
        layout: How the parts lie along the outputs: one after the other (`"blocks"`), together for
            each head (`"heads"`) or for each group of queries (`"groups"`), taking turns, or as
            the gates of a recurrent layer, which its other weights tell apart.
        sizes: Whether parts are of equal size, or of as many heads as the configuration says.
        repeats: How often all parts follow one another, each time with a share of their outputs.
        dims: Dimensions of the tensors; of more than 2, all that follow the first are inputs.
        left_out: Why tensors of these names are no matrices; they are then left out.
    """

    name: str
    kind: str = "linear"
    parts: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    turned: bool = False
    experts: bool = False
    layout: Layout = "blocks"
    sizes: Sizes = "equal"
    repeats: int = 1
    dims: int = 2
    left_out: str = ""

    def __post_init__(self) -> None:
        try:
            re.compile(self.name)
        except re.error as error:
            raise Refusal(
                f"The name of a rule must be a regular expression, got {self.name!r}: {error}."
            ) from error
        if self.kinds and len(self.kinds) != len(self.parts):
            raise Refusal(
                f"The rule {self.name!r} must name a kind for each of its {len(self.parts)} parts, "
                f"got {len(self.kinds)}."
            )
        if self.repeats < 1 or self.dims < 2:
            raise Refusal(
                f"The rule {self.name!r} must repeat once or more and have 2 dimensions or more, "
                f"got repeats = {self.repeats} and dims = {self.dims}."
            )
        for field, known in (("layout", get_args(Layout)), ("sizes", get_args(Sizes))):
            if getattr(self, field) not in known:
                raise Refusal(
                    f"`{field}` of the rule {self.name!r} must be one of {', '.join(known)}, got "
                    f"{getattr(self, field)!r}."
                )

    def fits(self, name: str, families: Collection[str], dims: int) -> bool:
        """Whether it speaks of a tensor of this name and dimensions in a model of these types."""
        sized = dims == (3 if self.experts else self.dims) or bool(self.left_out)
        kernel = dims > 2 and not self.experts and not self.parts  # it only says what it is
        family = not self.families or any(f in self.families for f in families)
        return (sized or kernel) and family and bool(re.search(self.name, name))


@cache
def built_in() -> tuple[NameRule, ...]:
    """The rules that come with sigmascope, in the order in which they are tried."""
    return tuple(_rules(tomllib.loads(FILE.read_text(encoding="utf-8")), "layouts.toml"))


def read_rules(path: str | Path) -> tuple[NameRule, ...]:
    """Rules of a user's own, from a TOML file of `[[rule]]` tables.

    Raises:
        Refusal: If it cannot be read, or a field is not known.
    """
    try:
        file = require_file(Path(path), (".toml",))
        content = tomllib.loads(read_file(file, most=LARGEST).decode())
    except Refusal:
        raise
    except (OSError, ValueError, RecursionError) as error:  # no TOML, no text, no name of a file
        raise Refusal(f"The rules in `{path}` cannot be read: {error}.") from error
    return tuple(_rules(content, str(path)))


def _rules(content: Mapping[str, Any], place: str) -> Iterator[NameRule]:
    known = {field.name for field in fields(NameRule)}
    tables = content.get("rule")
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise Refusal(
            f"`{place}` must hold tables named [[rule]], got {', '.join(content) or 'nothing'}."
        )
    for table in tables:
        odd = sorted(set(table) - known)
        if odd or not isinstance(table.get("name"), str):
            raise Refusal(
                f"A rule of `{place}` must have a name and, of {', '.join(sorted(known))}, what "
                f"it needs; got {', '.join(odd) or 'no name'}."
            )
        yield _rule(table, place)


def _rule(table: Mapping[str, Any], place: str) -> NameRule:
    """A rule of a table whose fields are all known."""

    def take(name: str, kind: type[T], usual: T) -> T:
        value = table.get(name, usual)
        if type(value) is not kind:
            raise Refusal(
                f"`{name}` of the rule {table['name']!r} in `{place}` must be of type "
                f"{WORDS[kind]}, got {value!r}."
            )
        return value

    def several(name: str) -> tuple[str, ...]:
        found = take(name, list, [])
        return tuple(item if isinstance(item, str) else str(item) for item in found)

    usual = NameRule("")
    return NameRule(
        table["name"], take("kind", str, usual.kind), several("parts"), several("kinds"),
        several("families"), take("turned", bool, False), take("experts", bool, False),
        cast(Layout, take("layout", str, usual.layout)),  # the rule itself refuses others
        cast(Sizes, take("sizes", str, usual.sizes)),
        take("repeats", int, 1), take("dims", int, 2), take("left_out", str, ""),
    )  # fmt: skip


def rule_for(
    name: str, families: Collection[str], dims: int, rules: Iterable[NameRule]
) -> NameRule | None:
    """The first rule that speaks of this tensor; none is found for one that is plainly linear."""
    return next((rule for rule in rules if rule.fits(name, families, dims)), None)


# ------------------------------------------------------------------------------
# Recurrent layers, whose gates lie in one tensor: which they are, the other weights say.


NAMES = {1: (), 3: ("r", "z", "n"), 4: ("i", "f", "g", "o")}  # in the order of PyTorch


def gated(name: str, rule: NameRule, shapes: Mapping[str, tuple[int, ...]]) -> NameRule | str:
    """The rule with its parts named, or why they are not known.

    Args:
        name: Of the tensor, `weight_ih_l0` or `weight_hh_l0` at its end.
        rule: For gates.
        shapes: Of all tensors, by name.
    """
    stem, _, layer = name.rpartition("weight_")
    own, state, back = (shapes.get(f"{stem}weight_{w}{layer[2:]}") for w in (layer[:2], "hh", "hr"))
    if own is None or state is None or len(state) != 2:
        return "its gates were not split: the weight of the layer's state is not beside it"
    size = state[1] if back is None or len(back) != 2 else back[1]  # one that is projected
    count, odd = divmod(own[0], size) if size else (0, 1)
    if odd or count not in NAMES:
        return f"its gates were not split: {own[0]} outputs are no gates of {size} units"
    return replace(rule, parts=NAMES[count], kinds=(), layout="blocks")


# ------------------------------------------------------------------------------
# How many heads of attention a model has, as far as its configuration says.


QUERIES = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KEYS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num")
SIZE = ("head_dim", "kv_channels", "d_kv")
WIDTH = ("hidden_size", "n_embd", "d_model", "dim", "embed_dim")
TEXT = ("text_config", "llm_config", "language_config")


@dataclass(frozen=True, slots=True)
class Heads:
    """Numbers of heads.

    Attributes:
        queries: Heads of queries; 0 where it is not known.
        keys: Heads of keys and of values; 0 where the configuration does not say.
        size: Outputs of one; 0 where it is not known.
    """

    queries: int = 0
    keys: int = 0
    size: int = 0

    def fit(self, out: int) -> bool:
        """Whether queries, keys and values of these numbers have so many outputs together."""
        keys = self.keys or self.queries
        return self.queries > 0 and out == (self.queries + 2 * keys) * self.size

    def groups_of(self, out: int, inner: int) -> int:
        """Heads of keys among so many outputs of queries, keys and values; 0 where none fit."""
        size = self.size or (inner // self.queries if self.queries else 0)
        if not self.queries or not size or out % size:
            return 0
        groups, odd = divmod(out // size - self.queries, 2)
        return groups if groups > 0 and not odd and self.queries % groups == 0 else 0

    def among(self, kind: str, outputs: int) -> int:
        """Heads within so many outputs, or inputs of what mixes them; 0 where none fit.

        Args:
            kind: What the matrix is.
            outputs: Of it; its inputs where it is the output of attention.
        """
        count = self.queries
        if kind in ("attention key", "attention value"):
            known = self.keys or (count if outputs == count * self.size else 0)
            count = known or (outputs // self.size if self.size else 0)
        return count if count and outputs % count == 0 else 0


UNKNOWN = Heads()


def heads_of(name: str, config: Mapping[str, Any]) -> Heads:
    """The heads in the part of a model that a tensor belongs to.

    Args:
        name: Of the tensor, which says whether it sees, reads or listens.
        config: Of the model.
    """
    mine = part_of(name, config)
    side = "decoder" if "decoder" in name.split(".") else "encoder"
    prefix = mine.get("general.architecture")  # of GGUF
    queries = _number(mine, f"{side}_attention_heads", f"{prefix}.attention.head_count", *QUERIES)
    keys = _number(mine, f"{prefix}.attention.head_count_kv", *KEYS)
    if mine.get("multi_query") is not None and not mine.get("new_decoder_architecture"):
        keys = 1 if mine["multi_query"] else queries
    width = _number(mine, f"{prefix}.embedding_length", *WIDTH)
    size = _number(mine, f"{prefix}.attention.key_length", *SIZE)
    return Heads(queries, keys, size or (width // queries if queries else 0))


def part_of(name: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of the part of a model that a tensor belongs to."""
    inner = {k: v for k, v in config.items() if k.endswith("_config") and isinstance(v, Mapping)}
    words = name.split(".")
    for key, value in inner.items():
        if key not in TEXT and any(word.startswith(key[:3]) for word in words):
            return value
    text = next((inner[key] for key in TEXT if key in inner), config)
    attention = text.get("attn_config")
    return {**attention, **text} if isinstance(attention, Mapping) else text


def _number(config: Mapping[str, Any], *names: str) -> int:
    return next((v for n in names if type(v := config.get(n)) is int and v > 0), 0)


# ------------------------------------------------------------------------------
# Matrices as they are cut out of stored tensors, without reading anything yet.


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


def pieces(stored: Stored, rule: NameRule, heads: Heads = UNKNOWN) -> list[Piece]:
    """The matrices that a rule sees in a tensor; where it cannot split it, one, which says why.

    Args:
        stored: The tensor, of the dimensions that the rule wants.
        rule: Which speaks of it.
        heads: Of the model.
    """
    if rule.experts:
        count, rows, cols = stored.shape
        found: list[Piece] = []
        for i in range(count):
            cut = Cut(stored, i, i + 1, rows=rows, turned=rule.turned)
            shape = (cols, rows) if rule.turned else (rows, cols)
            one = Piece(f"{i}", rule.kind, cut, shape, stored.bytes // count)
            split = _parts(one, rule, UNKNOWN) if rule.parts else [one]
            found += [replace(p, part=f"{i}.{p.part}" if len(split) > 1 else p.part) for p in split]
        return found
    one = whole(stored, rule.kind, turned=rule.turned)
    return _parts(one, rule, heads) if rule.parts else [one]


def _parts(one: Piece, rule: NameRule, heads: Heads) -> list[Piece]:
    """The parts that are fused along the outputs of one matrix."""
    out, inner = one.shape
    # so many groups, in each of which the parts take so many outputs; or why not
    if rule.layout == "groups" or rule.sizes == "heads":
        # queries, keys and values; thirds only where they are as many as inputs, else by heads
        if rule.layout == "blocks" and not heads.fit(out) and out == 3 * inner:
            outer, each = 1, [inner] * 3
        elif groups := heads.groups_of(out, inner):
            size = out // (heads.queries + 2 * groups)
            outer, each = groups, [heads.queries // groups * size, size, size]
            if rule.layout == "blocks":
                outer, each = 1, [heads.queries * size, groups * size, groups * size]
        else:
            return [replace(one, note=_unknown(out, rule, "heads"))]
    else:
        outer, parts = heads.queries if rule.layout == "heads" else rule.repeats, len(rule.parts)
        if outer < 1 or out % (outer * parts):
            of = "heads" if rule.layout == "heads" else "outputs"
            return [replace(one, note=_unknown(out, rule, of))]
        each = [out // outer // parts] * parts
    if rule.layout == "turns":
        outer, each = out // len(rule.parts), [1] * len(rule.parts)
    kinds = rule.kinds or (rule.kind,) * len(rule.parts)
    found = []
    for name, kind, (a, b) in zip(
        rule.parts, kinds, pairwise(accumulate(each, initial=0)), strict=True
    ):
        rows = outer * (b - a)
        # outputs [a, b) of every group; a stretch of stored rows where that is possible
        cut, group = one.cut, sum(each)
        if cut.turned:
            cut = replace(cut, shape=(inner, outer, group), ranges=((2, a, b),), rows=inner)
        elif outer == 1 and cut.start == 0 and cut.stop == group:
            cut = replace(cut, start=a, stop=b, rows=b - a)
        else:
            cut = replace(cut, shape=(outer, group, inner), ranges=((1, a, b),), rows=rows)
        found.append(Piece(name, kind, cut, (rows, inner), one.bytes * rows // out))
    return found


def _unknown(out: int, rule: NameRule, what: str) -> str:
    return (
        f"its {out} outputs were not split into {', '.join(rule.parts)}: the numbers of {what} "
        "that the configuration gives do not fit"
    )


# ------------------------------------------------------------------------------
# Attention taken apart into heads.


MIXED = "attention output"  # whose inputs are heads, where those of others are outputs


def by_head(found: Sequence[Piece], heads: Heads) -> list[Piece]:
    """Queries, keys, values and outputs of attention, a matrix for each head.

    Args:
        found: The matrices of one tensor.
        heads: Of the model.
    """
    split: list[Piece] = []
    for piece in found:
        kind = piece.kind
        if not kind.startswith("attention ") or kind == "attention latent" or piece.note:
            split.append(piece)
            continue
        side = 1 if kind == MIXED else 0
        count = heads.among(kind, piece.shape[side])
        size = piece.shape[side] // count if count else 0
        cuts = [_cut(piece, i, size) for i in range(count)]
        if not cuts or None in cuts:
            why = "it was not split into heads: the configuration does not say how many fit it"
            split.append(replace(piece, note=why))
            continue
        rows, cols = piece.shape
        shape = (rows, size) if side else (size, cols)
        split += [
            Piece(f"{piece.part} head {i}".strip(), kind, cut, shape, piece.bytes // count)
            for i, cut in enumerate(cuts)
            if cut is not None
        ]
    return split


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


FIRST = re.compile(r"(?:^|\.)(\d+)\.")
NORMAL = re.compile(r"parametrizations\.\w+\.original|weight_(v|orig)$")
NORMALISED = "it is normalised before use; what is measured are the numbers as they are stored"
BARE = re.compile(r"float8_\w+")  # as it is named where no scales were found
UNSCALED = (
    "numbers of eight bits without scales beside them, measured as they are stored; if a scale is "
    "kept elsewhere, norms and singular values are to be multiplied with it"
)


def depth_of(name: str) -> int:
    """Number of the block that a tensor belongs to, the outermost; -1 where its name has none."""
    found = FIRST.search(name)
    return int(found[1]) if found else -1


def found_in(
    checkpoint: Checkpoint,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    rules: Iterable[NameRule] = (),
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
    # the family of GPT-2, whose layers are stored as [in, out], where shapes show it
    fused = [s for name, s in shapes.items() if name.endswith("c_attn.weight") and len(s) == 2]
    turned = ("gpt2",) if fused and all(cols == 3 * rows for rows, cols in fused) else ()
    found: list[tuple[Stored, Piece]] = []
    out = [Skipped(left.name, "tensor", left.why) for left in checkpoint.left_out]
    seen: dict[Any, str] = {}
    for stored in checkpoint.tensors:
        kinds = (
            part_of(stored.name, checkpoint.config).get("model_type"),
            checkpoint.config.get("model_type"),
        )
        families = (*(kind for kind in kinds if isinstance(kind, str)), *turned)
        why = unasked(stored.name, only, skip)
        if not why:
            first = seen.setdefault(stored.key(), stored.name)
            tied = first != stored.name
            why = f"the same numbers in the file as {first}: tied" if tied else ""
        rule = rule_for(stored.name, families, len(stored.shape), table)
        some = why or _pieces(stored, rule, checkpoint.config, shapes)
        if isinstance(some, str):
            out.append(Skipped(stored.name, "tensor", some))
            continue
        some = by_head(some, heads_of(stored.name, checkpoint.config)) if heads else some
        note = NORMALISED if NORMAL.search(stored.name) else ""
        note = note or (UNSCALED if BARE.fullmatch(stored.dtype) else "")
        some = [replace(piece, note=piece.note or note) for piece in some]
        found += [(stored, piece) for piece in some]
    return found, out


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


def _pieces(
    stored: Stored,
    rule: NameRule | None,
    config: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
) -> list[Piece] | str:
    """What a tensor holds, by its rule or else by its dimensions."""
    sides = [side for side in stored.shape if side != 1]
    if prod(stored.shape) == 0:
        return f"it is empty, of shape {list(stored.shape)}"
    named = stored.name.endswith("weight")  # a map to one number, which is worth its row
    if len(stored.shape) < 2 or (len(sides) < 2 and not (named and len(stored.shape) == 2)):
        return "a vector: its one singular value is its norm"
    if rule is not None and rule.left_out:
        return rule.left_out
    if rule is not None and rule.layout == "gates":
        split = gated(stored.name, rule, shapes)
        if isinstance(split, str):
            return [replace(whole(stored, rule.kind), note=split)]
        rule = split
    if rule is not None and len(stored.shape) == (3 if rule.experts else rule.dims):
        return pieces(stored, rule, heads_of(stored.name, config))
    if len(stored.shape) == 2:
        return [whole(stored, "linear")]
    if len(sides) == 2 and stored.shape[0] == 1:  # as position embeddings [1, places, width]
        shape = (sides[0], sides[1])
        kind = rule.kind if rule else "linear"
        return [Piece("", kind, Cut(stored, 0, 1, rows=shape[0]), shape, stored.bytes)]
    if "experts" in stored.name and len(stored.shape) == 3:
        return pieces(stored, NameRule(stored.name, kind="expert", experts=True))
    flat = rule is not None and prod(stored.shape[2:]) == 1  # a kernel of one pixel is a matrix
    return [whole(stored, rule.kind if rule and flat else "convolution")]


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
