"""`sigmascope profile`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sigmascope.cli.options import UNPLANNED, Plan, Step, View, budget_of, measure, open_named
from sigmascope.cli.outputs import finish, note, require_run, require_targets, wrote

Views = Annotated[list[View] | None, Parameter(consume_multiple=1)]  # one or more


def profile(
    model: str,
    /,
    *,
    source: Plan = UNPLANNED,
    views: Views = None,
    quick: bool = False,
    html: Path | None = None,
    json: str | None = None,
    plot: Path | None = None,
    run: Path | None = None,
    step: Step = 0,
    strict: bool = False,
) -> int:
    """Measure a model on a batch and say what is wrong with it.

    MODEL is `package.module:factory` or `file.py:factory` (a module, or a function that returns
    one), a built-in network (`mlp?depth=32&width=128&norm=none`), or a local Hugging Face folder.

    With `--optimizer` (and `--lr`, `--momentum`, `--batch`, `--epochs`) copies are trained as you
    train, and beside it: whether the rate, the optimizer, the batches or the plan are at fault.

    Examples:
        # a network that cannot train, on digits, and a page that says why
        sigmascope profile 'mlp?depth=32' --data digits --html report.html

        # your own, with how you mean to train it
        sigmascope profile net.py:build --data set.npz --optimizer adam --lr 3e-4

    Args:
        model: What to measure.
        source: The data and weights, and how they are trained.
        views: Only these views; by default all but `balances`, `bottleneck` and `conditioning`.
        quick: Only what a few passes show, or the views that are named, and nothing is trained;
            what is left out is listed.
        html: Write an interactive page here.
        json: Write machine-readable results here; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
        run: Append everything to this run file (SQLite).
        step: Step of training to file it under in the run file.
        strict: End with exit code 1 if a finding is of severity error.
    """
    from sigmascope.core import store
    from sigmascope.diagnosis import presentation

    require_targets(html=html, run=run, json=json, plot=plot, inputs=source.files)
    require_run(run)
    budget = budget_of(source.budget)
    opened, data = open_named(model, source)
    found = measure(opened, data, source, views, budget, quick=quick)
    measured, findings = found.profile, found.findings
    failed = strict and any(f.severity == "error" for f in findings)
    code = finish(measured, findings, json=json, plot=plot, failed=failed)
    if html is not None:
        wrote(presentation.page(measured, findings, html))
    if run is not None:
        with store.Run(run) as file:
            file.add_profile(measured, findings, step=step)
        note(f"Appended step {step} to {run}")
    return code
