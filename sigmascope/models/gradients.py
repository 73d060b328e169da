"""What autograd needs to differentiate a model a second time, and rightly."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from sigmascope.models.layers import called, explaining
from sigmascope.models.samples import Batch
from sigmascope.models.state import still, uses_batch_statistics

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
    # still on the tape
    return torch.cat(
        [
            (
                torch.zeros_like(p)
                if g is None
                else (g if g.layout == torch.strided else g.to_dense())
            ).reshape(-1)
            for g, p in pairs
        ]
    )


class _ByHand(TorchFunctionMode):
    """Weight normalisation from its parts: its fused form has a wrong second derivative on CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") == "_weight_norm":
            v, g, dim = (*args, *(kwargs or {}).values())
            return v * (g / torch.norm_except_dim(v, 2, dim))
        return func(*args, **(kwargs or {}))


# ------------------------------------------------------------------------------
# What dropout takes away while a model trains.


FUNCTIONS = frozenset(
    f"{kind}dropout{dims}" for kind in ("", "feature_") for dims in ("", "1d", "2d", "3d")
)


@dataclass(slots=True)
class Dropped:
    """One place where numbers are dropped.

    Attributes:
        site: The module that is run there.
        before: Numbers that were not zero.
        after: Those of them that are zero then.
    """

    site: str
    before: int
    after: int

    @property
    def share(self) -> float:
        """Of the numbers that were not zero, those that are dropped."""
        return self.after / self.before


class _Watch(TorchFunctionMode):
    """Counts zeros before and after every call of dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = [""]
        self.sums: dict[str, Dropped] = {}
        self.busy = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        x = args[0] if args else kwargs.get("input")
        watched = getattr(func, "__name__", "") in FUNCTIONS and isinstance(x, Tensor)
        if not watched or self.busy or not isinstance(x, Tensor):
            return func(*args, **kwargs)
        there = x != 0
        self.busy = True  # one kind of dropout calls another
        try:
            out = func(*args, **kwargs)
        finally:
            self.busy = False
        if isinstance(out, Tensor) and out.shape == there.shape and bool(there.any()):
            site = self.inside[-1]
            place = self.sums.setdefault(site, Dropped(site, 0, 0))
            place.before += int(there.sum())
            place.after += int((there & (out == 0)).sum())
        return out


@contextmanager
def watching_dropout(model: nn.Module) -> Iterator[dict[str, Dropped]]:
    """What share of the numbers each call of dropout sets to zero, counted in the runs inside.

    Args:
        model: Whose modules name the places; left as it was found.

    Yields:
        By the module in which it happens, in the order of the first call, when the runs are done.
        Dropout inside of fused layers (attention, recurrent ones) cannot be seen.
    """
    watch = _Watch()

    def leave(*_: Any) -> None:
        watch.inside.pop()

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            enter = lambda *_, name=name: watch.inside.append(name)
            hooks.callback(module.register_forward_pre_hook(enter).remove)
            hooks.callback(module.register_forward_hook(leave, always_call=True).remove)
        with watch:
            yield watch.sums


def dropped(model: nn.Module, *batches: Batch) -> tuple[Dropped, ...]:
    """What dropout takes away in training mode.

    Args:
        model: Left as it was found, random states too.
        batches: What it is run on, one after the other.

    Returns:
        As `watching_dropout` has it.

    Cost: one forward pass of each.
    """
    with still(model), torch.no_grad():
        model.train()
        with watching_dropout(model) as places:
            for batch in batches:
                called(model, batch)
    return tuple(places.values())
