"""The table of what is a matrix: which tensors hold one, which several, and how they lie."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from sigmascope.gate import Refusal

Layout = Literal["blocks", "heads", "groups", "turns"]
Sizes = Literal["equal", "heads"]
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
            each head (`"heads"`) or for each group of queries (`"groups"`), or taking turns.
        sizes: Whether parts are of equal size, or of as many heads as the configuration says.
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
        for field, known in (("layout", get_args(Layout)), ("sizes", get_args(Sizes))):
            if getattr(self, field) not in known:
                raise Refusal(
                    f"`{field}` of the rule {self.name!r} must be one of {', '.join(known)}, got "
                    f"{getattr(self, field)!r}."
                )

    def fits(self, name: str, family: str) -> bool:
        """Whether it speaks of a tensor of this name in a model of this type."""
        return (not self.families or family in self.families) and bool(re.search(self.name, name))


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
        raise Refusal(f"`{place}` must hold tables named [[rule]], got {', '.join(content)}.")
    for table in tables:
        odd = sorted(set(table) - known)
        if odd or not isinstance(table.get("name"), str):
            raise Refusal(
                f"A rule of `{place}` must have a name and, of {', '.join(sorted(known))}, what "
                f"it needs; got {', '.join(odd) or 'no name'}."
            )
        yield Rule(**{k: tuple(v) if isinstance(v, list) else v for k, v in table.items()})


def rule_for(name: str, family: str, rules: Iterable[Rule]) -> Rule | None:
    """The first rule that speaks of this tensor; none is found for one that is plainly linear."""
    return next((rule for rule in rules if rule.fits(name, family)), None)
