"""The curvature of the loss by double backward: Hessian, Gauss-Newton matrix, empirical Fisher.

The tape of the gradient is recorded once; a product is then one pass back along it. Nested forward
or functional differentiation is not used: it is wrong for normalisers whose own weight is
differentiated (torch 2.13).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief
from sigmascope.linalg.krylov import Operator
from sigmascope.models.gradients import (
    Parts,
    again,
    along_the_tape,
    differentiable_twice,
    joined,
    pushforward,
    tape_kept,
)
from sigmascope.models.layers import explaining, module_name, require_real
from sigmascope.models.samples import in_double, prepared
from sigmascope.models.state import duplicate
from sigmascope.models.tape import Scene

# ------------------------------------------------------------------------------
# Parameters and buffers moved for a while.


Direction = Mapping[str, Tensor]


@contextmanager
def moved(model: nn.Module, displacement: Direction) -> Iterator[None]:
    """Parameters and buffers displaced while the block runs; afterwards their own storage again.

    The data are exchanged, not changed in place, which tapes elsewhere would notice.
    """
    owned = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    before = {name: owned[name].data for name in displacement}
    try:
        for name, step in displacement.items():
            owned[name].data = before[name] + step.to(before[name])
        yield
    finally:
        for name, data in before.items():
            owned[name].data = data


Kind = Literal["hessian", "gauss-newton", "fisher"]
KINDS: tuple[Kind, ...] = ("hessian", "gauss-newton", "fisher")


@dataclass(frozen=True, slots=True, repr=False)
class Curvature(Brief):
    """The curvature of a loss in some or all of a model's parameters.

    Attributes:
        kind: `"hessian"`, the second derivative of the loss; `"gauss-newton"`, `Jᵀ H J` with J the
            derivative of the output and H the second derivative of the loss by it; `"fisher"`, the
            mean of `g gᵀ` over the gradients of single samples (the empirical Fisher matrix).
        operator: Symmetric, over the parameters one after the other, row by row.
        parameters: Their names, in this order; tied ones once.
        gradient: Of the loss; it often points where the curvature is large.
        held: A block in which the model is held still once for all products, which costs as much as
            a product of a small network does. Random numbers of the process drawn inside are drawn
            again after it.
    """

    kind: Kind
    operator: Operator
    parameters: tuple[str, ...]
    gradient: Float64[Tensor, " n"]
    held: Callable[[], AbstractContextManager[None]]


def curvature(scene: Scene, kind: Kind, parameters: dict[str, nn.Parameter]) -> Curvature:
    """Record the tape; products hold on to it.

    Raises:
        Refusal: If the kind is unknown, if targets or loss are missing where they matter, or if the
            loss depends on none of the parameters.
    """
    if kind not in KINDS:
        raise Refusal(f"`kind` must be one of {', '.join(KINDS)}, got {kind!r}.")
    if kind != "gauss-newton" and (scene.loss is None or scene.targets is None):
        raise Refusal(
            f'The curvature "{kind}" depends on targets and a loss, got none. Pass `targets=` and '
            '`loss=`, or ask for "gauss-newton", which is then that of squared error.'
        )
    owned = list(parameters.values())
    with differentiable_twice(scene.model):
        product: Product | None = None
        if kind == "fisher":
            losses = scene.losses()
            value = losses.mean()
            product = _gauss_newton(losses, lambda w: w / scene.count, owned)
        else:
            output = scene.output()
            value = scene.value(output)
            if kind == "gauss-newton":
                # products with the second derivative of the loss by the output
                leaf = output.detach().requires_grad_()
                (slope,) = torch.autograd.grad(scene.value(leaf), leaf, create_graph=True)

                def second(w: Tensor) -> Tensor:
                    (found,) = again([slope], [leaf], [w])
                    return torch.zeros_like(w) if found is None else found

                product = _gauss_newton(output, second, owned)
        if not value.requires_grad:
            raise Refusal("The loss must depend on the parameters, got one that does not.")
        slopes = torch.autograd.grad(value, owned, create_graph=True, allow_unused=True)
        whole = joined(slopes, owned)
    gradient = whole.detach().double()
    sizes = [p.numel() for p in owned]

    def multiplied(v: Tensor) -> Tensor:
        if product is None:
            # as one vector: to seed the tape parameter by parameter takes a fifth of a product
            found = again([whole], owned, [v.to(whole)])
        else:
            parts = zip(v.split(sizes), owned, strict=True)
            found = product([part.reshape(p.shape).to(p) for part, p in parts])
        return joined(found, owned)

    hold = _Hold(scene.model)

    def apply(block: Tensor) -> Tensor:
        with hold.still(), explaining():
            return torch.stack([multiplied(v) for v in block.T], dim=1)

    size = sum(sizes)
    operator = Operator((size, size), apply, apply, owned[0].detach())
    return Curvature(kind, operator, (*parameters,), gradient, hold.still)


class _Hold:
    """Holds a model still to differentiate along a tape of it: for one product, or for many."""

    def __init__(self, model: nn.Module) -> None:
        self._model, self._held = model, False

    @contextmanager
    def still(self) -> Iterator[None]:
        if self._held:
            yield
            return
        with tape_kept(self._model), along_the_tape():
            self._held = True
            try:
                yield
            finally:
                self._held = False


Product = Callable[[list[Tensor]], Parts]


def chosen_parameters(model: nn.Module, layers: Sequence[str] | None) -> dict[str, nn.Parameter]:
    """The trained parameters, tied ones once; of some layers, those these or their parts use.

    Raises:
        Refusal: If a name is not a module's, or nothing there is trained.
    """
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    require_real(trained, "Curvature")
    if layers is not None:
        modules = dict(model.named_modules())
        names = [name if name in modules else module_name(name) for name in layers]
        unknown = [name for name in names if name not in modules]
        if unknown:
            known = ", ".join(list(modules)[1:13])
            raise Refusal(f"`layers` must name modules, got {unknown[0]!r}; there are {known}.")
        used = {p for name in names for p in modules[name].parameters()}
        trained = {n: p for n, p in trained.items() if p in used}
    if not trained:
        where = "the model" if layers is None else ", ".join(layers)
        raise Refusal(
            f"There must be parameters that require gradients, got none in {where}. Call "
            "`requires_grad_()` on those to study."
        )
    return trained


def _gauss_newton(
    outputs: Tensor, second: Callable[[Tensor], Tensor], owned: list[nn.Parameter]
) -> Product:
    push = pushforward(outputs, owned)

    def product(parts: list[Tensor]) -> Parts:
        pushed = push(parts)
        if pushed is None:
            return [None] * len(owned)
        return torch.autograd.grad(
            outputs, owned, second(pushed), retain_graph=True, allow_unused=True
        )

    return product


# ------------------------------------------------------------------------------
# Whether second derivatives by autograd agree with finite differences of first ones.


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
    if any(p.dtype != torch.float64 for p in scene.model.parameters()):
        model, targets = duplicate(scene.model).double(), scene.targets
        if isinstance(targets, Tensor) and targets.is_floating_point():
            targets = targets.double()
        loss = None if scene.loss is None else in_double(scene.loss)
        batch = prepared(model, scene.batch)
        scene = replace(scene, model=model, batch=batch, targets=targets, loss=loss)
    parameters = chosen_parameters(scene.model, None)
    owned = list(parameters.values())
    g = torch.Generator().manual_seed(0)
    directions: list[Tensor] = []
    for p in owned:
        size = p.detach().square().mean().sqrt()
        noise = torch.randn(p.shape, generator=g, dtype=p.dtype).to(p.device)
        directions.append(noise * torch.where(size > 0, size, torch.ones_like(size)))
    # rows of embeddings that stand for padding count as constants, and must not move
    moving: dict[Tensor, Tensor] = dict(zip(owned, directions, strict=True))
    for module in scene.model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            moving.get(module.weight, torch.empty_like(module.weight))[module.padding_idx] = 0
    along = dict(zip(parameters, directions, strict=True))
    supervised = scene.loss is not None and scene.targets is not None

    def moves() -> Tensor:
        with differentiable_twice(scene.model):
            if not supervised:
                with torch.no_grad():
                    return scene.output().flatten()
            value = scene.value(scene.output())
            found = torch.autograd.grad(value, owned, allow_unused=True)
        return joined(found, owned)

    if supervised:
        v = torch.cat([d.reshape(-1) for d in directions])
        claimed = curvature(scene, "hessian", parameters).operator.apply(v[:, None])[:, 0]
    else:
        with differentiable_twice(scene.model):
            output = scene.output()
            pushed = pushforward(output, owned)(directions)
        claimed = torch.zeros_like(output).flatten() if pushed is None else pushed.flatten()
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
