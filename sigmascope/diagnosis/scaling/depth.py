"""Which weights scale with depth as they should, and who is to blame where they do not.

The idea: layers that repeat add to one residual stream. What L of them add at initialisation adds
up like a random walk, to √L, and what training changes of them adds up like L, since every change
lowers one loss. Training stays the same in deeper models where both sums do: with branches scaled
by 1/√L (or 1/L) and rates to match. So weights are read by role, all that differ by the number of
their layer alone together: what the first step of all of one role does to the output. As it may be
large, it is read of a small part of the step, whose effect is in proportion. The residual stream is
read by its sums, as the model runs: whatever is added to something of the same shape is a branch,
and the layer that wrote it is who to scale. The invariant: rates are judged once the stream is in
order, for before that they only suffer from it.

Beside it stand what two of the papers measure of depth: the rank of the last representation
(Daneshmand et al. 2020) and how unevenly the layers behind let the first one learn (Riedi et al.
2022).

Source: Yang et al. 2023, Tensor programs VI; Bordelon et al. 2023, Depthwise hyperparameter
transfer in residual networks.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.programs.optimizers import Recipe
from sigmascope.diagnosis.scaling.exponents import ScalingLaw, power_law
from sigmascope.diagnosis.scaling.measuring import (
    EARLY,
    LATE,
    OUTPUT,
    ROUNDINGS,
    Seen,
    WeightReadings,
    holding,
    parallel,
    read_degrees,
    rms,
    watched,
)
from sigmascope.diagnosis.scaling.results import (
    BRANCHES,
    CHAIN,
    CHANGED,
    EFFECT,
    RATE,
    STREAM,
    Obstacle,
    Roles,
    Verdict,
    WeightScaling,
    Widths,
)
from sigmascope.diagnosis.training.runs import TrainingSamples, started
from sigmascope.linalg.ranks import effective_rank
from sigmascope.linalg.spectra import spectrum
from sigmascope.models.layers import called, rounding
from sigmascope.models.samples import Batch, as_tensor, chosen
from sigmascope.models.state import duplicate, still
from sigmascope.survey.profiling import profile

# what finite depth does is as usual at depth 4; of means it falls by 1/L, hardly by a root
USUAL, ROOT, INVERSE = 4, 0.1, 0.5
SMALL = 0.02  # beside the output: a change whose effect is in proportion
FALLS = 0.5  # of the rank of the last representation, which is much
ANOTHER = 0.2  # between logarithms of initial sizes, from which they are of another law
CLOSE = 0.01  # beside what a layer writes: half of its weights write half of it
SAMPLES, PLACES = 8, 512  # for the layer factor and for the rank
RANK, FACTOR = "rank of the last representation", "layer factor"
ADDS = {torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__}


@dataclass(slots=True)
class DepthReadings:
    """Of one depth and seed.

    Attributes:
        weights: By role; the residual stream and the output among them.
        members: How many weights each role has.
        writers: Roles that write branches, as the model stands.
        losses: Before every step.
        beside: Numbers of other views.
        unread: What could not be had, and why.
    """

    weights: dict[str, WeightReadings]
    members: Mapping[str, int]
    writers: frozenset[str]
    losses: list[float]
    beside: dict[str, float] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


def roles_of(models: Sequence[nn.Module]) -> tuple[Roles, frozenset[str]]:
    """How weights of all depths are named alike, and of which there are more in deeper models.

    Raises:
        Refusal: If deeper models have no more of any weight, or others.
    """
    own = [dict(model.named_parameters()) for model in models]
    for number in (r"(?<![^.])\d+(?![^.])", r"\d+"):  # `layers.3.weight`, else `layer3.weight`
        counted = _counted(number, own[0], own[-1])
        for shaped in (False, True):
            roles = Roles(number, counted, shaped)
            counts = [Counter(roles.of(n, p) for n, p in some.items()) for some in own]
            alike = all(set(some) == set(counts[0]) for some in counts)
            # a role of several shapes mixes what a numbered sequence has before and behind layers
            shapes = {(roles.of(n, p), p.shape) for n, p in own[0].items()}
            if alike and counted and (shaped or len(shapes) == len(counts[0])):
                return roles, frozenset(r for r in counts[0] if counts[-1][r] > counts[0][r])
    sizes = [sum(p.numel() for p in some.values()) for some in own]
    if len(set(sizes)) == 1:
        raise Refusal(
            "`make` must give a deeper model at another depth, got as many weights at every depth. "
            "Use its argument; layers that are one layer run several times have one weight."
        )
    raise Refusal(
        "`make` must give more of the same layers at another depth, got weights of other names or "
        "shapes at one depth alone. Keep widths as they are, and hold layers in a list "
        "(`nn.ModuleList`), so that their names differ by a number."
    )


def _counted(number: str, few: Iterable[str], many: Iterable[str]) -> tuple[str, ...]:
    """Beginnings of names behind which deeper models have more numbers."""
    counted: tuple[str, ...] = ()
    blank = torch.empty(0)
    while True:
        roles, sides = Roles(number, counted, False), []
        for names in (few, many):
            seen: dict[str, set[str]] = {}
            for name in names:
                for found in re.finditer(number, name):
                    # what comes before is decided already, but for the last time round
                    start = roles.of(name[: found.start()], blank)
                    seen.setdefault(start, set()).add(found[0])
            sides.append(seen)
        more = {s for s, found in sides[1].items() if len(found) > len(sides[0].get(s, found))}
        if more <= {*counted}:
            return counted
        counted = tuple(sorted({*counted, *more}))


class _Sums(TorchFunctionMode):
    """Sees what a layer has just written be added to something of the same shape.

    Attributes:
        writers: The layers whose output was added.
        ends: The stream before the first addition and behind the last, for each shape of it.
    """

    def __init__(self, seen: dict[str, Seen], repeated: Collection[str]) -> None:
        super().__init__()
        self.seen, self.repeated = seen, repeated
        self.writers: set[str] = set()
        self.ends: dict[torch.Size, tuple[Tensor, Tensor]] = {}
        self.done: dict[str, Seen] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it, and note who wrote what is added."""
        named = dict(kwargs or {})
        a, b = (*args, named.get("other"))[:2] if args else (None, None)
        if (
            func not in ADDS
            or not isinstance(a, Tensor)
            or not isinstance(b, Tensor)
            or not (a.shape == b.shape and a.ndim > 1 and a.is_floating_point())
        ):
            return func(*args, **named)
        with torch._C.DisableTorchFunctionSubclass():
            ones = [self._writer(t) for t in (a, b)]
            writers = {n for n in ones if n is not None}
            stream = b if ones[0] and not ones[1] else a
            if writers and stream.shape not in self.ends:  # it may be added to in place
                self.ends[stream.shape] = (stream.detach().clone(), stream)
        result = func(*args, **named)
        if writers:
            self.done = dict(self.seen)
            self.writers |= writers
            # nor is the result safe from what comes later
            self.ends[result.shape] = (self.ends[result.shape][0], result.detach().clone())
        return result

    def _writer(self, t: Tensor) -> str | None:
        """The layer that wrote this, or a multiple of it, since the last addition."""
        for name, call in reversed(self.seen.items()):
            if self.done.get(name) is call or name not in self.repeated:
                continue
            # what holds another layer that was called writes nothing by weights of its own
            holds = any(other.startswith(f"{name}.") for other in self.seen)
            if not holds and parallel(call.output, t):
                return name
        return None


def read_run(
    model: nn.Module,
    recipe: Recipe,
    data: TrainingSamples,
    steps: int,
    *,
    roles: Roles,
    repeated: Collection[str],
    shared: dict[str, Tensor],
    clip: float | None = None,
    curves: bool = False,
) -> DepthReadings:
    """A few steps of training of a copy, and what they did.

    Args:
        model: Left as it is.
        recipe: Makes its optimizer.
        data: It is trained on batches of these, and read on the first.
        steps: So many.
        roles: How its weights are named.
        repeated: Roles of which deeper models have more.
        clip: Norm to which gradients are clipped.
        shared: Initial weights of the smallest model of the same seed, by role: what all depths
            have is the same in all, so that what it draws cancels.
        curves: Whether to read the layer factor, which takes longer than all else.
    """
    model = duplicate(model)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if (key := roles.of(name, p)) not in repeated:
                drawn = shared.setdefault(key, p.detach().clone())
                if drawn.shape == p.shape and rms(drawn) > 0:
                    ratio = rms(p) / rms(drawn)
                    p.copy_(drawn * (ratio if abs(math.log(ratio or 1)) > ANOTHER else 1.0))
    run = started(model, recipe, data.size, clip=clip)
    batch, _ = next(data.draws(data.size))
    copy = run.model
    own = {n: p for n, p in copy.named_parameters() if p.requires_grad}
    role = {n: roles.of(n, p) for n, p in own.items()}
    before = {n: p.detach().clone() for n, p in own.items()}
    modules = dict(copy.named_modules())
    # attention of torch's own calls no projection as a layer: it writes what they hold
    above = lambda h: [h, *([h.rpartition(".")[0]] if "." in h else ())]
    every = dict(copy.named_parameters(remove_duplicate=False))
    names = {n: above(_holder(n)) for n in every}
    owners = {h: modules[h] for many in names.values() for h in many if h in modules and h}
    branch = {h for n in own if role[n] in repeated for h in names[n]}
    with still(copy), torch.no_grad(), watched(owners) as seen:
        sums = _Sums(seen, branch)
        with sums:
            out = as_tensor(called(copy, batch))[0].detach()
        wrote = {n for w in sums.writers for n in _proportional(w, modules[w], seen[w])}
        last = next((c for c in reversed(seen.values()) if parallel(c.output, out)), None)
    found = {r: WeightReadings(tuple(own[n].shape)) for n, r in role.items()}
    readings = DepthReadings(
        found, Counter(role.values()), frozenset(role[n] for n in wrote if n in role), []
    )
    if sums.ends:
        found[STREAM] = WeightReadings(values=_stream(sums.ends.values()))
    if last is not None and last.read is not None and last.read.is_floating_point():
        rows = last.read.detach().flatten(0, -2)[:PLACES].double()
        if rows.ndim == 2 and bool(rows.isfinite().all()) and bool(rows.any()):
            readings.beside[RANK] = effective_rank(spectrum(rows)).value
    if curves:
        _read_factor(model, batch, branch, readings)
    degrees = {n: WeightReadings() for n in own}

    def output(values: Mapping[str, Tensor]) -> Tensor:
        with holding(copy, values):
            return as_tensor(called(copy, batch))[0].detach()

    for step in range(1, steps + 1):
        run.go_on(data, step)
        if not run.finite or run.steps < step:
            break
        if step == 1:
            read_degrees(run, model, before, degrees)  # a copy already, and asked no more
        ends = [end for end, at in ((LATE, step == steps), (EARLY, step < 3)) if at]
        if not ends:
            continue
        now = {n: p.detach().clone() for n, p in own.items()}
        with still(copy), torch.no_grad():
            moved = output({})
            if not bool(moved.isfinite().all()):
                continue
            found.setdefault(OUTPUT, WeightReadings(values={"written": rms(out)}))
            for end in ends:
                found[OUTPUT].values.setdefault(f"changed{end}", rms(moved - out))
            for name, one in found.items():
                changes = {n: now[n] - before[n] for n, r in role.items() if r == name}
                missing = [end for end in ends if f"effect{end}" not in one.values]
                if missing and (effect := _effect(output, before, changes, out)) > 0:
                    one.values |= {f"effect{end}": effect for end in missing}
    for name, one in degrees.items():
        if "degree" in one.values:
            found[role[name]].values.setdefault("degree", one.values["degree"])
    readings.losses = [*run.losses]
    return readings


def _read_factor(
    model: nn.Module, batch: Batch, layers: Collection[str], readings: DepthReadings
) -> None:
    """How unevenly what lies behind lets the first of these layers learn."""
    try:
        found = profile(model, chosen(batch, torch.arange(SAMPLES)), views=["conditioning"])
    except Refusal as refusal:
        readings.unread[FACTOR] = str(refusal)
        return
    factors = [r for r in found.readings if r.quantity == q.LAYER_FACTOR and r.site in layers]
    if factors:
        readings.beside[FACTOR] = factors[0].estimate.value
    else:
        readings.unread[FACTOR] = next(
            (s.why for s in found.skipped), "no repeated layer has one in the view `conditioning`"
        )


def _effect(
    output: Callable[[Mapping[str, Tensor]], Tensor],
    before: Mapping[str, Tensor],
    changes: Mapping[str, Tensor],
    out: Tensor,
) -> float:
    """What changes of some weights do to the output, in proportion to a small part of them."""
    if not any(bool(c.any()) for c in changes.values()):
        return 0.0
    part, size, effect = 1.0, rms(out), 0.0
    for _ in range(4):
        values = {n: before[n] + part * c for n, c in changes.items()}
        effect = rms(output({**before, **values}) - out)
        if not math.isfinite(effect):
            part /= 1024
        elif size > 0 and effect > SMALL * size:
            part *= SMALL / 2 * size / effect
        else:
            break
    known = math.isfinite(effect) and effect > rounding(out.dtype, ROUNDINGS) * size
    return effect / part if known else 0.0


def _holder(name: str) -> str:
    """The module that holds a weight; of one that is computed, the module that uses it."""
    parts = name.split(".")[:-1]
    return ".".join(
        parts[: parts.index("parametrizations")] if "parametrizations" in parts else parts
    )


def _proportional(name: str, module: nn.Module, call: Seen) -> list[str]:
    """Weights of a layer in proportion to which it writes: the last of them that do."""
    own = dict(module.named_parameters())
    for group in reversed(dict.fromkeys(map(_holder, own))):
        half = {n: p.detach() / 2 for n, p in own.items() if _holder(n) == group}
        with suppress(Exception), holding(module, half):  # a layer may take no other weight
            wrote = as_tensor(module(*call.args, **call.named))[0]
            if rms(2 * wrote - call.output) < CLOSE * rms(call.output):
                return [f"{name}.{n}" for n in half]
    return []


def _stream(ends: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """What all branches add, beside what the first one is added to."""
    shares = [rms(end - start) / rms(start) for start, end in ends if rms(start) > 0]
    return {CHANGED: math.sqrt(sum(s * s for s in shares))} if shares and max(shares) > 0 else {}


def judged(
    runs: Mapping[int, Sequence[DepthReadings]], roles: Roles, steps: int, optimizer: str
) -> Widths:
    """What the runs of all depths say together."""
    depths = tuple(sorted(runs))
    first, last = runs[depths[0]][0], runs[depths[-1]][0]
    rows = {
        name: _judged(name, by, repeated=last.members[name] > first.members[name])
        for name in first.weights
        if name != OUTPUT
        and (by := {d: [run.weights.get(name) for run in many] for d, many in runs.items()})
    }
    output = {
        name: law
        for name in ("written", f"changed{EARLY}", f"changed{LATE}")
        if (law := _law({d: [r.weights.get(OUTPUT) for r in runs[d]] for d in depths}, name))
    }
    beside = {
        name: tuple(runs[d][0].beside[name] for d in depths)
        for name in (RANK, FACTOR)
        if all(name in runs[d][0].beside for d in depths)
    }
    skipped = {n: why for many in runs.values() for run in many for n, why in run.unread.items()}
    skipped |= {r.name: r.why for r in rows.values() if r.verdict == "cannot be told"}
    obstacles, initial, rates = _accused(rows, last, beside, depths)
    mean = lambda many, at: sum(run.losses[at] for run in many) / len(many)
    return Widths(
        depths, len(runs[depths[0]]), steps, optimizer, tuple(rows.values()), tuple(obstacles),
        MappingProxyType(output),
        MappingProxyType({d: (mean(many, 0), mean(many, -1)) for d, many in runs.items()}),
        MappingProxyType(skipped), MappingProxyType(initial), MappingProxyType(rates),
        axis="depth", roles=roles, beside=MappingProxyType(beside),
    )  # fmt: skip


By = Mapping[int, Sequence[WeightReadings | None]]  # readings of one role, by depth


def _law(by: By, name: str, twice: float = 1.0) -> ScalingLaw | None:
    values = {d: [o.values.get(name, 0.0) if o else 0.0 for o in ones] for d, ones in by.items()}
    return power_law(values, usual=USUAL, root=ROOT, inverse=INVERSE * twice, paired=True)


def _judged(name: str, by: By, *, repeated: bool) -> WeightScaling:
    """One role, by itself."""
    degrees = [
        o.values["degree"] for ones in by.values() for o in ones if o and "degree" in o.values
    ]
    degree = sum(degrees) / len(degrees) if degrees else None
    # what finite depth does acts on the gradient too where steps go by its size
    twice = 1 + max(degree or 0.0, 0.0)
    read = {EFFECT: f"effect{EARLY}", f"effect{LATE}": f"effect{LATE}", CHANGED: CHANGED}
    laws = {name: law for name, of in read.items() if (law := _law(by, of, twice))}
    kind = "product" if name == STREAM else "repeated" if repeated else "single"
    main = laws.get(CHANGED if kind == "product" else EFFECT)
    effects = {
        d: [o.values.get(f"effect{EARLY}", 0.0) for o in many if o] for d, many in by.items()
    }
    # the verdict in a word, and what it rests on
    verdict: Verdict = "cannot be told"
    at = "" if main is None else main.says
    of_stream = kind == "product"
    what = "what all layers add to the stream at first" if of_stream else "what its change does"
    if main is None:
        why = "its change was zero, or not finite, in a run"
        if any(effects[min(by)]) and not any(effects[max(by)]):
            verdict, why = "vanishing", f"its change did nothing to the output at depth {max(by)}"
    elif main.is_sure("grows"):
        verdict, why = "exploding", f"{what} grows with depth: {at}"
    elif main.is_sure("falls") and of_stream:
        # as with branches scaled by 1/L, where training makes up for it
        verdict, why = "maximal", f"{what} fades with depth, as it may: {at}"
    elif main.is_sure("falls"):
        verdict, why = "lazy", f"{what} fades with depth: {at}"
    elif main.is_sure("stays"):
        verdict, why = "maximal", f"{what} is the same at every depth: {at}"
    elif not main.fits:
        why = f"the readings follow no power of depth: {at}"
    else:
        why = f"the exponent may be 0 or not: {at}; {main.would_tell('depth')}"
    told = read[CHANGED if kind == "product" else EFFECT]
    mean = lambda many: math.exp(sum(math.log(o.values[told]) for o in many if o) / len(many))
    curve = tuple(mean(by[d]) for d in sorted(by)) if main is not None else ()
    shape = next((" x ".join(map(str, o.shape)) for o in by[min(by)] if o), "")
    return WeightScaling(
        name, kind, shape, curve, MappingProxyType(laws), 0.0, degree, verdict, why
    )


def _accused(
    rows: Mapping[str, WeightScaling],
    last: DepthReadings,
    beside: Mapping[str, Sequence[float]],
    depths: Sequence[int],
) -> tuple[list[Obstacle], dict[str, float], dict[str, float]]:
    """Who is to blame, and by which powers of depth they would have to be changed."""
    stream = rows.get(STREAM)
    if stream is None:
        ranks = beside.get(RANK, ())
        odd = any(r.verdict in ("exploding", "lazy", "vanishing") for r in rows.values())
        if not odd and not (ranks and ranks[-1] < FALLS * ranks[0]):
            return [], {}, {}
        says = (
            "nothing that a repeated layer writes is added to what it reads, so that what a step "
            "does depends on depth"
        )
        if ranks:
            falls = f": {ranks[0]:.3g} at depth {depths[0]}, {ranks[-1]:.3g} at {depths[-1]}"
            says += f", and the effective rank of the last representation with it{falls}"
        cure = "Add what layers write to what they read (a skip connection), divided by √depth."
        return [Obstacle("(layers)", CHAIN, says, 0.0, cure)], {}, {}
    law = stream.laws.get(CHANGED)
    if law is not None and law.is_sure("grows"):
        # scaled by 1/√L even what grows as (1 + c)^L is of one size; what then still grows is
        # found as the cure is measured
        power = 0.5
        e = law.exponent
        writers = [n for n in rows if n in last.writers]
        grows = (
            f"by a power {e.value:+.2f} of depth" if law.fits else "faster than a power of depth"
        )
        says = f"what the layers add to the residual stream at first grows {grows}"
        cure = f"Divide what each layer adds by √r: multiply it by r ** {-power:g}"
        if writers:
            cure += f", as by its last weights, {', '.join(writers)}"
        cure += ". Rates are judged once that is done (`cure`)."
        return [Obstacle(STREAM, BRANCHES, says, power, cure)], dict.fromkeys(writers, -power), {}
    rates: dict[str, float] = {}
    found: list[Obstacle] = []
    for row in rows.values():
        effect = row.laws.get(EFFECT)
        if row.degree is None or effect is None or not effect.fits or not effect.nearest:
            continue
        if effect.is_sure("grows") or effect.is_sure("falls"):
            power = effect.nearest
            word = "too large" if power > 0 else "too small"
            says = f"{row.name}: its learning rate is {word} by a power {abs(power):g} of depth"
            cure = f"Multiply its learning rate by r ** {-power:g}."
            found.append(Obstacle(row.name, RATE, says, power, cure))
            rates[row.name] = -power
    return sorted(found, key=lambda o: -abs(o.exponent)), {}, rates
