"""The regions on which a piecewise-affine network is affine: where they end, how many there are."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.core.records import ByValue
from sigmascope.models.layers import called
from sigmascope.models.samples import as_tensor
from sigmascope.models.state import still
from sigmascope.theory.piecewise_affine.segments import (
    CHUNK,
    ROUNDINGS,
    Kink,
    Segment,
    agree,
    disagreement,
    other_side,
    pulled,
    pushed,
    require_distance,
    segment,
    told,
    tracing,
    widened,
)

UNITS = 2**14  # places to bend of which the nearest is looked for
STEPS = 100_000  # regions that are counted at most
BEYOND = 1e-10  # of the segment: how far past a boundary the next region is looked at
EXACT = 2.0**-52  # rounding of float64
SAME = 1e-13  # of the steepest: below this, a difference is that of a function with itself


@dataclass(frozen=True, slots=True)
class Crossings:
    """The regions that a segment passes through.

    Attributes:
        count: How many regions.
        at: Where, between 0 and 1, it enters each but the first.
    """

    count: int
    at: tuple[float, ...]


def region_distance(model: nn.Module, x: Float[Tensor, "1 *sample"]) -> float:
    """How far the nearest input is at which some unit changes its side.

    Args:
        model: As for `local_affine`.
        x: One sample, with its batch dimension.

    Returns:
        Euclidean, in the unit of the input; infinite where nothing ever changes.

    Raises:
        Refusal: As `local_affine`, or if it is not known where an operation bends (`sort`,
            `topk`); or if the network, evaluated again nearer and farther, says otherwise.

    Source:
        Distance to the hyperplanes `p_i(z) = 0`: `|p_i| / ‖∇ p_i‖`, exact for the nearest one.

    Cost: a gradient for each unit, and six forward passes, of a copy in float64.
    """
    wide = widened(model, x)
    with segment(wide, x) as part:
        require_known(part)
        heights = [k.heights.flatten() for k in part.kinks]
        total = sum(len(q) for q in heights)
        if total > UNITS:
            raise Refusal(
                f"The distance takes a gradient for each of the {total} places where the network "
                f"may bend, more than {UNITS}. Ask it of a smaller network, or of smaller images."
            )
        reach, step = math.inf, None
        for q in filter(len, heights):
            # the least `|q_i| / ‖∇ q_i‖`, and the step that leads there
            eyes = (
                torch.nn.functional.one_hot(p, len(q)).to(q)
                for p in torch.arange(len(q), device=q.device).split(CHUNK)
            )
            slopes = torch.cat([pulled(q, part.z, eye) for eye in eyes])
            steep = slopes.double().norm(dim=1)
            height = q.detach().double()
            gaps = torch.where(height.isfinite(), height.abs(), math.inf) / steep
            gaps = gaps.masked_fill(~(steep > SAME * steep.max()), math.inf)
            i = int(gaps.argmin())
            if float(gaps[i]) < reach:
                reach = float(gaps[i])
                step = -height[i] / steep[i] ** 2 * slopes[i].double()
                step = step.reshape(part.z.shape).to(part.z)
        require_distance(wide, x, part, reach, step)
        return reach


def regions_along(
    model: nn.Module, a: Float[Tensor, "1 *sample"], b: Float[Tensor, "1 *sample"]
) -> Crossings:
    """Every region that the segment between two samples passes through, by exact steps.

    Args:
        model: As for `local_affine`.
        a: Where the segment starts.
        b: Where it ends, of the same shape.

    Raises:
        Refusal: As `region_distance`; or if there are more than 100 000 regions.

    Cost: for each region, two forward passes of a copy in float64 and a double backward pass.
    """
    if a.shape != b.shape:
        raise Refusal(
            f"`a` and `b` must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}. "
            "Give two samples of one shape."
        )
    wide = widened(model, a)
    line = a.double(), (b - a).double()
    at: list[float] = []
    t, beyond = 0.0, BEYOND
    with segment(wide, a) as before:
        require_known(before)
        require_exact(before)
    draw = torch.Generator().manual_seed(0)
    while len(at) < STEPS:
        part, ahead = _next_kink(wide, line, t, float(torch.rand((), generator=draw)))
        if at and not other_side(before, part):
            at.pop()  # the rounding of a boundary that is crossed at a narrow angle
            beyond *= 2
        else:
            beyond = BEYOND
        if t + ahead >= 1:
            return Crossings(len(at) + 1, tuple(at))
        at.append(t + ahead)
        before, t = part, at[-1] + beyond
    raise Refusal(f"The segment passes through more than {STEPS} regions. Take a shorter one.")


Line = tuple[Tensor, Tensor]


def _next_kink(model: nn.Module, line: Line, t: float, share: float) -> tuple[Segment, float]:
    """The network at one place, and how far ahead its region ends, tried at a share of the way."""
    a, along = line
    with segment(model, a, at=a + t * along) as part:
        require_known(part)
        flat = told(part)
        change = pushed(flat, part.z, along.to(part.z).reshape(1, -1))[0]
        height, slope = flat.detach().double(), change.double()
        bends = len(flat) - part.out.numel()
        moving = slope.abs() > SAME * slope.abs().max()
        ahead = (-height / slope)[:bends]
        ahead = ahead[(ahead > 0) & ahead.isfinite() & moving[:bends]]
        end = float(ahead.min()) if len(ahead) else math.inf
        step = share * min(end, 1 - t)
        with segment(model, a, at=a + (t + step) * along) as there:
            left = other_side(part, there)
            if left and step > BEYOND:
                raise disagreement(f"{left} on another side before the boundary that was foretold")
            if not left and not agree(part, there, flat, told(there), step * change):
                raise disagreement("other numbers in a region than its derivative foretells")
        return part, end


def require_exact(part: Segment) -> None:
    """Raise where rounding would hide regions that are next to each other."""
    if part.eps > EXACT:
        raise Refusal(
            "Everything that depends on the input must be computed in float64 to tell regions "
            f"apart, got numbers rounded to {part.eps:.2g}. Pass a model that runs after "
            "`model.double()`, without casts of its own."
        )


def require_known(part: Segment) -> None:
    """Raise unless every place where the network bends is known."""
    cut = {True: "", False: " of something cut off from the derivative (`detach`)"}
    unknown = sorted({k.name + cut[k.heights.requires_grad] for k in part.kinks if not k.known})
    if part.why or unknown:
        raise Refusal(
            "The boundaries of the regions must be known, got "
            f"{part.why or ', '.join(unknown)}. ReLU and its like, hardtanh, comparisons, and "
            "max-pooling are: exchange it for one of these."
        )


# ------------------------------------------------------------------------------
# Convex polygons that are cut by lines, with the values of affine functions at their corners.
#
# The idea: in one region whatever enters an activation is affine, and so is known everywhere from
# its values at the corners; a line is where such a function is zero, and needs no equation. The
# invariant: a polygon stays convex and counterclockwise, and each of its functions is exact at
# every corner but for the rounding of interpolation; heights below `ROUNDING` of the largest are
# zero, so that no sliver is cut off at a corner that lies on a line already.
#
# Source: Sutherland & Hodgman 1974 for the clipping; Balestriero et al. 2019 for what is clipped.


ROUNDING = 1e-11  # of the largest height: what a corner on the line may be off by
TIED = 1e-12  # of the largest value: functions that differ by less are the same


@dataclass(frozen=True, slots=True)
class Polygon:
    """A convex polygon, counterclockwise.

    NumPy, whose operations on a handful of numbers cost a tenth of those of a tensor.

    Attributes:
        corners: Where.
        values: Of affine functions, at each corner.
    """

    corners: Float64[np.ndarray, "v 2"]
    values: Float64[np.ndarray, "v k"]

    @property
    def area(self) -> float:
        """By the shoelace formula, from the first corner, which loses no digits far away."""
        x, y = (self.corners - self.corners[0]).T
        return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))

    def heights(self, column: int) -> Float64[np.ndarray, " v"]:
        """One function at the corners, zero where it is by rounding."""
        h = self.values[:, column]
        return np.where(np.abs(h) <= ROUNDING * np.abs(h).max(), 0.0, h)

    def crossed(self) -> Int64[np.ndarray, " units"]:
        """The functions that change their sign."""
        return np.nonzero((self.values.min(0) < 0) & (self.values.max(0) > 0))[0]

    def split(self, column: int) -> tuple["Polygon | None", "Polygon | None"]:
        """The parts where a function is negative and where it is positive; None for an empty one.

        The new corners have all functions interpolated, which is exact for affine ones.
        """
        h = self.heights(column)
        if (h >= 0).all():
            return None, self
        if (h <= 0).all():
            return self, None
        after = np.roll(h, -1)
        (at,) = np.nonzero(h * after < 0)
        t = (h[at] / (h[at] - after[at]))[:, None]
        between = lambda v: v[at] + t * (np.roll(v, -1, 0)[at] - v[at])
        fresh = between(self.values)
        fresh[:, column] = 0.0
        corners = np.insert(self.corners, at + 1, between(self.corners), axis=0)
        values = np.insert(self.values, at + 1, fresh, axis=0)
        h = np.insert(h, at + 1, 0.0)
        return Polygon(corners[h <= 0], values[h <= 0]), Polygon(corners[h >= 0], values[h >= 0])

    def edge_on(self, column: int) -> Float64[np.ndarray, "2 2"] | None:
        """The edge along which a function is zero."""
        (on,) = np.nonzero(self.heights(column) == 0)
        return self.corners[on[[0, -1]]] if len(on) >= 2 else None

    def won_by(self, columns: Int64[np.ndarray, " k"]) -> Iterator["Polygon"]:
        """The parts in which each of some functions is the largest, the first of those that tie."""
        here = self.values[:, columns]
        tied = TIED * np.abs(here).max()
        # whoever one other function exceeds at every corner wins nowhere
        beaten = (here[:, :, None] < here[:, None] - tied).all(0).any(1)
        columns = columns[~beaten]
        for winner in columns.tolist():
            part: Polygon | None = self
            for other in columns[columns != winner].tolist():
                if part is None:
                    break
                ahead = part.values[:, winner] - part.values[:, other]
                if np.abs(ahead).max() <= tied:
                    part = part if winner < other else None
                    continue
                wide = Polygon(part.corners, np.column_stack([part.values, ahead]))
                _, kept = wide.split(wide.values.shape[1] - 1)
                part = None if kept is None else Polygon(kept.corners, kept.values[:, :-1])
            if part is not None and part.area > 0:
                yield part


# ------------------------------------------------------------------------------
# A plane through input space, and what a network computes on it.


AT_ONCE = 2048  # points that run through the network at once
SHARE = 0.5  # of the way from the middle of a region to its corners: where it is evaluated
TRIED = 3  # points at which a batch is compared with single samples


@dataclass(frozen=True, slots=True)
class Met:
    """A region, and what an activation chooses from at its corners.

    Attributes:
        polygon: With heights, or with the entries of windows, as its functions.
        window: Entries in a window, of which the largest passes; 0 for heights.
    """

    polygon: Polygon
    window: int


@dataclass(frozen=True, slots=True)
class Plane:
    """The points `centre + s across + t along`.

    Attributes:
        model: In float64 where it runs so.
        centre: One sample, with its batch dimension.
        axes: Both of them, flat.
        kinks: Of the network at the centre.
        noise: What rounding may change in what the network computes.
    """

    model: nn.Module
    centre: Tensor
    axes: Float64[Tensor, "2 d"]
    kinks: tuple[Kink, ...]
    noise: float

    @classmethod
    def through(cls, model: nn.Module, centre: Tensor, across: Tensor, along: Tensor) -> "Plane":
        """A plane on which a network can be cut, if it treats the samples of a batch one by one."""
        if not centre.shape == across.shape == along.shape:
            shapes = ", ".join(str(tuple(t.shape)) for t in (centre, across, along))
            raise Refusal(
                f"The centre and both axes must have one shape, got {shapes}. Give three samples, "
                "or differences of samples."
            )
        axes = torch.stack([across.double().flatten(), along.double().flatten()])
        unit = axes / axes.norm(dim=1, keepdim=True)
        if not float((unit @ unit.mT).abs()[0, 1]) < 1 - 1e-9:
            raise Refusal(
                "The axes must point in two directions, got parallel ones or a zero. Choose two "
                "samples that differ, or random directions."
            )
        wide = widened(model, centre)
        with segment(wide, centre) as part:
            _require_still(part)
            require_exact(part)
            plane = cls(wide, centre.double(), axes.cpu(), tuple(part.kinks), part.noise)
        # a batch must give the same as its samples one by one
        draw = torch.Generator().manual_seed(0)
        points = 2 * torch.rand(TRIED, 2, generator=draw, dtype=torch.float64) - 1
        together, outputs = plane.entering(points), plane.outputs(points)
        for i, point in enumerate(points):
            alone = plane.one_by_one(point)
            _require_still(alone)
            own = [_entering(k, k, 1, alone.noise) for k in alone.kinks]
            if [k.name for k in alone.kinks] != list(plane.names):
                raise _mixing("other operations for one sample than for another")
            pairs = [(a.values[0], b.values[i]) for a, b in zip(own, together, strict=True)]
            pairs.append((alone.out.detach().double().cpu().flatten().numpy(), outputs[i].numpy()))
            if not all(
                a.shape == b.shape
                and bool(np.allclose(a, b, rtol=0, atol=2 * alone.noise, equal_nan=True))
                for a, b in pairs
            ):
                raise _mixing("other numbers for a sample among others than for it alone")
        return plane

    @property
    def names(self) -> tuple[str, ...]:
        """Operations of the kinks, in the order of calls."""
        return tuple(k.name for k in self.kinks)

    def square(self) -> Polygon:
        """`|s|, |t| <= 1`."""
        return Polygon(np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]]), np.zeros((4, 0)))

    def inputs(self, points: Float64[Tensor, "n 2"]) -> Tensor:
        """The samples at some points."""
        like = next(self.model.parameters())
        flat = self.centre.cpu().flatten() + points @ self.axes
        return flat.reshape(len(points), *self.centre.shape[1:]).to(like)

    def outputs(self, points: Float64[Tensor, "n 2"]) -> Float64[Tensor, "n m"]:
        """What the network gives there."""
        with still(self.model), torch.enable_grad():  # hooks on gradients need a tape
            parts = [
                self._run(self.inputs(chunk).requires_grad_()).detach().flatten(1)
                for chunk in points.split(AT_ONCE)
            ]
        return torch.cat(parts).double().cpu()

    def met(self, regions: list[Polygon], index: int) -> Iterator[Met]:
        """Each region with what enters an activation at its corners, some regions at a time."""
        ends = np.cumsum([len(p.corners) + 1 for p in regions])
        for group in np.split(np.arange(len(regions)), np.nonzero(np.diff(ends // AT_ONCE))[0] + 1):
            here = [regions[i] for i in group]
            # the middle of each, and points on the way to its corners
            inside: list[np.ndarray] = []
            for p in here:
                middle = p.corners.mean(0)
                inside += [middle[None], middle + SHARE * (p.corners - middle)]
            found = self.entering(torch.from_numpy(np.concatenate(inside)))[index]
            parts = np.split(found.values, np.cumsum([len(p.corners) + 1 for p in here])[:-1])
            for p, part in zip(here, parts, strict=True):
                # affine functions at the corners, from points inside; those of rounding alone are
                # zero
                middle = part[0]
                corners = middle + (part[1:] - middle) / SHARE
                yield Met(
                    Polygon(p.corners, np.where(np.abs(part).max(0) <= found.noise, 0.0, corners)),
                    found.window,
                )

    def entering(self, points: Float64[Tensor, "n 2"]) -> list["Entering"]:
        """What every activation that counts chooses from, one row for each point."""
        x = self.inputs(points).requires_grad_()
        with still(self.model), torch.enable_grad(), tracing() as trace:
            trace.source(x)
            out = self._run(x)
        found = [s.kink for s in trace.behind(out) or () if s.kink is not None]
        kinks = [k for k in found if k.heights.requires_grad]
        if [k.name for k in kinks] != list(self.names):
            raise _mixing("other operations for many samples than for one")
        noise = ROUNDINGS * trace.eps * trace.size
        pairs = zip(self.kinks, kinks, strict=True)
        return [_entering(one, many, len(points), noise) for one, many in pairs]

    def _run(self, x: Tensor) -> Tensor:
        return as_tensor(called(self.model, x.clone()))[0]  # the model may work in place

    def one_by_one(self, point: Float64[Tensor, " 2"]) -> Segment:
        """The network at one point, by itself."""
        with segment(self.model, self.centre, at=self.inputs(point[None])) as part:
            return part


@dataclass(frozen=True, slots=True)
class Entering:
    """What an activation chooses from.

    Attributes:
        values: Heights, or the entries of all windows; nan for padding, which never wins.
        window: Entries in a window; 0 for heights.
        noise: What rounding may change in them.
    """

    values: Float64[np.ndarray, "n k"]
    window: int
    noise: float


def _entering(one: Kink, many: Kink, count: int, noise: float) -> Entering:
    """The entries of each sample of a batch, by comparing shapes with those of one sample."""
    a, b = (k.heights if k.windows is None else k.windows for k in (one, many))
    moved = [d for d, (m, n) in enumerate(zip(a.shape, b.shape, strict=False)) if m != n]
    where = moved or [0]
    if a.ndim != b.ndim or len(where) != 1 or b.shape[where[0]] != count * a.shape[where[0]]:
        raise _mixing(f"`{one.name}` of shapes {tuple(a.shape)} and {tuple(b.shape)}")
    flat = b.detach().double().cpu().movedim(where[0], 0).reshape(count, -1)
    window = 0 if one.windows is None else a.shape[-1]
    return Entering(flat.masked_fill(flat.isinf(), torch.nan).numpy(), window, noise)


def _require_still(part: Segment) -> None:
    require_known(part)
    if part.branches:
        raise _mixing("a number that Python reads to choose its way (`bool`, `item`)")


def _mixing(what: str) -> Refusal:
    return Refusal(
        "The network must treat the samples of a batch one by one, always by the same operations, "
        f"got {what}. Ask along a line (`theory.piecewise_affine.regions_along`), which takes one "
        "sample at a time."
    )


# ------------------------------------------------------------------------------
# Whether polygons are the regions of a network: evaluated again, and compared.


POINTS = 8  # at which a region is looked up
FILLED = 1e-9  # of the square: what slivers, which are left out, may miss
EDGE = 1e-9  # a point nearer to an edge than this is in either region
INSIDE = 0.98  # of the way from the middle to the corners: where a region must still be affine


def require_tiling(plane: Plane, regions: list[Polygon]) -> None:
    """Raise unless polygons fill the square once, and the network is affine on each."""
    area = sum(p.area for p in regions)
    if not abs(area - 4) <= 4 * FILLED:
        raise disagreement(f"polygons of an area of {area:.12g} in a square of 4")
    draw = torch.Generator().manual_seed(1)
    points = 2 * torch.rand(POINTS, 2, generator=draw, dtype=torch.float64) - 1
    for point in points:
        # how far the point is inside each convex polygon; negative outside
        inside: list[float] = []
        for p in regions:
            d, r = np.roll(p.corners, -1, 0) - p.corners, point.numpy() - p.corners
            turns = d[:, 0] * r[:, 1] - d[:, 1] * r[:, 0]
            inside.append(float((turns / np.maximum(np.hypot(*d.T), 1e-300)).min()))
        depths = np.array(inside)
        if (depths > EDGE).sum() > 1 or not (depths > -EDGE).any():
            raise disagreement(f"{int((depths > EDGE).sum())} polygons at one point")
        if depths.max() > EDGE:
            own = regions[int(depths.argmax())]
            middle = torch.from_numpy(own.corners.mean(0))
            left = other_side(plane.one_by_one(middle), plane.one_by_one(point))
            if left:
                raise disagreement(f"{left} on two sides in one polygon")
    # in the mean over its corners, an affine function is what it is at their mean
    middles = np.stack([p.corners.mean(0) for p in regions])
    near = [m + INSIDE * (p.corners - m) for m, p in zip(middles, regions, strict=True)]
    ends = np.cumsum([len(n) for n in near])
    written = plane.outputs(torch.from_numpy(np.concatenate(near))).numpy()
    means = np.stack([part.mean(0) for part in np.split(written, ends[:-1])])
    off = np.abs(means - plane.outputs(torch.from_numpy(middles)).numpy()).max(1)
    if not off.max() <= plane.noise:
        raise disagreement(f"{int((off > plane.noise).sum())} polygons on which it bends")


# ------------------------------------------------------------------------------
# The regions of a piecewise-affine network on a plane through input space, as exact polygons.
#
# What enters an activation is affine in every region of the activations before it. It is evaluated
# strictly inside the region, where every unit is on one side beyond doubt, and continued to the
# corners: at the corners themselves a dead unit is zero up to rounding, so that a window of dead
# units would have a winner by chance, and what jumps has two values.


REGIONS = 20_000  # polygons at most
SLIVER = 1e-14  # of the whole area: below this a piece is rounding


Cuts = list[tuple[np.ndarray, int]]
ASKEW = np.array((math.e, math.pi))  # no edge is perpendicular to it but by chance


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Partition(ByValue):
    """The regions that a plane through input space meets.

    Attributes:
        polygons: Their corners on the plane, counterclockwise, from -1 to 1 on either axis.
        outputs: What the network gives at the centre of each.
        cuts: Pieces of boundary, each from one point to another.
        by: Which activation, in the order of calls, made each cut.
        counts: Regions after each activation.
        names: Functions of the activations.
    """

    polygons: tuple[Float64[Tensor, "_ 2"], ...]
    outputs: Float64[Tensor, "regions m"]
    cuts: Float64[Tensor, "cuts 2 2"]
    by: Int64[Tensor, " cuts"]
    counts: tuple[int, ...]
    names: tuple[str, ...]


def partition(
    model: nn.Module,
    centre: Float[Tensor, "1 *sample"],
    across: Float[Tensor, "1 *sample"],
    along: Float[Tensor, "1 *sample"],
) -> Partition:
    """Cut the square `centre + s across + t along`, `|s|, |t| <= 1`, where the network bends.

    In a region of the activations before it, what enters an activation is affine, so that the zeros
    of its units are lines, known from values inside the region. Activation by activation, every
    region is cut by every unit whose zero passes through it. At the end the polygons must fill the
    square, and the network must be affine on each.

    Args:
        model: As for `local_affine`, with kinks that are known; samples must not be mixed.
        centre: One sample, with its batch dimension.
        across: The first axis, as long as half the side of the square.
        along: The second one.

    Raises:
        Refusal: If shapes differ or the axes are parallel, if the network is not piecewise affine,
            or mixes samples, if there are more than 20 000 regions, or if the polygons are not the
            regions when the network is evaluated again.

    Source:
        Balestriero, Cosentino, Aazhang & Baraniuk 2019; Riedi et al. 2022, section 2.3 and Fig. 3.

    Cost: one forward pass of all corners for each activation, of a copy in float64.
    """
    plane = Plane.through(model, centre, across, along)
    regions = [plane.square()]
    cuts: Cuts = []
    counts: list[int] = []
    for index in range(len(plane.names)):
        # what one activation leaves of the regions of those before it
        after: list[Polygon] = []
        for met in plane.met(regions, index):
            polygon = met.polygon
            if met.window:
                pieces = _by_window(polygon, met.window, index, cuts)
            else:
                pieces = _by_height(polygon, index, cuts)
            after += islice((p for p in pieces if p.area > 4 * SLIVER), REGIONS + 1 - len(after))
            if len(after) > REGIONS:
                raise Refusal(
                    f"The plane must meet at most {REGIONS} regions, got more at activation "
                    f"{index + 1} of {len(plane.names)}. Take shorter axes, or a narrower network."
                )
        regions = after
        counts.append(len(regions))
    require_tiling(plane, regions)
    centres = torch.from_numpy(np.stack([p.corners.mean(0) for p in regions]))
    ends = np.stack([c for c, _ in cuts]) if cuts else np.zeros((0, 2, 2))
    return Partition(
        tuple(torch.from_numpy(p.corners) for p in regions),
        plane.outputs(centres),
        torch.from_numpy(ends),
        torch.tensor([i for _, i in cuts], dtype=torch.int64),
        tuple(counts),
        plane.names,
    )


def _by_height(polygon: Polygon, index: int, cuts: Cuts) -> Iterator[Polygon]:
    waiting = [polygon]
    while waiting:
        piece = waiting.pop()
        for unit in piece.crossed().tolist():
            low, high = piece.split(unit)
            if low is not None and high is not None:
                edge = high.edge_on(unit)
                cuts += [] if edge is None else [(edge, index)]
                waiting += [low, high]
                break
        else:
            yield piece


def _by_window(polygon: Polygon, size: int, index: int, cuts: Cuts) -> list[Polygon]:
    pieces = [polygon]
    for first in range(0, polygon.values.shape[1], size):
        columns = np.arange(first, first + size)
        columns = columns[np.isfinite(polygon.values[:, columns]).all(0)]
        here = polygon.values[:, columns]
        # where one function is the largest at every corner, and so everywhere between
        if bool((here >= here.max(1, keepdims=True)).all(0).any()):
            continue
        after = []
        for piece in pieces:
            parts = list(piece.won_by(columns))
            if len(parts) > 1:
                cuts += [(edge, index) for part in parts for edge in _inner_edges(part, piece)]
            after += parts
        pieces = after
    return pieces


def _inner_edges(part: Polygon, whole: Polygon) -> Iterator[np.ndarray]:
    """Edges of a part that are not on the border of the whole, one side of each.

    Corners go round counterclockwise, so the part on the other side has the edge the other way.
    """
    d = np.roll(whole.corners, -1, 0) - whole.corners
    for a, b in zip(part.corners, np.roll(part.corners, -1, 0), strict=True):
        r = (a + b) / 2 - whole.corners
        off = np.abs(d[:, 0] * r[:, 1] - d[:, 1] * r[:, 0]) / np.maximum(np.hypot(*d.T), 1e-300)
        if off.min() > 1e-9 and (b - a) @ ASKEW > 0:
            yield np.stack([a, b])
