"""What every measurement is made on: the runs of a model, and what they answer.

One run without gradients gives the calls of layers, the output, what batch normalisers saw, weights
that are applied outside of layers, activations at the ends of their range and the sizes of what is
added up. One run on a tape, with the normalisers held at what they saw, is asked everything else
that needs a graph of all samples at once. The invariant: what fails in the common run is asked once
more by itself, so that sharing a run costs no answer and changes none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.core.guard import Refusal, door_of
from sigmascope.core.records import Brief, Spectrum
from sigmascope.linalg.krylov import Operator
from sigmascope.linalg.spectra import spectra
from sigmascope.models.curvature.conditioning import Conditioned, conditioning
from sigmascope.models.curvature.hessian import (
    Curvature,
    Kind,
    SelfCheck,
    chosen_parameters,
    curvature,
    self_check,
)
from sigmascope.models.jacobian.adjoints import Sweep, Sweeping, covers, sweep
from sigmascope.models.jacobian.ntk import (
    Gaps,
    exact_shares,
    leftovers,
    owners,
    require_separate,
    tangent_kernel,
    tangents,
    trace_of,
    unaccounted,
)
from sigmascope.models.jacobian.samples import (
    Collinearity,
    Extent,
    Jacobians,
    LastGradients,
    Whole,
    collinearity,
    extent,
    jacobians,
    last_gradients,
    leaking,
    mixing,
    with_leaves,
)
from sigmascope.models.layers import (
    Call,
    Unsplit,
    called,
    channel_dim,
    explaining,
    layers,
    module_name,
    normalisers,
    require_finite_batch,
    require_model,
    require_samples,
)
from sigmascope.models.samples import (
    Batch,
    Loss,
    Rows,
    Spectra,
    as_tensor,
    beside,
    of_output,
    prepared,
    require_compared,
    require_finite_targets,
    require_task,
    rows,
    sample_count,
    spectra_of,
)
from sigmascope.models.state import ALONE, still, unwrapped, uses_batch_statistics
from sigmascope.models.structure.attention import AttentionWeights, attentions
from sigmascope.models.structure.linear import LinearPair, Stack, is_affine, linear_pairs, stack_of
from sigmascope.models.structure.operations import (
    Branch,
    Squash,
    averaged,
    branches,
    branches_of,
    closing_operation,
    squashes,
)
from sigmascope.models.tape import (
    SMALL,
    Scene,
    Taped,
    at_once,
    backward,
    gradient_turns,
    held,
    large,
    require_gradients,
)
from sigmascope.models.trace import Operations, Sum, Tail, Trace, faithful, run_once, tail, traced
from sigmascope.models.weights import Weight, operators, weights

OUTPUT = "(output)"
Place = tuple[int, torch.Size, tuple[int, ...], torch.dtype]  # of numbers, and their order
MIXED = (
    "`{}` must be asked of a model that treats every sample by itself, got one in which {}. Take "
    "that operation over the batch out, or say `batch_dim=` (`--batch-dim`) if the samples lie "
    "along another dimension."
)
DREW = (
    "`{}` must be asked of a model that treats every sample by itself, got one that draws random "
    "numbers in evaluation mode, too: {}. Draw in training mode alone (`if self.training`)."
)
T = TypeVar("T")
Question = Callable[[Taped, Operations, slice], Any]  # of a run, and the samples it has
SOME, FEW = 16, 8  # outputs that are differentiated, or mixtures; of very many the latter
MANY = 2**16  # outputs of a sample from which a backward pass is dear and few must do
PIECEWISE = frozenset(("branches", "unaccounted", "collinearity", "adjoints"))  # of all runs


@door_of
@dataclass(frozen=True, repr=False)
class Subject(Brief):
    """A model held still on one batch; what is read from it is read once.

    The model is measured without dropout and without drift of its buffers. Batch normalisers found
    in training mode use the statistics of this batch, held constant under differentiation, so that
    the network is a function of one sample; found in evaluation mode they use their running
    statistics. A compiled model is measured through the module it was compiled from. Afterwards the
    model is bit for bit as it was.

    Args:
        model: Any module whose forward accepts the batch.
        batch: A tensor (the argument), a tuple (the arguments) or a mapping (keyword arguments).
            Floating tensors are taken to the model's device and dtype.
        targets: What `loss` compares the output with.
        loss: `loss(output, targets)` -> scalar, e.g. `torch.nn.functional.cross_entropy`; it needs
            targets.
        outputs: How many columns of the flattened output to differentiate (as many random mixtures
            of all where there are more), or which; 16 if not given, or 8 of more than 65536.
        batch_dim: Where the batch has its samples.
        generator: Draws the mixtures of outputs; a fixed one of its own if not given.

    Raises:
        Refusal: If the model or the batch cannot be measured.
    """

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
        require_compared(self.targets, self.loss)
        with ALONE:
            object.__setattr__(self, "model", unwrapped(self.model))
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
        """Every layer (see `models.layers`) by name, in the order of definition."""
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
        return self._traced()

    def _unwatched(self) -> None:
        """Make the first run, if there was none, for what asks no watchers: they are half of it.

        Whoever asks them afterwards has the model run again.
        """
        if "_trace" not in vars(self):
            vars(self)["_trace"] = self._traced(watched=False)

    def _traced(self, *, watched: bool = True) -> Trace:
        trace = traced(self.model, self.batch, self._listened, watched=watched)
        if self.batch_dim == 0:
            require_samples(self._own(trace.calls), self.batch, trace.output, count=self.count)
        if self.loss is not None and self.targets is not None:
            loss = of_output(self.loss, trace.output, trace.rule, self.targets)
            object.__setattr__(self, "loss", loss)
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
    def drew(self) -> bool:
        """Whether random numbers were drawn in the run, though the model was in evaluation mode."""
        return self._trace.drew

    @property
    def rows_held(self) -> int:
        """Bytes of what layers read and write, all of which is kept."""
        self._unwatched()
        return held(self._trace.calls)

    @cached_property
    def linear_pairs(self) -> tuple[LinearPair, ...]:
        """Layers with nothing but linear maps between; see `structure.linear_pairs`."""
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
    def _followed(self) -> Trace:
        """A run in which it was watched where weights are applied."""
        if self._trace.outside is None:  # which says why, if it cannot be
            return run_once(self.model, self.batch, self._listened, outside=True)
        return self._trace

    @property
    def uses_outside(self) -> tuple[str, ...]:
        """Weights that are applied where no layer is called, by name."""
        return self._followed.outside or ()

    @cached_property
    def unfed(self) -> frozenset[str]:
        """Sites that read nothing of the batch, learned queries say; none where all are so."""
        try:
            return self._followed.unfed
        except Exception:  # noqa: BLE001 (operations of the user's may refuse to be watched)
            return frozenset()

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
        too dear is left out (`models.weights.OPERATOR_WORK`).
        """
        with still(self.model), torch.no_grad():  # a parametrisation computes, and may remember
            return (*weights(self.model), *operators(self.calls))

    @cached_property
    def weight_spectra(self) -> tuple[tuple[Weight, Spectrum], ...]:
        """Every weight that is a matrix or a kernel, with its singular values.

        They are solved together, which is faster, and once for all that ask. An operator is asked
        for its own, `Weight.spectrum`: it costs more than all of these.
        """
        matrices = [w for w in self.weights if w.form != "operator"]
        return tuple(zip(matrices, spectra([w.matrix for w in matrices]), strict=True))

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
                if at in distinct or both.are_finite:
                    distinct[at] = matrix
        found = dict(zip(distinct, spectra_of([*distinct.values()]), strict=True))
        return {key: found[at] for key, at in places.items() if at in found}

    @cached_property
    def stack(self) -> Stack | str:
        """The plain stack of layers that the model is; or why it is none."""
        with still(self.model), torch.no_grad():  # a parametrisation computes, and may remember
            return stack_of(self.model, self.calls, self.batch, self.output)

    # What is asked of one run on a tape, or where it must be of a run of its own.

    @cached_property
    def scene(self) -> Scene:
        """The samples, and how the model is run on them."""
        frozen = self._trace.frozen  # first, for by it the loss is known
        return Scene(
            self.model,
            self.batch,
            self.targets,
            self.loss,
            self.batch_dim,
            self._listened,
            frozen,
        )

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Residual branches, in the order in which they are added; see `structure.branches`."""
        return self._asked("branches", lambda: branches(self.model, self.part.batch))

    @cached_property
    def attentions(self) -> tuple[AttentionWeights, ...]:
        """Attentions that are written out, in their order; none where no softmax is computed."""
        operations = self._trace.operations
        if operations is not None and not operations.softmaxes:
            return ()
        return attentions(self.model, self.part.batch)

    @cached_property
    def closing_operation(self) -> str:
        """What computes the output, in autograd's words; empty if no trained parameter does."""

        def alone() -> str:
            with still(self.model), torch.enable_grad():
                output = as_tensor(called(self.model, self.part.batch))[0]
                trained = [p for p in self.model.parameters() if p.requires_grad]
                return closing_operation(output, trained)

        return self._asked("closing operation", alone)

    @cached_property
    def is_affine(self) -> bool:
        """Whether what the last weight writes comes from the inputs by linear operations alone."""

        def alone() -> bool:
            with with_leaves(self.part).on_tape() as run:
                return is_affine(run.output, [*self.model.parameters()])

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
        if whole.rows is None or len(whole.rows) < self.count:  # of some; the rest as all had
            rows = self.scene.split(self.output)
            whole = replace(whole, rows=None if rows is None else rows.detach().cpu())
        return mixing(self.scene, whole)

    @cached_property
    def mixed(self) -> Extent | None:
        """How much samples mix; None where they do not, or outputs are drawn.

        Cost: as `mixing`; a forward pass and a half more where they do.
        """
        known = self.mixing and not self.drew  # a draw is another one in another place
        rows = self.scene.split(self.output) if known else None
        return None if rows is None else extent(self.scene, rows.detach().cpu())

    @cached_property
    def unaccounted(self) -> frozenset[str]:
        """Trained parameters whose gradients the calls of layers do not explain, by name.

        Raises:
            Refusal: If autograd cannot differentiate by a parameter.

        Cost: one backward pass on the common tape, once.
        """
        return self._asked("unaccounted", lambda: unaccounted(self.scene, size=self._at_once))

    @property
    def owners(self) -> dict[str, str]:
        """For every module, the one at which its share of the tangent kernel is counted."""
        return owners(self.model, self._uncovered)

    @property
    def leftovers(self) -> dict[str, list[nn.Parameter]]:
        """Trained parameters whose share of the tangent kernel no formula gives, by module."""
        return leftovers(self.model, self.unaccounted, self._uncovered)

    @property
    def _uncovered(self) -> tuple[str, ...]:
        """Layers whose share of the tangent kernel no formula covers, by name."""
        whole = {module_name(c.site) for c in self.calls if self.scene.split(c.output) is None}
        return tuple(n for n, m in self.modules.items() if n in whole or not covers(m))

    @cached_property
    def adjoints(self) -> Sweep:
        """`∂ output / ∂ preactivation` of every layer, for every sample on its own.

        One forward pass, unless all samples fit on the common tape, and one backward pass per
        output.
        """
        self._share("adjoints")
        self.require_apart("adjoints")

        def alone() -> Sweep:
            try:
                rest = self.leftovers
            except Refusal:  # not differentiable by its parameters; by what layers write, perhaps
                rest = {}
            return self._swept(self._differentiated, rest)

        return self._asked("adjoints", alone)

    def require_apart(self, asked: str) -> None:
        """Refuse what is asked of single samples where the model mixes them.

        Args:
            asked: What is asked.

        Raises:
            Refusal: If it does.
        """
        if self.mixing:
            raise Refusal(self._mixes(asked))

    def _mixes(self, asked: str) -> str:
        return (DREW if self.drew else MIXED).format(asked, self.mixing)

    def _swept(
        self,
        outputs: int | Sequence[int],
        uncovered: Mapping[str, Sequence[Tensor]],
        *,
        grams: bool = True,
    ) -> Sweep:
        size = self._piece(outputs)
        return sweep(
            self.scene, Sweeping(outputs, uncovered, self._generator, grams=grams), size=size
        )

    def _piece(self, outputs: int | Sequence[int]) -> int:
        size = self.scene.fitting(entries=self._entries, columns=self._columns(outputs))
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
        return FEW if self._total > MANY else SOME

    @property
    def _total(self) -> int:
        """Outputs of one sample."""
        return self.output.numel() // self.count

    def _columns(self, outputs: int | Sequence[int]) -> int:
        wanted = outputs if isinstance(outputs, int) else len(outputs)
        return min(wanted, self._total)

    def _held_at_once(self, outputs: int | Sequence[int]) -> bool:
        """Whether adjoints of all samples are few enough to be held to save a run."""
        return self._entries * self._columns(outputs) <= SMALL and self._at_once >= self.count

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
        asked = self._questions(question).items()
        questions = {name: ask for name, ask in asked if name not in self._answers}
        self._answers.update(dict.fromkeys((question, *questions)))
        # whatever fails here fails again, with its words, where it is asked by itself
        try:
            for piece, part in self._cut(self._together(question)):
                if part.start == 0 or questions.keys() & PIECEWISE:
                    self._run(piece, part, questions)
        except Exception:  # noqa: BLE001 (of some pieces nothing is known: each is asked again)
            self._answers.update(dict.fromkeys(questions))

    def _together(self, question: str) -> int:
        """How many samples a common run takes at once.

        As many as fit on a tape, and for adjoints as few as a sweep of its own would take: these
        are then had of the same runs. Where that would be one by one, nothing shows whether samples
        mix.
        """
        if question != "adjoints" or self._held_at_once(self._differentiated):
            return self._at_once
        size = self._piece(self._differentiated)
        return self._at_once if size < 2 else size

    def _run(self, piece: Scene, part: slice, questions: dict[str, Question]) -> None:
        """Ask one run; what fails is asked no more."""
        operations = Operations(sizes=not self._trace.frozen.seen)
        watch = operations if "branches" in questions else None
        with with_leaves(piece).on_tape(watch=watch) as run:
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
        trained = lambda: [p for p in self.model.parameters() if p.requires_grad]
        counts: list[int] = []
        sums: list[list[Sum]] = []  # of the runs of other samples so far
        sweeps: list[Sweeping] = []  # one, of all runs

        def branches_on(run: Taped, operations: Operations, _: slice) -> tuple[Branch, ...]:
            seen, whole = operations.sums, self._trace.operations
            counts.append(run.scene.count)
            if self._trace.frozen.seen:  # sizes are those of the batch's own statistics
                if whole is None:
                    raise Refusal("Sizes must be had of the first run, got one without.")
                sized = [replace(s, sizes=t.sizes) for s, t in zip(seen, whole.sums, strict=True)]
            elif sums:
                sized = [averaged(of, counts) for of in zip(*sums, seen, strict=True)]
            else:
                sized = seen
            # by their nodes, the graph of a run that is over would live on
            sums.append([replace(s, nodes=(None, None), node=None) for s in seen])
            return branches_of(self.model, sized, run.calls)

        def adjoints_on(run: Taped, _: Operations, part: slice) -> Sweep:
            unknown, whole = self._answers["unaccounted"], self._answers["leaks"]
            assert unknown is not None
            if whole is None or whole.leaks:
                raise Refusal("Adjoints are of samples that do not mix, got some that do.")
            rest = leftovers(self.model, unknown, self._uncovered)
            if rest and run.scene.count > self._piece(self._differentiated):
                raise Refusal("Draws are made by piece, got a run of all: they would be others.")
            if part.start == 0:
                sweeps.append(Sweeping(self._differentiated, rest, self._generator))
            elif rest != sweeps[0].uncovered:
                raise Refusal("Parameters that no formula covers must be known at first.")
            sweeps[0].add(run, keep=True)
            return sweeps[0].whole()

        def shares_on(run: Taped, *_: Any) -> Sweep:
            sweeping = Sweeping(self._total, {}, self._generator, grams=False)
            sweeping.add(run, keep=True)
            return sweeping.whole()

        structure: dict[str, Question] = {
            "branches": branches_on,
            "closing operation": lambda run, *_: closing_operation(run.output, trained()),
            "linearity": lambda run, *_: is_affine(run.output, [*self.model.parameters()]),
        }
        if first in structure:  # which take no backward pass
            return structure
        # whoever wants the trace alone, and has it in a few passes, seldom asks what these tell
        asked = {} if first == "ntk_trace" else structure
        gaps = Gaps.of(self.model)  # a run may give the model more parameters
        found: list[LastGradients] = []
        asked["leaks"] = lambda run, *_: leaking(run)
        if first != "leaks":  # a quick look asks no more; what does has a run of its own for it
            asked["unaccounted"] = lambda run, *_: gaps.added(run)
        if self.loss is not None and self.targets is not None:
            asked["collinearity"] = lambda run, _, part: self._gathered(found, run, part)
        if first == "adjoints":
            # where nothing is drawn, all outputs say or some that were named, and few numbers are
            # held, those of all samples are worth it
            wanted, size = self._differentiated, self._together(first)
            named = self._columns(wanted) == self._total or not isinstance(wanted, int)
            if size <= self._piece(wanted) or (named and self._held_at_once(wanted)):
                asked["adjoints"] = adjoints_on
        if first == "ntk_trace" and self._held_at_once(self._total):
            asked["ntk_trace"] = shares_on
        return asked

    @cached_property
    def _at_once(self) -> int:
        """How many samples fit on a tape; all where one cannot be run by itself."""
        try:
            return at_once(self.scene, self._trace.calls)
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
        require_gradients(self.scene, self._trace.calls, do=do)

    @property
    def pieces(self) -> Iterator[tuple[Scene, slice]]:
        """The samples, as many at a time as fit on a tape."""
        return self._cut(self._at_once)

    def _cut(self, size: int) -> Iterator[tuple[Scene, slice]]:
        if size >= self.count:
            return iter([(self.scene, slice(0, self.count))])
        return self.scene.pieces(size)

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
            (found,) = torch.autograd.grad(self.scene.value(leaf), leaf)
        return self.scene.split(found)

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

    def once(self, read: Callable[[Self], T]) -> T:
        """What a function reads of this subject; it is called the first time, and never again."""
        if read not in self._read:
            self._read[read] = read(self)
        return self._read[read]

    @cached_property
    def _read(self) -> dict[Callable[..., Any], Any]:
        return {}

    @cached_property
    def ntk_trace(self) -> Float64[Tensor, " n"]:
        """`Tr Θ(x, x)` of every sample over all outputs, exactly.

        One backward pass per output, without the Gram matrices of the adjoints, on the common tape;
        where that would hold much, on one more forward pass by pieces. Parameters that are used
        outside of layers, or in another form than their layer's (see `unaccounted`), are
        differentiated by one sample after the other, which takes a backward pass for each sample
        and output.

        Raises:
            Refusal: If a layer has gradients that no formula covers, or is used more than once, so
                that gradients add up before they are squared; or if samples mix.
        """
        self._unwatched()
        self._share("ntk_trace")
        self.require_apart("ntk_trace")
        require_separate(self.model, [c.site for c in self.calls], self._uncovered)
        rest = self.leftovers
        alone = lambda: self._swept(self._total, {}, grams=False)
        by_formula = trace_of(self._asked("ntk_trace", alone), self.count, without=rest)
        return by_formula + exact_shares(self.scene, [p for o in rest.values() for p in o])

    @cached_property
    def gradients(self) -> Collinearity | None:
        """How alike the last-layer gradients of single samples are; None as `unsplit` says."""
        return None if isinstance(self._gradients, str) else self._gradients

    @property
    def unsplit(self) -> str:
        """Why there are no gradients of single samples; empty where there are."""
        return self._gradients if isinstance(self._gradients, str) else ""

    @cached_property
    def _gradients(self) -> Collinearity | str:
        if self.loss is None or self.targets is None:
            return "no targets with a loss were given"
        self._share("collinearity")
        if self.mixing:
            return self._mixes("gradients")

        def alone() -> list[LastGradients]:
            parts: list[LastGradients] = []
            for piece, part in self.pieces:
                with piece.on_tape() as run:
                    self._gathered(parts, run, part)
                    del run
            return parts

        try:
            found = collinearity(self._asked("collinearity", alone))
        except Unsplit as reason:  # the rest of the model is measured all the same
            return str(reason)
        # the gradient in one call of a layer need not be that of its weight
        name = module_name(found.site)
        if sum(module_name(c.site) == name for c in self.calls) > 1:
            return f"the last layer `{name}` is called more than once, and its gradients add up"
        weight = f"{name}.weight" if name else "weight"
        if any(p.requires_grad for p in self.model.parameters()) and weight in self.unaccounted:
            return f"`{weight}`, of the last layer, is used outside of it or in another form too"
        return found

    @cached_property
    def conditioning(self) -> Conditioned:
        """How well conditioned learning is in every layer, under the loss or squared error.

        One forward pass, and one backward pass for each output.
        """
        self._unwatched()
        self.require_apart("conditioning")
        return conditioning(self.scene)

    def curvature(
        self, kind: Kind = "hessian", *, layers: Sequence[str] | None = None
    ) -> Curvature:
        """The curvature of the loss in all parameters, or in those of some layers.

        Batch normalisers in training mode mix the samples here, as they do in training.

        Args:
            kind: `"hessian"`, `"gauss-newton"` (of squared error without targets and loss), or
                `"fisher"`, the empirical one.
            layers: Modules whose parameters are meant, with those of their parts.

        Raises:
            Refusal: If a layer is unknown or not trained, or targets and loss are missing.

        Cost: one forward and backward pass; one pass along both for each product.
        """
        self._unwatched()
        return curvature(self.scene, kind, chosen_parameters(self.model, layers))

    @cached_property
    def self_check(self) -> SelfCheck:
        """Second derivatives of this model by autograd against finite differences, once."""
        self._unwatched()
        return self_check(self.scene)

    @cached_property
    def jacobians(self) -> Jacobians:
        """Singular values of `∂f(x)/∂x` at every sample.

        One forward pass, and one backward pass for each output, or 64 of mixtures of many.
        """
        self._unwatched()
        self.require_apart("jacobians")
        return jacobians(self.scene, self._generator)

    def tangent_kernel(self, *, layers: Sequence[str] | None = None) -> Operator:
        """`Θ(X, X)` over the batch, every output of every sample after the other.

        Args:
            layers: Modules whose parameters are meant, with those of their parts.

        Raises:
            Refusal: If a layer is unknown, or nothing there is trained.

        Cost: two forward and three backward passes for each product, on 64 samples at a time.
        """
        self._unwatched()
        self.require_apart("tangent_kernel")
        owned = chosen_parameters(self.model, layers)
        return tangent_kernel(self.scene, owned, outputs=self._total)

    def tangents(self, draws: int) -> Float64[Tensor, "draws n k"]:
        """What random steps of all weights, of one size, change in the output of each sample.

        To first order, in one row for each sample.

        Cost: one forward pass and one backward, and another one back for each draw.
        """
        self._unwatched()
        self.require_apart("tangents")
        return tangents(self.scene, chosen_parameters(self.model, None), draws)


def _add(totals: dict[nn.Parameter, Tensor], p: nn.Parameter, more: Tensor) -> None:
    if p in totals:
        totals[p] += more
    else:
        totals[p] = more.clone()  # autograd may give one tensor twice, or a view of one number
