"""Readings of what outputs depend on, and on what they should not: samples, modes, statistics."""

from collections.abc import Callable, Iterator

from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope import quantities as q
from sigmascope.linalg import sums
from sigmascope.probes import Subject
from sigmascope.probes.execution import Dropped, module_name, uses_batch_statistics
from sigmascope.records import Estimate, Item, Reading, View
from sigmascope.survey.coverage import differentiated, tried
from sigmascope.survey.views.repeats import repeat_items

VIEW: View = "setup"


def dependence_items(subject: Subject, places: Callable[[], tuple[Dropped, ...]]) -> Iterator[Item]:
    """Samples that mix, layers without use or activation, dropout, statistics that do not fit.

    Args:
        subject: What is measured.
        places: Where dropout takes numbers away, when it is asked for.
    """
    yield from tried(repeat_items(subject), "samples that differ")
    yield from tried(_mixed(subject), "samples that mix")
    yield from tried(_unused(subject), "layers without use")
    yield from tried(_dropped(places), "dropout")
    yield from tried(_linear(subject), "layers without an activation between")
    yield from tried(_misfit(subject), "running statistics")


def _linear(subject: Subject) -> Iterator[Item]:
    for pair in subject.linear_pairs:
        spare = Estimate.exactly(pair.spare)
        yield Reading(pair.second, q.SPARE_WIDTH, spare, VIEW, f"after {pair.first}")


def _mixed(subject: Subject) -> Iterator[Item]:
    extent = subject.mixed
    if extent is not None:
        form = "pairs" if extent.compares else "rows"
        change = Estimate.rounded(extent.change, ulps=2**20)
        yield Reading("(model)", q.DEPENDENCE_ON_OTHER_SAMPLES, change, VIEW, form)


def _unused(subject: Subject) -> Iterator[Item]:
    """Layers to be trained that the model neither calls nor applies in another way."""
    called = {module_name(c.site) for c in subject.calls}
    shared = {id(p) for name in called for p in subject.modules[name].parameters()}
    outside = set(subject.uses_outside) | differentiated(subject)
    for name, module in subject.modules.items():
        own = {f"{name}.{key}": p for key, p in module.named_parameters() if p.requires_grad}
        elsewhere = outside & own.keys() or any(id(p) in shared for p in own.values())
        if own and name not in called and not elsewhere:
            yield Reading(name, q.TIMES_CALLED, Estimate.exactly(0.0), VIEW)


def _dropped(places: Callable[[], tuple[Dropped, ...]]) -> Iterator[Item]:
    for place in places():
        share = Estimate.exactly(place.share)
        yield Reading(place.site or "(model)", q.DROPPED_SHARE, share, VIEW)


def _misfit(subject: Subject) -> Iterator[Item]:
    """Mean squares of what batch normalisers in evaluation mode make of this batch."""
    held = {module_name(c.site) for c in subject.normalised if uses_batch_statistics(c.module)}
    if held:
        yield Reading("(model)", q.BATCH_STATISTICS, Estimate.exactly(len(held)), VIEW)
    for call in subject.normalised:
        module, x = call.module, call.input
        if not isinstance(module, _BatchNorm) or module.training or call.spoiled:
            continue
        mean, variance = module.running_mean, module.running_var
        if mean is None or variance is None or not bool(variance.any()):
            continue
        if not untouched(module):
            size = _normalised_square(x, mean, variance, module.eps)
            yield Reading(call.site, q.NORMALISED_SQUARE, Estimate.rounded(size, ulps=2**20), VIEW)


def untouched(module: _BatchNorm) -> bool:
    """Whether running statistics are those that a normaliser was built with."""
    mean, variance = module.running_mean, module.running_var
    if mean is None or variance is None:
        return False
    return not bool(mean.any()) and bool((variance == 1).all())


def _normalised_square(x: Tensor, mean: Tensor, variance: Tensor, eps: float) -> float:
    """`E[(x - m)² / v]`, the median over channels: 1 where the statistics are those of `x`."""
    columns = x.detach().double().transpose(0, 1).flatten(1)
    centre, scale = mean.double()[:, None], variance.double() + eps
    return sums.median((columns - centre).square().mean(1) / scale)
