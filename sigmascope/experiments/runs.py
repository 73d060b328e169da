"""Computing the rows of a figure: resumable, in several processes, kept with what made them."""

import json
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from sigmascope import __version__
from sigmascope.experiments.figures import Claim, Figure, Row, Task

ROWS, CONFIG, PICTURE, CLAIMS = "rows.jsonl", "config.json", "figure.png", "claims.json"


class Refusal(ValueError):
    """A run that cannot go on as asked, with what to do about it."""


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
    out.mkdir(parents=True, exist_ok=True)
    _require_config(out, figure.name, config)
    tasks = figure.tasks(config)
    known = {_key(r["task"]): r for r in _kept(out / ROWS)}
    todo = [t for t in tasks if _key(t) not in known]
    tell = progress or (lambda *_: None)
    tell(figure.name, len(tasks) - len(todo), len(tasks))
    with (out / ROWS).open("a", encoding="utf-8") as file:
        for done, row in enumerate(_computed(figure, todo, workers, data), start=1):
            file.write(json.dumps(row) + "\n")
            file.flush()
            known[_key(row["task"])] = row
            tell(figure.name, len(tasks) - len(todo) + done, len(tasks))
    rows = [known[_key(t)] for t in tasks]
    claims = tuple(figure.claims(rows, config))
    shown = [{"says": c.says, "found": c.found, "holds": c.holds} for c in claims]
    (out / CLAIMS).write_text(json.dumps(shown, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return Result(tuple(rows), claims, out, _plotted(figure, rows, out / PICTURE))


def _computed(figure: Figure, todo: list[Task], workers: int, data: Path | None) -> Iterator[Row]:
    if workers == 1 or len(todo) < 2:
        yield from (_row(figure, task, data) for task in todo)
        return
    # a forked process would hang in torch's thread pool
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_alone) as pool:
        for future in as_completed([pool.submit(_row, figure, t, data) for t in todo]):
            yield future.result()


def _alone() -> None:
    torch.set_num_threads(1)


def _row(figure: Figure, task: Task, data: Path | None) -> Row:
    return {"task": task, **figure.row(task, data)}


def _key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)


def _kept(path: Path) -> list[Row]:
    """Rows of earlier runs; a last line that was cut is taken off the file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines = lines[:-1]
        path.write_text("".join(lines), encoding="utf-8")
    return [json.loads(line) for line in lines]


def _require_config(out: Path, name: str, config: dict[str, Any]) -> None:
    path = out / CONFIG
    versions = {"sigmascope": __version__, "torch": torch.__version__}
    versions["python"] = platform.python_version()
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
        if (found["figure"], found["config"]) != (name, config):
            raise Refusal(
                f"{out} must be empty or hold rows of {name} of the same size, got those of "
                f"{found['figure']} with other sizes. Name another folder with `--out`."
            )
        return
    text = json.dumps({"figure": name, "config": config, "versions": versions}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def _plotted(figure: Figure, rows: list[Row], path: Path) -> Path | None:
    try:
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        return None
    canvas = Canvas(figsize=(8, 4.5), layout="constrained")
    figure.plot(rows, canvas)
    canvas.savefig(path, dpi=120)
    return path
