"""Gradients that are taken as each is made, and let go of before the next.

Gradients of all parameters take as much memory as the parameters, and are all held at once by what
autograd returns. A hook on each sees it as soon as it is whole, and hands on zeros that take no
memory. The invariant: only the pass made here is listened to, not one that another thread makes of
the same parameters meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from sigmascope.gate import trim

P = TypeVar("P", bound=Tensor)
Take = Callable[[P, Tensor], None]


def backward(
    value: Tensor,
    seed: Tensor | None,
    parameters: Sequence[P],
    take: Take[P],
    *,
    others: Sequence[Tensor] = (),
    again: bool = False,
    large: int | None = None,
    parts: bool = False,
) -> tuple[Tensor | None, ...]:
    """One pass back from a value.

    Args:
        value: What is differentiated; anything that requires a gradient.
        seed: Its gradient; None for a number.
        parameters: By these; each once.
        take: Is given every one that has a gradient, and the gradient, which it must not keep
            unless it copies it, nor change.
        others: By these too.
        again: Whether the tape is kept.
        large: Bytes from which what several uses of one parameter add to its gradient is added up
            here, in place: autograd holds three tensors of its size for that.
        parts: Whether `take` is given what each use of these adds, one after the other, instead.

    Returns:
        Gradients by the others; None where the value ignores them.
    """
    sources = [*others, *parameters]
    if not value.requires_grad:  # which autograd says in its words
        return torch.autograd.grad(value, sources, seed, allow_unused=True)
    with torch.enable_grad():
        root = value.view_as(value)  # ours alone: it tells this pass from others
    with ExitStack() as undo:
        listened = _Pass(take, parts=parts)
        undo.callback(root.register_hook(listened.begin).remove)
        streamed = [p for p in parameters if type(p) in (Tensor, nn.Parameter)]
        for p in streamed:
            undo.enter_context(_hooked(p, partial(listened.gradient, p)))
        some = [p for p in streamed if large is not None and p.numel() * p.itemsize >= large]
        for node, uses in listened.several(root, some):
            undo.callback(node.register_hook(partial(listened.part, uses)).remove)
        if some:  # blocks that the way forward has freed are too small for them
            trim()
        grads = torch.autograd.grad(root, sources, seed, retain_graph=again, allow_unused=True)
    listened.end()
    for p, grad in zip(parameters, grads[len(others) :], strict=True):
        if grad is not None and id(p) not in listened.taken:
            take(p, grad)
    return grads[: len(others)]


class _Pass:
    """One pass back, while it is made."""

    def __init__(self, take: Take[Any], *, parts: bool) -> None:
        self._take, self._parts, self._task = take, parts, -1
        self.taken: set[int] = set()
        self._left: dict[int, int] = {}  # uses that have not added their part
        self._sums: dict[Tensor, Tensor] = {}

    @property
    def _ours(self) -> bool:
        return torch._C._current_graph_task_id() == self._task

    def begin(self, _: Tensor) -> None:
        self._task = torch._C._current_graph_task_id()

    def gradient(self, p: Tensor, grad: Tensor | None) -> Tensor | None:
        """Of one parameter, whole, unless its parts were taken; what autograd goes on with."""
        if not self._ours or type(grad) is not Tensor or grad.layout != torch.strided:
            return None
        self.taken.add(id(p))
        self._take(p, grad)
        return grad.new_zeros(()).expand_as(grad)

    def several(
        self, root: Tensor, parameters: Sequence[Tensor]
    ) -> list[tuple[Any, dict[int, Tensor]]]:
        """The operations that read parameters which several read, with these by their places.

        Not of parameters with hooks of the user's, who are to see the sum.
        """
        own = {id(p): p for p in parameters if len(p._backward_hooks or ()) < 2}  # one is ours
        found = _uses(root, own) if own else []
        self._left = dict.fromkeys(own, 0)
        for p in (p for _, uses in found for p in uses.values()):
            self._left[id(p)] += 1
        kept = [(n, {k: p for k, p in uses.items() if self._left[id(p)] > 1}) for n, uses in found]
        return [(node, uses) for node, uses in kept if uses]

    def part(
        self, uses: dict[int, Tensor], grads: tuple[Any, ...], _: tuple[Any, ...]
    ) -> tuple[Any, ...] | None:
        """What one operation adds to gradients; of those that are taken it adds nothing."""
        if not self._ours:
            return None
        left = [*grads]
        for place, p in uses.items():
            grad = left[place]
            if isinstance(grad, Tensor):
                self.taken.add(id(p))
                # a sum of sparse and dense ones is dense
                self._add(p, grad if grad.layout == torch.strided else grad.to_dense())
                left[place] = None
        return tuple(left)

    def _add(self, p: Tensor, grad: Tensor) -> None:
        self._left[id(p)] -= 1
        if self._parts:
            self._take(p, grad)
        elif p not in self._sums:
            self._sums[p] = grad.clone()  # autograd may give one tensor twice
        else:
            self._sums[p] += grad
            if not self._left[id(p)]:
                self._take(p, self._sums.pop(p))

    def end(self) -> None:
        """Sums to which some uses had nothing to add."""
        while self._sums:
            self._take(*self._sums.popitem())


@contextmanager
def _hooked(p: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Iterator[None]:
    none = p._backward_hooks is None
    handle = p.register_hook(hook)
    try:
        yield
    finally:
        handle.remove()
        if none and not p._backward_hooks:
            p._backward_hooks = None


def _uses(root: Tensor, own: dict[int, Tensor]) -> list[tuple[Any, dict[int, Tensor]]]:
    """The operations of a graph that read some parameters, with these by their places."""
    found: list[tuple[Any, dict[int, Tensor]]] = []
    left: list[Any] = [root.grad_fn]
    seen = {*left}
    while left:
        node = left.pop()
        uses = {}
        for place, (after, _) in enumerate(node.next_functions):
            p = own.get(id(getattr(after, "variable", None)))
            if p is not None:
                uses[place] = p
            elif after is not None and after not in seen:
                seen.add(after)
                left.append(after)
        if uses:
            found.append((node, uses))
    return found
