"""Whether a model reads its batch as samples."""

from collections import Counter
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.probes.batches import Batch, tensors
from sigmascope.probes.refusals import Refusal
from sigmascope.probes.tapes import Call, module_name


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
    for call in calls:
        short = call.input.ndim < _dimensions(call.module, output, count)
        whole = call.input.shape[:1] == first.shape[:1] and call.input.ndim >= first.ndim
        if (
            short and whole and times[call.site] == 1
        ):  # a loop over samples calls it again and again
            raise Refusal(
                f"`batch` must hold samples along a dimension of its own, got shape "
                f"{tuple(first.shape)}, of which `{call.site}` ({type(call.module).__name__}) "
                f"reads {tuple(call.input.shape)} as one sample. Pass `batch.unsqueeze(0)` for one "
                f"sample, or {count} samples as {(count, *call.input.shape)}."
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
