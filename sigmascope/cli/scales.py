"""`sigmascope scale`."""

from typing import Literal

from sigmascope.cli.options import Finite, Units
from sigmascope.cli.outputs import finish, refusing, require_targets

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

    Examples:
        # a layer of 128 units that stays well conditioned
        sigmascope scale 128 --condition 3 --probability 0.99

        # a wide one of leaky units, by the law that is sharper there
        sigmascope scale 4096 --activation leaky --slope 0.5 --law tracy-widom

    Args:
        width: Units of the layer.
        condition: The largest condition number that is wanted.
        activation: Of the trained layer.
        slope: That of a leaky one below zero.
        probability: Chance with which Gaussian weights should keep to it.
        law: What bounds their norm: `concentration` is proved at every width, `tracy-widom` is
            sharper and right for wide layers.
        json: Write the numbers here as JSON; `-` for standard output, in place of the text.
    """
    from sigmascope.theory import riedi2022

    require_targets(json=json)
    wanted = {"condition": condition, "probability": probability}
    with refusing():
        found = riedi2022.random_weights.weight_scale(
            width, activation=activation, slope=slope, law=law, **wanted
        )
    return finish(found, json=json, printed={"units": width, **wanted})
