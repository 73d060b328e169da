"""Where results go: the terminal, files, the exit code.

Results alone go to standard output. Whatever else is said while a command runs (what a model
prints, what its C code or its subprocesses write to descriptor 1, warnings) goes to standard error.
"""

import importlib.util
import inspect
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from sigmascope.cli.progress import STATUS
from sigmascope.core import guard

# ------------------------------------------------------------------------------
# What the help of a command shows beside its options, and the documentation with it.


def examples(command: Callable[..., Any]) -> str:
    """What stands under `Examples:` in the docstring of a command: comments, and lines to paste."""
    words = inspect.getdoc(command) or ""
    _, _, below = words.partition("\nExamples:\n")
    return inspect.cleandoc("\n" + below.partition("\n\nArgs:\n")[0])


def epilogue(command: Callable[..., Any]) -> str:
    """The same as the end of a page of help, in Markdown."""
    return f"Examples\n\n```\n{examples(command)}\n```"


HEALTHY, FOUND, MISUSED, INTERRUPTED = 0, 1, 2, 130

WEIGHTS = b"sigmascope weights"  # the comment of the archive
DRAWN = "<!-- a picture of sigmascope -->"
FIGURES = {  # what a file of each kind says of who wrote it, and what stands behind its end
    ".pdf": ({"Creator": "sigmascope", "CreationDate": None}, b"\n% a figure of sigmascope\n"),
    ".svg": ({"Creator": ["sigmascope"], "Date": None}, b"<!-- a figure of sigmascope -->\n"),
    ".png": ({"Software": "sigmascope"}, b""),
}
# By which files that were written here may be written again.
MARKS = {
    "json": guard.Mark(rb'\{\n "schema": "sigmascope/'),
    "lines": guard.Mark(rb'\{"schema": "sigmascope/scan-matrix/'),
    "html": guard.Mark(b"<!doctype html>\n<!-- a page of sigmascope -->\n"),
    "picture": guard.Mark(rb"<svg[^>]*>" + DRAWN.encode()),
    "save": guard.Mark(b"PK\x03\x04", WEIGHTS),
    "plot": guard.Mark(
        rb"%PDF-|<\?xml|\x89PNG.{4,60}Software\0sigmascope",
        rb"(\n% a figure of sigmascope\n|<!-- a figure of sigmascope -->\n|IEND.{4})",
    ),
}

_results: list[Any] = []  # streams of any make; the last is where results go


def require_targets(
    *, inputs: tuple[str | Path | None, ...] = (), **files: Path | str | None
) -> None:
    """Refuse before measuring what could not be written after it.

    Args:
        inputs: Files that the command reads, none of which is to be written.
        files: What is to be written, by its kind in `MARKS`; other kinds see to themselves.
    """
    named = {kind: Path(file) for kind, file in files.items() if file not in (None, "-")}
    if (plot := named.get("plot")) is not None:
        if plot.suffix not in FIGURES:
            raise guard.Refusal(
                f"`--plot` must name a file that ends in {', '.join(FIGURES)}, got `{plot}`."
            )
        if importlib.util.find_spec("matplotlib") is None:
            raise guard.Refusal(
                "`--plot` needs matplotlib: pip install matplotlib, or 'sigmascope[figures]'."
            )
    read = {os.path.realpath(file) for file in inputs if file is not None and _is_name(str(file))}
    seen: dict[str, str] = {}
    for kind, file in named.items():
        if not _is_name(str(file)):
            raise guard.Refusal(f"`--{kind}` must name a file, got {str(file)!r}.")
        place = os.path.realpath(file)  # unlike Path.resolve it bears links that go in a circle
        if place in read or place in seen:
            other = "is read by this command" if place in read else f"is `--{seen[place]}` too"
            raise guard.Refusal(f"{file} cannot be `--{kind}`, for it {other}: name another file.")
        seen[place] = kind
        if kind in MARKS:
            guard.require_target(file, mark=MARKS[kind])


def _is_name(text: str) -> bool:
    return bool(text.strip()) and "\0" not in text


def require_run(run: Path | None) -> None:
    """Refuse before measuring to append to a file that is no run file."""
    from sigmascope.core import store

    if run is None:
        return
    if not run.exists():
        guard.require_target(run, mark=guard.Mark(b"(?!)"))  # there is a folder that takes files
        return
    store.Run(run).close()


def write(target: str, form: Any) -> None:
    """Results as JSON; a file appears whole or not at all."""
    import json

    text = json.dumps(form, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    # within strings, the only place for them, what acts on a terminal is written as JSON writes it
    quoted = lambda c: json.dumps(c)[1:-1]
    text = "\n".join(guard.printable(line, by=quoted) for line in text.split("\n"))
    if target == "-":
        STATUS.rest()
        encoding = getattr(results(), "encoding", None) or "utf-8"
        if text.encode(encoding, "ignore").decode(encoding) != text:
            # the stream writes an escape of Python for what its encoding lacks, which is no JSON
            text = "".join(c if c.isascii() else quoted(c) for c in text)
        results().write(text)
        return
    guard.write_text(target, text, mark=MARKS["json"])
    wrote(target)


def draw(file: Path, picture: str) -> None:
    """A picture as SVG; the file appears whole or not at all."""
    opening, _, rest = picture.partition(">")
    guard.write_text(file, f"{opening}>{DRAWN}{rest}", mark=MARKS["picture"])
    wrote(file)


def plotted(file: Path, result: Any, *beside: Any, **more: Any) -> None:
    """A result as a figure; the file appears whole or not at all."""
    from sigmascope import report

    metadata, end = FIGURES[file.suffix]
    figure = report.plot(result, *beside, **more)
    content = io.BytesIO()
    figure.savefig(content, format=file.suffix[1:], metadata=metadata)
    with guard.replacing(file, mark=MARKS["plot"]) as fresh, fresh.open("wb") as stream:
        stream.write(content.getvalue() + end)
    wrote(file)


def save(file: Path, state: dict[str, Any], *, how: str = "") -> None:
    """Weights as `torch.save` writes them; the file appears whole or not at all."""
    import zipfile

    import torch

    with guard.replacing(file, mark=MARKS["save"]) as fresh:
        try:
            torch.save(state, fresh)
        except RuntimeError as error:  # torch's writer says so when the disk is full
            raise OSError(str(error).splitlines()[0]) from error
        with zipfile.ZipFile(fresh, "a") as archive:
            archive.comment = WEIGHTS
    wrote(file, how)


def wrote(file: str | Path, how: str = "") -> None:
    """Say that a file was written."""
    note(f"Wrote {file}{f'; {how}.' if how else ''}")


def require_streams() -> None:
    """Streams that the shell closed lead to nowhere; else files would take their descriptors."""
    spare = os.open(os.devnull, os.O_RDWR)
    while spare <= 2:
        spare = os.open(os.devnull, os.O_RDWR)
    os.close(spare)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def terminal() -> dict[str, Any]:
    """How `report` should print here."""
    from rich.console import Console

    console = Console(file=results())
    seen = console.is_terminal  # a file or a pipe has no width of its own
    width = max(console.width, 40) if seen else 100
    return {"colour": seen and not console.no_color, "width": width}


def show(text: str) -> None:
    """Results, on standard output."""
    STATUS.rest()
    results().write(text if text.endswith("\n") else f"{text}\n")


def note(words: str) -> None:
    """A word to the person, apart from the results on standard output."""
    STATUS.rest()
    with suppress(OSError):  # there may be nobody to hear it
        sys.stderr.write(f"{guard.printable(words)}\n")


def results() -> Any:
    """Where results go."""
    return _results[-1] if _results else sys.stdout


@contextmanager
def results_apart() -> Iterator[None]:
    """Within the block standard output belongs to the results; what others print goes to the other.

    Files that hold results take any character: what the encoding lacks is written as an escape.
    """
    with ExitStack() as undo:
        _results.append(undo.enter_context(_own(sys.stdout)))
        undo.callback(_results.pop)
        undo.enter_context(redirect_stdout(_Said()))
        undo.enter_context(warnings.catch_warnings())
        warnings.showwarning = lambda message, kind, *_: note(f"{kind.__name__}: {message}")
        yield
        results().flush()


class _Said(io.TextIOBase):
    """What a model prints, on standard error, as text that cannot act on a terminal."""

    def write(self, text: str) -> int:
        STATUS.rest()
        sys.stderr.write(guard.printable_lines(text))
        return len(text)

    def fileno(self) -> int:
        return sys.stderr.fileno()


@contextmanager
def _own(stream: Any) -> Iterator[Any]:
    """A stream to where `stream` leads, whose descriptor others get to write to standard error."""
    try:
        if (stream.fileno(), sys.stderr.fileno()) != (1, 2):
            raise OSError
    except (OSError, ValueError, AttributeError):  # a stream within Python
        yield stream
        return
    stream.flush()
    kept = os.dup(1)
    own = os.fdopen(kept, "w", encoding=stream.encoding, errors="backslashreplace", closefd=False)
    os.dup2(2, 1)
    try:
        yield own
    finally:
        os.dup2(kept, 1)
        with suppress(OSError):  # a reader that has left hears nothing
            own.close()
        os.close(kept)


# ------------------------------------------------------------------------------
# How a command ends: what it prints, what it writes as JSON, its exit code.


def finish(
    result: Any,
    *beside: Any,
    json: str | None,
    plot: Path | None = None,
    failed: bool = False,
    shown: Any = None,
    printed: Mapping[str, Any] | None = None,
    **more: Any,
) -> int:
    """Print a result and write it as JSON, or only the latter where that goes to the output.

    Args:
        result: From the library.
        beside: What it is shown with; see `report.text` and `report.json_form`.
        json: As the user gave it.
        plot: Where its figure goes, if anywhere.
        failed: Whether something was found that should stop a script.
        shown: What to print in its place.
        printed: What else the text takes, as `whole`.
        more: What both of them take.

    Returns:
        The exit code.
    """
    from sigmascope import report

    if json != "-":
        text = report.text(shown or result, *beside, **more, **(printed or {}), **terminal())
        show(text)
    if json is not None:
        write(json, report.json_form(result, *beside, **more))
    if plot is not None:
        plotted(plot, shown or result, *beside, **more)
    return FOUND if failed else HEALTHY


@contextmanager
def refusing(kind: type[Exception] = ValueError) -> Iterator[None]:
    """What the library says of numbers or packages that the user chose, as a refusal."""
    try:
        yield
    except kind as error:
        raise guard.Refusal(str(error)) from error
