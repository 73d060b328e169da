"""`sigmascope`: each command is one call into the library and one call into `report`.

Heavy imports are inside the commands, so that help does not wait for torch.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import cyclopts
from cyclopts import Parameter
from rich.console import Console

from sigmascope import __version__

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from sigmascope.diagnosis import Finding
    from sigmascope.sources import Data, Model
    from sigmascope.survey import Profile

app = cyclopts.App(
    name="sigmascope",
    help="Measure the singular values of a deep network and say what they mean.",
    version=__version__,
    help_format="markdown",
    suppress_keyboard_interrupt=False,  # main() says it
    default_parameter=Parameter(negative=()),  # no `--no-strict`: it says nothing
)

HEALTHY, FOUND, MISUSED, INTERRUPTED = 0, 1, 2, 130
IGNORED = -100  # the target that torch's cross-entropy leaves out
View = Literal["representations", "weights", "features", "gradients"]
Format = Literal["parquet", "csv", "json"]
Table = Literal["readings", "spectra", "checks", "findings", "skipped", "layers", "environment"]
Views = Annotated[list[View] | None, Parameter(consume_multiple=1)]  # one or more
Names = Annotated[list[str] | None, Parameter(consume_multiple=1)]


@Parameter(name="*")
@dataclass(frozen=True)
class Source:
    """What to measure, and on what.

    Attributes:
        data: `digits`, `fashion-mnist`, `cifar10`, `gaussian`, an `.npy`, `.npz`, `.pt` or
            `.safetensors` file, or `file.py:loader`. Guessed from the first layer where it can be.
        checkpoint: Weights to load: a state dict as `.pt` or `.safetensors`.
        samples: How many samples of the data to measure on.
        folder: Where Fashion-MNIST and CIFAR-10 lie.
        seed: For the weights of a network that is built here, and for the choice of samples.
        batch_dim: Where the model wants its samples; the data always have them first.
        outputs: How many outputs to differentiate; a random sample where there are more.
    """

    data: str | None = None
    checkpoint: Path | None = None
    samples: int = 128
    folder: Path | None = None
    seed: int = 0
    batch_dim: int = 0
    outputs: int = 16


DEFAULT = Source()


@app.command
def profile(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    views: Views = None,
    html: Path | None = None,
    json: str | None = None,
    run: Path | None = None,
    step: int = 0,
    strict: bool = False,
) -> int:
    """Measure a model on a batch and say what is wrong with it.

    MODEL is `package.module:factory` or `file.py:factory` (a module, or a function that returns
    one), a built-in network (`mlp?depth=32&width=128&norm=none`), or a local Hugging Face folder.

    Example: sigmascope profile 'mlp?depth=32' --data digits --html report.html

    Args:
        model: What to measure.
        source: The data and weights.
        views: Only these views; all four by default.
        html: Write an interactive page here.
        json: Write machine-readable results here; `-` for standard output, in place of the text.
        run: Append everything to this run file (SQLite).
        step: Step of training to file it under in the run file.
        strict: End with exit code 1 if a finding is of severity error.
    """
    from sigmascope import diagnosis, report, store

    _require_targets(html, run, json=json)
    _require_run(run)
    opened, data = _opened(model, source)
    measured = _measured(opened, data, source, views)
    findings = diagnosis.diagnose(measured)
    if json != "-":
        _print(report.text(measured, findings, **_terminal()))
    if json is not None:
        _write_json(measured, findings, json)
    if html is not None:
        report.page(measured, findings, html)
        _note(f"Wrote {html}")
    if run is not None:
        with store.Run(run) as file:
            file.add_profile(measured, findings, step=step)
        _note(f"Appended step {step} to {run}")
    return FOUND if strict and any(f.severity == "error" for f in findings) else HEALTHY


@app.command
def check(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    theorem: Names = None,
    json: str | None = None,
    strict: bool = False,
) -> int:
    """Check the theorems that speak of a model, layer by layer.

    Example: sigmascope check 'mlp?depth=8&norm=batch' --theorem rank-participation

    Args:
        model: What to check; as for `profile`.
        source: The data and weights.
        theorem: Only these; `sigmascope theorems` lists them.
        json: Write the checks here as JSON; `-` for standard output, in place of the text.
        strict: End with exit code 1 if a theorem is violated.
    """
    from sigmascope import report, sources, theory

    _require_targets(json=json)
    names = [t.name for t in theory.THEOREMS]
    unknown = [t for t in theorem or () if t not in names]
    if unknown:
        raise sources.Refusal(
            f"There is no theorem `{unknown[0]}`; there are {', '.join(names)}. "
            "`sigmascope theorems` says what they state."
        )
    opened, data = _opened(model, source)
    found = tuple(theory.check(_subject(opened, data, source), only=theorem))
    if json != "-":
        _print(report.checks_text(found, **_terminal()))
    if json is not None:
        _write(json, report.checks_form(found))
    return FOUND if strict and any(c.verdict == theory.Verdict.VIOLATED for c in found) else HEALTHY


@app.command
def theorems() -> int:
    """List every theorem that can be checked: its name, what it says, where it is from.

    Example: sigmascope theorems
    """
    from sigmascope import report, theory

    _print(report.theorems_text(theory.THEOREMS, **_terminal()))
    return HEALTHY


@app.command
def export(run: Path, *, to: Format, out: Path | None = None, table: Table = "readings") -> int:
    """Write a table of a run file as Parquet, CSV or JSON.

    Example: sigmascope export mlp.run --to csv --table spectra

    Args:
        run: The run file.
        to: The form.
        out: Where to write; beside the run file, with the table's name, if not given.
        table: Which table.
    """
    from sigmascope import sources, store

    target = out or run.with_name(f"{run.stem}-{table}.{to}")
    _require_targets(target)
    try:
        store.export(run, to=to, path=target, table=table)
    except (ValueError, OSError, ImportError) as error:
        raise sources.Refusal(str(error)) from error
    _note(f"Wrote {target}")
    return HEALTHY


def _opened(model: str, source: Source) -> "tuple[Model, Data]":
    from sigmascope import sources

    return sources.open_both(
        model,
        data=source.data,
        checkpoint=source.checkpoint,
        samples=source.samples,
        folder=source.folder,
        batch_dim=source.batch_dim,
        generator=_generator(source.seed),
    )


def _generator(seed: int) -> "torch.Generator":
    import torch

    from sigmascope import sources

    if not -(2**63) <= seed < 2**63:
        raise sources.Refusal(f"`--seed` must fit 64 bits, got {seed}: take a smaller number.")
    return torch.Generator().manual_seed(seed)


def _measured(opened: "Model", data: "Data", source: Source, views: list[View] | None) -> "Profile":
    from sigmascope import survey

    with _progress() as progress:
        measured = survey.profile(
            opened.module,
            data.inputs,
            targets=data.targets,
            loss=None if data.targets is None else _loss,
            views=views or survey.ALL,
            outputs=source.outputs,
            batch_dim=source.batch_dim,
            generator=_generator(source.seed),
            progress=progress,
        )
    about = {"name": opened.name, "weights": opened.weights, "data": data.name, **measured.about}
    return survey.named(measured, about)


def _subject(opened: "Model", data: "Data", source: Source) -> Any:
    from sigmascope import probes

    return probes.Subject(
        opened.module,
        data.inputs,
        data.targets,
        None if data.targets is None else _loss,
        outputs=source.outputs,
        batch_dim=source.batch_dim,
        generator=_generator(source.seed),
    )


def _loss(output: "Tensor", targets: "Tensor") -> "Tensor":
    """Cross-entropy for whole-number targets, mean squared error for others."""
    from torch.nn import functional as F

    if targets.is_floating_point():
        _require_values(output, targets)
        return F.mse_loss(output, targets.to(output.dtype).view_as(output))
    scores = output
    if output.ndim > 2 and targets.shape != output.shape[:-1]:
        scores = output.movedim(1, -1)  # the classes of a segmentation come before its pixels
    _require_classes(scores, targets, shape=tuple(output.shape))
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten().long())


def _require_values(output: "Tensor", targets: "Tensor") -> None:
    from sigmascope import probes

    if output.numel() != targets.numel():
        raise probes.Refusal(
            f"Floating targets must have the shape of the output, {tuple(output.shape)}, got "
            f"{tuple(targets.shape)}. Give one value for each output, or whole numbers for classes."
        )


def _require_classes(scores: "Tensor", targets: "Tensor", *, shape: tuple[int, ...]) -> None:
    from sigmascope import probes

    if scores.ndim < 2 or targets.shape != scores.shape[:-1]:
        raise probes.Refusal(
            f"Whole-number targets must be one class for each row of scores, got targets of shape "
            f"{tuple(targets.shape)} for an output of shape {shape}. Give one class a sample, or "
            "floating targets of the shape of the output."
        )
    classes = scores.shape[-1]
    bad = targets[(targets >= classes) | ((targets < 0) & (targets != IGNORED))]
    if len(bad):
        raise probes.Refusal(
            f"Whole-number targets must be classes from 0 to {classes - 1}, for the model has "
            f"{classes} outputs, got {int(bad[0])}. Renumber them, or widen the last layer."
        )


def _require_targets(*files: Path | None, json: str | None = None) -> None:
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


def _require_run(run: Path | None) -> None:
    """Refuse before measuring to append to a file that is no run file."""
    from sigmascope import sources, store

    if run is None or not run.exists():
        return
    try:
        store.Run(run, write=False).close()
    except ValueError as error:
        raise sources.Refusal(str(error)) from error


def _write_json(measured: "Profile", findings: "tuple[Finding, ...]", target: str) -> None:
    from sigmascope import report

    _write(target, report.json_form(measured, findings))


def _write(target: str, form: Any) -> None:
    import json

    text = json.dumps(form, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    fresh = Path(f"{target}.part")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(target)
    _note(f"Wrote {target}")


def _terminal() -> dict[str, Any]:
    console = Console()
    seen = console.is_terminal  # a file or a pipe has no width of its own
    return {"colour": seen and not console.no_color, "width": console.width if seen else 100}


def _print(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def _note(words: str) -> None:
    """A word to the person, apart from the results on standard output."""
    sys.stderr.write(f"{words}\n")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
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


def main() -> None:
    """Run the command line; a refusal is one sentence on standard error and exit code 2."""
    debug = "--debug" in sys.argv[1:]
    words = _joined([word for word in sys.argv[1:] if word != "--debug"])
    try:
        code = app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        _note(f"sigmascope: {_usage(error)}")
        sys.exit(MISUSED)
    except KeyboardInterrupt:
        _note("Interrupted.")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(HEALTHY)
    except (ValueError, OSError) as error:
        if debug or not _is_refusal(error):
            raise
        _note(f"sigmascope: {error}")
        sys.exit(MISUSED)
    sys.exit(code if isinstance(code, int) else HEALTHY)


def _joined(words: list[str]) -> list[str]:
    """`--json -` as `--json=-`: a hyphen alone is an option to cyclopts, which would refuse it."""
    at = [i for i, pair in enumerate(pairwise(words)) if pair == ("--json", "-")]
    return [w if i not in at else "--json=-" for i, w in enumerate(words) if i - 1 not in at]


def _usage(error: cyclopts.CycloptsError) -> str:
    """What is wrong with the words of the command line, and which help speaks of it."""
    error.verbose = False  # else it shows the signature of our function
    words = " ".join(str(error).split())
    command = " ".join(("sigmascope", *(error.command_chain or ())))
    return f"{words.removesuffix('.') if words.endswith('?.') else words} `{command} --help` helps."


def _is_refusal(error: BaseException) -> bool:
    from sigmascope import probes, sources

    return isinstance(error, (probes.Refusal, sources.Refusal, OSError))


if __name__ == "__main__":
    main()
