"""Symmetries that a network learned, and the coordinates that are left of its inputs."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.core.quantities import View
from sigmascope.core.records import Brief, Estimate, Reading
from sigmascope.models import OUTPUT, Subject

VIEW: View = "bottleneck"
NEIGHBOURS = 5


def orbit_variance(model: nn.Module, orbits: Float[Tensor, "n c *features"]) -> tuple[Reading, ...]:
    """How far equivalent inputs lie apart in each representation, next to all inputs.

    The variance around the mean of each orbit, over that around the mean of all: 0 where a layer
    has collapsed every orbit to a point, near 1 where orbits differ as little as their points.

    Args:
        model: The network.
        orbits: For each of n inputs, c inputs that are equivalent to it: images under a group, or
            pairs that mean the same.

    Returns:
        Of what each layer reads, and of the output; a representation that does not vary is left
        out.

    Raises:
        Refusal: If there are fewer than two orbits, or than two inputs in each.

    Source:
        Jacot 2023, Sec. 5 and Fig. 2c.

    Cost: one forward pass over all inputs.
    """
    if orbits.ndim < 3 or min(orbits.shape[:2]) < 2:
        raise Refusal(
            f"`orbits` must be [inputs, equivalents, ...] with two or more of each, got "
            f"{tuple(orbits.shape)}. For pairs, stack the two batches in dimension 1."
        )
    found: list[Reading] = []
    for site, X in representations(model, orbits.flatten(0, 1)).items():
        grouped = X.unflatten(0, orbits.shape[:2])
        inside = (grouped - grouped.mean(1, keepdim=True)).square().sum()
        total = (X - X.mean(0)).square().sum()
        if float(total) > 0:
            share = Estimate.rounded(float(inside / total), ulps=1e6)
            found.append(Reading(site, "within-orbit variance", share, VIEW))
    return tuple(found)


def representations(model: nn.Module, batch: Tensor) -> dict[str, Float64[Tensor, "n _"]]:
    """What each layer reads, and the output, a row a sample; others are left out."""
    subject = Subject(model, batch)
    rows = {site: both.samples for site, both in subject.activations.items()}
    return {
        site: X.double().cpu()
        for site, X in rows.items()
        if X is not None and bool(X.isfinite().all())
    }


@final
@dataclass(frozen=True, slots=True, repr=False)
class Coordinates(Brief):
    """Principal coordinates of one representation.

    Attributes:
        site: Which layer reads it.
        mean: Its mean over the batch.
        axes: The first principal directions, as columns.
        values: Coordinates of every sample.
        share: Of the variance, that along these axes.
    """

    site: str
    mean: Float64[Tensor, " w"]
    axes: Float64[Tensor, "w k"]
    values: Float64[Tensor, "n k"]
    share: float

    def of(self, X: Float64[Tensor, "m w"]) -> Float64[Tensor, "m k"]:
        """Coordinates of other rows of the same representation."""
        return (X - self.mean) @ self.axes


def coordinates(
    model: nn.Module,
    batch: Tensor,
    *,
    site: str | None = None,
    after: str | None = None,
    count: int = 2,
) -> Coordinates:
    """The first principal coordinates of a representation: what a bottleneck lets through.

    Args:
        model: The network.
        batch: Inputs.
        site: Which layer reads it; without, the hidden layer that has most of its variance along
            so many axes.
        after: Instead, the layer before the one that reads it.
        count: How many coordinates.

    Raises:
        Refusal: If there is no such representation, or it has fewer directions.
    """
    found = representations(model, batch)
    if after in found:
        names = list(found)
        site = names[names.index(after) + 1]
    inner = [s for s in list(found)[1:] if s != OUTPUT] or list(found)
    if site is not None and site not in found:
        raise Refusal(f"`site` must name a layer, got {site!r}; there are {', '.join(found)}.")
    wanted = inner if site is None else [site]
    principal: list[Coordinates] = []
    for s in wanted:
        if min(found[s].shape) >= count:
            X = found[s]
            mean = X.mean(0)
            _, sigma, axes = torch.linalg.svd(X - mean, full_matrices=False)
            kept = axes[:count].mT
            total = float(sigma.square().sum())
            share = float(sigma[:count].square().sum()) / total if total > 0 else 0.0
            principal.append(Coordinates(s, mean, kept, (X - mean) @ kept, share))
    if not principal:
        raise Refusal(
            f"`count` must be at most the width of a representation and the number of samples, got "
            f"{count}. Ask for fewer."
        )
    return max(principal, key=lambda c: c.share)


def self_consistency(
    model: nn.Module, batch: Tensor, moved: Tensor, *, site: str | None = None, count: int = 2
) -> Estimate:
    """Whether the coordinates of a bottleneck tell where a step of some dynamics leads in them.

    The share of the variance of the next coordinates that the nearest neighbours in the present
    ones explain, each sample predicted from others. Near 1, paths do not cross: the coordinates are
    summary statistics of the dynamics.

    Args:
        model: The network.
        batch: States.
        moved: The same states after one step.
        site: As for `coordinates`.
        count: As for `coordinates`.

    Raises:
        Refusal: If the two batches differ in shape, or as for `coordinates`.

    Source:
        Jacot 2023, Sec. 5 and Fig. 2b.
    """
    if batch.shape != moved.shape:
        raise Refusal(
            f"`moved` must hold the next state of each sample, got {tuple(moved.shape)} for "
            f"{tuple(batch.shape)}. Pass the states after one step, in the same order."
        )
    now = coordinates(model, batch, site=site, count=count)
    after = now.of(representations(model, moved)[now.site])
    return explained(now.values, after)


def explained(X: Float64[Tensor, "n k"], Y: Float64[Tensor, "n c"]) -> Estimate:
    """R² of predicting rows of Y by the mean over the nearest neighbours in X, each left out.

    Args:
        X: Where neighbours are sought.
        Y: What is predicted.

    Returns:
        At most 1; below 0 where neighbours predict worse than the mean. The interval is that of a
        normal mean over samples, two standard errors on each side.
    """
    from sklearn.neighbors import NearestNeighbors

    if len(X) <= NEIGHBOURS:
        raise Refusal(f"There must be more than {NEIGHBOURS} samples, got {len(X)}. Pass more.")
    index = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(X.numpy())
    near = torch.from_numpy(index.kneighbors(return_distance=False))
    error = (Y - Y[near].mean(1)).square().sum(1)
    size = (Y - Y.mean(0)).square().sum(1).mean()
    if float(size) == 0:
        raise Refusal("What is predicted must vary, got one value. Pass other samples.")
    value = 1 - float(error.mean() / size)
    room = 2 * float(error.std() / size) / len(X) ** 0.5
    how = f"{NEIGHBOURS} nearest neighbours of {len(X)} samples"
    return Estimate(value, value - room, min(1.0, value + room), how, 0.05)
