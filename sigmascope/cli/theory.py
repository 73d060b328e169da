"""`sigmascope check`, `balances`, `bottleneck`, `landscape`, `predict`, `scale`: what is proved."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sigmascope.cli.options import (
    DEFAULT,
    Count,
    Depths,
    Extent,
    Finite,
    Gain,
    How,
    Index,
    Names,
    Points,
    Ridges,
    Source,
    Strengths,
    Units,
    Workers,
    mapper_of,
    open_named,
    seeded,
    subject_of,
    task,
)
from sigmascope.cli.outputs import (
    HEALTHY,
    draw,
    finish,
    note,
    refusing,
    require_targets,
    show,
    terminal,
    wrote,
)
from sigmascope.cli.progress import progress_bar
from sigmascope.core import guard

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

# ------------------------------------------------------------------------------
# Which theorems hold of a model, and which there are.


def check(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    theorem: Names = None,
    json: str | None = None,
    plot: Path | None = None,
    strict: bool = False,
) -> int:
    """Check the theorems that speak of a model, layer by layer.

    Examples:
        # one theorem, on a network that is built in
        sigmascope check 'mlp?depth=8&norm=batch' --theorem rank-participation

        # all that speak of your network, as a test of its implementation
        sigmascope check net.py:build --data set.npz --checkpoint weights.pt --strict

    Args:
        model: What to check; as for `profile`.
        source: The data and weights.
        theorem: Only these; `sigmascope theorems` lists them.
        json: Write the checks here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
        strict: End with exit code 1 if a theorem is violated.
    """
    from sigmascope import theory
    from sigmascope.core import records
    from sigmascope.theory import presentation

    require_targets(json=json, plot=plot, inputs=source.files)
    names = [t.name for t in theory.OF_MODELS]
    unknown = [t for t in theorem or () if t not in names]
    if unknown:
        raise guard.Refusal(
            f"There is no theorem `{unknown[0]}`; there are {', '.join(names)}. "
            "`sigmascope theorems` says what they state."
        )
    opened, data = open_named(model, source)
    found = tuple(theory.check(subject_of(opened, data, source), only=theorem))
    failed = strict and any(c.verdict == records.Verdict.VIOLATED for c in found)
    return finish(presentation.Checks(found), json=json, plot=plot, failed=failed)


def theorems() -> int:
    """List every theorem that can be checked: its name, what it says, where it is from.

    Examples:
        # all of them
        sigmascope theorems

        # those of one paper
        sigmascope theorems | grep -B 3 'Daneshmand et al. 2020'
    """
    from sigmascope import theory
    from sigmascope.theory import presentation

    show(presentation.theorems_text(theory.THEOREMS, **terminal()))
    return HEALTHY


# ------------------------------------------------------------------------------
# What training conserves.


def balances(
    model: str,
    /,
    *,
    source: Source = DEFAULT,
    tree: Path | None = None,
    output: Index = 0,
    whole: bool = False,
    json: str | None = None,
    plot: Path | None = None,
    strict: bool = False,
) -> int:
    """List what training conserves in a model, what it does not, and why.

    Neuron by neuron, pair by pair, head by head and layer by layer, each with its formula, the
    reason and the rate of change that was measured.

    Examples:
        # what training of your network conserves, all of it
        sigmascope balances net.py:build --data set.npz --whole

        # the paths of a network of a few units, as a picture
        sigmascope balances net.py:tiny --data set.npz --tree paths.svg

    Args:
        model: What to examine; as for `profile`.
        source: The data and weights.
        tree: Draw one output of a tiny network of dense layers as the tree of its paths (SVG).
        output: Which output to draw.
        whole: List everything.
        json: Write the list here as JSON; `-` for standard output, in place of the text.
        plot: Draw a figure for a paper here (.pdf, .svg or .png; needs matplotlib).
        strict: End with exit code 1 if a balance is broken by a wrong backward pass.
    """
    from sigmascope.theory import le2022, neuron_graph

    require_targets(picture=tree, json=json, plot=plot, inputs=source.files)
    opened, data = open_named(model, source)
    dag = None
    if tree is not None:
        from torch import Tensor

        if not isinstance(data.inputs, Tensor) or data.inputs.ndim != 2:
            raise guard.Refusal(
                "`--tree` needs a model that reads one vector a sample. Draw a network of dense "
                "layers."
            )
        dag = neuron_graph.dag_of(opened.module, inputs=data.inputs.shape[1], output=output)
    found = le2022.conservation.conserved(opened.module, data.inputs, **task(data, source))
    failed = strict and bool(found.broken)
    code = finish(found, json=json, plot=plot, failed=failed, printed={"whole": whole})
    if tree is not None and dag is not None:
        from sigmascope.theory import presentation

        weights = dag.weights(dict(opened.module.named_parameters()))
        network = neuron_graph.tree_network(neuron_graph.unroll(dag), weights)
        features = tuple(f"x{i}" for i in range(len(dag.inputs) - dag.constant))
        draw(tree, presentation.tree_picture(network, names=(*features, "1")))
    return code


# ------------------------------------------------------------------------------
# The inner dimension of a network.


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


# ------------------------------------------------------------------------------
# The same of networks that are trained here, over depths.


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


# ------------------------------------------------------------------------------
# How well conditioned learning is, and slices of the loss.


RHOS = (0.0, 0.25, 0.5, 0.75, 1.0)
Activation = Literal["relu", "leaky", "abs", "tanh", "gelu", "linear"]
CurvatureMatrix = Literal["hessian", "gauss-newton", "fisher"]
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

    curvature: CurvatureMatrix | None = None
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
    from sigmascope import models, sources, theory
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
    if squared and source.loss is not None:
        raise guard.Refusal(
            f"`--squared` takes squared error, got `--loss {source.loss}` as well: leave one away."
        )
    opened, data = open_named(model, source)
    targets = None if squared else data.targets
    name, loss = "", {"targets": None, "loss": None}
    if not squared:
        loss = task(data, source)
    if targets is not None:
        own = "mean squared error" if targets.is_floating_point() else "cross-entropy"
        name = source.loss or own
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
    surface = None
    if sights.surface in ("random", "hessian"):  # the loss on a plane through the weights
        size = {"points": sights.points, "extent": sights.extent}
        seed = seeded(source.seed)
        surface = on(theory.landscape.loss_surface, plane=sights.surface, **size, generator=seed)
    elif sights.surface is not None:  # on the line to other weights
        file = Path(sights.surface)
        if not file.exists():
            raise guard.Refusal(
                "`--surface` must be random, hessian or a checkpoint file, got "
                f"{file}, which is none."
            )
        twin = models.state.duplicate(module)
        sources.load_checkpoint(twin, file)
        points = 2 * sights.points + 1
        surface = on(theory.landscape.loss_line, twin.state_dict(), points=points)
    scenery = presentation.Scenery(curved, surface, regions)
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


# ------------------------------------------------------------------------------
# What becomes of a random chain.


WeightLaw = Literal["gaussian", "uniform", "asymmetric"]


def predict(
    *,
    width: Count = 128,
    depth: Count = 32,
    gamma: Gain = math.inf,
    weights: WeightLaw = "gaussian",
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


# ------------------------------------------------------------------------------
# How large weights may be.


PiecewiseLinear = Literal["relu", "leaky", "abs", "linear"]
NormLaw = Literal["concentration", "tracy-widom"]


def scale(
    width: Units,
    /,
    *,
    condition: Finite = 3.0,
    activation: PiecewiseLinear = "relu",
    slope: Finite = 0.01,
    probability: Finite = 0.95,
    law: NormLaw = "concentration",
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
