"""The table of what is a matrix: which tensors hold one, which several, and how they lie."""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from sigmascope.gate import Refusal

Layout = Literal["blocks", "heads", "groups", "turns", "gates"]
Sizes = Literal["equal", "heads"]
T = TypeVar("T")
WORDS: dict[type, str] = {str: "text", list: "list of texts", bool: "true or false", int: "number"}
FILE = Path(__file__).with_name("layouts.toml")


@dataclass(frozen=True, slots=True)
class Rule:
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
def built_in() -> tuple[Rule, ...]:
    """The rules that come with sigmascope, in the order in which they are tried."""
    return tuple(_rules(tomllib.loads(FILE.read_text(encoding="utf-8")), "layouts.toml"))


def read_rules(path: str | Path) -> tuple[Rule, ...]:
    """Rules of a user's own, from a TOML file of `[[rule]]` tables.

    Raises:
        Refusal: If it cannot be read, or a field is not known.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise Refusal(f"The rules in `{path}` cannot be read: {error}.") from error
    return tuple(_rules(content, str(path)))


def _rules(content: Mapping[str, Any], place: str) -> Iterator[Rule]:
    known = {field.name for field in fields(Rule)}
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


def _rule(table: Mapping[str, Any], place: str) -> Rule:
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

    usual = Rule("")
    return Rule(
        table["name"], take("kind", str, usual.kind), several("parts"), several("kinds"),
        several("families"), take("turned", bool, False), take("experts", bool, False),
        _layout(take("layout", str, usual.layout)), _sizes(take("sizes", str, usual.sizes)),
        take("repeats", int, 1), take("dims", int, 2), take("left_out", str, ""),
    )  # fmt: skip


def _layout(word: str) -> Layout:
    return cast(Layout, word)  # the rule itself refuses others


def _sizes(word: str) -> Sizes:
    return cast(Sizes, word)


def rule_for(name: str, families: Collection[str], dims: int, rules: Iterable[Rule]) -> Rule | None:
    """The first rule that speaks of this tensor; none is found for one that is plainly linear."""
    return next((rule for rule in rules if rule.fits(name, families, dims)), None)
