"""Computing the rows of a figure: resumable, in several processes, kept with what made them."""

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from sigmascope import __version__
from sigmascope.core.guard import Mark, Refusal, RowFile, replacing, require_target, write_text
from sigmascope.integrations.processes import WorkerProcesses
from sigmascope_experiments.costs import cost_of
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
    full: bool = False,
    workers: int = 1,
    data: Path | None = None,
    device: str = "cpu",
    progress: Callable[[str, int, int], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Result:
    """Compute the rows that are not there yet, plot them, and check what they show.

    Rows are appended to `rows.jsonl` as they come; a run that was cut goes on where it was, on
    whatever device: a row starts from the same weights on each, and says on which it was computed.

    Args:
        figure: One of `FIGURES`.
        out: A folder for this figure alone; made if need be.
        quick: The small sizes.
        full: Those of the paper; the usual ones where they are the paper's.
        workers: Processes, each with one thread.
        data: Folder of Fashion-MNIST and CIFAR-10.
        device: Where networks are trained, of figures that are `on_device`; the CPU for others.
        progress: Called with a word, the rows done and the rows in all.
        tell: Is told, at the paper's sizes, what the rows will cost, before the first is computed.

    Raises:
        Refusal: If the folder holds rows of another configuration.
    """
    if quick and full:
        raise Refusal("`quick` and `full` are two sizes, got both: take one.")
    at = torch.device(device if figure.on_device else "cpu")
    chosen = figure.quick if quick else figure.full if full and figure.full else figure.usual
    config = json.loads(json.dumps(dict(chosen)))
    compute = partial(_row, figure.row, data, at if figure.on_device else None, _name_of(at))
    _made(out)
    with RowFile(out / ROWS, kind="figure", recipe={"figure": figure.name, **config}) as kept:
        tasks, known = figure.tasks(config), {_key(r["task"]) for r in kept.rows}
        todo = [t for t in tasks if _key(t) not in known]
        if tell and todo and chosen is figure.full:
            tell(str(cost_of(todo, compute, at, _name_of(at))))
        rows = _completed(figure.name, tasks, todo, kept, workers, compute, progress)
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


def _name_of(device: torch.device) -> str:
    if device.type != "cuda":
        return str(device)
    return f"{device} ({torch.cuda.get_device_name(device)})"


def _completed(
    name: str,
    tasks: list[Task],
    todo: list[Task],
    kept: RowFile,
    workers: int,
    compute: Callable[[Task], Row],
    progress: Callable[[str, int, int], None] | None,
) -> list[Row]:
    """The rows of all tasks, those that are still to do computed and kept as they come."""
    known = {_key(r["task"]): r for r in kept.rows}
    tell = progress or (lambda *_: None)
    tell(name, len(tasks) - len(todo), len(tasks))
    shared = map if workers == 1 or len(todo) < 2 else WorkerProcesses(workers)
    for done, row in enumerate(shared(compute, todo), start=1):
        kept.add(row)
        known[_key(row["task"])] = row
        tell(name, len(tasks) - len(todo) + done, len(tasks))
    return [known[_key(t)] for t in tasks]


def _row(
    row: Callable[..., Row], data: Path | None, device: torch.device | None, name: str, task: Task
) -> Row:
    found = row(task, data) if device is None else row(task, data, device=device)
    return {"task": task, **found, "versions": {**VERSIONS, "device": name}}


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
