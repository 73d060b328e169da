"""Two states of one model, side by side: what changed, and what training has conserved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal, door
from sigmascope.core.quantities import View
from sigmascope.core.records import Change, Profile, Reading, Shown, changes
from sigmascope.linalg.norms import frobenius_norm
from sigmascope.linalg.spectra import spectra
from sigmascope.models import Weight, as_matrix
from sigmascope.models.layers import plain
from sigmascope.models.samples import Batch, Loss
from sigmascope.models.state import unwrapped
from sigmascope.survey.profiling import profile
from sigmascope.theory import le2022
from sigmascope.theory.views.balances import rank_one_readings

State = nn.Module | Profile | Mapping[str, Tensor]
VIEWS: tuple[View, ...] = ("representations", "weights", "balances")


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Comparison(Shown):
    """What changed between two states.

    Attributes:
        changes: Every quantity that was measured in both, in the order of the layers.
        drifts: Every balance; none where there was no model to find them in.
        signs: Share of the entries of each weight whose sign changed.
        missing: Sites that only one of them has.
    """

    changes: tuple[Change, ...]
    drifts: tuple[le2022.conservation.Drift, ...]
    signs: Mapping[str, float]
    missing: tuple[str, ...]


@door
def compare(
    before: State,
    after: State,
    *,
    batch: Batch | None = None,
    targets: Any = None,
    loss: Loss | None = None,
    learning_rate: float | None = None,
    loss_drop: float | None = None,
    momentum: float = 0.0,
    steps: int = 1,
) -> Comparison:
    """Every quantity of two states, and the balances that held between them or did not.

    Args:
        before: A model, a profile, or tensors by name as in a checkpoint; files are compared by
            `scan(after, against=before)` and by the command `sigmascope compare`.
        after: The same kind of thing.
        batch: Needed for models: what both are measured on.
        targets: What `loss` compares the output with.
        loss: `loss(output, targets)`.
        learning_rate: Of the steps between; with `loss_drop` it judges the drift of balances.
        loss_drop: How far the training loss fell.
        momentum: Of heavy-ball steps.
        steps: How many there were.

    Raises:
        Refusal: If the two are different kinds of thing, if models come without a batch, or if
            tensors differ in shape or are of a kind that cannot be compared.
    """
    if isinstance(before, nn.Module) and isinstance(after, nn.Module):
        if batch is None:
            raise Refusal("`batch` is needed to compare two models: pass what to measure them on.")
        before, after = unwrapped(before), unwrapped(after)  # whose names are those of its profile
        task = {"targets": targets, "loss": loss}
        of = {"learning_rate": learning_rate, "loss_drop": loss_drop}
        profiles = [profile(m, batch, views=VIEWS, **task) for m in (before, after)]
        states = [dict(m.named_parameters()) for m in (before, after)]
        balances = le2022.conservation.invariants(before, batch, **task)
        drifts = le2022.conservation.endpoint_drifts(
            balances, *states, **of, momentum=momentum, steps=steps
        )
        return _compared(profiles[0].readings, profiles[1].readings, tuple(drifts), states)
    if isinstance(before, Profile) and isinstance(after, Profile):
        return _compared(before.readings, after.readings, (), [{}, {}])
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        # weights are not left out without a word, nor compared with another's shape
        for name, tensor in (*before.items(), *after.items()):
            if not isinstance(tensor, Tensor):
                raise Refusal(
                    f"`{name}` must be a tensor, got {type(tensor).__name__}. Pass state dicts."
                )
            codes = tensor.is_quantized or tensor.dtype in (torch.int8, torch.uint8)
            if tensor.ndim > 1 and (tensor.is_complex() or codes):
                raise Refusal(
                    f"`{name}` must hold real floating numbers to be compared, got {tensor.dtype}. "
                    "Compare the real and imaginary parts, or the weights that the codes stand for."
                )
            other = after.get(name)
            if name in before and other is not None and before[name].shape != other.shape:
                raise Refusal(
                    f"`{name}` must have one shape in both, got {tuple(before[name].shape)} and "
                    f"{tuple(other.shape)}. Compare two states of one model."
                )
        if not any(t.is_floating_point() and t.ndim > 1 and t.numel() for t in before.values()):
            raise Refusal(
                "`before` must hold a weight, floating and of two dimensions or more, got "
                f"{len(before)} tensors with none. Pass the state dict of a model."
            )
        states = [_computable(before), _computable(after)]
        return _compared(_of_tensors(states[0]), _of_tensors(states[1]), (), states)
    raise Refusal(
        "`before` and `after` must be two models, two profiles or two mappings of tensors, got "
        f"{type(before).__name__} and {type(after).__name__}. Bring both to one kind, as to "
        "`state_dict()`."
    )


def _computable(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that hold anything; those of 8 bits, of which torch computes nothing, in 32."""
    small = lambda t: t.is_floating_point() and t.itemsize == 1
    return {n: t.float() if small(t) else t for n, t in state.items() if t.numel()}


def _of_tensors(state: Mapping[str, Tensor]) -> tuple[Reading, ...]:
    """Sizes and ratios of every weight of a checkpoint."""
    floating = {n: t for n, t in state.items() if t.is_floating_point() and t.ndim > 1}
    weights = []
    for name, tensor in floating.items():
        if not bool(tensor.isfinite().all()):
            raise Refusal(
                f"`{name}` must be finite, got entries that are not. Load a checkpoint from before "
                "the step that produced them."
            )
        matrix = as_matrix(tensor)
        shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        weights.append(Weight(name, "matrix", matrix, shape))
    norms = (
        Reading(w.site, q.FROBENIUS_NORM, frobenius_norm(w.matrix), "weights", "matrix")
        for w in weights
    )
    found = zip(weights, spectra([w.matrix for w in weights]), strict=True)
    return (*norms, *rank_one_readings(found))


def _compared(
    before: tuple[Reading, ...],
    after: tuple[Reading, ...],
    drifts: tuple[le2022.conservation.Drift, ...],
    states: Sequence[Mapping[str, Tensor]],
) -> Comparison:
    sites = {r.site for r in before}, {r.site for r in after}
    missing = tuple(sorted(sites[0] ^ sites[1]))
    signs: dict[str, float] = {}  # shares of the entries whose sign changed
    for name, tensor in states[0].items():
        other = states[1].get(name)
        if other is not None and tensor.ndim > 1 and tensor.shape == other.shape:
            with torch.no_grad():
                differ = plain(tensor).sign() != plain(other).sign()
                signs[name] = float(differ.double().mean())
    return Comparison(changes(before, after), drifts, signs, missing)
