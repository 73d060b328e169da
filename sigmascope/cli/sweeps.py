"""`sigmascope bottleneck train`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sigmascope.cli.options import Count, Depths, How, Ridges, Workers, mapper_of, seeded
from sigmascope.cli.outputs import draw, finish, note, require_targets
from sigmascope.cli.progress import progress_bar

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


SPREAD = 0.4  # of the targets: what the usual ridge is right for


def train(
    data: str,
    /,
    *,
    depths: Depths = None,
    width: Count = 50,
    ridge: Ridges = None,
    steps: Count = 8000,
    samples: Count = 300,
    seed: int = 0,
    folder: Path | None = None,
    file: Path | None = None,
    picture: Path | None = None,
    workers: Workers = 1,
    ray: str | None = None,
    json: str | None = None,
    plot: Path | None = None,
) -> int:
    """Find out which dimension a task has, by training it at several depths.

    ReLU networks with a penalty on their weights pass as few dimensions as the task allows, the
    fewer the deeper they are. Inputs are standardised, targets centred and scaled; classes become
    one output each. Minutes: about a quarter for each network of depth 10.

    Examples:
        # the usual sweep, which goes on where it was cut
        sigmascope bottleneck train set.npz --depths 6 8 12 16 20 --file sweep.jsonl

        # a short one, to see whether it can be done
        sigmascope bottleneck train set.npz --depths 3 4 --steps 300 --json sweep.json

    Args:
        data: Inputs and targets; as for `--data` of `profile`.
        depths: Layers of the networks; 4, 6, 8, 12, 16 and 20 by default.
        width: Units of their hidden layers.
        ridge: Of the penalty on the squared weights; one or more, 0.001 by default.
        steps: Of training each.
        samples: How many samples to take.
        seed: For the choice of samples.
        folder: Where Fashion-MNIST and CIFAR-10 lie.
        file: Keep finished networks here; a sweep that was cut goes on.
        picture: Draw the samples in the two coordinates that the clearest network found (SVG).
        workers: Processes, each with one thread.
        ray: Share the networks on Ray instead: the address of a cluster, or `local`.
        json: Write the numbers here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
    """
    import torch

    from sigmascope import sources, theory
    from sigmascope.core import guard

    require_targets(file=file, picture=picture, json=json, plot=plot, inputs=(data,))
    found = sources.open_data(data, samples=samples, folder=folder, generator=seeded(seed))
    inputs, targets = found.inputs, found.targets
    if not isinstance(inputs, torch.Tensor) or targets is None:
        raise guard.Refusal(
            f"`{data}` must hold one tensor of inputs, and targets. Name a file that has both."
        )
    # targets as columns: a column for each class that is there
    if targets.is_floating_point():
        values = targets.reshape(len(targets), -1)
    elif targets.is_complex() or targets.numel() != len(targets):
        raise guard.Refusal(
            "Targets must be real values, or one whole number a sample for its class, got "
            f"{targets.dtype} of shape {tuple(targets.shape)}. Give values as floating numbers."
        )
    else:
        known, classes = torch.unique(targets.flatten(), return_inverse=True)
        what = f"One output for each of {len(known)} classes"
        guard.require_room(4 * len(known) * len(targets), what)
        values = torch.nn.functional.one_hot(classes, len(known))
    x, y = standardised(inputs.flatten(1)), standardised(values, SPREAD)
    factory = Stacks(x.shape[1], y.shape[1], width)
    with progress_bar() as progress:
        sweep = theory.bottleneck.depth_sweep(
            factory,
            x,
            y,
            depths=depths or (4, 6, 8, 12, 16, 20),
            ridge=ridge or 1e-3,
            steps=steps,
            file=file,
            mapper=mapper_of(workers, How(ray=ray)),
            progress=progress,
        )
    code = finish(sweep, json=json, plot=plot)
    if picture is not None:
        from sigmascope.theory import presentation

        best = sweep.clearest
        if best is None or not best.coordinates:
            note(f"No network fits, or none has two coordinates: {picture} is not written.")
        else:
            points = torch.tensor(best.coordinates, dtype=torch.float64)
            title = f"coordinates at depth {best.depth}, ridge {best.ridge:g}"
            colours = targets[: len(points)]
            draw(picture, presentation.coordinates_picture(points, title=title, targets=colours))
    return code


@dataclass(frozen=True)
class Stacks:
    """Makes the networks of a sweep, in any process."""

    inputs: int
    outputs: int
    width: int

    def __call__(self, depth: int, generator: "torch.Generator") -> "nn.Module":
        """A ReLU network of that many layers, with He's initial weights."""
        from sigmascope.models import networks

        return networks.mlp(
            inputs=self.inputs,
            outputs=self.outputs,
            depth=depth - 1,
            width=self.width,
            init="he",
            generator=generator,
        )


def standardised(x: "Tensor", spread: float = 1.0) -> "Tensor":
    """Every column centred and of one spread; constant ones are zero."""
    x = x.float() - x.float().mean(0)
    size = x.std(0)
    return spread * x / size.where(size > 1e-6, size.new_ones(()))
