"""How many dimensions a trained network's function uses, from its Jacobians."""

import math
from itertools import pairwise

from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg import sums
from sigmascope.records import Estimate

FLOOR = 0.02  # of the largest singular value: what is below counts as gone
CLEAR = 3.0  # gap between singular values from which a rank is told at all
SHARE = 0.5  # of the largest gap, on a logarithmic scale: other gaps as large are in the interval
RISK = 0.05


def inner_dimension(sigma: Float64[Tensor, "n r"], *, mixtures: int | None = None) -> Estimate:
    """The number of dimensions that a function uses, from the Jacobians at many inputs.

    The rank with the widest gap below it in the median spectrum, each singular value relative to
    the largest; the interval holds the ranks with a gap almost as wide. A function of k coordinates
    has rank k at nearly every input, however many dimensions the layers between let through.

    Args:
        sigma: Singular values at every input, descending.
        mixtures: How many random mixtures stand for more outputs; as many dimensions are at least
            used then, with no upper end.

    Returns:
        With no gap of a factor of 3 anywhere, the interval holds every rank from that of the values
        above half of the largest to those above a fiftieth of it. The risk is that on tasks of
        known dimension (`jacot2023/ranks` in the experiments' log).

    Source:
        Jacot 2023, Sec. 2: the rank of the Jacobian is at most the bottleneck rank.
    """
    typical = [sums.median(of) for of in sigma.unbind(1)] if len(sigma) else []
    top = typical[0] if typical else 0.0
    if not top > 0:
        return Estimate(0.0, 0.0, 0.0, "the output depends on no input")
    relative = [max(v / top, FLOOR) for v in typical] + [FLOOR]
    gaps = [math.log(a / b) for a, b in pairwise(relative)]
    widest = max(gaps)
    rank = gaps.index(widest) + 1
    how = f"widest gap of the median spectrum of {len(sigma)} Jacobians, a factor of "
    how += f"{math.exp(widest):.2g}"
    if rank == mixtures:
        return Estimate(rank, rank, math.inf, f"all of {rank} mixtures of the outputs differ", RISK)
    if widest < math.log(CLEAR):
        low, high = (sum(v > level for v in relative) for level in (0.5, FLOOR))
        return Estimate(rank, min(low, rank), max(high, rank), f"{how}: no clear gap")
    near = [i + 1 for i, gap in enumerate(gaps) if gap >= SHARE * widest]
    return Estimate(rank, min(near), max(near), how, RISK)
