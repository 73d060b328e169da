"""Readings of balances: how unbalanced, how near rank one, how aligned."""

from collections.abc import Iterable, Iterator

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Item, Reading, Skipped, Spectrum
from sigmascope.linalg import stable_rank
from sigmascope.models import Subject, Weight
from sigmascope.survey.views.base import ProfileView
from sigmascope.theory import le2022

NAME: q.View = "balances"


def balance_items(subject: Subject) -> Iterator[Item]:
    """Every balance, every weight's distance from rank one, every linear pair's alignment."""
    if not any(p.requires_grad for p in subject.model.parameters()):
        yield Skipped("(all layers)", NAME, "no parameter is trained")
        return
    found = le2022.conservation.Conserved.of(subject)
    parameters = dict(subject.model.named_parameters())
    for invariant in found.invariants:
        if invariant.kind not in ("column sum", "no gradient", "norm"):
            size = invariant.size(parameters, parameters)
            value = float(invariant.value(parameters).abs().max()) / size if size > 0 else 0.0
            estimate = Estimate.rounded(value, ulps=64)
            yield Reading(" ~ ".join(invariant.tensors), q.IMBALANCE, estimate, NAME)
    yield from rank_one_readings(subject.weight_spectra)
    # `⟨v, u⟩²` of layers with nothing but linear maps between them
    for below, above, pair in le2022.linear_pairs(subject):
        yield Reading(f"{below} ~ {above}", q.ALIGNMENT, pair.alignment, NAME)
    balanced = {n for i in found.invariants for n in i.tensors}
    for name in dict.fromkeys(f.tensor for f in found.fixed if f.tensor not in balanced):
        why = dict.fromkeys(f"{f.side}: {f.why}" for f in found.fixed if f.tensor == name)
        yield Skipped(name, NAME, "; ".join(why))


def rank_one_readings(found: Iterable[tuple[Weight, Spectrum]]) -> Iterator[Reading]:
    """`‖W‖² / ‖W‖_F²` of every weight that could have a rank above one."""
    for weight, s in found:
        if min(weight.shape) > 1 and float(s.sigma[0]) > 0:
            r = stable_rank(s)
            ratio = Estimate(1 / r.value, 1 / r.high, min(1 / r.low, 1.0), r.how, r.risk)
            yield Reading(weight.site, q.OPERATOR_TO_FROBENIUS_RATIO, ratio, NAME, weight.form)


VIEW = ProfileView("balances", balance_items)
