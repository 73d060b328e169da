"""Inserting batch normalisation, and taking it out to see what it does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from sigmascope.core.records import Estimate, Kind
from sigmascope.diagnosis.remedies.base import Around, Inapplicable, Remedy, calls, no_fast_path
from sigmascope.diagnosis.rules.gradients import EXPLODING_ADJOINTS, VANISHING_ADJOINTS
from sigmascope.diagnosis.rules.representations import (
    DEAD_UNITS,
    DIRECTIONAL_GRADIENT_VANISHING,
    EXPLODING_SIGNAL,
    LOUD_OUTPUT,
    RANK_COLLAPSE,
    SATURATED_UNITS,
    VANISHING_SIGNAL,
)
from sigmascope.diagnosis.rules.weights import WEIGHT_SCALE
from sigmascope.linalg import participation_ratio
from sigmascope.linalg.spectra import spectrum
from sigmascope.models import OUTPUT, Subject
from sigmascope.models.layers import Call, called, is_repeated, module_name, recording
from sigmascope.models.networks import UncentredBatchNorm
from sigmascope.models.samples import Batch, run
from sigmascope.models.state import duplicate, still

NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
MOMENTUM = 0.1  # of running statistics, PyTorch's default
OTHERS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.instancenorm._InstanceNorm)


class Normalised(Around):
    """A layer and the normaliser after it, in place of the layer."""

    def __init__(self, layer: nn.Module, norm: nn.Module) -> None:
        super().__init__(layer)
        self.norm = norm

    def forward(self, input: Tensor) -> Tensor:
        """What the layer writes, normalised."""
        return self.norm(self.layer(input))


@final
@dataclass(frozen=True, slots=True)
class BatchNormalisation(Remedy):
    """Normalise what each hidden layer writes, over the batch, before its activation.

    Every linear or convolution layer but the last, if no normaliser reads its output already. A
    model in evaluation mode gets statistics from the batches.

    Attributes:
        centred: Whether the mean is subtracted too.
    """

    name: ClassVar[str] = "batch-norm"
    cures: ClassVar[tuple[Kind, ...]] = (
        RANK_COLLAPSE,
        DIRECTIONAL_GRADIENT_VANISHING,
        VANISHING_SIGNAL,
        EXPLODING_SIGNAL,
        VANISHING_ADJOINTS,
    )
    says: ClassVar[str] = "Normalise the output of each hidden layer over the batch."
    unless: ClassVar[str] = "a normaliser reads it already; sequences; shared layers"
    source: ClassVar[str] = "Daneshmand et al. 2020, Theorem 2"
    rebuilds: ClassVar[bool] = True

    centred: bool = True

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        found = bare(model, batches[0])
        if not found:
            raise Inapplicable(
                "Batch normalisation needs hidden linear or convolution layers whose output "
                "nothing normalises and is `[samples, units]` or an image, got none. It is there "
                "already, or the model works on sequences: use LayerNorm there."
            )
        norms = list[_BatchNorm]()
        for call in found:
            written = call.output
            kind = NORMS[written.ndim] if self.centred else UncentredBatchNorm
            norms.append(kind(written.shape[1]).to(written.device, written.dtype))
            _insert(model, call, norms[-1])
        # their running statistics are the mean over the batches
        modes = {m: m.training for m in model.modules()}
        model.eval()
        for norm in norms:
            norm.train()
            norm.momentum = None  # a mean over all that it sees
        with torch.no_grad():
            for batch in batches:
                called(model, batch)
        for norm in norms:
            norm.momentum = MOMENTUM
        for module, mode in modes.items():
            module.training = mode


@final
@dataclass(frozen=True, slots=True)
class LayerNormalisation(Remedy):
    """Normalise what each hidden layer writes, sample by sample, before its activation.

    Every linear layer but the last gets a LayerNorm over its features, every convolution a
    GroupNorm of one group, if no normaliser reads its output already.
    """

    name: ClassVar[str] = "layer-norm"
    cures: ClassVar[tuple[Kind, ...]] = (
        VANISHING_SIGNAL,
        EXPLODING_SIGNAL,
        VANISHING_ADJOINTS,
        EXPLODING_ADJOINTS,
        WEIGHT_SCALE,
        SATURATED_UNITS,
        DEAD_UNITS,
        LOUD_OUTPUT,
    )
    says: ClassVar[str] = "Normalise the output of each hidden layer over its features."
    unless: ClassVar[str] = "a normaliser reads it already"
    source: ClassVar[str] = "Ba, Kiros & Hinton 2016, Sec. 3; Wu & He 2018 (one group)"
    rebuilds: ClassVar[bool] = True

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        found = bare(model, batches[0], sequences=True)
        if not found:
            raise Inapplicable(
                "Layer normalisation needs hidden linear or convolution layers whose output "
                "nothing normalises, each called once, got none."
            )
        for call in found:
            shape = call.output.shape
            norm = nn.GroupNorm(1, shape[1]) if len(shape) > 3 else nn.LayerNorm(shape[-1])
            _insert(model, call, norm.to(call.output.device, call.output.dtype))
        no_fast_path(model)


def bare(model: nn.Module, batch: Batch, *, sequences: bool = False) -> tuple[Call, ...]:
    """Calls of hidden layers whose output could be normalised, and is not.

    Args:
        model: The model.
        batch: What it is run on.
        sequences: Whether linear layers on sequences count, which batch statistics do not suit.
    """
    normalisers = {n: m for n, m in model.named_modules() if isinstance(m, (_BatchNorm, *OTHERS))}
    with still(model), torch.no_grad(), recording(normalisers) as tape:
        run(model, batch)
    read = [c.input for c in tape.calls]
    once = [c for c in calls(model, batch) if isinstance(c.module, nn.Linear | _ConvNd)]
    twice = {c.module for c in once if is_repeated(c.site)}
    return tuple(
        c
        for c in once[:-1]
        if c.module not in twice
        and c.output.ndim in (NORMS if sequences or isinstance(c.module, _ConvNd) else (2,))
        and not any(x.shape == c.output.shape and torch.equal(x, c.output) for x in read)
    )


def _insert(model: nn.Module, call: Call, norm: nn.Module) -> None:
    parent, _, name = module_name(call.site).rpartition(".")
    norm.train(call.module.training)
    setattr(model.get_submodule(parent), name, Normalised(call.module, norm))


# ------------------------------------------------------------------------------
# What batch normalisation does in a model: it is switched in copies.


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
