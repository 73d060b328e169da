"""A part of a network as a function of one sample, on the autograd tape."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from sigmascope.gate import Refusal
from sigmascope.linalg.krylov import Operator
from sigmascope.probes.execution.copying import duplicate
from sigmascope.probes.execution.double_backward import pushforward
from sigmascope.probes.execution.freeze import still, uses_batch_statistics
from sigmascope.probes.execution.refusals import called, explaining, require_model
from sigmascope.probes.piecewise_affine.autograd_nodes import between, handwritten
from sigmascope.probes.piecewise_affine.breakpoints import Kink
from sigmascope.probes.piecewise_affine.dispatch_trace import HELD, Trace, tracing
from sigmascope.probes.samples.batches import as_tensor

DENSE = 2**22  # entries of a matrix that is written out
CHUNK = 256  # gradients taken at once


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a network at one sample, on the autograd tape.

    Attributes:
        z: What goes in.
        out: What comes out.
        kinks: Where it bends or jumps in between, in the order of calls.
        why: What keeps it from being piecewise affine, by name; empty if nothing does.
        cut: What depends on the input behind the back of autograd; empty if nothing does.
        own: A function with a derivative of its own, which may be another's; empty if none.
        branches: Whether Python has read a Boolean that depends on the input.
        eps: Rounding of the least precise numbers.
        size: The largest of them.
    """

    z: Tensor
    out: Tensor
    kinks: list[Kink]
    why: str
    cut: str
    own: str
    branches: bool
    eps: float
    size: float

    @property
    def noise(self) -> float:
        """What rounding may change in any of its numbers."""
        return ROUNDINGS * self.eps * self.size


# The error of a sum of n products is at most n eps of their sizes, near sqrt(n) eps in practice; a
# thousand allows for layers with a million inputs, or for a hundred layers with ten thousand each.
ROUNDINGS = 1000


@contextmanager
def segment(
    model: nn.Module,
    x: Tensor,
    start: str | None = None,
    stop: str | None = None,
    at: Tensor | None = None,
) -> Iterator[Segment]:
    """The input of one module and the output of another, on the autograd tape.

    Args:
        model: Left as it was found.
        x: One sample, with its batch dimension.
        start: A module whose input is what goes in; the model's by default.
        stop: A module whose output is what comes out; the model's by default.
        at: What goes in instead of what the sample would give.
    """
    if at is None:
        _require_one_sample(model, x)
    like = next((p for p in model.parameters() if p.is_floating_point()), x)
    first = x if start is not None or at is None else at
    z = first.detach().to(like.device, like.dtype).clone().requires_grad_(start is None)
    found: dict[str, Tensor] = {}
    with still(model), torch.enable_grad(), ExitStack() as hooks:
        # fused attention has no second derivative
        with sdpa_kernel(SDPBackend.MATH), tracing() as trace:
            if start is not None:
                enter = _keep(found, trace, at)
                hooks.callback(_named(model, start).register_forward_pre_hook(enter).remove)
            else:
                trace.source(z)
            if stop is not None:
                leave = _note(found)
                hooks.callback(_named(model, stop).register_forward_hook(leave).remove)
            whole = as_tensor(called(model, z.clone()))[0]  # the model may work in place
        _require_called(found, start=start, stop=stop)
        z, out = found.get("start", z), found.get("stop", whole)
        yield _followed(z, out, trace)


def _require_called(found: dict[str, Tensor], **ends: str | None) -> None:
    for what, which in ends.items():
        if which is not None and what not in found:
            raise Refusal(
                f"`{what}` must be called on this sample, got {which!r}, which is not. Name "
                "another module."
            )


def _followed(z: Tensor, out: Tensor, trace: Trace) -> Segment:
    steps = trace.behind(out)
    if steps is None:
        raise Refusal(
            "The output must depend on the input, got one that does not. Pass the module whose "
            "output does."
        )
    why = next((s.why for s in steps if s.why and not s.cut), "")
    cut = next((s.why for s in steps if s.cut), "")
    found = [s.kink for s in steps if s.kink is not None]
    nodes = between([out.grad_fn, *(k.heights.grad_fn for k in found)], z)
    if out.grad_fn not in nodes and out is not z:
        if not trace.constant(out):
            cut = cut or f"an output that is cut off from the derivative ({HELD})"
        out = out + 0 * z.sum().to(out)
    # one that does not depend on the input by the tape, whatever its name, never changes its side
    kinks = [k for k in found if not k.known or k.heights.grad_fn in nodes]
    written = handwritten(nodes)
    if between(trace.strangers, z):
        cut = cut or "something that is computed out of sight (in another thread)"
    own = f"`{written}`, a function with a derivative of its own" if written else ""
    return Segment(
        z, out, kinks, why or own or cut, cut, own, bool(trace.read), trace.eps, trace.size
    )


def _require_one_sample(model: nn.Module, x: Tensor) -> None:
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


def _keep(
    found: dict[str, Tensor], trace: Trace, at: Tensor | None
) -> Callable[..., tuple[Tensor, ...] | None]:
    def enter(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if "start" in found:
            return None
        if not args or not isinstance(args[0], Tensor) or not args[0].is_floating_point():
            raise Refusal(
                "`start` must be a module that reads a floating tensor first, got one that reads "
                f"{type(args[0]).__name__ if args else 'keywords only'}. Name another module."
            )
        given = args[0] if at is None else at.to(args[0])
        # storage of its own: what went before may be read elsewhere
        found["start"] = given.detach().clone().requires_grad_()
        trace.source(found["start"])
        return (found["start"].clone(), *args[1:])

    return enter


def _note(found: dict[str, Tensor]) -> Callable[..., None]:
    def leave(_: nn.Module, __: tuple[Tensor, ...], output: Any) -> None:
        if "stop" not in found:
            found["stop"] = as_tensor(output)[0].clone()  # what follows may work in place

    return leave


def widened(model: nn.Module, x: Tensor) -> nn.Module:
    """The model in float64, or as it is where it does not run so.

    Which side of a kink a unit is on is lost in the rounding of float32 for every sample that is
    near one, and in a network with a million units every sample is.
    """
    kinds = {t.dtype for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()}
    if kinds <= {torch.float64}:
        return model
    try:
        wide = duplicate(model).double()
        with still(wide), torch.no_grad():
            called(wide, x.detach().double().to(next(wide.parameters()).device))
    except (Refusal, RuntimeError, TypeError, ValueError, AttributeError):
        return model  # it cannot be copied, or casts by itself; it is then taken as it is
    return wide


def _named(model: nn.Module, name: str) -> nn.Module:
    modules = dict(model.named_modules())
    if name not in modules:
        known = ", ".join(list(modules)[1:13])
        raise Refusal(f"There is no module {name!r}; there are {known}.")
    return modules[name]


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
    with explaining():
        grads = [
            torch.autograd.grad(flat, z, row, retain_graph=True, allow_unused=True)[0]
            for row in rows
        ]
    return torch.stack([torch.zeros_like(z) if g is None else g for g in grads]).flatten(1)


def pushed(flat: Tensor, z: Tensor, rows: Float[Tensor, "k n"]) -> Float[Tensor, "k m"]:
    """`J v` for every row, as the derivative of `Jᵀ u` by `u`."""
    with explaining():
        push = pushforward(flat, [z])
        found = [push([row.reshape(z.shape)]) for row in rows]
    return torch.stack([torch.zeros_like(flat) if f is None else f for f in found])
