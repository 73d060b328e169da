"""One thing that a script does otherwise while it is watched, from hooks and without its knowledge.

Each cures one mistake of a loop if it is there, and changes nothing else: schedulers see the rates
that they set, the script its own objects.
"""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from sigmascope.core.guard import random_states
from sigmascope.diagnosis.scripts.comparisons import is_edges, largest_score
from sigmascope.diagnosis.scripts.seen import Line
from sigmascope.models.samples import mapped, tensors

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
SHARP = 14.0  # the size of scores at a temperature of 0.07
POWERS = {"mse_loss": 2, "l1_loss": 1, "smooth_l1_loss": 1, "huber_loss": 1}  # of the spread


def held_by(optimizer: Optimizer) -> list[Tensor]:
    """Parameters of all groups of an optimizer, in their order."""
    return [p for group in optimizer.param_groups for p in group["params"]]


@dataclass
class Intervention:
    """Nothing is done otherwise; the base of those that do.

    Attributes:
        name: By which it is asked for.
        says: What is done, in words.
    """

    name: str = ""
    says: str = "as it is"

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        """A model is called with gradients; other arguments may be given back."""
        return None

    def asked(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        """A model is called without gradients; other arguments may be given back."""
        return None

    def rises(self) -> bool:
        """Whether the loss is to rise with it."""
        return False

    def given(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """A loss of torch is given an output and targets; others may be given in their place."""
        return args

    def compared(self, name: str, place: Any, loss: Tensor) -> None:
        """A loss of torch was computed."""

    def judged_by(self) -> Any:
        """Name and place of the loss of torch that tells how far a run came; None for its own."""
        return None

    def before_backward(self, old: Iterable[Tensor]) -> None:
        """A backward pass begins, and these parameters have gradients from before the last step."""

    def before_step(self, optimizer: Optimizer) -> None:
        """An optimizer steps."""

    def after_step(self, optimizer: Optimizer) -> None:
        """An optimizer has stepped."""

    def left_out(self, optimizer: Optimizer, parameters: list[nn.Parameter]) -> None:
        """Before the first step: what no optimizer has."""

    def iterated(self, loader: DataLoader) -> None:
        """A loader begins."""

    def skips_zeroing(self) -> bool:
        """Whether the script's own emptying of gradients is left out."""
        return False

    def holds_rate(self) -> bool:
        """Whether schedulers do nothing."""
        return False

    def keeps_graph(self) -> bool:
        """Whether what the script itself detaches stays in the graph."""
        return False

    def unclips(self) -> bool:
        """Whether gradients are not clipped."""
        return False

    def derives(self) -> bool:
        """Whether functions with a backward pass of their own are derived by autograd."""
        return False

    def joins_draws(self) -> bool:
        """Whether whole numbers that are drawn go through `drawn`."""
        return False

    def drawn(self, place: Any, found: Tensor) -> Tensor:
        """Whole numbers were drawn; others may be given in their place."""
        return found


@dataclass
class ZeroGradients(Intervention):
    """Old gradients are dropped before a backward pass adds to them."""

    name: str = "zero-gradients"
    says: str = "gradients emptied before each backward pass that follows a step"

    def before_backward(self, old: Iterable[Tensor]) -> None:
        for p in [*old]:
            p.grad = None


@dataclass
class KeepGradients(Intervention):
    """Gradients are emptied behind a step, and at no other time."""

    name: str = "keep-gradients"
    says: str = "gradients emptied behind the step, and not before it"

    def skips_zeroing(self) -> bool:
        return True

    def after_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad = None


@dataclass
class TrainingMode(Intervention):
    """Models train in training mode."""

    name: str = "training-mode"
    says: str = "the model in training mode whenever it is called with gradients"

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        if not module.training:
            module.train()


@dataclass
class ScaledRate(Intervention):
    """The learning rate, times a factor."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        self.name, self.says = f"rate x {self.factor:g}", f"the learning rate times {self.factor:g}"
        self._own: dict[int, float] = {}

    def before_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            self._own[id(group)] = group["lr"]
            group["lr"] = group["lr"] * self.factor

    def after_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            group["lr"] = self._own.pop(id(group), group["lr"])


@dataclass
class HoldRate(Intervention):
    """The rate stays what it is at first."""

    name: str = "constant-rate"
    says: str = "the learning rate as it is at first, which nothing lowers"

    def __post_init__(self) -> None:
        self._first: dict[int, float] = {}

    def holds_rate(self) -> bool:
        return True

    def before_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:  # which may be lowered by hand
            group["lr"] = self._first.setdefault(id(group), group["lr"])


@dataclass
class FullRate(HoldRate):
    """The rate is that which schedulers were given."""

    name: str = "full-rate"
    says: str = "the learning rate that the scheduler was given, from the start"

    def before_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            group["lr"] = group.get("max_lr", group.get("initial_lr", group["lr"]))


@dataclass
class KeptGraph(Intervention):
    """Nothing is detached by the script itself."""

    name: str = "kept-graph"
    says: str = "gradients through what the script detaches"

    def keeps_graph(self) -> bool:
        return True


@dataclass
class Redrawn(Intervention):
    """Weights are drawn as their layers draw them, when a model is called first."""

    name: str = "redrawn"
    says: str = "weights drawn anew, as their layers draw them"

    def __post_init__(self) -> None:
        self._known = set[int]()

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        if id(module) in self._known:
            return
        self._known.add(id(module))
        with random_states(seed=0):  # the script's own numbers stay as they are
            for part in module.modules():
                draw = getattr(part, "reset_parameters", None)
                if callable(draw):
                    draw()


@dataclass
class AllParameters(Intervention):
    """What no optimizer has is given to the first one that steps."""

    name: str = "all-parameters"
    says: str = "all parameters of the model given to the optimizer"

    def left_out(self, optimizer: Optimizer, parameters: list[nn.Parameter]) -> None:
        if parameters:
            optimizer.add_param_group({"params": parameters})


@dataclass
class Unfrozen(AllParameters):
    """All parameters of the models take gradients, and train."""

    name: str = "unfrozen"
    says: str = "no parameter frozen"

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        for p in module.parameters():
            if not p.requires_grad and p.is_floating_point():
                p.requires_grad_()


@dataclass
class NoDecay(Intervention):
    """Weights do not decay."""

    name: str = "no-decay"
    says: str = "no weight decay"

    def before_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            if "weight_decay" in group:
                group["weight_decay"] = 0.0


@dataclass
class UsualSettings(Intervention):
    """Settings of optimizers as they are usual.

    Attributes:
        settings: By name.
    """

    name: str = "usual-settings"
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.says = " and ".join(f"{name} {value}" for name, value in self.settings.items())

    def before_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            group.update(self.settings)


def _plain(model: nn.Module) -> set[int]:
    """Gains and biases, by identity, and rows of embeddings: what is no matrix of a layer."""
    rows = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)}
    return rows | {id(p) for p in model.parameters() if p.ndim < 2}


@dataclass
class DecayOfMatrices(Intervention):
    """Matrices of layers alone decay: no gains, biases or embeddings."""

    name: str = "decay-of-matrices"
    says: str = "weight decay of matrices alone, and not of gains, biases and embeddings"

    def __post_init__(self) -> None:
        self._plain = set[int]()
        self._whole: list[dict[str, Any]] = []

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        self._plain |= _plain(module)

    def before_step(self, optimizer: Optimizer) -> None:
        self._whole = [*optimizer.param_groups]
        for group in self._whole if "weight_decay" in optimizer.defaults else ():
            spared = [p for p in group["params"] if id(p) in self._plain]
            optimizer.param_groups.append({**group, "params": spared, "weight_decay": 0.0})
            group["every"] = group["params"]
            group["params"] = [p for p in group["params"] if id(p) not in self._plain]

    def after_step(self, optimizer: Optimizer) -> None:
        optimizer.param_groups[:] = self._whole
        for group in self._whole:
            group["params"] = group.pop("every", group["params"])


@dataclass
class DecoupledDecay(Intervention):
    """Weights decay beside the step, as in AdamW."""

    name: str = "decoupled-decay"
    says: str = "weight decay beside the step, as in AdamW, and not in the gradient"

    def __post_init__(self) -> None:
        self._own: dict[int, float] = {}

    def before_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            decay = self._own[id(group)] = group.get("weight_decay", 0.0)
            group["weight_decay"] = 0.0
            with torch.no_grad():
                for p in group["params"]:
                    p.mul_(1 - group["lr"] * decay)

    def after_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            group["weight_decay"] = self._own[id(group)]


@dataclass
class NoClipping(Intervention):
    """Gradients are as large as they are."""

    name: str = "no-clipping"
    says: str = "gradients not clipped"

    def unclips(self) -> bool:
        return True


@dataclass
class Clipped(Intervention):
    """Gradients of an optimizer are made no longer than one."""

    name: str = "clipped"
    says: str = "gradients clipped to a norm of 1"

    def before_step(self, optimizer: Optimizer) -> None:
        every = held_by(optimizer)
        nn.utils.clip_grad_norm_([p for p in every if p.grad is not None], 1.0)


@dataclass
class AdamSteps(Intervention):
    """Steps are those of Adam at its usual rate, whatever the optimizer."""

    name: str = "adam"
    says: str = "steps of Adam with a rate of 0.001, in the place of its own"

    def __post_init__(self) -> None:
        self._before: dict[int, Tensor] = {}
        self._moments: dict[int, tuple[Tensor, Tensor, int]] = {}

    def before_step(self, optimizer: Optimizer) -> None:
        every = held_by(optimizer)
        self._before = {id(p): p.detach().clone() for p in every if p.grad is not None}

    def after_step(self, optimizer: Optimizer) -> None:
        with torch.no_grad():
            for p in held_by(optimizer):
                if id(p) not in self._before or p.grad is None:
                    continue
                zero = torch.zeros_like(p), torch.zeros_like(p), 0
                m, v, t = self._moments.get(id(p), zero)
                m, v, t = m.lerp(p.grad, 0.1), v.lerp(p.grad.square(), 0.001), t + 1
                self._moments[id(p)] = m, v, t
                step = m / (1 - 0.9**t) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
                p.copy_(self._before.pop(id(p)) - 1e-3 * step)


@dataclass
class ChangedLayers(Intervention):
    """Hidden layers write something else, from the first call of a model on."""

    first: int = 0  # of the layers, counted from the first

    def __post_init__(self) -> None:
        self._known = set[int]()

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        layers = [m for m in module.modules() if isinstance(m, LAYERS)]
        if self._known.isdisjoint(map(id, layers)):
            for layer in layers[self.first : -1]:
                layer.register_forward_hook(self.written)
        self._known.update(map(id, layers))

    def written(self, layer: nn.Module, args: tuple[Any, ...], out: Tensor) -> Tensor:
        """What a layer is to write."""
        return out


@dataclass
class NormalisedLayers(ChangedLayers):
    """What hidden layers write has mean 0 and spread 1 over the batch, unit by unit."""

    name: str = "normalised"
    says: str = "what hidden layers write normalised over the batch"

    def written(self, layer: nn.Module, args: tuple[Any, ...], out: Tensor) -> Tensor:
        if out.ndim < 2 or len(out) < 2:
            return out
        units = out.ndim - 1 if isinstance(layer, nn.Linear) else 1
        axes = tuple(i for i in range(out.ndim) if i != units)
        return (out - out.mean(axes, keepdim=True)) / (out.std(axes, keepdim=True) + 1e-5)


@dataclass
class LightDropout(Intervention):
    """Modules of dropout that drop half of the numbers or more drop a tenth."""

    name: str = "light-dropout"
    says: str = "dropout of a tenth where it is of half or more"

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        for part in module.modules():
            if isinstance(part, nn.modules.dropout._DropoutNd) and part.p >= 0.5:
                part.p = 0.1


@dataclass
class SkippedLayers(ChangedLayers):
    """Hidden layers add what they read to what they write, where both have one shape."""

    name: str = "skips"
    says: str = "skip connections around hidden layers"
    first: int = 1

    def written(self, layer: nn.Module, args: tuple[Any, ...], out: Tensor) -> Tensor:
        return out + args[0] if args and args[0].shape == out.shape else out


@dataclass
class ScaledTargets(Intervention):
    """Losses of values have targets of mean 0 and spread 1, and are told in their own unit.

    The output takes their spread and mean, and its gradient is that of the scaled task.
    """

    name: str = "scaled-targets"
    says: str = "targets shifted and scaled to mean 0 and spread 1"

    def __post_init__(self) -> None:
        self._scale: dict[str, tuple[Tensor, Tensor]] = {}

    def given(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        out, targets = args[:2]
        if name not in POWERS or not isinstance(targets, Tensor) or targets.numel() < 2:
            return args
        if name not in self._scale:
            values = targets.detach().float()
            self._scale[name] = values.mean(), values.std().clamp_min(1e-12)
        mean, spread = self._scale[name]
        if out.requires_grad:
            kept = out * 1.0  # the script may differentiate its own tensor by another way
            kept.register_hook(lambda g: g / spread.to(g) ** POWERS[name])
            out = kept
        return (out * spread + mean, *args[1:])


@dataclass
class FittedShapes(Intervention):
    """Outputs are compared in the shape of their targets, where both have as many numbers."""

    name: str = "fitted-shapes"
    says: str = "outputs compared in the shape of their targets"

    def given(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        out, targets = args[:2]
        both = isinstance(out, Tensor) and isinstance(targets, Tensor)
        if both and out.shape != targets.shape and out.numel() == targets.numel():
            return (out.reshape(targets.shape), *args[1:])
        return args


@dataclass
class DerivedFunctions(Intervention):
    """Functions with a backward pass of their own have that of their forward pass."""

    name: str = "derived-functions"
    says: str = "gradients that autograd derives, not those of a backward pass written by hand"

    def derives(self) -> bool:
        return True


@dataclass
class Shuffled(Intervention):
    """Loaders that go through the samples in order draw them at random."""

    name: str = "shuffled"
    says: str = "samples drawn at random"

    def iterated(self, loader: DataLoader) -> None:
        batches = getattr(loader, "batch_sampler", None)
        if isinstance(getattr(batches, "sampler", None), SequentialSampler):
            g = torch.Generator(torch.get_default_device()).manual_seed(0)
            batches.sampler = RandomSampler(loader.dataset, generator=g)  # pyright: ignore


@dataclass
class ApartLayers(AllParameters):
    """Layers that stand in a list more than once are copies of one another, each with weights."""

    name: str = "apart-layers"
    says: str = "layers that are listed several times made copies with weights of their own"

    def __post_init__(self) -> None:
        self._known = set[int]()

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        if id(module) in self._known:
            return
        self._known.add(id(module))
        for part in module.modules():
            if isinstance(part, nn.ModuleList | nn.Sequential):
                once = set[int]()
                for key, m in part._modules.items():
                    if m is not None and id(m) in once:
                        part._modules[key] = deepcopy(m)
                    once.add(id(m))


@dataclass
class OneDraw(Intervention):
    """What is drawn at two places in a step is drawn once."""

    name: str = "one-draw"
    says: str = "what is drawn at two places drawn once"
    places: frozenset[Any] = frozenset()

    def __post_init__(self) -> None:
        self._waiting: tuple[Any, Tensor] | None = None
        lines = [place.says for place in self.places if isinstance(place, Line)]
        if len(lines) > 1:
            self.says = f"what is drawn at {' and at '.join(sorted(lines))} drawn once"

    def joins_draws(self) -> bool:
        return True

    def drawn(self, place: Any, found: Tensor) -> Tensor:
        if place not in self.places:
            return found
        again = len(self.places) > 1 and self._waiting is not None and self._waiting[0] == place
        if self._waiting is None or again:
            self._waiting = place, found
            return found
        (_, first), self._waiting = self._waiting, None
        return first.clone() if first.shape == found.shape else found


@dataclass
class CarriedState(Intervention):
    """Recurrent layers of torch that begin with nothing begin where the batch before ended."""

    name: str = "carried-state"
    says: str = "recurrent layers that begin where the batch before has ended"

    def __post_init__(self) -> None:
        self._known, self._last = set[int](), dict[int, Any]()

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        for part in module.modules():
            if isinstance(part, nn.RNNBase) and id(part) not in self._known:
                self._known.add(id(part))
                part.register_forward_pre_hook(self._begins, with_kwargs=True)
                part.register_forward_hook(self._ends)

    def _begins(self, layer: nn.Module, args: Any, named: dict[str, Any]) -> Any:
        given = args[1] if len(args) > 1 else named.get("hx")
        last = self._last.get(id(layer))
        begun = any(bool(t.any()) for t in tensors(given))
        if last is None or begun or not torch.is_grad_enabled():
            return None
        x: Any = args[0]
        axis, state = 0 if getattr(layer, "batch_first", False) else 1, next(tensors(last))
        if not isinstance(x, Tensor) or x.ndim != 3 or x.shape[axis] != state.shape[1]:
            return None
        return (x, last), {}

    def _ends(self, layer: nn.Module, args: Any, out: Any) -> None:
        if torch.is_grad_enabled() and isinstance(out, tuple):
            self._last[id(layer)] = mapped(out[1], Tensor.detach)


@dataclass
class ReversedEdges(Intervention):
    """Edges of a graph end where they began."""

    name: str = "reversed-edges"
    says: str = "edges that end where they begin"

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        return tuple(a.flip(0) if isinstance(a, Tensor) and is_edges(a) else a for a in args)

    def asked(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        return self.called(module, args)


@dataclass
class SharperScores(Intervention):
    """Scores of vectors of length one reach as far as those that tell classes apart do."""

    name: str = "sharper-scores"
    says: str = "scores of vectors of length one up to 14, as with a temperature of 0.07"

    def given(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        size = largest_score(args[0]) if name == "cross_entropy" and args[0].ndim == 2 else None
        return args if not size or size > SHARP else (args[0] * (SHARP / size), *args[1:])


@dataclass
class StandardisedInputs(Intervention):
    """Inputs of the first call decide shift and scale of all."""

    name: str = "standardised-inputs"
    says: str = "inputs shifted and scaled to mean 0 and spread 1"

    def __post_init__(self) -> None:
        self._scale: tuple[Tensor, Tensor] | None = None

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        if not args or not isinstance(args[0], Tensor) or not args[0].is_floating_point():
            return None
        x = args[0].detach()
        if self._scale is None:
            axes = tuple(i for i in range(x.ndim) if i != 1) if x.ndim > 1 else (0,)
            spread = x.std(axes, keepdim=True)
            # features that are constant in this batch are left as they are
            self._scale = x.mean(axes, keepdim=True), torch.where(spread > 0, spread, 1.0)
        return self.asked(module, args)

    def asked(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        if self._scale is None or not args or not isinstance(args[0], Tensor):
            return None
        if any(s.ndim != args[0].ndim for s in self._scale):
            return None
        return ((args[0] - self._scale[0]) / self._scale[1], *args[1:])


@dataclass
class LighterTerm(Intervention):
    """One of the losses that are added up counts less; another one tells what that is good for."""

    term: Any = None
    other: Any = None
    factor: float = 1.0

    def __post_init__(self) -> None:
        self.name = f"{self.term[0]} x {self.factor:.1g}"
        self.says = f"the gradient of `{self.term[0]}` times {self.factor:.1g}"

    def judged_by(self) -> Any:
        return self.other

    def compared(self, name: str, place: Any, loss: Tensor) -> None:
        if (name, place) == self.term and loss.requires_grad:
            loss.register_hook(lambda g: g * self.factor)


@dataclass
class HeavierTerm(LighterTerm):
    """A loss of torch counts more beside what is added to it, and tells what that is good for."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.says += " beside the rest"

    def judged_by(self) -> Any:
        return self.term

    def before_step(self, optimizer: Optimizer) -> None:
        for p in held_by(optimizer):  # no step is longer for it
            if p.grad is not None:
                p.grad /= self.factor


@dataclass
class KeptWeights(Intervention):
    """Weights stay what the last step of their optimizer left, whatever writes to them."""

    name: str = "kept-weights"
    says: str = "weights as the last step of their optimizer left them"

    def __post_init__(self) -> None:
        self._left: dict[int, tuple[Tensor, int, Tensor]] = {}  # with their version, and a copy

    def called(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        with torch.no_grad():
            for p, version, copy in self._left.values():
                if p._version != version:
                    p.copy_(copy)
        self._left.clear()

    def after_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                self._left[id(p)] = p, p._version, p.detach().clone()


@dataclass
class ReversedSteps(Intervention):
    """Steps go the other way."""

    name: str = "reversed-steps"
    says: str = "steps that make the loss larger"

    def rises(self) -> bool:
        return True

    def before_step(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = -p.grad


@dataclass
class BlankedScores(Intervention):
    """Models that are asked without gradients are given nothing, in some batches of each round.

    Attributes:
        count: Batches of a round.
        last: Whether the last of them is blank, or all others.
    """

    name: str = "blanked-scores"
    says: str = "nothing given where a model is asked, in some batches"
    count: int = 1
    last: bool = False

    def __post_init__(self) -> None:
        self._at = 0

    def iterated(self, loader: DataLoader) -> None:
        self._at = 0

    def after_step(self, optimizer: Optimizer) -> None:
        self._at = 0

    def asked(self, module: nn.Module, args: tuple[Any, ...]) -> Any:
        at, self._at = self._at % self.count, self._at + 1
        blank = (at == self.count - 1) == self.last
        return tuple(mapped(a, torch.zeros_like) for a in args) if blank else None
