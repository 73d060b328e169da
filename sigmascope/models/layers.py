"""The layers of a model: which modules they are, what they read and write, what it refuses."""

import inspect
import math
import os
import re
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from sigmascope.core.guard import PACKAGE, Refusal
from sigmascope.linalg import dense
from sigmascope.models.networks import UncentredBatchNorm
from sigmascope.models.samples import Batch, mapped, run as call, tensors
from sigmascope.models.state import is_sharded, still, uses_batch_statistics

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
            continue
        if isinstance(module, NORMALISERS):
            continue
        inside = getattr(module, "parametrizations", None)
        own = [*module.parameters(recurse=False)]
        own += inside.parameters() if isinstance(inside, nn.Module) else ()
        alone = all(
            part == "parametrizations"
            or isinstance(child, nn.Identity)
            or not any(p.ndim >= 2 for p in child.parameters())
            for part, child in module.named_children()
        )
        if alone and any(p.ndim >= 2 and p.is_floating_point() for p in own):
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


def multiply_adds(call: "Call") -> int | None:
    """Multiplications, each with its addition, of one call of a layer; None where not known.

    Every entry of a weight is used once for each position that it is applied at; a look-up is free.
    Attention is counted as of a sequence with itself, its two products included. Sizes are those
    that layers declare: to ask for a weight that is computed would compute it, and may change it.
    """
    module, x, y = call.module, call.input, call.output
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return 0
    if isinstance(module, nn.Linear):
        return module.in_features * y.numel()
    if isinstance(module, _ConvNd):
        used = module.in_channels * math.prod(module.kernel_size) // module.groups
        if transposed(module):
            return used * module.out_channels * (x.numel() // module.in_channels)
        return used * y.numel()
    if isinstance(module, nn.Bilinear):
        return module.in1_features * module.in2_features * y.numel()
    if isinstance(module, nn.MultiheadAttention):
        length = x.shape[1 if module.batch_first and x.ndim == 3 else 0]
        width = module.embed_dim
        used = width * (2 * width + module.kdim + module.vdim) + 2 * length * width
        return x.numel() // width * used
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        gates = {"LSTM": 4, "GRU": 3}.get(type(module).__name__.removesuffix("Cell"), 1)
        state, steps = module.hidden_size, x.numel() // module.input_size
        layers = getattr(module, "num_layers", 1)
        sides = 2 if getattr(module, "bidirectional", False) else 1
        out = getattr(module, "proj_size", 0) or state
        read = [module.input_size, *[sides * out] * (layers - 1)]
        shrunk = state * out if out != state else 0
        return steps * sides * sum(gates * state * (r + out) + shrunk for r in read)
    weight = module._parameters.get("weight")
    if weight is None or weight.ndim != 2 or min(x.ndim, y.ndim) == 0:
        return None
    if [x.shape[-1], y.shape[-1]] not in ([*weight.shape], [*weight.shape][::-1]):
        return None
    return x.shape[-1] * y.numel()


def is_reparametrised(module: nn.Module) -> bool:
    """Whether its weight is made of other parameters: by a parametrization, a mask, older norms."""
    own = {**module._parameters, **module._buffers}
    return "parametrizations" in module._modules or (
        "weight" not in own and hasattr(module, "weight")
    )


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
                return _affine(module, x, mean, variance, module.weight, module.bias)
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
    normal: Tensor | None = None
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        shape = tuple(module.normalized_shape)
        if tuple(x.shape[x.ndim - len(shape) :]) != shape:
            return None
        if isinstance(module, nn.RMSNorm):
            normal = F.rms_norm(x, module.normalized_shape, eps=module.eps)
        else:
            normal = F.layer_norm(x, module.normalized_shape, eps=module.eps)
    elif isinstance(module, nn.GroupNorm):
        normal = F.group_norm(x, module.num_groups, eps=module.eps)
    elif isinstance(module, _InstanceNorm) and module.running_mean is None:
        normal = F.instance_norm(x, eps=module.eps)
    elif isinstance(module, _BatchNorm) and len(frozen.get(module, ())) == 1:
        normal = _affine(module, x, *frozen[module][0])
    elif isinstance(module, _BatchNorm) and module not in frozen:
        mean, variance = module.running_mean, module.running_var
        if variance is not None:
            mean = torch.zeros_like(variance) if mean is None else mean
            normal = _affine(module, x, mean, variance)
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


def _affine(
    module: _BatchNorm,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """What a batch normaliser writes with its statistics held constant."""
    return F.batch_norm(x, mean, variance, weight, bias, training=False, eps=module.eps)


# ------------------------------------------------------------------------------
# What layers read and write while a model runs.


COVERED = (nn.Linear, nn.Embedding, _ConvNd, *NORMALISERS)  # whose formulas are known
ENTRIES = 2**21  # of a weight that are copied to float64 at once
ROWS = 64  # of what a layer reads by which it is told whether it is linear


@dataclass(frozen=True)
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

    @cached_property
    def is_linear(self) -> bool:
        """Whether what was written is what was read times the one matrix, plus the one vector.

        True of the kinds that are known to; decided by the numbers for others, so that a custom
        layer is covered whichever way it stores its weight.
        """
        module, x, y = self.module, self.input, self.output.detach()
        if isinstance(module, nn.Embedding) and type(module) is not nn.Embedding:
            # whether a class of its own wrote the rows that it was asked for, not those of places
            rows = module.weight.detach()
            known = not x.is_floating_point() and 0 <= int(x.min()) <= int(x.max()) < len(rows)
            return known and torch.equal(rows[x.long()], y)
        if isinstance(module, COVERED):
            return True
        return x.is_floating_point() and self.is_turned is not None

    @cached_property
    def is_turned(self) -> bool | None:
        """Whether the one matrix is stored as `[in, out]`; None where it is not applied at all."""
        x, y = self.input, self.output.detach()
        weight, bias = matrix_and_vector(self.module)
        if weight is None:
            return None
        rest = None if bias is None else bias.detach()
        for turned, W in ((False, weight.detach()), (True, weight.detach().mT)):
            if x.shape[-1] != W.shape[1] or y.shape != (*x.shape[:-1], W.shape[0]):
                continue
            # whether `y = x Wᵀ + bias`, up to the rounding of `y`; as it is first: a copy of the
            # weight in float64 takes longer than the product
            for kind in (y.dtype, torch.float64):
                read, wrote = _some(x), _some(y).double()
                kinds = {t.dtype for t in (read, W, y if rest is None else rest)}
                if kind != torch.float64 and kinds != {kind}:
                    continue
                # by some units at a time: a copy in float64 may be the largest tensor there is
                units = W.split(max(1, ENTRIES // W.shape[1]))
                expected = torch.cat(
                    [(read.to(kind) @ some.to(kind).mT).double() for some in units], -1
                )
                expected = expected if rest is None else expected + rest.double()
                scale = max(float(expected.abs().amax()), 1e-300)
                room = rounding(y.dtype, 64 * x.shape[-1] ** 0.5) * scale
                if float((expected - wrote).abs().amax()) <= room:
                    return turned
        return None


def matrix_and_vector(module: nn.Module) -> tuple[Tensor | None, Tensor | None]:
    """The weight and bias of a module that owns just those, whatever their names."""
    own = {} if isinstance(module, WHOLE) else dict(module.named_parameters(recurse=False))
    matrices = [p for p in own.values() if p.ndim == 2]
    vectors = [p for p in own.values() if p.ndim == 1]
    if len(matrices) != 1 or len(vectors) > 1 or len(own) != 1 + len(vectors):
        return None, None
    return matrices[0], vectors[0] if vectors else None


def _some(t: Tensor) -> Tensor:
    """Rows from first to last, as many as tell one map from another."""
    flat = t.reshape(-1, t.shape[-1])
    return flat[torch.linspace(0, len(flat) - 1, min(len(flat), ROWS)).long()]


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


DEAF = torch._C.DisableTorchFunction  # modes that watch a model are not told what is done here


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
    with DEAF():
        read = next(tensors((args, kwargs)), None)
        wrote = next((t for t in tensors(output) if t.is_floating_point()), None)
    if read is None or wrote is None or is_functorch_wrapped_tensor(wrote):
        return None  # the last inside of torch.vmap, where one sample stands for all
    held = wrote if rewrite is None else rewrite(module, read, wrote)
    with DEAF():
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


# ------------------------------------------------------------------------------
# What is said of models and batches that cannot be measured.


class Unsplit(Refusal):
    """A last layer whose gradient cannot be split by sample; all else can be measured."""


QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")  # homes of such layers


def require_model(model: nn.Module) -> None:
    """Raise unless every tensor of `model` is there, finite and not empty."""
    if not isinstance(model, nn.Module):
        raise Refusal(
            f"`model` must be a torch.nn.Module, got {type(model).__name__}. "
            "Wrap a function in a module whose forward calls it."
        )
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            where = f" at `{name}`" if name else ""
            raise Refusal(
                f"`model` must be a Python module, got the TorchScript module "
                f"{type(module).__name__}{where}, whose layers cannot be observed. Pass the module "
                "it was scripted or traced from."
            )
    statistics = {b for m in model.modules() if isinstance(m, _NormBase) for b in m.buffers()}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        finite = isinstance(tensor, nn.Parameter) or tensor in statistics  # masks may hold -inf
        shape = "" if is_lazy(tensor) else f"of shape {tuple(tensor.shape)}"
        if is_lazy(tensor):
            raise Refusal(
                f"`{name}` must have its shape, got a lazily initialised parameter. "
                "Run the model once on a batch before measuring it."
            )
        if is_sharded(tensor):
            raise Refusal(
                f"`{name}` must be a whole tensor, got a DTensor {shape} sharded over "
                f"{tensor.device_mesh}. Gather it first, e.g. with get_model_state_dict(model, "
                "options=StateDictOptions(full_state_dict=True)) into an unsharded copy."
            )
        if tensor.is_meta:
            raise Refusal(
                f"`{name}` must hold numbers, got a tensor {shape} on the meta device. "
                "Build the model on a real device, or load a checkpoint into it with assign=True."
            )
        if tensor.numel() == 0 and isinstance(tensor, nn.Parameter):
            raise Refusal(
                f"`{name}` must not be empty, got shape {tuple(tensor.shape)}: a layer of width "
                "zero. Give every layer at least one unit."
            )
        if finite:
            values = plain(tensor)
            if not dense.is_finite(values):
                bad = (~values.isfinite()).nonzero()
                raise Refusal(
                    f"`{name}` must be finite, got {len(bad)} of {values.numel()} entries that are "
                    f"not, the first at {tuple(bad[0].tolist())}. Load a checkpoint from before "
                    "they came."
                )
    if next(iter(model.parameters()), None) is None:
        packed = any(m.__module__.startswith(QUANTIZED) for m in model.modules())
        holds = "packed by quantisation" if packed else "without parameters"
        advice = "model that was quantised" if packed else "module that holds the layers"
        raise Refusal(
            f"`model` must have weights to measure, got {type(model).__name__} {holds}. Pass the "
            f"{advice}."
        )


def plain(tensor: Tensor) -> Tensor:
    """The numbers of a tensor in a form that can be computed with: dense, of 16 bits or more."""
    dense = tensor.detach() if tensor.layout == torch.strided else tensor.detach().to_dense()
    return dense.float() if dense.is_floating_point() and dense.itemsize < 2 else dense


def require_real(parameters: Mapping[str, Tensor], asked: str) -> None:
    """Raise if a trained parameter is complex or sparse, of which `asked` knows nothing."""
    for name, p in parameters.items():
        if p.is_complex() or p.layout != torch.strided:
            kind = "complex" if p.is_complex() else f"of layout {p.layout}"
            raise Refusal(
                f"{asked} needs real, dense weights, got `{name}`, which is {kind}. Keep its real "
                "and imaginary parts as two weights, or make it dense (.to_dense())."
            )


def require_finite_batch(model: nn.Module, batch: Batch) -> None:
    """Raise if a tensor of the batch is empty, or not finite where the model does not expect it.

    What is missing may be written as NaN, and a mask holds infinities: where the output is finite,
    the model knows of them.
    """
    for tensor in tensors(batch):
        if tensor.numel() == 0:
            raise Refusal(
                f"`batch` must hold at least one sample, got a tensor of shape "
                f"{tuple(tensor.shape)}. Pass some rows of the data."
            )
        if tensor.is_floating_point() and not (dense.is_finite(tensor) or _copes(model, batch)):
            first = tuple((~tensor.isfinite()).nonzero()[0].tolist())
            raise Refusal(
                f"`batch` must be finite, got a value that is not at {first} of a tensor of shape "
                f"{tuple(tensor.shape)}. Clean the data, or pass other rows."
            )


def _copes(model: nn.Module, batch: Batch) -> bool:
    """Whether the output on a batch is finite."""
    try:
        with still(model), torch.no_grad():
            out = [t for t in tensors(call(model, batch)) if t.is_floating_point()]
    except Exception:  # noqa: BLE001 (which is told where the model is run to be measured)
        return False
    return bool(out) and all(map(dense.is_finite, out))


def in_words(error: Exception) -> str:
    """A refusal's own sentence; of anything else its kind, its words and where we met it.

    What fails may be the model, torch or this package: all three can be told from the line.
    """
    if isinstance(error, Refusal):
        return str(error)
    words = " ".join(str(error).split())[:300]
    said = f"{type(error).__name__}: {words}" if words else f"{type(error).__name__}, without words"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f.filename.startswith(PACKAGE)]
    at = ours[-1] if ours else None
    place = "" if at is None else f" (at {at.filename.removeprefix(PACKAGE)}:{at.lineno})"
    return f"it failed with {said}{place}"


def require_samples(calls: Sequence[Call], batch: Batch, output: Tensor, *, count: int) -> None:
    """Raise if a layer takes the whole batch for one sample, as layers do of fewer dimensions.

    A linear layer reads a vector, a convolution `[channels, height, width]`, a recurrent layer or
    an attention `[steps, features]` as one sample; features, channels or steps would then be taken
    for samples.

    Args:
        calls: Of the layers.
        batch: What the model was run on.
        output: What it gave.
        count: Samples that the batch is said to hold.

    Raises:
        Refusal: With the layer, and the shape to pass.
    """
    first = next(tensors(batch))
    times = Counter(module_name(c.site) for c in calls)
    for c in calls:
        # dimensions of what a layer reads where samples are among them
        if isinstance(c.module, _ConvNd):
            least = 2 + len(c.module.kernel_size)
        elif isinstance(c.module, nn.RNNBase | nn.MultiheadAttention):
            least = 3
        elif isinstance(c.module, nn.Linear | nn.RNNCellBase):
            least = 2
        else:  # a layer of the user's own may well read single numbers
            apart = output.shape[:1] == (count,)
            least = 1 if isinstance(c.module, nn.Embedding | nn.EmbeddingBag) or apart else 2
        short = c.input.ndim < least
        whole = c.input.shape[:1] == first.shape[:1] and c.input.ndim >= first.ndim
        if short and whole and times[c.site] == 1:  # a loop over samples calls it again and again
            raise Refusal(
                f"`batch` must hold samples along a dimension of its own, got shape "
                f"{tuple(first.shape)}, of which `{c.site}` ({type(c.module).__name__}) "
                f"reads {tuple(c.input.shape)} as one sample. Pass `batch.unsqueeze(0)` for one "
                f"sample, or {count} samples as {(count, *c.input.shape)}."
            )


def called(model: nn.Module, batch: Batch, *, run: Callable[..., Any] | None = None) -> Any:
    """The output of one call; whatever the model raises becomes a refusal that shows the batch.

    Args:
        model: What is named in the refusal.
        batch: What it is run on.
        run: What is called in its place.
    """
    try:
        return call(run or model, batch)
    except Refusal:
        raise
    except (Exception, SystemExit) as error:  # a user's forward may raise anything
        given = tuple(tensors(batch))
        shapes = ", ".join(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in given)
        first = next(iter(layers(model).items()), None)
        integers = not any(t.is_floating_point() or t.is_complex() for t in given)
        embeds = any(isinstance(m, nn.Embedding | nn.EmbeddingBag) for m in model.modules())
        hint = "Pass a batch of the shape that forward expects"
        if integers and not embeds:
            hint = (
                "It has no embedding that could read integers: pass the batch as floats (.float())"
            )
        if any(t.ndim > 3 and f"to have {t.shape[-1]} channels" in str(error) for t in given):
            hint = "Channels come second: pass `x.movedim(-1, 1)`"
        wide = getattr(first[1], "in_features", None) if first is not None else None
        rows = any(t.ndim > 2 and t[0].numel() == wide != t.shape[-1] for t in given if len(t))
        if rows and "shapes cannot be multiplied" in str(error):
            hint = (
                "The layer takes one row of numbers for each sample: begin the model with "
                "`nn.Flatten()`, or pass `x.flatten(1)`"
            )
        if "more than 1 value per channel" in str(error):
            hint = "Pass two samples or more, or the model in evaluation mode (.eval())"
        tables = [m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)]
        whole = [t for t in given if not t.is_floating_point() and t.numel()]
        if isinstance(error, IndexError) and tables and whole:
            ends = min(int(t.min()) for t in whole), max(int(t.max()) for t in whole)
            hint = (
                f"The integers of the batch go from {ends[0]} to {ends[1]}, and the smallest "
                f"embedding takes 0 to {min(tables) - 1}: see that they are its numbers"
            )
        if "unexpected keyword argument" in str(error) and isinstance(batch, Mapping):
            takes = [*inspect.signature(model.forward).parameters]
            names = f": {', '.join(takes)}" if takes else ""
            hint = f"The names of a mapping are those that forward takes{names}"
        if "positional arguments but" in str(error) and isinstance(batch, tuple) and given:
            hint = (
                "A tuple is what forward is called with: without targets, which go by `targets=` "
                "(of a program, last in its data)"
            )
        if "required positional argument" in str(error):
            hint = "Pass a mapping with the names that forward takes, or a tuple in their order"
        reads = "" if first is None else f" Its first layer is `{first[0]}`, {first[1]}."
        got = f"got {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise Refusal(
            f"The model must run on the batch ({shapes}), {got}.{reads} {hint}."
        ) from error


@contextmanager
def explaining() -> Iterator[None]:
    """What autograd says where it cannot differentiate, as a refusal."""
    try:
        yield
    except Refusal:
        raise
    except Exception as error:
        # a model that runs again on the way back (checkpoints) raises what it likes; what a line of
        # this package raises is neither the model's nor torch's
        frames = traceback.extract_tb(error.__traceback__)
        ours = bool(frames) and frames[-1].filename.startswith(PACKAGE)
        if not isinstance(error, RuntimeError) and ours:
            raise
        words = " ".join(str(error).split())
        said = (
            f"The model must be differentiable, got {type(error).__name__}: "
            f"{words[:200].rstrip('.')}. Exchange that operation, or measure a part of the model "
            "without it."
        )
        if "modified by an inplace operation" in words:
            said = (
                "A tensor that the derivative needs must stay as it was, got one that was changed "
                "in place. If parameters have changed since, take the curvature again; else the "
                "model itself changes what it has used (`x += ...`), and cannot be trained either."
            )
        raise Refusal(said) from error


def running_line() -> str:
    """The line that is being run, outside of torch and of this package."""
    inside = (f"{Path(torch.__file__).parent}{os.sep}", PACKAGE)
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
