"""Losses that take all that a model gives, a mapping or a tuple, where one tensor is studied.

Such a loss is called with a stand-in for the whole, which answers for the studied tensor alone.
A loss that asks for anything else says so: there is then more to the output than one tensor.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from sigmascope.gate import Refusal, random_states
from sigmascope.probes.samples import Loss, as_tensor


def of_studied(loss: Loss, whole: Any, targets: Any) -> Loss:
    """A loss of the studied tensor, from one that may be of the whole output.

    Args:
        loss: As the user gave it.
        whole: What the model gives.
        targets: What the loss compares it with.

    Returns:
        The loss as it is where it takes the tensor, or where it takes neither; else one that hands
        it the whole.
    """
    if isinstance(whole, Tensor):
        return loss
    tensor = as_tensor(whole)[0]

    def of_whole(output: Tensor, targets: Any) -> Tensor:
        return loss(_stand_in(whole, tensor, output), targets)

    of_whole.__name__ = getattr(loss, "__name__", type(loss).__name__)
    if _raises(loss, tensor, targets) is None:
        return loss
    failed = _raises(of_whole, tensor, targets)
    return of_whole if failed is None or isinstance(failed, Refusal) else loss


def _raises(loss: Loss, output: Tensor, targets: Any) -> Exception | None:
    try:
        with torch.no_grad(), random_states():
            loss(output.clone(), targets)
    except Exception as error:  # noqa: BLE001 (a loss raises anything of what it does not take)
        return error
    return None


def _stand_in(whole: Any, tensor: Tensor, output: Tensor) -> Any:
    if isinstance(whole, Mapping):
        return _Mapping({k: output if v is tensor else _asked(k) for k, v in whole.items()})
    names = getattr(whole, "_fields", ())  # of a named tuple
    asked = names or range(len(whole))
    parts = [output if part is tensor else _asked(n) for n, part in zip(asked, whole, strict=True)]
    return _Sequence(parts, names)


def _asked(name: Any) -> Refusal:
    return Refusal(
        f"The loss reads `{name}` of the output, and one tensor of it is studied here. Pass a loss "
        "of that tensor, or let the model return it alone."
    )


def _given(part: Any) -> Any:
    if isinstance(part, Refusal):
        raise part
    return part


class _Mapping(Mapping[str, Any]):
    """Answers by key and by attribute, as the outputs of Hugging Face do."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = parts

    def __getitem__(self, key: Any) -> Any:
        by = [*self._parts][key] if isinstance(key, int) else key
        return _given(self._parts[by])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._parts:
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


class _Sequence:
    """Answers by number and name; taken apart, its other parts raise when they are used."""

    def __init__(self, parts: list[Any], names: tuple[str, ...]) -> None:
        self._parts, self._names = parts, names

    def __getitem__(self, number: int) -> Any:
        return _given(self._parts[number])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._names:
            raise AttributeError(name)
        return self[self._names.index(name)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)
