"""The runs of a model that everything is read from, and what they answer.

One run without gradients gives the calls of layers, the output, what batch normalisers saw, weights
that are applied outside of layers, activations at the ends of their range and the sizes of what is
added up. One run on a tape, with the normalisers held at what they saw, is asked everything else
that needs a graph of all samples at once. The invariant: what fails in the common run is asked once
more by itself, so that sharing a run costs no answer and changes none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.hooks import module_name
from sigmascope.probes.execution.refusals import called, explaining
from sigmascope.probes.execution.trace import Operations, Sum
from sigmascope.probes.jacobian.backward import Sweep, sweep
from sigmascope.probes.jacobian.ntk_shares import covers
from sigmascope.probes.jacobian.per_sample_gradients import (
    Collinearity,
    LastGradients,
    collinearity,
    last_gradients,
)
from sigmascope.probes.jacobian.sample_mixing import (
    Extent,
    Whole,
    extent,
    leaking,
    mixing,
    with_leaves,
)
from sigmascope.probes.jacobian.unaccounted import Gaps, leftovers, unaccounted
from sigmascope.probes.observed import Observed
from sigmascope.probes.room import at_once, gradient_turns, large, require_gradients
from sigmascope.probes.samples.batches import as_tensor
from sigmascope.probes.scene import SMALL, Scene, Taped
from sigmascope.probes.structure.affine_graph import is_affine
from sigmascope.probes.structure.operations import (
    Branch,
    averaged,
    branches,
    branches_of,
    closing_operation,
)
from sigmascope.probes.taken import backward

MIXED = (
    "`{}` must be asked of a model that treats every sample by itself, got one in which {}. Take "
    "that operation over the batch out, or say `batch_dim=` (`--batch-dim`) if the samples lie "
    "along another dimension."
)
T = TypeVar("T")
Question = Callable[[Taped, Operations, slice], Any]  # of a run, and the samples it has
SOME, FEW = 16, 8  # outputs that are differentiated, or mixtures; of very many the latter
MANY = 2**16  # outputs of a sample from which a backward pass is dear and few must do
PIECEWISE = frozenset(("branches", "unaccounted", "collinearity"))  # of all runs, not the first


@dataclass(frozen=True)
class Runs(Observed):
    """What is asked of one run on a tape, or where it must be of a run of its own."""

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
    def branches(self) -> tuple[Branch, ...]:
        """Residual branches, in the order in which they are added; see `structure.branches`."""
        return self._asked("branches", lambda: branches(self.model, self.part.batch))

    @cached_property
    def closing_operation(self) -> str:
        """What computes the output, in autograd's words; empty if no trained parameter does."""

        def alone() -> str:
            with still(self.model), torch.enable_grad():
                return self._closing(as_tensor(called(self.model, self.part.batch))[0])

        return self._asked("closing operation", alone)

    @cached_property
    def is_affine(self) -> bool:
        """Whether what the last weight writes comes from the inputs by linear operations alone."""

        def alone() -> bool:
            with with_leaves(self.part).on_tape() as run:
                return self._affine_on(run)

        return self._asked("linearity", alone)

    @cached_property
    def mixing(self) -> str:
        """How the samples of the batch mix, in words; empty where each is treated by itself.

        What is asked of single samples is then refused; representations and weights are not.

        Cost: two backward passes on the common tape and half a forward pass, once; three forward
        passes more if these leave doubts.
        """

        def alone() -> Whole:
            with with_leaves(self.part).on_tape() as run:
                return leaking(run)

        whole = self._asked("leaks", alone)
        if self._at_once < self.count:  # it was asked of some; the rest is as all samples had it
            rows = self._scene.split(self.output)
            whole = replace(whole, rows=None if rows is None else rows.detach().cpu())
        return mixing(self._scene, whole)

    @cached_property
    def mixed(self) -> Extent | None:
        """How much samples mix; None where they do not.

        Cost: as `mixing`; a forward pass and a half more where they do.
        """
        rows = self._scene.split(self.output) if self.mixing else None
        return None if rows is None else extent(self._scene, rows.detach().cpu())

    @cached_property
    def unaccounted(self) -> frozenset[str]:
        """Trained parameters whose gradients the calls of layers do not explain, by name.

        Raises:
            Refusal: If autograd cannot differentiate by a parameter.

        Cost: one backward pass on the common tape, once.
        """
        return self._asked("unaccounted", lambda: unaccounted(self._scene, size=self._at_once))

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
        def alone() -> list[LastGradients]:
            found: list[LastGradients] = []
            for piece, part in self.pieces:
                with piece.on_tape() as run:
                    self._gathered(found, run, part)
                    del run
            return found

        return collinearity(self._asked("collinearity", alone))

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
            return self._swept(self._differentiated, rest)

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
        size = self._scene.fitting(entries=self._entries, columns=self._columns(outputs))
        return min(size, self._at_once)

    @property
    def _entries(self) -> int:
        """What is differentiated by: numbers that layers and normalisers write."""
        return sum(c.output.numel() for c in self._trace.calls)

    @property
    def _differentiated(self) -> int | Sequence[int]:
        """How many outputs, or which, if nobody has said."""
        if self.outputs is not None:
            return self.outputs
        return FEW if self.output.numel() // self.count > MANY else SOME

    def _columns(self, outputs: int | Sequence[int]) -> int:
        wanted = outputs if isinstance(outputs, int) else len(outputs)
        return min(wanted, self.output.numel() // self.count)

    @property
    def _fits(self) -> bool:
        """Whether adjoints of all samples are held at once."""
        return self._piece(self._differentiated) >= self.count

    @property
    def _small(self) -> bool:
        """Whether they may be, where nothing is drawn: all outputs, or some that were named."""
        wanted, total = self._differentiated, self.output.numel() // self.count
        columns = self._columns(wanted)
        drawn = isinstance(wanted, int) and columns < total
        small = self._entries * columns <= SMALL and self._at_once >= self.count
        return small and not drawn

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
        # whatever fails here fails again, with its words, where it is asked by itself
        try:
            for piece, part in self.pieces:
                if part.start == 0 or questions.keys() & PIECEWISE:
                    self._run(piece, part, questions)
        except Exception:  # noqa: BLE001 (of some pieces nothing is known: each is asked again)
            self._answers.update(dict.fromkeys(questions))

    def _run(self, piece: Scene, part: slice, questions: dict[str, Question]) -> None:
        """Ask one run; what fails is asked no more."""
        operations = Operations(sizes=not self._trace.frozen.seen)
        with with_leaves(piece).on_tape(watch=operations) as run:
            for name, ask in [*questions.items()]:
                if part.start and name not in PIECEWISE:
                    continue
                try:
                    self._answers[name] = ask(run, operations, part)
                except Exception:  # noqa: BLE001 (as in `_share`)
                    self._answers[name] = None
                    del questions[name]

    def _questions(self, first: str) -> dict[str, Question]:
        """What a common run is asked that is made for one of the questions."""
        sums: list[tuple[int, list[Sum]]] = []

        def branches_on(run: Taped, operations: Operations, _: slice) -> tuple[Branch, ...]:
            count, seen = run.scene.count, operations.sums
            found = self._branches_on(run, [*sums, (count, seen)])
            # by their nodes, the graph of a run that is over would live on
            sums.append((count, [replace(s, nodes=(None, None), node=None) for s in seen]))
            return found

        asked: dict[str, Question] = {
            "branches": branches_on,
            "closing operation": lambda run, *_: self._closing(run.output),
            "linearity": lambda run, *_: self._affine_on(run),
        }
        if first in asked:  # which take no backward pass
            return asked
        gaps = Gaps.of(self.model)  # a run may give the model more parameters
        found: list[LastGradients] = []
        asked["leaks"] = lambda run, *_: leaking(run)
        asked["unaccounted"] = lambda run, *_: gaps.added(run)
        if self.loss is not None and self.targets is not None:
            asked["collinearity"] = lambda run, _, part: self._gathered(found, run, part)
        if first == "adjoints" and (self._fits or self._small):
            asked["adjoints"] = lambda run, *_: self._adjoints_on(run)
        return asked

    @cached_property
    def _at_once(self) -> int:
        """How many samples fit on a tape; all where one cannot be run by itself."""
        try:
            return at_once(self._scene, self._trace.calls)
        except Refusal:
            raise
        except Exception:  # noqa: BLE001 (the model takes batches of one size: it is run on those)
            return self.count

    def require_gradients(self, *, do: str) -> None:
        """Refuse what has no room for the gradient of the largest parameter.

        Args:
            do: What else can be done, as the end of a sentence.

        Raises:
            Refusal: With what is needed and what is allowed.
        """
        require_gradients(self._scene, self._trace.calls, do=do)

    @property
    def pieces(self) -> Iterator[tuple[Scene, slice]]:
        """The samples, as many at a time as fit on a tape."""
        if self._at_once >= self.count:
            return iter([(self._scene, slice(0, self.count))])
        return self._scene.pieces(self._at_once)

    @property
    def part(self) -> Scene:
        """As many samples as fit on a tape."""
        return next(iter(self.pieces))[0]

    @cached_property
    def pull(self) -> Tensor | None:
        """The derivative of the loss by the output, samples first; None where it has no samples.

        Raises:
            Refusal: If the loss does not accept the targets, or is not a scalar.
        """
        leaf = self.output.detach().clone().requires_grad_()
        with explaining(), torch.enable_grad():
            (found,) = torch.autograd.grad(self._scene.value(leaf), leaf)
        return self._scene.split(found)

    def loss_gradients(self) -> Iterator[tuple[str, Tensor]] | None:
        """Of the loss in every trained parameter, piece by piece; None where one tape holds all.

        Raises:
            Refusal: If the model mixes samples or is in training mode, so that it must be run on
                all at once, for which there is not enough memory.

        Cost: all pieces, forward and back, for each eighth of the memory allowed that gradients
        fill.
        """
        if self._at_once >= self.count:
            return None
        pull = self.pull
        if pull is None or self.mixing or any(m.training for m in self.model.modules()):
            raise Refusal(
                "it takes all samples on one tape, of a model in training mode or that mixes them, "
                f"and memory for {self._at_once} of {self.count} is allowed: allow more by "
                "`memory=` (`--memory`), or pass fewer samples"
            )
        return self._added_up(pull)

    def _added_up(self, pull: Tensor) -> Iterator[tuple[str, Tensor]]:
        names = {p: n for n, p in self.model.named_parameters() if p.requires_grad}
        for group, _ in gradient_turns(names):
            totals: dict[nn.Parameter, Tensor] = {}
            add = partial(_add, totals)
            for piece, part in self.pieces:
                # what layers write is on the tape: kept beside it, it would stay until the end
                with explaining(), piece.on_tape(listen=False) as run:
                    rows = run.scene.split(run.output)
                    assert rows is not None  # or there would be no `pull`
                    del run
                    backward(rows, pull[part], group, add, large=large(), parts=True)
                    del rows
            for p in group:
                yield names[p], totals.pop(p) if p in totals else torch.zeros_like(p)

    def _gathered(self, found: list[LastGradients], run: Taped, part: slice) -> list[LastGradients]:
        """With those of one more run."""
        pull = self.pull if run.scene.count < self.count else None
        found.append(last_gradients(run, None if pull is None else pull[part]))
        return found

    def _affine_on(self, run: Taped) -> bool:
        return is_affine(run.output, [*self.model.parameters()])

    def _branches_on(self, run: Taped, sums: list[tuple[int, list[Sum]]]) -> tuple[Branch, ...]:
        """With the sizes of the run in which normalisers take the statistics of the batch.

        Args:
            run: On whose tape the last sums are.
            sums: Of the runs of other samples before it and this one, with their samples.
        """
        counts = [count for count, _ in sums]
        seen, first = sums[-1][1], self._trace.operations
        if self._trace.frozen.seen:
            if first is None:
                raise Refusal("Sizes must be had of the first run, got one without.")
            seen = [replace(s, sizes=t.sizes) for s, t in zip(seen, first.sums, strict=True)]
        elif len(sums) > 1:
            seen = [averaged(of, counts) for of in zip(*(each for _, each in sums), strict=True)]
        return branches_of(self.model, seen, run.calls)

    def _closing(self, output: Tensor) -> str:
        return closing_operation(output, [p for p in self.model.parameters() if p.requires_grad])

    def _adjoints_on(self, run: Taped) -> Sweep:
        unknown = self._answers["unaccounted"]
        assert unknown is not None
        rest = leftovers(self.model, unknown, self._uncovered)
        if rest and not self._fits:
            raise Refusal("Draws are made by piece, got a run of all: they would be others.")
        return self._swept(self._differentiated, rest, run=run)


def _add(totals: dict[nn.Parameter, Tensor], p: nn.Parameter, more: Tensor) -> None:
    if p in totals:
        totals[p] += more
    else:
        totals[p] = more.clone()  # autograd may give one tensor twice, or a view of one number
