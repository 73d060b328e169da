"""A step of a script, from its batch to its loss, recorded so that it can be computed again.

What a script computes itself, outside of modules with parameters, is heard by a function mode of
torch; a call of such a module is heard as one. From the loss of a backward pass one goes back along
what was heard, to the calls of modules and to the tensors that came from the batch. What lies
before or between calls of modules is the model; what lies behind them is the loss. So a loss that
is written out, of two outputs, of several modules or of a module called twice is a program like
another: a model, a batch, and a function of output and targets.

The invariant: the loss computed again from what the modules gave is the loss that was, to rounding;
where it is not, there is no step. Nothing is heard inside of modules, where a function mode would
turn fast paths of torch off or be compiled, nor at all once a function is compiled.
"""

import inspect
import math
import sys
import weakref
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from sigmascope.core.guard import Refusal, random_states
from sigmascope.diagnosis import Program
from sigmascope.diagnosis.programs import fitting_loss
from sigmascope.diagnosis.programs.data import rows_of, together
from sigmascope.models.layers import called
from sigmascope.models.samples import mapped, tensors
from sigmascope.models.state import duplicate, still, unwrapped

# which compute things of their own
OWN = {str(Path(__file__).with_name(f"{name}.py")) for name in ("observer", "comparisons")}
BEFORE = 64  # calls that are kept before a module is called: what is made of the batch
BEHIND = 1 << 14  # calls behind it, beyond which a step is not recorded
SMALL = 1 << 20  # numbers of a tensor that is kept before a module is called
CALLS = 64  # of modules in a step, beyond which it is no batch
LEAST = 16  # samples of which something is said
ALIKE = 1e-4  # relative difference of a loss that is computed again
LARGEST = 1 << 26  # numbers that are held at once, beyond which a step is not recorded
DRAWN = frozenset({
    "rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "randperm", "random",
    "normal", "uniform", "bernoulli", "multinomial", "poisson", "exponential", "geometric",
    "cauchy", "log_normal", "rrelu", "gumbel_softmax", "dropout", "dropout1d", "dropout2d",
    "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout",
})  # fmt: skip
# without `empty`, which something unheard has filled: a batch that comes from another process, say
OF_NOTHING = frozenset({
    "arange", "eye", "full", "linspace", "logspace", "ones", "tril_indices", "triu_indices",
    "zeros",
})  # fmt: skip
MADE = OF_NOTHING | {
    "empty", "tensor", "as_tensor", "asarray", "rand", "randn", "randint", "randperm",
}  # fmt: skip
# those whose numbers depend on nothing else; two draws are hardly ever alike
SOURCES = frozenset({
    "rand", "randn", "rand_like", "randn_like", "randperm", "randint", "uniform", "normal",
    "exponential", "log_normal", "cauchy",
})  # fmt: skip
NOISES = ("randn", "randn_like")  # of which two in a step may be meant to be one
FIRST, FEW_OF_EACH = 64, 8  # numbers by which a batch is known again, of one dimension or more
UNSEEN = -1e4  # a score that no softmax sees
ENOUGH = 8  # numbers of a draw, that do not come again by chance
# what leads out of the graph; `normal` draws of what it is given, and gives nothing back to it
CUTS = frozenset(("detach", "data", "item", "numpy", "tolist", "normal"))
MASKING = ("masked_fill", "multi_head_attention_forward", "scaled_dot_product_attention")
MAXIMA = ("max", "amax", "gather")  # of values of actions, as of a step that lies ahead
WALKS = 3  # graphs that are followed from one place
NODES = 20_000  # of a graph, at which one stops
SHAPED = ("view", "reshape")
GATHERED = ("getitem", "index_select", "gather")  # rows, as what a node sends along its edges
ADDED = ("index_add", "scatter_add", "scatter_reduce", "index_reduce")  # into rows
EXCHANGED = 64  # numbers of a tensor whose shape is looked at
INDEXED = ("getitem", "gather", "index_select", "take", "embedding")
SAMPLES = 128  # that a diagnosis takes
LOSSES = (
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "triplet_margin_loss",
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "gaussian_nll_loss",
    "poisson_nll_loss",
)
OF_VALUES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")  # not of probabilities
LAID_OUT = (  # operations that lay numbers out otherwise
    "Squeeze",
    "View",
    "Unsqueeze",
    "UnsafeView",
    "Reshape",
    "Alias",
    "ToCopy",
    "Clone",
    "Select",
    "Slice",
)
JOINED = ("Stack", "Cat")  # operations that put several tensors together
ELEMENTWISE = ("sub", "add", "mul", "div", "pow", "subtract", "multiply", "divide", "true_divide")


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a tensor stands among those of a step."""

    index: int


@dataclass(frozen=True, slots=True, eq=False)
class StepCall:
    """One function of torch, or one module, that was called with what stands in slots.

    Attributes:
        function: Of torch; None for a module.
        root: Which module of the step; None for a function.
        args: With slots in the place of tensors.
        named: The same.
        out: Slots of the tensors that came out, in their order.
        inner: Whether a module is called with what comes of it.
        cast: Device and precision of the automatic casting that it was called under, if any.
    """

    function: Callable[..., Any] | None
    root: int | None
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    out: tuple[int, ...]
    inner: bool
    cast: tuple[str, torch.dtype] | None = None

    @property
    def name(self) -> str:
        """Of the function, without underscores."""
        return _name(self.function) if self.function else ""

    @property
    def read(self) -> Iterator[int]:
        """Slots of what it is called with."""
        return _slots((self.args, self.named))

    def again(self, held: dict[int, Any], modules: Sequence[nn.Module]) -> Any:
        """The same with what is held now, which then holds what came out."""
        args, named = (_filled(part, held) for part in (self.args, self.named))
        if self.root is not None:
            found = modules[self.root](*args, **named)
        elif self.name == "setitem":
            found = args[0].clone()
            found[args[1]] = args[2]
        else:
            assert self.function is not None
            if self.name in INDEXED and any(t.device.type != "cpu" for t in tensors((args, named))):
                require_within(self.function, args, named)
            cast = self.cast and torch.autocast(self.cast[0], self.cast[1])
            with cast or nullcontext():
                try:
                    found = self.function(*args, **named)
                except RuntimeError:
                    if self.name not in SHAPED:
                        raise
                    # sizes of another batch were written into it
                    sizes = args[1] if isinstance(args[1], tuple | list) else args[1:]
                    found = args[0].reshape(-1, *sizes[1:])
        for slot, value in zip(self.out, tensors(found), strict=True):
            held[slot] = value
        return found


@dataclass(slots=True, eq=False, repr=False)
class Step:
    """From the batch to the loss.

    Attributes:
        calls: In their order.
        modules: Copies of those that are called, as they were before the first step.
        consts: What is neither of the batch nor computed, by slot.
        batches: Tensors of the batch, by slot; one mapping for each batch that was seen.
        loss: Slot of the loss.
        rows: Samples of a batch.
        form: By which it is known again: what was called, with which shapes.
        inside: The loss of torch that its module computed itself.
    """

    calls: tuple[StepCall, ...]
    modules: tuple[nn.Module, ...]
    consts: dict[int, Any]
    batches: list[dict[int, Tensor]]
    loss: int
    rows: int
    form: tuple[Any, ...] = ()
    inside: "Inside | None" = None

    @property
    def model_calls(self) -> tuple[StepCall, ...]:
        """Calls of modules, and what is computed for them."""
        return tuple(c for c in self.calls if c.root is not None or c.inner)

    @property
    def loss_calls(self) -> tuple[StepCall, ...]:
        """What is computed behind the last module that each of them needs."""
        return tuple(c for c in self.calls if c.root is None and not c.inner)

    @property
    def inputs(self) -> tuple[int, ...]:
        """Slots of the batch that the model reads."""
        return self._read(self.model_calls)

    @property
    def targets(self) -> tuple[int, ...]:
        """Slots of the batch that the loss reads."""
        return self._read(self.loss_calls)

    def _read(self, calls: Sequence[StepCall]) -> tuple[int, ...]:
        slots = (s for c in calls for s in c.read)
        return tuple(dict.fromkeys(s for s in slots if s in self.batches[0]))

    @property
    def outputs(self) -> tuple[int, ...]:
        """Slots of what the loss reads of the model."""
        made = {s for c in self.model_calls for s in c.out}
        read = [s for c in self.loss_calls for s in c.read]
        return tuple(dict.fromkeys(s for s in (*read, self.loss) if s in made))

    @property
    def single(self) -> StepCall | None:
        """The one call of the one module that is called with tensors of the batch as they are.

        With tensors in their order, or by their names; numbers that go beside names are left out.
        """
        calls = self.model_calls
        if len(calls) != 1:
            return None
        call, batch = calls[0], self.batches[0]
        own = lambda part: isinstance(part, Slot) and part.index in batch
        spare = lambda part: (
            part is None
            or (isinstance(part, Slot) and getattr(self.consts.get(part.index), "ndim", 1) == 0)
        )
        in_order = bool(call.args) and not call.named and all(map(own, call.args))
        by_name = not call.args and any(map(own, call.named.values()))
        by_name = by_name and all(own(p) or spare(p) for p in call.named.values())
        return call if in_order or by_name else None

    def given(self, batch: Mapping[int, Tensor]) -> Any:
        """What `model()` is called with, of a batch."""
        single = self.single
        if single is not None and not single.args:
            named = {k: p.index for k, p in single.named.items() if isinstance(p, Slot)}
            return {k: batch[s] for k, s in named.items() if s in batch}
        slots = self.inputs if single is None else [p.index for p in single.args]
        found = tuple(batch[s] for s in slots)
        return found[0] if len(found) == 1 else found

    def wanted(self, batch: Mapping[int, Tensor]) -> Any:
        """What `lost` takes beside an output, of a batch; None where it takes nothing."""
        found = tuple(batch[s] for s in self.targets)
        return found[0] if len(found) == 1 else found or None

    def model(self) -> nn.Module:
        """The module that is called, or all of them and what is between them as one."""
        single = self.single
        return self.modules[0] if single is not None else Steps(self)

    def read_of(self, output: Any) -> tuple[Tensor, ...]:
        """What the loss reads of an output of `model()`."""
        if self.single is None:
            return tuple(tensors(output))
        held = dict(zip(self.single.out, tensors(output), strict=True))
        return tuple(held[s] for s in self.outputs)

    def lost(self, output: Any, targets: Any) -> Tensor:
        """The loss of an output of the model.

        Args:
            output: Of `model()`.
            targets: Tensors of the batch that the loss reads; one that is alone is no tuple.
        """
        held = dict(self.consts)
        slots = self.single.out if self.single is not None else self.outputs
        held.update(zip(slots, tensors(output), strict=True))
        given = (targets,) if isinstance(targets, Tensor) else tuple(targets or ())
        held.update(zip(self.targets, given, strict=True))
        for call in self.loss_calls:
            call.again(held, ())
        return held[self.loss]


class Steps(nn.Module):
    """Several modules, and what a script computes between them, as one."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step
        self.names = []
        for module in step.modules:
            word = type(module).__name__.lower()
            name = word if word not in self.names else f"{word}_{len(self.names)}"
            self.add_module(name, module)
            self.names.append(name)

    def forward(self, *given: Tensor) -> Any:
        """What the loss reads, of the tensors of the batch that modules read."""
        step = self.step
        held = {**step.consts, **dict(zip(step.inputs, given, strict=True))}
        modules = [getattr(self, name) for name in self.names]
        for call in step.model_calls:
            call.again(held, modules)
        found = tuple(held[s] for s in step.outputs)
        return found[0] if len(found) == 1 else found


@dataclass(slots=True, eq=False)
class _Heard:
    function: Callable[..., Any] | None
    module: nn.Module | None
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    out: Any
    cast: tuple[str, torch.dtype] | None = None

    @property
    def given(self) -> list[Tensor]:
        """Tensors that it was called with."""
        return [*tensors((self.args, self.named))]


@dataclass(slots=True)
class GraphCut:
    """A place at which tensors are taken out of the graph.

    Attributes:
        how: The function that does it.
        count: How often.
        largest: Numbers of the largest of them.
        behind: Parameters that lead to them, by identity.
        fed: How often a module that led to one of them was called with it.
        across: How often another module was, or with what is made of one of them.
        carried: How often it was of what a module gave before the last backward pass.
        lost: How often a loss was made of it by no module, and of nothing else that leads there.
        fresh: Whether no optimizer has stepped since.
        due: Those of `behind` that the optimizer has which stepped next.
        out: The last ones.
        less: The last one that is a difference, and the node of what was taken away in it.
    """

    how: str
    count: int = 0
    largest: int = 0
    behind: set[int] = field(default_factory=set)
    fed: int = 0
    across: int = 0
    carried: int = 0
    lost: int = 0
    fresh: bool = True
    due: set[int] = field(default_factory=set)
    out: list[weakref.ref[Tensor]] = field(default_factory=list)
    less: tuple[weakref.ref[Tensor] | None, Any] = (None, None)


class Recorder(TorchFunctionMode):
    """Hears what a script computes outside of its modules, until a backward pass asks for it.

    Args:
        place: The line of the script that is being run.

    Attributes:
        spreads: Operations that spread an output over targets of another rank, and these over it:
            name, both shapes, place; how often.
        unheard: Why the last step that was asked for could not be told.
        cuts: What is taken out of the graph, by place, while one looks for that.
        attached: Differences of an output and of a sum that is made of the same weights, which a
            gradient goes through, by function and place; how often. As `log_prob` products of what
            a network gives and of log probabilities of draws, which it goes through, too.
        turned: How often weighted log probabilities were such that the loss rises with them, by
            place; and how often there were any.
        bootstraps: Where a maximum is taken of what a model gives without gradients, by identity.
        looking: Whether one does.
        shares: Where logarithms of shares were taken last, while one looks.
        again: How often, from one backward pass to the next, a draw had the numbers of the one
            before, and how often there was one, by function, place and shape.
        scored: Whether the probability of anything was asked for, of a distribution that learns.
        drops: Whether a function drops numbers within a module, where that is in training mode.
        hidden: Masks of attention, and where, while one looks: what is hidden, one row a sample.
        within: Whether a module with parameters is running, of which nothing else is heard.
        ahead: Modules, by identity, of whose output without gradients and of data a sum is made, as
            targets are that look ahead; or such sums, which are detached behind it.
        draws: How often of two draws alike one went into a module and the other one alone was an
            index, or what an output is compared with, by the places of both.
        reordered: How often a tensor was given a shape of the same lengths in another order, by
            place and both shapes.
        laid: Where a row of whole numbers was laid out as several, by its memory.
        parts: Which samples of what a model gives without gradients are looked at apart.
        overlaps: Between which numbers outputs lie that an overlap with zeros and ones is taken of,
            as what both have in common over the sum of both, by place.
        returned: How often rows that are gathered at the ends of edges were added up at the same
            ends, by the places of both.
    """

    def __init__(self, place: Callable[[], Any]) -> None:
        self.spreads = Counter[tuple[str, tuple[int, ...], tuple[int, ...], Any]]()
        self.unheard = ""
        self.attached = Counter[Any]()
        self.cuts, self.turned = dict[Any, GraphCut](), dict[Any, tuple[int, int]]()
        self._sums = set[Any]()  # nodes of the graph that add data to what a model gives
        # made of logarithms of probabilities, by identity, with these
        self._scores = dict[int, tuple[Tensor, Tensor]]()
        self._acts = deque[weakref.ref[Tensor]](maxlen=BEFORE)  # drawn, with no way back
        self._of_acts = set[int]()  # logarithms of their probabilities, by identity
        self.looking, self.within, self.scored = True, False, False
        self.drops = False
        self.hidden = list[tuple[Any, Tensor]]()
        self.bootstraps = dict[int, Any]()
        self.ahead, self.draws = set[int](), Counter[Any]()
        self.reordered, self.laid = Counter[Any](), dict[int, Any]()
        self.parts = list[Tensor]()
        self.returned = Counter[Any]()
        self.overlaps = dict[Any, tuple[float, float]]()
        # an output, zeros and ones that it was multiplied by, that product, and numbers that are
        # fewer and made of them, by identity: with what they are made of
        self._made_of = dict[int, tuple[Tensor, frozenset[str]]]()
        # rows that are gathered by one end of edges, and what is made of each: that end, and where
        self._sent = dict[int, tuple[weakref.ref[Tensor], Tensor, Any]]()
        self._alike: list[tuple[Any, Any, Tensor]] = []  # draws of this pass: how, where
        self.shares: Any = None
        self._quiet: tuple[int, list[weakref.ref[Tensor]]] = 0, []  # and what is made of it
        self._passes = 0  # backward passes
        self._gave = dict[int, tuple[int, weakref.ref[Tensor]]]()  # what modules gave, and when
        self.again = dict[Any, tuple[int, int]]()
        self._made = deque[weakref.ref[Tensor]](maxlen=ENOUGH)  # of no data, within modules too
        self._draws = dict[Any, tuple[int, float]]()  # the pass of the last one, and its sum
        self._place = place
        self._heard, self._size = deque[_Heard](maxlen=BEFORE), 0
        self._live = self._ended = False
        self._copies: dict[int, tuple[nn.Module, nn.Module]] = {}

    # --------------------------------------------------------------------------
    # Hearing.

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        func = getattr(func, "observed", func)  # a loss that is observed is called once
        found = func(*args, **(kwargs or {}))
        name = _name(func)
        own = sys._getframe(1).f_code.co_filename in OWN and name not in LOSSES
        if self._ended or own:
            return found
        if self.within and "dropout" in name:
            rate = (kwargs or {}).get("p", args[1] if len(args) > 1 else 0.5)
            self.drops = self.drops or rate > 0
        if name in OF_NOTHING and isinstance(found, Tensor):
            self._made.append(weakref.ref(found))
        if name in SOURCES and isinstance(found, Tensor) and found.numel() >= ENOUGH:
            with suppress(Exception):
                shape, value = mark_of(found)  # whether it is that of the step before
                key = name, self._place(), shape
                last, before = self._draws.get(key, (self._passes, math.nan))
                if last < self._passes:
                    same, of = self.again.get(key, (0, 0))
                    self.again[key] = same + (value == before), of + 1
                if last < self._passes or math.isnan(before):
                    self._draws[key] = self._passes, value
                if self.looking and name in ("randint", *NOISES):
                    how = str((args, {k: v for k, v in (kwargs or {}).items() if k != "generator"}))
                    how = how if name == "randint" else f"noise of {tuple(found.shape)}"
                    self._alike.append((how, self._place(), found))
        if not torch.is_grad_enabled():
            if self.looking:
                with suppress(Exception):
                    self._look_without(name, args, found)
            return found
        with suppress(Exception):  # nothing that is heard may stop training
            if self.looking:
                if name == "log_softmax":
                    self.shares = self._place()
                if name in SHAPED and args[0].shape != found.shape:
                    shapes = tuple(args[0].shape), tuple(found.shape)
                    if [*map(len, shapes)] == [1, 2] and found.dtype == torch.long:
                        self.laid[found.untyped_storage().data_ptr()] = self._place()
                    # of lengths of one, and of few, another order says little
                    if sorted(shapes[0]) == sorted(shapes[1]) and found.numel() >= EXCHANGED:
                        long = [[n for n in shape if n > 1] for shape in shapes]
                        self.reordered[self._place(), shapes] += long[0] != long[1]
                if isinstance(found, Tensor):
                    self._overlap(name, args, found)
                if name in ADDED:
                    self._arrive(*(*args, *(kwargs or {}).values())[2:4])
                elif isinstance(found, Tensor) and found.ndim > 1:
                    self._send(name, [*tensors((args, kwargs or {}))], found)
                if name in MASKING and (mask := _hidden(name, args, kwargs or {})) is not None:
                    self.hidden.append((self._place(), mask))
                if name in CUTS and isinstance(args[0], Tensor) and args[0].grad_fn is not None:
                    self._cut(name, args[0], found)
                elif self.cuts and isinstance(found, Tensor) and not self._passes_by(name, args):
                    self._derive(args, found)
            if not self.within:
                named = kwargs or {}
                if name in MADE and isinstance(found, Tensor) and "device" not in named:
                    named = {**named, "device": found.device}  # also where the default is another
                device = found.device.type if isinstance(found, Tensor) else "cpu"
                on = torch.is_autocast_enabled(device)
                cast = (device, torch.get_autocast_dtype(device)) if on else None
                self._hear(_Heard(func, None, args, named, found, cast), name)
        return found

    def _send(self, name: str, given: list[Tensor], found: Tensor) -> None:
        """Rows are gathered by one end of edges, or something is made of such rows, each alone."""
        if name in GATHERED and len(given) == 2 and (end := _end_of(given[1])) is not None:
            self._sent[id(found)] = weakref.ref(found), end, self._place()
        elif self._sent:
            rows = [t for t in given if not (t.is_leaf and t.requires_grad)]  # beside weights
            sent = self._sent.get(id(rows[0] if rows[0].ndim > 1 else rows[-1])) if rows else None
            if sent is None or (first := sent[0]()) is None:
                return
            # alone, or each with a number of its own edge
            weighed = len(rows) == 2 and name in ("mul", "div")
            weighed = weighed and min(t.numel() for t in rows) == len(first) < first.numel()
            if (len(rows) == 1 or weighed) and len(found) == len(first):
                self._sent[id(found)] = weakref.ref(found), *sent[1:]

    def _arrive(self, index: Tensor, rows: Tensor) -> None:
        """Rows are added up: whether where they were gathered, each to what it is of."""
        ref, end, where = self._sent.get(id(rows), (None, None, None))
        if ref is None or end is None or ref() is not rows:
            return
        to = index if index.ndim == 1 else index.flatten(1)[:, 0]
        self.returned[where, self._place()] += torch.equal(to, end)

    def _overlap(self, name: str, args: Any, found: Tensor) -> None:
        """Something of how far an output overlaps with zeros and ones is computed."""
        given = [*tensors(args)]
        if name == "mul" and len(given) == 2 and given[0].shape == given[1].shape != ():
            mask, out = sorted(given, key=lambda t: t.requires_grad)
            apart = out.requires_grad and not mask.requires_grad and mask.numel() <= SMALL
            if apart and bool(((mask == 0) | (mask == 1)).all()):
                parts = (out, "out"), (mask, "mask"), (found, "both")
                self._made_of = {id(t): (t, frozenset((word,))) for t, word in parts}
        elif self._made_of:
            known = [self._made_of.get(id(t), (t, frozenset[str]())) for t in given]
            whole, _ = next(iter(self._made_of.values()))
            words = [words for _, words in known]
            if found.numel() < whole.numel() and any(words):
                self._made_of[id(found)] = found, frozenset[str]().union(*words)
            of_both = name == "div" and len(words) == 2
            if of_both and "both" in words[0] and {"out", "mask"} <= words[1]:
                where, now = self._place(), whole.detach()
                low, high = self.overlaps.get(where, (math.inf, -math.inf))
                self.overlaps[where] = min(low, float(now.min())), max(high, float(now.max()))

    def _passes_by(self, name: str, args: Any) -> bool:
        """Whether it is `b + (a - b).detach()`: the value of one, and the gradient of the other."""
        if name != "add":
            return False
        given = [t for t in args[:2] if isinstance(t, Tensor)]
        for place, cut in [*self.cuts.items()]:
            ref, node = cut.less
            if node is None or ref is None or not any(ref() is t for t in given):
                continue
            if any(t.grad_fn is node for t in given):
                cut.count -= 1
                if not cut.count:
                    del self.cuts[place]
                return True
        return False

    def is_of_nothing(self, t: Tensor) -> bool:
        """Whether a tensor was made of no data, as the place of what belongs to a sample is.

        Args:
            t: Of which one may have heard.
        """
        return any(ref() is t for ref in self._made)

    def quiet(self, module: nn.Module, out: Any) -> None:
        """A model was called without gradients: what is made of its output may be a target."""
        if isinstance(out, Tensor):
            self._quiet = id(module), [weakref.ref(out)]

    def _look_without(self, name: str, args: Any, found: Any) -> None:
        """Something is computed while gradients are turned off, of the graph or for a target."""
        module, made = self._quiet
        given = [*tensors(args)]
        if made and name in MAXIMA and made[0]() is args[0]:
            self.bootstraps.setdefault(module, self._place())
        if made and any(ref() is t for ref in made for t in given):
            beside = [t for t in given if all(ref() is not t for ref in made)]
            part = args[1] if name == "getitem" and len(self.parts) < BEFORE else None
            if isinstance(part, Tensor) and part.dtype == torch.bool:
                known = any(torch.equal(part, one) for one in self.parts)
                self.parts += () if known else (part,)
            for t in tensors(found):  # several, as of a minimum and where it is
                if name == "add" and any(b.numel() == t.numel() > 1 for b in beside):
                    self.ahead.add(module)
                made.append(weakref.ref(t))
        if isinstance(found, Tensor) and found.is_floating_point():
            of = next((t for t in tensors(args) if t.grad_fn is not None), None)
            if of is not None:
                self._cut("no_grad", of, found)
            elif self.cuts:
                self._derive(args, found)

    def _cut(self, how: str, t: Tensor, found: Any) -> None:
        """Something is taken out of the graph."""
        place = self._place()
        if place is None:
            return
        cut = self.cuts.setdefault(place, GraphCut(how))
        cut.count, cut.fresh = cut.count + 1, True
        when, ref = self._gave.get(id(t), (self._passes, None))
        cut.carried += when < self._passes and ref is not None and ref() is t
        cut.largest = max(cut.largest, t.numel())
        behind = t.grad_fn.next_functions if t.grad_fn is not None else ()
        if cut.count <= WALKS or all(hasattr(node, "variable") for node, _ in behind):
            cut.behind |= weights_of(t)
        if how == "detach" and t.grad_fn in self._sums:
            self.ahead.add(id(t))
        if isinstance(found, Tensor):
            cut.out = [*cut.out[-WALKS:], weakref.ref(found)]
            taken = t.grad_fn if how == "detach" and t.numel() > 1 else None
            if taken is not None and taken.name() == "SubBackward0":
                cut.less = weakref.ref(found), taken.next_functions[1][0]

    def _derive(self, args: Any, found: Tensor) -> None:
        """What is computed of something that was taken out of the graph, but by no weight."""
        parts = [*tensors(args)]
        if any(t.requires_grad and t.is_leaf for t in parts):
            return
        given = {id(t) for t in parts}
        for cut in self.cuts.values():
            if any((t := ref()) is not None and id(t) in given for ref in cut.out):
                cut.out = [*cut.out[-WALKS:], weakref.ref(found)]

    def fed(self, module: nn.Module, args: Any) -> None:
        """A module is called: whether with what it gave before, taken out of the graph."""
        if not (self.looking and self.cuts):
            return
        given = {id(t) for t in tensors(args)}
        for cut in self.cuts.values():
            rest = [ref for ref in cut.out if (t := ref()) is not None and id(t) not in given]
            if len(rest) == sum(ref() is not None for ref in cut.out):
                continue
            own = cut.behind & {id(p) for p in module.parameters()}
            if not own:
                cut.across += bool(cut.behind)  # else no weight leads there that could learn
            # something else, as a state beside an output, may carry gradients of the past on
            elif not any(own & weights_of(t) for t in tensors(args) if t.grad_fn is not None):
                cut.fed += 1
                cut.out = rest

    def derived(self, of: Tensor, found: Tensor) -> None:
        """A derivative was taken that has no graph itself."""
        if self.looking and not self._ended and of.grad_fn is not None:
            self._cut("grad", of, found)

    def stepped(self, held: set[int]) -> None:
        """An optimizer has stepped: what was cut before was for its loss, and is not for the next.

        Args:
            held: Its parameters, by identity.
        """
        for cut in self.cuts.values():
            cut.due |= cut.behind & held if cut.fresh else set()
            cut.fresh = False

    def ends_in(self, loss: Tensor) -> None:
        """A loss is passed back: whether a derivative without a graph is a part of it."""
        for cut in self.cuts.values():
            cut.lost += cut.how == "grad" and any(ref() is loss for ref in cut.out)
        if len(self._alike) < 2:
            return
        # of draws alike, which go into modules, and which are indices or what is told alone
        made = {id(t): heard for heard in self._heard for t in tensors(heard.out)}
        drawn = {id(t): (how, where, k) for k, (how, where, t) in enumerate(self._alike)}
        left = [t for h in self._heard if h.module is not None for t in h.given]
        given = {id(t) for t in left}  # as it is: data that are made up
        fed, seen = set[Any](), set[int]()
        while left:
            t = left.pop()
            if id(t) in drawn and (id(t) not in given or not t.is_floating_point()):
                fed.add(drawn[id(t)])
            heard = made.get(id(t))
            if id(t) not in seen and heard is not None:
                left += _taken(heard)[0]
            seen.add(id(t))
        own = [(h, _name(h.function)) for h in self._heard if h.function is not None]
        taken = (t for h, _ in own for t in _taken(h)[1])
        pairs = (h.given for h, name in own if name in (*LOSSES, "sub"))
        told = (t for pair in pairs if any(t.requires_grad for t in pair) for t in pair)
        alone = {drawn[id(t)] for t in (*taken, *told) if id(t) in drawn}
        for how, where, _ in alone - fed:
            for other, there, _ in fed - alone:
                self.draws[where, there] += how == other

    def sampled(self, spread: Any, found: Tensor) -> None:
        """Something was drawn of a distribution, whose parameters take no gradient from it.

        Args:
            spread: The distribution.
            found: What was drawn.
        """
        parts = (getattr(spread, name, None) for name in spread.arg_constraints)
        of = next((t for t in parts if isinstance(t, Tensor) and t.grad_fn is not None), None)
        if self.looking and not self._ended and of is not None:
            self._cut("sample", of, found)

    def pause(self) -> bool:
        """Hear nothing until `resume`; whether it did hear."""
        if not self._ended and _get_current_function_mode() is self:
            self.__exit__(None, None, None)
            return True
        return False

    def resume(self) -> None:
        """Hear what follows, at first or again."""
        if not self._ended:
            self.__enter__()

    def end(self) -> None:
        """Hear nothing any more."""
        self.pause()
        self._ended = True
        self.forget()
        self._copies.clear()

    def forget(self) -> None:
        """What was heard so far, as behind a backward pass."""
        self._passes += 1
        late = self._passes - 1
        self._gave = {k: gave for k, gave in self._gave.items() if gave[0] >= late}
        self._heard, self._size, self._live = deque(maxlen=BEFORE), 0, False
        self._scores.clear()
        self._of_acts.clear()
        self._sums.clear()
        self._alike.clear()
        self._sent.clear()
        self._made_of.clear()

    def called(self, module: nn.Module, args: Any, named: Any, out: Any, *, fresh: bool) -> None:
        """A module with parameters was called.

        Args:
            module: Which.
            args: With what.
            named: With what.
            out: What it gave.
            fresh: Whether no optimizer has stepped so far.
        """
        if self._ended:
            return
        if self.looking:
            self._gave |= {id(t): (self._passes, weakref.ref(t)) for t in tensors(out)}
        if fresh and id(module) not in self._copies:
            with suppress(Exception):  # what cannot be copied is not looked at, which is said
                # no part of it is compiled, and no other process has a part of it
                made = duplicate(unwrapped(module))
                for part in [*made.modules()]:
                    part._compiled_call_impl = None
                    for name, child in part.named_children():
                        part.add_module(name, unwrapped(child))
                self._copies[id(module)] = module, made
        if not self._live:
            self._heard, self._live = deque(self._heard, maxlen=BEHIND), True
        self._hear(_Heard(None, module, args, named, out))

    def applied(self, apply: Callable[..., Any], args: Any, found: Any) -> None:
        """A function with a backward pass of its own was applied, outside of modules or within."""
        if not self.within:
            with suppress(Exception):  # nothing that is heard may stop training
                self._hear(_Heard(apply, None, args, {}, found), _name(apply))

    def _hear(self, heard: _Heard, name: str = "") -> None:
        if name == "setitem":
            heard.out = heard.args[0]
        if name == "grad":  # which is read, as where gradients are emptied, and leads to no loss
            return
        found = [heard.out] if isinstance(heard.out, Tensor) else [*tensors(heard.out)]
        size = sum([t.numel() for t in found])
        if not found or (not self._live and size > SMALL):
            return
        self._heard.append(heard)
        if self._live:
            self._size += size
            if self._size > LARGEST:
                self.forget()
                return
        mine = [t for t in heard.given if id(t) in self._scores] if self._scores else []
        if mine and isinstance(heard.out, Tensor) and heard.out.requires_grad:
            # log probabilities that are weighted, and whether the loss falls as they rise
            _, score = self._scores[id(mine[0])]
            self._scores[id(heard.out)] = heard.out, score
            count = mine[0].numel()
            beside = [t for t in heard.given if not t.requires_grad and t.numel() == count > 1]
            others = (t for t in heard.given if id(t) not in self._scores and t.numel() == count)
            weighed = self.looking and name == "mul" and id(score) in self._of_acts
            if weighed and any(p.ndim > 1 for t in others for p in _leaves(t)):  # no temperature
                where = self._place()
                heard.out.register_hook(lambda _: self.attached.update([("log_prob", where)]))
            if name == "mul" and beside:
                place, weights = self._place(), beside[0].detach().flatten()
                if score.numel() == len(weights):
                    along = lambda g: g.flatten() @ weights.to(g)
                    score.register_hook(lambda g: self._turn(place, along(g)))
                else:  # of several that were put together
                    heard.out.register_hook(lambda g: self._turn(place, g.sum()))
        if not self._live or name not in ELEMENTWISE or len(heard.args) < 2:
            return
        a, b, out = *heard.args[:2], found[0]
        grown = [isinstance(t, Tensor) and t.numel() > 1 for t in (a, b)]
        if self.looking and name in ("sub", "subtract") and all(grown):
            # a difference of an output and a sum, both with gradients, of the same weights
            sums = [t.grad_fn in self._sums for t in (a, b)]
            both = a.requires_grad and b.requires_grad and a.shape == b.shape
            if both and sums.count(True) == 1 and weights_of(a) & weights_of(b):
                # counted where a gradient arrives, for advantages are detached behind it
                where = self._place()
                out.register_hook(lambda _: self.attached.update([("sub", where)]))
        if self.looking and name == "add" and all(grown) and a.requires_grad != b.requires_grad:
            self._sums.add(out.grad_fn)  # of data and of what the model gives, to look ahead
        if all(grown):
            # an output that is spread over targets of another rank, or they over it
            alone = a.requires_grad != b.requires_grad and a.ndim != b.ndim
            if alone and out.numel() > max(a.numel(), b.numel()):
                mine, other = (a, b) if a.requires_grad else (b, a)
                self.spreads[name, tuple(mine.shape), tuple(other.shape), self._place()] += 1

    def acted(self, draw: Any) -> None:
        """Something was drawn of a distribution, and its gradient leads nowhere."""
        if isinstance(draw, Tensor) and not (self._ended or draw.requires_grad):
            self._acts.append(weakref.ref(draw))

    def score(self, log_prob: Tensor, of: Any) -> None:
        """What is computed next may be made of the logarithm of a probability, as policies are.

        Args:
            log_prob: The logarithm.
            of: What it is the probability of.
        """
        self.scored = self.scored or log_prob.requires_grad
        if not self._ended and log_prob.requires_grad:
            self._scores[id(log_prob)] = log_prob, log_prob
            if of is not None and any(ref() is of for ref in self._acts):
                self._of_acts.add(id(log_prob))

    def _turn(self, place: Any, along: Tensor) -> None:
        turned, of = self.turned.get(place, (0, 0))
        self.turned[place] = turned + bool(along > 0), of + 1

    # --------------------------------------------------------------------------
    # A step of what was heard.

    def step(self, loss: Tensor) -> Step | None:
        """What led to a loss; None where that cannot be told."""
        try:
            if not self._live:
                raise _Untold("no module with parameters was called for it, or too much was held")
            if len(self._heard) == BEHIND:
                raise _Untold(f"more than {BEHIND} operations lead to it")
            return _Slicing([*self._heard], self._copies).step(loss)
        except _Untold as reason:
            self.unheard = str(reason)
            return None


class _Untold(Exception):
    """Something on the way to the loss was not heard."""


@dataclass(slots=True, eq=False)
class _Slicing:
    """Goes back from a loss along what was heard."""

    heard: list[_Heard]
    copies: Mapping[int, tuple[nn.Module, nn.Module]]
    made: dict[int, list[int]] = field(default_factory=dict)  # by tensor: which calls gave it
    slots: dict[tuple[int, int], int] = field(default_factory=dict)  # by tensor and call
    needed: set[int] = field(default_factory=set)
    read: list[bool] = field(default_factory=list)  # which calls are made of the batch, at last
    batch: dict[int, Tensor] = field(default_factory=dict)
    consts: dict[int, Any] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)  # of what calls gave
    rows: int = 0

    def step(self, loss: Tensor) -> Step:
        self.rows = self._rows()
        for k, heard in enumerate(self.heard):
            given = heard.given
            before = (self._last(t, k) for t in given)
            read = any(map(self._is_of_batch, given)) or any(self.read[j] for j in before if j >= 0)
            self.read.append(read)
            for t in tensors(heard.out):
                self.made.setdefault(id(t), []).append(k)
        end = self._slot(loss, len(self.heard))
        for k in reversed(range(len(self.heard))):
            if k in self.needed:
                for t in self.heard[k].given:
                    self._slot(t, k)
        self._gather()
        self._derive()
        order = sorted(self.needed)
        roots = [m for k in order if (m := self.heard[k].module) is not None]
        modules = [*{id(m): m for m in roots}.values()]
        if not modules:
            raise _Untold("no module with parameters leads to it")
        if len(roots) > CALLS:
            raise _Untold(f"modules are called {len(roots)} times for one backward pass")
        if any(id(m) not in self.copies for m in modules):
            raise _Untold("a module that leads to it was not copied before the first step")
        inner = self._inner(order)
        index, calls = {id(m): i for i, m in enumerate(modules)}, list[StepCall]()
        for k in order:
            heard, to_slot = self.heard[k], lambda t, k=k: Slot(self._slot(t, k))
            slotted: list[Any] = [
                mapped(part, to_slot) if any(True for _ in tensors(part)) else part
                for part in (heard.args, dict(heard.named))
            ]
            made = (self.slots.setdefault((id(t), k), len(self.slots)) for t in tensors(heard.out))
            root = None if heard.module is None else index[id(heard.module)]
            args, named = slotted
            one = StepCall(heard.function, root, args, named, (*made,), k in inner, heard.cast)
            calls.append(one)
        pairs = [self.copies[id(m)] for m in modules]
        copies = tuple(copy for _, copy in pairs)
        for module, copy in pairs:  # frozen is what was so for this loss, not when it was copied
            for p, twin in zip(module.parameters(), copy.parameters(), strict=False):
                twin.requires_grad_(p.requires_grad)
        found = Step(tuple(calls), copies, self.consts, [self.batch], end, self.rows)
        found.form = tuple(
            (c.name, index.get(id(self.heard[k].module)), c.out)
            for k, c in zip(order, calls, strict=True)
        ) + tuple((s, tuple(t.shape), t.dtype) for s, t in self.batch.items())
        held: dict[int, Any] = {**self.values, **self.consts, **self.batch}
        with torch.no_grad():
            try:
                for call in found.loss_calls:
                    call.again(held, ())
                again = float(held[end])
            except Exception as error:  # functions of torch refuse in every way
                raise _Untold(f"it cannot be computed again: {error}") from error
        was = float(loss.detach())
        if math.isfinite(was) and not math.isclose(again, was, rel_tol=ALIKE, abs_tol=1e-7):
            raise _Untold(f"computed again it is {again:.4g}, not {was:.4g}")
        return found

    def _rows(self) -> int:
        for heard in self.heard:
            if heard.module is not None:
                given = [t for t in heard.given if t.ndim]
                # behind a state, whose first dimension are layers
                first = next((t for t in given if len(t) > 1), None)
                alone = first is not None and first.ndim == 1 and first.is_floating_point()
                if alone or (given and first is None):
                    raise _Untold("a module is called with one sample at a time")
                if first is not None:
                    return len(first)
        raise _Untold("no module is called with a tensor of samples")

    def _is_of_batch(self, t: Tensor) -> bool:
        if t.layout != torch.strided:  # the edges of a graph are no samples
            return False
        return not t.requires_grad and t.ndim > 0 and len(t) == self.rows > 1

    def _last(self, t: Tensor, before: int) -> int:
        """The last call before one that gave a tensor, which may have been written to; or -1."""
        calls = self.made.get(id(t), [])
        at = bisect_left(calls, before)
        return calls[at - 1] if at else -1

    def _slot(self, t: Tensor, before: int) -> int:
        """The slot of a tensor as it is read by the call at `before`."""
        k = self._last(t, before)
        if (id(t), k) in self.slots:
            return self.slots[id(t), k]
        slot = self.slots[id(t), k] = len(self.slots)
        name = _name(self.heard[k].function) if k >= 0 else ""
        drawn = name in DRAWN
        # of nothing, as `arange` does, and not of Python's numbers
        made = name in OF_NOTHING and not self.heard[k].given
        # a parameter of no module, or a number that no batch has led to
        leaf = t.requires_grad and k < 0 and t.grad_fn is None
        if self._is_of_batch(t) and not made:
            self.batch[slot] = t.detach().clone()
        elif leaf or (not t.requires_grad and (k < 0 or drawn or not self.read[k])):
            self.consts[slot] = t.detach().clone()
        elif k < 0 or drawn:
            what = "is drawn at random" if drawn else "was computed out of hearing"
            raise _Untold(f"something of shape {[*t.shape]} that leads to it {what}")
        else:
            self.needed.add(k)
            self.values[slot] = t.detach()
        return slot

    def _gather(self) -> None:
        """Several tensors that the loss reads, made of one of the batch, as masks of labels.

        Or that one itself and what is made of it, as the weight of each label.
        """
        order = sorted(self.needed)
        inner = self._inner(order) | {k for k in order if self.heard[k].module is not None}
        fed = {self._slot(t, k) for k in inner for t in self.heard[k].given}
        own = {s: key for key, s in self.slots.items() if s in self.batch and s not in fed}
        made = {s: key for s, key in own.items() if key[1] >= 0}
        roots = {s: self._roots(k) for s, (_, k) in made.items() if not self._is_read(k)}
        alone = {s: next(iter(found)) for s, found in roots.items() if len(found) == 1}
        several = [*alone.values(), *(t for t, k in own.values() if self._is_read(k))]
        for root in {r for r in alone.values() if r and several.count(r) > 1}:
            for slot in (s for s, r in alone.items() if r == root):
                self.values[slot] = self.batch.pop(slot)
                self._need(made[slot][1])

    def _is_read(self, k: int) -> bool:
        """Whether a tensor came from no call, or is samples taken from all data, or gathered."""
        if k < 0:
            return True
        heard = self.heard[k]
        if heard.function is not None and _name(heard.function) in INDEXED:
            return not self._is_of_batch(heard.given[0])
        return bool(heard.given) and not any(map(self._is_of_batch, heard.given))

    def _roots(self, k: int) -> set[int]:
        """Identities of the tensors of the batch that a call goes back to; 0 for others."""
        found, seen, left = set[int](), set[int](), [k]
        while left:
            heard = self.heard[j := left.pop()]
            seen.add(j)
            if heard.module is not None or _name(heard.function) in DRAWN:
                return {0}
            before = [(t, self._last(t, j)) for t in heard.given]
            left += [i for _, i in before if not self._is_read(i) and i not in seen]
            found |= {id(t) for t, i in before if self._is_read(i) and self._is_of_batch(t)}
        return found

    def _need(self, k: int) -> None:
        """A call, and those that it goes back to."""
        left = [k]
        while left:
            self.needed.add(j := left.pop())
            for t in self.heard[j].given:
                i = self._last(t, j)
                if self._is_read(i):
                    self._slot(t, j)
                elif i not in self.needed:
                    slot = self.slots.setdefault((id(t), i), len(self.slots))
                    self.values[slot] = t.detach()
                    left.append(i)

    def _derive(self) -> None:
        """What is computed of nothing but other tensors of the batch is none of it itself."""
        of = {slot: key for key, slot in self.slots.items() if slot in self.batch}
        for slot, (_, k) in sorted(of.items(), key=lambda pair: -pair[1][1]):
            given = self.heard[k].given if k >= 0 else []
            if given and all(of.get(self.slots.get((id(t), self._last(t, k)), -1)) for t in given):
                self.values[slot] = self.batch.pop(slot)
                self.needed.add(k)

    def _inner(self, order: Sequence[int]) -> set[int]:
        """Calls of functions that a call of a module needs."""
        left = [k for k in order if self.heard[k].module is not None]
        found: set[int] = set()
        while left:
            k = left.pop()
            heard = self.heard[k]
            for t in heard.given:
                j = self._last(t, k)
                if j in self.needed and j not in found:
                    found.add(j)
                    left.append(j)
        return found


def require_within(function: Callable[..., Any], args: Any, named: Any) -> None:
    """Refuse places that are not there, as of fewer samples than they were written for.

    On a GPU they would end all that is computed there, and not this call alone.

    Args:
        function: That takes numbers of a tensor.
        args: With what.
        named: With what.

    Raises:
        IndexError: If one is not there.
    """
    small = lambda t: (  # of its shape, in the memory of one number
        torch.empty((), dtype=t.dtype, device="cpu").expand(t.shape)
        if t.is_floating_point()
        else t.cpu()
    )
    args, named = (mapped(part, small) for part in (args, named))
    with torch.no_grad():
        function(*args, **named)


def made_by(out: Tensor) -> str:
    """The operation that made a tensor, behind those that only lay it out otherwise.

    Args:
        out: With a graph or without. Of several tensors put together, as of the places of a
            sequence, it is told if the same operation made all of them.
    """
    return _maker(out.grad_fn)


def _maker(node: Any) -> str:
    while node is not None and node.name().startswith(LAID_OUT) and node.next_functions:
        node = node.next_functions[0][0]
    if node is not None and node.name().startswith(JOINED):
        makers = {_maker(each) for each, _ in node.next_functions}
        return makers.pop() if len(makers) == 1 else node.name()
    return "" if node is None else node.name()


def repeated_divisor(loss: Tensor) -> int:
    """A whole number by which a loss was divided twice at last; 0 where there is none.

    Args:
        loss: With a graph or without.
    """
    known, node = set[int](), loss.grad_fn
    while node is not None and node.name() in ("DivBackward0", "MulBackward0"):
        sides = [getattr(node, f"_saved_{side}", None) for side in ("self", "other")]
        factors = [
            float(t) for t in sides if isinstance(t, Tensor) and not t.ndim and t.grad_fn is None
        ]
        factor = factors[-1] if factors else 0.0
        by = factor if node.name() == "DivBackward0" else 1 / factor if factor else 0.0
        if by < 1.5 or abs(by - round(by)) > 1e-6 * by:
            return 0
        if round(by) in known:
            return round(by)
        known.add(round(by))
        node = node.next_functions[0][0] or node.next_functions[-1][0]
    return 0


def nodes_of(t: Tensor) -> set[Any]:
    """Nodes of the graph behind a tensor, of which some thousand are followed.

    Args:
        t: With a graph or without.
    """
    seen, left = set[Any](), [t.grad_fn]
    while left and len(seen) < NODES:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        left += [n for n, _ in node.next_functions]
    return seen


def leaves_of(t: Tensor) -> set[int]:
    """Identities of the parameters that a tensor is computed of.

    Args:
        t: With a graph or without.
    """
    return {id(leaf) for leaf in _leaves(t)}


def weights_of(t: Tensor) -> set[int]:
    """Those leaves that are weights, and no inputs by which one derives.

    Args:
        t: With a graph or without.
    """
    return {id(leaf) for leaf in _leaves(t) if isinstance(leaf, nn.Parameter)}


def _leaves(t: Tensor) -> Iterator[Tensor]:
    return (node.variable for node in nodes_of(t) if hasattr(node, "variable"))


def mark_of(x: Tensor) -> tuple[torch.Size, float]:
    """By which numbers in their order are known again: their first ones.

    Args:
        x: Numbers of any kind; of those that are not laid out one by one, the shape alone is known.
    """
    if x.layout != torch.strided or x.is_nested or x.is_quantized:
        return x.shape, math.nan
    first = x.detach()
    for dim in range(x.ndim):  # nothing large is copied
        first = first.narrow(dim, 0, min(x.shape[dim], FIRST if x.ndim == 1 else FEW_OF_EACH))
    if first.is_complex():
        first = torch.view_as_real(first.resolve_conj())
    first = first.reshape(-1).double().cpu()
    places = torch.arange(1.0, len(first) + 1, dtype=torch.float64, device="cpu")
    return x.shape, float(first @ places)


def _hidden(name: str, args: Any, named: Mapping[str, Any]) -> Tensor | None:
    """What a mask of attention hides of each sample, from all that asks; None where it is none.

    Args:
        name: Of what was called, in `MASKING`.
        args: With what.
        named: With what.
    """
    if name == "masked_fill":
        _, mask, value = args
        hidden = mask if not float(value) > UNSEEN else None
    elif name == "scaled_dot_product_attention":
        mask = named.get("attn_mask", args[3] if len(args) > 3 else None)
        hidden = mask if mask is None else ~mask if mask.dtype == torch.bool else mask < UNSEEN
    else:
        mask = named.get("key_padding_mask")
        hidden = mask if mask is None or mask.dtype == torch.bool else mask < UNSEEN
    if hidden is None or hidden.ndim < 2 or hidden.dtype != torch.bool:
        return None
    return hidden if hidden.ndim == 2 else hidden.flatten(1, -2).all(1)


def _end_of(index: Tensor) -> Tensor | None:
    """One end of the edges of a graph, as an index that is a part of both; None if it is none.

    Args:
        index: One number an edge, or as many of it as a row has.
    """
    both = index._base
    column = index if index.ndim == 1 else index.flatten(1)[:, 0]
    if both is None or index.dtype != torch.long or both.ndim != 2 or 2 not in both.shape:
        return None
    one, other = both if len(both) == 2 else both.T
    # and no node sends to itself alone
    return column if len(column) == len(one) > 2 and not torch.equal(one, other) else None


def _taken(heard: _Heard) -> tuple[list[Tensor], list[Tensor]]:
    """What a call was given: tensors, and those that say which numbers of them are taken."""
    name = _name(heard.function) if heard.function else ""
    if name not in INDEXED:
        return heard.given, []
    first, rest = [*tensors(heard.args[:1])], [*tensors((heard.args[1:], heard.named))]
    return (rest, first) if name == "embedding" else (first, rest)


def _name(function: Any) -> str:
    """Of a function of torch as one says it: `sub` for `__rsub__`, `view` for `view`."""
    word = getattr(function, "__name__", "")
    if word == "__get__":
        word = getattr(getattr(function, "__self__", None), "__name__", word)
    bare = word.strip("_")
    return bare[1:] if word.startswith("__") and bare in ("rsub", "radd", "rmul", "rdiv") else bare


def _slots(part: Any) -> Iterator[int]:
    if isinstance(part, Slot):
        yield part.index
    elif isinstance(part, Mapping):
        for each in part.values():
            yield from _slots(each)
    elif isinstance(part, tuple | list):
        for each in part:
            yield from _slots(each)


def _filled(part: Any, held: Mapping[int, Any]) -> Any:
    if isinstance(part, Slot):
        return held[part.index]
    if isinstance(part, Mapping):
        return {k: _filled(v, held) for k, v in part.items()}
    if isinstance(part, tuple | list) and any(True for _ in _slots(part)):
        return tuple(_filled(v, held) for v in part)
    return part


# ------------------------------------------------------------------------------
# A step as a program.


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """A loss of torch that a model computes itself.

    Attributes:
        name: In `torch.nn.functional`.
        options: It was called with.
        targets: It was called with.
    """

    name: str
    options: Mapping[str, Any]
    targets: Tensor


def program_of_step(step: Step) -> Program:
    """Model, batches and loss of a step, as `diagnosis` takes them.

    Args:
        step: Its modules are taken as they are.

    Raises:
        Refusal: If the step is no such program, with why.
    """
    first, model = step.batches[0], step.model()
    if not step.inputs:
        raise Refusal("what its modules are called with has no row for each sample")
    # but for batches that were there before, as all but one of a whole graph are, or the same
    # samples in another order
    distinct: list[tuple[Tensor, dict[int, Tensor]]] = []
    for batch in step.batches:
        count = min(len(t) for t in batch.values())
        rows = torch.cat([t[:count].reshape(count, -1).double() for t in batch.values()], 1)
        rows = rows.unique(dim=0)  # in an order of their own
        if not any(torch.equal(rows, known) for known, _ in distinct):
            distinct.append((rows, batch))
    step.batches = [batch for _, batch in distinct]
    if step.rows * len(step.batches) < LEAST:
        raise Refusal(f"its batches have {step.rows * len(step.batches)} samples in all")
    if _is_time_first(step, model):
        raise Refusal(
            "samples lie along the second dimension of its batches, behind time, and are not told "
            "apart there"
        )
    targets = step.wanted(first)
    loss, whole = _named_loss(step), True
    with still(model), torch.no_grad(), random_states():
        model.eval()
        output = called(model, step.given(first))
        alone = all(t.ndim == 0 for t in step.read_of(output))  # it gives its loss
        if targets is not None and not alone:
            whole = _is_of_rows(step, output, targets)
            if loss is None and isinstance(output, Tensor) and isinstance(targets, Tensor):
                # the loss that fits such targets, if there is one and it gives the same number
                with suppress(Exception):
                    fits = float(fitting_loss(output, targets))
                    if math.isclose(fits, float(step.lost(output, targets)), rel_tol=ALIKE):
                        loss = fitting_loss
            loss = loss or step.lost
    if alone:
        return _from_inside(step, model)
    size = step.rows
    batches = step.batches if whole else step.batches[:1]
    limit = max(1, SAMPLES // size) if not isinstance(targets, Tensor) else len(batches)
    parts = [(step.given(b), step.wanted(b)) for b in batches[:limit]]
    given, wanted = (together([*side]) for side in zip(*parts, strict=True))
    if step.single is not None and not step.single.named:
        # which argument is a whole number for each sample, as its length
        read = enumerate(first[slot] for slot in step.inputs)
        place = next((k for k, t in read if t.dtype == torch.long and t.ndim == 1), None)
        if place is not None:
            try:
                with still(model), torch.no_grad(), random_states():
                    called(model, given)
            except Refusal:
                forward = partial(_longest_first, type(model).forward, place)
                model.forward = MethodType(forward, model)
    return Program(model, (given, wanted), loss, batch_size=size)


def _is_time_first(step: Step, model: nn.Module) -> bool:
    """Whether the first dimension of a batch are times, as for recurrent layers of torch.

    It is where a layer that takes times first is handed a state for as many samples as the second
    dimension has, and where targets are what goes in one time later along the first.
    """
    first = step.batches[0]
    inputs = [first[s] for s in step.inputs if first[s].ndim > 1]
    if not inputs:
        return False
    layouts, told = {t.shape[:2] for t in inputs}, list[bool]()

    def told_of(layer: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        x, state = (*args, *named.values(), None, None)[:2]
        layout = x.shape[:2] if isinstance(x, Tensor) else None
        told.append(not layer.batch_first and layout in layouts and state is not None)  # pyright: ignore

    layers = [m for m in model.modules() if isinstance(m, nn.RNNBase)]
    if layers:
        with still(model), torch.no_grad(), random_states(), ExitStack() as hooks:
            for layer in layers:
                hooks.callback(layer.register_forward_pre_hook(told_of, with_kwargs=True).remove)
            with suppress(Exception):  # what fails is told where it is called in earnest
                called(model, step.given(first))
    later = [
        torch.equal(y[:-1], x[1:]) and not torch.equal(y[:, :-1], x[:, 1:])
        for x in inputs
        for y in (first[s] for s in step.targets)
        if y.shape == x.shape and min(x.shape[:2]) > 1
    ]
    return any(told) or any(later)


def _longest_first(forward: Any, place: int, module: nn.Module, *given: Tensor) -> Any:
    """What a model gives that takes batches in this order alone, of one in any order."""
    order = given[place].argsort(descending=True, stable=True)
    found = forward(module, *rows_of(given, order, count=len(order)))
    return rows_of(found, order.argsort(), count=len(order))


def _is_of_rows(step: Step, output: Any, targets: Any) -> bool:
    """Whether the loss is a mean, or a sum, over samples."""
    rows, half = step.rows, step.rows // 2
    part = lambda what, of: rows_of(what, of, count=rows)
    try:
        whole = float(step.lost(output, targets))
        a, b = (
            float(step.lost(part(output, r), part(targets, r)))
            for r in (torch.arange(half), torch.arange(half, rows))
        )
    except Exception:  # noqa: BLE001 (what is written for a batch of its size fails in every way)
        return False
    mean = (a * half + b * (rows - half)) / rows
    return any(math.isclose(whole, v, rel_tol=1e-3, abs_tol=1e-6) for v in (mean, a + b))


def _named_loss(step: Step) -> Callable[..., Tensor] | None:
    """The function of torch that the loss is, of an output and targets as they are."""
    calls = step.loss_calls
    if len(calls) != 1 or calls[0].name not in LOSSES or len(calls[0].args) != 2:
        return None
    out, targets = calls[0].args
    function = getattr(F, calls[0].name)
    usual = {k: p.default for k, p in inspect.signature(function).parameters.items()}
    named = {k: v for k, v in calls[0].named.items() if v is not usual.get(k) and v != usual.get(k)}
    known = isinstance(out, Slot) and isinstance(targets, Slot) and targets.index in step.batches[0]
    if not known or any(True for _ in _slots(named)):
        return None
    if out.index not in step.outputs or (step.single and out.index != step.single.out[0]):
        return None
    return partial(function, **named) if named else function


def _from_inside(step: Step, model: nn.Module) -> Program:
    """A model that gives its loss, as one that gives what the loss is made of."""
    given = step.given(step.batches[0])
    if isinstance(given, Mapping) and "labels" in given:
        whole = together([step.given(b) for b in step.batches])
        return Program(model, whole, batch_size=step.rows)
    inside = step.inside
    if inside is None:
        raise Refusal(
            "the model gives a single number for all samples, and computes none of torch's losses"
        )
    name, rows = inside.name, step.rows
    targets, loss = _by_rows(inside.targets, rows), getattr(F, name)
    if targets is None:
        raise Refusal("the model compares other tensors than one for each sample within itself")
    # what goes in for the loss alone is no input: in its place stands what the first sample has
    own, spare = type(model).forward, dict[int | str, Tensor]()
    parts: dict[int | str, Tensor] = {}
    in_order: tuple[Any, ...] = given if isinstance(given, tuple) else (given,)
    parts.update(given.items() if isinstance(given, Mapping) else enumerate(in_order))
    for place, t in parts.items():
        if len(parts) - len(spare) > 1 and len(t) == rows and _holds(t, targets):
            rest = {k: p for k, p in parts.items() if k != place}
            with still(model), torch.no_grad():
                model.eval()
                found = list[Tensor]()
                for without, left in (({}, parts), ({place: t[:1]}, rest)):
                    with random_states():
                        args = [p for k, p in left.items() if isinstance(k, int)]
                        named = {k: p for k, p in left.items() if isinstance(k, str)}
                        found.append(_compared(own, name, rows, without, model, *args, **named))
            if torch.equal(*found):
                spare[place] = t[:1]
    if isinstance(given, Mapping):
        given = {k: p for k, p in given.items() if k not in spare}
    elif spare:
        kept = tuple(p for k, p in parts.items() if k not in spare)
        given = kept[0] if len(kept) == 1 else kept
    model.forward = MethodType(partial(_compared, own, name, rows, spare), model)
    flat = lambda t: t.reshape(-1, *t.shape[2:]) if len(inside.targets) != rows else t
    options = dict(inside.options)
    lost = lambda out, y: loss(flat(out), flat(y), **options)
    return Program(model, (given, targets), lost, batch_size=rows)


def _by_rows(t: Tensor, rows: int) -> Tensor | None:
    if not t.ndim or len(t) % rows:
        return None
    return t if len(t) == rows else t.reshape(rows, -1, *t.shape[1:])


def _holds(t: Tensor, targets: Tensor) -> bool:
    """Whether targets are an input, or all of its places but the first or the last ones."""
    if t.shape == targets.shape or t.ndim != 2 or targets.ndim != 2 or len(t) != len(targets):
        return t.shape == targets.shape and torch.equal(t.to(targets), targets)
    width = targets.shape[1]
    starts = range(t.shape[1] - width + 1)
    return any(torch.equal(t[:, k : k + width].to(targets), targets) for k in starts)


def _compared(
    forward: Any,
    name: str,
    rows: int,
    spare: Mapping[int | str, Tensor],
    module: nn.Module,
    *given: Any,
    **named: Any,
) -> Tensor:
    """What a model gives to a loss of torch within itself.

    Args:
        forward: The model's own.
        name: Of the loss.
        rows: Samples in a batch of the script.
        spare: One row for each argument that the loss alone reads, by its place or name.
        module: The model.
        *given: The other arguments.
        **named: And those by names.
    """
    samples, left = len(next(tensors((given, named)))), iter(given)
    filled = {k: row.expand(samples, *row.shape[1:]).contiguous() for k, row in spare.items()}
    count = len(given) + sum(isinstance(k, int) for k in spare)
    args = [filled[k] if k in filled else next(left) for k in range(count)]
    named |= {k: t for k, t in filled.items() if isinstance(k, str)}
    kept: list[Tensor] = []
    own = getattr(F, name)

    def instead(out: Tensor, *args: Any, **named: Any) -> Tensor:
        kept.append(out)
        return own(out, *args, **named)

    setattr(F, name, instead)
    try:
        forward(module, *args, **named)
    finally:
        setattr(F, name, own)
    found = _by_rows(kept[-1], samples)
    assert found is not None
    return found
