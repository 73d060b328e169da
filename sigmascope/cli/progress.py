"""What is being done, how long it will take and what was found so far, on a terminal.

One line from the moment that a command has work to do, and below it the findings that are known
already. The invariant: it is gone before anything else is written, and where standard error is no
terminal nothing of it is.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sigmascope.core.guard import printable

if TYPE_CHECKING:
    from sigmascope.core.records import Finding

MOST = 4  # findings that are shown before all are known
COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


class Status:
    """The line; called as `survey.Progress` is."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._live: Any = None
        self._task: Any = None
        self._found: tuple[Finding, ...] = ()
        self._stage: tuple[int | None, int] = (None, 0)

    def begin(self, words: str) -> None:
        """Say what takes time first, as loading a library that takes a second."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        if self._bar is None and console.is_terminal and not console.is_dumb_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
                console=console,
            )
            self._task = self._bar.add_task("", total=None)
        if words:
            self(words, 0, 0)

    def __call__(self, words: str, done: int, total: int) -> None:
        """So many steps of so many are done; the time left is told from their rate.

        Args:
            words: What is being done.
            done: Steps.
            total: Steps in all; 0 where nobody knows.
        """
        if self._bar is None:
            return
        of, before = self._stage
        if total != of or done < before:  # another stage, with a rate of its own
            self._bar.reset(self._task, total=total or None, completed=done)
        self._stage = (total, done)
        self._bar.update(self._task, description=f"{printable(words)} ", completed=done)
        if self._live is None:
            from rich.live import Live

            self._live = Live(
                get_renderable=self._shown,
                console=self._bar.console,
                transient=True,
                redirect_stdout=False,  # what models print goes its own way
                refresh_per_second=5,
            )
            self._live.start(refresh=True)

    def found(self, findings: Sequence["Finding"]) -> None:
        """What is known before all is measured, in the place of what was before."""
        self._found = tuple(findings)

    def rest(self) -> None:
        """Take the line away, until something is done again."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def leave(self, words: str) -> None:
        """Leave the terminal to another, which prints what it likes, until there is more to do."""
        self.rest()
        if self._bar is not None:
            self._bar.console.print(printable(words), markup=False, highlight=False, style="dim")

    def end(self) -> None:
        """Take it away for good."""
        self.rest()
        self._bar, self._found, self._stage = None, (), (None, 0)

    def _shown(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        lines = []
        told = [f for f in self._found if f.severity != "note"] or [*self._found]
        for f in told[:MOST]:
            line = Text("  so far  ", no_wrap=True, overflow="ellipsis")
            line.append(f"{f.severity} {f.name}", style=COLOURS[f.severity])
            line.append(printable(f" at {f.site}: {' '.join(f.says.split())}"), style="dim")
            lines.append(line)
        if len(told) > MOST:
            lines.append(Text(f"          and {len(told) - MOST} more", style="dim"))
        return Group(self._bar, *lines)


STATUS = Status()  # of this process, which has one terminal


@contextmanager
def progress_bar() -> Iterator[Status]:
    """The line while something is measured; gone behind it."""
    STATUS.begin("")
    try:
        yield STATUS
    finally:
        STATUS.found(())
        STATUS.rest()
