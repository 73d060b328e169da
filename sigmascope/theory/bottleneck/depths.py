"""One task trained at several depths, and the dimension that this tells."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any, final

import numpy as np
import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sigmascope.core.guard import Progress, Refusal, RowFile
from sigmascope.core.records import Estimate, Shown
from sigmascope.linalg import dense
from sigmascope.models import Subject
from sigmascope.models.layers import called
from sigmascope.models.samples import IGNORED, require_finite_targets
from sigmascope.models.state import apart
from sigmascope.theory import jacot2023
from sigmascope.theory.bottleneck.symmetry_coordinates import coordinates
from sigmascope.theory.views.bottleneck import (
    RISK as DIMENSION_RISK,
    THRESHOLD,
    counted,
    inner_dimension,
)

# ------------------------------------------------------------------------------
# Training with a penalty on the weights until they settle.


def settle(
    model: nn.Module,
    inputs: Float[Tensor, "n *features"],
    targets: Float[Tensor, "n *outputs"],
    *,
    ridge: float = 1e-3,
    steps: int = 8000,
    rate: float = 2e-3,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Train a network in place to a minimum of mean squared error and `ridge ‖θ‖²`.

    Adam with a cosine decay of the rate to 1e-6, which leaves weights that settle: the ranks and
    norms of the theory are those of minima.

    Args:
        model: The network, in training mode or not, as it is.
        inputs: A row a sample.
        targets: The same.
        ridge: `λ` of the penalty `λ ‖θ‖²`, biases included.
        steps: Of Adam.
        rate: At the beginning.
        batch_size: Samples of a step; all of them without.
        generator: Shuffles the samples, once in every pass over them.

    Returns:
        The network.

    Raises:
        Refusal: If inputs and targets differ in number, outputs and targets in shape, something is
            not finite, or the cost is not at some step.

    Source:
        Jacot 2023, Appendix E, with the rate and decay that converge.
    """
    if len(inputs) != len(targets):
        raise Refusal(
            f"`inputs` and `targets` must have one row for each sample, got {len(inputs)} and "
            f"{len(targets)}. Pass the targets of these inputs."
        )
    for name, rows in (("inputs", inputs), ("targets", targets)):
        if not bool(rows.isfinite().all()):
            bad = int((~rows.isfinite()).sum())
            raise Refusal(
                f"`{name}` must be finite, got {bad} of {rows.numel()} values that are not. Leave "
                "these samples out, or fill the values."
            )
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=1e-6)
    cost = torch.zeros(())
    # denormal numbers count as zero: weights that vanish would make every product slow
    flushed = float(torch.tensor(1e-310, dtype=torch.float64) * 1) == 0  # torch does not tell
    torch.set_flush_denormal(True)
    try:
        for chosen in islice(_batches(len(inputs), batch_size, generator), steps):
            x, y = inputs[chosen], targets[chosen]
            optimizer.zero_grad()
            penalty = sum((p.square().sum() for p in parameters), torch.zeros(()))
            # mean squared error of outputs and targets of one shape, neither spread over the other
            output = model(x)
            if output.shape != y.shape:
                raise Refusal(
                    f"`targets` must have the shape of the outputs {tuple(output.shape)}, got "
                    f"{tuple(y.shape)}. Give both one shape, e.g. `targets.view_as(outputs)`."
                )
            cost = (output - y).square().mean() + ridge * penalty
            cost.backward()
            optimizer.step()
            schedule.step()
    finally:
        torch.set_flush_denormal(flushed)
    if not bool(cost.isfinite()):
        raise Refusal(
            f"The cost must stay finite, got {cost.item()} after {steps} steps. Lower the rate, or "
            "scale inputs and targets to a spread of one."
        )
    return model


def _batches(
    count: int, size: int | None, generator: torch.Generator | None
) -> Iterator[Tensor | slice]:
    """Indices of the samples of each step, shuffled anew when they are used up."""
    if size is None or size >= count:
        yield from repeat(slice(None))
    else:
        while True:
            order = torch.randperm(count, generator=generator)
            yield from (order[i : i + size] for i in range(0, count - size + 1, size))


# ------------------------------------------------------------------------------
# Whether a network fits its data, up to noise.


FITS = 1 / 16  # of the variance of the targets, or of the errors of the best constant answer
PREDICTED = 0.1  # share of the residual that the input must explain to be called structure
MOST_RESIDUALS = 512  # samples among which residuals are predicted
RIDGES = tuple(10.0**p for p in range(-4, 2))


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a network fits.

    Attributes:
        unexplained: Share of the variance of the targets that is left, or of the errors that the
            best constant answer makes.
        fits: Whether that is less than a sixteenth, or looks like noise.
        says: In a few words.
    """

    unexplained: Estimate
    fits: bool
    says: str


def fit_of(subject: Subject, targets: Tensor) -> Fit:
    """How much of the targets a model leaves unexplained, and whether that is noise.

    A large rest is noise if the inputs do not predict it: kernel ridge regression with a Gaussian
    kernel, each sample predicted from the others.

    Args:
        subject: The model on its inputs.
        targets: Values in the shape of the output, or classes.

    Raises:
        Refusal: If targets are neither, not finite, all the same, or classes without an output.
    """
    if not isinstance(targets, Tensor):
        raise Refusal(
            f"`targets` must be a tensor of values or classes, got {type(targets).__name__}: wrap "
            "it with torch.as_tensor."
        )
    require_finite_targets(targets)
    output = subject.output.detach().cpu()
    targets = targets.detach().cpu()
    if not targets.is_floating_point():
        if output.ndim != 2 or targets.shape != output.shape[:1] or targets.is_complex():
            raise _unlike(targets, output)
        output, targets = output[targets != IGNORED], targets[targets != IGNORED].long()
        bad = targets[(targets < 0) | (targets >= output.shape[1])]
        if len(bad) or not len(targets):
            raise Refusal(
                f"`targets` must be classes from 0 to {output.shape[1] - 1}, for there are "
                f"{output.shape[1]} outputs, got {int(bad[0]) if len(bad) else IGNORED}. Renumber "
                "them, or widen the last layer."
            )
        wrong = float((output.argmax(1) != targets).double().mean())
        common = float(targets.flatten().bincount().max()) / len(targets)
        if common == 1:
            raise Refusal("Targets must differ, got one class. Pass samples of several classes.")
        share = wrong / (1 - common)
        fits = share < FITS
        words = (
            f"it {'fits' if fits else 'does not fit'} ({1 - wrong:.1%} of the samples are right)"
        )
        return Fit(Estimate.exactly(share, how="errors beside the best constant"), fits, words)
    output = output.reshape(len(output), -1)
    targets = targets.reshape(len(targets), -1) if targets.ndim else targets
    if output.shape != targets.shape:
        raise _unlike(targets, output)
    scale = max(float(targets.abs().max()), float(output.abs().max())) or 1.0  # squares overflow
    y, rest = targets.double() / scale, (targets.double() - output.double()) / scale
    size = (y - y.mean(0)).square().sum()
    if float(size) == 0:
        raise Refusal("Targets must differ, got one value. Pass samples with several.")
    share = float(rest.square().sum() / size)
    estimate = Estimate.rounded(share, ulps=1e8, how="squared error beside the variance")
    left = f"{share:.1%} of the variance is left"
    if share < FITS:
        return Fit(estimate, True, f"it fits ({left})")
    if not isinstance(subject.batch, Tensor):
        return Fit(estimate, False, f"it does not fit ({left})")
    x = subject.batch.flatten(1).double().cpu()
    predicted = predictable(x[:MOST_RESIDUALS], rest[:MOST_RESIDUALS])
    if predicted < PREDICTED:
        return Fit(estimate, True, f"it fits up to what looks like noise ({left})")
    words = f"it does not fit ({left}, and the inputs predict {predicted:.0%} of that)"
    return Fit(estimate, False, words)


def _unlike(targets: Tensor, output: Tensor) -> Refusal:
    return Refusal(
        f"`targets` must be values in the shape of the output {tuple(output.shape)}, or one class "
        f"a row, got {targets.dtype} of shape {tuple(targets.shape)}. Pass those of these samples."
    )


def predictable(x: Float64[Tensor, "n d"], rest: Float64[Tensor, "n c"]) -> float:
    """Share of a residual that the inputs explain, each sample left out in turn.

    Args:
        x: Inputs.
        rest: Residuals.

    Returns:
        At most 1; 0 where the mean predicts as well.
    """
    distance = torch.cdist(x, x).square()
    scale = dense.median(distance) or 1.0
    K = torch.exp(-distance / scale)
    centred = rest - rest.mean(0)
    total = float(centred.square().sum())
    if total == 0:
        return 0.0
    values, vectors = torch.linalg.eigh(K)
    best = 0.0
    for ridge in RIDGES:
        weights = values.clamp(min=0) / (values.clamp(min=0) + ridge)
        smoothed = vectors @ (weights[:, None] * (vectors.mT @ centred))
        own = (vectors.square() * weights).sum(1)
        missed = (centred - smoothed) / (1 - own).clamp(min=1e-9)[:, None]
        best = max(best, 1 - float(missed.square().sum()) / total)
    return best


# ------------------------------------------------------------------------------
# What training one task at several depths showed, and the dimension that it tells.


RISK = 0.05
MANY = 0.25  # of the networks that fit


@final
@dataclass(frozen=True, slots=True)
class Trained:
    """One network, trained to a minimum.

    Attributes:
        depth: Its layers.
        ridge: `λ` of the penalty it was trained with.
        seed: Of its initial weights.
        cost: Mean squared error over samples and outputs.
        norm: `‖θ‖²`, biases included.
        rank: Singular values above 0.1 of its narrowest weight, and those above 0.2 and 0.05.
        dimension: The number of dimensions that its function uses, by `inner_dimension`, and the
            ends of that interval.
        tangent: Mean of `Tr Θ(x, x)` over the samples, by the depth.
        fits: Whether less than a sixteenth of the variance is left, or what is left is noise; see
            `fit_of`.
        coordinates: The first two principal coordinates of every sample in the hidden layer that
            lies most along two directions: what is left of the inputs.
    """

    depth: int
    ridge: float
    seed: int
    cost: float
    norm: float
    rank: tuple[int, int, int]
    dimension: tuple[int, int, int]
    tangent: float
    fits: bool
    coordinates: tuple[tuple[float, float], ...] = ()

    @property
    def kind(self) -> str:
        """Whether it passes as many dimensions as its function uses, more, or too few to fit."""
        if not self.fits:
            return "underestimating"
        return "overestimating" if self.rank[1] > self.dimension[2] else "recovering"


@final
@dataclass(frozen=True, slots=True)
class RankPlateau:
    """Depths at which the same rank was learned with one penalty.

    Attributes:
        ridge: The penalty.
        rank: The rank.
        depths: The depths.
        slope: Of `‖θ‖²` against depth: the rank, by theory. Unknown of one depth.
        offset: Of the same line.
        tangent: Mean trace of the tangent kernel by depth.
        fits: Whether its networks fit.
    """

    ridge: float
    rank: int
    depths: tuple[int, ...]
    slope: Estimate
    offset: float
    tangent: float
    fits: bool


@final
@dataclass(frozen=True, slots=True, repr=False)
class DepthSweep(Shown):
    """What training at several depths showed.

    Attributes:
        networks: In the order of depth, penalty and seed.
        segments: By penalty and rank, those that fit first; deeper ones last.
        rank: The dimension of the task: what most networks that fit use, the deeper counting first
            where they are as many; the interval holds what at least a quarter of them use.
        says: In one sentence.
    """

    networks: tuple[Trained, ...]
    segments: tuple[RankPlateau, ...]
    rank: Estimate
    says: str

    @property
    def clearest(self) -> Trained | None:
        """The deepest network that recovers the dimension, or else that fits: look at this one."""
        fitting = [n for n in self.networks if n.fits]
        return max(fitting, key=lambda n: (n.kind == "recovering", n.depth), default=None)


def read_sweep(networks: Sequence[Trained]) -> DepthSweep:
    """Segments of one rank, their affine laws, and the dimension of the task.

    Args:
        networks: At several depths.

    Source:
        Jacot 2023, Sec. 3; `‖θ‖² = k L + R1 + R2 / L` at rank k.
    """
    plateaus: list[RankPlateau] = []
    groups: dict[tuple[bool, float, int], list[Trained]] = {}
    for n in networks:
        groups.setdefault((not n.fits, n.ridge, -n.rank[0]), []).append(n)
    for (misses, ridge, least), members in sorted(groups.items()):
        depths = [n.depth for n in members]
        # least squares with Student's interval for the slope
        at, norms = np.array(depths, dtype=float), np.array([n.norm for n in members])
        slope, offset = Estimate(0.0, -math.inf, math.inf, "one depth only"), members[0].norm
        if len(set(depths)) > 1:
            fitted, offset = np.polyfit(at, norms, 1).tolist()
            room, free = math.inf, len(at) - 2
            if free > 0:
                spread = math.sqrt(float(((norms - offset - fitted * at) ** 2).sum()) / free)
                error = spread / math.sqrt(float(((at - at.mean()) ** 2).sum()))
                room = float(scipy.special.stdtrit(free, 1 - RISK / 2)) * error
            how = f"least squares over {len(at)} networks"
            slope = Estimate(fitted, fitted - room, fitted + room, how, RISK)
        tangent = sum(n.tangent for n in members) / len(members)
        plateaus.append(
            RankPlateau(ridge, -least, tuple(depths), slope, offset, tangent, not misses)
        )
    segments = tuple(plateaus)
    fitting = [s for s in segments if s.fits]
    if not fitting:
        nothing = Estimate(0.0, 0.0, math.inf, "no network fits")
        return DepthSweep(tuple(networks), segments, nothing, "No network fits: lower the ridge.")
    # the dimension that most networks use; the interval holds those that many hold possible
    fitted = [n for n in networks if n.fits]
    deepest = sorted(fitted, key=lambda n: -n.depth)
    told = Counter(n.dimension[0] for n in deepest)
    value = told.most_common(1)[0][0]
    possible = Counter(k for n in fitted for k in range(n.dimension[1], n.dimension[2] + 1))
    likely = [k for k, votes in possible.items() if votes >= MANY * len(fitted)] + [value]
    how = f"told by {told[value]} of {len(fitted)} networks that fit"
    rank = Estimate(value, min(likely), max(likely), how, DIMENSION_RISK)
    last = max(fitting, key=lambda s: max(s.depths))
    span = "" if rank.low == rank.high else f" [{rank.low:.0f}, {rank.high:.0f}]"
    words = f"The task has {rank.value:.0f}{span} dimensions, {rank.how}; at depth "
    words += f"{max(last.depths)} they pass {last.rank} through their narrowest layer"
    if len(set(last.depths)) > 1:
        words += f", and their squared norm grows by {last.slope.value:.2f}"
        if math.isfinite(last.slope.high):
            words += f" [{last.slope.low:.2f}, {last.slope.high:.2f}]"
        words += " a layer"
    under = [s for s in segments if not s.fits]
    if under:
        worst = max(under, key=lambda s: s.tangent)
        words += (
            f"; some fell to {worst.rank}, which does not fit and has a tangent kernel "
            f"{worst.tangent / last.tangent:.1f} times as large"
        )
    return DepthSweep(tuple(networks), segments, rank, words + ".")


# ------------------------------------------------------------------------------
# Training one task at several depths, and reading off which dimension it needs.


Recipe = dict[str, Any]
Place = tuple[int, float, int]  # depth, penalty, seed
Factory = Callable[[int, torch.Generator], nn.Module]
FIRST = (2, 0)  # depth and seed of the network that tells one factory from another
SAMPLES = 64  # at which Jacobians and tangent kernels are read
MOST = 500  # samples whose coordinates are kept


def depth_sweep(
    factory: Factory,
    inputs: Tensor,
    targets: Tensor,
    *,
    depths: Collection[int],
    ridge: float | Collection[float] = 1e-3,
    steps: int = 8000,
    rate: float = 2e-3,
    seeds: Collection[int] = (0,),
    file: Path | None = None,
    mapper: Callable[[Callable[[Any], Trained], Iterable[Any]], Iterable[Trained]] = map,
    progress: Progress | None = None,
) -> DepthSweep:
    """Train a task at several depths with a penalty on the weights, and read off its dimension.

    As depth grows, the rank of the narrowest layers falls to the least that the task needs, and the
    squared norm grows by that rank for each layer. Networks that are too deep may fall into minima
    of too low a rank, which do not fit and have a large tangent kernel.

    Args:
        factory: `factory(depth, generator)` -> a plain stack of that many layers.
        inputs: A row a sample.
        targets: The same.
        depths: Which to train.
        ridge: `λ` of the penalty `λ ‖θ‖²`, biases included; or several.
        steps: Of Adam on all samples, with a cosine decay of the rate.
        rate: At the beginning.
        seeds: Of the networks at each depth.
        file: Where finished networks are kept, one a line; a sweep that was cut goes on there.
        mapper: `map`, or one that shares the work among processes or machines.
        progress: Called with a word, the networks done and their number.

    Raises:
        Refusal: If the data do not fit together, or the file belongs to another sweep.

    Source:
        Jacot 2023, Sec. 3 and Appendix E, with the rate, decay and scale of targets that converge.
    """
    if not isinstance(inputs, Tensor) or not isinstance(targets, Tensor):
        raise Refusal(
            f"`inputs` and `targets` must be tensors, got {type(inputs).__name__} and "
            f"{type(targets).__name__}. Wrap arrays with torch.from_numpy."
        )
    if not isinstance(depths, Collection) or not all(isinstance(d, int) for d in depths):
        raise Refusal(f"`depths` must be a list of whole numbers, got {depths!r}: write [6, 8].")
    if inputs.ndim != 2 or targets.ndim != 2 or len(inputs) != len(targets):
        raise Refusal(
            f"`inputs` and `targets` must be matrices with a row for each sample, got "
            f"{tuple(inputs.shape)} and {tuple(targets.shape)}. Flatten images, and give one-hot "
            "rows for classes."
        )
    if not depths or min(depths) < 2:
        raise Refusal(f"`depths` must be 2 or more, got {sorted(depths)}. Name a few, up to 20.")
    inputs, targets = inputs.float(), targets.float()
    ridges = sorted(set(ridge)) if isinstance(ridge, Collection) else [ridge]
    data = hashlib.sha256()  # tells one data set from another
    for t in (inputs, targets):
        data.update(t.contiguous().numpy().tobytes())
    recipe = {"steps": steps, "rate": rate, "data": data.hexdigest()[:16]}
    wanted = [(d, r, s) for d in sorted(set(depths)) for r in ridges for s in seeds]
    with ExitStack() as files:
        kept = None
        if file is not None:
            first = _fresh(factory, *FIRST)  # what the factory makes belongs to the recipe
            network = hashlib.sha256(str(first).encode())
            for name, t in first.state_dict().items():
                network.update(name.encode() + t.contiguous().cpu().numpy().tobytes())
            of = recipe | {"network": network.hexdigest()[:16]}
            kept = files.enter_context(RowFile(Path(file), kind="sweep", recipe=of))
        known: dict[Place, Trained] = {}
        for row in () if kept is None else kept.rows:
            row |= {key: tuple(row[key]) for key in ("rank", "dimension")}
            row["coordinates"] = tuple(map(tuple, row["coordinates"]))
            one = Trained(**row)
            known[_place(one)] = one
        todo = [one for one in wanted if one not in known]
        tell = progress or (lambda *_: None)
        tell("training", len(wanted) - len(todo), len(wanted))
        train = partial(_trained, factory, inputs, targets, recipe)
        for done, found in enumerate(mapper(train, todo), start=len(wanted) - len(todo) + 1):
            known[_place(found)] = found
            if kept is not None:
                kept.add(asdict(found))
            tell(f"depth {found.depth}", done, len(wanted))
    return read_sweep([known[one] for one in wanted])


def _fresh(factory: Factory, depth: int, seed: int) -> nn.Module:
    with apart():  # what a factory draws from the global generators is none of their business
        made = factory(depth, torch.Generator().manual_seed(1_000_003 * depth + seed))
    if not isinstance(made, nn.Module):
        raise Refusal(
            f"`factory` must return a torch.nn.Module, got {type(made).__name__}: does it end in "
            "`return model`?"
        )
    return made.float()


def _place(network: Trained) -> Place:
    return network.depth, network.ridge, network.seed


def _trained(factory: Factory, x: Tensor, y: Tensor, recipe: Recipe, place: Place) -> Trained:
    """One network, from its own seed: the same wherever and whenever it is trained."""
    depth, ridge, seed = place
    model = _fresh(factory, depth, seed)
    with torch.no_grad():
        called(model, x[:1])  # refused in words where they do not fit
    settle(model, x, y, ridge=ridge, **{k: recipe[k] for k in ("steps", "rate")})
    with torch.no_grad():
        cost = float((model(x) - y).square().mean())
    subject = Subject(model, x[:SAMPLES])
    stack = subject.stack
    if isinstance(stack, str):
        raise Refusal(
            f"`factory` must give plain stacks of layers, but {stack}. Use linear layers with one "
            "activation between."
        )
    counts = [counted(torch.linalg.svdvals(W), THRESHOLD, "") for W in stack.weights]
    narrowest = lambda end: int(min(getattr(c, end) for c in counts))
    used = inner_dimension(subject.jacobians.sigma)
    points = [stack.at(row) for row in x.double()[:SAMPLES]]
    tangent = sum(sum(jacot2023.ntk_trace(p)) for p in points) / len(points) / stack.depth
    fits = fit_of(Subject(model, x), y).fits
    rank = narrowest("value"), narrowest("low"), narrowest("high")
    dimension = int(used.value), int(used.low), int(used.high)
    drawn: tuple[tuple[float, float], ...] = ()
    with suppress(Refusal):  # no layer has two
        found = coordinates(model, x[:MOST])
        drawn = tuple((round(a, 6), round(b, 6)) for a, b in found.values.tolist())
    return Trained(*place, cost, stack.norm, rank, dimension, tangent, fits, drawn)
