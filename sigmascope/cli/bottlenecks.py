"""`sigmascope bottleneck`."""

from pathlib import Path
from typing import TYPE_CHECKING

from sigmascope.cli.options import DEFAULT, Source, open_named, seeded
from sigmascope.cli.outputs import draw, finish, require_targets

if TYPE_CHECKING:
    pass


def bottleneck(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    kernel: bool = False,
    picture: Path | None = None,
    json: str | None = None,
    plot: Path | None = None,
) -> int:
    """Tell which inner dimension a trained network uses, where, and whether its task needs it.

    The dimension comes from the derivatives of the output by the input; beside it stand the ranks
    of weights and representations, and whether the network fits. To find the dimension of a task by
    training, `sigmascope bottleneck train DATA`.

    Examples:
        # which dimension a trained network uses
        sigmascope bottleneck net.py:build --checkpoint weights.pt --data set.npz

        # its samples in the coordinates of its narrowest layer
        sigmascope bottleneck net.py:build --data set.npz --picture samples.svg

    Args:
        model: What to examine; as for `profile`.
        source: The data and weights.
        kernel: Find the norm of the tangent kernel too; about sixty passes more.
        picture: Draw the samples in the coordinates of the narrowest layer (SVG).
        json: Write the numbers here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
    """
    from sigmascope import theory

    require_targets(picture=picture, json=json, plot=plot, inputs=source.files)
    opened, data = open_named(model, source)
    found = theory.bottleneck.bottleneck(
        opened.module,
        data.inputs,
        targets=data.targets,
        kernel=kernel,
        batch_dim=source.batch_dim,
        generator=seeded(source.seed),
    )
    code = finish(found, json=json, plot=plot)
    if picture is not None:
        import torch

        from sigmascope.core import guard
        from sigmascope.theory import presentation

        if not isinstance(data.inputs, torch.Tensor):
            raise guard.Refusal(
                "`--picture` needs a model that reads one tensor. Use "
                "`theory.bottleneck.coordinates` in Python."
            )
        narrowest = found.layers[-1] if found.layers else None
        seen = theory.bottleneck.coordinates(opened.module, data.inputs, after=narrowest)
        title = f"what {seen.site} reads: {seen.share:.1%} of its variance"
        drawn = presentation.coordinates_picture(seen.values, title=title, targets=data.targets)
        draw(picture, drawn)
    return code
