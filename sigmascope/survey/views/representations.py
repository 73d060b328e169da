"""Readings of the representations: ranks, participation, size, dead units."""

from collections.abc import Iterator, Mapping

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Item, Reading, SiteSpectrum, Skipped
from sigmascope.linalg import dense, frobenius_norm, measure
from sigmascope.models import OUTPUT, Subject
from sigmascope.survey.views.base import ProfileView
from sigmascope.survey.views.setup import BEHIND_ZEROS, filled, moving_zeros, zero_weights

RAW = (q.MATRIX_RANK, q.SOFT_RANK, q.PARTICIPATION_RATIO, q.EFFECTIVE_RANK)
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
    dead = _dead_units(subject)
    dead = {site: share for site, share in dead.items() if site not in (first, OUTPUT)}
    freed = _freed(subject, dead)
    for site, both in subject.activations.items():
        for form, rows in both.forms().items():
            if not dense.is_finite(rows):
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
            variation = None
            if whole > 0:
                value, noise = part / whole, ROUNDINGS * found.precision
                variation = Estimate(
                    value, max(value - noise, 0.0), value + noise, f"gram, rounding {noise:.1g}"
                )
            if variation is not None:
                yield Reading(site, q.RELATIVE_VARIATION, variation, view, form)
            yield Reading(site, q.MEAN_SQUARE, size, view, form)
            yield Reading(site, q.SOFT_RANK, raw.numbers[q.SOFT_RANK], view, form)
            rounding = variation is not None and variation.low <= 0
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
            form = BEHIND_ZEROS if site in freed else ""
            yield Reading(site, q.DEAD_UNITS, Estimate.exactly(dead[site]), view, form)
        if both.samples is None:
            shape = "" if both.channels is None else f" {tuple(both.channels.shape)}"
            yield Skipped(site, view, f"its rows{shape} cannot be told apart by sample")


def _dead_units(subject: Subject) -> dict[str, float]:
    """Share of the units at each site that are zero on every sample."""
    units = {s: b.samples if b.channels is None else b.channels
             for s, b in subject.activations.items()}  # fmt: skip
    return {s: float((u == 0).all(0).double().mean()) for s, u in units.items() if u is not None}


def _freed(subject: Subject, dead: Mapping[str, float]) -> set[str]:
    """Sites with fewer dead units once weights that start at zero, and move, have moved.

    Cost: a few forward and backward passes, where units are dead and a weight is zero.
    """
    zero = zero_weights(subject.model)
    if not zero or not any(dead.values()):
        return set()
    batch, first = subject.part.batch, subject.scene.batch_dim
    moved = moving_zeros(subject.model, batch, zero)  # by a sum of outputs
    with filled([zero[name] for name in moved]):
        now = _dead_units(Subject(subject.model, batch, outputs=1, batch_dim=first))
    return {site for site, share in dead.items() if now.get(site, share) < share}


VIEW = ProfileView("representations", representation_items, differentiates=False)
