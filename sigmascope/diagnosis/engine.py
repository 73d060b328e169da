"""What rules say together: causes first, as severe as is foretold, with what cures them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from sigmascope.core.guard import door
from sigmascope.core.records import Finding, Kind, Profile, Rule, Severity, kinds_of
from sigmascope.diagnosis.remedies.catalogue import remedies_for
from sigmascope.diagnosis.rules.catalogue import KINDS, NO_PROGRESS, RULES
from sigmascope.diagnosis.rules.outputs import heard_elsewhere
from sigmascope.diagnosis.rules.training import learns
from sigmascope.diagnosis.trainability.model import EVEN, probability

SURE = 0.1  # probability of fitting, below which its whole interval must lie for an error
MOST = 3  # remedies that a finding names; `sigmascope remedy` tries all
ORDER: tuple[Severity, ...] = ("error", "warning", "note")


@door
def judge(
    profile: Profile, *, rules: Sequence[Callable[[Profile], Iterator[Finding]]] = RULES
) -> tuple[Finding, ...]:
    """Every finding of every rule: causes first, with what follows from them, the severest first.

    A finding that follows from another names it in `follows`. Where the profile holds the
    probability of fitting (`foretold`), findings that would stop training are errors only if its
    interval lies below 0.1, and a probability below one half is a finding itself.

    Args:
        profile: What was measured.
        rules: Which there are; the catalogue's, to which you may add your own.
    """
    found: list[Finding] = []
    for rule in rules:
        for f in rule(profile):
            able = remedies_for(f, profile)[:MOST]
            says = (f"{r.says[:-1]} (`sigmascope remedy MODEL --apply {r.name}`)." for r in able)
            found.append(replace(f, remedies=(*f.remedies, *says)))  # after what no remedy can do
    own = tuple(r for r in rules if isinstance(r, Rule) and r not in RULES)
    kinds = (*kinds_of(own), *KINDS)
    known = {kind.name: kind for kind in kinds}
    if learns(profile):
        found = [borne(f, known.get(f.name)) for f in found]
    elif (chance := probability(profile)) is not None and not heard_elsewhere(profile):
        # what is not proven is an error only where fitting is surely out of the question, which
        # copies cannot tell of what was heard elsewhere
        surely, likely = (chance.estimate.high < limit for limit in (SURE, EVEN))
        others = any(f.severity != "note" for f in found)
        for i, f in enumerate(found):
            proven = f.name in known and known[f.name].proven
            if f.severity == "error" and not (surely or proven):
                found[i] = replace(f, severity="warning")
        if chance.estimate.value < EVEN:
            none = NO_PROGRESS.finding(
                chance.site,
                "error" if surely and others else "warning" if others or likely else "note",
                (chance,),
                "Of four learning rates none made progress worth the name in its first steps: "
                "plain training fits these data with a probability of "
                f"{chance.estimate.value:.2g}.",
                ("Try the remedies on copies: `sigmascope remedy MODEL`.",),
            )
            found.append(none)
    return grouped(found, kinds)


def unproven(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same before training has had its say: what is not proven yet is no error."""
    proven = {kind.name for kind in KINDS if kind.proven}
    doubt = lambda f: f.severity == "error" and f.name not in proven
    return tuple(replace(f, severity="warning") if doubt(f) else f for f in findings)


def borne(f: Finding, kind: Kind | None) -> Finding:
    """What a program that learns is told: no error, and no warning of what it overcomes.

    Args:
        f: That was found.
        kind: Of it; None where it is a rule's of the user.
    """
    if kind is None or not (kind.proven or kind.even_if_it_learns):
        return replace(f, severity="note")
    return replace(f, severity="warning") if f.severity == "error" else f


def grouped(findings: Iterable[Finding], kinds: Sequence[Kind] = KINDS) -> tuple[Finding, ...]:
    """Causes first, each followed by what follows from it; the severest group first.

    A cause is as severe as the worst that it brings: what stops training does so through it. A
    setting is not: where four rates made no progress, that of the user is no proof against it.

    Args:
        findings: In any order.
        kinds: Of them, the deepest causes first; of what is not among them nothing follows.
    """
    found = list(findings)
    known = {kind.name: kind for kind in kinds}
    names = {f.name for f in found}
    present = [kind for kind in kinds if kind.name in names]
    rank = {kind.name: place for place, kind in enumerate(kinds)}
    roots = {name: _root(name, present) for name in names}

    def severity(f: Finding) -> int:
        return ORDER.index(f.severity)

    def is_setting(f: Finding) -> bool:
        return f.name in known and known[f.name].setting

    blamed = lambda k: k is None or not (k.of_any or k.eases)
    causes = [
        f for f in found
        if roots[f.name] == f.name and f.severity != "note" and blamed(known.get(f.name))
    ]  # fmt: skip
    if causes:  # what every cause but a note may bring: the likeliest is blamed
        place = lambda f: (is_setting(f), severity(f), rank.get(f.name, len(rank)))
        first = min(causes, key=place)
        roots |= {kind.name: first.name for kind in present if kind.of_any}
        if is_setting(first):  # at fault it may be, and that is no proof
            found = [f if f.name != NO_PROGRESS.name else replace(f, severity=first.severity)
                     for f in found]  # fmt: skip
    groups: dict[str, list[Finding]] = {}
    for f in found:
        root = roots[f.name]
        groups.setdefault(root, []).append(f if root == f.name else replace(f, follows=root))
    ordered = sorted(
        groups.items(), key=lambda pair: (min(map(severity, pair[1])), rank.get(pair[0], len(rank)))
    )
    told: list[Finding] = []
    for name, group in ordered:
        worst = ORDER[min(map(severity, group))]
        told += [replace(f, severity=worst) for f in group if f.name == name]
        told += sorted((f for f in group if f.name != name), key=severity)
    return tuple(told)


def _root(name: str, present: list[Kind]) -> str:
    """The deepest cause that is present and brings this."""
    for cause in present:
        if name in {kind.name for kind in cause.brings}:
            return _root(cause.name, present)
    return name
