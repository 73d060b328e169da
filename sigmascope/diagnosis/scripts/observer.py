"""What a training script does, seen from torch's own hooks while it runs as it is.

Nothing of the script is read or rewritten. Modules are heard by torch's global hooks, optimizers by
theirs; `backward`, `zero_grad`, schedulers, loaders, clipping, losses and `load_state_dict` where
they are called. The invariant: numbers that the script computes are the same to the last bit with
and without an observer, unless an intervention is asked for.

Whether a gradient is old is a matter of state, not of calls: a gradient is old if what lies in
`grad` at the next `backward` is the tensor, in the version, that the last step of its optimizer
left, and if nobody empties it before that optimizer steps again. That covers `zero_grad` by any
means, accumulation over batches, several optimizers and closures.

Behind its first steps an observer dozes: it looks at some steps of each round alone, and at a round
from a new optimizer or from loaded weights on. In between it hears of losses, rates and steps.
"""

import math
import sys
import sysconfig
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd import Function
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import WeightedRandomSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter
from torch.utils.data.distributed import DistributedSampler

from sigmascope.core.guard import PACKAGE, Closing
from sigmascope.diagnosis.programs.optimizers import unusual_settings
from sigmascope.diagnosis.scripts.comparisons import (
    LARGEST,
    Comparisons,
    interleaved,
    is_copy,
    is_edges,
    rescaled_by,
    spread_of,
    stored_in,
    weights_by_class,
)
from sigmascope.diagnosis.scripts.functions import derivative_gap, forward_of
from sigmascope.diagnosis.scripts.interventions import Intervention, held_by
from sigmascope.diagnosis.scripts.non_finite import Origins
from sigmascope.diagnosis.scripts.replay import (
    LOSSES,
    NODES,
    NOISES,
    Inside,
    Recorder,
    Step,
    leaves_of,
    mark_of,
    nodes_of,
    repeated_divisor,
)
from sigmascope.diagnosis.scripts.seen import (
    Called,
    CutSeen,
    Line,
    Loaded,
    LoaderSeen,
    LossSeen,
    OptimizerSeen,
    ScriptRun,
    StaleSeen,
)
from sigmascope.models.samples import tensors
from sigmascope.models.state import is_compiled, is_untouched

FOLLOWED = 4  # parameters of each optimizer whose gradients are followed
KEPT = 16  # batches that are kept, and models that others are compared with
SMALL = 1 << 14  # numbers of a parameter that are kept from step to step
MARKED = 256  # batches by which it is seen whether one comes again and again
FEW = 8  # calls, from which something is a habit
LOOKED = 3  # steps in which one looks for what is taken out of the graph
LEFT_OUT = (4, 16)  # behind this step, and each of this many, one looks at what no optimizer has
PHASES = 4  # optimizers made at one place, that are each other's successors
AWAKE = 64  # steps that are looked at, at first and where something new begins
ROUND, AMONG = 128, 4  # steps of a round behind them, and those at which one looks
COUNTED = (2, 3, 5, 8, 12, 20, 32, 48, 64)  # steps at which a graph is counted
NORMS = (nn.modules.batchnorm._BatchNorm,)
BY_MODE = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._BatchNorm)


class Stopped(BaseException):
    """Enough was seen: ends a script at the boundary of a step, as Ctrl-C would."""


_Mark = tuple[weakref.ref[Tensor], int]  # a tensor in the version that it had


@dataclass(slots=True)
class _Gradient:
    """What is known of the gradient of one parameter that is followed."""

    parameter: weakref.ref[Tensor]
    left: _Mark | None = None  # by the last step
    old: weakref.ref[Tensor] | None = None  # what was not emptied since
    given: bool = False  # whether a backward pass gave to it since the last step
    by: Line | None = None  # where the last one did
    gave: _Mark | None = None  # what it left
    at: int = 0  # the parameter's version then
    stepped: tuple[int, int] | None = None  # the parameter's version and place, by the last step
    value: Tensor | None = None  # and what it was, if that is not much

    @property
    def now(self) -> Tensor | None:
        p = self.parameter()
        return None if p is None else p.grad

    def is_overwritten(self) -> bool:
        """Whether the parameter is not what the last step of its optimizer left."""
        p = self.parameter()
        if p is None or self.stepped in (None, (p._version, p.data_ptr())):
            return False
        return self.value is None or not torch.equal(self.value, p.detach())

    def leave(self) -> None:
        p = self.parameter()
        self.stepped = None if p is None else (p._version, p.data_ptr())
        small = p is not None and p.numel() <= SMALL
        self.value = p.detach().clone() if p is not None and small else None
        self.left = _marked(self.now)

    def look(self) -> None:
        """Before a backward pass: whether what is there is old, or was emptied."""
        grad = self.now
        if grad is not None and _is_same(grad, self.left) and _any(grad):
            self.old = weakref.ref(grad)
        elif self.old is not None and not self.is_old():
            self.old = None

    def take(self, where: Line | None) -> None:
        """A backward pass has given to it."""
        self.given, self.by, self.gave = True, where, _marked(self.now)
        p = self.parameter()
        self.at = 0 if p is None else p._version

    def is_emptied(self) -> bool:
        """Whether what was given is gone: written over by zeros, or taken away."""
        grad = self.now
        if grad is None or self.gave is None:
            return self.given
        return self.given and not _is_same(grad, self.gave) and not _any(grad)

    def is_dropped(self, where: Line | None) -> bool:
        """Whether what the same pass gave since the last step was emptied, and used for nothing.

        Weights that were moved since have used it, as a step to the worst place nearby does.
        """
        p = self.parameter()
        return self.by == where and p is not None and p._version == self.at and self.is_emptied()

    def is_old(self) -> bool:
        grad = self.now
        return self.old is not None and grad is not None and self.old() is grad and _any(grad)


@dataclass(slots=True)
class _Followed:
    """One optimizer while it is followed."""

    seen: OptimizerSeen
    gradients: list[_Gradient]
    stepping: bool = False
    stepped: bool = False
    backwards: int = 0  # that gave something to it since its last step
    within: int = 0  # calls of models and backward passes in the closure of this one
    by: Line | None = None  # where the last of them was made
    forward_since: bool = False  # whether a model ran with gradients since then
    dropped: set[Line | None] = field(default_factory=set)  # where a pass was for nothing
    missed: Line | None = None  # the last pass, where that gave nothing and nothing was there
    kept: list[Tensor] = field(default_factory=list)  # parameters before a step
    given: list[tuple[int, float]] = field(default_factory=list)  # to models, within a closure
    asked: int = -LEFT_OUT[1]  # steps made when one looked last at what no optimizer has


@dataclass(slots=True)
class _Quiet:
    """A model that is called without gradients.

    Attributes:
        module: The model, by whose identity it is known while it lives.
        kind: Its class.
        mark: Versions of its weights at the first call, summed up.
        place: Of that.
        began: Steps made before it.
        changed: Whether the weights were written to since.
        twin: Whether another one like it trains, and a maximum of what this one gives is taken.
        bare: Whether it is asked in evaluation mode with statistics of batches that no batch has
            made, when one like it has trained for some steps.
        calls: How often it was called.
        untold: How often of these in training mode, of a model that minds that.
        trains: Whether it is called with gradients, too.
    """

    module: weakref.ref[nn.Module]
    kind: type[nn.Module]
    mark: int
    place: Line | None = None
    began: int = 0
    changed: bool = False
    twin: bool = False
    bare: bool = False
    calls: int = 0
    untold: int = 0
    trains: bool = False


class Observer(Closing):
    """Watches whatever trains between `__enter__` and `__exit__`.

    Args:
        steps: Of optimizers, after which `Stopped` is raised; None for as many as there are.
        seconds: The same, in time from the first call of a model on.
        least: Seconds from there, before which `steps` alone do not end it: they are kept as
            `run.early`.
        intervention: One thing that is done otherwise.
        own: Whether a file is the user's; all that lie outside of the installation if not given.
        recorded: Whether steps are recorded, so that `run.step` can be computed again.
        traced: The step from which one listens for what ceases to be a number, until something
            does; None for none.
    """

    def __init__(
        self,
        *,
        steps: int | None = None,
        seconds: float | None = None,
        least: float = 0.0,
        intervention: Intervention | None = None,
        own: Callable[[str], bool] | None = None,
        recorded: bool = False,
        traced: int | None = None,
    ) -> None:
        self.run = ScriptRun()
        self._traced, self._origins = traced, Origins(self._place, own or is_own)
        self.intervention = intervention or Intervention()
        self._steps, self._seconds, self._least = steps, seconds, least
        self._own = own or is_own
        self._optimizers = weakref.WeakKeyDictionary[Optimizer, _Followed]()
        self._live: tuple[_Followed, ...] = ()  # all of them
        self._depth, self._undo, self._start = 0, ExitStack(), time.perf_counter()
        self._recorder, self._copies = Recorder(self._place), recorded
        self._comparisons = Comparisons(self.run, self._recorder, self._place)
        self._names: dict[int, tuple[str, int]] = {}  # of parameters, and their numbers
        self._spent = weakref.WeakSet[Any]()  # iterators of loaders that are at their end
        self._reached = set[int]()  # parameters that lead to a loss, by identity
        self._without: dict[int, bool] = {}  # parameters that were looked at: still no gradient?
        self._zeros: dict[int, bool] = {}  # or one of zeros, each time?
        self._derivatives = list[tuple[Line | None, Any]]()  # with a graph: nodes, in this pass
        self._sizes = dict[int, tuple[weakref.ref[Tensor], float]]()  # of weights, while none steps
        self._outputs = list[Any]()  # of models, with gradients: nodes, since the last pass
        # of the data set that was begun first, what it holds and what that was
        self._data: tuple[Any, list[tuple[Tensor, Tensor]]] | None = None
        self._recorded: dict[Line | None, Step] = {}
        self._inside: Inside | None = None  # the last loss that a model computed itself
        self._unscaled: tuple[weakref.ref[Tensor], Tensor] | None = None  # by a scaler, and before
        self._is_scaled = False  # whether gradients are larger by a scaler
        self._heard = False  # whether the recorder heard, before a module was called
        self._roots = weakref.WeakKeyDictionary[nn.Module, Called]()
        # parameters that no optimizer has, with their model and the gradient that was there, and
        # the optimizer at whose step one looked
        self._outside: list[tuple[Called, weakref.ref[nn.Parameter], _Mark | None]] = []
        self._asked: OptimizerSeen | None = None
        self._once = dict[int, weakref.ref[Tensor]]()  # what an optimizer has moved, by identity
        self._froze = set[int]()  # what was seen frozen, by identity
        self._quiet = dict[int, _Quiet]()
        self._last_asked: tuple[int, torch.Size, float] | None = None  # without gradients
        self._batches = Counter[tuple[int, torch.Size, float]]()  # that models were called with
        self._pending: list[tuple[LossSeen, Tensor]] = []  # losses whose values are not read yet
        self._last, self._began = time.perf_counter(), 0.0
        self._known: dict[Any, OptimizerSeen] = {}  # by class and place, and by parameters, too
        # weights by name: when they were handed out, and where
        self._handed_out = dict[int, tuple[weakref.ref[Any], int, Line | None]]()
        self._round = 0  # calls of a model that trains, without gradients, since a step or a loader
        self._first = list[tuple[weakref.ref[Tensor], int]]()  # what the first optimizer holds
        # where gradients are turned off: the last step, and how often in steps in a row
        self._turns = dict[Any, tuple[int, int]]()
        self._until, self._dozing, self._roused = AWAKE, False, False
        self._dozes = type(self.intervention) is Intervention and traced is None
        self._hooks, self._hearing = ExitStack(), False  # of modules
        self._compiles = False  # whether the script does
        self._exchanged = 0  # by processes, before the last backward pass or step

    # --------------------------------------------------------------------------
    # Beginning and end.

    def __enter__(self) -> "Observer":
        undo = self._undo
        undo.callback(self._hooks.close)
        self._hear()
        undo.callback(register_optimizer_step_pre_hook(self._stepping).remove)
        undo.callback(register_optimizer_step_post_hook(self._stepped).remove)
        wrap = self._wrap
        wrap(torch.autograd, "backward", self._backward)
        wrap(torch.autograd, "grad", self._derived)
        wrap(Optimizer, "__init__", self._made)
        wrap(Optimizer, "zero_grad", self._zeroed)
        wrap(nn.Module, "zero_grad", self._zeroed)
        wrap(nn.Module, "state_dict", self._handed)
        wrap(nn.Module, "load_state_dict", self._loaded)
        wrap(nn.Module, "eval", self._evaluated)
        wrap(torch.utils.data.DataLoader, "__iter__", self._iterated)
        wrap(_BaseDataLoaderIter, "__next__", self._next)
        for kind in vars(torch.optim.lr_scheduler).values():  # several have a `step` of their own
            if isinstance(kind, type) and issubclass(kind, LRScheduler) and "step" in vars(kind):
                wrap(kind, "step", self._scheduled)
        for kind in (torch.no_grad, torch.inference_mode):
            wrap(kind, "__enter__", self._turned_off)
        wrap(torch.amp.GradScaler, "scale", self._scaled)
        for name in ("step", "unscale_"):
            wrap(torch.amp.GradScaler, name, self._divided)
        wrap(torch, "compile", self._compiled)
        for name in torch.distributions.__all__:
            kind = getattr(torch.distributions, name)
            if "log_prob" in vars(kind):
                wrap(kind, "log_prob", self._probable)
            if "sample" in vars(kind):
                wrap(kind, "sample", self._sampled)
            if "entropy" in vars(kind):
                wrap(kind, "entropy", self._entropy)
        if self.intervention.joins_draws():
            for name in ("randint", *NOISES):
                wrap(torch, name, self._drawn)
        if self.intervention.keeps_graph():
            wrap(Tensor, "detach", self._detached)
            wrap(torch, "normal", self._normal)
        for owner in (nn.utils, nn.utils.clip_grad):
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                wrap(owner, name, self._clipped)
        for name in LOSSES:
            wrap(F, name, self._loss(name))
        apply, observer = vars(Function)["apply"], self

        def applied(function: Any, *args: Any, **named: Any) -> Any:
            return observer._applied(apply.__get__(None, function), function, args, named)

        self._undo.callback(setattr, Function, "apply", apply)
        Function.apply = classmethod(applied)  # pyright: ignore[reportAttributeAccessIssue]
        undo.callback(self._recorder.end)
        self._recorder.resume()
        undo.callback(self._origins.end)
        self._trace()
        self._start = self._last = time.perf_counter()
        return self

    def _hear(self) -> None:
        """Hear of calls of modules."""
        if self._hearing:
            return
        undo, self._hearing = self._hooks, True
        undo.callback(setattr, self, "_hearing", False)
        undo.callback(register_module_forward_pre_hook(self._called).remove)
        after = register_module_forward_hook(self._returned, with_kwargs=True, always_call=True)
        undo.callback(after.remove)
        # torch forgets to take this one away with the hook
        undo.callback(nn.modules.module._global_forward_hooks_with_kwargs.pop, after.id, None)

    def _hear_not(self) -> None:
        """Hear of them no more; what is compiled would be compiled anew without hooks."""
        if not self._compiles:
            self._hooks.close()

    def _wake(self) -> None:
        """Something is new: look at the steps from the next one on."""
        self._until = self.run.steps + AWAKE

    def _rouse(self) -> None:
        """A loader begins, or a model is to be asked: hear of models until the next step."""
        if self._dozing and not self._roused and not self._depth:
            self._roused = True
            self._hear()

    def close(self) -> None:
        """Take every hook away, and read what was only kept."""
        self._undo.close()
        self._read()
        first = self.run.optimizers[0] if self.run.successive else None
        own = self.run.losses.get(first.backward) if first else self.run.loss
        if own is not None:
            self.run.step = self._recorded.get(own.place)

    def _read(self) -> None:
        """Bring into the run what was only kept, as at its end."""
        kept, self._pending = self._pending, []
        for seen, value in kept:
            with suppress(RuntimeError):
                seen.values.append(float(value))
        self.run.overlaps = self._recorder.overlaps
        self.run.spreads, self.run.returned = self._recorder.spreads, self._recorder.returned
        # where the graph was cut, with what never receives a gradient because of it
        never = {key for key, still in self._without.items() if still} - self._reached
        of = sum(count for _, count in self._names.values())
        looked, self.run.cuts = max(1, min(LOOKED, self.run.steps)), []
        # first those that are of the loss by which it was to learn, as a generator is detached
        # rightly for its judge's
        cuts = sorted(self._recorder.cuts.items(), key=lambda pair: not never & pair[1].due)
        for place, cut in cuts:
            lost = [self._names[key] for key in self._names if key in never & cut.behind]
            numbers = sum(count for _, count in lost)
            fed, across = (n / looked if cut.largest > 1 else 0.0 for n in (cut.fed, cut.across))
            self.run.acts = self.run.acts or (cut.how == "sample" and not (fed or across))
            if lost or fed or across or cut.lost:
                names = tuple(n for n, _ in lost)
                scored = cut.how in ("sample", "no_grad") and self._recorder.scored
                more = {"scored": scored, "carried": cut.carried / looked, "lost": cut.lost}
                seen = CutSeen(place, cut.how, names, numbers, of, fed, across, **more)
                self.run.cuts.append(seen)
        for q in self._quiet.values():  # or where there never was one
            module = q.module()
            own = [] if module is None else [*module.named_parameters()]
            untaught = all(p.requires_grad and id(p) in never for _, p in own)
            if own and untaught and q.calls >= FEW:
                names = tuple(f"{q.kind.__name__}.{n}" for n, _ in own)
                numbers = sum(p.numel() for _, p in own)
                self.run.cuts.append(CutSeen(q.place, "no_grad", names, numbers, of + numbers))
        self.run.turned, self.run.draws = self._recorder.turned, self._recorder.draws
        self.run.ahead, self.run.reordered = bool(self._recorder.ahead), self._recorder.reordered
        self.run.drawn = {key[:2]: counts for key, counts in self._recorder.again.items()}
        idle = (each.seen for each in self._live if not each.seen.steps)
        self.run.unstepped = [seen for seen in idle if seen.given]
        self.run.stale = [  # copies of what trains that are never made to follow it
            StaleSeen(q.kind.__name__, self._recorder.bootstraps[key], self.run.steps - q.began)
            for key, q in self._quiet.items()
            if q.twin and not q.changed
        ]
        self.run.bare = [q.kind.__name__ for q in self._quiet.values() if q.bare]
        quiet = (each for each in self._quiet.values() if each.calls >= FEW and not each.trains)
        self.run.untold = [q.kind.__name__ for q in quiet if q.untold == q.calls]
        self.run.attached |= self._recorder.attached
        self._round_ends()
        self.run.seconds = time.perf_counter() - self._start

    def _wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        """Let `around(own, args, named)` take the place of a function, until the end."""
        own = getattr(owner, name)

        @wraps(own)
        def instead(*args: Any, **named: Any) -> Any:
            return around(own, args, named)

        instead.observed = own  # pyright: ignore[reportAttributeAccessIssue]
        if name in vars(owner):
            self._undo.callback(setattr, owner, name, own)
        else:
            self._undo.callback(delattr, owner, name)
        setattr(owner, name, instead)

    # --------------------------------------------------------------------------
    # Modules.

    def _called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        if torch.compiler.is_compiling() or (self._dozing and not self._roused):
            return None  # a part of what is heard as one
        if not self._depth and next(module.parameters(), None) is None:
            return None  # what it computes is as if it was written out
        self._depth += 1
        if self._recorder.looking and torch.is_grad_enabled():
            self._recorder.fed(module, args)
        if self._depth > 1:
            return None
        self._recorder.within, self._recorder.drops = True, False
        if not torch.is_grad_enabled():
            self._heard = self._recorder.pause()  # there are fast paths that it would turn off
            self._asked_again(module, args)
            return self.intervention.asked(module, args)
        if not self._recorder.looking or any(map(is_compiled, module.modules())):
            self._heard = self._recorder.pause()
        seen = self._roots.get(module)
        self._began = self._began or time.perf_counter()
        if seen is None:
            self._begin()
            self._wake()
            seen = self._roots[module] = Called(type(module).__name__, self._place())
            seen.parameters = sum(p.numel() for p in module.parameters())
            seen.minds_mode = any(isinstance(m, BY_MODE) for m in module.modules())
            self._name(module)
            seen.norms = any(isinstance(m, NORMS) for m in module.modules())
            seen.recurrent = any(isinstance(m, nn.RNNBase) for m in module.modules())
            seen.edges = any(is_edges(t) for t in tensors(args))
            lists = (nn.ModuleList, nn.Sequential)
            stacks = [(n, m._modules) for n, m in module.named_modules() if isinstance(m, lists)]
            many = {n: Counter(map(id, parts.values())) for n, parts in stacks}
            seen.repeated_layers = tuple(
                f"{n}.{key}".lstrip(".")
                for n, parts in stacks
                for key, m in parts.items()
                if m is not None and many[n][id(m)] > 1 and any(True for _ in m.parameters())
            )
            with suppress(Exception):  # nothing that is watched may stop training
                for other, like in [*self._roots.items()][:KEPT]:
                    pairs = [*zip(module.parameters(), other.parameters(), strict=False)]
                    drawn = any(a.ndim > 1 for a, _ in pairs)  # and no gains, which begin alike
                    if (
                        drawn
                        and is_copy(module, other)
                        and all(torch.equal(*pair) for pair in pairs)
                    ):
                        seen.twin = like.twin = True
            self.run.modules.append(seen)
        if self._roused or not any(p.requires_grad for p in module.parameters()):
            return None  # in between, evaluations alone are heard
        first = next(tensors(args), None)
        for each in self._live:
            each.within += each.stepping
            if each.stepping and first is not None:
                each.given.append((id(module), float(first.detach().double().sum())))
        with suppress(Exception):  # nothing that is watched may stop training
            if self.run.steps < KEPT:
                self._comparisons.fed(args)
            if first is not None:
                self._comparisons.stays(first)
                seen.longest = max(seen.longest, first.shape[1] if first.ndim > 1 else 0)
        seen.in_training += module.training
        seen.in_evaluation += not module.training
        self._last_asked = None
        if first is not None and len(self._batches) < MARKED:
            key = (id(module), *mark_of(first))
            if len(self.run.batches) < FEW:
                self.run.batches.append(key[1:])
            self._batches[key] += 1
            seen.alike = max(seen.alike, self._batches[key])
        if first is not None and self.run.steps < KEPT:
            with suppress(Exception):  # nothing that is watched may stop training
                seen.spreads[0].extend(spread_of(first))
                seen.interleaved = min(seen.interleaved, interleaved(first))
        seen.fed = seen.fed or any(t.grad_fn is not None for t in tensors(args))
        seen.alone += first is not None and first.ndim > 1 and len(first) == 1
        if not module.training and seen.first_evaluation is None:
            seen.first_evaluation = self.run.steps
        return self.intervention.called(module, args)

    def _returned(self, module: nn.Module, args: Any, *rest: Any) -> None:
        # where it raised, torch passes no names
        named, out = rest if len(rest) > 1 else ({}, *rest)
        if torch.compiler.is_compiling() or not self._depth:
            return
        self._depth -= 1
        if self._depth:
            return
        self._recorder.within = False
        if self._heard:
            self._recorder.resume()
            self._heard = False
        with suppress(Exception):  # nothing that is watched may stop training
            if self.run.steps < KEPT:
                self._comparisons.gave(module, args, out)
        if not torch.is_grad_enabled():
            if self._recorder.looking:
                self._recorder.quiet(module, out)
            return
        with suppress(Exception):  # nothing that is watched may stop training
            self._comparisons.masked(tensors((args, named)))
        for each in self._live:
            each.forward_since = True
        seen = self._roots.get(module)
        outputs = [t for t in tensors(out) if t.requires_grad]
        if seen is not None:
            seen.minds_mode = seen.minds_mode or self._recorder.drops
        if seen is not None and outputs:
            seen.shapes = _shapes(tensors((args, named))), _shapes(outputs)
            if self.run.steps in COUNTED:
                with suppress(Exception):  # nothing that is watched may stop training
                    self._comparisons.passed(seen, args, out)
            if self._recorder.looking and self.run.backwards:
                self._outputs.append(outputs[0].grad_fn)
            fresh = self._copies and not self.run.steps
            self._recorder.called(module, args, named, out, fresh=fresh)

    def _round_ends(self) -> None:
        if self._round:
            self.run.rounds.append(self._round)
        self._round = 0

    def _begin(self) -> None:
        """Something else trains from now on."""
        if self.run.steps and self.run.steps not in self.run.phases:
            self.run.phases.append(self.run.steps)

    def _scored(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """What trains is called without gradients: in which mode, and whether several times."""
        seen = self._roots.get(module)
        if seen is None:
            return
        self._round += 1
        seen.asked += not module.training
        x = next(tensors(args), None)
        with suppress(Exception):  # nothing that is watched may stop training
            if x is not None and x.ndim > 1:
                seen.asked_longest = max(seen.asked_longest, x.shape[1])
                same = [s[1:] for s in seen.shapes[0][:1]] == [x.shape[1:]]
                if same and len(seen.spreads[1]) < KEPT:
                    seen.spreads[1].extend(spread_of(x))
            if not module.training:
                # the share of running statistics that is still what they were built with
                norms = (m for m in module.modules() if isinstance(m, NORMS))
                counts = (
                    (share, int(n))
                    for m in norms
                    if (share := m.momentum) and (n := m.num_batches_tracked) is not None
                )
                seen.lagging = max((0.0, *((1 - share) ** n for share, n in counts if n >= KEPT)))
        mark = None if x is None else (id(module), *mark_of(x))
        before, self._last_asked = self._last_asked, mark
        if before is None or mark is None or before[0] != mark[0]:
            return
        seen.repeated = seen.repeated or before == mark  # as to see how far draws differ
        if not module.training or not seen.minds_mode:
            return
        # statistics that are made anew from all of the data are no scores
        if not any(isinstance(m, NORMS) and m.momentum is None for m in module.modules()):
            seen.unswitched += 1
            seen.asked_at = seen.asked_at or self._place()

    def _asked_again(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A model is called without gradients: whether its weights are still what they were."""
        self._scored(module, args)
        mark = sum(p._version for p in module.parameters())
        known = self._quiet.get(id(module))
        if known is None or known.module() is not module:
            ref = weakref.ref(module)
            how = ref, type(module), mark, self._place(), self.run.steps
            known = self._quiet[id(module)] = _Quiet(*how)
        known.changed = known.changed or mark != known.mark
        known.trains = known.trains or module in self._roots
        known.calls += 1
        if module.training and known.untold == known.calls - 1:
            known.untold += any(isinstance(m, BY_MODE) for m in module.modules())
        alike = self.run.steps < KEPT and any(is_copy(m, module) for m in self._roots)
        if alike:
            with suppress(Exception):  # nothing that is watched may stop training
                self._comparisons.asked(args)
        elif known.calls <= self.run.steps / 4 and not module.training:
            moved = (id(p) in self._once for p in module.parameters())
            if module not in self._roots and not any(moved):
                with suppress(Exception):  # nothing that is watched may stop training
                    self._averaged(module)
        if not known.twin and id(module) in self._recorder.bootstraps:
            known.twin = any(is_copy(m, module) for m in self._roots)
            known.changed = known.changed or module in self._roots
        if not module.training and self.run.steps >= KEPT and module not in self._roots:
            norms = [m for m in module.modules() if isinstance(m, NORMS)]
            like = any(type(m) is known.kind and m.training for m in self._roots)
            known.bare = like and bool(norms) and all(map(is_untouched, norms))

    def _averaged(self, module: nn.Module) -> None:
        """An average of weights is asked: how much of it is what they were at first."""
        starts = [m for step in self._recorded.values() for m in step.modules]
        pairs = [(r, s) for r in self._roots if is_copy(r, module) for s in starts if is_copy(s, r)]
        for root, start in pairs[:1]:
            moved = left = apart = 0.0
            rows = zip(*(m.parameters() for m in (module, root, start)), strict=True)
            for mean, now, first in ((p.detach().double() for p in row) for row in rows):
                way = first.to(now.device) - now
                moved += float(way.square().sum())
                left += float(((mean - now) * way).sum())
                apart += float((mean - now - way).square().sum())
            if 0 < apart < moved:  # else it is no average of them, or has never been moved
                self.run.averages[type(module).__name__] = left / moved, self._place()

    # --------------------------------------------------------------------------
    # Losses and backward passes.

    def _loss(self, name: str) -> Callable[..., Any]:
        def around(own: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
            within = any(map(is_functorch_wrapped_tensor, tensors(args)))  # of `torch.func`
            if self._dozing or within or len(args) < 2 or not torch.is_grad_enabled():
                return own(*args, **named)
            args = self.intervention.given(name, args)
            found = own(*args, **named)
            if self._depth <= 1:
                with suppress(Exception):  # nothing that is watched may stop training
                    out, targets = args[:2]
                    both = isinstance(out, Tensor) and isinstance(targets, Tensor)
                    if both and out.requires_grad:
                        if (term := self._comparisons.valued(name, found)) is not None:
                            self._pending.append((term, found.detach().clone()))
                        self._comparisons.compared(name, args, named, found)
                        if self._depth and self._copies:
                            self._inside = Inside(name, dict(named), targets.detach().clone())
                    self.intervention.compared(name, self._place(), found)
            return found

        return around

    def _backward(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        first = args[0] if args else named.get("tensors")
        if not isinstance(first, Tensor):
            first = next(tensors(first), None)
        where = self._place()
        self.run.backwards += 1
        self._exchanged = self.run.exchanged
        if self._dozing:
            self._looked_at(first, where)
            return own(*args, **named)
        for each in self._live:
            if any(g.is_dropped(where) for g in each.gradients):
                each.dropped.add(where)
            for g in each.gradients:
                g.look()
        pairs = self._optimizers.items()
        old = (p for o, e in pairs if any(g.is_old() for g in e.gradients) for p in held_by(o))
        self.intervention.before_backward(old)
        before = {id(g): _marked(g.now) for e in self._live for g in e.gradients}
        self._looked_at(first, where)
        if first is not None:
            if self._recorder.looking:
                self._reached |= leaves_of(first)
                self._recorder.ends_in(first)
                self._is_used(first)
                with suppress(Exception):  # nothing that is watched may stop training
                    if self._comparisons.sides is not None:  # whether one moves both outputs
                        ref, (one, other), key = self._comparisons.sides
                        whole = ref() is self._before_scale(first)
                        for held in ({*map(id, held_by(o))} for o in self._optimizers if whole):
                            self.run.two_sided[key] += bool(held & one) and bool(held & other)
            self._record(first, where)
            if not self.run.steps and self.run.backwards <= KEPT:
                with suppress(Exception):  # nothing that is watched may stop training
                    self._moves(first)
        self._break("loss", () if first is None else (first.detach(),))
        with suppress(Exception):  # nothing that is watched may stop training
            self._comparisons.forget()
        found = own(*args, **named)
        self._break("gradients", (p.grad for p in self._held() if p.grad is not None))
        for optimizer, each in pairs:
            each.within += each.stepping
            if all(g.gave is None and g.now is None for g in each.gradients):
                # they may lead to no loss, as a layer that is not called: follow what does
                given = [p for p in held_by(optimizer) if p.grad is not None and _any(p.grad)]
                if given:
                    each.gradients = _chosen(given)
                    before |= {id(g): None for g in each.gradients}
            changed = [g for g in each.gradients if not _is_same(g.now, before[id(g)])]
            nothing = not changed and not any(
                g.now is not None and _any(g.now) for g in each.gradients
            )
            each.missed = where if nothing else None
            for g in changed:
                g.take(where)
                if each.stepping:  # in a closure the next pass must find it empty again
                    g.leave()
            if changed:
                each.backwards += 1
                each.seen.given += 1
                each.forward_since = False
                each.by = where
                if each.stepping:
                    each.seen.backward = where
        limit = None if self._steps is None else 4 * self._steps
        if not self.run.steps and (
            (limit is not None and self.run.backwards > limit) or self._is_over()
        ):
            self._end()
        return found

    def _trace(self) -> None:
        if self.run.steps == self._traced and not self._origins.began:
            self._origins.begin()

    def _held(self) -> Iterator[Tensor]:
        return (p for o in self._optimizers for p in held_by(o))

    def _break(self, what: str, values: Iterable[Tensor]) -> None:
        """End where something has ceased to be a number, if one listens for that."""
        self.run.broken = self._origins.seen(what, values, self.run.steps)
        if self.run.broken is not None:
            self._end()

    def _derived(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        direct = self._own(sys._getframe(2).f_code.co_filename)
        if direct and self.intervention.keeps_graph() and len(args) < 5:
            named = {**named, "create_graph": True}
        found = own(*args, **named)
        kept = named.get("create_graph", args[4] if len(args) > 4 else False)
        if not direct or self._dozing or not torch.is_grad_enabled():
            return found
        if self._derivatives:  # of one that was taken before it is made of it
            of = tensors(args[0] if args else named.get("outputs"))
            past = {n for t in of for n in nodes_of(t)}
            self._derivatives = [pair for pair in self._derivatives if pair[1] not in past]
        if kept:
            where = self._place()
            nodes = [(where, t.grad_fn) for t in tensors(found) if t.grad_fn is not None]
            self._derivatives += nodes if self._recorder.looking else ()
            return found
        for of in tensors(args[0] if args else named.get("outputs")):
            for t in tensors(found):
                self._recorder.derived(of, t)
        return found

    def _is_used(self, loss: Tensor) -> None:
        """Whether a loss is made of the derivatives that were taken for it with their graph."""
        left, self._derivatives = self._derivatives, []
        made, self._outputs = self._outputs, []
        nodes = nodes_of(loss) if left or len(made) > 1 else set()
        if len(made) > 1 and len(nodes) < NODES:
            lost, of = self.run.lost_calls
            self.run.lost_calls = lost + sum(n not in nodes for n in made), of + len(made)
        for where in dict.fromkeys(where for where, _ in left):
            unused, of = self.run.derivatives.get(where, (0, 0))
            idle = nodes.isdisjoint(node for at, node in left if at == where)
            self.run.derivatives[where] = unused + (idle and len(nodes) < NODES), of + 1

    def _moves(self, loss: Tensor) -> None:
        """Whether weights are others than at the pass before, though no optimizer has stepped."""
        leaves = [node.variable for node in nodes_of(loss) if hasattr(node, "variable")]
        # of shards that were put together the memory is given back, and must not be read
        bare = lambda p: p.layout is torch.strided and not p.untyped_storage().nbytes()
        leaves = [p for p in leaves if not bare(p)]
        size = lambda p: float(p.detach().abs().double().norm())  # of complex numbers too
        sizes = {id(p): (weakref.ref(p), size(p)) for p in leaves}  # told whoever writes to it
        before, self._sizes = self._sizes, sizes
        same = [
            (was, sizes[k][1]) for k, (p, was) in before.items() if p() is not None and k in sizes
        ]
        # written to, or all made anew
        self.run.moved_by_hand += bool(before) and (not same or any(a != b for a, b in same))

    def _looked_at(self, loss: Tensor | None, where: Line | None) -> None:
        if loss is None or loss.numel() != 1:
            return
        if self._unscaled is not None:
            loss = self._before_scale(loss)
        seen = self.run.losses.get(where)
        if seen is None:
            seen = self.run.losses[where] = LossSeen(where)
        if loss.device.type == "cpu":
            seen.values.append(float(loss.detach()))
        else:  # reading it would wait for what is computed there
            self._pending.append((seen, loss.detach().clone()))
        seen.leaves += loss.grad_fn is None
        if self.run.steps < LOOKED:
            with suppress(Exception):  # nothing that is watched may stop training
                if twice := repeated_divisor(loss):
                    self.run.divided[where] = twice
                if type(loss.grad_fn).__name__ == "SumBackward0":
                    sizes = loss.grad_fn._saved_self_sym_sizes  # pyright: ignore
                    self.run.summed[where] = math.prod(map(int, sizes))
        if (steps := self.run.steps) in COUNTED and (not seen.nodes or seen.nodes[-1][0] != steps):
            seen.nodes.append((steps, len(nodes_of(loss))))
        if len(self._pending) > 64:
            kept, self._pending = self._pending, []
            for each, value in kept:
                each.values.append(float(value))

    def _record(self, loss: Tensor, where: Line | None) -> None:
        """Keep the step that led to a loss, and the batches of others that are like it."""
        recorder, loss = self._recorder, self._before_scale(loss)
        known = self._recorded.get(where)
        if self._copies and (known is None or len(known.batches) < KEPT):
            with suppress(Exception):  # nothing that is watched may stop training
                step = recorder.step(loss)
                if step is not None and known is not None and step.form == known.form:
                    known.batches += step.batches
                elif step is None and known is None:
                    self.run.unheard = recorder.unheard
                elif step is not None and known is None and not self.run.steps:
                    self._recorded[where], step.inside = step, self._inside
        self._unscaled = None
        recorder.forget()

    def _before_scale(self, loss: Tensor) -> Tensor:
        """A loss as it was before a scaler made it larger, by a factor that changes in time."""
        known = self._unscaled
        return known[1] if known is not None and known[0]() is loss else loss

    def _scaled(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        found = own(*args, **named)
        if isinstance(found, Tensor):
            self._unscaled = weakref.ref(found), args[1]
            if args[0].is_enabled() and args[0].get_scale() != 1.0:
                self._is_scaled = True
                self.run.scaled["scale", self._place()] += not self._dozing
        return found

    def _divided(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        self._is_scaled = False  # a scaler divides gradients by its scale, if nobody did before
        return own(*args, **named)

    def _probable(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        found = own(*args, **named)
        if isinstance(found, Tensor) and not is_functorch_wrapped_tensor(found):
            self._recorder.score(found, args[1] if len(args) > 1 else named.get("value"))
        return found

    def _entropy(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        found = own(*args, **named)
        grows = isinstance(found, Tensor) and found.requires_grad
        if grows and not is_functorch_wrapped_tensor(found) and self.run.steps < KEPT:
            found.register_hook(partial(self._tempered, self._place()))
        return found

    def _tempered(self, where: Line | None, gradient: Tensor) -> None:
        """A backward pass comes through an entropy, to make it smaller or larger."""
        down, of = self.run.entropies.get(where, (0, 0))
        self.run.entropies[where] = down + bool(gradient.sum() > 0), of + 1

    def _drawn(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        return self.intervention.drawn(self._place(), own(*args, **named))

    def _detached(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        whole = args[0].grad_fn is not None and args[0].numel() > 1
        direct = self._own(sys._getframe(2).f_code.co_filename)
        return args[0] if whole and direct else own(*args, **named)

    def _sampled(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        spread = args[0]
        if not getattr(spread, "has_rsample", False):
            self.run.acts = True
        if not getattr(spread, "has_rsample", False) or not torch.is_grad_enabled():
            found = own(*args, **named)
            self._recorder.acted(found)
            return found
        if self.intervention.keeps_graph():
            return spread.rsample(*args[1:], **named)
        looking, self._recorder.looking = self._recorder.looking, False
        found = own(*args, **named)
        self._recorder.looking = looking
        with suppress(Exception):  # nothing that is watched may stop training
            self._recorder.sampled(spread, found)
        self._recorder.acted(found)
        return found

    def _normal(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        drawn = own(*args, **named)
        whole = len(args) > 1 and isinstance(args[0], Tensor) and torch.is_grad_enabled()
        if not whole or not args[0].requires_grad:
            return drawn
        mean, std = args[:2]
        fixed = std.detach() if isinstance(std, Tensor) else std
        return mean + (drawn - mean.detach()) / fixed * std

    def _applied(self, own: Callable[..., Any], function: Any, args: Any, named: Any) -> Any:
        """A function with a backward pass of its own is applied: heard as one, as a module is."""
        written = function.backward.__code__
        if named or not torch.is_grad_enabled() or not self._own(written.co_filename):
            return own(*args, **named)
        if self.intervention.derives():
            return forward_of(function, args)
        heard = self._recorder.pause()
        try:
            key = function.__name__, Line(written.co_filename, written.co_firstlineno)
            seen = self.run.functions.setdefault(key, [])
            if len(seen) < LOOKED:
                seen.append(0.0)
                with suppress(Exception):  # nothing that is watched may stop training
                    seen[-1] = derivative_gap(own, function, args) or 0.0
            found = own(*args)
        finally:
            if heard:
                self._recorder.resume()
        if heard:
            self._recorder.applied(own, args, found)
        return found

    def _compiled(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        if not self._compiles:
            self._compiles = True
            self._undo.enter_context(_unwarned())
        what = args[0] if args else named.get("model")
        module, compiled = getattr(what, "__self__", what), own(*args, **named)
        if not isinstance(module, nn.Module):
            self._recorder.end()
            return compiled
        if module is what:
            return compiled

        def heard(*given: Any, **by_name: Any) -> Any:  # in place, where hooks are compiled, too
            if not self._hearing:
                return compiled(*given, **by_name)
            other, out = self._called(module, given), None
            other = (other,) if isinstance(other, Tensor) else other
            try:
                out = compiled(*(given if other is None else other), **by_name)
            finally:
                self._returned(module, given, by_name, out)
            return out

        return heard

    # --------------------------------------------------------------------------
    # Optimizers.

    def _made(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        found = own(*args, **named)
        where = self._place()
        if where is not None:
            self.run.made[where] += 1
            # whether a model like the one that was trained is trained next, as for a fold
            past, held = self.run.optimizers, held_by(args[0])
            limited = self._steps is not None or self._seconds is not None
            if limited and len(past) == 1 and past[0].steps >= KEPT:
                first = {id(p) for ref, _ in self._first if (p := ref()) is not None}
                like = (past[0].kind, past[0].made) == (type(args[0]).__name__, where)
                like = like and [p.ndim for p in held] == [ndim for _, ndim in self._first]
                if like and first.isdisjoint(map(id, held)):
                    self.run.repeated = True
                    self._end()
        self._follow(args[0], where)
        return found

    def _follow(self, optimizer: Optimizer, where: Line | None) -> _Followed:
        every = held_by(optimizer)
        for p in every:  # what it was in another phase tells nothing of this one
            self._zeros.pop(id(p), None)
        place = type(optimizer).__name__, where
        key = (*place, frozenset(map(id, every)))
        count = self.run.made[where]
        # of the same parameters, or made so often that it is no phase of its own: as in a loop
        known = self._known.get(key) or (self._known.get(place) if count > PHASES else None)
        seen = known if known is not None and count > 1 else OptimizerSeen(*place, len(every))
        self._known[place] = seen
        if count <= PHASES:
            self._known[key] = seen
        group = optimizer.param_groups[0] if optimizer.param_groups else {}
        seen.options = {k: v for k, v in group.items() if isinstance(v, int | float) and k != "lr"}
        seen.unusual = unusual_settings(optimizer) if group else {}
        self._wake()
        chosen = _chosen([p for p in every if p.requires_grad])
        followed = self._optimizers[optimizer] = _Followed(seen, chosen)
        self._live = (*self._optimizers.values(),)
        return followed

    def _zeroed(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        if self._dozing:
            return own(*args, **named)
        where = self._place()
        if self.intervention.skips_zeroing():
            return None
        found = own(*args, **named)
        for each in self._live:  # whether they are empty is seen later, by state
            each.seen.zeroed = where or each.seen.zeroed
        return found

    def _stepping(self, optimizer: Optimizer, args: Any, named: Any) -> None:
        each = self._optimizers.get(optimizer) or self._follow(optimizer, None)
        seen = each.seen
        closure = (*args[1:], named.get("closure"))[0] is not None  # behind the optimizer itself
        self.run.averaged += self.run.exchanged - self._exchanged
        self._exchanged = self.run.exchanged
        if not seen.steps and self.run.grouped:
            sizes = (float(p.detach().abs().double().sum()) for p in held_by(optimizer))
            seen.start = math.fsum(sizes)
        if not seen.steps:
            self._first = self._first or [(weakref.ref(p), p.ndim) for p in held_by(optimizer)]
            self.run.optimizers.append(seen)
            seen.began = self.run.steps
            self._begin()
        if not each.stepped:
            each.stepped = True
            self._once.update((id(p), weakref.ref(p)) for p in held_by(optimizer))
        if self._dozing:
            seen.rates.append(float(optimizer.param_groups[0]["lr"]))
            return
        seen.looked += 1
        seen.backward = each.by
        seen.overwritten += any(g.is_overwritten() for g in each.gradients)
        seen.place = self._place() or seen.place
        if self._is_scaled:
            self.run.scaled["step", seen.place] += 1
        each.stepping = closure
        self.intervention.before_step(optimizer)
        seen.rates.append(float(optimizer.param_groups[0]["lr"]))
        if not closure:
            self._judged(each)
        if seen.steps < LOOKED or seen.steps in COUNTED:
            held = held_by(optimizer)
            for p in held:  # which have had no gradient so far, or one of zeros each time
                given = p.grad is not None and _any(p.grad)
                self._without[id(p)] = self._without.get(id(p), True) and not given
                zero = p.grad is not None and not given
                self._zeros[id(p)] = self._zeros.get(id(p), True) and zero
            zeros = [p for p in held if self._zeros[id(p)] and id(p) in self._reached]
            seen.numbers, seen.zero = (sum(p.numel() for p in some) for some in (held, zeros))
            seen.trained = sum(p.numel() for p in held if p.requires_grad)
            seen.zero_names = tuple(self._names.get(id(p), ("", 0))[0] for p in zeros)
            matrices = [p for p in zeros if p.ndim > 1]
            seen.zero_weights = bool(matrices) and not any(map(_any, matrices))
        if seen.steps < 3 or seen.steps % 16 == 0:
            params = [g.parameter() for g in each.gradients]
            each.kept = [p.detach().clone() for p in params if p is not None]

    def _judged(self, each: _Followed) -> None:
        """Whether what this step is made of is of its own backward pass."""
        seen, grads = each.seen, [g.now for g in each.gradients]
        there = [g for g in grads if g is not None]
        empty = not there or not any(_any(g) for g in there)
        seen.old += any(g.is_old() for g in each.gradients)
        seen.dropped += seen.backward in each.dropped
        seen.vain = 0 if each.backwards else seen.vain + 1
        emptied = empty and any(g.is_emptied() for g in each.gradients)
        if emptied and each.missed is not None:
            seen.missed, seen.missed_by = seen.missed + 1, each.missed
        elif emptied:
            seen.emptied += 1
            seen.ahead += each.forward_since
        elif empty and not each.backwards:
            seen.empty += 1

    def _stepped(self, optimizer: Optimizer, *_: Any) -> None:
        each = self._optimizers[optimizer]
        if not self._dozing:
            self._looked_behind(optimizer, each)
        each.seen.steps += 1
        self._round_ends()
        each.seen.given = 0
        each.seen.ended = self.run.steps
        run, now = self.run, time.perf_counter()
        if self._traced is not None:
            self._break("step", (p.detach() for p in self._held()))
        run.steps += 1
        self._trace()
        # between two steps: whether the next one is looked at
        dozing = self._dozes and run.steps >= self._until and run.steps % ROUND >= AMONG
        if self._roused:
            self._hear_not()
            self._roused = False
        if dozing != self._dozing and not self._depth:
            self._dozing = dozing
            if dozing:
                self._hear_not()
            else:
                self._hear()
                for g in (g for o in self._live for g in o.gradients):
                    g.stepped = g.left = g.gave = g.old = None  # what is known is of before
                    g.given = False
        if self._recorder.looking:
            self._recorder.stepped({id(p) for p in held_by(optimizer)})
        self._recorder.looking = each.seen.steps < LOOKED
        if run.steps == KEPT:
            self._recorder.end()  # here, for within a backward pass it is not on top
        run.step_seconds.append(now - self._last)
        self._last = now
        trained = now - (self._began or self._start)
        if self._steps is not None and each.seen.steps >= self._steps:
            if trained >= self._least:
                self._end()
            if run.early is None:
                self._read()
                run.early = replace(deepcopy(run), stopped=True)
        if self._is_over():
            self._end()

    def _looked_behind(self, optimizer: Optimizer, each: _Followed) -> None:
        """What a step has left."""
        if each.stepping and not each.within:  # a closure that does nothing, as Lightning's
            self._judged(each)
        elif each.stepping and any(g.is_old() for g in each.gradients):
            each.seen.old += 1
        if each.stepping:
            each.seen.unasked += not each.within
            each.seen.evaluated += len(each.given) > 1
            each.seen.changing += len(each.given) > 1 and len({*each.given}) == len(each.given)
            each.given = []
        self.intervention.after_step(optimizer)
        # behind the step, for in a closure models run within it
        due = each.seen.steps >= each.asked + LEFT_OUT[1]
        if due or each.seen.steps == LEFT_OUT[0]:
            each.asked = each.seen.steps - each.seen.steps % LEFT_OUT[1]
            self._left_out(optimizer)
        elif self._outside and self._asked is each.seen:
            given = Counter[int]()  # which of them have been given gradients since
            for seen, ref, was in self._outside:
                grad = None if (p := ref()) is None else p.grad
                given[id(seen)] += grad is not None and not _is_same(grad, was) and _any(grad)
                seen.outside_given = max(seen.outside_given, given[id(seen)])
            self._outside = []
        if each.kept:
            params = [p for g in each.gradients if (p := g.parameter()) is not None]
            pairs = [*zip(params, each.kept, strict=False)]
            moved = (float((p.detach() - k).norm()) / (float(k.norm()) or 1.0) for p, k in pairs)
            each.seen.moved.append(max(moved, default=0.0))
            if each.seen.rates[-1] > 0:
                meant = [
                    (g != 0, p.detach() == k)
                    for p, k in pairs
                    if (g := p.grad) is not None and g.layout == torch.strided
                ]
                active = sum(int(a.sum()) for a, _ in meant)
                held = sum(int((a & same).sum()) for a, same in meant)
                each.seen.rounded.append(held / max(active, 1))
                each.seen.held_in = str(pairs[0][0].dtype).removeprefix("torch.") if pairs else ""
            each.kept = []
        for g in each.gradients:
            g.leave()
            g.given, g.old = False, None
        each.stepping = each.forward_since = False
        each.dropped.clear()
        each.backwards = each.within = 0

    def _is_over(self) -> bool:
        trained = time.perf_counter() - (self._began or self._start)
        return self._seconds is not None and trained > self._seconds

    def _end(self) -> None:
        self.run.stopped = True
        raise Stopped

    def _name(self, module: nn.Module) -> None:
        """Parameters that a module has itself, and none that stand in for them in a call."""
        own = [(n, p) for n, p in module.named_parameters() if isinstance(p, nn.Parameter)]
        self._names.update((id(p), (n, p.numel())) for n, p in own)

    def _left_out(self, optimizer: Optimizer) -> None:
        """At the first step, and now and then: what of models that ran no optimizer has."""
        held = Counter(id(p) for o in self._optimizers for p in held_by(o))
        self.run.shared = sum(n > 1 for n in held.values())
        seen_of, called = self._optimizers[optimizer].seen, set[int]()
        self._asked, self._outside = seen_of, []
        had = {*held, *(key for key, ref in self._once.items() if ref() is not None)}
        for module, seen in self._roots.items():
            own = [*module.named_parameters()]
            called.update(id(p) for _, p in own)
            self._name(module)  # which may have been called with others in their place
            seen.frozen = sum(p.numel() for _, p in own if not p.requires_grad)
            self._froze.update(id(p) for _, p in own if not p.requires_grad)
            # what was trained before is left alone on purpose, unless it was frozen and is no more
            left = {*had} - (self._froze - {*held})
            outside = [(n, p) for n, p in own if p.requires_grad and id(p) not in left]
            names = tuple(n for n, _ in outside)
            if names != seen.outside:  # of these it is not known yet whether they are given any
                seen.outside, seen.outside_given = names, 0
                seen.outside_numbers = sum(p.numel() for _, p in outside)
            self._outside += [(seen, weakref.ref(p), _marked(p.grad)) for _, p in outside]
            self.intervention.left_out(optimizer, [p for _, p in outside])
        own = held_by(optimizer)
        seen_of.foreign = sum(id(p) not in called for p in own)
        seen_of.fixed = sum(p.numel() for p in own if not p.requires_grad)

    # --------------------------------------------------------------------------
    # What else is called.

    def _handed(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        """The weights of a model, by reference: when they were handed out."""
        found = own(*args, **named)
        if len(args) == 1 and "destination" not in named:
            with suppress(TypeError):  # a model may hand out what it likes
                if len(self._handed_out) > KEPT:
                    self._handed_out = {k: v for k, v in self._handed_out.items() if v[0]()}
                self._handed_out[id(found)] = weakref.ref(found), self.run.steps, self._place()
        return found

    def _loaded(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        given = args[1] if len(args) > 1 else named.get("state_dict", {})
        before = args[0].state_dict()
        if args[0] in self._roots:
            self._wake()
        met = [(v, given[k]) for k, v in before.items() if k in given and isinstance(v, Tensor)]
        light = sum(v.numel() for v, _ in met) <= LARGEST
        same = bool(met) and light and all(v.shape == g.shape and v.equal(g) for v, g in met)
        ref, since, kept = self._handed_out.get(id(given), (None, self.run.steps, None))
        late = ref is not None and ref() is given and since < self.run.steps
        shared = late and all(v.data_ptr() == g.data_ptr() for v, g in met if v.numel())
        found = own(*args, **named)
        keys, wanted = len(given), len(before)
        missing = len(getattr(found, "missing_keys", ()))
        counts = keys, wanted, wanted - missing
        loaded = Loaded(self._place(), *counts, same, self.run.steps, shared, kept)
        self.run.loaded.append(loaded)
        return found

    def _evaluated(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        seen = self._roots.get(args[0])
        if seen is not None:
            self._rouse()
            seen.evaluated = self._place() or seen.evaluated
        return own(*args, **named)

    def _turned_off(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        """Gradients are turned off, as where a model is asked; not where each step does it."""
        if self._dozing and not self._roused:
            frame = sys._getframe(2)
            if frame.f_code.co_name == "decorate_context" and frame.f_back is not None:
                frame = frame.f_back
            where, now = (frame.f_code, frame.f_lineno), self.run.steps
            last, times = self._turns.get(where, (now, 0))
            self._turns[where] = now, times + 1 if now <= last + 1 else 1
            if self._turns[where][1] <= FEW and self._own(frame.f_code.co_filename):
                self._rouse()
        return own(*args, **named)

    def _iterated(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        loader = args[0]
        self._rouse()
        self._round_ends()
        self.intervention.iterated(loader)
        sampler = type(getattr(loader, "sampler", None)).__name__
        count = len(loader) if hasattr(loader.dataset, "__len__") else None
        where = self._place()
        seen = self.run.loaders.setdefault(id(loader), LoaderSeen(where, count, sampler))
        seen.begun += 1
        if count is not None:
            seen.samples, seen.batch = len(loader.dataset), loader.batch_size
        apart = getattr(loader, "sampler", None)
        if isinstance(apart, DistributedSampler) and apart.shuffle:
            seen.orders.add((apart.seed, apart.epoch))
        if isinstance(apart, WeightedRandomSampler) and seen.begun == 1:
            seen.weights = len(apart.weights)
            with suppress(Exception):  # as below
                seen.by_class = weights_by_class(apart.weights, loader.dataset)
        with suppress(Exception):  # a data set is the user's own, and may be anything
            if self._data is None:
                held = [(t, t.clone()) for t in stored_in(loader.dataset)]
                self._data = weakref.ref(loader.dataset), held
            elif self._data[0]() is loader.dataset:
                changes = (rescaled_by(was, now) for now, was in self._data[1])
                self.run.rewritten = max(self.run.rewritten, *changes)
        return own(*args, **named)

    def _next(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        try:
            found = own(*args, **named)
        except StopIteration:
            if args[0] in self._spent:
                self.run.spent[self._place()] += 1
            self._spent.add(args[0])
            raise
        self._spent.discard(args[0])  # workers that go on begin it anew
        return found

    def _scheduled(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        kind, where = type(args[0]).__name__, self._place()
        if where is not None:  # the first one is made by its own `__init__`
            self.run.scheduled[kind, where] += 1
        if isinstance(args[0], ReduceLROnPlateau):
            with suppress(TypeError, ValueError, IndexError):  # it is given what it is compared by
                value = float(args[1] if len(args) > 1 else named["metrics"])
                seen = self.run.plateaus.setdefault(where, (args[0].mode == "max", []))
                seen[1].append(value)
        of = args[0].optimizer
        each = self._optimizers.get(of) or self._optimizers.get(getattr(of, "optimizer", of))
        if each is not None:  # what it says of its plan
            rates = [g.get("max_lr") for g in of.param_groups] or [None]  # of what goes up to it
            rates = getattr(args[0], "base_lrs", None) if rates[0] is None else rates
            each.seen.planned = float(rates[0]) if rates else None
            for shape in getattr(args[0], "lr_lambdas", ()):
                said = getattr(shape, "keywords", {})
                if {"num_warmup_steps", "num_training_steps"} <= said.keys():
                    each.seen.warm_up = said["num_warmup_steps"], said["num_training_steps"]
        if not self.intervention.holds_rate():
            return own(*args, **named)
        groups = of.param_groups
        rates = [group["lr"] for group in groups]
        found = own(*args, **named)  # it counts its steps, and is asked for its last rate
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        return found

    def _clipped(self, own: Callable[..., Any], args: Any, named: Any) -> Any:
        if self._is_scaled:
            self.run.scaled["clipping", self._place()] += not self._dozing
        limit = args[1] if len(args) > 1 else named.get("max_norm", named.get("clip_value"))
        before = own(args[0], float("inf")) if self.intervention.unclips() else None
        found = own(*args, **named) if before is None else before
        if isinstance(found, Tensor) and found.numel() == 1:
            self.run.clipped.append((self._place(), float(limit or 0.0), float(found)))
        return found

    def _place(self) -> Line | None:
        """The line of the user's own code that is being run; the innermost."""
        frame = sys._getframe(2)  # the first one is of an observer
        while frame is not None:
            name = frame.f_code.co_filename
            if self._own(name):
                return Line(name, frame.f_lineno)
            frame = frame.f_back
        return None


@contextmanager
def _unwarned() -> Iterator[None]:
    """Leave out torch's warning that modules which are compiled have hooks: they are ours."""
    warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")
    added = warnings.filters[0]
    try:
        yield
    finally:
        with suppress(ValueError):  # filters may be set anew by anybody
            warnings.filters.remove(added)  # pyright: ignore[reportAttributeAccessIssue]


@cache
def is_own(file: str) -> bool:
    """Whether a file is neither installed, nor of Python or of this package, nor made up."""
    if file.startswith("<"):
        return file.startswith("<ipython") or file.startswith("<stdin")
    path, places = str(Path(file).resolve()), sysconfig.get_paths()
    roots = {places[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed = "site-packages" in path or any(path.startswith(f"{r}/") for r in roots)
    return not installed and not path.startswith(PACKAGE)


def _shapes(of: Iterable[Tensor]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(t.shape) for t in of)


def _any(grad: Tensor) -> bool:
    dense = grad.coalesce().values() if grad.is_sparse else grad
    return bool(torch.count_nonzero(dense.detach()))


def _chosen(among: Sequence[Tensor]) -> list[_Gradient]:
    """The parameters that are followed: the smallest ones, and the first."""
    half = FOLLOWED // 2
    some = (*sorted(among, key=Tensor.numel)[:half], *among[:half])
    return [_Gradient(weakref.ref(p)) for p in {id(p): p for p in some}.values()]


def _marked(grad: Tensor | None) -> _Mark | None:
    return None if grad is None else (weakref.ref(grad), grad._version)


def _is_same(grad: Tensor | None, mark: _Mark | None) -> bool:
    """Whether it is the tensor that was marked, and nobody has written to it since."""
    if grad is None or mark is None:
        return grad is mark
    return mark[0]() is grad and mark[1] == grad._version
