"""Readings of what training will meet: the model as it stands before the first step."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Fact, Item, Reading, Skipped
from sigmascope.linalg import dense
from sigmascope.models import OUTPUT, Subject
from sigmascope.models.gradients import Dropped, Untaped, reduced_gradients
from sigmascope.models.layers import Call, module_name
from sigmascope.models.samples import WHOLE, chosen, tensors
from sigmascope.models.sequences import (
    FEWEST,
    copied,
    counted,
    ends,
    inner_order,
    later_inputs,
    offset,
    ordered,
    step_gradients,
)
from sigmascope.models.state import is_untouched, uses_batch_statistics
from sigmascope.models.structure.inputs import (
    EVERY,
    differs,
    read_filling,
    rows_of,
    unread_inputs,
)
from sigmascope.models.structure.randomness import random_outputs
from sigmascope.survey.profiling import differentiated, tried
from sigmascope.survey.views.base import ProfileView, rough
from sigmascope.survey.views.gradients import (
    Gradients,
    OwnModes,
    alike,
    first_loss_items,
    polyak_items,
)
from sigmascope.survey.views.task import target_rows, task_items
from sigmascope.survey.views.zeros import (
    BEHIND_ZEROS,
    BESIDE,
    OFF_TAPE,
    filled,
    moving_zeros,
    silent_samples,
    zero_weights,
)

# ------------------------------------------------------------------------------
# Readings of sequence models: what targets are copies of, later inputs, padding.


NAME: q.View = "setup"
PLACE = "its place in the batch"  # as `mixing` says it
MOSTLY = 0.5  # of the targets, that must be the next inputs for an order to be asked for


def sequence_items(subject: Subject) -> Iterator[Item]:
    """Where targets stand among the inputs, whether outputs see them, and what fills the rows."""
    loss, targets, output = subject.loss, subject.targets, subject.output
    if loss is None or not isinstance(targets, Tensor) or subject.batch_dim != 0:
        return
    if not dense.is_finite(output) or not ordered(output, targets, subject.count):
        return
    looks = counted(loss, output, targets)
    if looks is None or not bool(looks.any()):
        return
    shift = offset(loss, output, targets)
    if targets.ndim == 2 and not targets.is_floating_point():
        # targets that fill the ends of rows and count in the loss
        id_, where = ends(targets)
        aligned = torch.zeros_like(looks)
        width = min(looks.shape[1], where.shape[1] - (shift or 0))
        aligned[:, :width] = where.cpu()[:, shift or 0 : (shift or 0) + width]
        share = float((aligned & looks).sum()) / float(looks.sum())
        if share > 0:
            padding = Estimate.exactly(share)
            yield Reading("(targets)", q.COUNTED_PADDING, padding, NAME, f"id {id_}")
    if shift is None:
        return
    pairs = copied(subject.batch, targets, looks=looks, shift=shift)
    for pair in pairs:
        site = f"(input {pair.name})" if pair.name else "(input)"
        for quantity, share in ((q.TARGETS_THAT_ARE_INPUTS, pair.same), (q.NEXT_INPUTS, pair.next)):
            yield Reading(site, quantity, Estimate.exactly(share), NAME)
        if pair.beyond > max(MOSTLY, pair.next, 2 * pair.chance):
            yield Reading(site, q.SKIPPED_INPUTS, Estimate.exactly(pair.beyond), NAME)
        chance = Estimate.exactly(pair.chance)
        yield Reading(site, q.CHANCE_COPIES, chance, NAME)
        if pair.next > max(MOSTLY, 2 * pair.chance):
            change = later_inputs(subject.scene, subject.output, name=pair.name)
            if change is not None:
                estimate = rough(change)
                yield Reading(site, q.DEPENDENCE_ON_LATER_INPUTS, estimate, NAME)


# ------------------------------------------------------------------------------
# Readings of recurrent layers: what is left of a gradient after all its steps.


def recurrence_items(subject: Subject) -> Iterator[Item]:
    """By what factor the gradient of the last state grows with every step back."""
    seen: set[nn.Module] = set()
    for call in subject.calls:
        layer = call.module
        if not isinstance(layer, nn.RNNBase) or layer in seen or call.spoiled:
            continue
        seen.add(layer)
        if call.input.ndim != 3:
            why = "its samples are packed, or there is one alone"
            yield Skipped(call.site, q.STEP_FACTOR, why)
            continue
        steps = call.input.shape[1 if layer.batch_first else 0]
        if steps >= FEWEST and dense.is_finite(call.input):
            yield Reading(call.site, q.STEPS, Estimate.exactly(steps), NAME)
            filled = read_filling(subject.model, subject.batch, layer)
            if filled > 0:
                yield Reading(call.site, q.READ_FILLING, Estimate.exactly(filled), NAME)
            generator = subject.generator or torch.Generator().manual_seed(0)
            found = step_gradients(layer, call.input, generator=generator)
            yield Reading(call.site, q.STEP_FACTOR, found.factor(), NAME)


# ------------------------------------------------------------------------------
# Readings of samples that come more than once, and of what that leaves untold of the targets.


ROUNDING_OF_MEANS = 1e-12  # of means over samples, and of sums of their squares


def repeat_items(subject: Subject) -> Iterator[Item]:
    """How many samples differ from all others, and how far targets of equal ones do.

    Parts of the batch that are not counted by samples, as the edges of a graph, may tell apart what
    is the same in all others: then the number of samples is the upper end.
    """
    # as samples are handed over, before any operation; numbers that hardly differ from their mean
    # over the batch, by rounding say, do not count
    dim, count = subject.batch_dim, subject.count
    parts = [t for t in tensors(subject.batch) if t.numel() > 1]
    own = [t for t in parts if t.ndim > dim and t.shape[dim] == count]
    if not own:
        return
    whole, groups = len(own) == len(parts), torch.zeros(count, dtype=torch.long)
    differ = [rows for t in own if differs(rows := rows_of(t, dim).cpu())]
    if differ:
        groups = torch.cat(differ, 1).unique(dim=0, return_inverse=True)[1]
    found = int(groups.max()) + 1
    most = found if whole else count
    how = "exact" if whole else "parts that are not counted by samples may tell them apart"
    yield Reading("(inputs)", q.DISTINCT_SAMPLES, Estimate(found, found, most, how), NAME)
    if whole and 1 < found < count and isinstance(subject.targets, Tensor):
        wanted = target_rows(subject.targets, count)
        if wanted is not None:
            untold = Estimate.within(untold_share(groups, wanted), ROUNDING_OF_MEANS)
            clipped = untold.at_least(0.0).at_most(1.0)
            yield Reading("(targets)", q.CONTRADICTED_TARGETS, clipped, NAME)


def untold_share(groups: Int64[Tensor, " n"], wanted: Float64[Tensor, "n k"]) -> float:
    """Share of the variance of targets that lies between samples of one group.

    Args:
        groups: Which samples are the same.
        wanted: Targets as centred rows, not all zero.

    Returns:
        0 where equal samples have equal targets, 1 where they tell nothing of them.
    """
    count = torch.bincount(groups).to(wanted)[:, None]
    means = wanted.new_zeros(len(count), wanted.shape[1]).index_add_(0, groups, wanted) / count
    return float((wanted - means[groups]).square().sum() / wanted.square().sum())


# ------------------------------------------------------------------------------
# Readings of what outputs depend on, and on what they should not: samples, modes, statistics.


def _affine_stretches(subject: Subject) -> Iterator[Item]:
    for pair in subject.linear_pairs:
        spare = Estimate.exactly(pair.spare)
        yield Reading(pair.second, q.SPARE_WIDTH, spare, NAME, f"after {pair.first}")


def _mixed(subject: Subject) -> Iterator[Item]:
    extent = subject.mixed
    if extent is not None:
        form = "pairs" if extent.compares else "rows"
        change = rough(extent.change)
        yield Reading("(model)", q.DEPENDENCE_ON_OTHER_SAMPLES, change, NAME, form)
        if not extent.compares and (extent.alike or subject.mixing.endswith(PLACE)):
            yield Fact("(model)", q.HIDDEN_DEPENDENCE, NAME, subject.mixing)


def _unused(subject: Subject) -> Iterator[Item]:
    """Layers to be trained that the model neither calls nor applies in another way."""
    called = {module_name(c.site) for c in subject.calls}
    shared = {id(p) for name in called for p in subject.modules[name].parameters()}
    for name, module in subject.modules.items():
        own = {f"{name}.{key}": p for key, p in module.named_parameters() if p.requires_grad}
        if not own or name in called or any(id(p) in shared for p in own.values()):
            continue
        # whether outputs depend on them costs a run, which most models can do without
        if not own.keys() & subject.uses_outside and not own.keys() & differentiated(subject):
            yield Reading(name, q.TIMES_CALLED, Estimate.exactly(0.0), NAME)


def _dropped(places: Callable[[], tuple[Dropped, ...]]) -> Iterator[Item]:
    for place in places():
        share = Estimate.exactly(place.share)
        yield Reading(place.site or "(model)", q.DROPPED_SHARE, share, NAME)


def _misfit(subject: Subject) -> Iterator[Item]:
    """Mean squares of what batch normalisers in evaluation mode make of this batch."""
    held = {module_name(c.site) for c in subject.normalised if uses_batch_statistics(c.module)}
    if held:
        yield Reading("(model)", q.BATCH_STATISTICS, Estimate.exactly(len(held)), NAME)
    for call in subject.normalised:
        module, x = call.module, call.input
        if not isinstance(module, _BatchNorm) or module.training or call.spoiled:
            continue
        mean, variance = module.running_mean, module.running_var
        if mean is None or variance is None or not bool(variance.any()):
            continue
        if not is_untouched(module):
            # `E[(x - m)² / v]`, the median over channels: 1 where the statistics are those of `x`
            columns = x.detach().double().transpose(0, 1).flatten(1)
            centre, scale = mean.double()[:, None], variance.double() + module.eps
            size = dense.median((columns - centre).square().mean(1) / scale)
            yield Reading(call.site, q.NORMALISED_SQUARE, rough(size), NAME)


def _shared(subject: Subject) -> Iterator[Item]:
    """Mean squares after batch normalisers of several calls, by the mean of their statistics."""
    calls: dict[_BatchNorm, list[Call]] = {}
    for call in subject.normalised:
        if isinstance(call.module, _BatchNorm) and not call.spoiled:
            calls.setdefault(call.module, []).append(call)
    for module, own in calls.items():
        if len(own) < 2 or not module.training or not module.track_running_stats:
            continue
        columns = [c.input.detach().double().transpose(0, 1).flatten(1) for c in own]
        centre = torch.stack([x.mean(1) for x in columns]).mean(0)[:, None]
        scale = torch.stack([x.var(1) for x in columns]).mean(0) + module.eps
        for call, x in zip(own, columns, strict=True):
            square, spread = ((x - c).square().mean(1) / scale for c in (centre, x.mean(1, True)))
            sizes = dense.median(square), dense.median(spread)
            size = max(sizes, key=lambda s: max(s, 1 / max(s, 1e-300)))
            yield Reading(call.site, q.SHARED_SQUARE, rough(size), NAME)


def _random(subject: Subject) -> Iterator[Item]:
    """How far outputs in evaluation mode differ from run to run, where anything is drawn."""
    found = random_outputs(subject.model, subject.batch) if subject.drew else None
    if found is not None:
        form = f"{found.function} at {found.place}" if found.function else ""
        change = rough(found.change)
        yield Reading("(model)", q.EVALUATION_SPREAD, change, NAME, form)


ROUNDING = 1e-5  # share of their size by which rows must differ for a gain to mean something
ASKED = 16  # samples of which it is asked what a model reads of them
ALIKE = 1e-6  # two units whose rows agree to this share of their size are one


def setup_items(subject: Subject) -> Iterator[Item]:
    """Sizes layer by layer, units, branches, what is trained, the task, and what hangs on what."""
    own = OwnModes(subject)
    gradients = own.gradients
    with suppress(Exception):  # a run that tells this tells most of what follows
        _ = subject.mixing
    for what, items in (
        ("sizes of layers", _sizes(subject)),
        ("units", _units(subject, gradients)),
        ("running statistics", _statistics(subject)),
        ("branches", _branches(subject)),
        ("attentions", _attentions(subject)),
        ("inputs that are read", _unread(subject)),
        ("linearity", _linear(subject)),
        (q.RELATIVE_GRADIENT, _trained(subject, gradients)),
        ("the task", task_items(subject)),
        ("the first loss", first_loss_items(subject)),
        ("the order of sequences", sequence_items(subject)),
        ("recurrent layers", recurrence_items(subject)),
        ("samples that differ", repeat_items(subject)),
        ("samples that mix", _mixed(subject)),
        ("layers without use", _unused(subject)),
        ("dropout", _dropped(own.dropped)),
        ("layers without an activation between", _affine_stretches(subject)),
        ("running statistics", _misfit(subject)),
        ("normalisers that are called again", _shared(subject)),
        ("outputs that are drawn", _random(subject)),
    ):
        yield from tried(items, what)


def _branches(subject: Subject) -> Iterator[Item]:
    """How strong branches are next to the stream that they are added to."""
    for branch in subject.branches:
        if math.isfinite(branch.strength):  # not of a stream that is zero, or overflows
            size = Estimate.rounded(branch.strength, ulps=64)
            yield Reading(branch.site or "(sum)", q.BRANCH_STRENGTH, size, NAME)


def _attentions(subject: Subject) -> Iterator[Item]:
    """How far weights of an attention are from adding up to one, and whether it sees an order."""
    worst = max(subject.attentions, key=lambda each: each.gap, default=None)
    if worst is not None:
        gap = rough(worst.gap)
        over = f", softmax over {worst.over}, values summed over {worst.summed}"
        form = f"{worst.place}{over if worst.gap else ''}"
        yield Reading("(attention)", q.ATTENTION_GAP, gap, NAME, form)
    heads = (m for m in subject.model.modules() if isinstance(m, nn.MultiheadAttention))
    if worst is None and next(heads, None) is None:
        return
    change = inner_order(subject.scene, subject.output)
    if change is not None:
        estimate = rough(change)
        yield Reading("(attention)", q.DEPENDENCE_ON_ORDER, estimate, NAME)


def _unread(subject: Subject) -> Iterator[Item]:
    """Inputs, or features of them, that no output depends on, whatever weights start at zero."""
    if subject.loss is None:
        return
    batch, dim = subject.batch, subject.batch_dim
    count = subject.count if subject.mixing else min(subject.count, ASKED)
    if count < subject.count:
        batch = chosen(batch, torch.arange(count), batch_dim=dim)
    with filled([*zero_weights(subject.model).values()]):
        found = unread_inputs(subject.model, batch, batch_dim=dim, count=count)
    for each in found:
        site = f"(input {each.name})" if each.name else "(input)"
        site = "(model)" if each.name == EVERY else site
        yield Reading(site, q.UNREAD_SHARE, Estimate.exactly(each.share), NAME, each.by)


def _sizes(subject: Subject) -> Iterator[Item]:
    """How much layers enlarge differences, and how far samples differ in what they write."""
    for site, wrote in subject.preactivations.items():
        read = subject.activations.get(site)
        a, b = (
            None if r is None else (r.samples if r.channels is None else r.channels)
            for r in (read, wrote)
        )
        if b is None or not wrote.are_finite:
            continue
        rows, spread = wrote.samples, _size(_centred(b))
        if a is not None:  # of what is not finite no difference is known, and none is told
            apart = _size(_centred(a))
            if apart > ROUNDING * _size(a):
                gain = Estimate.rounded(spread / apart, ulps=2 * dense.additions(b))
                yield Reading(site, q.GAIN, gain, NAME)
        sizes, tiny = b.abs(), torch.finfo(b.dtype).tiny
        if sizes.amin() < tiny:
            small = int((sizes < tiny).count_nonzero()) - int((b == 0).count_nonzero())
            if small:
                yield Reading(site, q.DENORMAL_ENTRIES, Estimate.exactly(small), NAME)
        if rows is not None and (size := _size(rows)) > 0:
            ulps = 2 * dense.additions(rows)
            spread = spread if rows is b else _size(_centred(rows))
            variation = Estimate.rounded(spread / size, ulps=ulps)
            yield Reading(site, q.WRITTEN_VARIATION, variation, NAME)


def _units(subject: Subject, gradients: Gradients) -> Iterator[Item]:
    """Units at an end of their range, and units and rows of weights that are copies of others."""
    for found in subject.squashes:
        share = Estimate.exactly(found.saturated)
        yield Reading(found.site, q.SATURATED_SHARE, share, NAME, found.kind)
    # weights to be trained whose rows are all the same: how many of their gradients differ
    for name, count in alike(subject):
        grads = gradients()
        least = ALIKE * max(g.largest for g in grads.values())
        own = grads[name]
        entries = own.entries if own.largest > least else None  # more than rounding
        moved = None if entries is None else _distinct(entries.flatten(1).mT)
        apart = Estimate.exactly(moved or 1 / count)
        yield Reading(name, q.DISTINCT_UNITS, apart, NAME, "matrix")
    first = next((c.site for c in subject.calls), "")
    for site, both in subject.activations.items():
        units = both.samples if both.channels is None else both.channels
        if site in (first, OUTPUT) or units is None or not both.are_finite:
            continue
        if (distinct := _distinct(units)) is not None:
            yield Reading(site, q.DISTINCT_UNITS, Estimate.exactly(distinct), NAME)
    for site, share in subject.once(silent_samples).items():
        if share and site not in (first, OUTPUT):
            yield Reading(site, q.SILENT_SAMPLES, Estimate.exactly(share), NAME)


def _linear(subject: Subject) -> Iterator[Item]:
    """A network of several layers that is affine as a whole."""
    if len(subject.calls) > 1 and subject.is_affine:
        yield Fact(subject.calls[1].site, q.AFFINE_NETWORK, NAME)


def _distinct(units: Tensor) -> float | None:
    """Share of the units that vary which are no copies of others."""
    wide = units.double()
    varies = wide.amax(0) > wide.amin(0)
    if int(varies.sum()) < 2:
        return None
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(len(wide), 2, generator=generator, dtype=torch.float64)
    marks = (wide.mT @ mixed.to(wide.device))[varies] / wide.square().sum(0)[varies].amax().sqrt()
    marks = marks[marks[:, 0].argsort()]
    step = (marks[1:] - marks[:-1]).norm(dim=1)
    return (1 + int((step > ALIKE).sum())) / len(marks)


def _statistics(subject: Subject) -> Iterator[Item]:
    """Batch normalisers that use running statistics which no batch has made."""
    for name, module in subject.model.named_modules():
        if not isinstance(module, _BatchNorm) or module.training:
            continue
        seen = module.num_batches_tracked
        if is_untouched(module) and (seen is None or int(seen) == 0):
            yield Reading(name, q.BATCHES_SEEN, Estimate.exactly(0.0), NAME)


def _trained(subject: Subject, gradients: Gradients) -> Iterator[Item]:
    """Weights that are not trained, and gradients next to the weights they move."""
    for name, p in subject.model.named_parameters():
        if not p.requires_grad and p.is_floating_point():
            form = "matrix" if p.ndim > 1 else ""
            yield Reading(name, q.FROZEN_ENTRIES, Estimate.exactly(p.numel()), NAME, form)
    if subject.loss is None or subject.targets is None:
        yield Skipped("(all weights)", q.RELATIVE_GRADIENT, "no targets with a loss were given")
        return
    if not any(p.requires_grad for p in subject.model.parameters()):
        return
    try:
        grads = gradients()
    except Untaped:
        if not subject.model.training:  # which may take gradients in training mode alone
            raise
        for name, p in subject.model.named_parameters():
            if p.requires_grad and bool(p.any()):  # of a zero there is no ratio
                yield Reading(name, q.RELATIVE_GRADIENT, Estimate.exactly(0.0), NAME, OFF_TAPE)
        return
    yield from polyak_items(subject, sum(g.square for g in grads.values()))
    own = dict(subject.model.named_parameters())
    still_zero = frozenset(n for n, g in grads.items() if g.largest == 0)
    # a gradient of a part of the batch is of a random sum of outputs, if that must do
    model, batch, zero = subject.model, subject.part.batch, zero_weights(subject.model)
    whole = subject.part.count == subject.count
    task: dict[str, Any] = {"targets": subject.targets, "loss": subject.loss} if whole else {}
    freed = beside = later = frozenset[str]()

    def moved(**task: Any) -> frozenset[str]:
        moves = lambda name, gradient: name in still_zero and bool(gradient.any())
        found = reduced_gradients(model, batch, moves, **task, fused=True)
        return frozenset(name for name, is_moved in found.items() if is_moved)

    if still_zero and zero:
        # those without a gradient that would get one if no weight were zero: the others are cut
        # off, multiplied by constants, or not used
        with filled([*zero.values()]):
            freed = moved(**task)
    if still_zero and subject.output_rule != WHOLE:
        # a model may return more than what is studied, the values of an actor's critic say
        beside = moved()
    first = zero.keys() - still_zero
    if first and len(first) < len(zero):  # where none moves at once, none ever does
        # zero weights without a gradient that get one once other zeros have moved
        later = moving_zeros(model, batch, zero, first, **task) - first
    # how far a gradient moves a weight, or how large it is where that is zero
    for name, g in grads.items():
        size, norm = dense.norm(own[name].detach()), math.sqrt(g.square)
        ulps = 2 * dense.additions(own[name])
        if not math.isfinite(norm):
            yield Reading(name, q.NON_FINITE_ENTRIES, Estimate.exactly(g.bad), NAME)
        elif size > 0:
            form = BESIDE if norm == 0 and name in beside else ""
            form = BEHIND_ZEROS if norm == 0 and name in freed else form
            relative = Estimate.rounded(norm / size, ulps=ulps)
            yield Reading(name, q.RELATIVE_GRADIENT, relative, NAME, form)
        else:
            form = "bias" if name.endswith("bias") else ""
            form = "cut" if norm == 0 and name not in freed else form
            form = BEHIND_ZEROS if name in later else form
            estimate = Estimate.rounded(norm, ulps=ulps)
            yield Reading(name, q.GRADIENT_OF_A_ZERO_WEIGHT, estimate, NAME, form)


def _centred(rows: Tensor) -> Tensor:
    wide = rows.to(torch.float64, copy=True)
    return wide.sub_(wide.mean(0))


def _size(rows: Tensor) -> float:
    return math.sqrt(dense.square_sum(rows) / rows.numel())


VIEW = ProfileView("setup", setup_items)
