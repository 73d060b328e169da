"""A program's samples, targets and loss, ready to be measured."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sized
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal, random_states
from sigmascope.core.records import Estimate, Item, Reading, Skipped
from sigmascope.diagnosis.programs.data import Mapped, Taken, as_they_lie, count_of, parted, taken
from sigmascope.diagnosis.programs.losses import (
    fitting_loss,
    is_language,
    loss_of,
    mask_of,
    shifted,
    tells_next,
    tokens_of,
)
from sigmascope.diagnosis.programs.outputs import Joint, joint_in, read_by
from sigmascope.diagnosis.programs.program import Program
from sigmascope.models.layers import called, in_words
from sigmascope.models.samples import (
    IGNORED,
    Batch,
    Loss,
    as_tensor,
    beside,
    chosen,
    prepared,
    require_compared,
    require_finite_targets,
    require_task,
    run,
    sample_count,
    tensors,
)
from sigmascope.models.state import as_found, duplicate, still

ALIKE = 1e-3  # relative difference of two losses that are one, computed in two ways
SIZE = 32  # samples in a step, where nobody says
SEVERAL = (
    "The loss reads several tensors of the output, which sigmascope cannot lay side by side: {}. "
    "What the loss asks, and how the program trains, was not looked at."
)
HOLES = (
    "{} targets are not finite, and the loss leaves them out. sigmascope reads targets as numbers: "
    "what the loss asks, and how the program trains, was not looked at. Pass samples whose targets "
    "are all there, if there are some, to have it looked at."
)


@dataclass(frozen=True, slots=True)
class Opened:
    """What is at hand of a program.

    Attributes:
        batch: Samples.
        targets: Theirs; None where there are none.
        loss: What compares outputs with them.
        size: Samples in a step of the user's.
        planned: Steps of the whole training; None where it is not known.
        unfit: Why targets and loss do not go with the output; empty where they do.
        batch_dim: Where the batch has its samples.
        unread: What of the program could not be read, and what stands in for it.
        shape: Of the output for these samples; empty where the model could not be run.
        epoch: Batches in which the data are passed once; None if their number is not known.
        joint: Which of several tensors the loss reads; None where there is one.
    """

    batch: Batch
    targets: Any
    loss: Loss
    size: int
    planned: int | None
    unfit: str
    batch_dim: int = 0
    unread: str = ""
    shape: tuple[int, ...] = ()
    joint: Joint | None = None
    epoch: int | None = None

    @property
    def width(self) -> int:
        """Outputs of a sample; 0 where the model could not be run."""
        count = sample_count(self.batch, batch_dim=self.batch_dim)
        return math.prod(self.shape) // count if self.shape else 0

    @property
    def task(self) -> dict[str, Any]:
        """What measurements take of it."""
        known = self.targets is not None and not self.unfit
        named = {"targets": self.targets, "loss": self.loss} if known else {}
        return {**named, "batch_dim": self.batch_dim}


def opened(program: Program, *, samples: int, batch_dim: int = 0) -> Opened:
    """Samples of a program, with the targets that belong to them.

    Args:
        program: The whole of it; left as it is.
        samples: How many to take, where there are more.
        batch_dim: Where batches have their samples.

    Raises:
        Refusal: If its data hold no samples, if there is no such loss, or if there is one and no
            targets for it.
    """
    given = _of(program, samples=samples, batch_dim=batch_dim)
    whole = _output(program.model, given)
    size, total = program.batch_size or given.size or SIZE, given.total or 0
    if whole is None and size != samples:
        # the model takes no such number of them, as where they are the nodes of one graph or it has
        # its batch size written into it: as many as the user takes at once
        more = _of(program, samples=min(size, total), batch_dim=batch_dim)
        whole = _output(program.model, more)
        given = given if whole is None else more
    loss = fitting_loss if program.loss is None else loss_of(program.loss)
    unread, joint = program.unread, joint_in(program.model)
    if joint is None and callable(program.loss) and whole is not None and given.targets is not None:
        count = sample_count(given.batch, batch_dim=batch_dim)
        try:
            with as_found(program.loss):
                joint = read_by(loss, whole, given.targets, count=count)
        except Refusal as refusal:
            unread = unread or SEVERAL.format(refusal)
    loss = loss if joint is None else joint.of(loss)
    output = None
    if whole is not None:
        apart = joint is not None and not isinstance(whole, Tensor)
        output = joint.join(whole) if apart and joint is not None else as_tensor(whole)[0]
    known = given if output is None else _completed(program.model, given, output)
    if not unread and program.loss not in (None, fitting_loss):
        require_compared(known.targets, loss)
    size = min(program.batch_size or known.size or SIZE, known.total or SIZE)
    planned = program.planned(known.total, size)
    with as_found(program.loss):
        numbers = () if output is None or unread else tensors(known.targets)
        holes = sum(int((~t.isfinite()).sum()) for t in numbers if t.is_floating_point())
        if holes and output is not None:
            # whether the loss leaves them out; what else is wrong is told where it is asked
            finite = False
            with suppress(Exception), random_states(), torch.enable_grad():
                held = output.detach().clone().requires_grad_()
                value = loss(held, known.targets)
                (gradient,) = torch.autograd.grad(value, held)
                finite = bool(value.isfinite() & gradient.isfinite().all())
            unread = HOLES.format(holes) if finite else unread
        why = ""
        if output is not None and not unread and known.targets is not None:
            count = sample_count(known.batch, batch_dim=batch_dim)
            try:
                require_finite_targets(known.targets)
                require_task(output, known.targets, loss, count=count, batch_dim=batch_dim)
            except Refusal as refusal:
                why = str(refusal)
    if program.loss is None and not (unread or why):
        # a model that computes its own loss from `labels` may compute another one
        both = _both_losses(program.model, given, known, loss)
        if both is not None and not math.isclose(*both, rel_tol=ALIKE, abs_tol=ALIKE):
            unread = (
                f"The model computes a loss of {both[0]:.4g} from `labels`; the one that fits the "
                f"targets is {both[1]:.4g}, and stands in for it. Pass `loss`, a function of "
                "output and targets."
            )
    elif unread and unread is not program.unread:  # the loss as it is cannot be asked
        known = replace(known, targets=None)
    shape = () if output is None else tuple(output.shape)
    epoch = None if known.total is None else max(1, math.ceil(known.total / size))
    said = (why, batch_dim, unread, shape, joint, epoch)
    return Opened(known.batch, known.targets, loss, size, planned, *said)


def _of(program: Program, *, samples: int, batch_dim: int) -> Taken:
    """Samples of a program's data, their targets where its model lies."""
    found = taken(program.data, samples=samples, batch_dim=batch_dim)
    return replace(found, targets=beside(program.model, found.targets))


def unseen(program: Program, known: Opened) -> tuple[Batch, Tensor] | None:
    """Up to as many samples again, none of which was taken before, with their targets.

    Args:
        program: Whose data are asked once more.
        known: What was taken of them.

    Returns:
        None where there are no more, they come in another order each time, or are none that
        training takes.
    """
    if not isinstance(known.targets, Tensor):
        return None
    count = sample_count(known.batch, batch_dim=known.batch_dim)
    try:
        more = _of(program, samples=2 * count, batch_dim=known.batch_dim)
        have = sample_count(more.batch, batch_dim=known.batch_dim)
        rows = torch.arange(have)
        first = chosen(more.batch, rows[:count], batch_dim=known.batch_dim)
    except Exception:  # noqa: BLE001 (a user's data may raise anything the second time)
        return None
    if have <= count or not isinstance(more.targets, Tensor) or len(more.targets) != have:
        return None
    again = [*tensors(first), more.targets[:count]]
    before = [*tensors(known.batch), known.targets]
    if len(again) != len(before) or not all(map(torch.equal, again, before)):
        return None
    return chosen(more.batch, rows[count:], batch_dim=known.batch_dim), more.targets[count:]


def _both_losses(
    model: nn.Module, given: Taken, known: Taken, loss: Loss
) -> tuple[float, float] | None:
    """What a model computes from labels, and the loss of what it writes; None where it does not."""
    if not isinstance(given.batch, Mapping) or not isinstance(given.targets, Tensor):
        return None
    batch = prepared(model, {**given.batch, "labels": given.targets})
    try:
        with still(model), torch.no_grad():
            model.eval()
            own = float(called(model, batch)["loss"])
            output = as_tensor(called(model, prepared(model, known.batch)))[0]
            return own, float(loss(output, known.targets))
    except Exception:  # noqa: BLE001 (it takes no labels, or gives no loss: nothing to compare)
        return None


def _completed(model: nn.Module, known: Taken, output: Tensor) -> Taken:
    """Next tokens as the targets of a language model, where nobody gave any.

    Labels that are the inputs, beside a mapping of arguments, mean the same: the models of Hugging
    Face shift them inside. So they do with labels that are shifted already.
    """
    ids = tokens_of(known.batch)
    if ids is None or not (is_language(ids, output) and tells_next(model)):
        return known
    own, labels = isinstance(known.batch, Mapping), known.targets
    alike = isinstance(labels, Tensor) and labels.shape == ids.shape
    # labels that are the inputs, but for what they leave out
    same = alike and bool(((labels == ids) | (labels == IGNORED)).all())
    if own and alike and not same:
        inside = replace(known, targets=shifted(labels))
        both = _both_losses(model, known, inside, fitting_loss)
        return inside if both and math.isclose(*both, rel_tol=ALIKE, abs_tol=ALIKE) else known
    if not (known.targets is None or (own and same)):
        return known
    return replace(known, targets=shifted(ids, mask_of(known.batch)))


def _output(model: nn.Module, known: Taken) -> Any:
    """All that a model gives; None where it cannot be run: what measures it will say why."""
    try:
        with still(model), torch.no_grad():
            whole = called(model, prepared(model, known.batch))
            return whole if as_tensor(whole)[1] else None
    except Exception:  # noqa: BLE001 (models fail in every way)
        return None


# ------------------------------------------------------------------------------
# Which batches a loader gives: of samples as they lie, and a last one of a single sample.


SITE = "(loader)"
PLACES = 16  # batches that are looked at, spread over all
MOST = 16  # samples of each of them


def order_items(data: Any) -> Iterator[Item]:
    """How many batches hold one target alone, and how many would if samples were mixed.

    Args:
        data: Of a program; nothing is said but of loaders that give samples as they lie, two in a
            batch or more, with one number as the target of each.
    """
    data = data.data if isinstance(data, Mapped) else data
    if not as_they_lie(data):
        return
    try:
        with random_states():  # data sets may draw
            size, full = data.batch_size or 1, count_of(data) // (data.batch_size or 1)
            looked = min(full, PLACES) if size > 1 else 0
            batches: list[list[float | None]] = []
            for k in range(looked):  # the first samples of some full batches, spread over all
                first = k * full // looked * size
                given = [parted(data.dataset[first + i])[1] for i in range(min(size, MOST))]
                values = [None if y is None else torch.as_tensor(y) for y in given]
                one = [None if y is None or y.numel() != 1 else float(y) for y in values]
                batches.append(one)
    except Exception:  # noqa: BLE001 (a user's data may raise anything; opening them has said so)
        return
    if len(batches) < 2 or any(y is None for b in batches for y in b):
        return
    count = Counter(y for b in batches for y in b)
    total, least = count.total(), min(map(len, batches))
    chance = math.fsum((n / total) ** least for n in count.values())
    alike = sum(len(set(b)) == 1 for b in batches) / len(batches)
    for name, share in ((q.BATCHES_OF_ONE_CLASS, alike), (q.THE_SAME_IF_MIXED, chance)):
        yield Reading(SITE, name, Estimate.exactly(share), "setup")


def last_batch_items(program: Program, known: Opened) -> Iterator[Item]:
    """Why a step on the last batch of an epoch raises, where a loader leaves one sample for it.

    Args:
        program: The whole of it; a copy of its model makes the step.
        known: Its samples.
    """
    loader = program.data
    if not isinstance(loader, DataLoader) or type(loader.batch_sampler) is not BatchSampler:
        return
    if not isinstance(loader.sampler, Sized):  # one of the user's own need not know
        return
    size, total = loader.batch_size or 1, len(loader.sampler)
    if loader.drop_last or size == 1 or total % size != 1:
        return
    model, rows = duplicate(program.model).train(), torch.zeros(1, dtype=torch.long)
    try:
        batch = chosen(prepared(model, known.batch), rows, batch_dim=known.batch_dim)
        with random_states(), torch.enable_grad():
            known.loss(as_tensor(run(model, batch))[0], known.targets[:1]).backward()
    except Exception as error:  # noqa: BLE001 (models fail in every way)
        why = f"the last batch of an epoch holds one sample of {total}, and {in_words(error)}"
        yield Skipped(SITE, "training", why)
