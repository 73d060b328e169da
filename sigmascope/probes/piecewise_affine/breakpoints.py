"""Where operations made of straight pieces bend or jump."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import enable_reentrant_dispatch

from sigmascope.probes.execution.dispatch_modes import DispatchMode
from sigmascope.probes.piecewise_affine.operations import Arguments


@dataclass(frozen=True, slots=True)
class Kink:
    """One call of an operation with kinks.

    Attributes:
        name: Of the operation.
        side: Which piece every entry is on.
        heights: Zero where an entry changes its piece, on the autograd tape.
        known: Whether the heights are; if not, they are what went in.
        windows: What each window of max-pooling chooses from, by sample; heights are then
            those of the other entries below the winner.
        jumps: Whether the result may jump at the kink, and not only bend.
    """

    name: str
    side: Tensor
    heights: Tensor
    known: bool = True
    windows: Tensor | None = None
    jumps: bool = False


def _kink_of(name: str, call: Arguments) -> Kink | None:
    """The kink of a call that is about to be made; None if the operation has none."""
    if name == "_to_copy" and call.get("dtype") is torch.bool:
        return _compared("bool", {**call, "other": 0})
    if name == "median" and "dim" not in call:  # which of them it was is not told
        return None
    return KINKS[name](name.strip("_"), call) if name in KINKS else None


class _Plain(DispatchMode):
    """Follows nothing; without any mode, what C++ makes has no interpreter to go to."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def kink_on_tape(name: str, given: Arguments) -> Kink | None:
    """The kink of a call with its heights on the tape, from where autograd is off, below itself."""
    with torch.enable_grad(), enable_reentrant_dispatch(), _Plain():
        found = _kink_of(name, given)
    if found is None or found.heights.requires_grad:
        return found
    return Kink(found.name, found.side, found.heights, False, found.windows, found.jumps)


def allowed(call: Arguments, varying: set[str]) -> bool:
    """Whether an operation with kinks is piecewise affine in the arguments that vary."""
    return varying <= MAY_VARY and not call.get("training", False)


def _at_zero(name: str, call: Arguments) -> Kink:
    x = call["self"].clone()  # the operation may work in place
    return Kink(name, (x > 0).to(torch.int8), x)


def _prelu(_: str, call: Arguments) -> Kink:
    return _at_zero("prelu", call)


def _signed(name: str, call: Arguments) -> Kink:
    x = call["self"].clone()
    return Kink(name, x.detach().sign().to(torch.int8), x, jumps=True)


def _between(name: str, x: Tensor, low: Any, high: Any, *, jumps: bool = False) -> Kink:
    gaps = torch.broadcast_tensors(*(x - e for e in (low, high) if e is not None))
    side = sum(((g > 0).to(torch.int8) for g in gaps), torch.zeros_like(gaps[0], dtype=torch.int8))
    return Kink(name, side, torch.stack(gaps, dim=-1), jumps=jumps)


def _hardtanh(name: str, call: Arguments) -> Kink:
    return _between(name, call["self"], call.get("min_val", -1), call.get("max_val", 1))


def _clamp(name: str, call: Arguments) -> Kink:
    return _between(name, call["self"], call.get("min"), call.get("max"))


def _threshold(name: str, call: Arguments) -> Kink:
    level = call["threshold"]
    return _between(name, call["self"], level, None, jumps=level != call["value"])


def _shrink(name: str, call: Arguments) -> Kink:
    end = call.get("lambd", 0.5)
    return _between(name, call["self"], -end, end, jumps=name == "hardshrink")


def _compared(name: str, call: Arguments) -> Kink:
    a, b = call["self"], call["other"]
    gap = (a.to(b) if not a.is_floating_point() else a) - (
        b.to(a) if isinstance(b, Tensor) and not b.is_floating_point() else b
    )
    return Kink(name, gap.detach().sign().to(torch.int8), gap, jumps=True)


def _larger(name: str, call: Arguments) -> Kink:
    gap = call["self"] - call["other"]
    return Kink(name, (gap > 0).to(torch.int8), gap)


def _extreme(name: str, call: Arguments) -> Kink:
    """Largest or smallest over some dimensions."""
    x = call["self"]
    dims = call.get("dim")
    many = list(range(x.ndim)) if dims is None or dims == [] else dims
    places = [many] if isinstance(many, int) else list(many)
    last = list(range(-len(places), 0))
    windows = x.movedim(places, last).flatten(-len(places)) if places else x[..., None]
    lowest = name.removeprefix("arg") in ("min", "amin")
    return _winning(name, -windows if lowest else windows, jumps=name.startswith("arg"))


def _max_pool(name: str, call: Arguments) -> Kink:
    """Each window's winner, and how far the others are behind it."""
    x, size = call["self"], call["kernel_size"]
    dims = 3 if "3d" in name else 2
    each = lambda v: list(v) * dims if len(v) == 1 else list(v)
    kernel, pad = each(size), each(call.get("padding") or [0])
    steps, apart = each(call.get("stride") or kernel), each(call.get("dilation") or [1])
    ceil = bool(call.get("ceil_mode", False))
    windows = x if x.ndim == dims + 2 else x[None]
    for dim, (k, p, s, d) in enumerate(zip(kernel, pad, steps, apart, strict=True), start=2):
        length, reach = windows.shape[dim], (k - 1) * d + 1
        free = length + 2 * p - reach
        count = (free + (s - 1) * ceil) // s + 1
        count -= ceil and (count - 1) * s >= length + p  # a window must not start in the padding
        more = max((count - 1) * s + reach - length - p, p)
        border = [0, 0] * (windows.ndim - dim - 1) + [p, more]
        padded = F.pad(windows, border, value=-torch.inf)
        windows = padded.unfold(dim, reach, s)[..., ::d].narrow(dim, 0, count)
    return _winning(name.removesuffix("_with_indices"), windows.flatten(-dims))


def _winning(name: str, windows: Tensor, *, jumps: bool = False) -> Kink:
    winner = windows.detach().argmax(-1, keepdim=True)
    behind = windows.gather(-1, winner) - windows
    others = torch.ones_like(behind, dtype=torch.bool).scatter_(-1, winner, value=False)
    kept = behind[others & behind.detach().isfinite()]
    return Kink(name, winner[..., 0], kept, windows=windows, jumps=jumps)


def _ordered(name: str, call: Arguments) -> Kink:
    """Whose pieces are known by the places that it returns, their boundaries not."""
    rest = {k: v for k, v in call.items() if k not in ("self", "values", "indices", "out")}
    x = call["self"]
    found = getattr(torch.ops.aten, name)(x.detach(), **rest)
    return Kink(name, found[1], x.clone(), known=False)


def _pooled(name: str, call: Arguments) -> Kink:
    x = call["self"]
    places = getattr(torch.ops.aten, name)(x.detach(), call["output_size"])[1]
    return Kink(name, places, x.clone(), known=False)


Handler = Callable[[str, Arguments], Kink]
COMPARISONS: dict[str, Handler] = dict.fromkeys(("gt", "ge", "lt", "le", "eq", "ne"), _compared)
# whose result is the same throughout each piece
STEPS = frozenset({*COMPARISONS, "sign", "sgn", "argmax", "argmin"})
MAY_VARY = frozenset({"self", "other", "min", "max"})
KINKS: dict[str, Handler] = {
    **COMPARISONS,
    **dict.fromkeys(("relu", "leaky_relu", "abs", "rrelu_with_noise"), _at_zero),
    "_prelu_kernel": _prelu,
    **dict.fromkeys(("sign", "sgn"), _signed),
    "hardtanh": _hardtanh,
    **dict.fromkeys(("clamp", "clamp_min", "clamp_max", "clip"), _clamp),
    "threshold": _threshold,
    **dict.fromkeys(("softshrink", "hardshrink"), _shrink),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), _larger),
    **dict.fromkeys(("amax", "amin", "max", "min", "argmax", "argmin"), _extreme),
    **dict.fromkeys(("max_pool2d_with_indices", "max_pool3d_with_indices"), _max_pool),
    **dict.fromkeys(("sort", "topk", "kthvalue", "median", "cummax", "cummin"), _ordered),
    **dict.fromkeys(("adaptive_max_pool2d", "adaptive_max_pool3d"), _pooled),
}
