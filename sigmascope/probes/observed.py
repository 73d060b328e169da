"""What is read of a model without derivatives, from one run that is watched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.linalg import sums
from sigmascope.probes.execution.freeze import ALONE, still, uses_batch_statistics
from sigmascope.probes.execution.hooks import Call
from sigmascope.probes.execution.layers import channel_dim, layers, normalisers
from sigmascope.probes.execution.refusals import (
    require_finite_batch,
    require_model,
    require_samples,
)
from sigmascope.probes.execution.tails import Tail, faithful, tail
from sigmascope.probes.execution.trace import Trace, run_once, traced
from sigmascope.probes.room import held
from sigmascope.probes.samples.batches import Batch, beside, prepared, sample_count
from sigmascope.probes.samples.matrices import Rows, Spectra, rows, spectra_of
from sigmascope.probes.samples.targets import Loss, require_finite_targets, require_task
from sigmascope.probes.structure.feedforward import stack_of
from sigmascope.probes.structure.linear_pairs import Pair, linear_pairs
from sigmascope.probes.structure.linear_stacks import Stack
from sigmascope.probes.structure.operations import (
    Squash,
    squashes,
)
from sigmascope.probes.symmetry.rescalings import Symmetries, symmetries
from sigmascope.probes.weights import Weight, operators, weights

OUTPUT = "(output)"
Place = tuple[int, torch.Size, tuple[int, ...], torch.dtype]  # of numbers, and their order


@dataclass(frozen=True)
class Observed:
    """A model held still on one batch; what is read from it is read once."""

    model: nn.Module
    batch: Batch
    targets: Any = None
    loss: Loss | None = None
    outputs: int | Sequence[int] | None = None
    batch_dim: int = 0
    generator: torch.Generator | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.outputs, int) and self.outputs < 1:
            raise Refusal(
                f"`outputs` must be 1 or more, got {self.outputs}. It is how many columns of the "
                "output to differentiate."
            )
        with ALONE:
            original = getattr(self.model, "_orig_mod", self.model)  # what torch.compile wraps
            if isinstance(original, nn.parallel.DistributedDataParallel):
                original = original.module
            object.__setattr__(self, "model", original)
            require_model(self.model)
            object.__setattr__(self, "batch", prepared(self.model, self.batch))
            require_finite_batch(self.model, self.batch)
            object.__setattr__(self, "targets", beside(self.model, self.targets))
            if isinstance(self.targets, Tensor):  # a loss may work in place
                object.__setattr__(self, "targets", self.targets.detach().clone())
            require_finite_targets(self.targets)
            sample_count(self.batch, batch_dim=self.batch_dim)

    @property
    def count(self) -> int:
        """Samples in the batch."""
        return sample_count(self.batch, batch_dim=self.batch_dim)

    @cached_property
    def modules(self) -> dict[str, nn.Module]:
        """Every layer (see `probes.execution.layers`) by name, in the order of definition."""
        found = layers(self.model)
        if not found:
            raise Refusal(
                f"`model` must have a layer (a weight of two or more dimensions), got "
                f"{type(self.model).__name__} with none. Pass the module that holds the layers."
            )
        return found

    @cached_property
    def _listened(self) -> dict[str, nn.Module]:
        batches = {k: m for k, m in self.model.named_modules() if uses_batch_statistics(m)}
        return self.modules | batches | normalisers(self.model)

    @cached_property
    def _trace(self) -> Trace:
        trace = traced(self.model, self.batch, self._listened)
        if self.batch_dim == 0:
            require_samples(self._own(trace.calls), self.batch, trace.output, count=self.count)
        if self.loss is not None and self.targets is not None:
            require_task(
                trace.output, self.targets, self.loss, count=self.count, batch_dim=self.batch_dim
            )
        return trace

    def _own(self, calls: Sequence[Call]) -> tuple[Call, ...]:
        kept = set(self.modules.values())
        return tuple(c for c in calls if c.module in kept)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call of a layer, in the order in which they end."""
        return self._own(self._trace.calls)

    @cached_property
    def normalised(self) -> tuple[Call, ...]:
        """Every call of a normaliser with parameters, or with the statistics of the batch."""
        kept = set(self.modules.values())
        return tuple(c for c in self._trace.calls if c.module not in kept)

    @property
    def rows_held(self) -> int:
        """Bytes of what layers read and write, all of which is kept."""
        return held(self._trace.calls)

    @cached_property
    def linear_pairs(self) -> tuple[Pair, ...]:
        """Layers with nothing but linear maps between; see `structure.linear_pairs`."""
        with still(self.model):
            return linear_pairs(self.model, self.batch, self._trace.calls)

    @property
    def output(self) -> Tensor:
        """The output tensor that is studied."""
        return self._trace.output

    @property
    def output_rule(self) -> str:
        """How the output tensor was chosen from what the model returns."""
        return self._trace.rule

    @cached_property
    def uses_outside(self) -> tuple[str, ...]:
        """Weights that are applied where no layer is called, by name."""
        trace = self._trace
        if trace.outside is None:  # which says why
            trace = run_once(self.model, self.batch, self._listened, outside=True)
        return trace.outside or ()

    @property
    def unfed(self) -> frozenset[str]:
        """Sites that read nothing of the batch, learned queries say; none where all are so."""
        return self._trace.unfed

    @cached_property
    def squashes(self) -> tuple[Squash, ...]:
        """Every layer that reads what a squashing activation wrote, in the order of calls."""
        trace = self._trace
        if trace.operations is None:
            trace = run_once(self.model, self.batch, self._listened, operations=True)
        wrote = [] if trace.operations is None else trace.operations.squashed
        return squashes(self._own(trace.seen), wrote)

    @cached_property
    def tail(self) -> Tail | None:
        """The operations behind the last weight; None where they cannot be run by themselves."""
        try:
            if self._trace.operations is None:  # which may have refused to be watched together
                return tail(self.model, self.batch)
            return faithful(self.model, self._trace.tail)
        except Exception:  # noqa: BLE001 (operations of the user's may refuse to be watched)
            return None

    @cached_property
    def weights(self) -> tuple[Weight, ...]:
        """Every weight as a matrix, tied weights once; convolutions as kernel and as operator.

        The operator is taken on the periodic grid of what the layer reads here; one that would be
        too dear is left out (`probes.weights.OPERATOR_WORK`).
        """
        with still(self.model), torch.no_grad():  # a parametrisation computes, and may remember
            return (*weights(self.model), *operators(self.calls))

    @cached_property
    def activations(self) -> Mapping[str, Rows]:
        """What each layer reads, and the output: the representations, by site.

        The representation at a layer is everything that came before it; token ids are left out.
        """
        found = {
            c.site: self._rows(c.input, channel_dim(c.module, c.input))
            for c in self.calls
            if c.input.is_floating_point()
        }
        return {**found, OUTPUT: self._rows(self.output, self.output.ndim - 1)}

    @cached_property
    def preactivations(self) -> Mapping[str, Rows]:
        """What each layer writes, by site."""
        return {c.site: self._rows(c.output, channel_dim(c.module, c.output)) for c in self.calls}

    def _rows(self, value: Tensor, channels: int) -> Rows:
        return rows(value, channels=channels, count=self.count, batch_dim=self.batch_dim)

    @cached_property
    def spectra(self) -> Mapping[tuple[str, str], Spectra]:
        """Singular values of every representation, by `(site, form)`, as it is and centred.

        Sites whose representation is not finite are left out.
        """
        places: dict[tuple[str, str], Place] = {}
        distinct: dict[Place, Tensor] = {}  # queries, keys and values read one tensor
        for site, both in self.activations.items():
            for form, matrix in both.forms().items():
                at = matrix.data_ptr(), matrix.shape, matrix.stride(), matrix.dtype
                places[site, form] = at
                if at in distinct or sums.is_finite(matrix):
                    distinct[at] = matrix
        found = dict(zip(distinct, spectra_of([*distinct.values()]), strict=True))
        return {key: found[at] for key, at in places.items() if at in found}

    @cached_property
    def stack(self) -> Stack | str:
        """The plain stack of layers that the model is; or why it is none."""
        with still(self.model), torch.no_grad():  # a parametrisation computes, and may remember
            return stack_of(self.model, self.calls, self.batch, self.output)

    @cached_property
    def symmetries(self) -> Symmetries:
        """How the weights may be rescaled without changing what the model computes."""
        _ = self._trace  # which refuses what the model or the loss misreads
        return symmetries(self.model, self.batch, targets=self.targets, loss=self.loss)
