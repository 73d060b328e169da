"""The largest curvature of the loss, against the largest that the learning rate bears."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, NAdam, Optimizer

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate
from sigmascope.linalg.krylov import Operator
from sigmascope.models import Subject
from sigmascope.watching.probes.base import Found, Place, Probe, nothing, steps_as
from sigmascope.watching.sinks import WHOLE, Column

# ------------------------------------------------------------------------------
# Learning rates as optimizers apply them: per coordinate, and what momentum makes of them.
#
# A step of plain descent on a quadratic grows where the rate is above `2 / λ`. With heavy-ball
# momentum `β` that is `2 (1 + β) / λ`; Adam's averaged gradient makes it `2 (1 + β₁) / ((1 - β₁)
# λ)`, with `λ` of the Hessian in coordinates scaled by the roots of its second moments (Cohen et
# al. 2022, Sec. 2). With a rate `rᵢ` for each coordinate `λ` is that of `√r H √r`.


AVERAGED = (Adam, NAdam)  # AdamW is an Adam


@dataclass(frozen=True, slots=True)
class Rate:
    """What a step multiplies the gradient of one parameter by, and how much of it is borne.

    Attributes:
        roots: Root of the rate of each entry; one number where all are the same.
        borne: Largest eigenvalue of `√r H √r` at which a quadratic does not diverge.
    """

    roots: Tensor
    borne: float


def rate_of(optimizer: Optimizer, group: dict[str, Any], parameter: Tensor) -> Rate | None:
    """The rate of a parameter; None of an optimizer whose steps are not known here.

    Args:
        optimizer: Of torch.
        group: The parameter's.
        parameter: Any that it trains.
    """
    rate = float(group["lr"])
    if steps_as(optimizer, (SGD,)):
        return Rate(torch.tensor(rate).sqrt(), 2 * (1 + float(group["momentum"])))
    state = optimizer.state.get(parameter, {})
    if not steps_as(optimizer, AVERAGED) or "exp_avg_sq" not in state:
        return None
    first, second = group["betas"]
    steps = float(state["step"])
    moments = state.get("max_exp_avg_sq", state["exp_avg_sq"]) / (1 - second**steps)
    roots = (rate / (moments.sqrt() + group["eps"])).sqrt()
    return Rate(roots, 2 * (1 + first) / (1 - first))


PRODUCTS = 3  # a turn
FLOOR = 1e-30


# ------------------------------------------------------------------------------
# The probe of sharpness.


@dataclass(frozen=True, slots=True)
class ProbeBatch:
    """What is measured on, besides the training batches.

    Attributes:
        batch: Inputs.
        targets: Theirs.
        loss: `loss(output, targets)`.
    """

    batch: Any
    targets: Any = None
    loss: Any = None


class Sharpness(Probe):
    """Largest eigenvalue of the Hessian of the probe batch's loss, of all layers and of one.

    The vectors of the turn before are where a turn begins, so that some products follow an
    eigenvalue that moves slowly. A Ritz value is a lower bound of the largest eigenvalue.

    Args:
        model: The user's own module.
        places: The trained layers.
        probe: What it is measured on; with targets and loss.
        generator: Of the first vectors.
    """

    name = q.SHARPNESS
    share = 0.3
    first = 2

    def __init__(
        self,
        model: nn.Module,
        places: Sequence[Place],
        probe: ProbeBatch,
        generator: torch.Generator,
    ) -> None:
        self._model, self._places, self._probe = model, places, probe
        self._generator = generator
        self._vectors: dict[str, Tensor] = {}
        self._turn = 0
        self._found: list[Found] = []

    def expected(self) -> float:
        return 0.05

    def local(self) -> Tensor:
        """Measured here: every process has the same weights and the same probe batch."""
        probe = self._probe
        subject = Subject(self._model, probe.batch, targets=probe.targets, loss=probe.loss)
        curved = subject.curvature("hessian")
        found: list[Found] = []
        with curved.held():
            parameters = dict(self._model.named_parameters())
            at, spans = 0, {}
            for name in curved.parameters:
                size = parameters[name].numel()
                spans[name] = slice(at, at + size)
                at += size
            sites = [WHOLE, self._places[self._turn % len(self._places)].site]
            optimizers: dict[Optimizer, None] = {p.optimizer: None for p in self._places}
            applied = {
                id(p): rate_of(optimizer, group, p)
                for optimizer in optimizers
                for group in optimizer.param_groups
                for p in group["params"]
            }
            rates = {key: rate for key, rate in applied.items() if rate is not None}
            for site in dict.fromkeys(sites):
                mine = {n for n in spans if site in (WHOLE, n.rpartition(".")[0] or WHOLE)}
                chosen = {n: rates.get(id(parameters[n])) for n in mine}
                if mine and all(r is not None for r in chosen.values()):
                    scale = _scale(curved.operator.shape[1], spans, chosen)
                    borne = min(r.borne for r in chosen.values() if r is not None)
                    value = self._leading(curved.operator, scale, f"{site} scaled")
                    ratio = Estimate(value / borne, value / borne, float("inf"), _how())
                    found.append(Column.of(q.RATE_TIMES_SHARPNESS, [(site, ratio)]))
                flat = _scale(curved.operator.shape[1], spans, dict.fromkeys(mine))
                value = self._leading(curved.operator, flat, site)
                found.append(
                    Column.of(q.SHARPNESS, [(site, Estimate(value, value, float("inf"), _how()))])
                )
        self._found = found
        self._turn += 1
        return nothing()

    def read(self, total: Tensor) -> Iterator[Found]:
        found, self._found = self._found, []
        yield from found

    def _leading(self, operator: Operator, scale: Tensor, key: str) -> float:
        """The largest Ritz value of some Krylov steps from the vector of the turn before."""
        v = self._vectors.get(key)
        if v is None or not bool(v.isfinite().all()):
            v = torch.randn(len(scale), generator=self._generator, dtype=torch.float64)
        v = v * (scale > 0)
        basis, images = [], []
        for _ in range(PRODUCTS):
            for _ in range(2):  # twice is enough
                for b in basis:
                    v = v - b * (b @ v)
            size = float(v.norm())
            if size <= FLOOR:
                break
            basis.append(v / size)
            scaled = (scale * basis[-1])[:, None].to(operator.like.device, operator.like.dtype)
            product = operator.apply(scaled)[:, 0].double().cpu()
            images.append(scale * product)
            v = images[-1]
        if not basis:
            return 0.0
        Q, HQ = torch.stack(basis, 1), torch.stack(images, 1)
        T = Q.mT @ HQ
        values, vectors = torch.linalg.eigh((T + T.mT) / 2)
        self._vectors[key] = Q @ vectors[:, -1]
        return float(values[-1])


def _how() -> str:
    return f"ritz value of {PRODUCTS} products from the last vector, a lower bound"


def _scale(size: int, spans: dict[str, slice], rates: dict[str, Rate | None]) -> Tensor:
    """The root of every entry's rate, or 1; 0 of parameters that are not looked at."""
    scale = torch.zeros(size, dtype=torch.float64)
    for name, rate in rates.items():
        span = spans[name]
        roots = torch.ones(()) if rate is None else rate.roots.detach().double().cpu().flatten()
        scale[span] = roots.expand(span.stop - span.start)
    return scale
