"""`sigmascope diagnose`."""

from pathlib import Path

from sigmascope.cli.ends import finish
from sigmascope.cli.options import seeded
from sigmascope.cli.outputs import progress_bar, require_targets, wrote
from sigmascope.cli.ranges import Count


def diagnose(
    program: str,
    /,
    *,
    samples: Count = 128,
    cure: bool = False,
    html: Path | None = None,
    json: str | None = None,
    seed: int = 0,
    strict: bool = False,
) -> int:
    """Say what is wrong with a training program: its network, its task and how it trains.

    PROGRAM is `train.py:program` or `package.module:program`: a function (or what it returns) that
    gives a mapping or an object with `model`, `data` (a batch, a data set or a loader), `loss`,
    `optimizer`, `lr`, `batch_size` and `epochs`; or a Lightning module with its data module; or a
    Trainer of Hugging Face. Nothing of it is trained but copies.

    Example: sigmascope diagnose train.py:program

    Example: sigmascope diagnose train.py:program --cure --html report.html

    Args:
        program: What to diagnose.
        samples: On how many samples of its data.
        cure: Try cures on copies, and print the lines that write the best ones.
        html: Write an interactive page here.
        json: Write machine-readable results here; `-` for standard output, in place of the text.
        seed: For the weights and data that the program draws.
        strict: End with exit code 1 if a finding is of severity error.
    """
    from sigmascope import diagnosis, report, sources

    require_targets(html=html, json=json)
    made = sources.open_program(program, generator=seeded(seed))
    whole = diagnosis.programs.program_of(made)
    with progress_bar() as progress:
        found = diagnosis.diagnose(whole, samples=samples, progress=progress)
    cures = diagnosis.cures.cured(whole, found, samples=samples) if cure else None
    failed = strict and any(f.severity == "error" for f in found.findings)
    code = finish(found, *(() if cures is None else (cures,)), json=json, failed=failed)
    if html is not None:
        wrote(report.page(found.profile, found.findings, html))
    return code
