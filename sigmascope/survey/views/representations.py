"""Readings of the representations: ranks, participation, size, dead units."""

import math
from collections.abc import Iterator

from scipy.special import stdtrit

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Item, Reading, SiteSpectrum, Skipped
from sigmascope.linalg import dense, frobenius_norm, measure
from sigmascope.models import OUTPUT, Subject
from sigmascope.survey.views.base import ProfileView
from sigmascope.survey.views.zeros import (
    BEHIND_ZEROS,
    TEACHABLE,
    dead_units,
    revived,
    teachable,
)

RAW = (q.MATRIX_RANK, q.SOFT_RANK, q.PARTICIPATION_RATIO, q.EFFECTIVE_RANK)
STEPS = 4  # of all weights, drawn, that are taken to see whether training can part the samples
ALIKE = 1e-2  # variation between samples, relative to their size, that is nearly none
RISK = 0.01  # chance that its interval misses
ROUNDINGS = 4  # of the model's own arithmetic that a row is allowed to carry


def representation_items(subject: Subject) -> Iterator[Item]:
    """What each layer reads: ranks, participation, size, dead units."""
    view: q.View = "representations"
    for call in subject.calls:
        if not call.input.is_floating_point():
            yield Skipped(call.site, view, "it reads token ids, not a representation")
        if call.site in subject.unfed:
            yield Reading(call.site, q.INPUTS_READ, Estimate.exactly(0.0), view)
    first = next((c.site for c in subject.calls), "")
    dead = dead_units(subject)
    dead = {site: share for site, share in dead.items() if site not in (first, OUTPUT)}
    freed, learn = revived(subject, dead), teachable(subject, dead)
    for site, both in subject.activations.items():
        for form, rows in both.forms().items():
            if not both.are_finite:
                bad = rows.numel() - int(rows.isfinite().sum())
                yield Reading(site, q.NON_FINITE_ENTRIES, Estimate.exactly(bad), view, form)
                yield Skipped(site, view, f"{bad} of {rows.numel()} entries are not finite")
                continue
            found = subject.spectra[site, form]
            yield SiteSpectrum(site, view, form, found.raw)
            raw, centred = measure(found.raw, RAW), measure(found.centred, (q.PARTICIPATION_RATIO,))
            yield Reading(site, q.MATRIX_RANK, raw.numbers[q.MATRIX_RANK], view, form)
            size = Estimate.rounded(found.mean_square, ulps=64)
            # Root mean square of the rows' deviation from their mean, over that of the rows. Known
            # up to the rounding of the model's own arithmetic, relative to the rows.
            part, whole = frobenius_norm(found.centred).value, frobenius_norm(found.raw).value
            rounding = False
            if whole > 0:
                value, noise = part / whole, ROUNDINGS * found.precision
                variation = Estimate(
                    value, max(value - noise, 0.0), value + noise, f"gram, rounding {noise:.1g}"
                )
                rounding = variation.low <= 0
                yield Reading(site, q.RELATIVE_VARIATION, variation, view, form)
            yield Reading(site, q.MEAN_SQUARE, size, view, form)
            yield Reading(site, q.SOFT_RANK, raw.numbers[q.SOFT_RANK], view, form)
            for quantity, measures, name in (
                (q.PARTICIPATION_RATIO, raw, q.PARTICIPATION_RATIO),
                (q.CENTRED_PARTICIPATION_RATIO, centred, q.PARTICIPATION_RATIO),
                (q.EFFECTIVE_RANK, raw, q.EFFECTIVE_RANK),
            ):
                if name in measures.undefined:
                    same = "all rows are equal" if found.mean_square > 0 else "it is exactly zero"
                    yield Skipped(site, f"{quantity} ({form})", same)
                elif measures is centred and rounding:
                    yield Skipped(site, f"{quantity} ({form})", "rows differ by rounding only")
                else:
                    yield Reading(site, quantity, measures.numbers[name], view, form)
        if site in dead:
            form = BEHIND_ZEROS if site in freed else TEACHABLE if site in learn else ""
            yield Reading(site, q.DEAD_UNITS, Estimate.exactly(dead[site]), view, form)
        if both.samples is None:
            shape = "" if both.channels is None else f" {tuple(both.channels.shape)}"
            yield Skipped(site, view, f"its rows{shape} cannot be told apart by sample")
    yield from _parting(subject)


def _parting(subject: Subject) -> Iterator[Item]:
    """Whether a step of training parts samples whose outputs are nearly the same.

    Where a branch is all but closed when training begins, as of a class token behind layer scales
    of 1e-5, outputs are as alike as those of a network that has lost its input; the first steps
    open it.
    """
    rows = subject.scene.split(subject.output.detach())
    if rows is None or len(rows) < 2 or not dense.is_finite(rows):
        return
    rows = rows.double()
    size = float(rows.norm())
    if not size > 0 or float((rows - rows.mean(0)).norm()) > ALIKE * size:
        return
    try:
        subject.require_gradients(do="pass fewer samples")
        moved = subject.tangents(STEPS)
    except Refusal as reason:
        yield Skipped(OUTPUT, q.TANGENT_VARIATION, str(reason))
        return
    sizes = moved.flatten(1).norm(dim=1)
    if not bool((sizes > 0).all() and sizes.isfinite().all()):
        why = "what a step of all weights changes in the output is zero, or not finite"
        yield Skipped(OUTPUT, q.TANGENT_VARIATION, why)
        return
    each = (moved - moved.mean(1, keepdim=True)).flatten(1).norm(dim=1) / sizes
    reach = float(stdtrit(STEPS - 1, 1 - RISK / 2)) * float(each.std()) / math.sqrt(STEPS)
    mean = float(each.mean())
    how = f"autograd, {STEPS} random steps"
    found = Estimate(mean, max(mean - reach, 0.0), min(mean + reach, 1.0), how, RISK)
    yield Reading(OUTPUT, q.TANGENT_VARIATION, found, "representations")


VIEW = ProfileView("representations", representation_items, differentiates=False)
