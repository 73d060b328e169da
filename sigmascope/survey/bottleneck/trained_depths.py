"""What training one task at several depths showed, and the dimension that it tells."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from sigmascope.records import Estimate, Shown
from sigmascope.survey.bottleneck.inner_dimensions import RISK as DIMENSION_RISK

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
class Segment:
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
    segments: tuple[Segment, ...]
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
    groups: dict[tuple[bool, float, int], list[Trained]] = {}
    for n in networks:
        groups.setdefault((not n.fits, n.ridge, -n.rank[0]), []).append(n)
    for (misses, ridge, rank), members in sorted(groups.items()):
        depths = [n.depth for n in members]
        slope, offset = _line(depths, [n.norm for n in members])
        tangent = sum(n.tangent for n in members) / len(members)
        yield Segment(ridge, -rank, tuple(depths), slope, offset, tangent, not misses)


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
        room = float(scipy.special.stdtrit(len(x) - 2, 1 - RISK / 2)) * error
    how = f"least squares over {len(x)} networks"
    return Estimate(slope, slope - room, slope + room, how, RISK), offset
