"""What is heard of every step: its loss, its learning rate, the scale of its inputs."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Reading, Skipped
from sigmascope.models.layers import layers
from sigmascope.watching.alarms import Alarms
from sigmascope.watching.hooks import inaudible, listening, removed
from sigmascope.watching.probes import Losses, Probe
from sigmascope.watching.processes import Processes, entries
from sigmascope.watching.schedule import Buckets
from sigmascope.watching.sinks import LOSS, MEANS, OWN, Column

# ------------------------------------------------------------------------------
# Losses of all steps, as means over blocks that are the same in every run.
#
# Looks fall where they are paid for, at other steps in every run. Blocks of steps do not: each
# octave has sixteen, so that runs share nearly all of them, and a long run has some hundreds.


BLOCKS = 16  # in every octave of steps; before the first, every step is one


def block(step: int) -> int:
    """The last step of the block of a step."""
    width = 1 << max(step.bit_length() - BLOCKS.bit_length(), 0)
    return -(-step // width) * width


class LossMeans:
    """Takes losses in the order of steps, and gives the means of blocks that are over."""

    def __init__(self) -> None:
        self._end, self._sum, self._count, self._step = 0, 0.0, 0, 0
        self._done: list[tuple[int, Reading]] = []  # few, however long nobody takes them

    def add(self, step: int, loss: float) -> None:
        """Take a loss of a step; one that is not finite is no part of a mean."""
        if step > self._end:
            self._close(block(step))
        self._step = step
        if math.isfinite(loss):
            self._sum += loss
            self._count += 1

    def take(self) -> tuple[tuple[int, Reading], ...]:
        """Blocks that have ended since this was last asked, by their last steps."""
        done = tuple(self._done)
        self._done.clear()
        return done

    def end(self) -> None:
        """No loss follows: the block that was begun ends at the last step."""
        self._end = min(self._end, self._step)
        self._close(0)

    def _close(self, end: int) -> None:
        if self._count:
            mean = Estimate.exactly(self._sum / self._count, how=f"mean of {self._count} losses")
            self._done.append((self._end, Reading(LOSS, q.LOSS, mean, q.WATCH, MEANS)))
        self._end, self._sum, self._count = end, 0.0, 0


# ------------------------------------------------------------------------------
# The scale of what the first layer reads, at one step in some: a glance that a look may follow.
#
# Looks of small fast models are hundreds of steps apart, and inputs that change may not show in the
# loss. Their mean square over some rows costs a hook for one step, so that it is taken often; where
# it has changed, the next step is looked at as a whole, and the alarm rests on that alone.


SHARE = 0.25  # of the budget
EVERY, LEAST = 16, 64  # steps between two glances, where they are paid for; and one in so many is
ENTRIES = 2**14  # that are looked at, in whole rows
FAR, KNOWN = math.log(8.0), 4  # in mean squares, and glances before anything is usual
WEIGHT = 0.2  # of the last glance in what is usual
READ_BY = "activations"


class Inputs:
    """Glances at the inputs, and wants a look where their scale has changed.

    Args:
        model: The user's own module; None where nothing is to be glanced at.
        alarms: Who learn from glances what is usual.
        budget: Share of the training time that watching may take.
        clock: In seconds.

    Attributes:
        next: The step before which there is something to do.
        compiled: Whether the hook was met where code is compiled.
    """

    def __init__(
        self,
        model: nn.Module | None,
        alarms: Alarms,
        *,
        budget: float,
        clock: Callable[[], float],
        step: int = 0,
    ) -> None:
        found = {} if model is None else layers(model)
        self._site, first = next(iter(found.items()), ("", None))
        self._alarms = alarms
        heard = first is not None and model is not None and first not in inaudible(model)
        self._module, self._budget, self.clock = first, budget * SHARE, clock
        self.next: float = step + EVERY if heard else math.inf
        self.compiled, self._level, self._count, self._cost = False, 0.0, 0, 0.0
        self._handles: list[Any] = []
        self._size: Tensor | None = None

    @classmethod
    def of(cls, model: nn.Module, alarms: Alarms, probes: Sequence[Probe], **of: Any) -> "Inputs":
        """Where the activations of a model are read; each process glances at its own."""
        glanced = READ_BY in {p.name for p in probes}
        return cls(model if glanced else None, alarms, **of)

    def turn(self, step: int, buckets: Buckets, hurry: Callable[[int, str], bool]) -> bool:
        """Between two steps: begin a glance, or end one.

        Args:
            step: Made so far.
            buckets: Which pay for it.
            hurry: Asks for a look at the next step, at which a probe of that name is read.

        Returns:
            Whether the look is to be opened.
        """
        if step + 1 < self.next:
            return False
        start, looked = self.clock(), False
        if self._handles:
            self.close()
            size, self._size = self._size, None
            if size is None or self.compiled or self._module is None:
                self._module, self.next = None, math.inf
            else:
                value = size.item()
                x = math.log(value) if math.isfinite(value) and value > 0 else self._level
                self._alarms.glance(step, Column(q.MEAN_SQUARE, [self._site], [value]))
                self._count += 1
                far = self._count > KNOWN and abs(x - self._level) > FAR
                paid = buckets.step_seconds * self._budget
                apart = min(max(EVERY, math.ceil(2 * self._cost / paid)), LEAST) if paid else EVERY
                self.next = step + 2 if far else step + 1 + apart
                looked = far and hurry(step, READ_BY)
                if looked or not far:
                    weight = 1.0 if far else max(WEIGHT, 1 / self._count)
                    self._level += weight * (x - self._level)
        elif self._module is not None:
            self._handles = listening([(self._module, self._hear)], self)
            self.next = step + 2
        self.spent(self.clock() - start)
        buckets.aside(self._cost)
        self._cost = 0.0
        return looked

    def spent(self, seconds: float) -> None:
        """This glance took so long."""
        self._cost += seconds

    def failed(self, error: Exception) -> None:
        """No glance is taken any more; a look says what it fails at."""
        self._module = None

    def close(self) -> None:
        """Take the hook away."""
        removed(self._handles)

    def _hear(self, x: Tensor, _: Any) -> None:
        x = entries(x)
        if self._size is None and x.is_cpu and x.is_floating_point() and x.numel():
            rows = max(1, ENTRIES * len(x) // x.numel()) if x.ndim else 0
            self._size = x[:rows].double().square().mean()


# ------------------------------------------------------------------------------
# The loss and the learning rate of every step: noted at once, heard some at a time.
#
# Between two steps of training the code that is run here has left the caches of the processor, so
# that it takes five to ten times as long as in a loop of its own. What is done at every step is
# therefore two short functions: a hook of the optimizer that notes the rate, of whose notes the
# steps are counted, and one that notes the loss and compares it with what would be a rise. What is
# usual is heard in blocks; what is not, at once. A loss on a device is brought to the host in
# blocks.


LOG = logging.getLogger("sigmascope")
MOST = 32  # steps that are heard together, where the loss of each is noted
LONGEST = 4  # times as many, where it is not
CALLS = 3.0  # times the note of a rate: what a step takes, with the calls of both, noted or not
DENSE = 100  # losses at first, that are all noted
FEWEST = 8  # one loss in so many steps is noted, at least
LOST = 256  # losses without a step, and times the most between two: steps are not seen
LOST_AT_END = 16  # the same where training is over
BUSY = 4.0  # times the usual note: a longer one was another process'
AWAY = 8  # losses on a device that are brought to the host together


class LossListener:
    """Notes losses and rates of this process, and lets the alarms hear them.

    Args:
        alarms: Who hears.
        losses: Who reads them at looks.
        means: Of the losses of all steps.
        budget: Share of the training time that watching may take.
        clock: In seconds.
        turn: Called behind a step of the optimizer at which there is something to do.
        step: Steps made before.

    Attributes:
        due: Notes of rates at which there is something to do.
        apart: The loss of one step in so many is noted.
        skip: Losses that come before the next that is noted.
    """

    def __init__(
        self,
        alarms: Alarms,
        losses: Losses,
        means: LossMeans,
        budget: float,
        clock: Callable[[], float],
        turn: Callable[[], None],
        *,
        step: int = 0,
    ) -> None:
        self._alarms, self._into = alarms, losses
        self._means = means
        self._budget, self._clock, self._turn = budget * SHARE, clock, turn
        self._early: int | None = None  # 1 where each loss is handed in before its step
        self._losses: list[float | Tensor] = []
        self._at: list[int] = []  # how many rates stood before each
        self._rates: list[Any] = []
        self._before, self.skip, self._dense = step, 0, DENSE
        self._begun = self._known = step
        self._rate_note = self._loss_note = self._each = 0.0  # seconds of one
        self._top, self._low, self._high = alarms.bounds
        self._since, self._between = 0.0, 1.0  # losses since the last step, and most between two
        self._deaf, self._left_out = False, tuple[Skipped, ...]()
        self._next: float = 0
        self.due: float = 1
        self.apart = 1

    @property
    def steps(self) -> int:
        """Of the optimizer, so far."""
        return self._before + len(self._rates)

    @property
    def _most(self) -> int:
        """Steps that are heard together: calling everyone who hears costs more than the steps."""
        return MOST * min(self.apart, LONGEST)

    @property
    def full(self) -> bool:
        """Whether it is time to hear, whatever the losses are."""
        rates = self._rates
        return len(rates) > self._most or (bool(rates) and self._strange(rates[-1]))

    def stepped(self, optimizer: Optimizer, *_: Any) -> None:
        """A hook: count a step, and note its learning rate."""
        rates = self._rates
        if rates:
            rates.append(rate := optimizer.param_groups[0].get("lr"))
        else:
            start = self._clock()
            rates.append(rate := optimizer.param_groups[0].get("lr"))
            self._rate_note = smoothed(self._rate_note, self._clock() - start)
        if len(rates) >= self.due or self._strange(rate):
            self._turn()

    def loss(self, loss: float | Tensor) -> bool:
        """Note the loss of a step, behind its rate; whether it is time to hear."""
        self.skip = self.apart - 1
        self._since += self.apart
        noted = self._losses
        start = 0.0 if noted else self._clock()
        one = self._one(loss)
        if one is None:
            return False
        noted.append(one)
        self._at.append(len(self._rates))
        if start:
            self._loss_note = smoothed(self._loss_note, self._clock() - start)
        if isinstance(one, Tensor):  # it is away, and not waited for
            return len(noted) >= AWAY
        if one < self._top:
            return len(noted) >= MOST
        self.skip = 0  # what looks like a rise is followed step by step
        return True

    def hear(self, buckets: Buckets, *, look: bool = False) -> bool:
        """Let the alarms hear what was noted.

        Args:
            buckets: Which pay for it.
            look: Whether it is at a look, where several processes wait for one another.

        Returns:
            Whether a look is worth its price now.
        """
        rates, count = self._rates, len(self._losses)
        steps = len(rates)
        self._look_for_steps(steps)
        if not (steps or count):
            return False
        start = self._clock()
        losses = on_host(self._losses)
        at = [self._step_of(each) for each in self._at]
        known = [r for r in rates if isinstance(r, float)]
        hints = self._heard(known, [*zip(at, losses, strict=True)])
        self._top, self._low, self._high = self._alarms.bounds
        self._before += steps
        for noted in (rates, self._losses, self._at):
            noted.clear()
        self.wait(self._next)
        took = self._clock() - start
        buckets.aside(took + steps * CALLS * self._rate_note + count * self._loss_note)
        # at how many steps losses are noted: at as many as their share of the budget pays for
        paid = buckets.step_seconds * self._budget
        self._dense -= count
        if count and paid and self._dense <= 0:
            self._each = smoothed(self._each, self._loss_note + took / count)
            self.apart = min(max(math.ceil(self._each / paid), 1), FEWEST)
        if hints:
            self.apart = 1
        return hints

    def rest(self, buckets: Buckets) -> list[Column]:
        """Let the alarms hear what was noted last; the last losses, where no look has read them."""
        self.hear(buckets)
        self._look_for_steps(0, over=True)
        return self._into.rest()

    def left_out(self) -> tuple[Skipped, ...]:
        """What was not taken, or did not come, since this was last asked."""
        found, self._left_out = self._left_out, ()
        return found

    def _one(self, loss: Any) -> float | Tensor | None:
        """A loss as one number, or on its device; None, which is said once, of what is none."""
        try:
            if isinstance(loss, Tensor) and not loss.is_cpu and loss.numel() == 1:
                return loss.detach()
            one = loss.item() if hasattr(loss, "item") else loss
            if not isinstance(one, str | bytes):
                return float(one)
        except Exception as error:  # noqa: BLE001 (a loop may hand in anything)
            LOG.debug("sigmascope could not read a loss: %s", error)
        if not self._deaf:
            of = f" of {loss.dtype} in shape {(*loss.shape,)}" if hasattr(loss, "dtype") else ""
            why = f"a loss must be one number, got a {type(loss).__name__}{of}"
            self._leave_out("losses", f"{why}; hand in the number, as in `watch.step(loss.mean())`")
        self._deaf = True
        return None

    def _leave_out(self, what: str, why: str) -> None:
        LOG.warning("sigmascope leaves out %s: %s", what, why)
        self._left_out += (Skipped(OWN, what, why),)

    def _heard(self, rates: Sequence[float], losses: Sequence[tuple[int, float]]) -> bool:
        """What all hear, by step; whether a look is worth its price."""
        hints = self._alarms.hear(rates, [loss for _, loss in losses], self.apart)
        for step, loss in losses:
            self._into.add(step, loss)
            self._means.add(step, loss)
        return hints

    def _step_of(self, rates: int) -> int:
        """Of which step a loss is that came behind so many rates.

        Of the last that was made, or of the next where loops hand it in before: in these the first
        comes before any step, and no two between two steps, as those of accumulated gradients do.
        """
        made = self._before + rates
        if self._early is None:
            self._early = int(made == self._begun)
        elif made == self._known:
            self._early = 0
        self._known = made
        return max(made + self._early, self._begun + 1)

    def _look_for_steps(self, steps: int, *, over: bool = False) -> None:
        """Say once that losses come and steps do not: another optimizer may train.

        Args:
            steps: Made since this was last asked.
            over: Whether training is, so that no step will come.
        """
        lost = (2 if self.steps == self._begun else LOST_AT_END) if over else LOST
        if steps:
            self._between = max(self._between, -(-self._since // steps))
            self._since = 0
        elif lost <= self._since < math.inf and self._since >= 4 * self._between:
            self._leave_out(
                f"steps behind step {self.steps}",
                f"{self._since:.0f} losses or more were handed in since, and the optimizer watched "
                "made no step; hand a watch the one that steps",
            )
            self._since = -math.inf

    def wait(self, step: float) -> None:
        """There is something to do before this step; 0 for at the end of every one."""
        self._next = step
        self.due = max(1, min(self._most + 1, step - 1 - self._before))

    def _strange(self, rate: Any) -> bool:
        """Whether a rate is heard at once; one in a tensor is never waited for."""
        return type(rate) is float and not self._low <= rate <= self._high


def on_host(noted: Sequence[float | Tensor]) -> list[float]:
    """Losses as numbers; those on a device are brought here at once."""
    away = [x.reshape(()).double() for x in noted if isinstance(x, Tensor)]
    there = iter(torch.stack(away).tolist() if away else ())
    return [next(there) if isinstance(x, Tensor) else x for x in noted]


def smoothed(before: float, now: float) -> float:
    """What is usual, after it took so long once more."""
    return before + 0.2 * (min(now, BUSY * before) - before) if before else now


# ------------------------------------------------------------------------------
# What all processes hear of each step: the mean of their losses, and the rate of the first.
#
# Some steps at a time are sent behind a step of the optimizer and taken behind a later one, so that
# nobody waits for them in between. The invariant: all send and take at the same steps, and what is
# taken is the same to the last bit in each, so that what follows from it alone needs no agreement.


SLOTS = 32  # steps that are sent together, at most
NEAREST, FARTHEST = 2, 12  # steps between two exchanges
SHARE_FOR_OTHERS = 2.0  # times what one process may take for hearing
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


class SharedLossListener(LossListener):
    """A listener in one of several processes: what all have noted, at steps that all know.

    Args:
        processes: Those that train one model.
        of: As of `LossListener`.

    Attributes:
        wished: Whether any process wishes for a look at the inputs.
    """

    def __init__(self, processes: Processes, *args: Any, step: int = 0, **of: Any) -> None:
        super().__init__(*args, step=step, **of)
        self._exchange = Exchange(processes, step)
        self._meets: float = step + NEAREST  # where something is sent or taken
        self._seconds, self._wanted = 0.0, NEAREST
        self._wish = self.wished = False

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
        one = self._one(loss)
        if one is not None:
            self._losses.append(one)
            self._at.append(self._step_of(len(self._rates)))
        del self._losses[:-HELD], self._at[:-HELD]
        if self._since >= LOST:
            self._look_for_steps(len(self._rates))
        return False

    def hear(self, buckets: Buckets, *, look: bool = False) -> bool:
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
            # all but of the last step, whose loss may not be handed in yet
            until = self.steps - 1
            noted = [*zip(self._at, on_host(self._losses), strict=True)]
            now = [(step, loss) for step, loss in noted if step <= until]
            steps, count = until - self._before, len(now)
            exchange.send(until, now, self._rates[:steps], wish=self._wish, apart=self._wanted)
            self._look_for_steps(steps)
            self._before, self._wish = until, False
            del self._rates[:steps]
            later = noted[len(now) :]
            self._at, self._losses = [step for step, _ in later], [loss for _, loss in later]
            self._meets = self.steps + 1
        if look:
            more, apart = self._take()
            hints = hints or more
            self._meets = self.steps + (NEAREST if hints else apart)
        self.wait(self._next)
        took = self._clock() - start
        buckets.aside(took + steps * CALLS * self._rate_note + count * self._loss_note)
        self._seconds += took
        if not exchange.flying:
            self._each, self._seconds = smoothed(self._each, self._seconds), 0.0
            paid = SHARE_FOR_OTHERS * buckets.step_seconds * self._budget
            wanted = math.ceil(self._each / paid) if paid else NEAREST
            self._wanted = min(max(wanted, NEAREST), FARTHEST)
        return hints

    def rest(self, buckets: Buckets) -> list[Column]:
        """The last losses that all know of, where no look has read them; nobody is waited for."""
        if self._exchange.over:
            self._take()
        self._look_for_steps(len(self._rates), over=True)
        return self._into.rest()

    def _take(self) -> tuple[bool, int]:
        """Whether a look is worth its price, and steps until the next exchange."""
        heard = self._exchange.take()
        self.wished = heard.wished
        return self._heard(heard.rates, heard.losses) or heard.wished, heard.apart
