"""Readings of sequence models: what targets are copies of, later inputs, padding."""

from collections.abc import Iterator

import torch
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.linalg import sums
from sigmascope.probes import Subject
from sigmascope.probes.sequences import Copied, copied, counted, ends, later_inputs, offset, ordered
from sigmascope.records import Estimate, Item, Reading, View

VIEW: View = "setup"
MOSTLY = 0.5  # of the targets, that must be the next inputs for an order to be asked for


def sequence_items(subject: Subject) -> Iterator[Item]:
    """Where targets stand among the inputs, whether outputs see them, and what fills the rows."""
    loss, targets, output = subject.loss, subject.targets, subject.output
    if loss is None or not isinstance(targets, Tensor) or subject.batch_dim != 0:
        return
    if not sums.is_finite(output) or not ordered(output, targets, subject.count):
        return
    looks = counted(loss, output, targets)
    if looks is None or not bool(looks.any()):
        return
    shift = offset(loss, output, targets)
    if targets.ndim == 2 and not targets.is_floating_point():
        yield from _padding(targets, looks, shift or 0)
    if shift is None:
        return
    pairs = copied(subject.batch, targets, looks=looks, shift=shift)
    for pair in pairs:
        site = f"(input {pair.name})" if pair.name else "(input)"
        for quantity, share in ((q.TARGETS_THAT_ARE_INPUTS, pair.same), (q.NEXT_INPUTS, pair.next)):
            yield Reading(site, quantity, Estimate.exactly(share), VIEW)
        chance = Estimate.exactly(pair.chance)
        yield Reading(site, q.CHANCE_COPIES, chance, VIEW)
        if pair.next > max(MOSTLY, 2 * pair.chance):
            yield from _later(subject, pair, site)


def _later(subject: Subject, pair: Copied, site: str) -> Iterator[Item]:
    change = later_inputs(subject.scene, subject.output, name=pair.name)
    if change is not None:
        estimate = Estimate.rounded(change, ulps=2**20)
        yield Reading(site, q.DEPENDENCE_ON_LATER_INPUTS, estimate, VIEW)


def _padding(targets: Tensor, looks: Tensor, shift: int) -> Iterator[Item]:
    """Targets that fill the ends of rows and count in the loss."""
    id_, where = ends(targets)
    aligned = torch.zeros_like(looks)
    width = min(looks.shape[1], where.shape[1] - shift)
    aligned[:, :width] = where.cpu()[:, shift : shift + width]
    share = float((aligned & looks).sum()) / float(looks.sum())
    if share > 0:
        yield Reading("(targets)", q.COUNTED_PADDING, Estimate.exactly(share), VIEW, f"id {id_}")
