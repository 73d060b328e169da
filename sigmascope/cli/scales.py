"""`sigmascope scale`."""

from typing import Literal

from sigmascope.cli.outputs import HEALTHY, require_targets, show, terminal, write
from sigmascope.cli.ranges import Finite, Units

Kind = Literal["relu", "leaky", "abs", "linear"]
Law = Literal["concentration", "tracy-widom"]


def scale(
    width: Units,
    /,
    *,
    condition: Finite = 3.0,
    activation: Kind = "relu",
    slope: Finite = 0.01,
    probability: Finite = 0.95,
    law: Law = "concentration",
    json: str | None = None,
) -> int:
    """Say how large the weights of a residual layer may be for learning to be well conditioned.

    The condition number is that of what comes after a trained layer and before the next one: a
    residual layer between activations, whatever units are on.

    Example: sigmascope scale 128 --condition 3 --probability 0.99

    Args:
        width: Units of the layer.
        condition: The largest condition number that is wanted.
        activation: Of the trained layer.
        slope: That of a leaky one below zero.
        probability: Finite with which Gaussian weights should keep to it.
        law: What bounds their norm: `concentration` is proved at every width, `tracy-widom` is
            sharper and right for wide layers.
        json: Write the numbers here as JSON; `-` for standard output, in place of the text.
    """
    from sigmascope import gate, report
    from sigmascope.theory import riedi2022

    require_targets(json=json)
    try:
        found = riedi2022.random_weights.weight_scale(
            width,
            condition=condition,
            activation=activation,
            slope=slope,
            probability=probability,
            law=law,
        )
    except ValueError as error:
        raise gate.Refusal(str(error)) from error
    if json != "-":
        words = {"width_of_layer": width, "condition": condition, "probability": probability}
        show(report.scale_text(found, **words, **terminal()))
    if json is not None:
        write(json, report.scale_form(found))
    return HEALTHY
