"""Chains of random layers that are never built."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate
from sigmascope.linalg import lyapunov_exponents, ratio_average
from sigmascope.linalg.spectra import counts_above
from sigmascope.models.networks.refusals import require_choice, require_counts, require_gamma

__all__ = [
    "BatchNormChain",
    "ChainStatistics",
    "LinearChain",
    "Weights",
    "counterexample_excess",
    "forgetting",
    "lipschitz_counterexample",
    "random_numbers",
    "random_weights",
]

# ------------------------------------------------------------------------------
# Random layers and batches for chains that are never built.


Weights = Literal["gaussian", "uniform", "asymmetric"]
State = Float64[Tensor, "chains width directions"]
ROOT3 = math.sqrt(3.0)  # a uniform law on an interval of length 2√3 has unit variance


def random_numbers(generator: torch.Generator | None) -> np.random.Generator:
    """NumPy's SFC64, seeded by one number of `generator` (torch's global one when there is none).

    In float64 it is more than twice as fast as torch's own generator, and random numbers are most
    of what a chain costs.
    """
    seed = torch.randint(2**63 - 1, (1,), generator=generator, dtype=torch.int64)
    return np.random.Generator(np.random.SFC64(int(seed)))


def random_weights(
    shape: tuple[int, ...], weights: Weights, numbers: np.random.Generator
) -> Float64[Tensor, "..."]:
    """Independent weights of unit variance.

    Args:
        shape: Of the result.
        weights: `"gaussian"`, `"uniform"` on `[-√3, √3)`, `"asymmetric"` on `[0, 2√3)`.
        numbers: From `random_numbers`.
    """
    if weights == "gaussian":
        return torch.from_numpy(numbers.standard_normal(shape))
    low = -ROOT3 if weights == "uniform" else 0.0
    return torch.from_numpy(numbers.random(shape)).mul_(2 * ROOT3).add_(low)


def product(H: State, weights: Weights, numbers: np.random.Generator) -> State:
    """`W H` for new weights of every chain, without more random numbers than it takes.

    Rows of a Gaussian `W H` are independent with covariance `Hᵀ H = Rᵀ R`, so that a narrow
    Gaussian times `R` has their law. A uniform law is shifted and scaled after the product.
    """
    chains, width, directions = H.shape
    if weights == "gaussian":
        if 2 * directions <= width:
            H = torch.linalg.qr(H, mode="r")[1]
        return torch.from_numpy(numbers.standard_normal((chains, width, H.shape[1]))) @ H
    drawn = torch.from_numpy(numbers.random((chains, width, width))) @ H
    if weights == "uniform":
        drawn -= H.sum(1, keepdim=True) / 2
    return drawn.mul_(2 * ROOT3)


def start(
    inputs: Tensor | None, shape: tuple[int, int, int], numbers: np.random.Generator
) -> State:
    """The first state `[chains, width, samples]`: the batch given, or a Gaussian one each."""
    if inputs is None:
        return torch.from_numpy(numbers.standard_normal(shape))
    chains, width, samples = shape
    if inputs.shape != (samples, width) or not bool(inputs.isfinite().all()):
        raise Refusal(
            f"`inputs` must be finite rows of {width} numbers, one for each of {samples} samples, "
            f"got shape {tuple(inputs.shape)}. Rows are samples."
        )
    return inputs.double().mT.expand(chains, -1, -1).contiguous()


def frame(chains: int, width: int, count: int | None, numbers: np.random.Generator) -> State:
    """Random directions of every chain: `count` of them, or as many as the width."""
    return torch.from_numpy(numbers.standard_normal((chains, width, count or width)))


# ------------------------------------------------------------------------------
# What is averaged over the layers of a chain.


@dataclass(frozen=True, slots=True)
class ChainStatistics:
    """Time averages over the layers of a normalised chain, with `M = H Hᵀ / samples`.

    Attributes:
        participation_ratio: `E r(H)`, from 1 to the width.
        soft_rank: Mean count of eigenvalues of `M` that are at least `tau`.
        frobenius_sq: `E ‖M‖²`, from the width to its square.
        regularity: α, `E Tr(diag(M²)²) / E Tr(M³)`, at most 1 (Definition 3).
        drift: `E δ_F(M)`, what a layer adds to `‖M‖²` per `gamma²` to first order (Lemma 7); zero
            where the chain is stationary and `gamma` is small.
        width: Units of each layer.
        gamma: Strength of a layer beside its skip connection; infinite without one.
        weights: Law of the weights.
        samples: Columns of the batch.
        tau: Threshold of the soft rank.
        chains: How many independent chains were averaged over.
        layers: How many layers of each were averaged over, after the burn-in.
        burn_in: How many layers came before.
        rank: Of the batch that the chains started from, the least of all of them.
        settled: Whether the chains went through enough layers before to forget their start.
    """

    site: ClassVar[str] = "chain"

    participation_ratio: Estimate
    soft_rank: Estimate
    frobenius_sq: Estimate
    regularity: Estimate
    drift: Estimate
    width: int
    gamma: float
    weights: Weights
    samples: int
    tau: float
    chains: int
    layers: int
    burn_in: int
    rank: int
    settled: bool


# ------------------------------------------------------------------------------
# One step of a chain with batch normalisation, what is measured after it, and what it forgets.


def forgetting(width: int, gamma: float, *, spread: float = 1.0) -> int:
    """Layers after which a normalised chain has forgotten its start: `5/gamma² + 4 width + 100`.

    The slowest to go is the first direction that does not survive. It shrinks by about `gamma²/2`
    per layer, and wide chains lose theirs more slowly. A start that is nearly collinear needs
    longer: directions that are small grow by `gamma²/4` per layer or more until all have their
    share.

    Args:
        width: Of the chain.
        gamma: Strength of a layer; infinite without a skip connection.
        spread: Smallest singular value of the start over its largest.
    """
    rate = 1.0 if math.isinf(gamma) else max(gamma * gamma, 1e-300)
    slow = 0 if math.isinf(gamma) else math.ceil(5 / rate)
    return 100 + 4 * width + slow + math.ceil(4 * max(0.0, -math.log10(spread) - 2) / rate)


def reduced(H: Float64[Tensor, "chains width samples"], eps: float) -> tuple[State, int, float]:
    """The states in coordinates of their rows' space, so that rounding cannot raise their rank.

    Returns:
        States `R` with `H = R Q`; their least rank; and the least ratio of the smallest singular
        value that is not rounding and the largest.
    """
    U, sigma, _ = torch.linalg.svd(H, full_matrices=False)
    there = sigma > 8 * max(H.shape[1:]) * eps * sigma[:, :1]
    ranks = there.sum(1)
    least = sigma.gather(1, ranks[:, None] - 1) / sigma[:, :1]
    kept = (U * (sigma * there)[:, None])[..., : int(ranks.max())]
    return normalised(kept.contiguous()), int(ranks.min()), float(least.min())


def normalised(H: State) -> State:
    """Every row of unit mean square."""
    return H.div_(torch.linalg.vector_norm(H, dim=-1, keepdim=True))


def measures_of(
    R: Float64[Tensor, "many width directions"], tau: float
) -> Float64[Tensor, "5 many"]:
    """`r`, soft rank, `‖M‖²`, `Tr diag(M²)²` and `Tr M³` of `M = R Rᵀ` with unit diagonal."""
    K = R.mT @ R  # the eigenvalues of M that are not zero
    B = R @ K
    cube = torch.linalg.vector_norm(B, dim=(1, 2)).square_()
    rows = B.mul_(R).sum(-1)  # the diagonal of M²
    regular = torch.linalg.vecdot(rows, rows)
    frobenius_sq = rows.sum(-1)
    ratio = R.shape[1] ** 2 / frobenius_sq
    return torch.stack([ratio, counts_above(K, tau), frobenius_sq, regular, cube])


# ------------------------------------------------------------------------------
# The chain of random layers with batch normalisation, without building it.
#
# The state is what one layer sees of a batch, `H [width, samples]`, columns are samples. It is kept
# as `H = R Q` with `Q` orthonormal: layers act from the left, so `Q` stays, and directions of `R`
# that have died out (all but a few do) are dropped. What is asked of `H` are singular values, and
# those are the ones of `R`.


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
        Refusal: If an option makes no chain.

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
            raise Refusal(
                "Every feature must be non-zero on some sample to be normalised, got one that is "
                "zero. Give inputs in which every feature is present."
            )
        precision = torch.float64 if inputs is None else inputs.dtype
        self.state, self.rank, self.spread = reduced(state, torch.finfo(precision).eps)

    def step(self) -> None:
        """Go through one layer."""
        drawn = product(self.state, self.weights, self.numbers)
        self.state = normalised(
            drawn if math.isinf(self.gamma) else self.state + self.gamma * drawn
        )
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
        if not 0 < tau <= 1:
            raise Refusal(
                f"`tau` must be above 0 and at most 1, got {tau}. It is a share of the mean "
                "eigenvalue, which normalisation makes 1."
            )
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


# ------------------------------------------------------------------------------
# Chains of random linear layers without normalisation.


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


# ------------------------------------------------------------------------------
# Networks that show what a theorem does not say.


def lipschitz_counterexample(
    depth: int, slope: float = 1.0, *, eps: float | None = None
) -> nn.Sequential:
    """A ReLU network of bottleneck rank 3 whose function bends, at next to no cost in norm.

    It computes `(x, y, z + slope max(x - y, 0))` on the unit cube. Its norm exceeds `3 L` by about
    `12 L eps² + 2 exp(-L eps)`, which vanishes with depth where eps falls as `L^-γ`, 1/2 < γ < 1;
    but a representation in the middle is `exp((L - 2) eps / 2)` times as steep.

    Args:
        depth: L, even and at least 4.
        slope: Of the bend, above 0.
        eps: Logarithm of how much each layer stretches; `log(L) / L` if not given.

    Returns:
        Linear layers without biases and ReLUs between, in float64.

    Raises:
        Refusal: If the depth is odd or below 4, or the slope is not above 0.

    Source:
        Jacot 2023, Example 20, with the factor that its norm lacks.
    """
    if depth < 4 or depth % 2:
        raise Refusal(f"`depth` must be even and at least 4, got {depth}. The bend is half way.")
    if not slope > 0:
        raise Refusal(f"`slope` must be above 0, got {slope}. Mirror an input to bend down.")
    eps = math.log(depth) / depth if eps is None else eps
    rise, fall = math.exp(eps), math.exp(-eps)
    half, top = depth // 2, math.exp(-(depth - 2) * eps)
    root = math.sqrt(slope)
    of = lambda *rows: torch.tensor(rows, dtype=torch.float64)
    eye = torch.eye(3, dtype=torch.float64)
    up, down = torch.diag(of(rise, rise, fall**2)), torch.diag(of(fall, fall, rise**2))
    split = torch.cat([eye, root * math.sqrt(top) * of([1.0, -1.0, 0.0])])
    join = torch.cat([eye, root * of([0.0], [0.0], [top])], dim=1)
    weights = [up] * (half - 1) + [split, join] + [down] * (half - 1)
    layers: list[nn.Module] = []
    for W in weights:
        shape = W.shape[1], W.shape[0]
        layer = nn.Linear(*shape, bias=False, device="meta")
        layer.weight = nn.Parameter(W.clone())
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def counterexample_excess(depth: int, eps: float) -> float:
    """How far the squared norm of the network above exceeds `3 L`, for a slope of 1.

    Args:
        depth: L, even and at least 4.
        eps: As there.

    Source:
        Jacot 2023, Example 20, with the factor `(L - 2) / 2` on both lines.
    """
    stretched = 8 * math.sinh(eps) ** 2 + 4 * math.sinh(2 * eps) ** 2  # cosh 2x - 1 = 2 sinh² x
    bend = 2 * math.exp(-(depth - 2) * eps) + math.exp(-2 * (depth - 2) * eps)
    return (depth - 2) / 2 * stretched + bend
