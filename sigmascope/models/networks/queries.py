"""Networks from a line of text."""

import inspect
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import torch
from torch import nn

from sigmascope.core.guard import Refusal, nearest
from sigmascope.models.networks.convolutional import resnet, resnet50, vgg, vgg19
from sigmascope.models.networks.mlps import mlp

NETWORKS: tuple[Callable[..., nn.Module], ...] = (mlp, vgg, vgg19, resnet, resnet50)


def build(
    query: str,
    *,
    inputs: int | tuple[int, ...],
    outputs: int,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Build one of the reference networks from text such as `"mlp?depth=32&norm=batch"`.

    The options are the keyword arguments of the network of that name.

    Args:
        query: `name`, or `name?key=value&key=value`.
        inputs: Shape of one sample.
        outputs: Outputs of the readout.
        generator: Source of the weights; torch's global one when there is none.

    Raises:
        Refusal: If the name, a key or a value is not among those allowed; the message lists
            them and names the nearest.

    Example:
        >>> model = build("mlp?depth=2&width=8", inputs=(1, 8, 8), outputs=10)
        >>> model(torch.zeros(3, 1, 8, 8)).shape
        torch.Size([3, 10])
    """
    name, _, text = query.partition("?")
    by_name = {network.__name__: network for network in NETWORKS}
    if name not in by_name:
        raise Refusal(
            f"There is no network `{name}`; there are {', '.join(by_name)}.{nearest(name, by_name)}"
        )
    network = by_name[name]
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text))
    except ValueError as error:
        raise Refusal(
            f"`{name}?{text}` must read `{name}?key=value&key=value`: {error}."
        ) from error
    allowed, hints, chosen = options(network), get_type_hints(network), {}
    for key, value in pairs:
        if key not in allowed:
            raise Refusal(
                f"`{name}` has no option `{key}`; it has {', '.join(allowed)}."
                f"{nearest(key, allowed)}"
            )
        if key in chosen:
            raise Refusal(f"`{name}` was given `{key}` twice; give it once.")
        chosen[key] = _value(key, value, hints[key])
    return network(inputs=inputs, outputs=outputs, generator=generator, **chosen)


def options(network: Callable[..., nn.Module]) -> dict[str, inspect.Parameter]:
    """The keyword arguments of a network that a query may set, in order."""
    given = ("inputs", "outputs", "generator")
    parameters = inspect.signature(network).parameters
    return {name: p for name, p in parameters.items() if name not in given}


def _value(key: str, text: str, kind: Any) -> Any:
    """`text` read as the annotated type of the option `key`."""
    if get_origin(kind) in (Union, types.UnionType):
        if text.lower() == "none":
            return None
        (kind,) = (k for k in get_args(kind) if k is not types.NoneType)
    if get_origin(kind) is Literal:
        words = get_args(kind)
        if text not in words:
            raise Refusal(
                f"`{key}` must be one of {', '.join(words)}, got `{text}`.{nearest(text, words)}"
            )
        return text
    if kind is bool:
        truths = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if text.lower() not in truths:
            raise Refusal(f"`{key}` must be true or false, got `{text}`.")
        return truths[text.lower()]
    try:
        return kind(text)
    except ValueError as error:
        wanted = "a whole number" if kind is int else "a number"
        raise Refusal(f"`{key}` must be {wanted}, got `{text}`.") from error
