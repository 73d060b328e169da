"""Raising the rank of a random network before it is trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Kind
from sigmascope.diagnosis.remedies.base import Inapplicable, Remedy, calls, frozen
from sigmascope.diagnosis.rules.gradients import VANISHING_ADJOINTS
from sigmascope.diagnosis.rules.representations import (
    DIRECTIONAL_GRADIENT_VANISHING,
    EXPLODING_SIGNAL,
    RANK_COLLAPSE,
    VANISHING_SIGNAL,
)
from sigmascope.models.layers import is_repeated, layers
from sigmascope.models.samples import Batch, run
from sigmascope.models.state import still

TRAINED = (nn.Linear, _ConvNd)  # layers whose weights are raised
HOMOGENEOUS = 1e-3  # how far a rescaled representation may be from unit mean square


class Reached(Exception):
    """Carries what a later layer reads out of a forward pass that need not go on."""

    def __init__(self, read: Tensor) -> None:
        super().__init__()
        self.read = read


@final
@dataclass(frozen=True, slots=True)
class RankPretraining(Remedy):
    """Ascend the participation ratio of each representation, with respect to the layer before it.

    Layer by layer in the order of calls: `steps` steps of ascent on `r(H) = (Σ σ²)² / Σ σ⁴` of what
    the next layer reads of the batch, rows are samples, the best kept; biases are set to zero
    first, and weights rescaled to unit mean square of `H` where that is all a scale changes. Each
    step is `step` times the norm of the weight, along the gradient; with `relative=False` it is
    `step` times the gradient, as printed. Arithmetic is in float64.

    Attributes:
        steps: Of ascent for each layer.
        step: Length of each, see above.
        relative: Whether steps are relative to the weights' norm.
        end_to_end: Ascend the ratio of the last representation in all weights at once (Adam with
            rate `step`) instead, which needs many more steps.
    """

    name: ClassVar[str] = "rank-pretraining"
    cures: ClassVar[tuple[Kind, ...]] = (
        RANK_COLLAPSE,
        DIRECTIONAL_GRADIENT_VANISHING,
        VANISHING_SIGNAL,
        EXPLODING_SIGNAL,
        VANISHING_ADJOINTS,
    )
    says: ClassVar[str] = (
        "Before training, change the initial weights of each layer so that what it passes on uses "
        "as many directions as it can on a batch."
    )
    unless: ClassVar[str] = "there is no hidden layer with a plain weight"
    source: ClassVar[str] = "Daneshmand et al. 2020, Algorithm 1, as ascent"

    steps: int = 25
    step: float = 0.05
    relative: bool = True
    end_to_end: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.step > 0:
            raise Refusal(
                f"`steps` must be 1 or more and `step` above 0, got {self.steps} and {self.step}."
            )

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        trained: dict[str, nn.Module] = {
            c.site: c.module
            for c in calls(model, batches[0])
            if isinstance(c.module, TRAINED) and "weight" in dict(c.module.named_parameters())
        }
        hidden = [*trained.items()][:-1]  # in the order of calls, but the last
        if not hidden:
            raise Inapplicable(
                "Rank pre-training needs linear or convolution layers before the last, got none "
                "with a plain weight. Take off reparametrisations (weight norm) first, or use "
                "another remedy."
            )
        named = {name: layer for name, layer in hidden if not is_repeated(name)}
        wide = [_doubled(b) for b in batches]
        for layer in named.values():
            if layer.bias is not None:
                nn.init.zeros_(layer.get_parameter("bias"))
        with in_double(model), still(model, weights=False), frozen(model):
            if not self.end_to_end:
                for layer in named.values():
                    self._ascend(model, layer, wide)
                return
            weights = [layer.get_parameter("weight") for layer in named.values()]
            last = list(named.values())[-1:]
            for weight in weights:
                weight.requires_grad_(True)
            optimizer = torch.optim.Adam(weights, lr=self.step, maximize=True)
            for step in range(self.steps):
                H = read_after(model, wide[step % len(wide)], last)
                if H is None:
                    break
                optimizer.zero_grad()
                _ratio(H).backward()
                optimizer.step()
            for weight in weights:
                weight.requires_grad_(False)
                weight.grad = None

    def _ascend(self, model: nn.Module, layer: nn.Module, batches: list[Batch]) -> None:
        weight = layer.get_parameter("weight")
        best, kept = -1.0, weight.detach().clone()
        weight.requires_grad_(True)
        for step in range(self.steps + 1):
            batch = batches[step % len(batches)]
            H = read_after(model, batch, [layer])
            if H is None:  # nothing later depends on it
                break
            ratio = _ratio(H)
            if float(ratio.detach()) > best or len(batches) > 1:
                best, kept = float(ratio.detach()), weight.detach().clone()
            try:
                (gradient,) = torch.autograd.grad(ratio, weight)
            except RuntimeError as error:
                words = " ".join(str(error).split())[:120]
                raise Inapplicable(
                    f"Pre-training needs a gradient; autograd says: {words}"
                ) from error
            size = float(gradient.norm())
            if not 0 < size < float("inf") or step == self.steps:
                break
            scale = float(weight.detach().norm()) / size if self.relative else 1.0
            weight.data.add_(gradient, alpha=self.step * scale)
        weight.data.copy_(kept)
        weight.requires_grad_(False)
        # unit mean square of what is read after it, if that is all that a scale changes
        H = read_after(model, batches[0], [layer], always=True)
        size = 0.0 if H is None else float(H.square().mean().sqrt())
        if 0 < size < float("inf"):
            weight.data.div_(size)
            H = read_after(model, batches[0], [layer], always=True)
            if H is None or abs(float(H.square().mean()) - 1) > HOMOGENEOUS:
                weight.data.copy_(kept)


@contextmanager
def in_double(model: nn.Module) -> Iterator[None]:
    """The model in float64 inside; afterwards every tensor has its own format again."""
    kinds = [
        (module, name, t.dtype)
        for module in model.modules()
        for owned in (module.named_parameters, module.named_buffers)
        for name, t in owned(recurse=False)
    ]
    model.double()
    try:
        yield
    finally:
        for module, name, kind in kinds:
            t = getattr(module, name)
            if isinstance(t, nn.Parameter):
                t.data = t.data.to(kind)
            else:
                setattr(module, name, t.to(kind))


def read_after(
    model: nn.Module, batch: Batch, after: list[nn.Module], *, always: bool = False
) -> Tensor | None:
    """What the first layer that depends on those in `after` reads; the pass stops there.

    Args:
        model: Only the weights of interest ask for a gradient.
        batch: All samples.
        after: The layers; the dependence is seen by the gradient that flows from their weights.
        always: Take the next layer that is called, without a look at gradients.

    Returns:
        One row for each sample, flattened; None if no later layer depends on them.
    """
    ready: list[bool] = []

    def written(*_: object) -> None:
        ready.append(True)

    def reads(_: nn.Module, arguments: tuple[object, ...]) -> None:
        first = next((a for a in arguments if isinstance(a, Tensor)), None)
        counts = first is not None and first.is_floating_point()
        if ready and first is not None and counts and (always or first.requires_grad):
            raise Reached(first)

    hooks = [layer.register_forward_pre_hook(reads) for layer in layers(model).values()]
    hooks += [layer.register_forward_hook(written) for layer in after]
    try:
        with torch.set_grad_enabled(not always):
            run(model, batch)
    except Reached as found:
        return found.read.flatten(1)
    finally:
        for hook in hooks:
            hook.remove()
    return None


def _ratio(H: Tensor) -> Tensor:
    """Participation ratio of rows, from the smaller of the two Gram matrices."""
    A = H / H.detach().norm().clamp_min(torch.finfo(H.dtype).tiny)
    K = A @ A.mT if len(A) <= A.shape[1] else A.mT @ A
    return K.diagonal().sum().square() / K.square().sum()


def _doubled(batch: Batch) -> Batch:
    if isinstance(batch, Tensor):
        return batch.double() if batch.is_floating_point() else batch
    if isinstance(batch, tuple | list):
        return tuple(_doubled(b) if isinstance(b, Tensor) else b for b in batch)
    return {k: _doubled(v) if isinstance(v, Tensor) else v for k, v in batch.items()}
