"""What becomes of the tensors of a file in a model of other precision."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from sigmascope.checkpoints.arrays import word

SHOWN = 3  # of what does not fit; more would bury the first


def misfits(state: dict[str, Tensor], own: dict[str, Tensor]) -> Iterator[str]:
    """Why tensors cannot go into a model without loss beyond rounding, one clause a tensor.

    Args:
        state: From the file; names and shapes are those of the model.
        own: The model's.
    """
    for name, value in state.items():
        if name in own:
            why = _unlike(value, own[name])
            if why:
                yield f"`{name}` {why}"
    # Names that are one tensor in the model (tied: they share memory) and several in the file, of
    # which the last would win.
    first: dict[tuple[object, ...], str] = {}
    for name in state:
        mine = own.get(name)
        if mine is None or is_lazy(mine) or mine.is_meta or not mine.numel():
            continue
        place = (mine.data_ptr(), mine.shape, mine.stride())
        other = first.setdefault(place, name)
        if other != name and not torch.equal(state[other], state[name]):
            yield (
                f"`{other}` and `{name}` are one tensor in the model and differ in the file: untie "
                "them in the model, or save them tied"
            )


def narrowed(state: dict[str, Tensor], own: dict[str, Tensor]) -> str:
    """How precisely the weights are known, where file and model differ; empty where they do not."""
    kinds: dict[tuple[str, str, bool], list[int]] = {}
    for name, value in state.items():
        mine = own.get(name)
        if mine is None or mine.dtype == value.dtype or not _continuous(value.dtype):
            continue
        flushed = int(((value.to(mine.dtype) == 0) & (value != 0)).sum())
        finer = torch.finfo(value.dtype).eps < torch.finfo(mine.dtype).eps
        kinds.setdefault((word(value.dtype), word(mine.dtype), finer), []).append(flushed)
    said = []
    for (kept, used, finer), counts in kinds.items():
        zeros = f", {sum(counts)} entries to zero" if sum(counts) else ""
        many = f"{len(counts)} tensor{'s' if len(counts) > 1 else ''}"
        how = f"rounded from {kept} to {used}" if finer else f"{kept} in the file, {used} here"
        said.append(f"{many} {how}{zeros}")
    return f" ({'; '.join(said)})" if said else ""


def _unlike(value: Tensor, mine: Tensor) -> str:
    """What a tensor would lose in the kind of number that the model has; or that it has none."""
    if _continuous(value.dtype) and bool(_wide(value).isnan().any()):
        bad = int(_wide(value).isnan().sum())
        return f"has {bad} of {value.numel()} entries that are NaN: take an earlier checkpoint"
    kept, used = word(value.dtype), word(mine.dtype)
    if mine.is_meta and not is_lazy(mine):
        return "is on the meta device in the model: build it on a real one"
    if value.is_complex() and not mine.is_complex():
        return (
            f"is {kept}, the model's {used}, which would lose the imaginary part: build the model "
            "with complex weights, or save the real part"
        )
    if isinstance(mine, nn.Parameter) and _continuous(mine.dtype):
        if not _continuous(value.dtype):
            return (
                f"is {kept}, the model's {used}: codes of quantised weights are no weights. Save "
                "them multiplied by their scale, as floating numbers"
            )
        if bool(_wide(value).isinf().any()):
            return "has entries that are infinite: take an earlier checkpoint"
    if _continuous(mine.dtype) and _continuous(value.dtype):
        if value.dtype == mine.dtype:
            return ""
        # what is lost beyond rounding: overflow, and weights too small for the model's precision
        wide, cast = _wide(value), _wide(value.to(mine.dtype))
        over = int((~cast.isfinite() & wide.isfinite()).sum())
        there = wide[wide.isfinite()]
        size = float(there.abs().max()) if there.numel() else 0.0
        if over:
            return (
                f"is {kept} with {over} of {value.numel()} entries beyond {used} (the largest is "
                f"{size:.3g}): load it into a model of {kept}"
            )
        if size == 0:
            return ""
        lost = float(((cast[wide.isfinite()] - there) / size).norm() / (there / size).norm())
        if lost <= torch.finfo(mine.dtype).eps:
            return ""
        return (
            f"is {kept}, and too small for {used}, which changes it by {lost:.1g} of its size: "
            f"load it into a model of {kept}"
        )
    back = value.to(mine.dtype).to(value.dtype)
    if torch.equal(back, value):
        return ""
    return f"is {kept}, the model's {used}, which cannot hold its values: convert it yourself"


def _continuous(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _wide(value: Tensor) -> Tensor:
    """The same numbers in a precision in which they can be compared."""
    return value.detach().to(torch.complex128 if value.is_complex() else torch.float64)
