"""Learning rates as optimisers apply them: per coordinate, and what momentum makes of them.

A step of plain descent on a quadratic grows where the rate is above `2 / λ`. With heavy-ball
momentum `β` that is `2 (1 + β) / λ`; Adam's averaged gradient makes it `2 (1 + β₁) / ((1 - β₁) λ)`,
with `λ` of the Hessian in coordinates scaled by the roots of its second moments (Cohen et al. 2022,
Sec. 2). With a rate `rᵢ` for each coordinate `λ` is that of `√r H √r`.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, NAdam, Optimizer

AVERAGED = (Adam, NAdam)  # AdamW is an Adam


@dataclass(frozen=True, slots=True)
class Rate:
    """What a step multiplies the gradient of one parameter by, and how much of it is borne.

    Attributes:
        roots: Root of the rate of each entry; one number where all are the same.
        borne: Largest eigenvalue of `√r H √r` at which a quadratic does not diverge.
    """

    roots: Tensor
    borne: float


def rate_of(optimizer: Optimizer, group: dict[str, Any], parameter: Tensor) -> Rate | None:
    """The rate of a parameter; None of an optimiser whose steps are not known here.

    Args:
        optimizer: Of torch.
        group: The parameter's.
        parameter: Any that it trains.
    """
    rate = float(group["lr"])
    if isinstance(optimizer, SGD):
        return Rate(torch.tensor(rate).sqrt(), 2 * (1 + float(group["momentum"])))
    state = optimizer.state.get(parameter, {})
    if not isinstance(optimizer, AVERAGED) or "exp_avg_sq" not in state:
        return None
    first, second = group["betas"]
    steps = float(state["step"])
    moments = state.get("max_exp_avg_sq", state["exp_avg_sq"]) / (1 - second**steps)
    roots = (rate / (moments.sqrt() + group["eps"])).sqrt()
    return Rate(roots, 2 * (1 + first) / (1 - first))
