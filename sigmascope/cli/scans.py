"""`sigmascope scan`."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from sigmascope import gate
from sigmascope.cli.ends import finish, refusing
from sigmascope.cli.outputs import (
    FOUND,
    MARKS,
    progress_bar,
    require_run,
    require_targets,
    results,
    wrote,
)
from sigmascope.cli.ranges import Names

if TYPE_CHECKING:
    from sigmascope.records.scans import Scan, ScanPlan

Effort = Literal["auto", "full", "leading"]
MANY = Annotated[int | None, Parameter(validator=Number(gte=1, lte=1024))]
SHORT = 20.0  # seconds of work, for which processes are not worth their start


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
        rules: Your own rules of what tensors are, a TOML file (docs/scan.md).
        seed: Of what is drawn at random.
    """

    only: Names = None
    skip: Names = None
    quantities: Names = None
    exact: bool = False
    leading: bool = False
    heads: bool = False
    rules: Path | None = None
    seed: int = 0


@Parameter(name="*")
@dataclass(frozen=True)
class How:
    """By whom, and within which means.

    Attributes:
        workers: Processes of this machine; as many as it has cores for where there is work enough.
        ray: Share the work on Ray instead: the address of a cluster, or `local`.
        memory: How much all processes may take together, e.g. `8GB`; half of the machine's.
        spectra: Keep singular values in the run file: 24 bytes each.
    """

    workers: MANY = None
    ray: str | None = None
    memory: str | None = None
    spectra: Annotated[bool, Parameter(negative="--no-spectra")] = True


WHAT, HOW = What(), How()


def scan(
    checkpoint: str,
    /,
    *,
    against: str | None = None,
    what: What = WHAT,
    how: How = HOW,
    plan: bool = False,
    run: Path | None = None,
    html: Path | None = None,
    json: str | None = None,
    lines: Path | None = None,
    whole: bool = False,
    strict: bool = False,
) -> int:
    """Measure every matrix of a checkpoint of any size, one at a time, without its model.

    Says what sticks out of noise, what is broken, copied or nearly empty, what can be compressed,
    and what was not looked at and why. With a run file, a scan that was cut off goes on.

    Example: sigmascope scan ./Llama-3.2-1B --run llama.run --html llama.html

    Args:
        checkpoint: A `.safetensors`, `.pt`, `.bin` or `.gguf` file, a folder of Hugging Face or of
            `torch.distributed.checkpoint`, an adapter, or a URL such as `s3://` or `hf://`.
        against: Another version: says which matrices moved, how far and in which directions.
        what: Which matrices, and what of them.
        how: By whom, and within which means.
        plan: Only say what would be done, from headers.
        run: Keep each result here as soon as it is known, and go on from what is there.
        html: Write a page here.
        json: Write the results here as JSON; `-` for standard output, in place of the text.
        lines: Write a line of JSON here for each matrix as it is done.
        whole: List every matrix.
        strict: End with exit code 1 if there is an error or a warning.
    """
    from sigmascope import scanning

    read = tuple(Path(name) for name in (checkpoint, against) if name and "://" not in name)
    require_targets(html=html, json=json, lines=lines, run=run, inputs=(*read, what.rules))
    asked = _asked(what) | {"against": against}
    with _allowed(how):
        planned = scanning.plan(checkpoint, **asked, memory=_allowance(how))
        if plan:
            return finish(_shared(planned, _workers(planned, how)), json=json)
        require_run(run)
        found = _measured(checkpoint, planned, asked, how, run, lines, what)
    from sigmascope import diagnosis, report  # not before: a worker of one is this process

    findings = diagnosis.checkpoints.scan_findings(found)
    failed = strict and any(f.severity != "note" for f in findings)
    if html is not None:
        report.scan_page(html, found, findings)
        wrote(html)
    return max(finish(found, findings, json=json, printed={"whole": whole}), FOUND * failed)


def _measured(
    checkpoint: str,
    planned: "ScanPlan",
    asked: dict[str, Any],
    how: How,
    run: Path | None,
    lines: Path | None,
    what: What,
) -> "Scan":
    from sigmascope import scanning

    workers = _workers(planned, how)
    with ExitStack() as open_:
        progress = open_.enter_context(progress_bar())
        told = open_.enter_context(_lines(lines))
        return scanning.scan(
            checkpoint,
            **asked,
            run=run,
            spectra=how.spectra,
            memory=_allowance(how) // workers,
            workers=workers,
            mapper=_mapper(workers, how),
            seed=what.seed,
            told=told,
            progress=progress,
        )


def _asked(what: What) -> dict[str, Any]:
    from sigmascope import scanning

    if what.exact and what.leading:
        raise gate.Refusal("`--exact` and `--leading` ask for opposites: give one of them.")
    effort: Effort = "full" if what.exact else "leading" if what.leading else "auto"
    rules = () if what.rules is None else scanning.read_rules(what.rules)
    return {
        "only": what.only or (),
        "skip": what.skip or (),
        "quantities": what.quantities,
        "effort": effort,
        "heads": what.heads,
        "rules": rules,
    }


@contextmanager
def _allowed(how: How) -> Iterator[None]:
    with gate.memory(how.memory):
        yield


def _allowance(how: How) -> int:
    return gate.allowed()


def _workers(planned: "ScanPlan", how: How) -> int:
    """As many processes as there are cores, work and memory for."""
    fitting = max(1, _allowance(how) // max(planned.memory, 1))
    if how.workers is not None:
        if how.workers > fitting and planned.matrices:
            raise gate.Refusal(
                f"{how.workers} workers of {gate.size_words(planned.memory)} each do not fit the "
                f"{gate.size_words(_allowance(how))} allowed: take {fitting}, or more `--memory`."
            )
        return how.workers
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(fitting, cores or 1, max(1, int(planned.seconds // SHORT)))


def _shared(planned: "ScanPlan", workers: int) -> "ScanPlan":
    from dataclasses import replace

    return replace(planned, workers=workers)


def _mapper(workers: int, how: How) -> Callable[[Any, Iterable[Any]], Iterable[Any]]:
    if how.ray is None:
        from sigmascope.integrations.processes import Processes

        return map if workers == 1 else Processes(workers)
    with refusing(ImportError):
        from sigmascope.integrations.ray import RayMap
    return RayMap(None if how.ray == "local" else how.ray)


@contextmanager
def _lines(file: Path | None) -> Iterator[Callable[..., None] | None]:
    """What is called with each result, and writes it as one line."""
    import json

    from sigmascope import report

    if file is None:
        yield None
        return
    if str(file) == "-":
        stream = results()
        yield lambda matrix, one: _write_line(stream, report, json, matrix, one)
        return
    gate.require_target(file, mark=MARKS["lines"])
    with file.open("w", encoding="utf-8") as stream:
        yield lambda matrix, one: _write_line(stream, report, json, matrix, one)
    wrote(file)


def _write_line(stream: Any, report: Any, json: Any, matrix: Any, one: Any) -> None:
    form = report.matrix_form(matrix, one.readings, one.skipped)
    stream.write(json.dumps(form, allow_nan=False) + "\n")
    stream.flush()
