"""`sigmascope diagnose`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from sigmascope.cli.options import BUDGET, Count, Device, Loss, budget_of, loss_of, moved, seeded
from sigmascope.cli.outputs import finish, note, require_targets, wrote
from sigmascope.cli.progress import STATUS, progress_bar
from sigmascope.core import guard
from sigmascope.core.guard import Refusal

STEPS, SECONDS = 60, 60.0  # of a script

if TYPE_CHECKING:
    from sigmascope.diagnosis import Program
    from sigmascope.diagnosis.cures import Cure, Cures


def diagnose(
    program: str,
    /,
    *arguments: str,
    samples: Count = 128,
    loss: Loss = None,
    device: Device = None,
    cure: bool = False,
    quick: bool = False,
    html: Path | None = None,
    json: str | None = None,
    plot: Path | None = None,
    seed: int = 0,
    budget: str = BUDGET,
    strict: bool = False,
    steps: Annotated[int, Parameter(validator=Number(gte=8, lte=10_000))] = STEPS,
    seconds: float = SECONDS,
    module: Annotated[bool, Parameter(name=("-m", "--module"))] = False,
    scratch: Path | None = None,
    write: Path | None = None,
) -> int:
    """Say what is wrong with a training script or program: network, task, loop and settings.

    PROGRAM is a training script as it is, `train.py`, with its own arguments behind `--`; with `-m`
    a module that `python -m` runs. It is run for its first steps in a process of its own, and again
    with one thing changed, to prove what is wrong. What it writes is its own business: files that
    it would write, it writes (`--scratch` is a folder to run it in).

    Or PROGRAM is `train.py:program` or `package.module:program`: a function (or what it returns)
    that gives a mapping or an object with `model`, `data` (a batch, a data set or a loader),
    `loss`, `optimizer`, `lr`, `batch_size` and `epochs`; or a Lightning module with its data
    module; or a Trainer of Hugging Face. Nothing of it is trained but copies.

    Examples:
        # what is wrong with a script, run as it is
        sigmascope diagnose loop.py --steps 40 --seconds 20 --html script.html

        # of a program cures too, tried on copies, as lines to change
        sigmascope diagnose train.py:program --cure --html report.html

    Args:
        program: What to diagnose.
        arguments: Of the script, behind `--`.
        samples: On how many samples of its data.
        loss: In the place of the program's.
        device: Where to compute.
        cure: Try cures on copies, and print what to change for the best ones: a unified diff where
            the lines have a place in the program's file. Of a script that is done anyhow.
        quick: Only what a few passes show: nothing is trained. What is left out is listed.
        html: Write an interactive page here.
        json: Write machine-readable results here; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
        seed: For the weights and data that the program draws.
        budget: How long copies may be trained, e.g. `60s`, `10min`, once for the diagnosis and once
            for the cures; what there is no time for is left out, which is said.
        strict: End with exit code 1 if a finding is of severity error.
        steps: Of a script, that each run has.
        seconds: Of a script, for all its runs; loading torch for them comes on top.
        module: PROGRAM is a module, as `python -m` runs it.
        scratch: A folder in which the script is run; made if it is not there.
        write: Write the script with its first change here, a file that is not there yet.
    """
    if module or (program.endswith(".py") and ":" not in program):
        own = {
            "quick": quick,
            "samples": samples != 128,
            "loss": loss,
            "device": device,
            "seed": seed,
        }
        _require_none({**own, "budget": budget != BUDGET}, "program, `train.py:program`", program)
        how = {"steps": steps, "seconds": seconds, "scratch": scratch, "write": write}
        return _script(
            program, arguments, module=module, html=html, json=json, plot=plot, strict=strict, **how
        )
    own = {"steps": steps != STEPS, "seconds": seconds != SECONDS}
    _require_none({**own, "scratch": scratch, "write": write}, "script, `train.py`", program)
    if arguments:
        raise Refusal(
            f"Arguments belong to a script, `train.py`, got `{' '.join(arguments)}` for "
            f"`{program}`. Leave them out."
        )
    from sigmascope import diagnosis, sources
    from sigmascope.diagnosis import presentation

    require_targets(html=html, json=json, plot=plot)
    allowed = [budget_of(budget) for _ in ("diagnosis", "cures")]
    STATUS(f"opening {program}", 0, 0)
    whole = _asked(sources.open_program(program, generator=seeded(seed)), loss, device)
    if cure and quick:
        raise Refusal("`--cure` trains copies, and `--quick` does not: leave one of them out.")
    if cure:
        diagnosis.cures.require_recipe(whole)
    with progress_bar() as progress:
        found = diagnosis.diagnose(
            whole,
            samples=samples,
            progress=progress,
            early=progress.found,
            quick=quick,
            budget=allowed[0],
        )
    cures = None
    if cure:
        cures = found.cures(samples=samples, budget=allowed[1])
        again = lambda made: _asked(made, loss, device)
        cures = _with_diffs(cures, program, again, samples=samples, seed=seed)
    failed = strict and any(f.severity == "error" for f in found.findings)
    code = finish(found, *(() if cures is None else (cures,)), json=json, plot=plot, failed=failed)
    if html is not None:
        wrote(presentation.page(found.profile, found.findings, html))
    return code


def _require_none(given: Mapping[str, Any], whose: str, program: str) -> None:
    """Refuse options that would be ignored."""
    named = [f"`--{name}`" for name, value in given.items() if value]
    if named:
        belong = "belong" if len(named) > 1 else "belongs"
        raise Refusal(
            f"{' and '.join(named)} {belong} to a {whose}, got `{program}`. Leave them out."
        )


def _script(
    target: str,
    arguments: tuple[str, ...],
    *,
    module: bool,
    steps: int,
    seconds: float,
    scratch: Path | None,
    write: Path | None,
    html: Path | None,
    json: str | None,
    plot: Path | None,
    strict: bool,
) -> int:
    """The diagnosis of a script that is run as it is."""
    from sigmascope.core.guard import listed
    from sigmascope.diagnosis import scripts
    from sigmascope.diagnosis.scripts.page import script_page
    from sigmascope.diagnosis.scripts.patches import first_change
    from sigmascope.sources.callables import candidates

    require_targets(
        html=html, json=json, plot=plot, write=write, inputs=() if module else (target,)
    )
    if write is not None and write.exists():
        raise Refusal(f"`--write` must name a file that is not there, got {write}. Name another.")
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
    named = target if module else str(Path(target).resolve())
    started = scripts.Script(named, arguments, str((scratch or Path()).resolve()))
    try:
        with progress_bar() as bar:

            def progress(words: str, done: int, total: int) -> None:
                if total:
                    bar(words, done, total)
                else:  # the script prints where we would
                    bar.leave(f"{started.name} as it is, for up to {steps} steps:")

            found = scripts.diagnose_script(
                started, steps=steps, seconds=seconds, progress=progress, early=bar.found
            )
    except Refusal as reason:
        own = [] if module or not Path(target).is_file() else candidates(Path(target))
        has = f" As a program `{target}` has {listed(own)}." if own else ""
        raise Refusal(f"{reason}{has}") from reason
    failed = strict and any(f.severity == "error" for f in found.findings)
    code = finish(found, json=json, plot=plot, failed=failed)
    if html is not None:
        wrote(script_page(found, html))
    if write is not None:
        changed = first_change(found.run, [f for f in found.findings if f.name in found.diffs])
        if changed is None:
            note("Nothing was written: no finding has lines to change.")
        else:
            guard.write_text(write, changed, mark=guard.Mark(b"(?!)"))  # never over a file
            wrote(write)
    return code


def _asked(made: Any, loss: str | None, device: str | None) -> "Program":
    """What a user's file made, as a program with the loss and on the device that were named."""
    from sigmascope import diagnosis

    whole = diagnosis.programs.program_of(made)
    moved(whole.model, device)
    return whole if loss is None else replace(whole, loss=loss_of(loss))


def _with_diffs(
    cures: "Cures", program: str, again: Callable[[Any], "Program"], *, samples: int, seed: int
) -> "Cures":
    """The same with diffs of the program's file, each run once to see that it makes the cure."""
    from sigmascope import diagnosis, sources
    from sigmascope.sources.callables import LONGEST

    known = sources.source_of(program)
    if known is None:
        return cures
    file, name = known
    text = guard.read_file(file, most=LONGEST).decode()

    def written(cure: "Cure") -> "Cure":
        changed = diagnosis.cures.patched(cure.patch, text, name)
        if changed is None:
            return cure
        try:
            whole = again(sources.open_changed(program, changed, generator=seeded(seed)))
        except Refusal:  # the lines cannot be put there: they are printed as they are
            return cure
        if not diagnosis.cures.agrees(whole, cure, samples=samples):
            return cure
        return replace(cure, diff=diagnosis.cures.diff_of(cure, text, name, str(file)))

    return replace(cures, tried=tuple(map(written, cures.tried)))
