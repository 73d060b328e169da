"""Where results go: the terminal, files, the exit code."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

HEALTHY, FOUND, MISUSED, INTERRUPTED = 0, 1, 2, 130


def require_writable(*files: Path | None, json: str | None = None) -> None:
    """Refuse before measuring what could not be written after it."""
    from sigmascope import sources

    for file in (*files, None if json in (None, "-") else Path(json or "")):
        if file is not None and not file.absolute().parent.is_dir():
            raise sources.Refusal(
                f"The folder {file.parent} for {file.name} does not exist; "
                f"make it with `mkdir -p {file.parent}`."
            )
        if file is not None and file.is_dir():
            raise sources.Refusal(f"{file} is a folder; name a file in it.")


def require_run(run: Path | None) -> None:
    """Refuse before measuring to append to a file that is no run file."""
    from sigmascope import sources, store

    if run is None or not run.exists():
        return
    try:
        store.Run(run, write=False).close()
    except ValueError as error:
        raise sources.Refusal(str(error)) from error


def write(target: str, form: Any) -> None:
    """Results as JSON; a file appears whole or not at all."""
    import json

    text = json.dumps(form, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    fresh = Path(f"{target}.part")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(target)
    note(f"Wrote {target}")


def terminal() -> dict[str, Any]:
    """How `report` should print here."""
    console = Console()
    seen = console.is_terminal  # a file or a pipe has no width of its own
    return {"colour": seen and not console.no_color, "width": console.width if seen else 100}


def show(text: str) -> None:
    """Results, on standard output."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def note(words: str) -> None:
    """A word to the person, apart from the results on standard output."""
    sys.stderr.write(f"{words}\n")


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar with the time left, on a terminal, once two seconds have passed."""
    from threading import Timer

    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description:>16}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task("", total=1)
    timer = Timer(2.0, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda words, done, total: bar.update(
            task, description=words, completed=done, total=total
        )
    finally:
        timer.cancel()
        bar.stop()
