"""What the doors of this room say about options that make no network."""

import math
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, get_args

from sigmascope.networks.layers import Activation, Init, Norm


def nearest(word: str, words: Iterable[str]) -> str:
    """`" Did you mean `x`?"` where one of the words is close, else nothing."""
    close = get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f" Did you mean `{close[0]}`?" if close else ""


def require_choice(name: str, value: str, choices: Any) -> None:
    """Raise unless `value` is one of the words of the `Literal` type `choices`."""
    words = get_args(choices)
    if value not in words:
        raise ValueError(
            f"`{name}` must be one of {', '.join(words)}, got `{value}`.{nearest(value, words)}"
        )


def require_counts(*, least: int = 1, **counts: int) -> None:
    """Raise unless every count is a whole number, `least` or more."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < least:
            raise ValueError(f"`{name}` must be a whole number, {least} or more, got {count}.")


def require_options(*, activation: str, norm: str, init: str, eps: float) -> None:
    """Raise unless each is among its choices, and `eps` is finite and not negative."""
    require_choice("activation", activation, Activation)
    require_choice("norm", norm, Norm)
    require_choice("init", init, Init)
    if not (math.isfinite(eps) and eps >= 0):
        raise ValueError(f"`eps` must be a finite number, 0 or more, got {eps}.")


def require_image(inputs: object) -> tuple[int, int, int]:
    """`(channels, height, width)`, or a refusal."""
    if not isinstance(inputs, tuple) or len(inputs) != 3:
        raise ValueError(
            f"`inputs` must be the shape (channels, height, width) of one image, got {inputs}. "
            "For data that are not images use `mlp`."
        )
    channels, height, width = inputs
    require_counts(channels=channels, height=height, width=width)
    if min(height, width) < 4:
        raise ValueError(
            f"`inputs` must be images of 4 x 4 pixels or more, got {height} x {width}: this "
            "network halves the image twice. For smaller images use `mlp`."
        )
    return channels, height, width


def require_gamma(gamma: float) -> None:
    """Raise unless `gamma` is positive."""
    if not gamma > 0:
        raise ValueError(
            f"`gamma` must be above 0, infinite for a chain without skip connections, got {gamma}."
        )
