"""Alarms that rest on the course of several quantities."""

import math
from dataclasses import dataclass

from sigmascope import quantities as q
from sigmascope.watching.alarms.signs import CALM, UNSURE, Rule, Shown, Sign
from sigmascope.watching.alarms.tracks import TINY, YOUNG, Tracks
from sigmascope.watching.looks import LOSS, OPTIMISER, WHOLE

GROWTH, SEEN, AHEAD = 5, math.log(100.0), 1000  # readings in a row, by how much, steps left
LARGEST = math.log(3.4e38)  # of float32; mean squares overflow when entries reach its root
EDGE, DIVERGING = 1.0, 2.0  # of rate times sharpness
LATELY = 30  # steps before losses rose, since which what moved has to do with it
LONG, STEADY = 20, 0.1  # readings of each layer, and the spread of the logarithms of the last half
FITTED = 0.1  # of the first loss: below it, updates may stop
STOPPED = math.log(1e3)  # by which updates fall beyond what the rate explains
LOPSIDED, SHIFTED = 0.8, 0.3  # imbalance: squared norms as 9 to 1; and how far it has moved
CALMEST = 0.75  # of the first
WEIGHTS = q.FROBENIUS_NORM  # does not grow like this in any run that goes well
DEAD = q.DEAD_UNITS
MOVERS = (DEAD, q.GRADIENT_NORM, q.UPDATE_RATIO, q.MEAN_SQUARE)


@dataclass(frozen=True)
class NotFinite(Rule):
    """Infinities or nan."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        order = (WEIGHTS, q.MEAN_SQUARE, q.GRADIENT_NORM, q.UPDATE_NORM, q.LOSS)
        for name in order:
            for form, by_site in tracks.forms(name):
                for site, track in by_site.items():
                    if track.last is None:
                        where = "the loss" if name == q.LOSS else f"the {name} at {site}"
                        says = f"{where} is infinite or not a number at step {step}."
                        return Sign(True, False, site, says, ((name, site, form),))
        return CALM


@dataclass(frozen=True)
class Growing(Rule):
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
                grown = track.growth(GROWTH)
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
        return Sign(True, False, site, says, ((name, site, ""),))


@dataclass(frozen=True)
class LossSpike(Rule):
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
class LossDrift(Rule):
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
class RateJump(Rule):
    """A learning rate far above the highest that it had kept to."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        rate = tracks.rate
        if not rate.jumped or rate.base is None:
            return CALM
        says = f"The learning rate is {rate.rate:.3g}, and was {rate.base:.3g} at most before."
        return Sign(True, False, OPTIMISER, says, ((q.RATE, OPTIMISER, ""),))


@dataclass(frozen=True)
class Frozen(Rule):
    """Updates that all but stop, by more than the learning rate has fallen, or with it at once."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        if tracks.rate.dropped:
            says = f"The learning rate has dropped to {tracks.rate.rate:.3g} within one step."
            return Sign(True, False, OPTIMISER, says, ((q.RATE, OPTIMISER, ""),))
        rates = [t.last - t.level for _, by_site in tracks.forms(q.RATE)
                 for t in by_site.values() if t.last is not None]  # fmt: skip
        explained = min([0.0, *rates])
        known = {s: t.last - t.level - explained for s, t in tracks.of(q.UPDATE_NORM).items()
                 if t.last is not None and t.count > YOUNG}  # fmt: skip
        site = min(known, key=known.__getitem__, default="")
        fitted = tracks.loss.count > 0 and tracks.loss.fast < FITTED * tracks.loss.start
        if not site or known[site] > -STOPPED / 2 or fitted:  # where nothing is left to learn
            return CALM
        if known[site] > -STOPPED:
            return UNSURE
        changes = f"changes the weights by 1/{math.exp(-known[site]):.2g} of the usual"
        if tracks.of(q.UPDATE_NORM)[site].last == math.log(TINY):  # of zero, any share is made up
            changes = "no longer changes the weights"
        says = f"{site}: a step {changes}."
        return Sign(True, False, site, says, ((q.UPDATE_NORM, site, ""),))


@dataclass(frozen=True)
class PlasticityLoss(Rule):
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
class Diverging(Rule):
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
class AtOdds(Rule):
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
        far = {s: min(abs(u) / LOPSIDED, abs(m) / SHIFTED) if u * m > 0 and _by_decay(m, d) else 0
               for s, (u, m, d) in known.items()}  # fmt: skip
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
class Settled(Rule):
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


def _by_decay(moved: float, decayed: float) -> bool:
    """Whether decay explains how a balance has moved, within a factor of two."""
    return moved * decayed > 0 and 0.5 <= decayed / moved <= 2


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
