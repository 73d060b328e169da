"""Readings of what training will meet: the model as it stands before the first step."""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope import quantities as q
from sigmascope.linalg import sums
from sigmascope.probes import OUTPUT, Subject
from sigmascope.probes.execution import ALONE
from sigmascope.probes.samples import Rows
from sigmascope.probes.symmetry import reduced_gradients
from sigmascope.records import Estimate, Item, Reading, Skipped
from sigmascope.survey.coverage import tried
from sigmascope.survey.views.dependences import dependence_items, untouched
from sigmascope.survey.views.first_steps import first_loss_items, polyak_items
from sigmascope.survey.views.own_gradients import Gradient, Gradients, OwnModes, alike
from sigmascope.survey.views.recurrence import recurrence_items
from sigmascope.survey.views.sequences import sequence_items
from sigmascope.survey.views.task import task_items

VIEW: q.View = "setup"
ROUNDING = 1e-5  # share of their size by which rows must differ for a gain to mean something
BEHIND_ZEROS = "behind zeros"  # of what a weight that starts at zero, and moves, holds at zero
NUDGE = 0.02  # standard deviation of what takes the place of zeros
ALIKE = 1e-6  # two units whose rows agree to this share of their size are one


def setup_items(subject: Subject) -> Iterator[Item]:
    """Sizes layer by layer, units, branches, what is trained, and the task."""
    own = OwnModes(subject)
    gradients = own.gradients
    for what, items in (
        ("sizes of layers", _sizes(subject)),
        ("units", _units(subject, gradients)),
        ("running statistics", _statistics(subject)),
        ("branches", _branches(subject)),
        ("linearity", _linear(subject)),
        (q.RELATIVE_GRADIENT, _trained(subject, gradients)),
        ("the task", task_items(subject)),
        ("the first loss", first_loss_items(subject)),
        ("the order of sequences", sequence_items(subject)),
        ("recurrent layers", recurrence_items(subject)),
        ("dependences", dependence_items(subject, own.dropped)),
    ):
        yield from tried(items, what)


def _branches(subject: Subject) -> Iterator[Item]:
    """How strong branches are next to the stream that they are added to."""
    for branch in subject.branches:
        if math.isfinite(branch.strength):  # not of a stream that is zero, or overflows
            size = Estimate.rounded(branch.strength, ulps=64)
            yield Reading(branch.site or "(sum)", q.BRANCH_STRENGTH, size, VIEW)


def _sizes(subject: Subject) -> Iterator[Item]:
    """How much layers enlarge differences, and how far samples differ in what they write."""
    for site, wrote in subject.preactivations.items():
        read = subject.activations.get(site)
        a, b = (None if r is None else _rows(r) for r in (read, wrote))
        if b is None or not sums.is_finite(b):
            continue
        if a is not None and sums.is_finite(a):
            apart = _size(_centred(a))
            if apart > ROUNDING * _size(a):
                gain = Estimate.rounded(_size(_centred(b)) / apart, ulps=64)
                yield Reading(site, q.GAIN, gain, VIEW)
        small = int(((b != 0) & (b.abs() < torch.finfo(b.dtype).tiny)).sum())
        if small:
            yield Reading(site, q.DENORMAL_ENTRIES, Estimate.exactly(small), VIEW)
        if wrote.samples is not None and _size(wrote.samples) > 0:
            rows = wrote.samples
            variation = Estimate.rounded(_size(_centred(rows)) / _size(rows), ulps=64)
            yield Reading(site, q.WRITTEN_VARIATION, variation, VIEW)


def _units(subject: Subject, gradients: Gradients) -> Iterator[Item]:
    """Units at an end of their range, and units and rows of weights that are copies of others."""
    for found in subject.squashes:
        share = Estimate.exactly(found.saturated)
        yield Reading(found.site, q.SATURATED_SHARE, share, VIEW, found.kind)
    yield from _constant(subject, gradients)
    first = next((c.site for c in subject.calls), "")
    for site, both in subject.activations.items():
        units = both.samples if both.channels is None else both.channels
        if site in (first, OUTPUT) or units is None or not sums.is_finite(units):
            continue
        if (distinct := _distinct(units)) is not None:
            yield Reading(site, q.DISTINCT_UNITS, Estimate.exactly(distinct), VIEW)
        silent = 0.0 if both.samples is None else (both.samples == 0).all(1).double().mean().item()
        if silent:
            yield Reading(site, q.SILENT_SAMPLES, Estimate.exactly(silent), VIEW)


def _linear(subject: Subject) -> Iterator[Item]:
    """A network of several layers that is affine as a whole."""
    if len(subject.calls) > 1 and subject.is_affine:
        yield Reading(subject.calls[1].site, q.AFFINE_NETWORK, Estimate.exactly(1.0), VIEW)


def _constant(subject: Subject, gradients: Gradients) -> Iterator[Item]:
    """Weights to be trained whose rows are all the same: how many of their gradients differ."""
    for name, count in alike(subject):
        grads = gradients()
        least = ALIKE * max(g.largest for g in grads.values())
        own = grads[name]
        entries = own.entries if own.largest > least else None  # more than rounding
        moved = None if entries is None else _distinct(entries.flatten(1).mT)
        distinct = Estimate.exactly(moved or 1 / count)
        yield Reading(name, q.DISTINCT_UNITS, distinct, VIEW, "matrix")


def _distinct(units: Tensor) -> float | None:
    """Share of the units that vary which are no copies of others."""
    columns = units.double().mT
    columns = columns[columns.std(1) > 0]
    if len(columns) < 2:
        return None
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(columns.shape[1], 2, generator=generator, dtype=torch.float64)
    marks = (columns @ mixed.to(columns.device)) / columns.norm(dim=1).amax()
    marks = marks[marks[:, 0].argsort()]
    step = (marks[1:] - marks[:-1]).norm(dim=1)
    return (1 + int((step > ALIKE).sum())) / len(columns)


def _statistics(subject: Subject) -> Iterator[Item]:
    """Batch normalisers that use running statistics which no batch has made."""
    for name, module in subject.model.named_modules():
        if not isinstance(module, _BatchNorm) or module.training:
            continue
        seen = module.num_batches_tracked
        if untouched(module) and (seen is None or int(seen) == 0):
            yield Reading(name, q.BATCHES_SEEN, Estimate.exactly(0.0), VIEW)


def _trained(subject: Subject, gradients: Gradients) -> Iterator[Item]:
    """Weights that are not trained, and gradients next to the weights they move."""
    for name, p in subject.model.named_parameters():
        if not p.requires_grad and p.is_floating_point():
            form = "matrix" if p.ndim > 1 else ""
            yield Reading(name, q.FROZEN_ENTRIES, Estimate.exactly(p.numel()), VIEW, form)
    if subject.loss is None or subject.targets is None:
        yield Skipped("(all weights)", q.RELATIVE_GRADIENT, "no targets and loss were given")
        return
    if not any(p.requires_grad for p in subject.model.parameters()):
        return
    grads = gradients()
    yield from polyak_items(subject, sum(g.square for g in grads.values()))
    own = dict(subject.model.named_parameters())
    freed = _freed(subject, frozenset(n for n, g in grads.items() if g.largest == 0))
    for name, g in grads.items():
        yield _moved(name, own[name].detach(), g, free=name in freed)


def _moved(name: str, weight: Tensor, gradient: Gradient, *, free: bool) -> Reading:
    """How far a gradient moves a weight, or how large it is where that is zero."""
    size, norm = sums.norm(weight), math.sqrt(gradient.square)
    if not math.isfinite(norm):
        return Reading(name, q.NON_FINITE_ENTRIES, Estimate.exactly(gradient.bad), VIEW)
    if size > 0:
        form = BEHIND_ZEROS if norm == 0 and free else ""
        relative = Estimate.rounded(norm / size, ulps=64)
        return Reading(name, q.RELATIVE_GRADIENT, relative, VIEW, form)
    form = "bias" if name.endswith("bias") else ""
    form = "cut" if norm == 0 and not free else form
    estimate = Estimate.rounded(norm, ulps=64)
    return Reading(name, q.GRADIENT_OF_A_ZERO_WEIGHT, estimate, VIEW, form)


def _freed(subject: Subject, without: frozenset[str]) -> frozenset[str]:
    """Parameters without a gradient that would get one if no weight were zero.

    The others are cut off, multiplied by constants, or not used.

    Args:
        subject: With targets and a loss.
        without: Names of parameters whose gradient is zero.

    Cost: one forward and backward pass, where there are any; memory for the zero weights and one
    gradient at a time.
    """
    zero = [*zero_weights(subject.model).values()]
    if not without or not zero:
        return frozenset()
    whole = subject.part.count == subject.count  # else a random sum of outputs must do
    task = {"targets": subject.targets, "loss": subject.loss} if whole else {}
    moves = lambda name, gradient: name in without and bool(gradient.any())
    with filled(zero):
        moved = reduced_gradients(subject.model, subject.part.batch, moves, **task, fused=True)
    return frozenset(name for name, is_moved in moved.items() if is_moved)


def zero_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """Weights to be trained that are zero, as the last scale of a residual branch may start."""
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    return {n: p for n, p in named.items() if not bool(p.any()) and not n.endswith("bias")}


@contextmanager
def filled(parameters: list[nn.Parameter]) -> Iterator[None]:
    """Small random numbers in the place of what parameters hold, inside of the block.

    Where their numbers lie is exchanged, and not the parameters: an LSTM holds a list of its own of
    these, which `functional_call` does not see.
    """
    g = torch.Generator().manual_seed(0)
    with ALONE, ExitStack() as undo:  # not while another thread holds the model still
        for p in parameters:
            values = torch.randn(p.shape, generator=g).mul_(NUDGE).to(p.detach())
            undo.callback(setattr, p, "data", p.data)
            p.data = values
            del values
        yield


def _rows(both: Rows) -> Tensor | None:
    return both.samples if both.channels is None else both.channels


def _centred(rows: Tensor) -> Tensor:
    wide = rows.double()
    return wide - wide.mean(0)


def _size(rows: Tensor) -> float:
    return math.sqrt(sums.square_sum(rows) / rows.numel())
