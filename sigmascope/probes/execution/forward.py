"""Whether a model reads its batch as samples."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.gate import Refusal
from sigmascope.probes.execution.hooks import Call, module_name
from sigmascope.probes.execution.refusals import failure
from sigmascope.probes.samples.batches import Batch, call, tensors


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
        raise Refusal(failure(model, tuple(tensors(batch)), error)) from error
