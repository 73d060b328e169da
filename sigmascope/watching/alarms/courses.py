"""Alarms that rest on the course of several quantities."""

import math
from dataclasses import dataclass

from sigmascope.watching.alarms.signs import CALM, UNSURE, Rule, Sign
from sigmascope.watching.alarms.tracks import YOUNG, Tracks
from sigmascope.watching.looks import LOSS, WHOLE

GROWTH, SEEN, AHEAD = 4, math.log(30.0), 2000  # readings in a row, by how much, steps to overflow
LARGEST = math.log(3.4e38)  # of float32; mean squares overflow when entries reach its root
SPIKE, SPIKE_SCORE = 1.3, 6.0  # of the usual loss, and usual distances
EDGE, DIVERGING = 1.0, 2.0  # of rate times sharpness
MOVERS = ("gradient norm", "update ratio", "mean square")


@dataclass(frozen=True)
class NotFinite(Rule):
    """Infinities or nan."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        order = ("Frobenius norm", "mean square", "gradient norm", "update norm", "loss")
        for name in order:
            for form, by_site in tracks.forms(name):
                for site, track in by_site.items():
                    if track.last is None:
                        where = "the loss" if name == "loss" else f"the {name} at {site}"
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
            for site, track in tracks.of(name).items():
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
        track = tracks.one("loss", LOSS)
        if track is None or track.count <= YOUNG or track.last is None:
            return None
        size = max(abs(track.level), 1e-12)
        above = (track.last - track.level) / size
        if above < SPIKE - 1 or track.score < SPIKE_SCORE:
            return CALM if track.score < SPIKE_SCORE / 2 else UNSURE
        since, site, name = _first_mover(tracks) or (step, LOSS, "")
        moved = f"; the {name} at {site} moved first, at step {since}" if name else ""
        says = f"The loss is {track.last:.3g}, usually {track.level:.3g}{moved}."
        shown = (("loss", LOSS, ""), *(((name, site, ""),) if name else ()))
        return Sign(True, False, site, says, shown)


@dataclass(frozen=True)
class PlasticityLoss(Rule):
    """Units die while updates get small against the weights, and the loss does not fall."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        loss = tracks.one("loss", LOSS)
        dead, ratio = tracks.of("dead units"), tracks.of("update ratio")
        if loss is None or loss.last is None or loss.count <= YOUNG or not dead:
            return None
        grown = {s: t.last - t.first for s, t in dead.items() if t.last is not None}
        slow = [t.last - t.first for t in ratio.values() if t.last is not None and t.count > YOUNG]
        site = max(grown, key=grown.__getitem__, default="")
        if not site or not slow or grown[site] < 0.15 or dead[site].count <= YOUNG:
            return CALM
        stuck = loss.last > loss.level - 0.02 * abs(loss.level) and loss.last >= loss.first * 0.9
        slower = sorted(slow)[len(slow) // 2] < -math.log(10)
        if not (stuck and slower):
            return UNSURE
        says = (
            f"{site}: {dead[site].value:.2g} of the units are dead, {dead[site].at_first:.2g} at "
            "first, updates are a tenth of what they were, and the loss does not fall."
        )
        return Sign(True, False, site, says, (("dead units", site, ""), ("loss", LOSS, "")))


@dataclass(frozen=True)
class Diverging(Rule):
    """A learning rate beyond the edge of stability, where the loss rises."""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        found = tracks.of("rate times sharpness")
        known = {s: t for s, t in found.items() if t.last is not None}
        if not known:
            return None
        site = max(known, key=lambda s: known[s].value)
        value, loss = known[site].value, tracks.one("loss", LOSS)
        if value < EDGE:
            return CALM
        rising = loss is not None and loss.last is not None and loss.score > 2
        if value < DIVERGING and not rising:
            return UNSURE  # training hovers here for long, and goes on
        where = "all layers together" if site == WHOLE else site
        says = (
            f"{where}: the learning rate is {value:.2g} times the largest that a quadratic of this "
            f"sharpness bears{', and the loss rises' if rising else ''}."
        )
        return Sign(True, False, site, says, (("rate times sharpness", site, ""),))


def _first_mover(tracks: Tracks) -> tuple[int, str, str] | None:
    """Step, site and quantity of what left its usual values first, in this excursion."""
    moved = [
        (track.moved, -abs(track.score), site, name)
        for name in MOVERS
        for site, track in tracks.of(name).items()
        if track.moved is not None
    ]
    if not moved:
        return None
    since, _, site, name = min(moved)
    return since, site, name
