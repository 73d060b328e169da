"""Some samples, and how a model is run on them: what is passed down to every measurement."""

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sigmascope.gate import Refusal, allowed, trim
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.hooks import Call, recording
from sigmascope.probes.execution.layers import NORMALISERS, Statisticians
from sigmascope.probes.execution.refusals import called
from sigmascope.probes.samples.batches import Batch, as_tensor, chosen, pieces, sample_count
from sigmascope.probes.samples.matrices import samples_first
from sigmascope.probes.samples.targets import Loss, scalar_loss

MEMORY_FLOOR = 2**16  # adjoint entries that are always held at once: half a megabyte in float64
HELD = 24  # bytes of the memory allowed for each such entry: a sixth, in float32
SMALL = 2**24  # as many are worth holding to save a run: 64 megabytes in float32


def most_held() -> int:
    """Derivatives that the memory allowed has room for at once."""
    return allowed() // HELD


@dataclass(frozen=True, slots=True)
class Scene:
    """A model, samples and a loss: what derivatives are taken of.

    Attributes:
        model: The model.
        batch: What it is run on.
        targets: What the loss compares the output with; None for squared error.
        loss: The loss; None for squared error.
        batch_dim: Where the batch has its samples.
        listened: Layers and normalisers, by name, whose calls are recorded.
        frozen: Statistics of the batch normalisers on all samples, which are held constant.
    """

    model: nn.Module
    batch: Batch
    targets: Any = None
    loss: Loss | None = None
    batch_dim: int = 0
    listened: Mapping[str, nn.Module] = field(default_factory=dict)
    frozen: Statisticians = field(default_factory=Statisticians)

    @property
    def count(self) -> int:
        """Samples in the batch."""
        return sample_count(self.batch, batch_dim=self.batch_dim)

    def split(self, value: Tensor) -> Tensor | None:
        """A tensor as `[samples, ...]`; None where it cannot be split."""
        return samples_first(value, count=self.count, batch_dim=self.batch_dim)

    def pieces(self, size: int) -> Iterator[tuple["Scene", slice]]:
        """The same with at most `size` samples at a time, and which these are.

        Whoever goes on to the next piece holds nothing of the last one's run, or there are two.
        """
        for piece, part in pieces(self.batch, size=size, batch_dim=self.batch_dim):
            yield replace(self, batch=piece), part
            if size < self.count:
                trim()  # the next one's blocks are of other sizes than those that are free

    def chosen(self, rows: Tensor) -> "Scene":
        """The same with some of the samples, in this order."""
        return replace(self, batch=chosen(self.batch, rows, batch_dim=self.batch_dim))

    def fitting(self, *, entries: int, columns: int) -> int:
        """How many samples to take at once, so that memory stays near that of a training step.

        And, for large ones, within the memory that is allowed.

        Args:
            entries: Numbers that are differentiated by, on the whole batch.
            columns: How many derivatives of each are held.
        """
        parameters = sum(p.numel() for p in self.model.parameters())
        budget = min(max(MEMORY_FLOOR, 2 * (parameters + entries)), most_held())
        rounds = math.ceil(entries * columns / budget)
        return max(1, math.ceil(self.count / max(1, rounds)))

    @contextmanager
    def on_tape(
        self,
        *,
        grad: bool = True,
        listen: bool = True,
        watch: AbstractContextManager[Any] | None = None,
    ) -> Iterator["Taped"]:
        """One run, recorded, with the model held still and its batch normalisers held constant.

        Args:
            grad: Whether it can be differentiated, inside of the block.
            listen: Whether to keep what layers read and write; without, `calls` are none.
            watch: A mode to run it under.
        """
        self.frozen.rewind()
        with (
            still(self.model),
            torch.set_grad_enabled(grad),
            recording(self.listened, rewrite=self.frozen.rewrite) as tape,
        ):
            tape.listening = listen
            for module in self.frozen.seen:  # their output is replaced; one sample is enough
                module.training = False  # until `still` restores it
            with watch or nullcontext():
                output = self.output()
            tape.listening = False
            yield Taped(self, tuple(tape.calls), output)

    def output(self) -> Tensor:
        """The output tensor, on the tape if there is one."""
        return as_tensor(called(self.model, self.batch))[0]

    def value(self, output: Tensor) -> Tensor:
        """The loss of an output; of squared error only the curvature by the output is meant."""
        if self.loss is None or self.targets is None:
            return output.square().sum() / self.count
        return scalar_loss(self.loss, output, self.targets)

    def losses(self) -> Tensor:
        """The loss of each sample.

        Raises:
            Refusal: If it has no part for each sample.
        """
        output = self.split(self.output())
        if output is None or not isinstance(self.targets, Tensor) or self.loss is None:
            raise Refusal(
                'The curvature "fisher" needs one loss per sample: an output with one row per '
                'sample, targets that are a tensor, and a loss. Ask for "gauss-newton" instead.'
            )
        each = range(self.count)
        return torch.stack(
            [scalar_loss(self.loss, output[i : i + 1], self.targets[i : i + 1]) for i in each]
        )


@dataclass(frozen=True, slots=True)
class Taped:
    """One run of a scene.

    Attributes:
        scene: What was run.
        calls: Of layers and normalisers, in the order in which they end.
        output: The output tensor that is studied.
    """

    scene: Scene
    calls: tuple[Call, ...]
    output: Tensor

    @property
    def flat(self) -> Float[Tensor, "samples columns"]:
        """The output, one row for each sample; refused if it cannot be split."""
        rows = self.scene.split(self.output)
        if rows is None:
            raise Refusal(
                "The output must have one row per sample to be differentiated sample by sample. "
                "Return it with the batch dimension, or say `batch_dim=` (`--batch-dim`)."
            )
        return rows.reshape(len(rows), -1)

    @property
    def layers(self) -> tuple[Call, ...]:
        """The calls of layers alone."""
        return tuple(c for c in self.calls if not isinstance(c.module, NORMALISERS))
