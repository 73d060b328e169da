"""What the doors of this room say about options that make no network."""

import math
from typing import Any, get_args

from sigmascope.core.guard import Refusal, nearest
from sigmascope.models.networks.layers import Activation, Init, Norm


def require_choice(name: str, value: str, choices: Any) -> None:
    """Raise unless `value` is one of the words of the `Literal` type `choices`."""
    words = get_args(choices)
    if value not in words:
        raise Refusal(
            f"`{name}` must be one of {', '.join(words)}, got `{value}`.{nearest(value, words)}"
        )


def require_counts(*, least: int = 1, **counts: int) -> None:
    """Raise unless every count is a whole number, `least` or more."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < least:
            raise Refusal(f"`{name}` must be a whole number, {least} or more, got {count}.")


def require_options(*, activation: str, norm: str, init: str, eps: float) -> None:
    """Raise unless each is among its choices, and `eps` is finite and not negative."""
    require_choice("activation", activation, Activation)
    require_choice("norm", norm, Norm)
    require_choice("init", init, Init)
    if not (math.isfinite(eps) and eps >= 0):
        raise Refusal(f"`eps` must be a finite number, 0 or more, got {eps}.")


def require_image(inputs: object) -> tuple[int, int, int]:
    """`(channels, height, width)`, or a refusal."""
    if not isinstance(inputs, tuple) or len(inputs) != 3:
        raise Refusal(
            f"`inputs` must be the shape (channels, height, width) of one image, got {inputs}. "
            "For data that are not images use `mlp`."
        )
    channels, height, width = inputs
    require_counts(channels=channels, height=height, width=width)
    if min(height, width) < 4:
        raise Refusal(
            f"`inputs` must be images of 4 x 4 pixels or more, got {height} x {width}: this "
            "network halves the image twice. For smaller images use `mlp`."
        )
    return channels, height, width


def require_gamma(gamma: float) -> None:
    """Raise unless `gamma` is positive."""
    if not gamma > 0:
        raise Refusal(
            f"`gamma` must be above 0, infinite for a chain without skip connections, got {gamma}."
        )
