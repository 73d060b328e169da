"""Whether second derivatives by autograd agree with finite differences of first ones."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from sigmascope.probes.curvature.displacement import moved
from sigmascope.probes.curvature.hessian import Kind, chosen_parameters, curvature
from sigmascope.probes.execution.copying import duplicate
from sigmascope.probes.execution.double_backward import differentiable_twice, joined, pushforward
from sigmascope.probes.samples.batches import prepared
from sigmascope.probes.scene import Scene

STEPS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)  # of each parameter's own size
GOOD = 1e-6  # a relative difference below which no other step is tried


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """A product by autograd against a difference quotient along the same random direction.

    Attributes:
        gap: Norm of their difference over that of the product, at the best of several steps.
        step: That step, over the size of each parameter.
    """

    gap: float
    step: float


def self_check(scene: Scene) -> SelfCheck:
    """Compare `H v` with `(∇L(w + h v) - ∇L(w - h v)) / 2h`, in float64, on a copy if need be.

    Without targets and loss, the Gauss-Newton matrix is meant, and `J v` is compared. They differ
    where a module's backward is not its derivative, or cannot be differentiated; and where units
    sit exactly on a kink (a zero bias below an input of zeros), where no derivative exists.

    Cost: up to ten gradients.
    """
    scene = _in_double(scene)
    parameters = chosen_parameters(scene.model, None)
    owned = list(parameters.values())
    g = torch.Generator().manual_seed(0)
    directions = [_direction(p, g) for p in owned]
    _spare_padding(scene.model, dict(zip(owned, directions, strict=True)))
    along = dict(zip(parameters, directions, strict=True))
    supervised = scene.loss is not None and scene.targets is not None
    kind: Kind = "hessian" if supervised else "gauss-newton"
    moves = (lambda: _gradient(scene, owned)) if supervised else (lambda: _output(scene))
    claimed = _claimed(scene, kind, parameters, directions)
    best = SelfCheck(float("inf"), STEPS[0])
    floor = 1e-9 * moves().norm().item() + 1e-300
    for h in STEPS:
        with moved(scene.model, {n: h * d for n, d in along.items()}):
            ahead = moves()
        with moved(scene.model, {n: -h * d for n, d in along.items()}):
            behind = moves()
        gap = ((ahead - behind) / (2 * h) - claimed).norm().item()
        found = SelfCheck(gap / max(claimed.norm().item(), floor), h)
        best = min(best, found, key=lambda c: c.gap)
        if best.gap < GOOD:
            break
    return best


def _in_double(scene: Scene) -> Scene:
    if all(p.dtype == torch.float64 for p in scene.model.parameters()):
        return scene
    model = duplicate(scene.model).double()
    targets = scene.targets
    if isinstance(targets, Tensor) and targets.is_floating_point():
        targets = targets.double()
    return replace(scene, model=model, batch=prepared(model, scene.batch), targets=targets)


def _direction(p: Tensor, g: torch.Generator) -> Tensor:
    size = p.detach().square().mean().sqrt()
    noise = torch.randn(p.shape, generator=g, dtype=p.dtype).to(p.device)
    return noise * torch.where(size > 0, size, torch.ones_like(size))


def _spare_padding(model: nn.Module, directions: dict[Tensor, Tensor]) -> None:
    """Rows of embeddings that stand for padding count as constants, and must not move."""
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            directions.get(module.weight, torch.empty_like(module.weight))[module.padding_idx] = 0


def _claimed(
    scene: Scene, kind: Kind, parameters: dict[str, nn.Parameter], directions: list[Tensor]
) -> Tensor:
    if kind == "hessian":
        v = torch.cat([d.reshape(-1) for d in directions])
        return curvature(scene, kind, parameters).operator.apply(v[:, None])[:, 0]
    with differentiable_twice(scene.model):
        output = scene.output()
        found = pushforward(output, list(parameters.values()))(directions)
    return torch.zeros_like(output).flatten() if found is None else found.flatten()


def _gradient(scene: Scene, owned: list[nn.Parameter]) -> Tensor:
    with differentiable_twice(scene.model):
        value = scene.value(scene.output())
        found = torch.autograd.grad(value, owned, allow_unused=True)
    return joined(found, owned)


def _output(scene: Scene) -> Tensor:
    with differentiable_twice(scene.model), torch.no_grad():
        return scene.output().flatten()
