"""Parameters and buffers moved for a while."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

Direction = Mapping[str, Tensor]


@contextmanager
def moved(model: nn.Module, displacement: Direction) -> Iterator[None]:
    """Parameters and buffers displaced while the block runs; afterwards their own storage again.

    The data are exchanged, not changed in place, which tapes elsewhere would notice.
    """
    owned = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    before = {name: owned[name].data for name in displacement}
    try:
        for name, step in displacement.items():
            owned[name].data = before[name] + step.to(before[name])
        yield
    finally:
        for name, data in before.items():
            owned[name].data = data
