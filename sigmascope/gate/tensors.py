"""Tensors from outside: a plain array of numbers in memory, or refused by what it is instead."""

from typing import Any

from sigmascope.gate.budgets import require_room
from sigmascope.gate.refusals import Refusal

STRIDED = "torch.strided"  # by name: the command line's help does not wait for torch


def require_dense(tensor: Any, place: str) -> None:
    """Refuse a tensor that is not a plain array of numbers in memory.

    Args:
        tensor: A `torch.Tensor` of any make.
        place: Its name in a refusal.

    Raises:
        Refusal: If it is sparse, nested, quantised, on the meta device or of a kind of number that
            torch cannot turn into float32, or if it declares more than fits the budget of memory.
    """
    kind = ""
    if tensor.is_nested:
        kind = "nested tensor: pad its parts to one shape"
    elif str(tensor.layout) != STRIDED:
        kind = f"tensor of layout {tensor.layout}: pass `tensor.to_dense()`"
    elif tensor.is_quantized:
        kind = "quantised tensor: pass `tensor.dequantize()`"
    elif tensor.is_meta:
        kind = "tensor on the meta device, which holds no numbers: pass a real one"
    elif not _computes(tensor):
        kind = f"tensor of {tensor.dtype}, of which torch computes nothing: pass it as float32"
    if kind:
        raise Refusal(f"{place} must be a dense tensor, got a {kind}.")
    require_room(tensor.numel() * tensor.element_size(), place)


def _computes(tensor: Any) -> bool:
    try:
        one = tensor.new_empty(1)
        return one.is_complex() or one.float().ndim == 1
    except (RuntimeError, NotImplementedError):  # which is how torch says so
        return False
