"""`sigmascope landscape`."""

import copy
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from sigmascope.cli.losses import fitting_loss
from sigmascope.cli.options import DEFAULT, Source, open_named
from sigmascope.cli.outputs import HEALTHY, require_writable, show, terminal, write

Strengths = Annotated[list[float] | None, Parameter(consume_multiple=1)]  # one or more
RHOS = (0.0, 0.25, 0.5, 0.75, 1.0)
Kind = Literal["relu", "leaky", "abs", "tanh", "gelu", "linear"]


def landscape(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    skip: str | None = None,
    rho: Strengths = None,
    activation: Kind | None = None,
    squared: bool = False,
    double: bool = False,
    json: str | None = None,
) -> int:
    """Say how well conditioned learning is in each layer, and what a skip connection would buy.

    For every layer the condition number of the loss in its weights, split into what the layers
    after it and the features before it contribute; the learning rate above which it diverges.

    Example: sigmascope landscape 'mlp?depth=6&width=64' --skip hidden.3 --rho 0 0.5 1

    Args:
        model: What to measure; as for `profile`.
        source: The data and weights.
        skip: Also measure with the input of this module added to its output; `first:last` from the
            input of one to the output of another.
        rho: Strengths of that skip connection; 0, 0.25, 0.5, 0.75 and 1 by default.
        activation: Also measure with this activation in the place of every other.
        squared: Squared error even where the data fit a better loss.
        double: Measure a copy in float64, in which longer axes can be told from flat directions.
        json: Write the numbers here as JSON; `-` for standard output, in place of the text.
    """
    from sigmascope import report, sources, survey

    require_writable(json=json)
    if rho is not None and skip is None:
        raise sources.Refusal("`--rho` needs `--skip`: name the module to put a skip around.")
    opened, data = open_named(model, source)
    targets = None if squared else data.targets
    name = ""
    if targets is not None:
        name = "mean squared error" if targets.is_floating_point() else "cross-entropy"
    of: dict[str, Any] = {
        "targets": targets,
        "loss": None if targets is None else fitting_loss,
        "batch_dim": source.batch_dim,
    }
    module = copy.deepcopy(opened.module).double() if double else opened.module
    if skip is None and activation is None:
        found = (survey.landscape(module, data.inputs, **of),)
    else:
        found = survey.what_if(
            module, data.inputs, skip=skip, rhos=tuple(rho or RHOS), activation=activation, **of
        )
    if json != "-":
        show(report.landscape_text(found, loss=name, **terminal()))
    if json is not None:
        write(json, report.landscape_form(found, loss=name))
    return HEALTHY
