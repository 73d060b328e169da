"""`sigmascope predict`."""

import math
from pathlib import Path
from typing import Literal

from sigmascope.cli.options import Count, Gain, seeded
from sigmascope.cli.outputs import finish, refusing, require_targets
from sigmascope.cli.progress import progress_bar

Law = Literal["gaussian", "uniform", "asymmetric"]


def predict(
    *,
    width: Count = 128,
    depth: Count = 32,
    gamma: Gain = math.inf,
    weights: Law = "gaussian",
    samples: Count | None = None,
    layers: Count | None = None,
    chains: Count = 16,
    seed: int = 0,
    json: str | None = None,
    plot: Path | None = None,
) -> int:
    """Say whether a design of random linear layers collapses, without building it.

    Without batch normalisation by Lyapunov exponents: how fast the second singular value dies next
    to the first, and at which depth it is gone. With it by averages over a long chain of layers:
    how many directions survive at any depth, next to what is proved of them.

    Examples:
        # a deep residual design
        sigmascope predict --width 64 --depth 200 --gamma 0.1

        # a plain one, kept as numbers for a script
        sigmascope predict --width 32 --depth 50 --json design.json

    Args:
        width: Units of each layer.
        depth: Layers of the design.
        gamma: Scale of a layer beside its skip connection; infinite (the default) without one.
        weights: Law of the weights, of unit variance.
        samples: Samples in the batch; as many as the width by default.
        layers: How many layers to average over, in each chain; 2000 or more by default.
        chains: How many independent chains to average over.
        seed: For weights and inputs.
        json: Write the numbers here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
    """
    from sigmascope import theory

    require_targets(json=json, plot=plot)
    with refusing(), progress_bar() as progress:
        found = theory.bottleneck.predict(
            width,
            depth,
            gamma,
            weights=weights,
            samples=samples,
            layers=layers,
            chains=chains,
            generator=seeded(seed),
            progress=progress,
        )
    return finish(found, json=json, plot=plot)
