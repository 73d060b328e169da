"""A run file that is followed, and what is said of it when it cannot be."""

import threading
from pathlib import Path
from typing import Any

from sigmascope.gate import Refusal
from sigmascope.report.live.histories import History
from sigmascope.store import Fresh, Mark, Replaced, since


class Feed:
    """The history of a run file that may grow, come late, be replaced or be damaged.

    Args:
        path: The run file.
        name: What the page calls it.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.history = History(name)
        self.generation = 0  # of the history; it changes when the file is another run
        self._mark: Mark | None = None
        self._version = 0
        self._more = False
        self._said = ("", "")  # what became of the file, what is wrong with it
        self._lock = threading.Lock()

    def look(self) -> bool:
        """Read what is new; whether more is left."""
        try:
            self._take(since(self.path, self._mark))
        except Replaced:
            with self._lock:
                self.history, self._mark = History(self.history.name), None
                self.generation += 1
                self._say("The file was replaced by another run, which is read from its start.", "")
            return True
        except FileNotFoundError:
            gone = "The file is gone; what was read of it stays here."
            self._say(self._said[0], gone if self._mark else "There is no run file yet.")
        except (Refusal, OSError) as error:
            self._say(self._said[0], str(error))
        else:
            return self._more
        return False

    def _take(self, fresh: Fresh) -> None:
        with self._lock:
            self.history.take(fresh)
            self._version += bool(fresh.rows) or self._more != fresh.more
            self._mark, self._more = fresh.mark, fresh.more
            self._say(self._said[0], "")

    def state(self, seen: int = -1) -> dict[str, Any]:
        """All but the numbers, unless the page has seen it."""
        with self._lock:
            short = {"version": self._version, "generation": self.generation}
            if seen == self._version:
                return short
            words = {"reading": self._more, "note": self._said[0], "trouble": self._said[1]}
            return {**short, **words, **self.history.state()}

    def panel(self, place: int, after: int, generation: int) -> dict[str, Any]:
        """Readings of a panel; of another generation none."""
        return self._of(generation, lambda: self.history.numbers(place, after))

    def spectra(self, place: int, generation: int) -> dict[str, Any]:
        """Spectra of a matrix over time; of another generation none."""
        return self._of(generation, lambda: {"spectra": self.history.scrubbed(place)})

    def _of(self, generation: int, form: Any) -> dict[str, Any]:
        with self._lock:
            said = {"generation": self.generation}
            return said if generation != self.generation else {**said, **form()}

    def _say(self, *words: str) -> None:
        if words != self._said:
            self._said = (words[0], words[1])
            self._version += 1
