"""What batch normalisation does in a model: it is switched in copies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.diagnosis.remedies.base import Inapplicable
from sigmascope.linalg import participation_ratio
from sigmascope.linalg.spectra import spectrum
from sigmascope.networks import UncentredBatchNorm
from sigmascope.probes import OUTPUT, Subject
from sigmascope.probes.execution import (
    duplicate,
)
from sigmascope.probes.samples import Batch
from sigmascope.records import Estimate


@final
@dataclass(frozen=True, slots=True)
class NormalisationEffect:
    """Participation ratio of what the last layer reads, under three settings of the normalisers.

    Attributes:
        as_is: As the model is.
        uncentred: Every batch normaliser divides by the root mean square and subtracts nothing.
        removed: Every batch normaliser is left out.
        count: How many there are.
    """

    as_is: Estimate
    uncentred: Estimate
    removed: Estimate
    count: int


def normalisation_effect(model: nn.Module, batch: Batch) -> NormalisationEffect:
    """Measure what batch normalisation does in a model, by switching it in copies.

    Args:
        model: Stays as it is.
        batch: As for `survey.profile`.

    Raises:
        Inapplicable: If the model has no batch normaliser.

    Source:
        Daneshmand et al. 2020, Sec. 2 and Fig. 7.
    """
    norms = [n for n, m in model.named_modules() if isinstance(m, _BatchNorm)]
    if not norms:
        raise Inapplicable("The model has no batch normaliser to switch.")
    return NormalisationEffect(
        _last_ratio(model, batch),
        _last_ratio(_switched(model, norms, _uncentred), batch),
        _last_ratio(_switched(model, norms, lambda _: nn.Identity()), batch),
        len(norms),
    )


def _switched(
    model: nn.Module, names: list[str], change: Callable[[_BatchNorm], nn.Module]
) -> nn.Module:
    copy = duplicate(model)
    for name in names:
        parent, _, last = name.rpartition(".")
        old = copy.get_submodule(name)
        assert isinstance(old, _BatchNorm)
        setattr(copy.get_submodule(parent), last, change(old).train(old.training))
    return copy


def _uncentred(old: _BatchNorm) -> nn.Module:
    new = UncentredBatchNorm(old.num_features, eps=old.eps, affine=old.affine)
    own = dict(old.named_parameters())
    with torch.no_grad():
        for name, parameter in new.named_parameters():
            parameter.copy_(own[name])
        if new.running_var is not None and old.running_var is not None:
            mean = torch.zeros(()) if old.running_mean is None else old.running_mean
            new.running_var.copy_(old.running_var + mean.square())
    like = next(iter(own.values()), None)
    return new if like is None else new.to(like.device, like.dtype)


def _last_ratio(model: nn.Module, batch: Batch) -> Estimate:
    """Of what the last layer reads."""
    subject = Subject(model, batch)
    rows = [r.samples for site, r in subject.activations.items() if site != OUTPUT]
    last = next((r for r in reversed(rows) if r is not None), None)
    if last is None or not float(last.abs().amax()) > 0:
        return Estimate(1.0, 1.0, float("inf"), "the last representation is zero")
    return participation_ratio(spectrum(last.double(), route="gram"))
