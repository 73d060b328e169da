"""The nodes of autograd that lie between tensors."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.autograd.function import BackwardCFunction


def between(ends: Iterable[Any], z: Tensor) -> dict[Any, None]:
    """The nodes from some down to a tensor, those that are computed first in front."""
    depends: dict[Any, bool] = {}
    stack: list[tuple[Any, bool]] = [(end, False) for end in ends]
    while stack:
        node, done = stack.pop()
        if done:
            after = [n for n, _ in node.next_functions if n is not None]
            del depends[node]  # to come after them
            depends[node] = any(depends.get(n, False) for n in after)
        elif node is not None and node not in depends:
            depends[node] = getattr(node, "variable", None) is z
            if not depends[node]:
                stack.append((node, True))
                stack += [(n, False) for n, _ in node.next_functions]
    return {node: None for node in depends if depends[node]}


def handwritten(nodes: Iterable[Any]) -> str:
    """A `torch.autograd.Function` of the user's, or a backward hook, by name; empty if none."""
    names = [type(n).__name__ for n in nodes if isinstance(n, BackwardCFunction)]
    return names[0].removesuffix("Backward") if names else ""
