"""Training one task at several depths, and reading off which dimension it needs."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from sigmascope.linalg import Estimate
from sigmascope.probes import Refusal, Subject
from sigmascope.survey.bottlenecks import THRESHOLD, counted
from sigmascope.survey.dimensions import RISK as DIMENSION_RISK
from sigmascope.survey.dimensions import inner_dimension
from sigmascope.survey.fits import fit_of
from sigmascope.survey.profiles import Progress
from sigmascope.survey.settling import settle
from sigmascope.theory import jacot2023

Recipe = dict[str, Any]
Factory = Callable[[int, torch.Generator], nn.Module]
SAMPLES = 64  # at which Jacobians and tangent kernels are read
RISK = 0.05
MANY = 0.25  # of the networks that fit


@final
@dataclass(frozen=True, slots=True)
class Trained:
    """One network, trained to a minimum.

    Attributes:
        depth: Its layers.
        seed: Of its initial weights.
        cost: Mean squared error over samples and outputs.
        norm: `‖θ‖²`, biases included.
        rank: Singular values above 0.1 of its narrowest weight, and those above 0.2 and 0.05.
        dimension: The number of dimensions that its function uses, by `inner_dimension`, and the
            ends of that interval.
        tangent: Mean of `Tr Θ(x, x)` over the samples, by the depth.
        fits: Whether less than a sixteenth of the variance is left, or what is left is noise; see
            `fit_of`.
    """

    depth: int
    seed: int
    cost: float
    norm: float
    rank: tuple[int, int, int]
    dimension: tuple[int, int, int]
    tangent: float
    fits: bool

    @property
    def kind(self) -> str:
        """Whether it passes as many dimensions as its function uses, more, or too few to fit."""
        if not self.fits:
            return "underestimating"
        return "overestimating" if self.rank[1] > self.dimension[2] else "recovering"


@final
@dataclass(frozen=True, slots=True)
class Segment:
    """Depths at which the same rank was learned.

    Attributes:
        rank: The rank.
        depths: The depths.
        slope: Of `‖θ‖²` against depth: the rank, by theory. Unknown of one depth.
        offset: Of the same line.
        tangent: Mean trace of the tangent kernel by depth.
        fits: Whether its networks fit.
    """

    rank: int
    depths: tuple[int, ...]
    slope: Estimate
    offset: float
    tangent: float
    fits: bool


@final
@dataclass(frozen=True, slots=True)
class DepthSweep:
    """What training at several depths showed.

    Attributes:
        networks: In the order of depth and seed.
        segments: By rank, those that fit first; deeper ones last.
        rank: The dimension of the task: what most networks that fit use, the deeper counting first
            where they are as many; the interval holds what at least a quarter of them use.
        says: In one sentence.
    """

    networks: tuple[Trained, ...]
    segments: tuple[Segment, ...]
    rank: Estimate
    says: str


def depth_sweep(
    factory: Factory,
    inputs: Tensor,
    targets: Tensor,
    *,
    depths: Collection[int],
    ridge: float = 1e-3,
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
        ridge: `λ` of the penalty `λ ‖θ‖²`, biases included.
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
    inputs, targets = _require(inputs, targets, depths)
    recipe = {"ridge": ridge, "steps": steps, "rate": rate, "data": _digest(inputs, targets)}
    known = {} if file is None else _kept(file, recipe)
    wanted = [(d, s) for d in sorted(set(depths)) for s in seeds]
    todo = [pair for pair in wanted if pair not in known]
    tell = progress or (lambda *_: None)
    tell("training", len(wanted) - len(todo), len(wanted))
    one = partial(_trained, factory, inputs, targets, recipe)
    for done, found in enumerate(mapper(one, todo), start=len(wanted) - len(todo) + 1):
        known[found.depth, found.seed] = found
        if file is not None:
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps({**asdict(found), "recipe": recipe}) + "\n")
        tell(f"depth {found.depth}", done, len(wanted))
    return read_sweep([known[pair] for pair in wanted])


def _require(inputs: Tensor, targets: Tensor, depths: Collection[int]) -> tuple[Tensor, Tensor]:
    if inputs.ndim != 2 or targets.ndim != 2 or len(inputs) != len(targets):
        raise Refusal(
            f"`inputs` and `targets` must be matrices with a row for each sample, got "
            f"{tuple(inputs.shape)} and {tuple(targets.shape)}. Flatten images, and give one-hot "
            "rows for classes."
        )
    if not depths or min(depths) < 2:
        raise Refusal(f"`depths` must be 2 or more, got {sorted(depths)}. Name a few, up to 20.")
    return inputs.float(), targets.float()


def _digest(*data: Tensor) -> str:
    """Tells one data set from another."""
    found = hashlib.sha256()
    for t in data:
        found.update(t.contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def _kept(file: Path, recipe: Recipe) -> dict[tuple[int, int], Trained]:
    found: dict[tuple[int, int], Trained] = {}
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    if lines and not lines[-1].endswith("\n"):  # the run was cut while it wrote
        lines = lines[:-1]
        file.write_text("".join(lines), encoding="utf-8")
    for row in map(json.loads, lines):
        if row.pop("recipe") != recipe:
            raise Refusal(
                f"{file} must belong to the same sweep, got networks of another recipe or other "
                "data. Name another file."
            )
        pairs = {key: tuple(row[key]) for key in ("rank", "dimension")}
        found[row["depth"], row["seed"]] = Trained(**row | pairs)
    return found


def _trained(
    factory: Factory, x: Tensor, y: Tensor, recipe: Recipe, pair: tuple[int, int]
) -> Trained:
    """One network, from its own seed: the same wherever and whenever it is trained."""
    depth, seed = pair
    model = factory(depth, torch.Generator().manual_seed(1_000_003 * depth + seed)).float()
    settle(model, x, y, **{k: recipe[k] for k in ("ridge", "steps", "rate")})
    return _read(model, x, y, depth, seed)


def _read(model: nn.Module, x: Tensor, y: Tensor, depth: int, seed: int) -> Trained:
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
    return Trained(depth, seed, cost, stack.norm, rank, dimension, tangent, fits)


def read_sweep(networks: Sequence[Trained]) -> DepthSweep:
    """Segments of one rank, their affine laws, and the dimension of the task.

    Args:
        networks: At several depths.

    Source:
        Jacot 2023, Sec. 3; `‖θ‖² = k L + R1 + R2 / L` at rank k.
    """
    segments = tuple(_segments(networks))
    fitting = [s for s in segments if s.fits]
    if not fitting:
        nothing = Estimate(0.0, 0.0, math.inf, "no network fits")
        return DepthSweep(tuple(networks), segments, nothing, "No network fits: lower the ridge.")
    rank = _agreed([n for n in networks if n.fits])
    return DepthSweep(tuple(networks), segments, rank, _said(rank, fitting, segments))


def _agreed(networks: Sequence[Trained]) -> Estimate:
    """The dimension that most networks use; the interval holds those that many hold possible."""
    deepest = sorted(networks, key=lambda n: -n.depth)
    told = Counter(n.dimension[0] for n in deepest)
    value = told.most_common(1)[0][0]
    possible = Counter(k for n in networks for k in range(n.dimension[1], n.dimension[2] + 1))
    likely = [k for k, votes in possible.items() if votes >= MANY * len(networks)] + [value]
    how = f"told by {told[value]} of {len(networks)} networks that fit"
    return Estimate(value, min(likely), max(likely), how, DIMENSION_RISK)


def _said(rank: Estimate, fitting: Sequence[Segment], segments: Sequence[Segment]) -> str:
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
    return words + "."


def _segments(networks: Sequence[Trained]) -> Iterator[Segment]:
    groups: dict[tuple[bool, int], list[Trained]] = {}
    for n in networks:
        groups.setdefault((not n.fits, n.rank[0]), []).append(n)
    for (misses, rank), members in sorted(groups.items(), key=lambda g: (g[0][0], -g[0][1])):
        depths = [n.depth for n in members]
        slope, offset = _line(depths, [n.norm for n in members])
        tangent = sum(n.tangent for n in members) / len(members)
        yield Segment(rank, tuple(depths), slope, offset, tangent, not misses)


def _line(x: list[int], y: list[float]) -> tuple[Estimate, float]:
    """Least squares with Student's interval for the slope."""
    if len(set(x)) < 2:
        return Estimate(0.0, -math.inf, math.inf, "one depth only"), y[0]
    at, norms = np.array(x, dtype=float), np.array(y)
    slope, offset = np.polyfit(at, norms, 1).tolist()
    room = math.inf
    if len(x) > 2:
        spread = math.sqrt(float(((norms - offset - slope * at) ** 2).sum()) / (len(x) - 2))
        error = spread / math.sqrt(float(((at - at.mean()) ** 2).sum()))
        room = float(stats.t.ppf(1 - RISK / 2, len(x) - 2)) * error
    how = f"least squares over {len(x)} networks"
    return Estimate(slope, slope - room, slope + room, how, RISK), offset
