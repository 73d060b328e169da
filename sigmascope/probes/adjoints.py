"""The derivative of the output with respect to every preactivation, in one sweep."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.probes import kernels
from sigmascope.probes.batches import Batch, as_tensor, call, pieces
from sigmascope.probes.layers import NORMALISERS
from sigmascope.probes.normalisers import Statisticians, standardised
from sigmascope.probes.refusals import Refusal
from sigmascope.probes.rows import samples_first
from sigmascope.probes.stillness import still
from sigmascope.probes.tapes import Call, recording

MEMORY_FLOOR = 2**22  # adjoint entries that are always held at once: 32 MiB in float64


@dataclass(frozen=True, slots=True)
class Adjoint:
    """`∂ f_k(x_i) / ∂ z` at one layer, reduced to what is asked of it.

    Attributes:
        site: The layer that wrote the preactivation z.
        sigma: Singular values of the Jacobian `[outputs, width]` of every sample, descending;
            empty for a normaliser.
        norm_sq: Squared norm of its row k for every sample; empty for a normaliser.
        share_sq: `‖∂ f_k(x_i) / ∂ parameters‖²` for this call of the layer, or None where the kind
            of layer is not covered.
        width: Entries of the preactivation of one sample.
    """

    site: str
    sigma: Float64[Tensor, "n r"]
    norm_sq: Float64[Tensor, "n j"]
    share_sq: Float64[Tensor, "n k"] | None
    width: int


@dataclass(slots=True)
class _Sums:
    """One site's pieces of the batch, until they are put together."""

    width: int
    sigma: list[Tensor] = field(default_factory=list)
    norm_sq: list[Tensor] = field(default_factory=list)
    share_sq: list[Tensor | None] = field(default_factory=list)

    def whole(self, site: str) -> Adjoint:
        shares = [s for s in self.share_sq if s is not None]
        covered = torch.cat(shares) if len(shares) == len(self.share_sq) else None
        none = torch.zeros(0 if covered is None else len(covered), 0, dtype=torch.float64)
        sigma = torch.cat(self.sigma) if self.sigma else none
        norm_sq = torch.cat(self.norm_sq) if self.norm_sq else none
        return Adjoint(site, sigma, norm_sq, covered, self.width)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Adjoints of every layer.

    Attributes:
        adjoints: By site, in the order of calls; normalisers with parameters among them.
        outputs: Columns of the flattened output that were differentiated.
        total: Columns that there are.
        silent: Sites that the output does not depend on, or that cannot be split into samples.
        sketches: For modules whose share no formula covers, `‖Σ_i ±∂ f_k(x_i)/∂ parameters‖²`
            with random signs, by module: one row per piece of the batch, one column per output.
            Its mean over the signs is the sum of the samples' squared norms.
    """

    adjoints: dict[str, Adjoint]
    outputs: tuple[int, ...]
    total: int
    silent: dict[str, str]
    sketches: dict[str, Float64[Tensor, "pieces k"]]


def chosen_outputs(
    total: int, wanted: int | Sequence[int], generator: torch.Generator
) -> tuple[int, ...]:
    """The outputs to differentiate: those named, all if they are few, else a random sample."""
    if not isinstance(wanted, int):
        bad = [k for k in wanted if not 0 <= k < total]
        if bad or not wanted:
            raise Refusal(
                f"`outputs` must name columns of the output, from 0 to {total - 1}, got "
                f"{bad or 'none'}. Pass a number to have that many sampled."
            )
        return tuple(wanted)
    if wanted < 1:
        raise Refusal(f"`outputs` must be at least 1, got {wanted}. Leave it out for 16.")
    if total <= wanted:
        return tuple(range(total))
    return tuple(sorted(torch.randperm(total, generator=generator)[:wanted].tolist()))


def sweep(
    model: nn.Module,
    batch: Batch,
    modules: dict[str, nn.Module],
    frozen: Statisticians,
    *,
    outputs: int | Sequence[int],
    count: int,
    entries: int,
    batch_dim: int,
    uncovered: Collection[str] = (),
    generator: torch.Generator,
) -> Sweep:
    """One forward and one backward pass per output, over the batch in pieces that fit in memory.

    Args:
        model: Measured with the statistics in `frozen` held constant.
        batch: All samples.
        modules: Layers and normalisers to read at, by name.
        frozen: Statistics of the batch normalisers on the whole batch.
        outputs: How many outputs to differentiate, or which.
        count: Samples in the batch.
        entries: What the modules write on the whole batch, for choosing the size of a piece.
        batch_dim: Where the batch has its samples.
        uncovered: Modules whose share of the tangent kernel is to be sketched with random signs.
        generator: Draws the sample of outputs, and the signs.
    """
    parameters = sum(p.numel() for p in model.parameters())
    wanted = outputs if isinstance(outputs, int) else len(outputs)
    budget = max(MEMORY_FLOOR, 3 * (parameters + entries))
    size = max(1, min(count, budget * count // max(1, entries * wanted)))
    sums: dict[str, _Sums] = {}
    silent: dict[str, str] = {}
    sketched = {name: list(_trained(modules[name])) for name in uncovered}
    sketches: dict[str, list[Tensor]] = {name: [] for name, owned in sketched.items() if owned}
    chosen: tuple[int, ...] = ()
    total = 0
    for piece, part in pieces(batch, size=size, batch_dim=batch_dim):
        frozen.rewind()
        with (
            still(model),
            torch.enable_grad(),
            _quiet(frozen),
            recording(modules, rewrite=frozen.rewrite) as tape,
        ):
            out = samples_first(
                as_tensor(call(model, piece))[0], count=part.stop - part.start, batch_dim=batch_dim
            )
            tape.listening = False
            if out is None:
                raise Refusal(
                    "The output must have one row per sample to be differentiated sample by "
                    "sample. Return it with the batch dimension, or say `batch_dim=`."
                )
            flat = out.reshape(len(out), -1)
            chosen = chosen or chosen_outputs(flat.shape[1], outputs, generator)
            total = flat.shape[1]
            signs = torch.randint(0, 2, (len(flat), len(chosen)), generator=generator) * 2 - 1
            columns = flat[:, list(chosen)] * signs.to(flat)  # no square below sees the signs
            owned = [p for name in sketches for p in sketched[name]]
            rows = _backward(columns, [*(c.output for c in tape.calls), *owned])
            for one, J in zip(tape.calls, rows, strict=False):
                _reduce(
                    sums,
                    silent,
                    one,
                    J,
                    count=part.stop - part.start,
                    batch_dim=batch_dim,
                    frozen=frozen,
                )
            left = iter(rows[len(tape.calls) :])
            for name, parts in sketches.items():
                parts.append(_sketch([next(left) for _ in sketched[name]], len(chosen)))
    found = {site: s.whole(site) for site, s in sums.items() if site not in silent}
    stacked = {name: torch.stack(parts) for name, parts in sketches.items()}
    return Sweep(found, chosen, total, silent, stacked)


def _trained(module: nn.Module) -> Iterator[Tensor]:
    return (p for p in module.parameters() if p.requires_grad)


def _sketch(grads: list[list[Tensor] | None], k: int) -> Tensor:
    """Squared norm over all the parameters of a module, per output."""
    total = torch.zeros(k, dtype=torch.float64)
    for per_output in grads:
        if per_output is not None:
            total += torch.stack([g.double().square().sum().cpu() for g in per_output])
    return total


def _quiet(frozen: Statisticians):  # noqa: ANN202 (a context manager)
    """Batch normalisers in evaluation mode: their output is replaced, and one sample is enough."""
    return _Evaluating(tuple(frozen.seen))


@dataclass(frozen=True, slots=True)
class _Evaluating:
    modules: tuple[nn.Module, ...]

    def __enter__(self) -> None:
        for module in self.modules:
            module.training = False

    def __exit__(self, *_: object) -> None:
        """`still`, which encloses this, restores the modes."""


def _backward(columns: Tensor, helds: list[Tensor]) -> list[list[Tensor] | None]:
    """For every tensor, the gradients of each column; None where the output ignores it."""
    k = columns.shape[1]
    if not columns.requires_grad:
        return [None] * len(helds)
    grads = [
        torch.autograd.grad(columns[:, c].sum(), helds, retain_graph=c < k - 1, allow_unused=True)
        for c in range(k)
    ]
    per_site = zip(*grads, strict=True)
    return [None if any(g is None for g in site) else list(site) for site in per_site]


def _reduce(
    sums: dict[str, _Sums],
    silent: dict[str, str],
    one: Call,
    J: list[Tensor] | None,
    *,
    count: int,
    batch_dim: int,
    frozen: Statisticians,
) -> None:
    """Fold one piece's adjoints at one site into its sums, or say why they cannot be."""
    if J is None:
        silent[one.site] = "the output does not depend on what it wrote"
        return
    split = [samples_first(g, count=count, batch_dim=batch_dim) for g in J]
    if split[0] is None:
        silent[one.site] = (
            f"wrote a tensor of shape {tuple(one.output.shape)}, which is not split by sample"
        )
        return
    by_sample = torch.stack([g for g in split if g is not None], dim=1)  # [n, k, ...]
    width = by_sample[0, 0].numel()
    into = sums.setdefault(one.site, _Sums(width))
    if not isinstance(one.module, NORMALISERS):  # of those only the share is asked
        sigma, norm_sq = _spectra(by_sample.reshape(*by_sample.shape[:2], width))
        into.sigma.append(sigma)
        into.norm_sq.append(norm_sq)
    into.share_sq.append(_share(one, by_sample, count=count, batch_dim=batch_dim, frozen=frozen))


def _spectra(J: Tensor) -> tuple[Tensor, Tensor]:
    """Singular values of every sample's Jacobian and the squared norms of its rows, in float64.

    Entries of float64 are scaled by the largest, so that no square underflows; squares of narrower
    formats are inside float64 as they are.
    """
    A, scale = J.double(), J.new_ones(len(J), 1, dtype=torch.float64)
    if J.dtype == torch.float64:
        top = J.flatten(1).abs().amax(1, keepdim=True)
        scale = torch.where(top > 0, top, scale)
        A = J / scale[:, :, None]
    k, d = A.shape[1:]
    gram = A @ A.mT
    lam = torch.linalg.eigvalsh(gram).flip(-1).clamp(min=0)[:, : min(k, d)]
    norm_sq = gram.diagonal(dim1=1, dim2=2) * scale.square()
    return (lam.sqrt() * scale).cpu(), norm_sq.cpu()


def _share(
    one: Call, J: Tensor, *, count: int, batch_dim: int, frozen: Statisticians
) -> Tensor | None:
    module = one.module
    x = samples_first(one.input, count=count, batch_dim=batch_dim)
    if x is None or not kernels.acts_as_linear(module, one.input, one.output.detach()):
        return None
    normal = standardised(module, x, frozen.seen) if isinstance(module, NORMALISERS) else None
    found = kernels.share(module, x, J, normal=normal)
    return None if found is None else found.cpu()
