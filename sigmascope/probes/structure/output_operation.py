"""What a model does last."""

import torch
from torch import nn

from sigmascope.probes.execution.forward import called
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.samples.batches import Batch, as_tensor

SHAPES = {"View", "UnsafeView", "Reshape", "ReshapeAlias", "Squeeze", "Unsqueeze", "Clone", "Alias"}


def closing_operation(model: nn.Module, batch: Batch) -> str:
    """The operation that computes the output, changes of shape aside, in autograd's words.

    Args:
        model: Left as it was found.
        batch: What it is run on.

    Returns:
        E.g. `"Softmax"`, `"Addmm"`; empty where the output does not depend on a trained parameter.

    Raises:
        Refusal: If the model cannot be run on the batch.

    Cost: a forward pass.
    """
    with still(model), torch.enable_grad():
        node = as_tensor(called(model, batch))[0].grad_fn
    while node is not None and node.next_functions and operation(node) in SHAPES:
        node = node.next_functions[0][0]
    return "" if node is None else operation(node)


def operation(node: torch.autograd.graph.Node) -> str:
    """What a node of the autograd graph computed, e.g. `"Addmm"`."""
    return node.name().rstrip("0123456789").removesuffix("Backward")
