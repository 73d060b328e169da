"""Every numbered statement of the four papers, and what this library makes of it.

`statements.toml` beside the theorems of each paper lists them in the paper's order. A statement is
in one state, and names where that can be seen: a theorem, a test, a place in the documentation.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

Paper = Literal["daneshmand2020", "le2022", "jacot2023", "riedi2022"]
State = Literal["checked", "verified", "sharpened", "refuted", "in use", "reproduced", "background"]
PAPERS: Final[tuple[Paper, ...]] = get_args(Paper)
STATES: Final[dict[State, tuple[str, tuple[str, ...]]]] = {
    # what it means, and the kinds of places of which one at least shows it
    "checked": ("checked on your models or chains by a theorem", ("theorem",)),
    "verified": ("verified on instances by a test", ("test",)),
    "sharpened": ("sharpened: true, and more is", ("page", "theorem", "test")),
    "refuted": ("refuted as printed, with a counterexample and what is true", ("page",)),
    "in use": ("in use: a definition or an algorithm of this library", ("code",)),
    "reproduced": ("reproduced by `sigmascope reproduce`", ("figure",)),
    "background": ("background: of others, or a plain fact", ("source",)),
}


@dataclass(frozen=True, slots=True)
class Statement:
    """One numbered statement, definition, figure or claim of a paper.

    Attributes:
        paper: Which.
        label: As the paper numbers it.
        words: Usual words for what it is about.
        says: What it says, in words of our own; formulas in TeX between `$`.
        state: What this library makes of it.
        where: Where that can be seen: kind and place with a colon between them. Kinds are
            `theorem` (its name), `test` (file and function), `page` (of the documentation on this
            paper, an anchor), `code` (a name to import), `figure`, `source` (who).
        but: What else must be said: a condition that is missing, or why it cannot be computed.
    """

    paper: Paper
    label: str
    words: tuple[str, ...]
    says: str
    state: State
    where: tuple[str, ...]
    but: str = ""

    @property
    def name(self) -> str:
        """Paper and number: unique among all."""
        return f"{self.paper} {self.label}"

    def means(self) -> str:
        """What its state means."""
        return STATES[self.state][0]

    def seen(self) -> Iterator[tuple[str, str]]:
        """Where it can be seen: a heading and what one would type or open, each."""
        asked = {
            "theorem": "sigmascope explain {}",
            "figure": "sigmascope reproduce {}",
            "page": f"docs/theory/{self.paper}.md{{}}",
        }
        for place in self.where:
            kind, _, name = place.partition(":")
            yield kind, asked.get(kind, "{}").format(name.partition("::")[0])

    def places(self, kind: str) -> Iterator[str]:
        """Where it can be seen, of one kind."""
        return (w.partition(":")[2] for w in self.where if w.partition(":")[0] == kind)


def _read(paper: Paper) -> Iterator[Statement]:
    file = Path(__file__).parent / paper / "statements.toml"
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["statement"]:
        lists = {key: tuple(row.pop(key)) for key in ("words", "where")}
        yield Statement(paper, row.pop("name"), **lists, **row)


STATEMENTS: Final = tuple(statement for paper in PAPERS for statement in _read(paper))
