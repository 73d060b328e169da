"""Training with a penalty on the weights until they settle."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, repeat

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sigmascope.gate import Refusal


def settle(
    model: nn.Module,
    inputs: Float[Tensor, "n *features"],
    targets: Float[Tensor, "n *outputs"],
    *,
    ridge: float = 1e-3,
    steps: int = 8000,
    rate: float = 2e-3,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Train a network in place to a minimum of mean squared error and `ridge ‖θ‖²`.

    Adam with a cosine decay of the rate to 1e-6, which leaves weights that settle: the ranks and
    norms of the theory are those of minima.

    Args:
        model: The network, in training mode or not, as it is.
        inputs: A row a sample.
        targets: The same.
        ridge: `λ` of the penalty `λ ‖θ‖²`, biases included.
        steps: Of Adam.
        rate: At the beginning.
        batch_size: Samples of a step; all of them without.
        generator: Shuffles the samples, once in every pass over them.

    Returns:
        The network.

    Raises:
        Refusal: If inputs and targets differ in number, outputs and targets in shape, something is
            not finite, or the cost is not at some step.

    Source:
        Jacot 2023, Appendix E, with the rate and decay that converge.
    """
    _require_rows(inputs, targets)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(parameters, lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps, eta_min=1e-6)
    cost = torch.zeros(())
    with _flushing():
        for chosen in islice(_batches(len(inputs), batch_size, generator), steps):
            x, y = inputs[chosen], targets[chosen]
            optimiser.zero_grad()
            penalty = sum((p.square().sum() for p in parameters), torch.zeros(()))
            cost = _squared_error(model(x), y) + ridge * penalty
            cost.backward()
            optimiser.step()
            schedule.step()
    if not bool(cost.isfinite()):
        raise Refusal(
            f"The cost must stay finite, got {cost.item()} after {steps} steps. Lower the rate, or "
            "scale inputs and targets to a spread of one."
        )
    return model


def _require_rows(inputs: Tensor, targets: Tensor) -> None:
    if len(inputs) != len(targets):
        raise Refusal(
            f"`inputs` and `targets` must have one row for each sample, got {len(inputs)} and "
            f"{len(targets)}. Pass the targets of these inputs."
        )
    for name, rows in (("inputs", inputs), ("targets", targets)):
        if not bool(rows.isfinite().all()):
            bad = int((~rows.isfinite()).sum())
            raise Refusal(
                f"`{name}` must be finite, got {bad} of {rows.numel()} values that are not. Leave "
                "these samples out, or fill the values."
            )


def _squared_error(output: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error of outputs and targets of one shape, neither spread over the other."""
    if output.shape != targets.shape:
        raise Refusal(
            f"`targets` must have the shape of the outputs {tuple(output.shape)}, got "
            f"{tuple(targets.shape)}. Give both one shape, e.g. `targets.view_as(outputs)`."
        )
    return (output - targets).square().mean()


def _batches(
    count: int, size: int | None, generator: torch.Generator | None
) -> Iterator[Tensor | slice]:
    """Indices of the samples of each step, shuffled anew when they are used up."""
    if size is None or size >= count:
        yield from repeat(slice(None))
    else:
        while True:
            order = torch.randperm(count, generator=generator)
            yield from (order[i : i + size] for i in range(0, count - size + 1, size))


@contextmanager
def _flushing() -> Iterator[None]:
    """Denormal numbers count as zero: weights that vanish would make every product slow."""
    before = float(torch.tensor(1e-310, dtype=torch.float64) * 1) == 0  # torch does not tell
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
