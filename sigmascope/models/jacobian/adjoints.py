"""Adjoints: the derivative of the output with respect to a preactivation, reduced per sample."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from jaxtyping import Float, Float64, Shaped
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Brief
from sigmascope.linalg import dense
from sigmascope.linalg.dense import EPS
from sigmascope.models.layers import (
    COVERED,
    NORMALISERS,
    Call,
    channel_dim,
    matrix_and_vector,
    standardised,
    transposed,
)
from sigmascope.models.tape import Scene, Taped, most_held, turns
from sigmascope.models.weights import patches

# ------------------------------------------------------------------------------
# Each layer's share of the neural tangent kernel, from adjoints and what the layer read.


BLOCK = 256  # numbers whose squares are added up in the narrow format
CANCELLED = 1e-2  # of what products add up to in size, from which a sum of them is left
NARROW = 1e-24  # squares above this, and below its inverse, lost nothing there
PerSample = Float[Tensor, "n k"]


def share(
    module: nn.Module,
    x: Shaped[Tensor, "n *inputs"],
    J: Sequence[Float[Tensor, "n _ *outputs"]],
    *,
    normal: Float[Tensor, "n *outputs"] | None = None,
    norm_sq: PerSample | None = None,
) -> PerSample | None:
    """`‖∂ f_k(x_i) / ∂ parameters‖²` of one call of one layer, per sample and output.

    Args:
        module: The layer or normaliser.
        x: What it read, samples first.
        J: `∂ f_k(x_i) / ∂` what it wrote, samples first, of some outputs after the other: side by
            side they would be copied first.
        normal: For a normaliser, what it multiplies by its weight.
        norm_sq: `‖J‖²` per sample and output, where it is known already.

    Returns:
        The squared norms, or None for a kind of layer whose parameters this does not cover.
        Frozen parameters count nothing.
    """
    if not isinstance(module, (*NORMALISERS, _ConvNd, nn.Embedding)):
        weight, bias = matrix_and_vector(module)
        if isinstance(module, nn.Linear):
            weight, bias = module.weight, module.bias
        if weight is None or J[0].ndim != x.ndim + 1:
            return None
        biased = bias is not None and bias.requires_grad
        if x[0].numel() == x.shape[-1]:  # one position: ‖d aᵀ‖² = ‖d‖² ‖a‖²
            size = _square_sum(torch.cat([*J], 1)) if norm_sq is None else norm_sq
            reads = x.flatten(1).double().square().sum(1) * float(weight.requires_grad)
            return size * (reads + float(biased))[:, None]
        # [n, p, i], and [n, j, p, o] of some outputs, which side by side would be copied first
        a, deltas = x.flatten(1, -2), [d.flatten(2, -2) for d in J]
        total = J[0].new_zeros(len(x), sum(d.shape[1] for d in J), dtype=torch.float64)
        positions, inputs, outputs = a.shape[1], a.shape[2], deltas[0].shape[3]
        # `‖Σ_p d_p a_pᵀ‖²`, by whichever of the two ways is cheaper
        if weight.requires_grad and positions * (inputs + outputs) < inputs * outputs:
            # in the format of both, unless positions cancel so far that it shows
            for kind in (torch.promote_types(deltas[0].dtype, torch.float32), torch.float64):
                read = a.to(kind)
                met = (read @ read.mT)[:, None]
                moved = (d.to(kind) for d in deltas)
                parts = torch.cat([(met * (d @ d.mT)).double().flatten(2) for d in moved], 1)
                total, most = parts.sum(2), parts.abs().sum(2)
                if bool((total >= CANCELLED * most).all()):
                    break
        elif weight.requires_grad:
            stacked = (d.transpose(2, 3).flatten(1, 2) @ a for d in deltas)  # [n, j * o, i]
            total = torch.cat([_square_sum(s.unflatten(1, (-1, outputs))) for s in stacked], 1)
        return total + torch.cat([_square_sum(d.sum(2)) for d in deltas], 1) if biased else total
    d = J[0] if len(J) == 1 else torch.cat([*J], 1)
    if isinstance(module, NORMALISERS):
        own = dict(module.named_parameters(recurse=False))
        weight, bias = own.get("weight"), own.get("bias")
        if weight is None and bias is None:
            return d.new_zeros(d.shape[:2], dtype=torch.float64)
        if weight is None or normal is None:
            return None
        per_channel = channel_dim(module, normal)
        keep = (
            [per_channel]
            if weight.ndim == 1
            else list(range(normal.ndim - weight.ndim, normal.ndim))
        )
        dims = [dim + 1 for dim in range(1, normal.ndim) if dim not in keep]
        total = d.new_zeros(d.shape[:2], dtype=torch.float64)
        for tensor, grad in ((weight, d * normal[:, None]), (bias, d)):
            if tensor is not None and tensor.requires_grad:
                total = total + _square_sum(grad.sum(dims) if dims else grad)
        return total
    if isinstance(module, _ConvNd):
        grads = kernel_gradients(module, x, d)
        total = _square_sum(grads) * float(module.weight.requires_grad)
        if module.bias is not None and module.bias.requires_grad:
            total = total + _square_sum(d.flatten(3).sum(3))
        return total
    # [n, k, t, o]; one row where x is [n]
    rows = d.reshape(*d.shape[:2], -1, d.shape[-1]).double()
    tokens = x.reshape(len(x), -1)  # [n, t]
    same = (tokens[:, :, None] == tokens[:, None]).double()
    if module.padding_idx is not None:
        same = same * (tokens != module.padding_idx)[:, :, None]
    total = torch.stack([(same * (dk @ dk.mT)).sum((1, 2)) for dk in rows.unbind(1)], dim=1)
    return total * float(module.weight.requires_grad)


def _square_sum(parts: Float[Tensor, "n k *rest"]) -> PerSample:
    """Sums of squares to some 1e-7, in blocks of the narrow format where nothing leaves its range.

    A copy in float64 takes thirty times as long, most of the cost of a convolution's share.
    """
    flat = parts.reshape(*parts.shape[:2], -1)
    if flat.dtype != torch.float64:
        narrow = flat.float()
        whole = narrow.shape[2] // BLOCK * BLOCK
        blocks = narrow[..., :whole].unflatten(2, (-1, BLOCK)) if whole else narrow[:, :, None, :0]
        sizes = [torch.linalg.vector_norm(part, dim=-1) for part in (blocks, narrow[..., whole:])]
        total = sizes[0].double().square().sum(-1) + sizes[1].double().square()
        if bool(((total > NARROW) & (total < 1 / NARROW)).all()):
            return total
    wide = flat.double()
    return torch.einsum("nkd,nkd->nk", wide, wide)


def kernel_gradients(module: nn.Module, x: Tensor, J: Tensor) -> Float[Tensor, "n k g i w"]:
    """The gradients of the outputs by a convolution's kernel, group by group."""
    assert isinstance(module, _ConvNd)
    n, k = J.shape[:2]
    groups = module.groups
    if transposed(module):  # the adjoint of a convolution: its patches are taken of what it writes
        cut = patches(module, J.flatten(0, 1)).unflatten(0, (n, k))  # [n, k, g, w, p]
        fixed = x.flatten(2).unflatten(1, (groups, -1))[:, None]  # [n, 1, g, i, p]
        return fixed @ cut.mT
    cut = patches(module, x)  # [n, g, w, p]
    moving = J.flatten(3).unflatten(2, (groups, -1)).transpose(1, 2)  # [n, g, k, o, p]
    stacked = moving.flatten(2, 3) @ cut.mT  # every output in one product
    return stacked.unflatten(2, (k, -1)).transpose(1, 2)


def covers(module: nn.Module) -> bool:
    """Whether `share` may cover this kind of module."""
    return isinstance(module, COVERED) or matrix_and_vector(module)[0] is not None


def implied(
    call: Call,
    delta: Tensor,
    *,
    normal: Tensor | None = None,
    probes: Mapping[nn.Parameter, Tensor] = MappingProxyType({}),
) -> Iterator[tuple[nn.Parameter, Tensor, float]]:
    """What the formulas of `share` take for the gradient of each parameter in one call.

    Args:
        call: Of a layer or normaliser.
        delta: The derivative by what it wrote.
        normal: For a normaliser, what it multiplies by its weight.
        probes: Vectors that gradients are multiplied with, which spares the gradients themselves.

    Yields:
        Trained parameters that the formulas speak of, their gradients (or the products of these
        with their probes), and the size that these would have if nothing cancelled.
    """
    module = call.module
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    reads: Tensor | None = call.input
    if isinstance(module, NORMALISERS):
        reads = normal
    elif not isinstance(module, COVERED):
        weight, bias = matrix_and_vector(module)
    if reads is None or not call.is_linear:
        return
    size = dense.norm(delta)
    if isinstance(weight, nn.Parameter) and weight.requires_grad:
        found, probe = None, probes.get(weight)
        if isinstance(module, NORMALISERS):
            found = probed(_summed_to(module, weight, delta * reads), probe)
        elif isinstance(module, _ConvNd):
            kind = next(c for c in type(module).__mro__ if c.__module__ == nn.Conv2d.__module__)
            with torch.enable_grad():
                again = kind.forward(module, reads.detach())
                if again.shape == delta.shape:  # else it was asked for a size of its own
                    found = probed(torch.autograd.grad(again, weight, delta)[0], probe)
        elif isinstance(module, nn.Embedding):
            rows, ids = delta.reshape(-1, weight.shape[1]), reads.reshape(-1)
            if module.padding_idx is not None:
                rows = rows * (ids != module.padding_idx)[:, None]
            rows = probed(rows, probe)
            found = rows.new_zeros(len(weight), *rows.shape[1:]).index_add(0, ids.long(), rows)
        else:
            a, d = reads.reshape(-1, reads.shape[-1]), delta.reshape(-1, delta.shape[-1])
            turned = weight.shape == (a.shape[1], d.shape[1])
            if weight.shape[0] == weight.shape[1]:  # of others the shape tells
                turned = not isinstance(module, COVERED) and call.is_turned
            left, right = (a, d) if turned else (d, a)
            if (left.shape[1], right.shape[1]) == weight.shape:
                found = left.mT @ probed(right, probe)
        if found is not None:
            most = 1.0 if isinstance(module, nn.Embedding) else dense.norm(reads)
            yield weight, found, size * most
    if isinstance(bias, nn.Parameter) and bias.requires_grad:
        yield bias, _summed_to(module, bias, delta), size * (delta.numel() / bias.numel()) ** 0.5


def probed(gradient: Tensor, probe: Tensor | None) -> Tensor:
    """A gradient times the vector that it is looked at through, where there is one."""
    return gradient if probe is None else gradient.flatten(1) @ probe


def _summed_to(module: nn.Module, like: Tensor, values: Tensor) -> Tensor:
    """Sum over all but the dimensions of a scale or shift."""
    if like.ndim == 1:
        channels = values.ndim - 1
        if isinstance(module, (_ConvNd, *NORMALISERS)):
            channels = channel_dim(module, values)
        return values.sum([d for d in range(values.ndim) if d != channels])
    return values.sum(list(range(values.ndim - like.ndim)))


WIDE = 2**12  # columns of a Jacobian that are copied to float64 at once, which the cache holds
SAFE = 1e-200  # squares above this, and below its inverse, have lost nothing
Gradients = list[Tensor] | Tensor | None  # at one site: one per output, or all of them stacked


@dataclass(frozen=True, slots=True, repr=False)
class Adjoint(Brief):
    """`J = ∂ f_k(x_i) / ∂ z` at one layer, reduced to what is asked of it.

    Attributes:
        site: The layer that wrote the preactivation z.
        gram: `J Jᵀ / scale²` of every sample, over the outputs; empty for a normaliser.
        scale: What every sample's J was divided by.
        share_sq: `‖∂ f_k(x_i) / ∂ parameters‖²` for this call of the layer, or None where the kind
            of layer is not covered.
        width: Entries of the preactivation of one sample.
    """

    site: str
    gram: Float64[Tensor, "m j j"]
    scale: Float64[Tensor, " m"]
    share_sq: Float64[Tensor, "n k"] | None
    width: int

    @property
    def sigma(self) -> Float64[Tensor, "m r"]:
        """Singular values of the Jacobian `[outputs, width]` of every sample, descending."""
        lam = dense.eigenvalues(self.gram).flip(-1).clamp(min=0).cpu()
        return lam[:, : min(self.gram.shape[1], self.width)].sqrt() * self.scale[:, None].cpu()

    @property
    def norm_sq(self) -> Float64[Tensor, "m j"]:
        """Squared norm of row k of J for every sample."""
        return (self.gram.diagonal(dim1=1, dim2=2) * self.scale[:, None].square()).cpu()


@dataclass(frozen=True, slots=True)
class Seeds:
    """What the backward passes start from: single outputs, or normal mixtures of all of them.

    Attributes:
        columns: The outputs, if single ones.
        count: Of the passes.
        generator: Draws the mixtures.
    """

    columns: tuple[int, ...] | None
    count: int
    generator: torch.Generator

    def at(self, place: int, flat: Tensor) -> Tensor:
        """The seed of one pass, of the shape of the flat output."""
        if self.columns is not None:
            seed = torch.zeros_like(flat)
            seed[:, self.columns[place]] = 1.0
            return seed
        scale = flat.shape[1] ** -0.5
        drawn = torch.randn(flat.shape, generator=self.generator, device=self.generator.device)
        return drawn.mul_(scale).to(flat)  # in place: it may be the largest tensor there is


def seeds_for(total: int, wanted: int | Sequence[int], generator: torch.Generator) -> Seeds:
    """The outputs to differentiate: those named, all if they are few, else mixtures of all."""
    if not isinstance(wanted, int):
        bad = [k for k in wanted if not 0 <= k < total]
        if bad or not wanted:
            raise Refusal(
                f"`outputs` must name columns of the output, from 0 to {total - 1}, got "
                f"{bad or 'none'}. Pass a number to have that many mixtures of all."
            )
        if len(set(wanted)) < len(wanted):
            raise Refusal(
                f"`outputs` must name every column once, got {list(wanted)}. Repeat none."
            )
        return Seeds(tuple(wanted), len(wanted), generator)
    if wanted < 1:
        raise Refusal(f"`outputs` must be at least 1, got {wanted}. Leave it out for 16.")
    if total <= wanted:
        return Seeds(tuple(range(total)), total, generator)
    return Seeds(None, wanted, generator)


@dataclass(slots=True)
class SiteSums:
    """One site's pieces of the batch, until they are put together."""

    width: int = 0
    gram: list[Tensor] = field(default_factory=list)
    scale: list[Tensor] = field(default_factory=list)
    share_sq: list[Tensor | None] = field(default_factory=list)


def reduce_piece(scene: Scene, call: Call, J: Gradients, sums: SiteSums, *, grams: bool) -> str:
    """Fold one piece's adjoints at one site into its sums; why they cannot be, or nothing."""
    if J is None:
        return "the output does not depend on the (first) tensor that it wrote"
    # as `[samples, outputs, ...]`, of some outputs after the other, where samples can be told apart
    if isinstance(J, Tensor) and J.ndim == 3 and J.shape[1] == scene.count:
        by_sample = [J.transpose(0, 1)]  # stacked already, of a flat layer
    else:
        by_sample = [rows[:, None] for g in J if (rows := scene.split(g)) is not None]
        if not by_sample:
            shape = tuple(call.output.shape)
            return f"wrote a tensor of shape {shape}, which is not split by sample"
    sums.width = sums.width or by_sample[0][0, 0].numel()
    norm_sq = None
    if grams and not isinstance(call.module, NORMALISERS):  # of those only the share is asked
        # `J Jᵀ / scale²` of every sample in float64. Squares of narrower formats are inside float64
        # as they are; float64 is scaled by its largest entry where squares come near the ends of
        # the format.
        rows = [d.reshape(*d.shape[:2], sums.width) for d in by_sample]
        scale = rows[0].new_ones(len(rows[0]), dtype=torch.float64)
        gram = scale.new_zeros(len(scale), len(J), len(J))
        for parts in zip(*(r.split(WIDE, 2) for r in rows), strict=True):
            part = torch.cat(parts, 1).double()
            gram.baddbmm_(part, part.mT)
        wide = rows[0].dtype == torch.float64
        if wide and not SAFE < float(gram.diagonal(dim1=1, dim2=2).amax()) < 1 / SAFE:
            whole = torch.cat(rows, 1)
            largest = whole.abs().amax((1, 2))
            scale = torch.where(largest > 0, largest, scale)
            scaled = whole / scale[:, None, None]
            gram = scaled @ scaled.mT
        sums.gram.append(gram)
        sums.scale.append(scale)
        norm_sq = gram.diagonal(dim1=1, dim2=2) * scale.square()[:, None]
    module, x, found = call.module, scene.split(call.input), None
    if x is not None and not call.spoiled and call.is_linear:
        normal = None
        if isinstance(module, NORMALISERS):
            y = scene.split(call.output)
            normal = None if y is None else standardised(module, x, y, scene.frozen.seen)
        found = share(module, x, by_sample, normal=normal, norm_sq=norm_sq)
    sums.share_sq.append(None if found is None else found.cpu())
    return ""


# ------------------------------------------------------------------------------
# The adjoints of every layer, in one sweep.
#
# The idea: what a layer writes is kept on the tape, so that one backward pass from an output gives
# its derivative by the preactivations of every layer at once, and from these and what the layer
# read its share of the tangent kernel, sample by sample, without any gradient of single samples.
# The invariant: samples do not mix (normalisers are held at the statistics of the whole batch), so
# that the batch may be cut into pieces, and rows of a gradient are those of single samples. Outputs
# that are too many are replaced by normal mixtures of all, whose squared norms are unbiased for the
# sum.
#
# Source: Novak et al. 2022, Fast finite width neural tangent kernel, for the products per layer;
# Hutchinson 1990 for the mixtures.


STACKED = 2**22  # entries of seeds that are passed back all at once, at most
DRAWS = 16  # mixtures of all samples and outputs that sketch what no formula covers
FLAT = (nn.Linear, nn.BatchNorm1d, nn.LayerNorm, nn.RMSNorm)


@dataclass(frozen=True, slots=True, repr=False)
class Sweep(Brief):
    """Adjoints of every layer.

    Attributes:
        adjoints: By site, in the order of calls; normalisers with parameters among them.
        outputs: Columns of the flattened output that were differentiated; or, where `mixed`, the
            numbers of the mixtures.
        total: Columns that there are.
        silent: Sites that the output does not depend on, or that cannot be split into samples.
        sketches: For parameters whose share no formula covers, by the module that owns them,
            `‖Σ_ik g_ik ∂ f_k(x_i)/∂ parameters‖²` with normal `g` of variance `1 / total`: one row
            per piece of the batch, one column per draw. `total` times its mean is the sum of the
            squared norms over samples and outputs.
        mixed: Whether what was differentiated are normal mixtures of all outputs, of variance
            `1 / total`, drawn for every sample anew. A few outputs may hold nearly all of a
            derivative: a sample of outputs would miss them, and no mixture does.
        rounding: Relative, of one operation of the model.
    """

    adjoints: dict[str, Adjoint]
    outputs: tuple[int, ...]
    total: int
    silent: dict[str, str]
    sketches: dict[str, Float64[Tensor, "pieces k"]]
    mixed: bool = False
    rounding: float = EPS

    @property
    def whole(self) -> bool:
        """Whether every output was differentiated by itself."""
        return not self.mixed and len(self.outputs) == self.total


def sweep(scene: Scene, sweeping: "Sweeping", *, size: int) -> Sweep:
    """One forward and one backward pass per output, over the batch in pieces that fit in memory.

    Args:
        scene: All samples.
        sweeping: What is asked.
        size: How many samples to take at once.
    """
    for piece, _ in scene.pieces(size):
        with piece.on_tape() as run:
            sweeping.add(run)
            del run
    return sweeping.whole()


class Sweeping:
    """A sweep in the making; each run adds its samples.

    Args:
        outputs: How many outputs to differentiate, or which.
        uncovered: Parameters whose share of the tangent kernel is to be sketched, by their module;
            16 backward passes more, to those alone, unless mixtures are differentiated anyway.
        generator: Draws the mixtures of outputs.
        grams: Whether to keep `J Jᵀ` of every layer; without, only shares of the kernel.
    """

    def __init__(
        self,
        outputs: int | Sequence[int],
        uncovered: Mapping[str, Sequence[Tensor]],
        generator: torch.Generator,
        *,
        grams: bool = True,
    ) -> None:
        self.uncovered = uncovered
        self._outputs, self._grams, self._generator = outputs, grams, generator
        self._owned = [p for group in uncovered.values() for p in group]
        self._sums: dict[str, SiteSums] = {}
        self._silent: dict[str, str] = {}
        self._sketches: dict[str, list[Tensor]] = {name: [] for name in uncovered}
        self._seeds: Seeds | None = None
        self._total, self._rounding = 0, 0.0

    def add(self, run: Taped, *, keep: bool = False) -> None:
        """Differentiate one run; its tape goes unless it is kept."""
        flat = run.flat
        self._total, self._rounding = flat.shape[1], torch.finfo(flat.dtype).eps
        seeds = self._seeds or seeds_for(self._total, self._outputs, self._generator)
        self._seeds = seeds
        stacked = all(type(c.module) in FLAT and c.input.ndim == 2 for c in run.calls)
        extra = bool(self._owned) and seeds.columns is not None
        drawn, sizes = self._generator.get_state(), torch.zeros(0, seeds.count, dtype=torch.float64)
        for calls, end in turns(run.calls, lambda c: c.output.numel() * seeds.count, most_held()):
            owned = [] if extra or sizes.numel() else self._owned
            last = end and not (extra or keep)
            self._generator.set_state(drawn)  # for all layers the same mixtures
            rows, found = _passes(flat, calls, owned, seeds, stacked=stacked, last=last)
            sizes = sizes if sizes.numel() else found
            for place, call in enumerate(calls):
                J, rows[place] = rows[place], None  # let go of it once it is reduced
                sums = self._sums.setdefault(call.site, SiteSums())
                if why := reduce_piece(run.scene, call, J, sums, grams=self._grams):
                    self._silent[call.site] = why
        if extra:
            draws = Seeds(None, DRAWS, self._generator)
            sizes = _passes(flat, [], self._owned, draws, stacked=False, last=not keep)[1]
        parts = sizes.split([len(group) for group in self.uncovered.values()])
        for sketch, part in zip(self._sketches.values(), parts, strict=True):
            sketch.append(part.sum(0))

    def whole(self) -> Sweep:
        """All samples together."""
        adjoints: dict[str, Adjoint] = {}
        for site, own in self._sums.items():
            if site in self._silent:
                continue
            shares = [s for s in own.share_sq if s is not None]
            covered = torch.cat(shares) if len(shares) == len(own.share_sq) else None
            gram = torch.cat(own.gram) if own.gram else torch.zeros(0, 1, 1, dtype=torch.float64)
            scale = torch.cat(own.scale) if own.scale else torch.zeros(0, dtype=torch.float64)
            adjoints[site] = Adjoint(site, gram, scale, covered, own.width)
        sketches = {name: torch.stack(parts) for name, parts in self._sketches.items()}
        seeds = self._seeds
        chosen = () if seeds is None else seeds.columns or tuple(range(seeds.count))
        mixed = seeds is not None and seeds.columns is None
        return Sweep(adjoints, chosen, self._total, self._silent, sketches, mixed, self._rounding)


def _passes(
    flat: Tensor,
    calls: Sequence[Call],
    owned: Sequence[Tensor],
    seeds: Seeds,
    *,
    stacked: bool,
    last: bool,
) -> tuple[list[Gradients], Float64[Tensor, "owned k"]]:
    """One backward pass from every seed.

    Args:
        flat: The output.
        calls: By what they wrote is differentiated; None where the output ignores it.
        owned: Parameters of whose gradients the squared norms are kept.
        seeds: Where to start.
        stacked: Whether to try all at once.
        last: Whether the tape may go.
    """
    helds = [c.output for c in calls]
    live = [held for held in helds if held.requires_grad]  # the others ran without gradients
    if not flat.requires_grad or not (live or owned):
        return [None] * len(helds), torch.zeros(len(owned), seeds.count, dtype=torch.float64)
    rows, sizes = None, torch.zeros(0, seeds.count, dtype=torch.float64)
    if stacked and not owned and flat.numel() * seeds.count <= STACKED:
        with suppress(RuntimeError):  # an operation between the layers cannot be batched
            # the same backward passes as one, with larger products: twice as fast for layers of one
            # position, half as fast for convolutions
            rows = list(
                torch.autograd.grad(
                    flat,
                    live,
                    torch.stack([seeds.at(k, flat) for k in range(seeds.count)]),
                    retain_graph=True,
                    allow_unused=True,
                    is_grads_batched=True,
                )
            )
    if rows is None:
        sizes = torch.zeros(len(owned), seeds.count, dtype=torch.float64)
        kept = []
        for k in range(seeds.count):
            keep = not last or k < seeds.count - 1
            grads = torch.autograd.grad(
                flat, [*live, *owned], seeds.at(k, flat), retain_graph=keep, allow_unused=True
            )
            kept.append(grads[: len(live)])
            for place, g in enumerate(grads[len(live) :]):
                sizes[place, k] = 0.0 if g is None else dense.square_sum(g)
        per_site = zip(*kept, strict=True)
        rows = [None if any(g is None for g in site) else list(site) for site in per_site]
    found = iter(rows)
    return [next(found) if held.requires_grad else None for held in helds], sizes
