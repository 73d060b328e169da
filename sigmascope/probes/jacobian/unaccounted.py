"""Which trained parameters the formulas of `kernels` account for, and what the others add."""

from collections.abc import Collection, Mapping, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.probes.execution.double_backward import explaining
from sigmascope.probes.execution.layers import NORMALISERS, Statisticians, standardised
from sigmascope.probes.jacobian.backward import flat_output, on_tape
from sigmascope.probes.jacobian.ntk_shares import implied
from sigmascope.probes.samples.batches import Batch, pieces

ROUNDINGS = 100  # of what a gradient is added up from, that two ways to it may differ by
PIECE = 64  # samples on a tape at once

Groups = Mapping[str, Sequence[nn.Parameter]]


def unaccounted(
    model: nn.Module,
    batch: Batch,
    modules: dict[str, nn.Module],
    frozen: Statisticians,
    *,
    count: int,
    batch_dim: int,
) -> frozenset[str]:
    """Names of trained parameters whose gradient is not what the calls of layers explain.

    The gradient of a random sum of all outputs, by autograd, is compared with the sum over calls of
    what the formulas say. They differ for a parameter that is used outside its layer, or in another
    form (a parametrisation, a transposed or scaled weight), and for one that no layer owns.

    Args:
        model: Measured with the statistics in `frozen` held constant.
        batch: All samples.
        modules: Layers and normalisers, by name.
        frozen: Statistics of the batch normalisers on the whole batch.
        count: Samples in the batch.
        batch_dim: Where the batch has them.

    Raises:
        Refusal: If autograd cannot differentiate by a parameter.

    Cost: one forward and one backward pass.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    owned = list(trained.values())
    if not owned:
        return frozenset()
    gaps = {p: torch.zeros_like(p) for p in owned}
    sizes = dict.fromkeys(owned, 0.0)
    g = torch.Generator().manual_seed(0)
    for piece, part in pieces(batch, size=PIECE, batch_dim=batch_dim):
        with explaining(), on_tape(model, modules, frozen) as tape:
            flat = flat_output(model, piece, count=part.stop - part.start, batch_dim=batch_dim)
            tape.listening = False
            if not flat.requires_grad:
                continue
            seed = torch.randn(flat.shape, generator=g).to(flat)
            # a forward pass may call layers without gradients, or freeze weights
            calls = [c for c in tape.calls if c.output.requires_grad]
            asked = [p for p in owned if p.requires_grad]
            sources = [*(c.output for c in calls), *asked]
            grads = torch.autograd.grad(flat, sources, seed, allow_unused=True)
            for p, grad in zip(asked, grads[len(calls) :], strict=True):
                if grad is not None:
                    gaps[p] += grad
                    sizes[p] += _norm(grad)
            for one, delta in zip(calls, grads, strict=False):
                if delta is None or one.spoiled:
                    continue
                normal = None
                if isinstance(one.module, NORMALISERS):
                    normal = standardised(one.module, one.input, frozen.seen)
                written = one.output.detach()
                for p, said, size in implied(one.module, one.input, written, delta, normal=normal):
                    if p in gaps:
                        gaps[p] -= said
                        sizes[p] += size
    apart = lambda p: _norm(gaps[p]) > _room(p) * sizes[p]
    return frozenset(name for name, p in trained.items() if apart(p))


def _norm(t: Tensor) -> float:
    """In float64, of real numbers or complex ones."""
    return float((torch.view_as_real(t) if t.is_complex() else t).double().norm())


def _room(p: Tensor) -> float:
    return min(ROUNDINGS * torch.finfo(p.dtype).eps, 0.25)


def leftovers(
    model: nn.Module, unknown: Collection[str], uncovered: Collection[str]
) -> dict[str, list[nn.Parameter]]:
    """Trained parameters that no formula speaks for, by the module they are read at.

    A module is left out whole, with those that share a parameter with it.

    Args:
        model: The model.
        unknown: Names of parameters, as `unaccounted` gives them.
        uncovered: Layers of which nothing is known, with all parts.
    """
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    strange = {named[name] for name in unknown}
    places = dict(model.named_modules())
    for name in uncovered:
        strange.update(p for p in places[name].parameters() if p.requires_grad)
    owners: dict[nn.Parameter, str] = {}
    found: dict[str, list[nn.Parameter]] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        if p in strange:
            owner = owners.setdefault(p, _owner(name, uncovered))
            found.setdefault(owner, [])
    for name, p in named.items():  # what else is there of these modules
        owner = owners.get(p, _owner(name, uncovered))
        if owner in found:
            found[owner].append(p)
    return found


def _owner(parameter: str, uncovered: Collection[str]) -> str:
    module = parameter.rpartition(".")[0].split("parametrizations")[0].rstrip(".")
    inside = [u for u in uncovered if not u or module == u or module.startswith(f"{u}.")]
    return min(inside, key=len, default=module)


def exact_shares(
    model: nn.Module,
    batch: Batch,
    modules: dict[str, nn.Module],
    frozen: Statisticians,
    parameters: Sequence[nn.Parameter],
    *,
    count: int,
    batch_dim: int,
) -> Float64[Tensor, " n"]:
    """`Σ_k ‖∂ f_k(x_i) / ∂ parameters‖²` of every sample, for parameters used in any way.

    Args:
        model: Measured with the statistics in `frozen` held constant.
        batch: All samples.
        modules: What the pass over the batch listened to.
        frozen: Statistics of the batch normalisers on the whole batch.
        parameters: By which to differentiate.
        count: Samples in the batch.
        batch_dim: Where the batch has them.

    Cost: one forward pass of each sample by itself, and one backward pass for each of its outputs.
    """
    total = torch.zeros(count, dtype=torch.float64)
    if not parameters:
        return total
    for piece, part in pieces(batch, size=1, batch_dim=batch_dim):
        with explaining(), on_tape(model, modules, frozen):
            flat = flat_output(model, piece, count=1, batch_dim=batch_dim)[0]
            for k in range(len(flat) if flat.requires_grad else 0):
                grads = torch.autograd.grad(
                    flat[k], parameters, retain_graph=k < len(flat) - 1, allow_unused=True
                )
                squares = (g.double().square().sum() for g in grads if g is not None)
                total[part.start] += sum(float(s) for s in squares)
    return total
