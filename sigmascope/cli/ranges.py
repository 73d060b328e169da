"""Ranges of what is said on the command line; what is outside of them is refused by name.

Where a door of the library has a sentence of its own for a number, it says it.
"""

import math
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

LARGEST = 2**31 - 1  # of a whole number; more is no number of anything that fits a machine
FAR = 1e6  # of a strength or a scale, or one over it

Fitting = Annotated[int, Parameter(validator=Number(lte=LARGEST))]  # the door says the rest
Count = Annotated[int, Parameter(validator=Number(gte=1, lte=LARGEST))]
Index = Annotated[int, Parameter(validator=Number(gte=0, lte=LARGEST))]
Step = Annotated[int, Parameter(validator=Number(gte=0, lt=2**63))]
Points = Annotated[int, Parameter(validator=Number(lte=2001))]
Units = Annotated[int, Parameter(validator=Number(gte=2, lte=LARGEST))]
Workers = Annotated[int, Parameter(validator=Number(gte=1, lte=1024))]
Depths = Annotated[list[int] | None, Parameter(consume_multiple=1, validator=Number(lte=10_000))]

Extent = Annotated[float | None, Parameter(validator=Number(gt=0, lte=FAR))]
Gain = Annotated[float, Parameter(validator=Number(gt=0))]  # infinite: no skip connection
Finite = Annotated[float, Parameter(validator=Number(gt=-math.inf, lt=math.inf))]
Chance = Annotated[float, Parameter(validator=Number(gt=0, lt=1))]
Momentum = Annotated[float, Parameter(validator=Number(gte=0, lt=1))]
Above = Annotated[float | None, Parameter(validator=Number(gt=0, lt=math.inf))]
AtLeast = Annotated[float | None, Parameter(validator=Number(gte=0, lt=math.inf))]
Ridges = Annotated[
    list[float] | None, Parameter(consume_multiple=1, validator=Number(gt=0, lt=math.inf))
]
Strengths = Annotated[
    list[float] | None, Parameter(consume_multiple=1, validator=Number(gte=-FAR, lte=FAR))
]

Names = Annotated[list[str] | None, Parameter(consume_multiple=1)]  # one or more


def _require_loss(_: Any, name: str | None) -> None:
    """Refuse a loss that there is not, before anything is read; what a file holds is seen later."""
    if name is not None and ":" not in name:
        from sigmascope.diagnosis import programs

        programs.loss_of(name)


def _require_device(_: Any, name: str | None) -> None:
    """Refuse a device that is not there, before anything is read."""
    import torch

    try:
        torch.zeros(1, device=name).tolist()  # `meta` is one that holds no numbers
    except (RuntimeError, AssertionError, ImportError) as error:  # as torch was built
        raise ValueError(f"There is no device `{name}` here; take {_devices()}.") from error


def _devices() -> str:
    """What models can be measured on, in words."""
    import torch

    known = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    known += ["mps"] * torch.backends.mps.is_available()
    return " or ".join(f"`{name}`" for name in known)


Loss = Annotated[
    str | None,
    Parameter(
        validator=_require_loss,
        help="A name (`cross_entropy`, `mse`, `bce_with_logits`, any loss of torch's) or "
        "`file.py:function`; the program's own, or the one that fits the targets, if not given. "
        "What compares nothing with targets leaves it aside.",
    ),
]
Device = Annotated[
    str | None,
    Parameter(
        validator=_require_device,
        help="Where to compute: `cpu`, `cuda`, `cuda:1`, `mps`; where the model is, if not given.",
    ),
]
