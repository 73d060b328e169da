"""The chain of random layers with batch normalisation, without building it.

The state is what one layer sees of a batch, `H [width, samples]`, columns are samples. It is kept
as `H = R Q` with `Q` orthonormal: layers act from the left, so `Q` stays, and directions of `R`
that have died out (all but a few do) are dropped. What is asked of `H` are singular values, and
those are the ones of `R`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg import lyapunov_exponents, ratio_average
from sigmascope.networks.chains.chain_steps import (
    forgetting,
    measures_of,
    normalised,
    reduced,
    require_threshold,
)
from sigmascope.networks.chains.draws import (
    State,
    Weights,
    frame,
    product,
    random_numbers,
    random_weights,
    start,
)
from sigmascope.networks.chains.statistics import ChainStatistics
from sigmascope.networks.refusals import require_choice, require_counts, require_gamma
from sigmascope.records import Estimate

STRETCHES = 32  # pieces of the time of all chains, from which intervals are made
RESOLVED = 52 * math.log(2)  # the logarithm of the largest ratio that float64 resolves
DEAD = 1e-13  # share of the largest singular value below which a direction is rounding
TOGETHER = 256  # states that are measured at once
LOOK = 1.25  # dead directions are looked for whenever the age has grown by this factor


class BatchNormChain:
    """`H ← BN(H + gamma W H)`, the chain of Daneshmand et al. 2020, Eq. (1), without building it.

    BN divides each unit by its root mean square over the batch, without centring. Weights are
    independent, of unit variance, new at every layer; `gamma` carries their scale.

    Attributes:
        state: `R [chains, width, directions]`, with rows of norm one: `M = R Rᵀ`.
        age: Layers that the chains have gone through.
        rank: Of the batch; no layer raises it, and none may by rounding.
        spread: The smallest singular value of the batch over its largest.

    Args:
        width: Units of each layer.
        gamma: Strength of a layer beside its skip connection; infinite without a skip connection.
        weights: `"gaussian"`; `"uniform"`, which is symmetric; `"asymmetric"`, uniform on positive
            numbers, which the theory excludes.
        samples: Columns of the batch; as many as the width if not given.
        chains: How many independent chains to run side by side.
        inputs: The batch, rows are samples; independent Gaussian batches if not given.
        generator: Source of inputs and weights; torch's global one when there is none.

    Raises:
        ValueError: If an option makes no chain.

    Example:
        >>> chain = BatchNormChain(8, generator=torch.Generator().manual_seed(0))
        >>> chain.run(2000).participation_ratio.value > 2
        True
    """

    def __init__(
        self,
        width: int,
        gamma: float = math.inf,
        *,
        weights: Weights = "gaussian",
        samples: int | None = None,
        chains: int = 1,
        inputs: Float[Tensor, "samples width"] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        samples = samples or (width if inputs is None else len(inputs))
        require_counts(width=width, samples=samples, chains=chains)
        require_choice("weights", weights, Weights)
        require_gamma(gamma)
        self.width, self.gamma, self.samples = width, gamma, samples
        self.weights: Weights = weights
        self.chains, self.numbers = chains, random_numbers(generator)
        self.age = 0
        self._next_look = 16.0
        state = normalised(start(inputs, (chains, width, samples), self.numbers))
        if not bool(state.isfinite().all()):
            raise ValueError(
                "Every feature must be non-zero on some sample to be normalised, got one that is "
                "zero. Give inputs in which every feature is present."
            )
        precision = torch.float64 if inputs is None else inputs.dtype
        self.state, self.rank, self.spread = reduced(state, torch.finfo(precision).eps)

    def step(self) -> None:
        """Go through one layer."""
        self.state = normalised(self._mixed(self.state))
        self._grow_older()

    def singular_values(self) -> Float64[Tensor, "chains directions"]:
        """Of `H / √samples`, descending; their squares are the eigenvalues of `M`."""
        return torch.linalg.svdvals(self.state)

    def run(
        self,
        layers: int,
        burn_in: int | None = None,
        tau: float = 0.5,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> ChainStatistics:
        """Average over the next layers; may be called again and goes on from there.

        Args:
            layers: How many layers to average over, `32 / chains` or more for an interval.
            burn_in: Layers to pass before that; by default as many as the chain needs to forget
                its start, see `forgetting`, less its age.
            tau: Threshold of the soft rank, above 0 and at most 1.
            progress: Called now and then with the layers done and the layers in all.

        Returns:
            Averages with intervals at 95 % that account for the memory of the chain.

        Source:
            Daneshmand et al. 2020, Theorem 14 and Definition 3.
        """
        require_counts(layers=layers)
        require_threshold(tau)
        if burn_in is None:
            burn_in = max(0, forgetting(self.width, self.gamma, spread=self.spread) - self.age)
        for _ in range(burn_in):
            self.step()
        age = self.age
        pieces = max(1, min(layers, math.ceil(STRETCHES / self.chains)))
        sums = torch.zeros(pieces, 5, self.chains, dtype=torch.float64)
        sizes = torch.zeros(pieces, 1, 1, dtype=torch.float64)
        done = 0
        for states in self._blocks(layers):
            measures = measures_of(torch.cat(states), tau).unflatten(1, (len(states), self.chains))
            piece = torch.arange(done, done + len(states)) * pieces // layers
            sums.index_add_(0, piece, measures.transpose(0, 1))
            sizes.index_add_(0, piece, torch.ones(len(states), 1, 1, dtype=torch.float64))
            done += len(states)
            if progress is not None:
                progress(done, layers)
        return self._statistics(sums, sizes, tau=tau, layers=layers, burn_in=burn_in, age=age)

    def exponents(
        self, layers: int, *, count: int | None = None, burn_in: int | None = None
    ) -> tuple[Estimate, ...]:
        """Lyapunov exponents of the products `A_l = diag(row norms)⁻¹ (I + gamma W_l)`.

        Zero for each direction that survives at any depth; the others die at these rates. Over a
        finite depth the product may stretch a direction that survives by as much as float64
        resolves, before what it stretches has died: by so much over the depth every interval is
        wider than that of the average.

        Args:
            layers: How many to average over.
            count: How many exponents, the largest first; all of them if not given.
            burn_in: Layers to pass before that, while the frame turns; see `forgetting`.
        """
        burn_in = forgetting(self.width, self.gamma) if burn_in is None else burn_in
        directions = frame(self.chains, self.width, count, self.numbers)
        found = lyapunov_exponents(self._carry, directions, layers=layers, burn_in=burn_in)
        gap = RESOLVED / layers
        return tuple(replace(e, low=e.low - gap, high=e.high + gap) for e in found)

    def _blocks(self, layers: int) -> Iterator[list[State]]:
        """The states at the next layers, a few at a time, to be measured together."""
        most = max(1, TOGETHER // self.chains)
        states: list[State] = []
        for _ in range(layers):
            self.step()
            if len(states) == most or (states and states[0].shape != self.state.shape):
                yield states
                states = []
            states.append(self.state)
        yield states

    def _mixed(self, H: State) -> State:
        drawn = product(H, self.weights, self.numbers)
        return drawn if math.isinf(self.gamma) else H + self.gamma * drawn

    def _carry(self, frame: State) -> State:
        """One layer of the chain, and the same layer applied to a frame."""
        shape = (self.chains, self.width, self.width)
        W = random_weights(shape, self.weights, self.numbers)
        mixed, carried = W @ self.state, W @ frame
        if math.isfinite(self.gamma):
            mixed = self.state + self.gamma * mixed
            carried = frame + self.gamma * carried
        size = mixed.norm(dim=-1, keepdim=True)
        self.state = mixed / size
        self._grow_older()
        return carried / size

    def _grow_older(self) -> None:
        self.age += 1
        if self.age >= self._next_look:
            self._next_look = self.age * LOOK
            sigma = self.singular_values()
            alive = int((sigma > DEAD * sigma[:, :1]).sum(1).amax())
            if alive < self.state.shape[-1]:
                V = torch.linalg.svd(self.state, full_matrices=False)[2][:, :alive].mT
                self.state = self.state @ V

    def _statistics(
        self, sums: Tensor, sizes: Tensor, *, tau: float, layers: int, burn_in: int, age: int
    ) -> ChainStatistics:
        ratio, rank, frobenius_sq, regular, cube = sums.permute(1, 2, 0)  # [chains, pieces]
        size = sizes[:, :, 0].expand(-1, self.chains).T
        drift = 2 * self.width**2 * size - 2 * frobenius_sq - 8 * cube + 8 * regular
        return ChainStatistics(
            ratio_average(ratio, size),
            ratio_average(rank, size),
            ratio_average(frobenius_sq, size),
            ratio_average(regular, cube),
            ratio_average(drift, size),
            self.width,
            self.gamma,
            self.weights,
            self.samples,
            tau,
            self.chains,
            layers,
            burn_in,
            self.rank,
            age >= forgetting(self.width, self.gamma, spread=self.spread),
        )
