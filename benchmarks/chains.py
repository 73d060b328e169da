"""Layers of the normalised chain per second, against the plain PyTorch loop.

python -m benchmarks.chains               # a table, for people
python -m benchmarks.chains | tail -1     # one line of JSON, for scripts

The plain loop draws a weight matrix, multiplies, normalises the rows, takes `svdvals` of the state
and counts. `BatchNormChain` gives the same average and four more, with intervals. Both in float64,
without skip connections, from a stationary state. The floor is random numbers, the products
(`W R`, `Rᵀ R`, `R K`) and the factorisations (LDLᵀ; QR for Gaussian weights) alone.
"""

import json

import torch

from benchmarks._timing import best_of, environment
from sigmascope.theory.random_chains import BatchNormChain, Weights

SIZES = {32: (64, 40), 256: (1, 60)}  # width: chains, layers


def drawn(width: int, weights: Weights) -> torch.Tensor:
    """Weights of unit variance as PyTorch draws them."""
    W = torch.empty(width, width, dtype=torch.float64)
    return W.normal_() if weights == "gaussian" else W.uniform_(-(3**0.5), 3**0.5)


def plain(width: int, layers: int, H: torch.Tensor, weights: Weights) -> float:
    """Mean count of eigenvalues of M that are at least one half."""
    total = 0.0
    for _ in range(layers):
        H = drawn(width, weights) @ H
        H = H / H.norm(dim=1, keepdim=True)
        total += float((torch.linalg.svdvals(H).square() >= 0.5).sum())
    return total / layers


def floor(chain: BatchNormChain, layers: int) -> None:
    """Nothing but the random numbers, the products and the factorisations."""
    R, gaussian = chain.state, chain.weights == "gaussian"
    # a narrow Gaussian has the law of the whole product
    shape = (chain.chains, chain.width, R.shape[-1] if gaussian else chain.width)
    for _ in range(layers):
        right = torch.linalg.qr(R, mode="r")[1] if gaussian else R
        drawn = chain.numbers.standard_normal(shape) if gaussian else chain.numbers.random(shape)
        mixed = torch.from_numpy(drawn) @ right
        K = mixed.mT @ mixed
        mixed @ K
        torch.linalg.ldl_factor_ex(K)


def compare(width: int, weights: Weights) -> dict[str, float]:
    """Microseconds per layer of one chain: plain loop, ours, floor."""
    chains, layers = SIZES[width]
    g = torch.Generator().manual_seed(width)
    chain = BatchNormChain(width, weights=weights, chains=chains, generator=g)
    for _ in range(2000):
        chain.step()
    H = BatchNormChain(width, weights=weights, generator=g).state[0]
    for _ in range(200):
        H = drawn(width, weights) @ H
        H = H / H.norm(dim=1, keepdim=True)
    least = best_of(
        {
            "plain loop": lambda: plain(width, layers, H, weights),
            "chain": lambda: chain.run(layers, burn_in=0),
            "floor": lambda: floor(chain, layers),
        }
    )
    per_layer = {"plain loop": layers, "chain": layers * chains, "floor": layers * chains}
    return {name: seconds / per_layer[name] * 1e6 for name, seconds in least.items()}


if __name__ == "__main__":
    rows = []
    print("width  weights   plain loop     chain     floor   faster   of floor")
    laws: tuple[Weights, ...] = ("uniform", "gaussian")
    for width in SIZES:
        for weights in laws:
            found = compare(width, weights)
            faster, of_floor = (
                found["plain loop"] / found["chain"],
                found["chain"] / found["floor"],
            )
            print(
                f"{width:5d}  {weights:8s} {found['plain loop']:8.1f} us {found['chain']:6.1f} us "
                f"{found['floor']:6.1f} us {faster:7.1f}x {of_floor:8.2f}"
            )
            row = {"width": width, "weights": weights, "gamma": "inf", "microseconds": found}
            rows.append({**row, "faster": faster, "of floor": of_floor})
    print(json.dumps({**environment(), "rows": rows}))
