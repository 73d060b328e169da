"""A task with a rotation symmetry: predict the costs that gradient descent will meet."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.gate import Refusal


@final
@dataclass(frozen=True, slots=True)
class SymmetryTask:
    """Starts of gradient descent on `‖v vᵀ - (w wᵀ + E)‖_F²`, and the costs along it.

    Attributes:
        axis: `w`, a unit vector; the costs hardly change by rotations around it.
        noise: `E`.
        rate: η of the steps.
        starts: `v(0)`, a row a sample.
        costs: `C(v(1))` to `C(v(T))`.
    """

    axis: Float64[Tensor, " d"]
    noise: Float64[Tensor, "d d"]
    rate: float
    starts: Float64[Tensor, "n d"]
    costs: Float64[Tensor, "n t"]

    def moved(self, v: Float64[Tensor, "n d"]) -> Float64[Tensor, "n d"]:
        """One step of gradient descent from each row."""
        E = (self.noise + self.noise.mT) / 2
        pulled = (v @ self.axis)[:, None] * self.axis + v @ E
        return v - 4 * self.rate * (v.square().sum(1, keepdim=True) * v - pulled)

    def cost(self, v: Float64[Tensor, "n d"]) -> Float64[Tensor, " n"]:
        """`C` of each row."""
        target = torch.outer(self.axis, self.axis) + self.noise
        size = v.square().sum(1)
        inner = ((v @ target) * v).sum(1)
        return size.square() - 2 * inner + target.square().sum()

    def statistics(self, v: Float64[Tensor, "n d"]) -> Float64[Tensor, "n 2"]:
        """`((wᵀ v)², ‖v - w wᵀ v‖²)`: all that the costs depend on where there is no noise."""
        along = (v @ self.axis).square()
        return torch.stack([along, v.square().sum(1) - along], 1)

    def orbits(
        self, v: Float64[Tensor, "n d"], count: int, *, generator: torch.Generator | None = None
    ) -> Float64[Tensor, "n c d"]:
        """Random rotations of each row around the axis.

        Args:
            v: Points.
            count: Of rotations of each.
            generator: Source of the rotations.
        """
        along = (v @ self.axis)[:, None]
        radius = (v - along * self.axis).norm(dim=1)[:, None, None]
        u = _around(self.axis, (len(v), count), generator)
        return along[:, None] * self.axis + radius * u


def symmetry_task(
    dimension: int = 10,
    *,
    steps: int = 20,
    rate: float = 0.02,
    noise: float = 0.01,
    samples: int = 4000,
    generator: torch.Generator | None = None,
) -> SymmetryTask:
    """Draw an axis, a noise, and starts around the axis, and run gradient descent from them.

    Starts are `a w + ρ u` with `a` normal and cut at ±1.5, ρ uniform up to 1.5 and `u` uniform on
    the unit sphere across the axis, so that both summary statistics vary in any dimension.

    Args:
        dimension: Of the vectors.
        steps: T, how many costs to predict.
        rate: Of gradient descent.
        noise: Spread of the entries of `√d E`.
        samples: How many starts.
        generator: Source of all draws.

    Raises:
        Refusal: If the dimension is below 2, or steps or samples below 1.

    Source:
        Jacot 2023, Sec. 5; the paper does not say how the starts are drawn.
    """
    if dimension < 2 or min(steps, samples) < 1:
        raise Refusal(
            f"`dimension` must be 2 or more, `steps` and `samples` 1 or more, got {dimension}, "
            f"{steps} and {samples}. An axis needs something to rotate around it."
        )
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    w = normal(dimension)
    w = w / w.norm()
    E = noise / math.sqrt(dimension) * normal(dimension, dimension)
    a = normal(samples, 1).clamp(-1.5, 1.5)
    rho = 1.5 * torch.rand(samples, 1, generator=generator, dtype=torch.float64)
    v = a * w + rho * _around(w, (samples,), generator)
    task = SymmetryTask(w, E, rate, v, v.new_zeros(samples, steps))
    for t in range(steps):
        v = task.moved(v)
        task.costs[:, t] = task.cost(v)
    return task


def statistics_moved(statistics: Float64[Tensor, "n 2"], rate: float) -> Float64[Tensor, "n 2"]:
    """One step of gradient descent, in the summary statistics alone; exact without noise.

    Args:
        statistics: `((wᵀ v)², ‖v_⊥‖²)`.
        rate: η.

    Source:
        Jacot 2023, Sec. 5, of discrete steps.
    """
    size = statistics.sum(1)
    along = 1 - 4 * rate * (size - 1)
    across = 1 - 4 * rate * size
    return statistics * torch.stack([along, across], 1).square()


def _around(
    w: Float64[Tensor, " d"], shape: tuple[int, ...], generator: torch.Generator | None
) -> Tensor:
    """Uniform on the unit sphere across an axis."""
    u = torch.randn(*shape, len(w), generator=generator, dtype=torch.float64)
    u = u - (u @ w)[..., None] * w
    return u / u.norm(dim=-1, keepdim=True)
