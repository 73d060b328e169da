"""`sigmascope rank`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from sigmascope.cli.options import (
    BUDGET,
    DEFAULT,
    LARGEST,
    Source,
    budget_of,
    family,
    loss_of,
    open_named,
)
from sigmascope.cli.outputs import finish, require_targets

Passes = Annotated[int, Parameter(validator=Number(lte=LARGEST))]  # the door says the rest


def rank(
    *models: str,
    source: Source = DEFAULT,
    passes: Passes = 60,
    budget: str = BUDGET,
    json: str | None = None,
    plot: Path | None = None,
) -> int:
    """Say which of some designs will come farthest, before any of them is trained.

    Copies take some hundred small steps at four learning rates; those that come farther get more
    of them. How far training will bring each is foretold with an interval.

    Examples:
        # two designs on digits
        sigmascope rank 'mlp?depth=4' 'mlp?depth=32' --data digits

        # two of yours, by the optimizer that you use
        sigmascope rank net.py:build net.py:wide --data set.npz --optimizer sgd

    Args:
        models: Two or more designs; each as for `profile`.
        source: The data, on which all are tried.
        passes: Forward and backward passes of the samples for each design, on average, to order
            them; up to 28 more tell which rate to name.
        budget: How long copies may be trained, all in all, e.g. `60s`, `10min`.
        json: Write the order here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
    """
    from sigmascope import diagnosis
    from sigmascope.core import guard
    from sigmascope.diagnosis import presentation

    require_targets(json=json, plot=plot, inputs=source.files)
    allowed = budget_of(budget)
    names, designs = len(models), len({*models})
    if names < 2 or designs < names:
        got = "one alone" if names == 1 else f"{names} names of {designs} designs"
        raise guard.Refusal(
            f"`rank` compares two or more designs, each named once, got {got}. Name them one after "
            "the other."
        )
    entries = []
    for name in models:
        opened, data = open_named(name, source)
        if data.targets is None:
            raise guard.Refusal(
                f"Designs are ranked by what they learn, but `{data.name}` has no targets. Name "
                "data that has them with `--data`."
            )
        entry = diagnosis.ranking.Entry(
            name,
            opened.module,
            data.inputs,
            data.targets,
            loss_of(source.loss),
            family(source),
            batch_dim=source.batch_dim,
        )
        entries.append(entry)
    with guard.memory(source.memory):
        ranked = diagnosis.ranking.ranked_entries(entries, passes=passes, budget=allowed)
    return finish(presentation.Ranking(ranked), json=json, plot=plot)
