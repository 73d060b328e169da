"""Drawing from a generator where code only knows torch's global one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def lent(generator: torch.Generator | None) -> Iterator[None]:
    """Let torch's global CPU generator continue from `generator` while the block runs.

    Without a generator nothing is done. The global state is put back as it was, and `generator`
    has moved on by one draw.
    """
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # this one alone: no other device's
        yield
