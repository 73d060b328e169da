"""What attentions do with their weights: whether those of one sum add up to one.

An attention that is written out is a product of queries and keys, a softmax, and a product with
values. The softmax has to be over what the second product sums up: over another dimension, as over
queries, it makes weights that add up to anything, and that look at what comes later or at other
samples. The invariant: only products of two tensors that weights lead to are scores, so that a soft
assignment to clusters, whose scores come of one layer, is none; what is done to weights other than
dropping and laying out ends the search, for a division may normalise them after all.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.models.layers import called, running_line
from sigmascope.models.samples import Batch
from sigmascope.models.state import still

PRODUCTS = frozenset(("matmul", "rmatmul", "bmm", "einsum"))
KEEP = frozenset(("dropout", "clone", "contiguous", "to", "type_as", "float", "half", "bfloat16"))


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """The weights of an attention that is written out, as they are used.

    Attributes:
        place: File and line where they are multiplied with values.
        over: The dimension that the softmax is over, from the last (-1) on.
        summed: The dimension that the values are summed over, likewise.
        gap: How far the weights of one sum are from adding up to one, at most.
    """

    place: str
    over: int
    summed: int
    gap: float


class Attentions(TorchFunctionMode):
    """Listens to a run with gradients for attentions that are written out.

    Attributes:
        found: In their order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[AttentionWeights] = []
        self._scores: dict[int, Tensor] = {}  # held, so that no identity is given twice
        self._weights: dict[int, tuple[Tensor, int]] = {}  # with the dimension of their softmax

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        out = func(*args, **named)
        if not isinstance(out, Tensor) or out.ndim < 3:
            return out
        name = getattr(func, "__name__", "").strip("_")
        given = [a for a in args if isinstance(a, Tensor)]
        first = given[0] if given else out
        with torch._C.DisableTorchFunction(), suppress(Exception):
            if name in PRODUCTS:
                self._multiplied(name, args, out)
            elif name == "softmax" and id(first) in self._scores:
                dim = named.get("dim", args[1] if len(args) > 1 else None)
                if isinstance(dim, int):
                    self._weights[id(out)] = out, dim - out.ndim if dim >= 0 else dim
            elif any(id(t) in self._scores and out.shape[-2:] == t.shape[-2:] for t in given):
                self._scores[id(out)] = out
            elif id(first) in self._weights:
                # where the dimension of the softmax is behind an operation, if it can be told
                dim, order = self._weights[id(first)][1], [*range(first.ndim)]
                if name == "transpose" and len(args) == 3:
                    a, b = args[1:]
                    order[a], order[b] = order[b], order[a]
                elif name == "permute":
                    order = [d % first.ndim for d in (args[1] if len(args) == 2 else args[1:])]
                elif name not in KEEP and not (
                    name in ("view", "reshape", "flatten")
                    and out.shape[-2:] == first.shape[-2:]
                    and dim >= -2
                ):
                    return out
                place = order.index(dim % first.ndim) - first.ndim
                self._weights[id(out)] = out, place
        return out

    def _multiplied(self, name: str, args: tuple[Any, ...], out: Tensor) -> None:
        """Weights with values, or two tensors that become scores."""
        # both factors, and for `einsum` the letters of both and of what is made
        terms: Sequence[str] = ()
        left, right = args[:2]
        if name == "einsum":
            given = args[1] if isinstance(args[1], tuple | list) else args[1:]
            terms = args[0].replace(" ", "").replace("->", ",").split(",")
            if "->" not in args[0] or len(given) != 2 or "." in args[0]:
                return
            left, right = given
        for k, t in enumerate((left, right)):
            if id(t) not in self._weights or (left, right)[1 - k].ndim < 2:
                continue
            # dimensions that are summed over, from the last on
            over, dims = self._weights[id(t)][1], [-2 if k else -1]
            if terms:
                dims = [i - t.ndim for i, letter in enumerate(terms[k]) if letter not in terms[-1]]
            if len(dims) == 1:
                gap = (t.detach().sum(dims[0]) - 1).abs().max().item() if over != dims[0] else 0.0
                self.found.append(AttentionWeights(running_line(), over, dims[0], gap))
            return
        parts = (left, right)
        if all(
            t.requires_grad
            and not (isinstance(t, nn.Parameter) or isinstance(t._base, nn.Parameter))
            for t in parts
        ):
            self._scores[id(out)] = out


def attentions(model: nn.Module, batch: Batch) -> tuple[AttentionWeights, ...]:
    """Attentions of a model that are written out, in the order in which they are computed.

    Args:
        model: Left as it was found.
        batch: What it is run on.

    Raises:
        Refusal: If the model cannot be run on the batch.

    Cost: a forward pass.
    """
    with still(model), torch.enable_grad(), Attentions() as heard:
        called(model, batch)
    return tuple(heard.found)
