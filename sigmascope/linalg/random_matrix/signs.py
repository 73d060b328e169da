"""The same entries with random signs: what a matrix would be if only its magnitudes were meant."""

import math
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg.krylov.block import BLOCK, leading
from sigmascope.linalg.krylov.largest import largest, short_of
from sigmascope.linalg.krylov.maps import WORKING, energy_of
from sigmascope.linalg.random_matrix.laws import EdgeLaw
from sigmascope.records import Estimate

PANEL = 2**18  # entries whose signs are drawn at a time
MOST = 96  # directions that are taken off before signs are drawn again
FINE = 24  # steps, with which the largest value is right to some thousandths
COARSE = 14  # the same to a hundredth and a half
BEFORE = 6  # steps of a block to which those for more directions are added
AGREES = 1.05  # times the value of Gaussians
EVEN = 1.03  # norms of the longest row and column, over those of equal ones
LIGHT = 7.0  # largest entry over their root mean square, beyond what Gaussians of any size have


def wishart_edge(m: int, n: int) -> EdgeLaw:
    """The law of the square of the largest singular value of `m x n` standard Gaussians.

    Args:
        m: Rows.
        n: Columns; the law is right to some per cent of its spread from 8 by 8 on.

    Source:
        Johnstone 2001, with the centre and scale of second order of Ma 2012, Theorem 2.
    """
    long, short = math.sqrt(max(m, n) - 0.5), math.sqrt(min(m, n) - 0.5)
    return EdgeLaw((long + short) ** 2, (long + short) * (1 / long + 1 / short) ** (1 / 3))


class RandomSigns:
    """Largest singular values of a matrix whose entries take random signs, drawn as asked.

    If the entries were independent and symmetric about zero, any draw would be as likely as the
    matrix itself: what draws do not reach is no noise, whatever the magnitudes, be they sparse,
    heavy-tailed or larger in some rows.

    Args:
        A: The matrix.
        rms: Root mean square of its entries, positive.
        longest: Norms of its longest row and column, if known. Where they are near those of equal
            ones and no entry sticks out, no draw is needed.
        largest: Its largest absolute entry, if known.
        generator: Source of the signs.

    Source:
        Hong, Sheng & Dobriban 2020, signflip parallel analysis; Bandeira & van Handel 2016,
        Theorem 1.1, for the norms of rows and columns.
    """

    def __init__(
        self,
        A: Float[Tensor, "m n"],
        *,
        rms: float,
        longest: tuple[float, float] | None = None,
        largest: float = math.inf,
        generator: torch.Generator | None,
    ) -> None:
        m, n = A.shape
        self.A, self.rms, self.generator = A, rms, generator
        self.spare = False  # whether its entries may be turned in place: nobody else has them
        self.expected = rms * math.sqrt(wishart_edge(m, n).mean)
        equal = rms * (math.sqrt(n) + math.sqrt(m))
        even = longest is not None and sum(longest) <= EVEN * equal
        self.plain = even and largest <= LIGHT * rms

    @property
    def energy(self) -> float:
        """Sum of the squared entries."""
        return self.rms**2 * self.A.numel()

    @cached_property
    def baseline(self) -> Estimate:
        """The largest singular value of one draw; of Gaussians where the entries are like them."""
        if self.plain:
            return Estimate.within(self.expected, 0.03 * self.expected, how="as of Gaussians")
        found = self._draw(COARSE)
        return Estimate(found, found, short_of(COARSE) * found, f"random signs, {COARSE} steps")

    @property
    def excess(self) -> float:
        """The same over that of Gaussians of this size; 1 where they agree."""
        if self.plain or self.expected == 0:
            return 1.0
        ratio = self.baseline.high / self.expected
        return 1.0 if ratio <= AGREES else ratio

    def sure_excess(self, draws: int = 4) -> float:
        """The same of several draws, plus the range between them, which noise seldom exceeds."""
        found = [self._draw(FINE) / self.expected for _ in range(draws)]
        return max(1.0, 2 * max(found) - min(found))

    def without(self, count: int) -> "RandomSigns":
        """Those of what is left of the matrix without its leading directions, a hundred at most."""
        count = min(count, MOST)
        steps = BEFORE + count // BLOCK
        found = leading(self.A, count=count, energy=math.inf, steps=steps, generator=self.generator)
        rest = self.A.to(found.right.dtype, copy=True)
        rest.addmm_(rest @ found.right, found.right.mT, alpha=-1)
        rms = math.sqrt(float(energy_of(rest)) / rest.numel())
        left = RandomSigns(rest, rms=rms, generator=self.generator)
        left.spare = True
        return left

    def _draw(self, steps: int) -> float:
        return largest(self._flipped(), steps=steps, generator=self.generator)

    def _flipped(self) -> Float[Tensor, "m n"]:
        """The entries with signs from the bits of random bytes, a sign for each."""
        n = self.A.shape[1]
        flipped = self.A.to(WORKING.get(self.A.dtype, torch.float32), copy=not self.spare)
        for panel in flipped.split(max(1, PANEL // n)):
            count = panel.numel()
            drawn = torch.randint(256, (-(-count // 8),), generator=self.generator)
            bits = np.unpackbits(drawn.numpy().astype(np.uint8))[:count]
            panel.mul_(torch.from_numpy(bits.view(np.int8) * 2 - 1).view_as(panel))
        return flipped
