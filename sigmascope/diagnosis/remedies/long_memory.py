"""Recurrent layers that keep what they read over all their steps."""

from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from sigmascope.core import quantities as q
from sigmascope.core.records import Kind
from sigmascope.diagnosis.remedies.base import Inapplicable, Remedy, calls
from sigmascope.diagnosis.rules.sequences import EXPLODING_THROUGH_TIME, VANISHING_THROUGH_TIME
from sigmascope.models.samples import Batch

KEPT = {"LSTM": 1, "GRU": 1}  # the block of rows of a gate that keeps the state where it is open
WRITTEN = {"LSTM": 0}  # that of the gate that lets new things in


@final
@dataclass(frozen=True, slots=True)
class LongMemory(Remedy):
    """Draw recurrent weights orthogonal, and open the gates that keep a state for as long as it is.

    Every gate's block of the recurrent weights has gain one; behind ReLU, which would else switch
    off half of what comes by at every step, it is the identity. The biases of an LSTM's forget
    gates and of a GRU's update gates are drawn so that units remember 1 to T - 1 steps, for
    sequences of T; those of an LSTM's input gates are their opposites.

    Attributes:
        generator: Source of what is drawn; one with seed 0 if not given.
    """

    name: ClassVar[str] = "long-memory"
    cures: ClassVar[tuple[Kind, ...]] = (VANISHING_THROUGH_TIME, EXPLODING_THROUGH_TIME)
    says: ClassVar[str] = (
        "Draw recurrent weights orthogonal, and open the gates that keep a state for as long as "
        "the sequences are."
    )
    unless: ClassVar[str] = "no recurrent layer (RNN, LSTM, GRU) is called"
    source: ClassVar[str] = "Saxe et al. 2014; Le et al. 2015; Tallec & Ollivier 2018, Sec. 3"
    needs: ClassVar[str] = q.STEP_FACTOR

    generator: torch.Generator | None = field(default=None, repr=False)

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        generator = self.generator or torch.Generator().manual_seed(0)
        found = {c.module: c.input for c in calls(model, batches[0])}
        layers = {m: x for m, x in found.items() if isinstance(m, nn.RNNBase)}
        if not layers:
            raise Inapplicable(
                "A longer memory needs recurrent layers (RNN, LSTM, GRU), got none that is called."
            )
        for layer, x in layers.items():
            steps = x.shape[1 if layer.batch_first and x.ndim == 3 else 0]
            for name, p in layer.named_parameters(recurse=False):
                if name.startswith("weight_hh"):
                    drawn = torch.empty(p.shape, dtype=torch.float64)
                    for gate in drawn.split(layer.hidden_size):  # each orthogonal by itself
                        if layer.mode == "RNN_RELU":
                            nn.init.eye_(gate)
                        else:
                            nn.init.orthogonal_(gate, generator=generator)
                    p.data.copy_(drawn)
                elif name.startswith("bias_ih"):
                    # biases of gates, those of the recurrent weights zero beside them
                    beside = layer.get_parameter(name.replace("bias_ih", "bias_hh"))
                    size = layer.hidden_size
                    spans = 1 + torch.rand(size, generator=generator, dtype=torch.float64) * max(
                        steps - 2, 1
                    )
                    for gates, sign in ((KEPT, 1.0), (WRITTEN, -1.0)):
                        if layer.mode in gates:
                            rows = slice(gates[layer.mode] * size, (gates[layer.mode] + 1) * size)
                            _set(p, rows, sign * spans.log())
                            _set(beside, rows, torch.zeros(size))


def _set(p: nn.Parameter, rows: slice, values: Tensor) -> None:
    p.data[rows] = values.to(p)
