"""The runs of a model that everything is read from, and what they answer.

One run without gradients gives the calls of layers, the output, what batch normalisers saw, weights
that are applied outside of layers, activations at the ends of their range and the sizes of what is
added up. One run on a tape, with the normalisers held at what they saw, is asked everything else
that needs a graph of all samples at once. The invariant: what fails in the common run is asked once
more by itself, so that sharing a run costs no answer and changes none.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.probes.execution.forward import called, require_samples
from sigmascope.probes.execution.freeze import ALONE, still, uses_batch_statistics
from sigmascope.probes.execution.hooks import Call, module_name
from sigmascope.probes.execution.layers import layers, normalisers
from sigmascope.probes.execution.refusals import require_finite_batch, require_model
from sigmascope.probes.execution.trace import Operations, Trace, run_once, traced
from sigmascope.probes.jacobian.backward import Sweep, sweep
from sigmascope.probes.jacobian.ntk_shares import covers
from sigmascope.probes.jacobian.per_sample_gradients import Collinearity, collinearity
from sigmascope.probes.jacobian.sample_mixing import Whole, leaking, mixing, with_leaves
from sigmascope.probes.jacobian.unaccounted import Gaps, leftovers, unaccounted
from sigmascope.probes.samples.batches import Batch, as_tensor, prepared, sample_count, tensors
from sigmascope.probes.samples.targets import Loss, require_finite_targets, require_task
from sigmascope.probes.scene import Scene, Taped
from sigmascope.probes.structure.operations import (
    Branch,
    Squash,
    branches,
    branches_of,
    closing_operation,
    squashes,
)

MIXED = (
    "`{}` must be asked of a model that treats every sample by itself, got one in which {}. Take "
    "that operation over the batch out, or say `batch_dim=` (`--batch-dim`) if the samples lie "
    "along another dimension."
)
T = TypeVar("T")


@dataclass(frozen=True)
class Runs:
    """A model held still on one batch, and its runs; each is made once, when it is needed."""

    model: nn.Module
    batch: Batch
    targets: Any = None
    loss: Loss | None = None
    outputs: int | Sequence[int] = 16
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
            require_finite_batch(tensors(self.batch))
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
    def _scene(self) -> Scene:
        return Scene(
            self.model,
            self.batch,
            self.targets,
            self.loss,
            self.batch_dim,
            self._listened,
            self._trace.frozen,
        )

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call of a layer, in the order in which they end."""
        return self._own(self._trace.calls)

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

    @cached_property
    def squashes(self) -> tuple[Squash, ...]:
        """Every layer that reads what a squashing activation wrote, in the order of calls."""
        trace = self._trace
        if trace.operations is None:
            trace = run_once(self.model, self.batch, self._listened, operations=True)
        wrote = [] if trace.operations is None else trace.operations.squashed
        return squashes(self._own(trace.seen), wrote)

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Residual branches, in the order in which they are added; see `structure.branches`."""
        return self._asked("branches", lambda: branches(self.model, self.batch))

    @cached_property
    def closing_operation(self) -> str:
        """What computes the output, in autograd's words; empty if no trained parameter does."""

        def alone() -> str:
            with still(self.model), torch.enable_grad():
                return self._closing(as_tensor(called(self.model, self.batch))[0])

        return self._asked("closing operation", alone)

    @cached_property
    def mixing(self) -> str:
        """How the samples of the batch mix, in words; empty where each is treated by itself.

        What is asked of single samples is then refused; representations and weights are not.

        Cost: two backward passes on the common tape and half a forward pass, once; three forward
        passes more if these leave doubts.
        """

        def alone() -> Whole:
            with with_leaves(self._scene).on_tape() as run:
                return leaking(run)

        return mixing(self._scene, self._asked("leaks", alone))

    @cached_property
    def unaccounted(self) -> frozenset[str]:
        """Trained parameters whose gradients the calls of layers do not explain, by name.

        Raises:
            Refusal: If autograd cannot differentiate by a parameter.

        Cost: one backward pass on the common tape, once.
        """
        return self._asked("unaccounted", lambda: unaccounted(self._scene))

    @property
    def leftovers(self) -> dict[str, list[nn.Parameter]]:
        """Trained parameters whose share of the tangent kernel no formula gives, by module."""
        return leftovers(self.model, self.unaccounted, self._uncovered)

    @property
    def _uncovered(self) -> tuple[str, ...]:
        """Layers whose share of the tangent kernel no formula covers, by name."""
        whole = {module_name(c.site) for c in self.calls if self._scene.split(c.output) is None}
        return tuple(n for n, m in self.modules.items() if n in whole or not covers(m))

    @cached_property
    def _collinearity(self) -> Collinearity:
        def alone() -> Collinearity:
            with self._scene.on_tape() as run:
                return collinearity(run)

        return self._asked("collinearity", alone)

    @cached_property
    def adjoints(self) -> Sweep:
        """`∂ output / ∂ preactivation` of every layer, for every sample on its own.

        One forward pass, unless all samples fit on the common tape, and one backward pass per
        output.
        """
        self._share("adjoints")
        self._require_apart("adjoints")

        def alone() -> Sweep:
            try:
                rest = self.leftovers
            except Refusal:  # not differentiable by its parameters; by what layers write, perhaps
                rest = {}
            return self._swept(self.outputs, rest)

        return self._asked("adjoints", alone)

    def _require_apart(self, asked: str) -> None:
        if self.mixing:
            raise Refusal(MIXED.format(asked, self.mixing))

    def _swept(
        self,
        outputs: int | Sequence[int],
        uncovered: Mapping[str, Sequence[Tensor]],
        *,
        grams: bool = True,
        run: Taped | None = None,
    ) -> Sweep:
        return sweep(
            self._scene,
            outputs,
            size=self._piece(outputs),
            uncovered=uncovered,
            grams=grams,
            generator=self._generator,
            run=run,
        )

    def _piece(self, outputs: int | Sequence[int]) -> int:
        wanted = outputs if isinstance(outputs, int) else len(outputs)
        columns = min(wanted, self.output.numel() // self.count)
        entries = sum(c.output.numel() for c in self._trace.calls)
        return self._scene.fitting(entries=entries, columns=columns)

    @property
    def _generator(self) -> torch.Generator:
        return self.generator or torch.Generator().manual_seed(0)

    @cached_property
    def _answers(self) -> dict[str, Any]:
        """Of the common runs, by question; None where one failed."""
        return {}

    def _asked(self, question: str, alone: Callable[[], T]) -> T:
        """The answer of a common run, or of a run of its own."""
        self._share(question)
        answer = self._answers[question]
        return alone() if answer is None else answer

    def _share(self, question: str) -> None:
        """Make a common run, unless there was one, and ask all that it can answer without cost."""
        if question in self._answers:
            return
        questions = self._questions(question)
        self._answers.update(dict.fromkeys((question, *questions)))
        operations = Operations(sizes=not self._trace.frozen.seen)
        # whatever fails here fails again, with its words, where it is asked by itself
        with suppress(Exception), with_leaves(self._scene).on_tape(watch=operations) as run:
            for name, ask in questions.items():
                with suppress(Exception):
                    self._answers[name] = ask(run, operations)

    def _questions(self, first: str) -> dict[str, Callable[[Taped, Operations], Any]]:
        """What a common run is asked that is made for one of the questions."""
        asked: dict[str, Callable[[Taped, Operations], Any]] = {
            "branches": self._branches_on,
            "closing operation": lambda run, _: self._closing(run.output),
        }
        if first in asked:  # which take no backward pass
            return asked
        gaps = Gaps.of(self.model)  # a run may give the model more parameters
        asked["leaks"] = lambda run, _: leaking(run)
        asked["unaccounted"] = lambda run, _: gaps.added(run)
        if self.loss is not None and self.targets is not None:
            asked["collinearity"] = lambda run, _: collinearity(run)
        if first == "adjoints" and self._piece(self.outputs) >= self.count:
            asked["adjoints"] = lambda run, _: self._adjoints_on(run)
        return asked

    def _branches_on(self, run: Taped, operations: Operations) -> tuple[Branch, ...]:
        """With the sizes of the run in which normalisers take the statistics of the batch."""
        sums, first = operations.sums, self._trace.operations
        if self._trace.frozen.seen:
            if first is None:
                raise Refusal("Sizes must be had of the first run, got one without.")
            sums = [replace(s, sizes=t.sizes) for s, t in zip(sums, first.sums, strict=True)]
        return branches_of(self.model, sums, run.calls)

    def _closing(self, output: Tensor) -> str:
        return closing_operation(output, [p for p in self.model.parameters() if p.requires_grad])

    def _adjoints_on(self, run: Taped) -> Sweep:
        unknown = self._answers["unaccounted"]
        assert unknown is not None
        rest = leftovers(self.model, unknown, self._uncovered)
        return self._swept(self.outputs, rest, run=run)
