"""How well conditioned learning is in each layer."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from sigmascope.core.guard import Refusal, door
from sigmascope.core.records import Estimate, Shown, Skipped, Spectrum
from sigmascope.linalg import condition_number, matrix_rank
from sigmascope.models import Subject
from sigmascope.models.curvature import Conditioning
from sigmascope.models.networks import Activation, activation_layer, is_activation
from sigmascope.models.samples import SQUARED, Batch, Loss, loss_name
from sigmascope.models.state import ALONE, duplicate

AS_IT_IS = "as it is"
FLAT = "the loss is flat in its weights, up to rounding"


@dataclass(frozen=True, slots=True)
class LayerCurvature:
    """How eccentric the loss is in one layer's weights, all others held fixed.

    Attributes:
        site: The layer.
        condition: `κ(Q)`: the ratio of the longest and the shortest axis of the level sets.
        layer_factor: Largest over smallest singular value of what follows the layer, loss included.
        data_factor: Condition number of what the layer reads.
        top: Largest eigenvalue of the Gauss-Newton matrix, in loss per squared weight.
        flat: Directions in which the loss does not change to second order, up to `floor`.
        step_limit: Learning rate above which gradient descent on this layer diverges.
        rate: Factor by which the best learning rate reduces the slowest error at each step.
        floor: Axes longer than this many times the shortest cannot be told from flat ones, which
            the condition number leaves out; the rounding of the model's arithmetic decides.
    """

    site: str
    condition: Estimate
    layer_factor: Estimate
    data_factor: Estimate
    top: Estimate
    flat: Estimate
    step_limit: Estimate
    rate: Estimate
    floor: float
    root: Spectrum


@dataclass(frozen=True, slots=True, repr=False)
class Landscape(Shown):
    """The layers of one variant of a model.

    Attributes:
        says: Which variant.
        rho: Strength of the skip connection that was added; 0 without one.
        layers: Those of which something can be said, in the order of calls.
        skipped: The others, and why.
        loss: Name of the loss.
    """

    says: str
    rho: float
    layers: tuple[LayerCurvature, ...]
    skipped: tuple[Skipped, ...]
    loss: str = SQUARED


@door
def landscape(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any = None,
    loss: Loss | None = None,
    batch_dim: int = 0,
) -> Landscape:
    """Condition number of learning in every layer, split into what causes it.

    Args:
        model: Left bit for bit as it was found.
        batch: As for `profile`.
        targets: What `loss` compares the output with.
        loss: Convex in the output, e.g. `torch.nn.functional.cross_entropy`; squared error over the
            samples, whose curvature depends on no targets, if none is given.
        batch_dim: Where the batch has its samples.

    Raises:
        Refusal: If the model, the batch or the loss cannot be measured.

    Source:
        Riedi et al. 2022, section 3, corrected.

    Cost: a forward pass, a backward pass for each output, and one factorisation for each layer.
    """
    return measured_landscape(model, batch, targets, loss, batch_dim, says=AS_IT_IS, rho=0.0)


def measured_landscape(
    model: nn.Module,
    batch: Batch,
    targets: Any,
    loss: Loss | None,
    batch_dim: int,
    *,
    says: str,
    rho: float,
) -> Landscape:
    """The landscape of a variant that is in place, with words for it."""
    found = Subject(model, batch, targets, loss, batch_dim=batch_dim).conditioning
    flat = [c.site for c in found.found if not float(c.root.sigma[0]) > 0]
    skipped = {**found.silent, **dict.fromkeys(flat, FLAT)}
    layers = tuple(layer_curvature(c) for c in found.found if c.site not in flat)
    silent = tuple(Skipped(site, "conditioning", why) for site, why in skipped.items())
    return Landscape(says, rho, layers, silent, loss_name(loss, targets))


def layer_curvature(c: Conditioning) -> LayerCurvature:
    """What one layer's Gauss-Newton matrix says."""
    condition = condition_number(c.root, rtol=c.rtol)
    rank = matrix_rank(c.root, rtol=c.rtol)
    flat = Estimate(
        c.parameters - rank.value, c.parameters - rank.high, c.parameters - rank.low, rank.how
    )
    s = c.root
    largest, low, high = float(s.sigma[0]), float(s.low[0]), float(s.high[0])
    top = Estimate(largest**2, low**2, high**2, s.how, s.risk)
    limit = 2 / top
    # largest singular value over all samples, over the smallest that is not zero
    ends: list[Estimate] = []
    tops: list[float] = []
    for each in c.layers:
        if float(each.sigma[0]) > 0:
            ends.append(condition_number(each, rtol=c.rtol))
            tops.append(float(each.sigma[0]))
    most = max(tops)
    parts = [most / size for size in tops]
    factor = Estimate(
        max(p * e.value for p, e in zip(parts, ends, strict=True)),
        max(p * e.low for p, e in zip(parts, ends, strict=True)),
        max(p * e.high for p, e in zip(parts, ends, strict=True)) * (1 + 1e-12),
        f"{len(ends)} of {len(c.layers)} samples, {ends[0].how}",
    )
    return LayerCurvature(
        c.site,
        condition,
        factor,
        condition_number(c.features, rtol=c.rtol),
        top,
        flat,
        limit,
        _rate(condition),
        1 / c.rtol,
        c.root,
    )


def _rate(condition: Estimate) -> Estimate:
    """`(κ² - 1) / (κ² + 1)`, κ that of the root: of gradient descent at its best step."""
    return (1 - 2 / (condition**2 + 1)).at_most(1.0)


# ------------------------------------------------------------------------------
# What a change of design would make of the landscape.


@door
def what_if(
    model: nn.Module,
    batch: Batch,
    *,
    skip: str | Sequence[str] | None = None,
    rhos: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    activation: Activation | None = None,
    targets: Any = None,
    loss: Loss | None = None,
    batch_dim: int = 0,
) -> tuple[Landscape, ...]:
    """The landscape as it would be with a skip connection, or with another activation.

    Everything is computed again for each variant, the pattern of units that are on included.

    Args:
        model: Left bit for bit as it was found.
        batch: As for `profile`.
        skip: A module whose output gets `rho` times its input added; `"first:last"` for the input
            of one and the output of another; or several of these at once, as in a DenseNet.
        rhos: Strengths of the skip connection; 0 is the model as it is.
        activation: Put in the place of every activation module.
        targets: As for `landscape`.
        loss: As for `landscape`.
        batch_dim: Where the batch has its samples.

    Raises:
        Refusal: If there is no such module, if shapes differ along the skip connection, or if there
            is nothing to change.

    Source:
        Riedi et al. 2022, Eqs. (40), (44), (158).
    """
    if skip is None and activation is None:
        raise Refusal("There must be something to change: name a `skip` or an `activation`.")
    measure = partial(
        measured_landscape, batch=batch, targets=targets, loss=loss, batch_dim=batch_dim
    )
    alone = skip is not None and activation is None and 0 in rhos
    found = [] if alone else [measure(model, says=AS_IT_IS, rho=0.0)]
    if activation is not None:
        model = duplicate(model)
        places = [
            (parent, name)
            for parent in model.modules()
            for name, child in parent._modules.items()  # a module used twice has two places
            if child is not None and is_activation(child)
        ]
        if not places:
            raise Refusal(
                "`activation` needs activations that are modules, got a model without any. Use "
                "nn.ReLU and its like instead of functions, or change the model's own code."
            )
        for parent, name in places:
            setattr(parent, name, activation_layer(activation) or nn.Identity())
        found += [measure(model, says=f"with {activation}", rho=0.0)] if skip is None else []
    if skip is None:
        return tuple(found)
    names = [skip] if isinstance(skip, str) else list(skip)
    modules, ends = dict(model.named_modules()), []
    for name in names:
        first, *others = name.split(":")
        last = others[0] if others else first
        if len(others) > 1 or not {first, last} <= modules.keys() - {""}:
            known = ", ".join(list(modules)[1:13])
            raise Refusal(
                f"`skip` must name one module, or two as first:last, got {name!r}. There are "
                f"{known}{', …' if len(modules) > 13 else ''}."
            )
        ends.append((modules[first], modules[last]))
    kind = AS_IT_IS if activation is None else f"with {activation}"
    also = "" if activation is None else f", {activation}"
    for rho in rhos:
        says = f"skip {rho:g} around {', '.join(names)}{also}" if rho else kind
        with ExitStack() as skips:
            seen = [skips.enter_context(skipping(first, last, rho)) for first, last in ends]
            found.append(measure(model, says=says, rho=rho))
        unseen = [name for name, here in zip(names, seen, strict=True) if not here]
        if unseen:
            raise Refusal(f"`skip` must name modules that the model calls, got {unseen[0]!r}.")
    return tuple(found)


@contextmanager
def skipping(first: nn.Module, last: nn.Module, rho: float) -> Iterator[list[Tensor]]:
    """Add `rho` times the input of one module to the output of another while the block runs."""
    inputs: list[Tensor] = []
    seen: list[Tensor] = []

    def remember(_: nn.Module, args: tuple[Any, ...]) -> None:
        inputs.append(args[0])

    def add(_: nn.Module, __: tuple[Any, ...], output: Any) -> Tensor:
        came = inputs.pop() if inputs else None
        if not isinstance(output, Tensor) or came is None or came.shape != output.shape:
            read = "nothing" if came is None else str(tuple(came.shape))
            wrote = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise Refusal(
                f"A skip connection needs the shape of its input, got {read} in and {wrote} out. "
                "Name modules that read and write tensors of one shape."
            )
        seen.append(came)
        return output + rho * came

    with ALONE, ExitStack() as hooks:  # no other thread may measure the model with the skip in it
        hooks.callback(first.register_forward_pre_hook(remember).remove)
        hooks.callback(last.register_forward_hook(add).remove)
        yield seen
