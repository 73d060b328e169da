"""Chains of random linear layers without normalisation."""

import math

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg import lyapunov_exponents
from sigmascope.networks.chains.draws import (
    State,
    Weights,
    frame,
    random_numbers,
    random_weights,
    start,
)
from sigmascope.networks.refusals import require_choice, require_counts, require_gamma
from sigmascope.records import Estimate


class LinearChain:
    """`H ← H + gamma W H` without normalisation (Daneshmand et al. 2020, Eq. (6)).

    The state is divided by its norm at every layer, so that nothing over- or underflows.

    Args:
        width: Units of each layer.
        gamma: Strength of a layer beside its skip connection; infinite for `H ← W H`.
        weights: Law of the weights, of unit variance.
        chains: How many independent chains to run side by side.
        generator: Source of inputs and weights; torch's global one when there is none.
    """

    def __init__(
        self,
        width: int,
        gamma: float = math.inf,
        *,
        weights: Weights = "gaussian",
        chains: int = 1,
        generator: torch.Generator | None = None,
    ) -> None:
        require_counts(width=width, chains=chains)
        require_choice("weights", weights, Weights)
        require_gamma(gamma)
        self.width, self.gamma = width, gamma
        self.weights: Weights = weights
        self.chains, self.numbers = chains, random_numbers(generator)
        self.age = 0
        self.state = start(None, (chains, width, width), self.numbers)

    def step(self) -> None:
        """Go through one layer."""
        self.state = self._carry(self.state)
        self.state = self.state / self.state.norm(dim=(1, 2), keepdim=True)
        self.age += 1

    def singular_values(self) -> Float64[Tensor, "chains width"]:
        """Of the state, descending, as shares of its Frobenius norm."""
        return torch.linalg.svdvals(self.state)

    def exponents(
        self, layers: int, *, count: int | None = None, burn_in: int = 100
    ) -> tuple[Estimate, ...]:
        """Lyapunov exponents of the products of `I + gamma W_l`, as `linalg.lyapunov_exponents`."""
        directions = frame(self.chains, self.width, count, self.numbers)
        return lyapunov_exponents(self._carry, directions, layers=layers, burn_in=burn_in)

    def _carry(self, frame: State) -> State:
        shape = (self.chains, self.width, self.width)
        W = random_weights(shape, self.weights, self.numbers)
        return W @ frame if math.isinf(self.gamma) else frame + self.gamma * (W @ frame)
