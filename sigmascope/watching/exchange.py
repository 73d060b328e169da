"""What all processes hear of each step: the mean of their losses, and the rate of the first.

Some steps at a time are sent behind a step of the optimiser and taken behind a later one, so that
nobody waits for them in between. The invariant: all send and take at the same steps, and what is
taken is the same to the last bit in each, so that what follows from it alone needs no agreement.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sigmascope.watching.columns import Column
from sigmascope.watching.hearing import CALLS, LOST, Hearing, on_host, smoothed
from sigmascope.watching.looks import one_line
from sigmascope.watching.processes import Processes
from sigmascope.watching.purses import Purses

LOG = logging.getLogger("sigmascope")
SLOTS = 32  # steps that are sent together, at most
NEAREST, FARTHEST = 2, 12  # steps between two exchanges
SHARE = 2.0  # times what one process may take for hearing
HELD = 2**14  # losses of this process between them, at most


@dataclass(frozen=True, slots=True)
class Heard:
    """What was taken.

    Attributes:
        losses: With their steps, ascending: the mean over the processes that handed one in.
        rates: Of the steps, in their order.
        wished: Whether any process wishes for a look.
        apart: Steps until the next is sent, as the first process says.
    """

    losses: list[tuple[int, float]]
    rates: list[float]
    wished: bool
    apart: int


class Exchange:
    """Sends what this process has noted, and takes what all have.

    Args:
        processes: Those that train one model.
        step: Made so far.

    Attributes:
        flying: Whether something was sent and not taken.
    """

    def __init__(self, processes: Processes, step: int) -> None:
        self._processes, self._base = processes, step
        self._first = step
        self._flying: tuple[Tensor, Any] | None = None

    @property
    def flying(self) -> bool:
        """Whether something was sent and not taken."""
        return self._flying is not None

    @property
    def over(self) -> bool:
        """Whether what was sent has come, so that taking it waits for nobody."""
        return self._flying is not None and bool(self._flying[1].is_completed())

    def send(
        self,
        until: int,
        losses: Sequence[tuple[int, float]],
        rates: Sequence[Any],
        *,
        wish: bool,
        apart: int,
    ) -> None:
        """Hand over what was noted of the steps since the last time.

        Args:
            until: The last of these steps.
            losses: With their steps, none later; several of one step count as their mean.
            rates: Of each step; what is no plain number, as one on a device, is left out.
            wish: Whether this process wishes for a look.
            apart: Steps until the next is sent.
        """
        first = max(self._base, until - SLOTS)
        sums, counts, known = ([0.0] * SLOTS for _ in range(3))
        for at, loss in ((step - first - 1, loss) for step, loss in losses if step > first):
            sums[at] += loss
            counts[at] += 1
        chief = not self._processes.rank
        for at, rate in enumerate(rates[-(until - first) :] if chief and until > first else ()):
            known[at] = rate if type(rate) is float else math.nan
        means = [summed / max(count, 1) for summed, count in zip(sums, counts, strict=True)]
        said = [float(wish), float(apart) if chief else 0.0]
        there = [min(count, 1.0) for count in counts]
        sent = torch.tensor([*means, *there, *known, *said], dtype=torch.float64)
        self._first, self._base = first, until
        self._flying = self._processes.sent(sent)

    def take(self) -> Heard:
        """What all have sent; waits for it where it has not come."""
        assert self._flying is not None
        (total, work), self._flying = self._flying, None
        work.wait()
        numbers = total.tolist()
        sums, counts, rates = (numbers[i * SLOTS : (i + 1) * SLOTS] for i in range(3))
        known = range(self._base - self._first)
        losses = [(self._first + 1 + at, sums[at] / counts[at]) for at in known if counts[at]]
        return Heard(
            losses,
            [rates[at] for at in known if not math.isnan(rates[at])],
            numbers[3 * SLOTS] > 0,
            round(numbers[3 * SLOTS + 1]),
        )


class HearingTogether(Hearing):
    """Hearing in one of several processes: what all have noted, at steps that all know.

    Args:
        processes: Those that train one model.
        of: As of `Hearing`.

    Attributes:
        wished: Whether any process wishes for a look at the inputs.
    """

    def __init__(self, processes: Processes, *args: Any, step: int = 0, **of: Any) -> None:
        super().__init__(*args, step=step, **of)
        self._exchange = Exchange(processes, step)
        self._meets: float = step + NEAREST  # where something is sent or taken
        self._seconds, self._wanted = 0.0, NEAREST
        self._wish = self.wished = self._deaf = False

    @property
    def full(self) -> bool:
        """Whether something is to be sent or taken."""
        return self.steps >= self._meets or (self._over and len(self._rates) > self._most)

    @property
    def _over(self) -> bool:
        return math.isinf(self._meets)

    def stop(self) -> None:
        """Nothing is sent or taken any more; steps are counted."""
        self._meets = math.inf

    def wait(self, step: float) -> None:
        """As of one process, and no later than what is to be sent or taken."""
        super().wait(min(step, self._meets + 1))
        self._next = step

    def wish(self, *_: Any) -> bool:
        """This process wishes for a look at the inputs; all hear of it at the next exchange."""
        self._wish = True
        return False

    def just_before(self, step: float) -> float:
        """The step nearby of which what is noted is sent at once; as it was if there is none."""
        sent = self._meets - 1
        near = self.steps + 1 < sent and abs(step - sent) <= FARTHEST / 2
        return sent if near else step

    def loss(self, loss: Any) -> bool:
        """Keep a loss for the next exchange; one that is none must not part the processes."""
        self._since += 1
        try:
            if isinstance(loss, Tensor):
                if loss.numel() != 1:
                    raise ValueError(f"a loss must be one number, got {tuple(loss.shape)}")
                loss = loss.item() if loss.is_cpu else loss.detach()
            self._losses.append(loss if isinstance(loss, Tensor) else float(loss))
            self._at.append(self._step_of(len(self._rates)))
        except Exception as error:  # noqa: BLE001 (a loop may hand in anything)
            if not self._deaf:
                LOG.warning("sigmascope leaves out a loss: %s", one_line(f"{error}"))
            self._deaf = True
        del self._losses[:-HELD], self._at[:-HELD]
        if self._since >= LOST:
            self._look_for_steps(len(self._rates))
        return False

    def hear(self, purses: Purses, *, look: bool = False) -> bool:
        """Take what was sent, or send what was noted; at a look both, and all."""
        if self._over:
            self._before = self.steps
            self._rates.clear()
            self.wait(self._next)
            return False
        start = self._clock()
        steps, count = 0, 0
        exchange, hints, flew = self._exchange, False, self._exchange.flying
        if flew:
            hints, apart = self._take()
            self._meets = self.steps + (1 if hints else max(apart - 1, 1))
        if look or not flew:
            steps, count = self._send()
            self._meets = self.steps + 1
        if look:
            more, apart = self._take()
            hints = hints or more
            self._meets = self.steps + (NEAREST if hints else apart)
        self.wait(self._next)
        took = self._clock() - start
        purses.aside(took + steps * CALLS * self._rate_note + count * self._loss_note)
        self._seconds += took
        if not exchange.flying:
            self._each, self._seconds = smoothed(self._each, self._seconds), 0.0
            paid = SHARE * purses.step_seconds * self._budget
            wanted = math.ceil(self._each / paid) if paid else NEAREST
            self._wanted = min(max(wanted, NEAREST), FARTHEST)
        return hints

    def rest(self, purses: Purses) -> Column | None:
        """The last loss that all know of, where no look has read it; nobody is waited for."""
        if self._exchange.over:
            self._take()
        return self._into.rest()

    def _send(self) -> tuple[int, int]:
        """All but of the last step, whose loss may not be handed in yet; how much it was."""
        until = self.steps - 1
        noted = [*zip(self._at, on_host(self._losses), strict=True)]
        now = [(step, loss) for step, loss in noted if step <= until]
        done = until - self._before
        self._exchange.send(until, now, self._rates[:done], wish=self._wish, apart=self._wanted)
        self._look_for_steps(done)
        self._before, self._wish = until, False
        del self._rates[:done]
        later = noted[len(now) :]
        self._at, self._losses = [step for step, _ in later], [loss for _, loss in later]
        return done, len(now)

    def _take(self) -> tuple[bool, int]:
        """Whether a look is worth its price, and steps until the next exchange."""
        heard = self._exchange.take()
        self.wished = heard.wished
        return self._heard(heard.rates, heard.losses) or heard.wished, heard.apart
