"""Adjoints: the derivative of the output with respect to a preactivation, reduced per sample."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.probes.execution.hooks import Call
from sigmascope.probes.execution.layers import NORMALISERS, Statisticians, standardised
from sigmascope.probes.jacobian import ntk_shares as kernels
from sigmascope.probes.samples.matrices import samples_first

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


@dataclass(slots=True)
class Sums:
    """One site's pieces of the batch, until they are put together."""

    width: int
    gram: list[Tensor] = field(default_factory=list)
    scale: list[Tensor] = field(default_factory=list)
    share_sq: list[Tensor | None] = field(default_factory=list)

    def whole(self, site: str) -> Adjoint:
        shares = [s for s in self.share_sq if s is not None]
        covered = torch.cat(shares) if len(shares) == len(self.share_sq) else None
        gram = torch.cat(self.gram) if self.gram else torch.zeros(0, 1, 1, dtype=torch.float64)
        scale = torch.cat(self.scale) if self.scale else torch.zeros(0, dtype=torch.float64)
        return Adjoint(site, gram, scale, covered, self.width)


def reduce_piece(
    sums: dict[str, Sums],
    silent: dict[str, str],
    one: Call,
    J: Gradients,
    *,
    count: int,
    batch_dim: int,
    frozen: Statisticians,
    grams: bool,
) -> None:
    """Fold one piece's adjoints at one site into its sums, or say why they cannot be."""
    if J is None:
        silent[one.site] = "the output does not depend on what it wrote"
        return
    by_sample = _by_sample(J, count=count, batch_dim=batch_dim)
    if by_sample is None:
        shape = tuple(one.output.shape)
        silent[one.site] = f"wrote a tensor of shape {shape}, which is not split by sample"
        return
    width = by_sample[0, 0].numel()
    into = sums.setdefault(one.site, Sums(width))
    norm_sq = None
    if grams and not isinstance(one.module, NORMALISERS):  # of those only the share is asked
        gram, scale = _gram(by_sample.reshape(*by_sample.shape[:2], width))
        into.gram.append(gram)
        into.scale.append(scale)
        norm_sq = gram.diagonal(dim1=1, dim2=2) * scale.square()[:, None]
    x = samples_first(one.input, count=count, batch_dim=batch_dim)
    into.share_sq.append(_share(one, x, by_sample, norm_sq, frozen=frozen))


def _by_sample(J: Gradients, *, count: int, batch_dim: int) -> Tensor | None:
    """`[samples, outputs, ...]`, or None where what was written is not split by sample."""
    if isinstance(J, Tensor) and J.ndim == 3 and J.shape[1] == count:
        return J.transpose(0, 1)  # stacked already, of a flat layer
    split = [samples_first(g, count=count, batch_dim=batch_dim) for g in J or ()]
    whole = [g for g in split if g is not None]
    return torch.stack(whole, dim=1) if len(whole) == len(split) else None


def _gram(J: Tensor) -> tuple[Tensor, Tensor]:
    """`J Jᵀ / scale²` of every sample in float64, and the scale.

    Squares of narrower formats are inside float64 as they are; float64 is scaled by its largest
    entry where squares come near the ends of the format.
    """
    A = J.double()
    gram, scale = A @ A.mT, A.new_ones(len(A))
    if J.dtype == torch.float64:
        top = float(gram.diagonal(dim1=1, dim2=2).amax())
        if not SAFE < top < 1 / SAFE:
            largest = A.abs().amax((1, 2))
            scale = torch.where(largest > 0, largest, scale)
            A = A / scale[:, None, None]
            gram = A @ A.mT
    return gram, scale


def _share(
    one: Call, x: Tensor | None, J: Tensor, norm_sq: Tensor | None, *, frozen: Statisticians
) -> Tensor | None:
    module = one.module
    if (
        x is None
        or one.spoiled
        or not kernels.acts_as_linear(module, one.input, one.output.detach())
    ):
        return None
    normal = standardised(module, x, frozen.seen) if isinstance(module, NORMALISERS) else None
    found = kernels.share(module, x, J, normal=normal, norm_sq=norm_sq)
    return None if found is None else found.cpu()
