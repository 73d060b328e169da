"""Alarms of one quantity that leaves what it was."""

import math
from dataclasses import dataclass

from sigmascope.watching.alarms.signs import CALM, UNSURE, Rule, Sign
from sigmascope.watching.alarms.tracks import YOUNG, Track, Tracks

CALMER = 0.5  # of the way: below, it is as usual again


@dataclass(frozen=True)
class Change(Rule):
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
        words: What is said, of `{value}`, `{times}`, `{first}` and `{from_first}`.
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
    words: str = ""

    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """As `Rule.look`."""
        known = [
            (self._far(track), site, form, track)
            for form, by_site in tracks.forms(self.quantity)
            for site, track in [*by_site.items()][: 1 if self.first_site else None]
            if track.last is not None and track.count > YOUNG
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
        says = f"{site}: {self._says(track)}{others}."
        return Sign(True, False, site, says, ((self.quantity, site, form),))

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
            found.append(0.9 if self._near(track) else 0.0)
        return min(found)

    def _near(self, track: Track) -> bool:
        assert self.beyond is not None
        return track.value > 0.8 * self.beyond if self.up else track.value < 1.25 * self.beyond

    def _says(self, track: Track) -> str:
        assert track.last is not None
        apart = abs(track.last - track.level), abs(track.last - track.first)
        logs = track.kind == "log"
        times, from_first = (
            f"{math.exp(min(a, 700.0)):.2g}" if logs else f"{a:.2g}" for a in apart
        )
        return self.words.format(
            value=f"{track.value:.2g}", times=times, first=f"{track.at_first:.2g}",
            from_first=from_first,
        )  # fmt: skip
