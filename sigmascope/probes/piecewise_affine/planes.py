"""A plane through input space, and what a network computes on it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.refusals import called
from sigmascope.probes.piecewise_affine.breakpoints import Kink
from sigmascope.probes.piecewise_affine.dispatch_trace import tracing
from sigmascope.probes.piecewise_affine.polygons import Polygon
from sigmascope.probes.piecewise_affine.regions import require_exact, require_known
from sigmascope.probes.piecewise_affine.segments import ROUNDINGS, Segment, segment, widened
from sigmascope.probes.samples.batches import as_tensor

CHUNK = 2048  # points that run through the network at once
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
        plane._require_apart()
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
                for chunk in points.split(CHUNK)
            ]
        return torch.cat(parts).double().cpu()

    def met(self, regions: list[Polygon], index: int) -> Iterator[Met]:
        """Each region with what enters an activation at its corners, some regions at a time."""
        ends = np.cumsum([len(p.corners) + 1 for p in regions])
        for group in np.split(np.arange(len(regions)), np.nonzero(np.diff(ends // CHUNK))[0] + 1):
            here = [regions[i] for i in group]
            points = torch.from_numpy(np.concatenate([_within(p) for p in here]))
            found = self.entering(points)[index]
            parts = np.split(found.values, np.cumsum([len(p.corners) + 1 for p in here])[:-1])
            for p, part in zip(here, parts, strict=True):
                yield Met(Polygon(p.corners, _continued(part, found.noise)), found.window)

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

    def _require_apart(self) -> None:
        """Raise unless a batch gives the same as its samples one by one."""
        draw = torch.Generator().manual_seed(0)
        points = 2 * torch.rand(TRIED, 2, generator=draw, dtype=torch.float64) - 1
        together, outputs = self.entering(points), self.outputs(points)
        for i, point in enumerate(points):
            alone = self.one_by_one(point)
            _require_still(alone)
            own = [_entering(k, k, 1, alone.noise) for k in alone.kinks]
            if [k.name for k in alone.kinks] != list(self.names):
                raise _mixing("other operations for one sample than for another")
            pairs = [(a.values[0], b.values[i]) for a, b in zip(own, together, strict=True)]
            pairs.append((alone.out.detach().double().cpu().flatten().numpy(), outputs[i].numpy()))
            if not all(_close(a, b, 2 * alone.noise) for a, b in pairs):
                raise _mixing("other numbers for a sample among others than for it alone")


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


def _within(p: Polygon) -> np.ndarray:
    """The middle, and points on the way to every corner."""
    middle = p.corners.mean(0)
    return np.concatenate([middle[None], middle + SHARE * (p.corners - middle)])


def _continued(values: np.ndarray, noise: float) -> np.ndarray:
    """Affine functions at the corners, from points inside; those of rounding alone are zero."""
    middle = values[0]
    found = middle + (values[1:] - middle) / SHARE
    return np.where(np.abs(values).max(0) <= noise, 0.0, found)


def _close(a: np.ndarray, b: np.ndarray, room: float) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=0, atol=room, equal_nan=True))


def _require_still(part: Segment) -> None:
    require_known(part)
    if part.branches:
        raise _mixing("a number that Python reads to choose its way (`bool`, `item`)")


def _mixing(what: str) -> Refusal:
    return Refusal(
        "The network must treat the samples of a batch one by one, always by the same operations, "
        f"got {what}. Ask along a line (`probes.piecewise_affine.regions_along`), which takes one "
        "sample at a time."
    )
