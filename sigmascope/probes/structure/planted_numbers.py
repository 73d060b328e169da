"""What lies between two layers, asked with numbers of our own in the place of what layers write.

A batch tells what an activation does to the numbers that happen to occur on it. Where no unit is
below zero a ReLU looks like no activation at all, near zero a tanh does, and far from zero a GELU
looks like a ReLU. So the model is run again, and every layer passes on numbers of both signs and of
all sizes.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.probes.execution.hooks import Call, module_name, recording
from sigmascope.probes.execution.layers import layers
from sigmascope.probes.execution.refusals import called
from sigmascope.probes.samples.batches import Batch

SIZES = (1.0, 30.0, 0.1, 4.0, 300.0, 0.01, 1000.0, 0.4)  # where activations bend, and beyond
FINE = 32  # layers in turn whose numbers differ by a factor of their own, also in half precision
UNKNOWN = "it cannot be told what its activations are, as it does not run on other numbers"

Between = tuple[Tensor, Tensor, str]


def planted(
    model: nn.Module, batch: Batch, calls: Sequence[Call], *, shift: int = 0, sign: int = 1
) -> list[Call] | None:
    """The calls of a run in which every layer passes on numbers that are planted.

    Args:
        model: Which somebody holds still.
        batch: What it is run on.
        calls: Of a plain run: of layers, which pass on other numbers, and of normalisers, which do
            not.
        shift: From which size on; another one lets a single unit meet another size.
        sign: 1 or -1; with both, each entry meets both signs.

    Returns:
        None where the model cannot be run so, or calls other layers.

    Cost: a forward pass.
    """
    order = iter(range(len(calls)))

    def plant(module: nn.Module, read: Tensor, wrote: Tensor) -> Tensor:
        if module not in ours:
            return wrote
        numbers = sign * _numbers(next(order, 0), shift).to(wrote)
        return numbers.repeat(-(-wrote.numel() // len(numbers)))[: wrote.numel()].view(wrote.shape)

    ours = set(layers(model).values())
    modules = {module_name(c.site): c.module for c in calls}
    try:
        with torch.no_grad(), recording(modules, rewrite=plant) as tape:
            called(model, batch)
    except Refusal:
        return None
    same = [c.site for c in tape.calls] == [c.site for c in calls]
    return tape.calls if same else None


def between(calls: Sequence[Call]) -> Iterator[Between]:
    """What each layer passed on, what the next one read, and where: a row for each sample."""
    for before, after in pairwise(calls):
        z, a = before.output.detach(), after.input
        yield z.flatten(1), a.flatten(1), f"between {before.site} and {after.site}"


def _numbers(layer: int, shift: int) -> Tensor:
    """The sizes in turn, every other one below zero; of each layer by a factor of its own."""
    sizes = torch.tensor(SIZES, dtype=torch.float64).roll(-shift - layer // FINE)
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(len(SIZES) // 2)
    return sizes * signs * 2 ** (layer % FINE / FINE)
