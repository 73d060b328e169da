"""Where a network bends: activations made of straight pieces, as they are called."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True, slots=True)
class Kink:
    """One call of an activation with kinks.

    Attributes:
        name: Of the function.
        side: Which piece every entry is on.
        heights: Zero where an entry changes its piece, on the autograd tape.
        known: Whether the heights are; if not, they are what went in.
        windows: What each window of max-pooling chooses from, by sample; heights are then
            those of the other entries below the winner.
    """

    name: str
    side: Tensor
    heights: Tensor
    known: bool = True
    windows: Tensor | None = None


@contextmanager
def watching() -> Iterator[list[Kink]]:
    """The kinks of every function that is called while the block runs."""
    watch = _Watch()
    with watch:
        yield watch.seen


class _Watch(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Kink] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        of = KINKS.get(name)
        if of is None or not args or not _tracked(args[0]):
            return func(*args, **kwargs)
        before = args[0].clone()  # the function may work in place
        out = func(*args, **kwargs)
        self.seen.append(of(name, before, *args[1:], **kwargs))
        return out


def _tracked(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad and x.is_floating_point()


def _at_zero(name: str, x: Tensor, *_: Any, **__: Any) -> Kink:
    return Kink(name, (x > 0).to(torch.int8), x)


def _between(name: str, x: Tensor, low: Any, high: Any) -> Kink:
    ends = [e for e in (low, high) if e is not None]
    side = sum(((x > e).to(torch.int8) for e in ends), torch.zeros_like(x, dtype=torch.int8))
    return Kink(name, side, torch.stack([x - e for e in ends], dim=-1))


def _hardtanh(
    name: str, x: Tensor, min_val: float = -1.0, max_val: float = 1.0, *_: Any, **__: Any
) -> Kink:
    return _between(name, x, min_val, max_val)


def _relu6(name: str, x: Tensor, *_: Any, **__: Any) -> Kink:
    return _between(name, x, 0.0, 6.0)


def _clamp(name: str, x: Tensor, min: Any = None, max: Any = None) -> Kink:
    return _between(name, x, min, max)


def _clamp_min(name: str, x: Tensor, min: Any) -> Kink:
    return _between(name, x, min, None)


def _clamp_max(name: str, x: Tensor, max: Any) -> Kink:
    return _between(name, x, None, max)


def _threshold(name: str, x: Tensor, threshold: float, *_: Any, **__: Any) -> Kink:
    return _between(name, x, threshold, None)


def _max_pool2d(
    name: str,
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *_: Any,
    **__: Any,
) -> Kink:
    """Each window's winner, and how far the others are behind it."""
    if ceil_mode:
        return _unknown(name, x)
    both = lambda v: (v, v) if isinstance(v, int) else tuple(v)
    k, d, p = both(kernel_size), both(dilation), both(padding)
    s = both(stride or kernel_size)
    grid = x if x.ndim == 4 else x[None]
    padded = F.pad(grid, (p[1], p[1], p[0], p[0]), value=-torch.inf)
    windows = padded
    for dim, (size, step, apart) in enumerate(zip(k, s, d, strict=True), start=2):
        windows = windows.unfold(dim, (size - 1) * apart + 1, step)[..., ::apart]
    windows = windows.flatten(-2)
    winner = windows.detach().argmax(-1, keepdim=True)
    behind = windows.gather(-1, winner) - windows
    others = torch.ones_like(behind, dtype=torch.bool).scatter_(-1, winner, value=False)
    kept = behind[others & behind.detach().isfinite()]
    return Kink(name, winner[..., 0].to(torch.int8), kept, windows=windows)


def _unknown(name: str, x: Tensor, *_: Any, **__: Any) -> Kink:
    return Kink(name, (x > 0).to(torch.int8), x, known=False)


KINKS: dict[str, Callable[..., Kink]] = {
    "relu": _at_zero,
    "leaky_relu": _at_zero,
    "prelu": _at_zero,
    "rrelu": _at_zero,
    "abs": _at_zero,
    "hardtanh": _hardtanh,
    "relu6": _relu6,
    "clamp": _clamp,
    "clamp_min": _clamp_min,
    "clamp_max": _clamp_max,
    "threshold": _threshold,
    "max_pool2d": _max_pool2d,
    **dict.fromkeys(
        (
            "amax",
            "amin",
            "max",
            "min",
            "maximum",
            "minimum",
            "max_pool1d",
            "max_pool3d",
            "adaptive_max_pool1d",
            "adaptive_max_pool2d",
            "adaptive_max_pool3d",
            "hardshrink",
            "softshrink",
            "where",
            "sort",
            "topk",
        ),
        _unknown,
    ),
}
