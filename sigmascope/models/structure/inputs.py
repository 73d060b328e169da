"""What of its inputs a model reads: which it would not miss, whatever they say of a sample.

An input, or a feature of one, that differs between samples is given to the next sample, and outputs
are compared to the last bit. The invariant: weights that are zero at first, as the last scale of a
branch, are filled before, for what they hold back is read later; and where all inputs together
change no output, they are lost only if no gradient leads back to them, which rounding may hide.
Features are asked for by one gradient, whose zeros are proposals that an exchange has to confirm;
places of ids by a mask of the same shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.core.guard import random_states
from sigmascope.models.layers import called
from sigmascope.models.samples import Batch, mapped, tensors
from sigmascope.models.state import still

EVERY = "*"  # the name of all inputs together
HARDLY = 1e-5  # of the size of an input: less is no difference between samples


@dataclass(frozen=True, slots=True)
class UnreadInput:
    """An input that the output does not depend on, or in part.

    Attributes:
        name: Its key or number in the batch; empty where the batch is one tensor; `EVERY` where
            nothing at all is read.
        share: Of its features that differ between samples, those that are not read.
        by: The mask that hides them, if it is one.
    """

    name: str
    share: float
    by: str = ""


def _named(batch: Batch) -> list[tuple[str, Tensor]]:
    if isinstance(batch, Mapping):
        return [(str(k), t) for k, part in batch.items() for t in tensors(part)]
    every = [*tensors(batch)]
    return [(str(k) if len(every) > 1 else "", t) for k, t in enumerate(every)]


def varying_inputs(batch: Batch, *, batch_dim: int, count: int) -> list[tuple[str, Tensor]]:
    """Tensors of a batch that differ between samples, with their keys or numbers."""
    return [
        (name, t)
        for name, t in _named(batch)
        if t.ndim > batch_dim and t.shape[batch_dim] == count and differs(rows_of(t, batch_dim))
    ]


def unread_inputs(
    model: nn.Module, batch: Batch, *, batch_dim: int, count: int
) -> tuple[UnreadInput, ...]:
    """Inputs of a batch that a model does not read, or not as a whole.

    Args:
        model: Left as it was found; in the mode that it is in.
        batch: What it is run on.
        batch_dim: Along which samples lie.
        count: Of samples.

    Raises:
        Refusal: If the model cannot be run on the batch.

    Cost: one forward and backward pass for each input with features; one forward pass, and one for
    each input that differs between samples, where there are several; two for each mask of ids.
    """
    parts, own = _named(batch), varying_inputs(batch, batch_dim=batch_dim, count=count)
    if count < 2 or not own:
        return ()
    found: list[UnreadInput] = []
    with still(model):
        wanted: list[Tensor] = []

        def matters(which: Mapping[int, Tensor]) -> bool:
            if not wanted:
                wanted.extend(_values(model, batch))
            changed = _values(model, mapped(batch, lambda t: which.get(id(t), t)))
            return any(not torch.equal(a, b) for a, b in zip(wanted, changed, strict=True))

        dealt = {id(t): t.roll(1, batch_dim) for _, t in own}
        for name, t in own:
            if len(own) > 1 and not matters({id(t): dealt[id(t)]}):
                found.append(UnreadInput(name, 1.0))
            elif t.is_floating_point() and t.ndim > batch_dim + 1:
                rows = t.movedim(batch_dim, 0)
                varying = rows.ne(rows[:1]).any(0)
                idle = _without_gradient(model, batch, t, batch_dim) & varying
                mixed = torch.where(idle, rows.roll(1, 0), rows).movedim(0, batch_dim)
                if bool(idle.any()) and not matters({id(t): mixed}):
                    found.append(UnreadInput(name, float(idle.sum() / varying.sum())))
        # rows of ids beside what may be a mask of their places
        is_mask = lambda m: bool(((m == 0) | (m == 1)).all())
        ids = [(k, t) for k, t in own if t.ndim == 2 and not t.is_floating_point()]
        masked = [
            (name, t, by, m)
            for name, t in ids
            for by, m in parts
            if t.dtype != torch.bool and m is not t and m.shape == t.shape and is_mask(m)
        ]
        for name, t, by, mask in masked:
            for places in (mask != 0, mask == 0):
                hidden = bool(places.any()) and not bool(places.all())
                swapped = torch.where(places, t.roll(1, batch_dim), t)
                share = _content(t, places) if hidden else 0.0
                if share and not matters({id(t): swapped}):
                    found.append(UnreadInput(name, share, by))
        if not found or matters(dealt):
            return tuple(found)
        floats = (t for _, t in own if t.is_floating_point())
        blind = all(bool(_without_gradient(model, batch, t, batch_dim).all()) for t in floats)
        return (UnreadInput(EVERY, 1.0),) if blind else ()


def read_filling(model: nn.Module, batch: Batch, layer: nn.RNNBase) -> float:
    """Share of the places of a recurrent layer's input that fill its rows and are read.

    Args:
        model: Left as it was found.
        batch: What it is run on.
        layer: Of the model, that is called with rows which end in equal places, more or fewer.

    Returns:
        0 where rows are not filled, or outputs are the same whatever stands there.

    Cost: one forward pass, and another one where rows are filled.
    """
    axis, shares = 1 if layer.batch_first else 0, list[float]()

    def written(_: nn.Module, args: Any) -> Any:
        x = args[0]
        if not isinstance(x, Tensor) or x.ndim != 3:
            return None
        fills = (x == x.select(axis, -1).unsqueeze(axis)).all(2).flip(axis)
        fills = fills.cummin(axis).values.flip(axis)
        lengths = fills.sum(axis)
        if bool((lengths == lengths[0]).all()) or bool(fills.all()):
            return None
        fills = fills & (lengths > 1).unsqueeze(axis)  # one place is equal to itself
        shares.append(float(fills.double().mean()))
        return (torch.where(fills[..., None], x + x.std() + 1.0, x), *args[1:])

    with still(model), random_states():
        model.eval()
        hook = layer.register_forward_pre_hook(written)
        try:
            after = _values(model, batch)
        finally:
            hook.remove()
        before = _values(model, batch) if shares else after
    same = all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    return 0.0 if same else max(shares, default=0.0)


def _content(t: Tensor, places: Tensor) -> float:
    """Share of the ids at some places, of all but what fills them: the most frequent one there."""
    filler = t[places].mode().values
    return float(((t != filler) & places).sum() / (t != filler).sum().clamp_min(1))


def rows_of(t: Tensor, batch_dim: int) -> Float64[Tensor, "n d"]:
    """Samples of one input as rows, whatever it holds.

    Args:
        t: With samples along one of its dimensions.
        batch_dim: Which.
    """
    return t.detach().movedim(batch_dim, 0).reshape(t.shape[batch_dim], -1).double()


def differs(rows: Float64[Tensor, "n d"]) -> bool:
    """Whether samples differ, by more than 1e-5 of the size of all: less may be rounding.

    Args:
        rows: One for each sample.
    """
    return float((rows - rows.mean(0)).norm()) > HARDLY * float(rows.norm())


def _values(model: nn.Module, batch: Batch) -> list[Tensor]:
    with torch.no_grad():
        return [t.clone() for t in tensors(called(model, batch))]


def _without_gradient(model: nn.Module, batch: Batch, t: Tensor, batch_dim: int) -> Tensor:
    """Features of one input that no sample has a gradient by."""
    leaf = t.detach().clone().requires_grad_()
    with torch.enable_grad():
        out = [o for o in tensors(called(model, mapped(batch, lambda u: leaf if u is t else u)))
               if o.requires_grad]  # fmt: skip
        g = torch.Generator().manual_seed(0)
        along = [torch.randn(o.shape, generator=g, dtype=torch.float64).to(o) for o in out]
        found = torch.autograd.grad(out, leaf, along, allow_unused=True)[0] if out else None
    found = torch.zeros_like(t) if found is None else found
    return ~found.movedim(batch_dim, 0).ne(0).any(0)
