"""Which weights scale with width as they should, and who is to blame where one does not.

The idea: where training is the same at every width, what a weight's change does to what its layer
writes neither grows nor fades with width, from the first step on, and its initial weights pass
changes on without enlarging them. Each is a power of width (`exponents`), read at a few widths and
seeds (`measuring`). The exponent says whether a weight is in order; what is its own says who is to
blame: its rate, by the size of its step beside its gradient; its initial scale, by what it makes of
changes that it is handed. A weight that only suffers from another, as from a gradient that arrives
too large, is not accused. The invariant: nobody is accused by an exponent that the readings do not
tell from zero.

Source: Yang, Simon & Bernstein 2023, A spectral condition for feature learning; Yang & Hu 2021,
Tensor programs IV, and Yang et al. 2022, V, for the exponents of the maximal parametrisation.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.scaling.exponents import ScalingLaw, power_law
from sigmascope.diagnosis.scaling.measuring import EARLY, LATE, OUTPUT, RunReadings, WeightReadings
from sigmascope.diagnosis.scaling.results import (
    ATTENTION,
    CARRIED,
    CHANGED,
    EFFECT,
    EPSILON,
    INITIAL,
    RATE,
    Kind,
    Obstacle,
    Verdict,
    WeightScaling,
    Widths,
)

FORWARD, GAIN = "forward", "gain"
PER_GRADIENT, GRADIENT = "step per gradient", "gradient"
STEEP = 0.5  # a degree above which an optimizer is taken to move by the gradient's size
LIKELY = 0.5  # certainty that what a layer reads is of one size, without which it is not accused
BLUR = 0.1  # by which the degree grows with width where a constant beside the gradient matters
OWNERLESS = (
    "the whole model holds it, so that what it does by itself cannot be read: give it to a layer"
)

By = Mapping[int, Sequence[WeightReadings]]  # readings of one weight, by width


def judged(runs: Mapping[int, Sequence[RunReadings]], steps: int, optimizer: str) -> Widths:
    """What the runs of all widths say together.

    Raises:
        Refusal: If they are not of the same weights, or of the same sizes all of them.
    """
    sizes_of = tuple(sorted(runs))
    names = [[n for n in run.weights if n != OUTPUT] for many in runs.values() for run in many]
    if any(some != names[0] for some in names):
        odd = sorted(set(names[0]) ^ set(next(some for some in names if some != names[0])))
        raise Refusal(
            "`make` must give the same weights at every width, of other sizes, got some at one "
            f"width alone: {', '.join(odd[:4]) or 'in another order'}. Change nothing but the "
            "width."
        )
    of = {
        name: {w: [run.weights[name] for run in many] for w, many in runs.items()}
        for name in names[0]
    }
    # the powers of width by which what each sums over, and what it writes, grow
    small, large = sizes_of[0], sizes_of[-1]
    sizes: dict[str, tuple[float, float]] = {}
    for name, by in of.items():
        sides = zip(*(by[w][0].features for w in (small, large)), strict=True)
        reads, writes = (math.log(b / max(a, 1)) / math.log(large / small) for a, b in sides)
        sizes[name] = round(reads, 2), round(writes, 2)
    if not any(any(powers) for powers in sizes.values()):
        raise Refusal(
            f"`make` must give another model at another width, got the same sizes at "
            f"{small} and {large}. Use its argument."
        )
    degrees = [d for by in of.values() if (d := _degree(by)) is not None]
    usual = sum(degrees) / len(degrees) if degrees else None
    rows: list[WeightScaling] = []
    for name, by in of.items():
        asks = [r for r in rows if next(iter(of[r.name].values()))[0].asks]
        steep = any((r.degree or 0.0) > STEEP for r in asks)
        rows.append(_judged(name, by, sizes[name], usual, steep=steep))
    laws = {}
    if all(OUTPUT in run.weights for many in runs.values() for run in many):
        by = {w: [run.weights[OUTPUT] for run in many] for w, many in runs.items()}
        laws = _laws(by, ("written", f"changed{EARLY}", f"changed{LATE}"))
    shared = {n: many for run in runs[sizes_of[0]] for many in run.shared for n in many}
    obstacles, initial, rates = _accused(rows, of, shared)
    mean = lambda many, at: sum(run.losses[at] for run in many) / len(many)
    losses = {w: (mean(many, 0), mean(many, -1)) for w, many in runs.items()}
    skipped = {n: why for many in runs.values() for run in many for n, why in run.unread.items()}
    skipped |= {r.name: r.why for r in rows if r.verdict == "cannot be told"}
    return Widths(
        sizes_of, len(runs[sizes_of[0]]), steps, optimizer, tuple(rows), tuple(obstacles),
        MappingProxyType(laws), MappingProxyType(losses), MappingProxyType(skipped),
        MappingProxyType(initial), MappingProxyType(rates),
    )  # fmt: skip


def _laws(by: By, names: Sequence[str]) -> dict[str, ScalingLaw]:
    found = {}
    for name in names:
        if all(name in one.values for many in by.values() for one in many):
            law = power_law({w: [one.values[name] for one in many] for w, many in by.items()})
            if law is not None:
                found[name] = law
    return found


def _degree(by: By) -> float | None:
    """By which power of the gradient a weight moves; None where it did not in the first step."""
    known = [o.values["degree"] for many in by.values() for o in many if "degree" in o.values]
    return sum(known) / len(known) if known else None


def _judged(
    name: str, by: By, growth: tuple[float, float], usual: float | None, *, steep: bool
) -> WeightScaling:
    """One weight, by itself.

    Args:
        name: Of it.
        by: What was read of it.
        growth: Of what it sums over and of what it writes, as powers of width.
        usual: By which power of the gradient weights move, where this one did not at first.
        steep: Whether queries and keys move by the size of a gradient.
    """
    ones = [one for many in by.values() for one in many]
    first = ones[0]
    reads, writes = (g > 0.1 for g in growth)
    kind: Kind = "input" if writes else "fixed"
    if not first.shape and name.startswith("("):
        kind = "product"
    elif len(first.shape) < 2:
        kind = "vector" if writes else "fixed"
    elif reads:
        kind = "hidden" if writes else "output"
    degree = None if kind == "product" else usual if (own := _degree(by)) is None else own
    steep = steep if kind == "product" else (degree or 0.0) > STEEP
    for one in ones:
        v = one.values
        if f"effect{EARLY}" in v:
            v[EFFECT] = v[f"effect{EARLY}"]
        elif f"effect{LATE}" in v:
            v[EFFECT] = v[f"effect{LATE}"]
        if EFFECT in v:
            beside = 1.0
            if len(first.shape) > 1 and v.get("read", 0) > 0:
                beside = v["read"] ** (2 if steep else 1)
            v[GAIN] = v[EFFECT] / beside
        if v.get("gradient", 0) > 0 and f"change of entry{EARLY}" in v:
            v[PER_GRADIENT] = v[f"change of entry{EARLY}"] / v["gradient"]
        if v.get("read", 0) > 0 and v.get("written", 0) > 0 and len(first.shape) > 1:
            v[FORWARD] = v["written"] / v["read"]
        if f"carried{EARLY}" in v or f"carried{LATE}" in v:
            v[CARRIED] = v.get(f"carried{EARLY}", v.get(f"carried{LATE}", 0.0))
        if f"changed{EARLY}" in v or f"changed{LATE}" in v:
            v[CHANGED] = v.get(f"changed{EARLY}", v.get(f"changed{LATE}", 0.0))
    read = (EFFECT, f"effect{LATE}", GAIN, CARRIED, FORWARD, GRADIENT, PER_GRADIENT, CHANGED)
    more = ("norm of weight", "stable rank of weight", "norm of change", "stable rank of change")
    laws = _laws(
        by,
        (
            *read,
            "written",
            "read",
            "initial entry",
            "alignment",
            *more[:2],
            *(f"{m}{EARLY}" for m in more[2:]),
        ),
    )
    # queries meet keys by chance at first: their gradients, and what scores change by, are smaller
    # by a root of the width than once values have learned
    theory = -0.5 if (first.asks or kind == "product") and steep else 0.0
    if kind != "product" and not first.owner and sum(bool(n) for n in first.shape) > 1:
        verdict, why = "cannot be told", OWNERLESS
    else:
        verdict, why = _verdict(kind, laws, theory, is_last=first.is_last)
    sides = [" x ".join(map(str, by[w][0].shape)) for w in (min(by), max(by))]
    shape = f"{sides[0]} to {sides[1]}" if first.shape else ""
    told = CHANGED if kind == "product" else EFFECT
    mean = lambda many: math.exp(sum(math.log(o.values[told]) for o in many) / len(many))
    curve = tuple(mean(by[w]) for w in sorted(by)) if told in laws else ()
    laws = MappingProxyType(laws)
    return WeightScaling(name, kind, shape, curve, laws, theory, degree, verdict, why)


def _verdict(
    kind: Kind, laws: Mapping[str, ScalingLaw], theory: float, *, is_last: bool
) -> tuple[Verdict, str]:
    """In a word, and what it rests on."""
    main = laws.get(CHANGED if kind == "product" else EFFECT)
    if main is None:
        return "cannot be told", "its change was zero, or not finite, in a run"
    beside, read = laws.get(GAIN), laws.get("read")
    if beside is not None and (read is None or read.is_sure("stays")):
        # beside what it read, which is the same at every width, where that is the clearer
        reach = lambda law: law.exponent.high - law.exponent.low
        main = min((main, beside), key=reach)
    carried, written = laws.get(CARRIED), laws.get("written")
    if main.is_sure("grows"):
        return "exploding", f"what its change does grows with width: {main.says}"
    if carried is not None and carried.is_sure("grows"):
        return "exploding", f"its initial weights enlarge changes with width: {carried.says}"
    if written is not None and not is_last and kind in ("input", "hidden"):
        if written.is_sure("grows"):
            return "exploding", f"what it writes at first grows with width: {written.says}"
        if written.is_sure("falls"):
            return "vanishing", f"what it writes at first fades with width: {written.says}"
    as_theory = theory < 0 and main.nearest in (theory, 2 * theory)
    if main.is_sure("falls") and not as_theory:
        return "lazy", f"what its change does fades with width: {main.says}"
    if main.is_sure("stays") or as_theory:
        return "maximal", f"what its change does is the same at every width: {main.says}"
    if not main.fits:
        return "cannot be told", f"the readings follow no power of width: {main.says}"
    return (
        "cannot be told",
        f"the exponent may be 0 or not: {main.says}; {main.would_tell('width')}",
    )


def _accused(
    rows: Sequence[WeightScaling], of: Mapping[str, By], shared: Mapping[str, Sequence[str]]
) -> tuple[list[Obstacle], dict[str, float], dict[str, float]]:
    """Who is to blame, and by which powers of width they would have to be changed."""
    found: list[Obstacle] = []
    initial: dict[str, float] = {}
    rates: dict[str, float] = {}
    for row in rows:
        name, ones = row.name, of[row.name]
        if row.kind == "product":
            moved = row.laws.get(CHANGED)
            if moved is not None and moved.is_sure("grows"):
                says = (
                    f"{name[1:-1]} change by a power {moved.exponent.value:+.2f} of width: queries "
                    "and keys come to agree in training, so that their products grow as the width "
                    "of a head, for which a division by its root is not enough"
                )
                cure = "Divide scores by the width of a head, not by its root."
                found.append(Obstacle(name, ATTENTION, says, moved.nearest, cure))
            continue
        if row.why == OWNERLESS:
            continue
        others = [n for n in shared.get(name, ()) if n != name]
        tied = f"; it is one weight with {', '.join(others)}, where it does something else"
        apart = "Give it a weight of its own, or multiply what it writes by a power of r."
        if (off := _initial_off(row, ones[min(ones)][0])) is not None:
            law, words = off
            cure = apart if others else f"Multiply its initial weights by r ** {-law.nearest:g}."
            says = f"{name}: {words}{tied if others else ''}"
            found.append(Obstacle(name, INITIAL, says, law.nearest, cure))
            if not others:
                initial[name] = -law.nearest
        if (power := _rate_off(row)) is None:
            continue
        degrees = [
            sum(one.values.get("degree", 0.0) for one in ones[w]) / len(ones[w])
            for w in (min(ones), max(ones))
        ]
        if power < 0 and (row.degree or 0.0) < STEEP + BLUR and degrees[1] > degrees[0] + BLUR:
            says = (
                f"{name}: its gradient falls with width to the size of the optimizer's epsilon, "
                "beside which it moves less"
            )
            cure = "Divide epsilon by the width, or make it as small as 1e-12."
            found.append(Obstacle(name, EPSILON, says, power, cure))
            continue
        word = "too large" if power > 0 else "too small"
        says = f"{name}: its learning rate is {word} by a power {abs(power):g} of width"
        cure = apart if others else f"Multiply its learning rate by r ** {-power:g}."
        found.append(Obstacle(name, RATE, says + (tied if others else ""), power, cure))
        if not others:
            rates[name] = -power
    return sorted(found, key=lambda o: -abs(o.exponent)), initial, rates


def _initial_off(row: WeightScaling, first: WeightReadings) -> tuple[ScalingLaw, str] | None:
    """By which power of width initial weights are off."""
    if len(first.shape) < 2:
        return None
    carried, forward = row.laws.get(CARRIED), row.laws.get(FORWARD)
    if carried is not None and carried.is_sure("grows"):
        return carried, (
            f"its initial weights enlarge what training changes before it by a power "
            f"{carried.exponent.value:+.2f} of width"
        )
    if first.is_last or forward is None or row.kind == "output":
        return None
    entry, usual = row.laws.get("initial entry"), -0.5 if row.kind == "hidden" else 0.0
    for side, word in (("grows", "grows"), ("falls", "fades")):
        # of several weights of a layer, the one whose entries are not as they should be
        ours = entry is None or (entry.nearest - usual) * (1 if side == "grows" else -1) > 0
        if ours and forward.is_sure(side):  # pyright: ignore[reportArgumentType]
            return forward, (
                f"what it writes at first, beside what it reads, {word} by a power "
                f"{forward.exponent.value:+.2f} of width"
            )
    return None


def _rate_off(row: WeightScaling) -> float | None:
    """By which power of width a learning rate is off; None where it is in order, or a victim."""
    if row.degree is None:  # an optimizer that looks for its steps itself
        return None
    read = row.laws.get("read")
    if read is not None and row.kind in ("hidden", "output") and read.stays < LIKELY:
        return None  # what it reads is another thing at each width, as where biases outweigh
    gain = row.laws.get(GAIN)
    sure = gain is not None and (gain.is_sure("grows") or gain.is_sure("falls"))
    if not row.degree > STEEP:
        return gain.nearest if gain is not None and sure and gain.nearest else None
    own = row.laws.get(PER_GRADIENT)
    # where a gradient of another size makes up for it, as a multiplier does, nothing is wrong
    if own is None or (gain is not None and gain.is_sure("stays")):
        return None
    usual = {"input": 1.0, "vector": 1.0, "output": -1.0}.get(row.kind, 0.0)
    return own.nearest - usual or None
