"""Random states of torch: of the CPU, and of an accelerator that was started."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def random_states(seed: int | None = None) -> Iterator[None]:
    """Leave torch's random states behind the block as they were before it, on every device.

    Args:
        seed: Of all of them inside of the block; they go on from where they are without one.
    """
    import torch  # this room is loaded before `--help` is shown, and does not wait for it

    kind, devices = _started()
    with torch.random.fork_rng(devices=devices, device_type=kind):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if devices:
                torch.get_device_module(kind).manual_seed_all(seed)
        yield


class DrawnNumbers:
    """True where torch, NumPy or Python drew random numbers since this was made."""

    def __init__(self) -> None:
        self._before = self._now()

    def __bool__(self) -> bool:
        return self._before != self._now()

    @staticmethod
    def _now() -> list[Any]:
        import numpy as np
        import torch

        kind, devices = _started()
        module = torch.get_device_module(kind) if devices else None
        own = [torch.get_rng_state(), *(module.get_rng_state(d) for d in devices if module)]
        _, key, *rest = np.random.get_state()
        return [
            [t.numpy().tobytes() for t in own],
            np.asarray(key).tobytes(),
            rest,
            random.getstate(),
        ]


def _started() -> tuple[str, list[int]]:
    """The accelerator and its devices; none where nothing was drawn there yet."""
    import torch

    found = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else None
    kind = "cuda" if found is None else found.type  # before torch 2.6 the only one that is known
    module = getattr(torch, kind)
    if getattr(module, "is_initialized", module.is_available)():
        return kind, list(range(module.device_count()))
    return kind, []
