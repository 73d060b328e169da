"""Learning rates by layer, from the curvature of the loss in each."""

from typing import Any

from torch import nn

from sigmascope import survey
from sigmascope.gate import Refusal
from sigmascope.probes.execution import module_name
from sigmascope.probes.samples import Batch, Loss


def layer_rates(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any = None,
    loss: Loss | None = None,
    share: float = 0.25,
    batch_dim: int = 0,
) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser, each layer at a rate that its curvature allows.

    A layer whose Gauss-Newton matrix has the largest eigenvalue `t` gets the rate
    `share / (L t)`, L being the number of layers: as the whole matrix is at most L times its
    diagonal blocks, gradient descent at these rates is stable on the quadratic model of the loss
    for every `share` below 2. Curvature grows as small weights do, so that the default leaves room.

    Args:
        model: Left as it is; its parameters are in the groups.
        batch: As for `survey.landscape.landscape`.
        targets: What `loss` compares the output with.
        loss: Convex in the output; squared error if none is given.
        share: Of the rates that would take the quadratic model down fastest for sure.
        batch_dim: Where the batch has its samples.

    Returns:
        For `torch.optim.SGD(groups)`: `params`, `lr` and `name` for each layer; what trains and
        belongs to no such layer (normalisers) comes last, at the smallest of the rates.

    Raises:
        Refusal: If the landscape cannot be measured, or no layer has a curvature.

    Source:
        Riedi et al. 2022, section 3, corrected, for the curvature; that a positive matrix is at
        most L times its L diagonal blocks is the inequality of Cauchy and Schwarz.

    Cost: as `survey.landscape.landscape`.
    """
    found = survey.landscape.landscape(
        model, batch, targets=targets, loss=loss, batch_dim=batch_dim
    )
    tops = {
        module_name(layer.site): layer.top.high
        for layer in found.layers
        if 0 < layer.top.high < float("inf")
    }
    if not tops or not share > 0:
        raise Refusal(
            f"Rates need layers with a curvature and a `share` above 0, got {len(tops)} layers and "
            f"{share:g}. `sigmascope landscape` says why a layer has none."
        )
    rates = {site: share / (len(tops) * top) for site, top in tops.items()}
    groups, seen = [], set()
    for site, rate in rates.items():
        module = model.get_submodule(module_name(site))
        own = [p for p in module.parameters() if p.requires_grad and p not in seen]
        seen.update(own)
        if own:
            groups.append({"params": own, "lr": rate, "name": site})
    rest = [p for p in model.parameters() if p.requires_grad and p not in seen]
    if rest:
        groups.append({"params": rest, "lr": min(rates.values()), "name": "(rest)"})
    return groups
