"""`sigmascope compress`."""

from pathlib import Path

from sigmascope.cli import outputs
from sigmascope.cli.options import DEFAULT, Chance, Source, open_named, seeded
from sigmascope.cli.outputs import finish, require_targets


def compress(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    tolerance: Chance = 0.01,
    save: Path | None = None,
    json: str | None = None,
    plot: Path | None = None,
) -> int:
    """Say which layers of a trained model can be of which lower rank, measured on its data.

    Directions come from one half of the samples, and what is promised is measured on the other:
    take several hundred. The lines of code that are shown make room for the new weights.

    Examples:
        # what may change by one per cent of the output, and the weights
        sigmascope compress net.py:build --data set.npz --save thin.pt

        # what would be gained at five per cent
        sigmascope compress net.py:build --data set.npz --tolerance 0.05

    Args:
        model: What to compress; as for `profile`.
        source: The data and weights.
        tolerance: Of the output: how much it may change, next to how much it varies.
        save: Write the new weights here (a state dict, `.pt`); they fit the model once the lines
            that are shown were run on it.
        json: Write the results here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
    """
    from sigmascope import diagnosis

    require_targets(save=save, json=json, plot=plot, inputs=source.files)
    opened, data = open_named(model, source)
    known = data.targets
    if known is not None and (known.is_floating_point() or known.ndim != 1):
        known = None
    found = diagnosis.compression.compression(
        opened.module,
        data.inputs,
        tolerance=tolerance,
        targets=known,
        batch_dim=source.batch_dim,
        generator=seeded(source.seed),
    )
    code = finish(found, json=json, plot=plot)
    if save is not None:
        outputs.save(save, found.model.state_dict())
    return code
