"""What is called for every operation, without loading the compiler for it."""

import sys
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

COMPILER = "torch._dynamo"


class DispatchMode(TorchDispatchMode):
    """A dispatch mode that leaves torch's compiler unloaded until somebody compiles.

    Of every mode, torch has `__torch_dispatch__` wrapped so that the compiler passes it by, and the
    wrapper imports the compiler at the first operation: half of what a small profile takes, and
    100 MB. Where it was never imported there is nothing that would have to pass by.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guarded = cls.__dict__.get("__torch_dispatch__")
        bare = getattr(guarded, "__wrapped__", None)
        if guarded is None or bare is None:  # before torch 2.8 nothing is wrapped
            return

        def dispatched(mode: Any, *call: Any) -> object:
            return (guarded if COMPILER in sys.modules else bare)(mode, *call)

        setattr(cls, "__torch_dispatch__", dispatched)  # noqa: B010 (stubs know one signature)
