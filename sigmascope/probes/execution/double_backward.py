"""What autograd needs to differentiate a model a second time, and rightly."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from sigmascope.probes.execution.freeze import still, uses_batch_statistics
from sigmascope.probes.execution.refusals import explaining

Parts = Sequence[Tensor | None]  # of a vector, one for each tensor; None for zeros


@contextmanager
def differentiable_twice(model: nn.Module) -> Iterator[None]:
    """Hold a model still on a tape that can be differentiated again, also after the block.

    Raises:
        Refusal: If autograd cannot, with its words.
    """
    with tape_kept(model), along_the_tape(), _ByHand():
        yield


@contextmanager
def tape_kept(model: nn.Module) -> Iterator[None]:
    """Hold a model still, parts of which may be computed again for a tape that there is."""
    with still(model):
        for module in model.modules():
            if uses_batch_statistics(module):
                # updated in place otherwise, which would spoil the tape that refers to them
                module._buffers.update(dict.fromkeys(("running_mean", "running_var")))
        yield


@contextmanager
def along_the_tape() -> Iterator[None]:
    """Differentiate, by kernels that can be differentiated again.

    Raises:
        Refusal: If autograd cannot, with its words.
    """
    with explaining(), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        yield


def pushforward(
    outputs: Tensor, inputs: Sequence[Tensor]
) -> Callable[[Sequence[Tensor]], Tensor | None]:
    """`J v`, `J` the derivative of the outputs by the inputs, as that of `Jᵀ u` by `u`.

    None where `Jᵀ` depends on nothing.
    """
    u = torch.zeros_like(outputs, requires_grad=True)
    with torch.enable_grad():
        pulled = torch.autograd.grad(outputs, inputs, u, create_graph=True, allow_unused=True)
    return lambda v: again(pulled, [u], v)[0]


def again(slopes: Parts, by: Sequence[Tensor], cotangents: Sequence[Tensor]) -> Parts:
    """The derivative of `Σ ⟨slope, cotangent⟩`, where slopes still depend on anything."""
    there = [
        (s, c) for s, c in zip(slopes, cotangents, strict=True) if s is not None and s.requires_grad
    ]
    if not there:
        return [None] * len(by)
    found, given = zip(*there, strict=True)
    return torch.autograd.grad(found, by, given, retain_graph=True, allow_unused=True)


def joined(parts: Parts, like: Sequence[Tensor]) -> Float[Tensor, " n"]:
    """The parts as one vector, with zeros for those that are not there."""
    pairs = zip(parts, like, strict=True)
    return torch.cat(
        [(torch.zeros_like(p) if g is None else _dense(g)).reshape(-1) for g, p in pairs]
    )


def _dense(g: Tensor) -> Tensor:
    """Still on the tape."""
    return g if g.layout == torch.strided else g.to_dense()


class _ByHand(TorchFunctionMode):
    """Weight normalisation from its parts: its fused form has a wrong second derivative on CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") == "_weight_norm":
            v, g, dim = (*args, *(kwargs or {}).values())
            return v * (g / torch.norm_except_dim(v, 2, dim))
        return func(*args, **(kwargs or {}))
