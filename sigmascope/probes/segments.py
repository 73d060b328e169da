"""A part of a network as a function of one sample, on the autograd tape."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from sigmascope.linalg import Operator
from sigmascope.probes.batches import as_tensor, call
from sigmascope.probes.kinks import Kink, watching
from sigmascope.probes.refusals import Refusal, require_model
from sigmascope.probes.stillness import still, uses_batch_statistics
from sigmascope.probes.twice import pushforward

DENSE = 2**22  # entries of a matrix that is written out
CHUNK = 256  # gradients taken at once

Segment = tuple[Tensor, Tensor, list[Kink]]


@contextmanager
def segment(model: nn.Module, x: Tensor, start: str | None, stop: str | None) -> Iterator[Segment]:
    """The input of one module and the output of another, on the autograd tape."""
    require_model(model)
    mixing = [name for name, m in model.named_modules() if uses_batch_statistics(m)]
    if mixing:
        raise Refusal(
            f"Batch normalisation must use its running statistics, got `{mixing[0]}`, which takes "
            "those of the batch. Call `model.eval()` first, or give it running statistics."
        )
    if x.ndim < 2 or len(x) != 1:
        raise Refusal(
            f"`x` must be one sample with its batch dimension, got shape {tuple(x.shape)}. Take "
            "`x[:1]`."
        )
    like = next(model.parameters())
    z = x.detach().to(like.device, like.dtype).clone().requires_grad_(start is None)
    found: dict[str, Tensor] = {}
    with still(model), torch.enable_grad(), ExitStack() as hooks:
        if start is not None:
            enter = _keep(found, "start")
            hooks.callback(_named(model, start).register_forward_pre_hook(enter).remove)
        if stop is not None:
            leave = _note(found, "stop")
            hooks.callback(_named(model, stop).register_forward_hook(leave).remove)
        with sdpa_kernel(SDPBackend.MATH), watching() as kinks:  # fused: no second derivative
            whole = as_tensor(call(model, z))[0]
        if start is not None and "start" not in found:
            raise Refusal(f"`start` must be called on this sample, got {start!r}, which is not.")
        if stop is not None and "stop" not in found:
            raise Refusal(f"`stop` must be called on this sample, got {stop!r}, which is not.")
        z, out = found.get("start", z), found.get("stop", whole)
        if not out.requires_grad or not _depends(out, z):
            raise Refusal("The output must depend on the input, got one that does not.")
        yield z, out, [k for k in kinks if k.heights.requires_grad and _depends(k.heights, z)]


def _keep(found: dict[str, Tensor], name: str) -> Callable[..., tuple[Tensor, ...] | None]:
    def enter(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        if name in found:
            return None
        found[name] = args[0].detach().requires_grad_()
        return (found[name], *args[1:])

    return enter


def _note(found: dict[str, Tensor], name: str) -> Callable[..., None]:
    def leave(_: nn.Module, __: tuple[Tensor, ...], output: Any) -> None:
        found.setdefault(name, as_tensor(output)[0])

    return leave


def _named(model: nn.Module, name: str) -> nn.Module:
    modules = dict(model.named_modules())
    if name not in modules:
        known = ", ".join(list(modules)[1:13])
        raise Refusal(f"There is no module {name!r}; there are {known}.")
    return modules[name]


def _depends(out: Tensor, z: Tensor) -> bool:
    (grad,) = torch.autograd.grad(out.sum(), z, retain_graph=True, allow_unused=True)
    return grad is not None


def linear(z: Tensor, out: Tensor) -> Operator:
    """The derivative of `out` by `z` as an operator; it holds on to the graph if it is large."""
    m, n = out.numel(), z.numel()
    flat = out.flatten()
    if m * n <= DENSE:
        eye = torch.eye(m, dtype=out.dtype, device=out.device)
        return Operator.of(torch.cat([pulled(flat, z, part) for part in eye.split(CHUNK)]))
    return Operator(
        (m, n),
        lambda v: pushed(flat, z, v.mT).mT,
        lambda y: pulled(flat, z, y.mT).mT,
        out.detach(),
    )


def pulled(flat: Tensor, z: Tensor, rows: Float[Tensor, "k m"]) -> Float[Tensor, "k n"]:
    """`Jᵀ y` for every row."""
    grads = [
        torch.autograd.grad(flat, z, row, retain_graph=True, allow_unused=True)[0] for row in rows
    ]
    return torch.stack([torch.zeros_like(z) if g is None else g for g in grads]).flatten(1)


def pushed(flat: Tensor, z: Tensor, rows: Float[Tensor, "k n"]) -> Float[Tensor, "k m"]:
    """`J v` for every row, as the derivative of `Jᵀ u` by `u`."""
    push = pushforward(flat, [z])
    found = [push([row.reshape(z.shape)]) for row in rows]
    return torch.stack([torch.zeros_like(flat) if f is None else f for f in found])
