"""The same entries with random signs: what a matrix would be if only its magnitudes were meant."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg.krylov.block import leading
from sigmascope.linalg.random_matrix.laws import EdgeLaw

COARSE, FINE = 6, 12  # steps; the coarse run falls short of the largest value by a per cent at most
SHORT = 1.01


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
        generator: Source of the signs.

    Source:
        Hong, Sheng & Dobriban 2020, signflip parallel analysis.
    """

    def __init__(
        self, A: Float[Tensor, "m n"], *, rms: float, generator: torch.Generator | None
    ) -> None:
        self.A, self.generator = A, generator
        self.expected = rms * math.sqrt(wishart_edge(*A.shape).mean)
        self.coarse = SHORT * self._draw(COARSE)

    @property
    def excess(self) -> float:
        """Largest value over that of Gaussians of the same size; 1 where they agree to 2 %."""
        ratio = self.coarse / self.expected
        return ratio if ratio > 1.02 else 1.0

    def sure_excess(self, draws: int = 4) -> float:
        """The same of several draws, plus the range between them, which noise seldom exceeds."""
        found = [self._draw(FINE) / self.expected for _ in range(draws)]
        return max(1.0, 2 * max(found) - min(found))

    def _draw(self, steps: int) -> float:
        return (
            leading(
                self._flipped(), count=1, energy=math.inf, steps=steps, generator=self.generator
            )
            .spectrum.sigma[0]
            .item()
        )

    def _flipped(self) -> Float[Tensor, "m n"]:
        """Each row takes its signs from one long table, from a random place on."""
        m, n = self.A.shape
        size = 2 ** max(16, math.ceil(math.log2(n)) + 4)
        draw = lambda high, shape: torch.randint(0, high, shape, generator=self.generator)
        signs = (2 * draw(2, (size + n,)) - 1).to(self.A.dtype)
        starts = draw(size, (m,))
        return signs.unfold(0, n, 1)[starts] * self.A
