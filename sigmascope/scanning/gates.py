"""Recurrent layers, whose gates lie in one tensor: which they are, the other weights say."""

from collections.abc import Mapping
from dataclasses import replace

from sigmascope.scanning.rules import Rule

NAMES = {1: (), 3: ("r", "z", "n"), 4: ("i", "f", "g", "o")}  # in the order of PyTorch


def gated(name: str, rule: Rule, shapes: Mapping[str, tuple[int, ...]]) -> Rule | str:
    """The rule with its parts named, or why they are not known.

    Args:
        name: Of the tensor, `weight_ih_l0` or `weight_hh_l0` at its end.
        rule: For gates.
        shapes: Of all tensors, by name.
    """
    stem, _, layer = name.rpartition("weight_")
    own, state, back = (shapes.get(f"{stem}weight_{w}{layer[2:]}") for w in (layer[:2], "hh", "hr"))
    if own is None or state is None or len(state) != 2:
        return "its gates were not split: the weight of the layer's state is not beside it"
    size = state[1] if back is None or len(back) != 2 else back[1]  # one that is projected
    count, odd = divmod(own[0], size) if size else (0, 1)
    if odd or count not in NAMES:
        return f"its gates were not split: {own[0]} outputs are no gates of {size} units"
    return replace(rule, parts=NAMES[count], kinds=(), layout="blocks")
