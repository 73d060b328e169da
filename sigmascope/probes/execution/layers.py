"""Which modules are layers: those that apply a weight of two or more dimensions."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.modules.instancenorm import _InstanceNorm

from sigmascope.networks import UncentredBatchNorm
from sigmascope.probes.execution.state import uses_batch_statistics
from sigmascope.probes.samples import mapped, tensors

# ------------------------------------------------------------------------------
# What rounding leaves of a layer's output, in the format that it is in.
#
# The invariant: sums of narrow formats are added up in single precision, so that what many of them
# add up to grows with single precision's roundings, and of the format's own there are few, however
# wide a layer is. A bound of many of the format's own would let anything pass as the same.


FEW = 8  # of the format's own: products, a bias, and what is written


def rounding(dtype: torch.dtype, steps: float) -> float:
    """Relative rounding of what is added up in so many steps and written in a format.

    Args:
        dtype: Of what is written; real and floating.
        steps: Roundings of a sum, each as large as what is added up.

    Source:
        Higham 2002, section 3.1, for the sum.

    Example:
        >>> rounding(torch.float32, 256) == 256 * 2.0**-23, rounding(torch.bfloat16, 256) < 0.1
        (True, True)
    """
    eps, single = torch.finfo(dtype).eps, torch.finfo(torch.float32).eps
    return steps * eps if eps <= single else FEW * eps + steps * single


WHOLE = (nn.MultiheadAttention, nn.RNNBase)  # fused: what is inside them is never called
AGREES = 256  # roundings of the largest number, within which a class of its own does the same
NORMALISERS = (_BatchNorm, _InstanceNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def layers(model: nn.Module) -> dict[str, nn.Module]:
    """Every layer of `model` by name: a module that applies a weight of its own as a linear map.

    Linear, (transposed) convolution, embedding, recurrent and attention modules; any other module
    without layers inside that owns a floating parameter of two or more dimensions.
    """
    found: dict[str, nn.Module] = {}
    hidden: set[nn.Module] = set()
    for name, module in model.named_modules():
        if module in hidden or "parametrizations" in name.split("."):
            continue
        if isinstance(module, WHOLE):
            hidden.update(module.modules())
            found[name] = module
        elif _applies_weight(module):
            found[name] = module
    return found


def normalisers(model: nn.Module) -> dict[str, nn.Module]:
    """Every normaliser with a trainable scale or shift, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, NORMALISERS) and next(module.parameters(), None) is not None
    }


def is_matrix(tensor: Tensor) -> bool:
    """Whether it is of two or more dimensions; a row with dimensions of size one is a vector."""
    return sum(size > 1 for size in tensor.shape) >= 2


def channel_dim(module: nn.Module, value: Tensor) -> int:
    """The dimension of a layer's input or output that counts channels (features)."""
    convolves = isinstance(module, _ConvNd | _BatchNorm | _InstanceNorm | nn.GroupNorm)
    return 1 if convolves and value.ndim > 2 else value.ndim - 1


def transposed(module: nn.Module) -> bool:
    """Whether a convolution is applied as its adjoint."""
    return isinstance(module, _ConvTransposeNd)


def _applies_weight(module: nn.Module) -> bool:
    if isinstance(module, NORMALISERS):
        return False
    inside = getattr(module, "parametrizations", None)
    own = [*module.parameters(recurse=False)]
    own += inside.parameters() if isinstance(inside, nn.Module) else ()
    alone = all(
        name == "parametrizations"
        or isinstance(child, nn.Identity)
        or not any(p.ndim >= 2 for p in child.parameters())
        for name, child in module.named_children()
    )
    return alone and any(p.ndim >= 2 and p.is_floating_point() for p in own)


Statistics = tuple[Tensor, Tensor]


@dataclass(slots=True)
class Statisticians:
    """Mean and variance that each batch normaliser saw, call by call, on the whole batch.

    While they are read they are noted; while they are replayed, the normaliser is the affine map
    with those constants, so that samples do not mix and derivatives are taken sample by sample.
    """

    seen: dict[nn.Module, list[Statistics]] = field(default_factory=dict)
    replaying: bool = False
    place: dict[nn.Module, int] = field(default_factory=dict)

    def rewind(self) -> None:
        """Replay from the first call of every normaliser."""
        self.replaying, self.place = True, dict.fromkeys(self.seen, 0)

    def rewrite(self, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """The output of a normaliser with its statistics held constant; others as they are."""
        if module in self.seen and self.replaying:
            mean, variance = self.seen[module][self.place[module]]
            self.place[module] += 1
            # What a batch normaliser writes with these statistics held constant. A class of the
            # user's own may have an activation inside: its own forward pass is run again, with the
            # statistics in the place of its running ones.
            assert isinstance(module, _BatchNorm)
            if own_kind(module):
                y = _standardised(module, x, mean, variance)
                shape = [1, -1] + [1] * (y.ndim - 2)
                if module.weight is not None:
                    y = y * module.weight.view(shape)
                return y if module.bias is None else y + module.bias.view(shape)
            kept = module.running_mean, module.running_var, module.training
            try:
                module.running_mean, module.running_var, module.training = mean, variance, False
                return type(module).forward(module, x)
            finally:
                module.running_mean, module.running_var, module.training = kept
        if isinstance(module, _BatchNorm) and uses_batch_statistics(module):
            self.seen.setdefault(module, []).append(statistics(module, x.detach()))
        return y


def own_kind(module: nn.Module) -> bool:
    """Whether a normaliser does what torch's own class does, and nothing after it."""
    return type(module).__module__.startswith("torch.nn.") or isinstance(module, UncentredBatchNorm)


def statistics(module: _BatchNorm, x: Tensor) -> Statistics:
    """Mean and (biased) variance per channel of a batch, as the normaliser takes them."""
    if isinstance(module, UncentredBatchNorm):
        return module.statistics(x)
    dims = [d for d in range(x.ndim) if d != 1]
    variance, mean = torch.var_mean(x.float() if x.dtype.itemsize < 4 else x, dims, correction=0)
    return mean.to(x.dtype), variance.to(x.dtype)


def standardised(
    module: nn.Module, x: Tensor, y: Tensor, frozen: Mapping[nn.Module, list[Statistics]]
) -> Tensor | None:
    """What a normaliser multiplies by its weight; None where it does not work as its kind does.

    A class of the user's own may permute dimensions first, or shift its weight by one: what it
    wrote decides.

    Args:
        module: The normaliser.
        x: What it read.
        y: What it wrote.
        frozen: Statistics of batch normalisers that take those of the batch.
    """
    normal = _normal(module, x, frozen)
    if normal is None or own_kind(module):
        return normal
    # the normaliser's weight and bias, applied to the dimension that its kind gives them
    own = dict(module.named_parameters(recurse=False))
    out = normal
    for name, apply in (("weight", torch.mul), ("bias", torch.add)):
        p = own.get(name)
        if p is None:
            continue
        channels = p.ndim == 1 and channel_dim(module, normal) == 1
        shape = [1, -1] + [1] * (normal.ndim - 2) if channels else list(p.shape)
        out = apply(out, p.detach().view(shape))
    wrote = out.detach()
    size = float(y.detach().abs().amax())
    room = rounding(y.dtype, AGREES) * max(size, 1.0)
    if wrote.shape != y.shape or float((wrote - y.detach()).abs().amax()) > room:
        return None
    return normal


def _normal(
    module: nn.Module, x: Tensor, frozen: Mapping[nn.Module, list[Statistics]]
) -> Tensor | None:
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        shape = tuple(module.normalized_shape)
        if tuple(x.shape[x.ndim - len(shape) :]) != shape:
            return None
        if isinstance(module, nn.RMSNorm):
            return F.rms_norm(x, module.normalized_shape, eps=module.eps)
        return F.layer_norm(x, module.normalized_shape, eps=module.eps)
    if isinstance(module, nn.GroupNorm):
        return F.group_norm(x, module.num_groups, eps=module.eps)
    if isinstance(module, _InstanceNorm) and module.running_mean is None:
        return F.instance_norm(x, eps=module.eps)
    if isinstance(module, _BatchNorm) and len(frozen.get(module, ())) == 1:
        return _standardised(module, x, *frozen[module][0])
    if isinstance(module, _BatchNorm) and module not in frozen and module.running_var is not None:
        mean = (
            torch.zeros_like(module.running_var)
            if module.running_mean is None
            else module.running_mean
        )
        return _standardised(module, x, mean, module.running_var)
    return None


def _standardised(module: nn.Module, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    assert isinstance(module, _BatchNorm)
    shape = [1, -1] + [1] * (x.ndim - 2)
    return (x - mean.view(shape)) / (variance + module.eps).sqrt().view(shape)


# ------------------------------------------------------------------------------
# What layers read and write while a model runs.


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one module.

    Attributes:
        site: Name of the module; its second call is `"name#2"`. See `module_name`.
        module: The module.
        input: The first tensor it read.
        output: The first floating tensor it wrote; on the autograd tape while gradients are on.
        version: In-place changes that `input` had seen when it was read.
    """

    site: str
    module: nn.Module
    input: Tensor
    output: Tensor
    version: int

    @property
    def spoiled(self) -> bool:
        """Whether the input was overwritten in place after it was read."""
        return _version(self.input) != self.version


SECOND = re.compile(r"#(\d+)$")


def module_name(site: str) -> str:
    """Name of the module that is called at a site; its own may end in `#2` as well."""
    return SECOND.sub("", site)


def is_repeated(site: str) -> bool:
    """Whether it is not the first call of its module."""
    found = SECOND.search(site)
    return found is not None and int(found[1]) > 1


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # which count none


@dataclass(slots=True)
class Tape:
    """Calls in the order in which they end; deaf once `listening` is false.

    Another thread that runs the model meanwhile, as in training, is not listened to.
    """

    calls: list[Call] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    listening: bool = True
    thread: int = field(default_factory=threading.get_ident)


Rewrite = Callable[[nn.Module, Tensor, Tensor], Tensor]


@contextmanager
def recording(
    modules: Mapping[str, nn.Module], *, copy: bool = False, rewrite: Rewrite | None = None
) -> Iterator[Tape]:
    """Record the calls of some modules while the block runs; no hook outlives the block.

    Args:
        modules: What to listen to, by name.
        copy: Keep copies of the inputs, for models that overwrite them in place.
        rewrite: Replaces the output of a module, from the module, its input and its output.
    """
    tape = Tape()
    with ExitStack() as hooks:
        for name, module in modules.items():
            hook = partial(_keep, tape, name, copy, rewrite)
            handle = module.register_forward_hook(hook, with_kwargs=True)
            hooks.callback(handle.remove)
        yield tape


def _keep(
    tape: Tape,
    name: str,
    copy: bool,
    rewrite: Rewrite | None,
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    output: Any,
) -> Any:
    # torch tells a backward pass, which may run in threads of its own, in no other way
    inside = torch._C._current_graph_task_id() != -1
    if threading.get_ident() != tape.thread and not inside:
        return None  # a call of somebody else
    read = next(tensors((args, kwargs)), None)
    wrote = next((t for t in tensors(output) if t.is_floating_point()), None)
    if read is None or wrote is None or is_functorch_wrapped_tensor(wrote):
        return None  # the last inside of torch.vmap, where one sample stands for all
    held = wrote if rewrite is None else rewrite(module, read, wrote)
    if torch.is_grad_enabled() and not held.requires_grad:
        held = held.detach().requires_grad_()
    if tape.listening:
        tape.counts[name] += 1
        count = tape.counts[name]
        kept = read.detach().clone() if copy else read.detach()
        site = name if count == 1 and not SECOND.search(name) else f"{name}#{count}"
        tape.calls.append(Call(site, module, kept, held, _version(kept)))
    # the model goes on with a copy, so that an in-place activation cannot overwrite what was read
    passed_on = held.clone()
    if isinstance(module, nn.RNNBase) and type(output) is tuple and output[0] is wrote:
        return passed_on, _last_state(module, passed_on, output[1])
    return (
        passed_on if output is wrote else mapped(output, lambda t: passed_on if t is wrote else t)
    )


def _last_state(module: nn.RNNBase, sequence: Tensor, state: Any) -> Any:
    """The last layer's final state taken from the sequence, where it is the same numbers.

    A fused recurrent layer returns it as an output of its own; a model that goes on with the state
    alone would otherwise seem not to depend on what the layer wrote.
    """
    h = state[0] if isinstance(state, tuple) else state
    steps = sequence if not module.batch_first or sequence.ndim == 2 else sequence.transpose(0, 1)
    ends = [steps[-1]]
    if module.bidirectional:  # forward direction after the last step, backward after the first
        half = steps.shape[-1] // 2
        ends = [steps[-1][..., :half], steps[0][..., half:]]
    final = torch.cat([h[: -len(ends)], torch.stack(ends)])
    return (final, *state[1:]) if isinstance(state, tuple) else final
