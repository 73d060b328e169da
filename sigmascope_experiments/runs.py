"""Computing the rows of a figure: resumable, in several processes, kept with what made them."""

import json
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from sigmascope import __version__
from sigmascope.core.guard import Mark, Refusal, RowFile, replacing, require_target, write_text
from sigmascope.integrations.processes import WorkerProcesses
from sigmascope_experiments.figures import Claim, Figure, Row, Task

ROWS, PICTURE, CLAIMS = "rows.jsonl", "figure.png", "claims.json"
MARKS = {
    PICTURE: Mark(rb"\x89PNG.{0,400}Software\x00sigmascope "),
    CLAIMS: Mark(rb'\[\n \{\n  "says": .*\n  "found": .*\n  "holds": '),
}

VERSIONS = {
    "sigmascope": __version__,
    "torch": torch.__version__,
    "python": platform.python_version(),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What a run of a figure left.

    Attributes:
        rows: All of them, also those of earlier runs.
        claims: What they show.
        folder: Where they are.
        picture: The plot; None where matplotlib is not installed.
    """

    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    folder: Path
    picture: Path | None

    @property
    def failed(self) -> bool:
        """Whether a claim does not hold, or none was tested: silence is no success."""
        return any(c.holds is False for c in self.claims) or all(
            c.holds is None for c in self.claims
        )


def reproduce(
    figure: Figure,
    out: Path,
    *,
    quick: bool = False,
    workers: int = 1,
    data: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Result:
    """Compute the rows that are not there yet, plot them, and check what they show.

    Rows are appended to `rows.jsonl` as they come; a run that was cut goes on where it was.

    Args:
        figure: One of `FIGURES`.
        out: A folder for this figure alone; made if need be.
        quick: The small sizes.
        workers: Processes, each with one thread.
        data: Folder of Fashion-MNIST and CIFAR-10.
        progress: Called with a word, the rows done and the rows in all.

    Raises:
        Refusal: If the folder holds rows of another configuration.
    """
    config = json.loads(json.dumps(dict(figure.quick if quick else figure.full)))
    _made(out)
    with RowFile(out / ROWS, kind="figure", recipe={"figure": figure.name, **config}) as kept:
        rows = _completed(figure, figure.tasks(config), kept, workers, data, progress)
    claims = tuple(figure.claims(rows, config))
    shown = [{"says": c.says, "found": c.found, "holds": c.holds} for c in claims]
    text = json.dumps(shown, indent=1, ensure_ascii=False) + "\n"
    write_text(out / CLAIMS, text, mark=MARKS[CLAIMS])
    return Result(tuple(rows), claims, out, _plotted(figure, rows, out / PICTURE))


def _made(out: Path) -> None:
    """Make the folder, and refuse before computing what could not be written after it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(
            f"`{out}` must be a folder or a name for one, got {error.strerror}: name another."
        ) from error
    for name, mark in MARKS.items():
        require_target(out / name, mark=mark)


def _completed(
    figure: Figure,
    tasks: list[Task],
    kept: RowFile,
    workers: int,
    data: Path | None,
    progress: Callable[[str, int, int], None] | None,
) -> list[Row]:
    """The rows of all tasks, those that are not there yet computed and kept as they come."""
    known = {_key(r["task"]): r for r in kept.rows}
    todo = [t for t in tasks if _key(t) not in known]
    tell = progress or (lambda *_: None)
    tell(figure.name, len(tasks) - len(todo), len(tasks))
    for done, row in enumerate(_computed(figure, todo, workers, data), start=1):
        kept.add(row)
        known[_key(row["task"])] = row
        tell(figure.name, len(tasks) - len(todo) + done, len(tasks))
    return [known[_key(t)] for t in tasks]


def _computed(figure: Figure, todo: list[Task], workers: int, data: Path | None) -> Iterator[Row]:
    alone = workers == 1 or len(todo) < 2
    shared = map if alone else WorkerProcesses(workers)
    yield from shared(partial(_row, figure.row, data), todo)


def _row(row: Callable[[Task, Path | None], Row], data: Path | None, task: Task) -> Row:
    return {"task": task, **row(task, data), "versions": VERSIONS}


def _key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)


def _plotted(figure: Figure, rows: list[Row], path: Path) -> Path | None:
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        return None
    canvas = Canvas(figsize=(8, 4.5), layout="constrained")
    figure.plot(rows, canvas)
    about = {"Software": f"sigmascope {__version__}"}
    with replacing(path, mark=MARKS[PICTURE]) as fresh:
        canvas.savefig(fresh, dpi=120, format="png", metadata=about)
    return path
