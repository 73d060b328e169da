"""What a change of design would make of the landscape."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.networks import Activation, activation_layer, is_activation
from sigmascope.probes.execution import ALONE, duplicate
from sigmascope.probes.samples import Batch, Loss
from sigmascope.survey.landscape.layer_conditioning import AS_IT_IS, Landscape, measured_landscape


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
        model = _reactivated(model, activation)
        found += [measure(model, says=f"with {activation}", rho=0.0)] if skip is None else []
    if skip is None:
        return tuple(found)
    names = [skip] if isinstance(skip, str) else list(skip)
    ends = [_ends(model, name) for name in names]
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


def _ends(model: nn.Module, skip: str) -> tuple[nn.Module, nn.Module]:
    modules = dict(model.named_modules())
    names = skip.split(":") if ":" in skip else [skip, skip]
    unknown = [n for n in names if n not in modules or not n]
    if unknown or len(names) != 2:
        known = ", ".join(list(modules)[1:13])
        raise Refusal(
            f"`skip` must name one module, or two as first:last, got {skip!r}. There are {known}"
            f"{', …' if len(modules) > 13 else ''}."
        )
    return modules[names[0]], modules[names[1]]


def _reactivated(model: nn.Module, activation: Activation) -> nn.Module:
    changed = duplicate(model)
    places = [
        (parent, name)
        for parent in changed.modules()
        for name, child in parent._modules.items()  # a module used twice has two places
        if child is not None and is_activation(child)
    ]
    if not places:
        raise Refusal(
            "`activation` needs activations that are modules, got a model without any. Use nn.ReLU "
            "and its like instead of functions, or change the model's own code."
        )
    for parent, name in places:
        setattr(parent, name, activation_layer(activation) or nn.Identity())
    return changed
