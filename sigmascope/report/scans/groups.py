"""Readings of a scan by quantity, matrices by kind, what is left out by reason."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sigmascope.quantities import quantities
from sigmascope.records import Reading, Skipped
from sigmascope.records.scans import Matrix, Scan

SIGNS = (" → ", " = ")  # between two matrices that meet, and two that are alike
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\.?\w)")  # none within a name
Columns = Mapping[str, Mapping[str, Reading]]


def by_kind(matrices: Iterable[Matrix]) -> dict[str, list[Matrix]]:
    """Matrices of one kind, in the order of the checkpoint."""
    found: dict[str, list[Matrix]] = {}
    for matrix in matrices:
        found.setdefault(matrix.kind, []).append(matrix)
    return found


def reasons(skipped: Iterable[Skipped]) -> dict[tuple[str, str], list[str]]:
    """The sites of each reason, under what was not measured and why; the commonest first.

    Reasons that differ in their numbers alone are one, with the range of each number.
    """
    found: dict[tuple[str, str], list[Skipped]] = {}
    for each in skipped:
        found.setdefault((each.what, NUMBER.sub("#", each.why)), []).append(each)
    named = {(what, _ranged([s.why for s in some])): some for (what, _), some in found.items()}
    ordered = sorted(named.items(), key=lambda item: -len(item[1]))
    return {key: [s.site for s in some] for key, some in ordered}


def _ranged(many: list[str]) -> str:
    """Sentences of one form as one: where their numbers differ, from the least to the largest."""
    slots = zip(*(NUMBER.findall(why) for why in many), strict=True)
    ends = (sorted(set(slot), key=float) for slot in slots)
    words = iter([e[0] if len(e) == 1 else f"{e[0]} to {e[-1]}" for e in ends])
    return NUMBER.sub(lambda _: next(words), many[0])


def seen(scan: Scan) -> Columns:
    """What was read of each matrix: under the name of a quantity, its readings by site.

    A quantity that was read of one matrix in several forms stands under several names, as
    `"largest angle (leading 8)"`.
    """
    own = {matrix.site for matrix in scan.matrices}
    return _named(r for r in scan.readings if r.site in own)


def pairs(scan: Scan) -> Columns:
    """The same of what was read of two matrices, or of anything else that is not one of them."""
    own = {matrix.site for matrix in scan.matrices}
    return _named(r for r in scan.readings if r.site not in own)


def ends(site: str, known: Mapping[str, int]) -> tuple[int, str, int] | None:
    """The places of the two matrices of `"a → b"`, and the sign between; None for another site.

    Names may hold the sign themselves, so that every place of it is tried.
    """
    for sign in SIGNS:
        words = site.split(sign)
        for i in range(1, len(words)):
            one, other = sign.join(words[:i]), sign.join(words[i:])
            if one in known and other in known:
                return known[one], sign.strip(), known[other]
    return None


def _named(readings: Iterable[Reading]) -> Columns:
    many = tuple(readings)
    counts = Counter(
        (r.quantity, r.site) for r in {(r.quantity, r.site, r.form): r for r in many}.values()
    )
    several = {quantity for (quantity, _), count in counts.items() if count > 1}
    found: dict[str, dict[str, Reading]] = {}
    for r in many:
        name = f"{r.quantity} ({r.form})" if r.quantity in several and r.form else r.quantity
        found.setdefault(name, {})[r.site] = r
    order = [*quantities()]
    place = lambda name: order.index(next(iter(found[name].values())).quantity)
    return {name: found[name] for name in sorted(found, key=place)}


def values(read: Mapping[str, Reading], matrices: Sequence[Matrix]) -> list[float]:
    """The numbers of these matrices, as far as there are any."""
    return [read[m.site].estimate.value for m in matrices if m.site in read]
