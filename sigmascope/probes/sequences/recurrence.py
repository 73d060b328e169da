"""How gradients grow or shrink over the steps of a recurrent layer.

The idea: signs are drawn for the last state and carried back through the layer alone; what arrives
at the input of a step has the mean square `‖∂h_T/∂x_t‖²_F` over the signs (Hutchinson 1990). The
invariant: everything is computed on a copy in float64 on the CPU, so that what shrinks below single
precision is still seen, and the model is left as it was.
"""

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sigmascope.probes.execution.copying import duplicate

ROWS, STEPS = 16, 256  # of samples, one after the other again where there are fewer; at most
FEWEST = 8  # steps from which a trend over them means something


def step_gradients(
    layer: nn.RNNBase, x: Float[Tensor, "a b d"], *, generator: torch.Generator
) -> Float64[Tensor, "rows steps"]:
    """Logarithms of the size of the last state's gradient by the inputs, the latest first.

    Args:
        layer: Of any kind, of any number of layers; of both directions, the forward one is asked.
        x: What it read, its batch where `batch_first` says.
        generator: Source of the signs, drawn for each row of the result, of a sample each.

    Returns:
        Root mean squares over features; `-inf` where a gradient is zero.

    Source:
        Pascanu, Mikolov & Bengio 2013, Eq. (5); Hutchinson 1990.

    Cost: one pass forward and one back, of 16 samples and 256 steps at most.
    """
    copy = duplicate(layer).cpu().double().eval()
    assert isinstance(copy, nn.RNNBase)
    batch = 0 if copy.batch_first else 1
    whole = x.detach().cpu().double().movedim(batch, 1)[-STEPS:]
    rows = whole[:, torch.arange(ROWS) % whole.shape[1]].contiguous()
    with torch.enable_grad():
        rows.requires_grad_()
        last = copy(rows.movedim(1, batch))[0].movedim(batch, 1)[-1]
        last = last[:, : copy.proj_size or copy.hidden_size]
        signs = torch.randint(0, 2, last.shape, generator=generator, dtype=last.dtype) * 2 - 1
        (gradient,) = torch.autograd.grad(last, rows, signs)
    largest = gradient.abs().amax(2).clamp_min(math.ulp(0.0))  # squares would not fit
    scaled = (gradient / largest[:, :, None]).square().mean(2).sqrt()
    return (scaled.log() + largest.log()).mT.flip(1)


def slope(logs: Float64[Tensor, " steps"]) -> float:
    """Of the line that fits logarithms best, over the steps at which they are finite.

    Args:
        logs: The latest step first.

    Returns:
        Growth from one step to the one before it; `-inf` where fewer than two are finite.
    """
    there = logs.isfinite()
    if int(there.sum()) < 2:
        return -math.inf
    back = torch.arange(len(logs), dtype=logs.dtype)[there]
    back = back - back.mean()
    return float((back * logs[there]).sum() / back.square().sum())
