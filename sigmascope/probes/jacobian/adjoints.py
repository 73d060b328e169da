"""Adjoints: the derivative of the output with respect to a preactivation, reduced per sample."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.gate import Refusal
from sigmascope.probes.execution.hooks import Call
from sigmascope.probes.execution.layers import NORMALISERS, standardised
from sigmascope.probes.jacobian import ntk_shares as kernels
from sigmascope.probes.scene import Scene

WIDE = 2**18  # columns of a Jacobian that are copied to float64 at once
SAFE = 1e-200  # squares above this, and below its inverse, have lost nothing
Gradients = list[Tensor] | Tensor | None  # at one site: one per output, or all of them stacked


@dataclass(frozen=True, slots=True)
class Adjoint:
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
        lam = torch.linalg.eigvalsh(self.gram).flip(-1).clamp(min=0)
        return (lam[:, : min(self.gram.shape[1], self.width)].sqrt() * self.scale[:, None]).cpu()

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
        return (scale * drawn).to(flat)


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
class Sums:
    """One site's pieces of the batch, until they are put together."""

    width: int = 0
    gram: list[Tensor] = field(default_factory=list)
    scale: list[Tensor] = field(default_factory=list)
    share_sq: list[Tensor | None] = field(default_factory=list)

    def whole(self, site: str) -> Adjoint:
        shares = [s for s in self.share_sq if s is not None]
        covered = torch.cat(shares) if len(shares) == len(self.share_sq) else None
        gram = torch.cat(self.gram) if self.gram else torch.zeros(0, 1, 1, dtype=torch.float64)
        scale = torch.cat(self.scale) if self.scale else torch.zeros(0, dtype=torch.float64)
        return Adjoint(site, gram, scale, covered, self.width)


def reduce_piece(scene: Scene, call: Call, J: Gradients, sums: Sums, *, grams: bool) -> str:
    """Fold one piece's adjoints at one site into its sums; why they cannot be, or nothing."""
    if J is None:
        return "the output does not depend on the (first) tensor that it wrote"
    by_sample = _by_sample(scene, J)
    if by_sample is None:
        shape = tuple(call.output.shape)
        return f"wrote a tensor of shape {shape}, which is not split by sample"
    sums.width = sums.width or by_sample[0, 0].numel()
    norm_sq = None
    if grams and not isinstance(call.module, NORMALISERS):  # of those only the share is asked
        gram, scale = _gram(by_sample.reshape(*by_sample.shape[:2], sums.width))
        sums.gram.append(gram)
        sums.scale.append(scale)
        norm_sq = gram.diagonal(dim1=1, dim2=2) * scale.square()[:, None]
    sums.share_sq.append(_share(scene, call, by_sample, norm_sq))
    return ""


def _by_sample(scene: Scene, J: list[Tensor] | Tensor) -> Tensor | None:
    """`[samples, outputs, ...]`, or None where what was written is not split by sample."""
    if isinstance(J, Tensor) and J.ndim == 3 and J.shape[1] == scene.count:
        return J.transpose(0, 1)  # stacked already, of a flat layer
    split = [scene.split(g) for g in J]
    whole = [g for g in split if g is not None]
    return torch.stack(whole, dim=1) if len(whole) == len(split) else None


def _gram(J: Tensor) -> tuple[Tensor, Tensor]:
    """`J Jᵀ / scale²` of every sample in float64, and the scale.

    Squares of narrower formats are inside float64 as they are; float64 is scaled by its largest
    entry where squares come near the ends of the format.
    """
    scale = J.new_ones(len(J), dtype=torch.float64)
    # wide ones by pieces: a copy of all in float64 would be the largest tensor there is
    products = (P @ P.mT for P in map(Tensor.double, J.split(WIDE, 2)))
    gram = sum(products, scale.new_zeros(()))
    if J.dtype == torch.float64:
        top = float(gram.diagonal(dim1=1, dim2=2).amax())
        if not SAFE < top < 1 / SAFE:
            largest = J.abs().amax((1, 2))
            scale = torch.where(largest > 0, largest, scale)
            A = J / scale[:, None, None]
            gram = A @ A.mT
    return gram, scale


def _share(scene: Scene, call: Call, J: Tensor, norm_sq: Tensor | None) -> Tensor | None:
    module, x = call.module, scene.split(call.input)
    linear = lambda: kernels.acts_as_linear(module, call.input, call.output.detach())
    if x is None or call.spoiled or not linear():
        return None
    frozen = scene.frozen.seen
    normal = None
    if isinstance(module, NORMALISERS):
        y = scene.split(call.output)
        normal = None if y is None else standardised(module, x, y, frozen)
    share = kernels.share(module, x, J, normal=normal, norm_sq=norm_sq)
    return None if share is None else share.cpu()
