"""What a name means: a finding, an alarm, a quantity, a remedy, a cure, a theorem, a statement.

Everything is read off the declarations; nothing is said here but where it comes from.
"""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sigmascope.core import products
from sigmascope.core.guard import Refusal, door, nearest
from sigmascope.core.quantities import EVERY, quantities
from sigmascope.core.records import SPEAKS, Kind, Shown
from sigmascope.core.references import references_of

# What the field calls it, the names here, and the command that measures it.
WORDS: dict[str, tuple[tuple[str, ...], str]] = {
    "balancedness": (("imbalance", "balance defect", "balance drift", "balance-rate"), "balances"),
    "bottleneck rank": (("inner dimension", "jacobian-rank", "bottleneck-frames"), "bottleneck"),
    "dying ReLU": (("dead units", "dead-units", "dying-units"), "profile"),
    "dynamical isometry": (("isometry distance", "condition number"), "profile"),
    "edge of stability": (("sharpness", "rate times sharpness", "rate-beyond-edge"), "landscape"),
    "exploding gradients": (("exploding-adjoints", "adjoint norm", "gradient-jump"), "profile"),
    "heavy tails": (("power-law exponent", "power-law p-value"), "scan"),
    "Lipschitz constant": (("spectral norm",), "scan"),
    "LoRA": (("intruders", "intruder-directions", "untrained-adapter"), "scan"),
    "loss landscape": (("sharpness", "condition of learning", "curvature-factors"), "landscape"),
    "Marchenko-Pastur": (("noise edge", "spikes", "noise-only"), "scan"),
    "neural tangent kernel": (("NTK trace", "NTK trace per layer", "tangent-size"), "profile"),
    "numerical rank": (("matrix rank", "stable rank", "effective rank"), "scan"),
    "operator norm": (("spectral norm", "operator-to-Frobenius ratio"), "scan"),
    "plasticity": (("plasticity-loss",), "profile"),
    "singular value": (("spectral norm", "stable rank", "condition number"), "scan"),
    "vanishing gradients": (("vanishing-adjoints", "adjoint norm"), "profile"),
}
STAGES = {"start": "before training", "trained": "after training"}


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Shown):
    """What one name means, in one of its senses.

    Attributes:
        name: As reports have it.
        kind: What it is the name of.
        rows: A heading and a text each, in the order in which they are shown.
        words: Under which it is found too.
    """

    name: str
    kind: str
    rows: tuple[tuple[str, str], ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Explanations(Shown):
    """Every sense of a name.

    Attributes:
        senses: One or more.
    """

    senses: tuple[Explanation, ...]


@door
def explain(name: str) -> Explanations:
    """What a finding, an alarm, a quantity, a remedy, a cure or a theorem is; what a paper states.

    Args:
        name: As reports have it; or a word of the field for several of them (`WORDS`); or the
            number of a statement, `"Lemma 4"` or `"le2022 Lemma 4"`.

    Raises:
        Refusal: If there is nothing of that name; with those that are nearest.

    Example:
        >>> explain("rank-collapse").senses[0].kind
        'finding of a model or a program'
    """
    field = {word.lower(): names for word, (names, _) in WORDS.items()}
    said = " ".join(name.lower().split())
    wanted = (said, *map(str.lower, field.get(said.removesuffix("s"), field.get(said, ()))))
    every = [*_every()]
    senses = [e for e in every if e.name.lower() in wanted]
    senses.sort(key=lambda e: wanted.index(e.name.lower()))
    senses += [e for e in every if said in map(str.lower, e.words) and e not in senses]
    if senses:
        return Explanations(tuple(senses))
    known = sorted({n for e in every for n in (e.name, *e.words)} | {*WORDS})
    raise Refusal(
        "A name must be that of a finding, an alarm, a quantity, a remedy, a cure or a theorem, as "
        "reports have it, or of a statement as its paper numbers it, got "
        f"`{name}`.{nearest(name, known, most=3)} `sigmascope explain` without a name lists all."
    )


def every_name() -> dict[str, tuple[str, ...]]:
    """All names that are explained, by what they are names of."""
    found: dict[str, list[str]] = {}
    for e in _every():
        found.setdefault(e.kind, []).append(e.name)
    return {kind: tuple(names) for kind, names in found.items()}


def _every() -> Iterator[Explanation]:
    for of, lists in (
        ("finding of a model or a program", products.FINDINGS),
        ("finding of a checkpoint", products.CHECKPOINT_FINDINGS),
    ):
        kinds, rules = _declared(lists, "KINDS"), _declared(lists, "RULES")
        for kind in kinds:
            reads = dict.fromkeys(rule.reads for rule in rules if kind in rule.kinds)
            views = (SPEAKS.get(r, f"the view `{r}`" if r in EVERY else r) for r in reads)
            cures = _declared(products.REMEDIES, "REMEDIES"), _declared(products.CURES, "CHANGES")
            able = [each.name for some in cures for each in some if kind in each.cures]
            stands = (
                "whatever is foretold: it rests on arithmetic, or on a change that cured a copy"
                if kind.proven
                else "also where the loss falls: the task is another than is meant"
                if kind.even_if_it_learns
                else ""
            )
            yield _made(
                kind.name,
                of,
                ("found when", kind.speaks),
                ("reads", ", ".join(views)),
                ("stands firm", stands),
                ("may follow from", _names(k for k in kinds if kind in k.brings)),
                ("may bring", _names(kind.brings)),
                ("cured by", ", ".join(dict.fromkeys(able))),
                ("source", kind.source),
            )
    for alarm in _declared(products.ALARMS, "RULES"):
        yield _made(
            alarm.name,
            "alarm of a watch",
            ("begins when", alarm.speaks),
            ("severity", alarm.severity),
            ("reads", ", ".join(sorted(alarm.reads))),
            ("what to do", " ".join(alarm.remedies)),
            ("source", alarm.source),
        )
    for q in quantities().values():
        usual = "; ".join(
            f"{STAGES[r.stage]} {r.p05:.3g} to {r.p95:.3g}, median {r.median:.3g}"
            + (f" ({r.form})" if r.form else "")
            + f", in {r.networks} networks"
            for r in references_of(q.name)
        )
        yield _made(
            q.name,
            "quantity",
            ("is", q.says),
            ("formula", q.symbol),
            ("values", q.range + (f", in {q.unit}" if q.unit else "")),
            ("read in", ", ".join(q.views)),
            ("healthy", q.healthy),
            ("usual", usual and f"{usual} (nine in ten layers of networks that train)"),
            ("source", q.source),
        )
    for remedy in _declared(products.REMEDIES, "REMEDIES"):
        yield _made(
            remedy.name,
            "remedy of a network",
            ("does", remedy.says),
            ("for", _names(remedy.cures)),
            ("not where", remedy.unless),
            ("needs", f"a reading of `{remedy.needs}`" if remedy.needs else ""),
            ("try it", f"sigmascope remedy MODEL --apply {remedy.name}"),
            ("source", remedy.source),
        )
    for change in _declared(products.CURES, "CHANGES"):
        yield _made(
            change.name,
            "cure of a program",
            ("for", _names(change.cures)),
            ("try it", "sigmascope diagnose PROGRAM, which trains a copy that is changed so"),
        )
    for theorem in _declared(products.THEOREMS, "THEOREMS"):
        words = (inspect.getdoc(theorem) or "").partition("\nAttributes:")[0].strip()
        yield _made(
            theorem.name,
            "theorem",
            ("states", theorem.statement),
            ("in words", " ".join(words.split())),
            ("check it", f"sigmascope check MODEL --theorem {theorem.name}"),
            ("source", theorem.source),
        )

    for statement in _declared(products.STATEMENTS, "STATEMENTS"):
        yield Explanation(
            statement.name,
            "statement of a paper",
            (
                ("says", statement.says.replace("$", "")),
                ("here", statement.means()),
                *dict.fromkeys(statement.seen()),
                *([("but", statement.but.replace("$", ""))] if statement.but else []),
            ),
            (statement.label, *statement.words),
        )


def _declared(names: tuple[str, ...], what: str) -> tuple[Any, ...]:
    """What all modules of a list declare under one name, in order."""
    return tuple(each for module in products.modules(names) for each in getattr(module, what))


def _made(name: str, kind: str, *rows: tuple[str, str]) -> Explanation:
    return Explanation(name, kind, tuple((head, text) for head, text in rows if text))


def _names(kinds: Iterable[Kind]) -> str:
    return ", ".join(kind.name for kind in kinds)
