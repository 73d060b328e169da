"""`sigmascope landscape`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from sigmascope.cli.options import (
    DEFAULT,
    Extent,
    Names,
    Points,
    Source,
    Strengths,
    open_named,
    seeded,
    task,
)
from sigmascope.cli.outputs import finish, require_targets, wrote

if TYPE_CHECKING:
    from torch import nn

    from sigmascope.theory.landscape import Surface

RHOS = (0.0, 0.25, 0.5, 0.75, 1.0)
Activation = Literal["relu", "leaky", "abs", "tanh", "gelu", "linear"]
Kind = Literal["hessian", "gauss-newton", "fisher"]
Number = Literal["top", "bottom", "trace", "frobenius", "density", "check"]


@Parameter(name="*")
@dataclass(frozen=True)
class Sights:
    """What else to look at.

    Attributes:
        curvature: Eigenvalues, trace and density of this matrix, of all weights together.
        layers: Of the weights of each of these layers instead.
        only: Of the curvature only these numbers, which then take less: `top`, `trace`, ...
        tolerance: Relative error of these at which to stop, e.g. 0.01.
        surface: The loss on a plane: `random`, or `hessian` for its largest and smallest curvature;
            or a checkpoint file, for the line to it.
        points: On each axis of the surface.
        extent: How far the surface reaches, in lengths of the weights; 1, or 0.1 for `hessian`.
        regions: The regions of the input space on the plane through the first three samples.
    """

    curvature: Kind | None = None
    layers: Names = None
    only: Annotated[list[Number] | None, Parameter(consume_multiple=True)] = None
    tolerance: float | None = None
    surface: str | None = None
    points: Points = 21
    extent: Extent = None
    regions: bool = False


PLAIN = Sights()


def landscape(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    skip: Names = None,
    rho: Strengths = None,
    activation: Activation | None = None,
    sights: Sights = PLAIN,
    squared: bool = False,
    double: bool = False,
    html: Path | None = None,
    json: str | None = None,
    plot: Path | None = None,
) -> int:
    """Say how well conditioned learning is in each layer, and what a skip connection would buy.

    For every layer the condition number of the loss in its weights, split into what the layers
    after it and the features before it contribute; the learning rate above which it diverges. On
    request the curvature of all weights, the loss around them, and the regions of the input space.

    Examples:
        # what a skip connection would buy, as a page
        sigmascope landscape 'mlp?depth=6&width=64' --skip hidden.3 --html out.html

        # the sharpness of all weights together
        sigmascope landscape net.py:build --data set.npz --curvature hessian

    Args:
        model: What to measure; as for `profile`.
        source: The data and weights.
        skip: Also measure with the input of this module added to its output; `first:last` from the
            input of one to the output of another; several at once as in a DenseNet.
        rho: Strengths of the skip connection; 0, 0.25, 0.5, 0.75 and 1 by default.
        activation: Also measure with this activation in the place of every other.
        sights: What else to look at.
        squared: Squared error even where the data fit a better loss.
        double: Measure a copy in float64, in which longer axes can be told from flat directions.
        html: Write all of it here as one interactive page.
        json: Write the numbers here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
    """
    from sigmascope import models, theory
    from sigmascope.core import guard
    from sigmascope.report.pages import require_plots
    from sigmascope.theory import presentation

    require_targets(html=html, json=json, plot=plot, inputs=source.files)
    if html is not None:
        require_plots()  # before anything is measured
    if rho is not None and skip is None:
        raise guard.Refusal("`--rho` needs `--skip`: name the module to put a skip around.")
    for option in ("layers", "only", "tolerance"):
        if getattr(sights, option) is not None and sights.curvature is None:
            needs = f"`--{option}` needs `--curvature`"
            raise guard.Refusal(f"{needs}: say which, e.g. `--curvature hessian`.")
    opened, data = open_named(model, source)
    targets = None if squared else data.targets
    name, loss = "", {"targets": None, "loss": None}
    if targets is not None:
        own = "mean squared error" if targets.is_floating_point() else "cross-entropy"
        name, loss = source.loss or own, task(data, source)
    module = models.state.duplicate(opened.module).double() if double else opened.module
    of = {**loss, "batch_dim": source.batch_dim}
    on = lambda measure, *beside, **more: measure(module, *beside, data.inputs, **of, **more)
    if skip is None and activation is None:
        found = (on(theory.landscape.landscape),)
    else:
        rhos = tuple(rho or RHOS)
        found = on(theory.landscape.what_if, skip=skip, rhos=rhos, activation=activation)
    regions = theory.landscape.input_regions(module, data.inputs) if sights.regions else None
    curved = None
    if sights.curvature is not None:
        chosen = {"kind": sights.curvature, "layers": sights.layers}
        chosen |= {"only": sights.only, "tolerance": sights.tolerance}
        curved = on(theory.landscape.curvature, **chosen, generator=seeded(source.seed))
    scenery = presentation.Scenery(curved, _surface(on, module, source, sights), regions)
    code = finish(found[0], found[1:], json=json, plot=plot, scenery=scenery, loss=name)
    if html is not None:
        import torch

        about = {
            "name": opened.name,
            "weights": opened.weights,
            "data": data.name,
            "loss": name or "squared error",
            "parameters": f"{sum(p.numel() for p in opened.module.parameters()):,}",
            "torch": torch.__version__,
        }
        wrote(presentation.landscape_page(found, html, scenery=scenery, loss=name, about=about))
    return code


def _surface(
    on: Callable[..., Any], module: "nn.Module", source: Source, sights: Sights
) -> "Surface | None":
    """The loss on a plane through the weights, or on the line to other weights."""
    from sigmascope import models, sources, theory
    from sigmascope.core import guard

    if sights.surface is None:
        return None
    if sights.surface not in ("random", "hessian"):
        file = Path(sights.surface)
        if not file.exists():
            raise guard.Refusal(
                "`--surface` must be random, hessian or a checkpoint file, got "
                f"{file}, which is none."
            )
        twin = models.state.duplicate(module)
        sources.load_checkpoint(twin, file)
        other = twin.state_dict()
        return on(theory.landscape.loss_line, other, points=2 * sights.points + 1)
    size = {"points": sights.points, "extent": sights.extent}
    seed = seeded(source.seed)
    return on(theory.landscape.loss_surface, plane=sights.surface, **size, generator=seed)
