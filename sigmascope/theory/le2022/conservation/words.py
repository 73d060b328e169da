"""A balance in words: its formula, and why it is conserved."""

from sigmascope.probes.symmetry import Part, Passed, StillSum, Symmetry
from sigmascope.theory.le2022.conservation.invariants import Invariant

REASONS = {
    Passed.ACTIVATION: "an activation with two slopes",
    Passed.POOLING: "pooling that takes the largest",
    Passed.GAIN: "a gain of each unit",
    Passed.DATA: "numbers that differ by unit (a mask, a gate, a rotation)",
    Passed.NORMALISER: "a normaliser",
}


def formula(invariant: Invariant) -> str:
    """What is conserved, for each unit u; for pairs (u, v) as products.

    Args:
        invariant: From `invariants`.

    Source:
        Le & Jegelka 2022, (4)-(7).

    Example:
        >>> import torch
        >>> from sigmascope.theory.le2022.conservation import invariants
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        >>> formula(invariants(net, torch.ones(1, 3))[0])
        'W₂ᵀW₂ - W₁W₁ᵀ - bbᵀ with W₂ = 1.weight, W₁ = 0.weight, b = 0.bias'
    """
    what = invariant.what
    if isinstance(what, StillSum):
        axes = f" summed over axes {list(what.axes)}" if what.axes else ", every entry"
        return f"{what.tensor}{axes}"
    if invariant.diagonal:
        terms = [(p.factor, _square(p)) for p in what.parts]
        return _signed(terms)
    names: dict[str, str] = {}
    terms = [(p.factor, _gram(p, names)) for p in what.parts]
    where = ", ".join(f"{letter} = {name}" for letter, name in names.items())
    return f"{_signed(terms)} with {where}"


def _signed(terms: list[tuple[float, str]]) -> str:
    words = ""
    for factor, term in terms:
        sign = ("" if factor > 0 else "-") if not words else (" + " if factor > 0 else " - ")
        size = "" if abs(factor) == 1 else f"{abs(factor):g} "
        words += f"{sign}{size}{term}"
    return words


def _square(part: Part) -> str:
    if part.side == "entries":
        return f"{part.tensor}[u]²"
    return f"‖{part.tensor}[{'u' if part.side == 'rows' else ':, u'}]‖²"


def _gram(part: Part, names: dict[str, str]) -> str:
    kind = {"rows": "W₁", "columns": "W₂", "entries": "b"}[part.side]
    letter = kind
    while names.get(letter, part.tensor) != part.tensor:
        letter += "'"
    names[letter] = part.tensor
    return f"{letter}ᵀ{letter}" if part.side == "columns" else f"{letter}{letter}ᵀ"


def reason(invariant: Invariant) -> str:
    """Why it is conserved, and for which pairs of units.

    Args:
        invariant: From `invariants`.

    Source:
        Le & Jegelka 2022, Lemma 2 and Theorem 1.
    """
    what = invariant.what
    if isinstance(what, StillSum):
        return "what is added along these axes is subtracted again by a softmax or a mean"
    blocks = what.groups
    words = [text for flag, text in REASONS.items() if flag in what.passed]
    between = " and ".join(words) if words else "only linear maps"
    if invariant.kind == "norm":
        said = "a common factor is divided out again"
    elif invariant.kind == "layer":
        said = "all units share one factor, which the next weights divide out"
    elif blocks == what.units:
        said = f"{between} between: a factor of each unit passes to the next weights"
    elif invariant.kind == "pair":
        said = f"{between} between: units in {blocks} groups of equal patterns on these examples"
    elif blocks > 1:
        each = "head" if Passed.HEADS in what.passed else "group"
        said = f"linear within each of {blocks} {each}s: any mixing there passes on"
    else:
        said = f"{between} between: any mixing of units passes to the next weights"
    return said + ("; up to the eps of a normaliser" if what.slack else "")


def shown(what: Symmetry | StillSum) -> str:
    """How many units, and in how many blocks they mix."""
    if isinstance(what, StillSum):
        return f"{what.count}"
    blocks = what.groups
    return f"{what.units}" if blocks in (1, what.units) else f"{what.units} ({blocks} groups)"
