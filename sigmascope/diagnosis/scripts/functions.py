"""Functions of a script with a backward pass of their own: whether it is the derivative.

The forward pass of such a function is computed once more on copies in float64, with autograd on,
and what autograd makes of it is set beside what the backward pass makes. Many functions have
another backward pass on purpose: the invariant is that nothing is said of one that leaves what it
is given as it is (a reversed or clipped gradient), nor of numbers whose derivative is zero (a
straight-through or surrogate gradient).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sigmascope.core.guard import random_states
from sigmascope.models.samples import tensors

LARGEST = 1 << 20  # numbers of what a function is given, beyond which it is not asked
ALIKE = 1e-3  # relative difference of two derivatives


class _Context:
    """What a forward pass is given in the place of its context, and keeps things in."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs

    def save_for_backward(self, *_: Any) -> None:
        """Nothing is kept."""

    save_for_forward = mark_dirty = mark_non_differentiable = save_for_backward

    def set_materialize_grads(self, value: bool) -> None:
        """Nothing is passed back through it."""


def forward_of(function: type[torch.autograd.Function], args: Sequence[Any]) -> Any:
    """The forward pass of a function alone, so that autograd derives it.

    Args:
        function: With a backward pass of its own.
        args: That it is applied to.
    """
    if function.setup_context is not torch.autograd.Function.setup_context:
        return function.forward(*args)
    needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
    return function.forward(_Context(needs), *args)


def derivative_gap(
    apply: Any, function: type[torch.autograd.Function], args: Sequence[Any]
) -> float | None:
    """How far the gradient of a hand-written backward pass is from that of the forward pass.

    Args:
        apply: How the function is applied.
        function: With a backward pass of its own.
        args: That it is applied to; they are not changed.

    Returns:
        The largest relative difference, over inputs that take a gradient; None where nothing can
        be told, or where it is another one by design.
    """
    given = [*tensors(args)]
    if sum(t.numel() for t in given) > LARGEST or not any(t.requires_grad for t in given):
        return None
    sides = [_derived(f, args) for f in (apply, lambda *a: forward_of(function, a))]
    own, plain = sides
    if own is None or plain is None:
        return None
    gaps = [0.0]
    for mine, true in zip(own, plain, strict=True):
        there = true != 0
        if bool(there.any()):
            gap = (mine - true)[there].norm() / true[there].norm()
            gaps.append(float(gap) if bool(true.isfinite().all()) else 0.0)
    return max(gaps)


def _derived(function: Any, args: Sequence[Any]) -> list[Tensor] | None:
    """Gradients of what a function makes, along a direction that is the same for all."""
    with torch.enable_grad(), random_states():
        leaves = [
            a.detach().double().requires_grad_(a.requires_grad)
            if isinstance(a, Tensor) and a.is_floating_point()
            else a
            for a in args
        ]
        passed = [a.clone() if isinstance(a, Tensor) else a for a in leaves]
        asked = [a for a in leaves if isinstance(a, Tensor) and a.requires_grad]
        out = [t for t in tensors(function(*passed)) if t.requires_grad]
        as_it_is = any(t.shape == a.shape and torch.equal(t, a) for t in out for a in asked)
        if not out or as_it_is:
            return None
        g = torch.Generator().manual_seed(0)
        draw = partial(torch.randn, generator=g, device="cpu")
        along = [draw(t.shape, dtype=t.dtype).to(t.device) for t in out]
        found = torch.autograd.grad(out, asked, along, allow_unused=True)
    pairs = zip(found, asked, strict=True)
    return [torch.zeros_like(a) if made is None else made for made, a in pairs]
