"""Drawing from a generator where code only knows torch's global one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sigmascope.guard import random_states


@contextmanager
def lent(generator: torch.Generator | None) -> Iterator[None]:
    """Let torch's global generators continue from `generator` while the block runs.

    Without a generator nothing is done. Their states are put back as they were, and `generator`
    has moved on by one draw.
    """
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator))
    with random_states(seed):
        yield
