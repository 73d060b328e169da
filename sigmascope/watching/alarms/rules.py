"""Every alarm, listed by hand, with the thresholds that were measured (docs/watching.md).

And which of them are in force.
"""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Finding, Kind, Reading, Severity
from sigmascope.watching.alarms.tracks import TINY, YOUNG, Track, Tracks, TrainedMatrix
from sigmascope.watching.sinks import LOSS, OPTIMIZER, OVER, WHOLE, Column

# ------------------------------------------------------------------------------
# What a rule says of a look.


Shown = tuple[str, str, str]  # quantity, site and form of a reading


@dataclass(frozen=True, slots=True)
class Sign:
    """What a rule sees.

    Attributes:
        sure: It is there.
        calm: Nothing of it is left; a rule may be neither sure nor calm.
        site: Where it is worst, or was first.
        says: One plain sentence.
        shown: Quantity, site and form of the readings that show it.
        unheard: Whether it means something only if the loss rises, and no loss was handed in.
    """

    sure: bool
    calm: bool = False
    site: str = ""
    says: str = ""
    shown: tuple[Shown, ...] = ()
    unheard: bool = False


CALM = Sign(sure=False, calm=True)
UNSURE = Sign(sure=False)


@dataclass(frozen=True)
class AlarmRule(ABC):
    """One kind of alarm.

    Attributes:
        name: Of the alarm.
        speaks: When it begins, in words.
        severity: Of its findings; of what means something only if the loss rises it is a note as
            long as no loss was handed in.
        reads: Quantities; at a look that has none of them the rule is not asked.
        patience: Looks in a row at which it must be sure before the alarm begins.
        rest: Looks in a row at which it must be calm before the alarm ends.
        ends: What is said then, where it is not that things are as usual.
        source: Author, year and place.
        remedies: What to do.
    """

    name: str
    speaks: str
    severity: Severity
    reads: frozenset[str]
    source: str
    remedies: tuple[str, ...]
    patience: int = 2
    rest: int = 5
    ends: str = ""

    @abstractmethod
    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """What it sees now; None where there is nothing to look at yet."""


# ------------------------------------------------------------------------------
# Alarms of one quantity that leaves what it was.


CALMER = 0.5  # of the way: below, it is as usual again


@dataclass(frozen=True)
class Deviation(AlarmRule):
    """A quantity at some layer that is far from what is usual of it, or from what it was at first.

    Attributes:
        quantity: Which.
        form: Of its readings; all forms if empty.
        up: Whether larger is worse.
        usual: At least so many times the usual value, or for shares so much more; None if it is
            not compared with that.
        score: And so many usual distances from it.
        first: At least so many times the value at first, or for shares so much more.
        beyond: And beyond this value.
        alone: Whether it is an alarm also while the loss does not rise.
        unlearned: Whether it is one while the loss is still what it was at first.
        first_site: Whether only the first layer is looked at.
        of_matrices: Whether places are left out that have no matrix, as the slope of an activation
            and the gains of a normaliser are none.
        words: What is said, of `{value}`, `{times}`, `{first}` and `{from_first}`.
        nothing: The same where the value is zero, which is no share of another; as `words` if
            empty.
    """

    quantity: str = ""
    form: str = ""
    up: bool = True
    usual: float | None = None
    score: float = 0.0
    first: float | None = None
    beyond: float | None = None
    alone: bool = False
    unlearned: bool = False
    first_site: bool = False
    of_matrices: bool = False
    words: str = ""
    nothing: str = ""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        known = [
            (self._far(track), site, form, track)
            for form, by_site in tracks.forms(self.quantity)
            for site, track in [*by_site.items()][: 1 if self.first_site else None]
            if track.last is not None and track.count > YOUNG
            if not (self.of_matrices and site in tracks.vectors)
        ]
        if not known:
            return None
        far, site, form, track = max(known, key=lambda each: each[0])
        if far < 1:
            return CALM if far < CALMER else UNSURE
        stuck = self.unlearned and tracks.loss.stuck
        if not (self.alone or stuck or tracks.loss.rises):
            return UNSURE
        count = sum(each[0] >= 1 for each in known)
        others = f" (and at {count - 1} other places)" if count > 1 else ""
        assert track.last is not None
        apart = abs(track.last - track.level), abs(track.last - track.first)
        logs = track.kind == "log"
        times, from_first = (
            f"{math.exp(min(a, 700.0)):.2g}" if logs else f"{a:.2g}" for a in apart
        )
        words = ((track.is_zero and self.nothing) or self.words).format(
            value="0" if track.is_zero else f"{track.value:.2g}", times=times,
            first=f"{track.at_first:.2g}", from_first=from_first,
        )  # fmt: skip
        says = f"{site}: {words}{others}."
        unheard = not (self.alone or stuck) and not tracks.loss.count
        return Sign(True, False, site, says, ((self.quantity, site, form),), unheard)

    def _far(self, track: Track) -> float:
        """How far it is on the way to what the rule asks for; 1 and above where it is there."""
        sign = 1.0 if self.up else -1.0
        assert track.last is not None
        found = [math.inf]
        for asked, since in ((self.usual, track.level), (self.first, track.first)):
            if asked is not None:
                span = math.log(asked) if track.kind == "log" else asked
                found.append(sign * (track.last - since) / span)
        if self.score:
            found.append(sign * track.score / self.score)
        if self.beyond is not None and sign * (track.value - self.beyond) < 0:
            value, beyond = track.value, self.beyond
            near = value > 0.8 * beyond if self.up else value < 1.25 * beyond
            found.append(0.9 if near else 0.0)
        return min(found)


# ------------------------------------------------------------------------------
# Alarms that rest on the course of several quantities.


GROWTH, SEEN, AHEAD = 5, math.log(100.0), 1000  # readings in a row, by how much, steps left
LARGEST = math.log(3.4e38)  # of float32; mean squares overflow when entries reach its root
EDGE, DIVERGING = 1.0, 2.0  # of rate times sharpness
LATELY = 30  # steps before losses rose, since which what moved has to do with it
LONG, STEADY = 20, 0.1  # readings of each layer, and the spread of the logarithms of the last half
STOPPED = math.log(1e3)  # by which updates fall beyond what the rate explains
CHANCE = 1e-4  # of as many updates of zero in a row, where they were as frequent before
LOPSIDED, SHIFTED = 0.8, 0.3  # imbalance: squared norms as 9 to 1; and how far it has moved
CALMEST = 0.75  # of the first
WIDE, IN_A_ROW = 32, 3  # of the smaller side, below which noise is flat too; readings in a row
ORTHOGONAL = 0.18  # stable rank of a step of Muon that works, over the smaller side (watching.md)
# where Newton and Schulz make fewer steps than is usual; and else, for gradients of few directions
# leave healthy ones at 0.055
FEW_DIRECTIONS, FEWEST_DIRECTIONS = 0.15, 0.05
FLATTER = 1.2  # times the stable rank of noise of that shape
USUAL_STEPS = 5  # of Newton and Schulz
WEIGHTS = q.FROBENIUS_NORM  # does not grow like this in any run that goes well
DEAD = q.DEAD_UNITS
MOVERS = (DEAD, q.GRADIENT_NORM, q.UPDATE_RATIO, q.MEAN_SQUARE)


@dataclass(frozen=True)
class NotFinite(AlarmRule):
    """Infinities or nan."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        order = (WEIGHTS, q.MEAN_SQUARE, q.GRADIENT_NORM, q.UPDATE_NORM, q.LOSS)
        for name in order:
            for form, by_site in tracks.forms(name):
                for site, track in by_site.items():
                    if track.last is None:
                        where = "the loss" if name == q.LOSS else f"the {name} at {site}"
                        says = f"{where} is infinite or not a number at step {track.bad}."
                        return Sign(True, False, site, says, ((name, site, form),))
        return CALM


@dataclass(frozen=True)
class Growing(AlarmRule):
    """A norm that grows at every look, with the step at which it will overflow."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        worst: tuple[float, str, str] | None = None
        for name in sorted(self.reads):
            if not (tracks.loss.rises or name == WEIGHTS):
                continue
            for site, track in tracks.of(name).items():
                if not (tracks.loss.rises or track.score > 0):
                    continue
                grown = track.growth(GROWTH)  # from zero, where learning begins, is none
                if grown is None or track.last is None or grown[1] < SEEN:
                    continue
                left = (LARGEST - track.last) / grown[0]
                if left < AHEAD and (worst is None or left < worst[0]):
                    worst = (left, name, site)
        if worst is None:
            return CALM
        left, name, site = worst
        says = (
            f"{site}: the {name} grows at every look and will leave float32 at about step "
            f"{step + max(round(left), 1)} if it goes on."
        )
        unheard = name != WEIGHTS and not tracks.loss.count
        return Sign(True, False, site, says, ((name, site, ""),), unheard)


@dataclass(frozen=True)
class LossSpike(AlarmRule):
    """A loss far above what is usual, with the layer that moved first."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        loss = tracks.loss
        if loss.excess <= 1:
            return CALM if loss.excess < 0.5 else UNSURE
        site, moved, shown = _blamed(tracks, step - loss.risen - LATELY)
        says = (
            f"The loss is {loss.fast:.3g} over the last steps, usually {loss.usually:.3g}{moved}."
        )
        return Sign(True, False, site, says, shown)


@dataclass(frozen=True)
class LossDrift(AlarmRule):
    """All losses worse than at the best time, and by a part of what was learned."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        loss = tracks.loss
        if loss.best is None:
            return None
        if not loss.drifts or tracks.rate.again:
            return UNSURE if loss.drifted else CALM
        site, moved, shown = _blamed(tracks, step - loss.since - LATELY, WEIGHTS)
        says = (
            f"The loss is {loss.lately:.3g}, {loss.undone:.0%} of the way back to where it began; "
            f"its best was {loss.best[0]:.3g}, {loss.since} steps ago, and three in four losses "
            f"are above nine in ten of that time{moved}."
        )
        return Sign(True, False, site, says, shown)


@dataclass(frozen=True)
class RateJump(AlarmRule):
    """A learning rate far above the highest that it had kept to."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        rate = tracks.rate
        if not rate.jumped or rate.base is None:
            return CALM
        says = f"The learning rate is {rate.rate:.3g}, and was {rate.base:.3g} at most before."
        return Sign(True, False, OPTIMIZER, says, ((q.RATE, OPTIMIZER, ""),))


@dataclass(frozen=True)
class Frozen(AlarmRule):
    """Updates that all but stop, by more than the learning rate has fallen, or with it at once."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        if tracks.rate.dropped:
            says = f"The learning rate has dropped to {tracks.rate.rate:.3g} within one step."
            return Sign(True, False, OPTIMIZER, says, ((q.RATE, OPTIMIZER, ""),))
        rates = [t.last - t.level for _, by_site in tracks.forms(q.RATE)
                 for t in by_site.values() if t.last is not None]  # fmt: skip
        explained = min([0.0, *rates])
        updates = tracks.of(q.UPDATE_NORM)
        known = {s: t.last - t.level - explained for s, t in updates.items()
                 if t.last is not None and t.count > YOUNG}  # fmt: skip
        site = min(known, key=known.__getitem__, default="")
        if (
            not site or known[site] > -STOPPED / 2 or tracks.loss.fitted
        ):  # where nothing is left to learn
            return CALM
        if known[site] > -STOPPED:
            return UNSURE
        changes = f"changes the weights by 1/{math.exp(-known[site]):.2g} of the usual"
        if updates[site].is_zero:  # of zero, any share is made up
            still = [s for s in known if updates[s].is_zero]
            site = next((s for s in still if not by_chance(updates[s])), "")
            if not site:
                return UNSURE
            changes = "no longer changes the weights"
            # gradients were read since updates of this place are zero, and none of it
            recent, gradients = updates[site].recent, tracks.of(q.GRADIENT_NORM).items()
            since = recent[-min(updates[site].zeros, len(recent))][0]
            at = {s: track.recent[-1][0] for s, track in gradients if track.recent}
            if max(at.values(), default=0) >= since > at.get(site, 0):
                changes += ", for no gradient comes to them"
            if len(still) > 1:
                changes += f" (and those of {len(still) - 1} other places)"
        says = f"{site}: a step {changes}."
        return Sign(True, False, site, says, ((q.UPDATE_NORM, site, ""),))


@dataclass(frozen=True)
class PlasticityLoss(AlarmRule):
    """Units die while updates get small against the weights, and the loss does not fall."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        loss = tracks.loss
        dead, ratio = tracks.of(q.DEAD_UNITS), tracks.of(q.UPDATE_RATIO)
        if loss.count <= 5 * YOUNG or not dead:
            return None
        grown = {s: t.last - t.first for s, t in dead.items() if t.last is not None}
        slow = [t.last - t.first for t in ratio.values() if t.last is not None and t.count > YOUNG]
        site = max(grown, key=grown.__getitem__, default="")
        if not site or not slow or grown[site] < 0.15 or dead[site].count <= YOUNG:
            return CALM
        slower = sorted(slow)[len(slow) // 2] < -math.log(10)
        if not (loss.stuck and slower):
            return UNSURE
        says = (
            f"{site}: {dead[site].value:.2g} of the units are dead, {dead[site].at_first:.2g} at "
            "first, updates are a tenth of what they were, and the loss does not fall."
        )
        return Sign(True, False, site, says, ((q.DEAD_UNITS, site, ""), (q.LOSS, LOSS, "")))


@dataclass(frozen=True)
class Diverging(AlarmRule):
    """A learning rate beyond the edge of stability, where the loss rises."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        found = tracks.of(q.RATE_TIMES_SHARPNESS)
        known = {s: t for s, t in found.items() if t.last is not None}
        if not known:
            return None
        site = max(known, key=lambda s: known[s].value)
        value = known[site].value
        if value < EDGE:
            return CALM
        rising = tracks.loss.excess > 0.5
        if value < DIVERGING and not rising:
            return UNSURE  # training hovers here for long, and goes on
        where = "all layers together" if site == WHOLE else site
        says = (
            f"{where}: the learning rate is {value:.2g} times the largest that a quadratic of this "
            f"sharpness bears{', and the loss rises' if rising else ''}."
        )
        return Sign(True, False, site, says, ((q.RATE_TIMES_SHARPNESS, site, ""),))


@dataclass(frozen=True)
class AtOdds(AlarmRule):
    """Decay of one of two layers that undo one another's scale, so that nothing is regularised."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        known = {
            site: (track.value, moved.value, decayed.value)
            for site, track in tracks.of(q.LAYER_IMBALANCE).items()
            if (moved := tracks.one(q.IMBALANCE_MOVED, site)) and moved.last is not None
            and (decayed := tracks.one(q.IMBALANCE_MOVED_BY_DECAY, site))
            and decayed.last is not None and track.last is not None
        }  # fmt: skip
        if not known:
            return None
        # decay explains how a balance has moved, within a factor of two
        decays = {s: m * d > 0 and 0.5 <= d / m <= 2 for s, (_, m, d) in known.items()}
        far = {s: min(abs(u) / LOPSIDED, abs(m) / SHIFTED) if u * m > 0 and decays[s] else 0
               for s, (u, m, _) in known.items()}  # fmt: skip
        site = max(far, key=far.__getitem__)
        if far[site] < 1:
            return CALM if far[site] < CALMEST else UNSURE
        value, moved, decayed = known[site]
        sides = site.split(" ~ ")
        small, large = sides if value < 0 else sides[::-1]
        says = (
            f"{small}: decay shrinks these weights faster than those of {large}, which make up for "
            f"it: their squared norms are 1 to {(1 + abs(value)) / (1 - abs(value) + TINY):.2g}, "
            f"and decay explains {min(decayed / moved, 1):.0%} of how they have parted. What both "
            "compute together is hardly regularised."
        )
        names = (q.LAYER_IMBALANCE, q.IMBALANCE_MOVED, q.IMBALANCE_MOVED_BY_DECAY)
        return Sign(True, False, site, says, tuple((name, site, "") for name in names))


@dataclass(frozen=True)
class Settled(AlarmRule):
    """Dimensions of representations that have changed since the start, and change no more."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        known = tracks.of(q.CENTRED_PARTICIPATION_RATIO)
        if not known or any(t.count < LONG or t.last is None for t in known.values()):
            return None
        calm = all(t.spread(LONG // 2) < STEADY for t in known.values())
        moved = {s: abs(t.level - t.first) for s, t in known.items()}
        site = max(moved, key=moved.__getitem__)
        if not calm or moved[site] < math.log(2):
            return CALM if not calm else UNSURE
        track = known[site]
        says = (
            f"{site}: samples differ in {track.value:.2g} directions, {track.at_first:.2g} at "
            "first; no layer's number has changed by a tenth in its last readings."
        )
        return Sign(True, False, site, says, ((q.CENTRED_PARTICIPATION_RATIO, site, ""),))


@dataclass(frozen=True)
class NotOrthogonal(AlarmRule):
    """Steps of what calls itself Muon that move a matrix in few of its directions."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        ranks = tracks.of(q.UPDATE_STABLE_RANK, "matrix")
        meant = {s: m for s, m in tracks.matrices.items() if m.meant and m.side >= WIDE}
        shares = {s: max(last) / meant[s].side for s in meant.keys() & ranks.keys()
                  if (last := ranks[s].lately(IN_A_ROW))}  # fmt: skip
        if not shares:
            return None
        few = {s: m.steps is not None and m.steps < USUAL_STEPS for s, m in meant.items()}
        limits = {s: FEW_DIRECTIONS if few[s] else FEWEST_DIRECTIONS for s in shares}
        found = sorted(s for s, share in shares.items() if share < limits[s])
        if not found or tracks.loss.fitted:  # gradients that are nearly zero have few directions
            return CALM
        site = min(found, key=shares.__getitem__)
        others = f" (and {len(found) - 1} other matrices)" if len(found) > 1 else ""
        why = "its gradient has no more, or what should orthogonalise it does not"
        if few[site]:
            why = f"Newton and Schulz make {meant[site].steps} of the usual {USUAL_STEPS} steps"
        says = (
            f"{site}: one step of Muon moves it in about {ranks[site].value:.2g} of its "
            f"{meant[site].side} directions{others}: {why}."
        )
        return Sign(True, False, site, says, ((q.UPDATE_STABLE_RANK, site, "matrix"),))


@dataclass(frozen=True)
class Misplaced(AlarmRule):
    """An embedding, a readout or a vector among matrices whose steps are orthogonal."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        ranks, matrices = tracks.of(q.UPDATE_STABLE_RANK, "matrix"), tracks.matrices
        last = {s: min(some) for s, track in ranks.items()
                if s in matrices and (some := track.lately(IN_A_ROW))}  # fmt: skip
        # steps flatter than noise are made so, whatever the optimizer is called
        groups = {m.group for s, m in matrices.items()
                  if m.meant or last.get(s, 0.0) > FLATTER * m.of_noise}  # fmt: skip
        found = {s: m for s, m in matrices.items() if m.role and m.group in groups}
        flat = {s for s, m in found.items() if m.role == "vector"
                or (m.side >= WIDE and last.get(s, 0.0) > ORTHOGONAL * m.side)}  # fmt: skip
        if not flat:
            return CALM if found.keys() <= last.keys() else None
        site = next(s for s in found if s in flat)
        others = f" (and {len(flat) - 1} others)" if len(flat) > 1 else ""
        does = {
            "embedding": "an embedding moves in all its directions alike, those of rare rows too",
            "readout": "a readout moves in all its directions alike",
            "vector": "of one row or column a step is the gradient brought to one length",
        }[found[site].role]
        says = f"{site}: the steps of its optimizer are orthogonal (Muon), and {does}{others}."
        shown = ((q.UPDATE_STABLE_RANK, site, "matrix"),) if site in last else ()
        return Sign(True, False, site, says, shown)


def by_chance(track: Track) -> bool:
    """Whether zeros in a row may be chance: experts, layers and heads sit out some of the steps."""
    before = track.count + track.zeros_before
    share = (track.zeros_before + 1) / (before + 2)  # of readings that were zero before these
    return share**track.zeros > CHANCE


def _blamed(tracks: Tracks, after: int, *more: str) -> tuple[str, str, tuple[Shown, ...]]:
    """What left its usual values first, after some step: its site, words, and what is shown.

    Of what was first seen at the same look units that have died come first: the rest follows.
    """
    moved = [
        (track.moved, rank if name == DEAD else 1, -abs(track.score), site, name)
        for rank, name in enumerate((*MOVERS, *more))
        for site, track in tracks.of(name).items()
        if track.moved is not None and track.moved >= after
        if name != DEAD or track.score > 0
    ]
    if not moved:
        return LOSS, "", ((q.LOSS, LOSS, ""),)
    since, _, _, site, name = min(moved)
    words = f"the {name} at {site} moved first, at step {since}"
    if name == DEAD:
        share = tracks.of(name)[site].value
        words = f"{share:.0%} of the units at {site} are dead, seen first at step {since}"
    return site, f"; {words}", ((q.LOSS, LOSS, ""), (name, site, ""))


RULES: tuple[AlarmRule, ...] = (
    NotFinite(
        "non-finite",
        "a norm or the loss is infinite or not a number",
        "error",
        frozenset({q.LOSS, q.GRADIENT_NORM, q.FROBENIUS_NORM, q.MEAN_SQUARE, q.UPDATE_NORM}),
        "IEEE 754",
        ("Stop, and go back to the last checkpoint before this step.",
         "Look at the batch of this step; lower the rate or clip gradients if the batch is sound."),
        patience=1,
    ),
    Growing(
        "overflow-ahead",
        "a norm grows a hundredfold over five looks, at each of them; the step of its overflow "
        "is said",
        "warning", frozenset({q.GRADIENT_NORM, q.MEAN_SQUARE, q.FROBENIUS_NORM}),
        "Pascanu, Mikolov & Bengio 2013, Sec. 2",
        ("Lower the learning rate, or clip gradients to their usual norm.",
         "If one layer grows alone, normalise before it."),
        patience=1, ends="no longer grows at every look",
    ),
    LossSpike(
        "loss-spike",
        "the mean of the last losses is beyond 5.5 times their scatter, 0.3 of the usual loss "
        "and 0.08 of the way from the start; the layer that moved first since 30 steps before is "
        "named, units that died before all else",
        "warning", frozenset({q.LOSS}),
        "Chowdhery et al. 2022, Sec. 5.1",
        ("Go back to a checkpoint before the spike and leave out the batches in it.",
         "If it comes again, lower the learning rate or clip gradients."),
        patience=1,
    ),
    LossDrift(
        "loss-drift",
        "three in four of the last 48 losses are above nine in ten of those of the best time, "
        "and 3 % of the way from the start is undone; silent where a cycle of the learning rate "
        "begins anew",
        "warning", frozenset({q.LOSS}),
        "Page 1954, Sec. 2",
        ("Look at what has changed since the best step: decay, the schedule, the data.",
         "Go back to a checkpoint of that step; if decay is large, lower it.",
         "Where another network moves the targets (games of two, Q-learning) losses rise in "
         "healthy training, too: judge by samples or returns."),
        patience=1,
    ),
    RateJump(
        "rate-jump",
        "the learning rate is three times above a plateau of 30 steps",
        "warning", frozenset({q.RATE}),
        "Cohen et al. 2021, Sec. 2",
        ("Look at the schedule: the rate rises after it had settled.",),
        patience=1,
    ),
    Deviation(
        "gradient-jump",
        "the gradient of a layer has 8 times its usual norm while the loss rises",
        "warning", frozenset({q.GRADIENT_NORM}),
        "Pascanu, Mikolov & Bengio 2013, Sec. 2",
        ("Clip gradients to their usual norm, where steps grow with them (those of Muon do not).",
         "Look at the batches since this step."),
        quantity=q.GRADIENT_NORM, up=True, usual=8.0, score=6.0, first=1.5,
        words="the gradient is {times} times its usual norm",
    ),
    Deviation(
        "large-updates",
        "updates are 5 times as large beside their weights as usual while the loss rises",
        "warning", frozenset({q.UPDATE_RATIO}),
        "You, Gitman & Ginsburg 2017, Sec. 4",
        ("Lower the learning rate, or warm it up.",),
        quantity=q.UPDATE_RATIO, up=True, usual=5.0, beyond=0.02, score=5.0,
        words="one step changes the weights by {value} of their norm, {times} times the usual",
    ),
    Deviation(
        "signal-jump",
        "what a layer reads has 20 times its usual mean square while the loss rises",
        "warning", frozenset({q.MEAN_SQUARE}),
        "He et al. 2015, Sec. 2.2",
        ("Look at the inputs since this step, and at what changed the layers before.",),
        quantity=q.MEAN_SQUARE, up=True, usual=20.0, score=6.0,
        words="what the layer reads is {times} times its usual size (mean square)",
    ),
    Deviation(
        "inputs-changed",
        "what the first layer reads is 20 times its usual mean square",
        "warning", frozenset({q.MEAN_SQUARE}),
        "LeCun et al. 1998, Sec. 4.3",
        ("Look at where the batches since this step come from, and how they are scaled.",),
        quantity=q.MEAN_SQUARE, up=True, usual=20.0, score=6.0, alone=True, first_site=True,
        patience=1,
        words="what the first layer reads is {times} times its usual size (mean square)",
    ),
    Deviation(
        "signal-loss",
        "what a layer reads has a twentieth of its usual mean square while the loss rises",
        "warning", frozenset({q.MEAN_SQUARE}),
        "He et al. 2015, Sec. 2.2",
        ("Look at the inputs since this step, and at what changed the layers before.",
         "If weight decay is large, lower it."),
        quantity=q.MEAN_SQUARE, up=False, usual=20.0, score=6.0,
        words="what the layer reads has shrunk to 1/{times} of its usual size (mean square)",
        nothing="what the layer reads is zero",
    ),
    Deviation(
        "rank-collapse",
        "rows differ by a quarter of what they did, and by less than 0.15 of their size",
        "warning", frozenset({q.RELATIVE_VARIATION}),
        "Daneshmand et al. 2020, Eq. (4)",
        ("Normalise before this layer, or lower weight decay and learning rate.",),
        alone=True, quantity=q.RELATIVE_VARIATION, up=False, first=4.0, beyond=0.15,
        words="rows differ from their mean by {value} of their size, {first} at first: all samples "
        "look alike",
    ),
    Deviation(
        "rank-collapse-of-directions",
        "rows differ in 1.6 directions or fewer, a quarter of those at first",
        "warning", frozenset({q.CENTRED_PARTICIPATION_RATIO}),
        "Daneshmand et al. 2020, Eq. (4)",
        ("Normalise before this layer, or lower weight decay and learning rate.",),
        alone=True, quantity=q.CENTRED_PARTICIPATION_RATIO, up=False, first=4.0, beyond=1.6,
        words="samples differ in {value} directions, {first} at first",
    ),
    Deviation(
        "dying-units",
        "more than half of the units are dead, and a quarter more than at first",
        "warning", frozenset({q.DEAD_UNITS}),
        "Lu et al. 2019, Sec. 3",
        ("Lower the learning rate; units that are zero for every sample do not come back.",
         "Use a leaky activation, or normalise before it."),
        alone=True, quantity=q.DEAD_UNITS, up=True, first=0.25, beyond=0.5,
        words="{value} of the units are zero for every sample, {first} at first",
    ),
    Deviation(
        "saturating-units",
        "more than half of what an activation writes is at an end of its range, and a quarter "
        "more than at first",
        "warning", frozenset({q.SATURATED_SHARE}),
        "Glorot & Bengio 2010, Sec. 3",
        ("Lower the learning rate or the scale of the weights before, or normalise.",),
        alone=True, quantity=q.SATURATED_SHARE, up=True, first=0.25, beyond=0.5,
        words="{value} of what the activation writes is at an end of its range, {first} at first",
    ),
    Deviation(
        "attention-collapse",
        "the entropy of attention is below 0.1, and 0.3 below that at first, while the loss "
        "rises or is still what it was at first",
        "warning", frozenset({q.ATTENTION_ENTROPY}),
        "Zhai et al. 2023, Sec. 3",
        ("Normalise queries and keys, or lower the learning rate.",),
        unlearned=True, quantity=q.ATTENTION_ENTROPY, up=False, first=0.3, beyond=0.1,
        words="each query looks at few keys: the entropy is {value} of the most, {first} at first",
    ),
    Deviation(
        "statistics-drift",
        "batch and running statistics are 4 times as far apart as usual while the loss rises",
        "warning", frozenset({q.STATISTICS_DRIFT}),
        "Ioffe & Szegedy 2015, Sec. 3.1",
        ("Raise the momentum of batch normalisation, or lower the learning rate.",
         "Look whether the batches since this step come from other data."),
        quantity=q.STATISTICS_DRIFT, up=True, usual=4.0, beyond=0.75, score=5.0,
        words="batch and running statistics are {value} standard deviations apart, {times} times "
        "as far as usual",
    ),
    Deviation(
        "decaying-weights",
        "the matrices of a layer are a quarter of what they were",
        "warning", frozenset({q.FROBENIUS_NORM}),
        "Andriushchenko et al. 2023, Sec. 2",
        ("Lower weight decay: it takes more than the gradient gives.",),
        alone=True, quantity=q.FROBENIUS_NORM, up=False, first=4.0, patience=3, of_matrices=True,
        words="the weights have shrunk to 1/{from_first} of what they were",
        nothing="the weights are zero",
    ),
    Deviation(
        "growing-weights",
        "the matrices of a layer are 3 times as large as usual while the loss rises",
        "warning", frozenset({q.FROBENIUS_NORM}),
        "Andriushchenko et al. 2023, Sec. 2",
        ("Lower the learning rate, or look at what changes these weights besides the optimizer.",),
        quantity=q.FROBENIUS_NORM, up=True, usual=3.0, score=5.0, patience=1, of_matrices=True,
        words="the weights are {times} times as large as usual",
    ),
    Deviation(
        "weights-out-of-bulk",
        "the stable rank is below 2, and a quarter of that at first",
        "warning", frozenset({q.STABLE_RANK}),
        "Le & Jegelka 2022, Thm. 1; Martin & Mahoney 2021, Sec. 3",
        ("Lower the learning rate, or bound the spectral norm of this layer.",),
        alone=True, quantity=q.STABLE_RANK, form="matrix", up=False, first=4.0, beyond=2.0,
        patience=1,
        words="one direction has outgrown the others: stable rank {value}, {first} at first",
    ),
    Frozen(
        "frozen-weights",
        "updates fall a thousandfold beyond what the rate explains, or the rate drops to nothing "
        "at once",
        "warning", frozenset({q.UPDATE_NORM, q.RATE}),
        "arithmetic",
        ("Look at the learning rate's schedule and at what the optimizer is handed.",
         "If no gradient comes to a layer, look at whether the loss still depends on it: an expert "
         "that no input is sent to, units that died, `detach`, a layer that was replaced."),
    ),
    PlasticityLoss(
        "plasticity-loss",
        "units die, updates are a tenth of what they were, the loss does not fall",
        "warning", frozenset({q.DEAD_UNITS, q.UPDATE_RATIO}),
        "Dohare et al. 2024; Lyle et al. 2023",
        ("Reset dead units or regularise towards the initial weights.",),
        patience=3,
    ),
    Diverging(
        "rate-beyond-edge",
        "the learning rate is twice what the sharpness bears, or above it while the loss rises",
        "warning", frozenset({q.RATE_TIMES_SHARPNESS}),
        "Cohen et al. 2021, Sec. 2",
        ("Lower the learning rate below the edge, or warm it up more slowly.",),
        patience=1,
    ),
    AtOdds(
        "decay-at-odds",
        "of two layers that undo one another's scale and decay at different speeds, one has nine "
        "times the other's squared norm, and decay explains how they parted",
        "warning", frozenset({q.LAYER_IMBALANCE}),
        "Le & Jegelka 2022, Sec. 3",
        ("Give both layers one weight decay: of one side alone it moves scale to the other.",),
        patience=3,
    ),
    Settled(
        "dimension-settled",
        "a note: participation ratios of all layers have changed twofold since the start, and "
        "vary by less than a tenth",
        "note", frozenset({q.CENTRED_PARTICIPATION_RATIO}),
        "Jacot 2023, Sec. 3",
        ("Nothing need be done: the network has settled on how many dimensions it uses.",),
    ),
    NotOrthogonal(
        "muon-not-orthogonal",
        "a note: at three readings in a row a step of what calls itself Muon has a stable rank "
        "below 0.05 of the smaller side, which is 32 or more, or below 0.15 where Newton and "
        "Schulz make fewer than five steps; silent where the loss is a tenth of the first",
        "note", frozenset({q.UPDATE_STABLE_RANK}),
        "Jordan et al. 2024",
        ("Let Newton and Schulz make five steps, in the coefficients that are usual.",
         "If they do, look at the gradient: of a batch whose gradients have few directions no more "
         "can be made."),
        patience=1,
    ),
    Misplaced(
        "muon-on-embedding",
        "a note: an embedding, the readout or a matrix of one row or column is trained by steps "
        "that are orthogonal",
        "note", frozenset({q.UPDATE_STABLE_RANK}),
        "Jordan et al. 2024",
        ("Compare with AdamW for embeddings, readouts and vectors, to which its author leaves "
         "them.",),
        patience=1,
    ),
)  # fmt: skip
KINDS = tuple(Kind(rule.name, rule.speaks, rule.source) for rule in RULES)
ALARMS = tuple(kind.name for kind in KINDS)


# ------------------------------------------------------------------------------
# Which alarms are in force: each needs some looks to begin and some calm ones to end.
#
# A rule says at every look how sure it is. An alarm begins when a rule was sure for as many looks
# as it asks for, and ends when it was calm for as many; what lies between changes nothing.


LOG = logging.getLogger("sigmascope")
UNHEARD = (
    " Whether the loss rises meanwhile, which would be a fault, is not known: hand it in, "
    "`watch.step(loss)`."
)


@dataclass(slots=True)
class _Bell:
    """What has become of one rule."""

    sure: int = 0
    calm: int = 0
    rung: Finding | None = None
    since: int = 0
    shown: Shown | None = None  # what shows it, where it was away from what was usual
    away: tuple[float, float] = (0.0, 0.0)  # what was usual of that then, and what it was


class Alarms:
    """Hears every look and sounds alarms.

    Args:
        rules: All of them if not given.
        matrices: What trained weights are in their model, by name.
        vectors: Places whose trained weights are no matrices.

    Attributes:
        waiting: Whether a rule was sure at the last look and wants to be so once more.
        struck: Whether the loss or the rate has left what is usual in what was heard last.
    """

    def __init__(
        self,
        rules: Sequence[AlarmRule] = RULES,
        matrices: Mapping[str, TrainedMatrix] = MappingProxyType({}),
        vectors: Collection[str] = (),
    ) -> None:
        self.struck = self.waiting = False
        self._rules = rules
        self._tracks = Tracks(matrices, vectors)
        self._bells = {rule: _Bell() for rule in rules}

    @property
    def in_force(self) -> tuple[Finding, ...]:
        """Those that have begun and not ended."""
        return tuple(b.rung for b in self._bells.values() if b.rung)

    def hear(self, rates: Sequence[float], losses: Sequence[float], apart: int = 1) -> bool:
        """Take the learning rates and the losses of some steps.

        Args:
            rates: Of each of them.
            losses: Of one in so many.
            apart: In how many.

        Returns:
            Whether a look is worth its price now.
        """
        rate, loss = self._tracks.rate, self._tracks.loss
        before, hints = (rate.jumped, rate.dropped), False
        drifted, calm = loss.drifts, loss.excess <= 1
        for each in rates:
            rate.add(each)
        for each in losses:
            loss.add(each, apart)
            hints |= loss.hints
        self.struck = (
            (rate.jumped, rate.dropped) != before
            or (calm and loss.excess > 1)
            or (loss.drifts and not drifted)
        )
        return hints or self.struck

    def glance(self, step: int, column: Column) -> None:
        """Take what was read between looks: what is usual is learnt from it, and nothing rings."""
        self._tracks.add(step, [column])

    @property
    def bounds(self) -> tuple[float, float, float]:
        """A loss at or above which, and rates below and above which, are to be heard at once."""
        return self._tracks.loss.top, *self._tracks.rate.usual

    def look(self, step: int, columns: Sequence[Column]) -> list[Finding]:
        """Take what a look has read.

        Args:
            step: Of the look.
            columns: What was read.

        Returns:
            Alarms that begin, and for each that ends a note.
        """
        self._tracks.add(step, columns)
        read = {c.quantity for c in columns}
        found, self.waiting = list[Finding](), False
        for rule in self._rules:
            sign = rule.look(step, self._tracks) if read & rule.reads else None
            bell = self._bells[rule]
            if sign is None:
                continue
            if sign.sure:
                bell.sure, bell.calm = bell.sure + 1, 0
                if not bell.rung and bell.sure >= rule.patience:
                    evidence = tuple(
                        Reading(
                            site, name, Estimate.exactly(t.value, how="as trained"), q.WATCH, form
                        )
                        for name, site, form in sign.shown
                        if (t := self._tracks.one(name, site, form)) and t.last is not None
                    )
                    severity: Severity = "note" if sign.unheard else rule.severity
                    says = f"{sign.says}{UNHEARD if sign.unheard else ''}"
                    words = evidence, says, rule.source, rule.remedies
                    bell.rung = Finding(rule.name, sign.site, severity, *words)
                    bell.since, bell.shown = step, None
                    track = self._tracks.one(*sign.shown[0]) if sign.shown else None
                    if track and track.last is not None:
                        bell.away = track.level, track.last
                        apart = abs(track.last - track.level) > track.usual
                        bell.shown = sign.shown[0] if apart else None
                    found.append(bell.rung)
                self.waiting |= not bell.rung
            elif sign.calm:
                bell.sure, bell.calm = 0, bell.calm + 1
                if bell.rung and bell.calm >= rule.rest:
                    ended, bell.rung = bell.rung, None
                    began = f"what began at step {bell.since} at {ended.site}"
                    says = f"Over at step {step}: {began} {self._ends(rule, bell)}."
                    name = ended.name + OVER
                    found.append(
                        replace(
                            ended, name=name, severity="note", evidence=(), says=says, remedies=()
                        )
                    )
        for alarm in found:
            level = logging.INFO if alarm.name.endswith(OVER) else logging.WARNING
            LOG.log(level, "step %d: %s: %s", step, alarm.name, alarm.says)
        return found

    def _ends(self, rule: AlarmRule, bell: _Bell) -> str:
        """How an alarm has ended: what strays for long is at last taken for usual."""
        now = self._tracks.one(*bell.shown) if bell.shown and not rule.ends else None
        if now is not None and now.last is not None:
            usual, then = bell.away
            if abs(now.last - usual) > abs(now.last - then):
                return "has not gone back, and counts as usual by now"
        return rule.ends or "is as usual again"
