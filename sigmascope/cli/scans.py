"""`sigmascope scan`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from cyclopts import Parameter

from sigmascope.cli.options import How, Index, Names, hired, mapper_of, workers_for
from sigmascope.cli.outputs import (
    FOUND,
    HEALTHY,
    MARKS,
    finish,
    plotted,
    require_run,
    require_targets,
    results,
    write,
    wrote,
)
from sigmascope.cli.progress import progress_bar
from sigmascope.core import guard

if TYPE_CHECKING:
    from sigmascope.scanning.matrices import NameRule

Effort = Literal["auto", "full", "leading"]


@Parameter(name="*")
@dataclass(frozen=True)
class What:
    """Which matrices, and what of them.

    Attributes:
        only: Patterns of names of tensors, e.g. `'*attn*'`; all if not given.
        skip: Patterns of names to leave out.
        quantities: Names of what is read, e.g. `"spikes" "stable rank"`; everything if not given.
        exact: All singular values of every matrix; else of those up to a smaller side of 4096.
        leading: The largest singular values only: several times faster.
        heads: Take matrices of attention apart into heads.
        grid: Measure convolutions as operators too, on a periodic grid of so many points a side.
        rules: Your own rules of what tensors are, a TOML file (docs/scan.md).
        seed: Of what is drawn at random.
    """

    only: Names = None
    skip: Names = None
    quantities: Names = None
    exact: bool = False
    leading: bool = False
    heads: bool = False
    grid: Index = 0
    rules: Path | None = None
    seed: int = 0


class ScanOptions(TypedDict):
    """What `scanning.plan` and `scanning.scan` both take."""

    only: Sequence[str]
    skip: Sequence[str]
    quantities: list[str] | None
    effort: Effort
    heads: bool
    grid: int
    rules: "tuple[NameRule, ...]"
    against: str | None


WHAT, HOW = What(), How()


def scan(
    *checkpoints: str,
    against: str | None = None,
    what: What = WHAT,
    how: How = HOW,
    plan: bool = False,
    run: Path | None = None,
    html: Path | None = None,
    json: str | None = None,
    plot: Path | None = None,
    lines: Path | None = None,
    whole: bool = False,
    strict: bool = False,
) -> int:
    """Measure every matrix of a checkpoint of any size, one at a time, without its model.

    Says what sticks out of noise, what is broken, copied or nearly empty, what can be compressed,
    and what was not looked at and why. With a run file, a scan that was cut off goes on.

    Examples:
        # every matrix of a checkpoint, kept as it is measured
        sigmascope scan model.safetensors --run model.run --html model.html

        # which matrices a fine-tuned version moved, and how far
        sigmascope scan model.safetensors --against tuned.safetensors

    Args:
        checkpoints: A `.safetensors`, `.pt`, `.bin` or `.gguf` file, a folder of Hugging Face or of
            `torch.distributed.checkpoint`, an adapter, or a URL such as `s3://` or `hf://`; of
            several, one after the other.
        against: A later version: says which matrices moved, how far and in which directions, how
            the change is spread over them, and its rank (of a merged adapter, say).
        what: Which matrices, and what of them.
        how: By whom, and within which means.
        plan: Only say what would be done, from headers.
        run: Keep each result here as soon as it is known, and go on from what is there.
        html: Write a page here.
        json: Write the results here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
        lines: Write a line of JSON here for each matrix as it is done; `-` for standard output, in
            place of the text.
        whole: List every matrix.
        strict: End with exit code 1 if there is an error or a warning, or nothing was measured.
    """
    files = {"html": html, "json": json, "plot": plot, "lines": lines, "run": run}
    if not checkpoints:
        raise guard.Refusal("Name a checkpoint to scan: a file, a folder or a URL.")
    given = [f"--{name}" for name, file in files.items() if file is not None]
    single = given + ["--against"] * (against is not None)
    if len(checkpoints) > 1 and single:
        raise guard.Refusal(
            f"`{single[0]}` belongs to one checkpoint, got {len(checkpoints)}: scan them one at a "
            "time to write files of each, or to hold it against another version."
        )
    if str(files["json"]) == str(files["lines"]) == "-":
        raise guard.Refusal("`--json -` and `--lines -` both want the output: name a file for one.")
    if plan and (odd := [name for name in given if name != "--json"]):
        raise guard.Refusal(f"`--plan` measures nothing, so there is no `{odd[0]}`: leave one out.")
    read = tuple(Path(name) for name in (*checkpoints, against) if name and "://" not in name)
    require_targets(inputs=(*read, what.rules), **files)
    with guard.memory(how.memory), hired(how, wanted=not plan) as crew:
        from sigmascope import scanning

        if what.exact and what.leading:
            raise guard.Refusal("`--exact` and `--leading` ask for opposites: give one of them.")
        asked: ScanOptions = {
            "only": what.only or (),
            "skip": what.skip or (),
            "quantities": what.quantities,
            "effort": "full" if what.exact else "leading" if what.leading else "auto",
            "heads": what.heads,
            "grid": what.grid,
            "rules": () if what.rules is None else scanning.read_rules(what.rules),
            "against": against,
        }
        plans = [scanning.plan(name, **asked, memory=guard.allowed()) for name in checkpoints]
        if plan:
            each = [replace(planned, workers=workers_for(planned, how)) for planned in plans]
            return max(finish(planned, json=json) for planned in each)
        require_run(run)
        ends = []
        for name, planned in zip(checkpoints, plans, strict=True):
            workers = workers_for(planned, how)
            with progress_bar() as progress, _lines(lines) as told:
                found = scanning.scan(
                    name,
                    **asked,
                    run=run,
                    spectra=how.spectra,
                    memory=guard.allowed() // workers,
                    workers=workers,
                    mapper=mapper_of(workers, how, crew),
                    seed=what.seed,
                    told=told,
                    progress=progress,
                )
            from sigmascope import diagnosis, report  # not before: a worker of one is this process

            findings = diagnosis.checkpoints.scan_findings(found)
            grave = any(f.severity != "note" for f in findings)
            failed = strict and (grave or not found.readings)  # what nobody saw may be anything
            if html is not None:
                from sigmascope.scanning.page import scan_page

                scan_page(html, found, findings)
                wrote(html)
            if str(lines) != "-":
                shown = {"json": json, "plot": plot, "printed": {"whole": whole}}
                ends.append(finish(found, findings, failed=failed, **shown))
                continue
            if json is not None:  # the output belongs to the lines
                write(json, report.json_form(found, findings))
            if plot is not None:
                plotted(plot, found, findings)
            ends.append(FOUND if failed else HEALTHY)
    return max(ends)


@contextmanager
def _lines(file: Path | None) -> Iterator[Callable[..., None] | None]:
    """What is called with each result, and writes it as one line."""
    import json

    from sigmascope.scanning.presentation import matrix_form

    if file is None:
        yield None
        return
    apart = str(file) != "-"
    if apart:
        guard.require_target(file, mark=MARKS["lines"])
    with file.open("w", encoding="utf-8") if apart else nullcontext(results()) as stream:

        def told(matrix: Any, one: Any) -> None:
            form = matrix_form(matrix, one.readings, one.skipped)
            stream.write(json.dumps(form, allow_nan=False) + "\n")
            stream.flush()

        yield told
    if apart:
        wrote(file)
