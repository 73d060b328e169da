"""Refusals: what the doors of `probes` say of models and batches that they cannot measure."""

import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from sigmascope.guard import Refusal
from sigmascope.linalg import sums
from sigmascope.probes.execution.layers import Call, layers, module_name
from sigmascope.probes.execution.state import is_sharded, still
from sigmascope.probes.samples import Batch, run as call, tensors

PACKAGE = Path(__file__).parents[1]


class Unsplit(Refusal):
    """A last layer whose gradient cannot be split by sample; all else can be measured."""


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
            if not sums.is_finite(values):
                bad = (~values.isfinite()).nonzero()
                raise Refusal(
                    f"`{name}` must be finite, got {len(bad)} of {values.numel()} entries that are "
                    f"not, the first at {tuple(bad[0].tolist())}. Load a checkpoint from before "
                    "they came."
                )
    if next(iter(model.parameters()), None) is None:
        raise Refusal(
            f"`model` must have weights to measure, got {type(model).__name__} without parameters. "
            "Pass the module that holds the layers."
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
        if tensor.is_floating_point() and not (sums.is_finite(tensor) or _copes(model, batch)):
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
    return bool(out) and all(map(sums.is_finite, out))


def in_words(error: Exception) -> str:
    """A refusal's own sentence; of anything else its kind, its words and where we met it.

    What fails may be the model, torch or this package: all three can be told from the line.
    """
    if isinstance(error, Refusal):
        return str(error)
    words = " ".join(str(error).split())[:300]
    said = f"{type(error).__name__}: {words}" if words else f"{type(error).__name__}, without words"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if PACKAGE in Path(f.filename).parents]
    at = ours[-1] if ours else None
    place = "" if at is None else f" (at {Path(at.filename).relative_to(PACKAGE)}:{at.lineno})"
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
        short = c.input.ndim < _dimensions(c.module, output, count)
        whole = c.input.shape[:1] == first.shape[:1] and c.input.ndim >= first.ndim
        if short and whole and times[c.site] == 1:  # a loop over samples calls it again and again
            raise Refusal(
                f"`batch` must hold samples along a dimension of its own, got shape "
                f"{tuple(first.shape)}, of which `{c.site}` ({type(c.module).__name__}) "
                f"reads {tuple(c.input.shape)} as one sample. Pass `batch.unsqueeze(0)` for one "
                f"sample, or {count} samples as {(count, *c.input.shape)}."
            )


def _dimensions(module: nn.Module, output: Tensor, count: int) -> int:
    """Dimensions of what a layer reads where samples are among them."""
    if isinstance(module, _ConvNd):
        return 2 + len(module.kernel_size)
    if isinstance(module, nn.RNNBase | nn.MultiheadAttention):
        return 3
    if isinstance(module, nn.Linear | nn.RNNCellBase):
        return 2
    apart = output.shape[:1] == (count,)  # a layer of the user's own may well read single numbers
    return 1 if isinstance(module, nn.Embedding | nn.EmbeddingBag) or apart else 2


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
        if "more than 1 value per channel" in str(error):
            hint = "Pass two samples or more, or the model in evaluation mode (.eval())"
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
        ours = bool(frames) and PACKAGE in Path(frames[-1].filename).parents
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
    inside = tuple(f"{root}{os.sep}" for root in (Path(torch.__file__).parent, PACKAGE.parent))
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
