"""The adjoints of every layer, in one sweep.

The idea: what a layer writes is kept on the tape, so that one backward pass from an output gives
its derivative by the preactivations of every layer at once, and from these and what the layer read
its share of the tangent kernel, sample by sample, without any gradient of single samples. The
invariant: samples do not mix (normalisers are held at the statistics of the whole batch), so that
the batch may be cut into pieces, and rows of a gradient are those of single samples. Outputs that
are too many are replaced by normal mixtures of all, whose squared norms are unbiased for the sum.

Source: Novak et al. 2022, Fast finite width neural tangent kernel, for the products per layer;
Hutchinson 1990 for the mixtures.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.linalg import sums
from sigmascope.probes.execution.hooks import Call
from sigmascope.probes.jacobian.adjoints import (
    Adjoint,
    Gradients,
    Seeds,
    Sums,
    reduce_piece,
    seeds_for,
)
from sigmascope.probes.room import turns
from sigmascope.probes.scene import Scene, Taped, most_held

STACKED = 2**22  # entries of seeds that are passed back all at once, at most
DRAWS = 16  # mixtures of all samples and outputs that sketch what no formula covers
FLAT = (nn.Linear, nn.BatchNorm1d, nn.LayerNorm, nn.RMSNorm)


@dataclass(frozen=True, slots=True)
class Sweep:
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
    rounding: float = 2.0**-52

    @property
    def whole(self) -> bool:
        """Whether every output was differentiated by itself."""
        return not self.mixed and len(self.outputs) == self.total


def sweep(
    scene: Scene,
    outputs: int | Sequence[int],
    *,
    size: int,
    uncovered: Mapping[str, Sequence[Tensor]] = MappingProxyType({}),
    grams: bool = True,
    generator: torch.Generator,
    run: Taped | None = None,
) -> Sweep:
    """One forward and one backward pass per output, over the batch in pieces that fit in memory.

    With `uncovered` parameters, 16 backward passes more, to those alone, unless mixtures of the
    outputs are differentiated anyway.

    Args:
        scene: All samples.
        outputs: How many outputs to differentiate, or which.
        size: How many samples to take at once.
        uncovered: Parameters whose share of the tangent kernel is to be sketched, by their module.
        grams: Whether to keep `J Jᵀ` of every layer; without, only shares of the kernel.
        generator: Draws the mixtures of outputs.
        run: Of all samples, with a tape that is kept, in the place of the forward passes.
    """
    sweeping = Sweeping(outputs, uncovered, grams, generator)
    if run is not None:
        sweeping.add(run, keep=True)
        return sweeping.whole()
    for piece, _ in scene.pieces(size):
        with piece.on_tape() as run:
            sweeping.add(run)
            del run
    return sweeping.whole()


class Sweeping:
    """A sweep in the making; each run adds its samples."""

    def __init__(
        self,
        outputs: int | Sequence[int],
        uncovered: Mapping[str, Sequence[Tensor]],
        grams: bool,
        generator: torch.Generator,
    ) -> None:
        self._outputs, self._grams, self._generator = outputs, grams, generator
        self._uncovered = uncovered
        self._owned = [p for group in uncovered.values() for p in group]
        self._sums: dict[str, Sums] = {}
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
            self._reduce(run.scene, calls, rows)
        if extra:
            draws = Seeds(None, DRAWS, self._generator)
            sizes = _passes(flat, [], self._owned, draws, stacked=False, last=not keep)[1]
        parts = sizes.split([len(group) for group in self._uncovered.values()])
        for sketch, part in zip(self._sketches.values(), parts, strict=True):
            sketch.append(part.sum(0))

    def _reduce(self, scene: Scene, calls: Sequence[Call], rows: list[Gradients]) -> None:
        for place, call in enumerate(calls):
            J, rows[place] = rows[place], None  # let go of it once it is reduced
            sums = self._sums.setdefault(call.site, Sums())
            if why := reduce_piece(scene, call, J, sums, grams=self._grams):
                self._silent[call.site] = why

    def whole(self) -> Sweep:
        """All samples together."""
        adjoints = {k: s.whole(k) for k, s in self._sums.items() if k not in self._silent}
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
    last: bool = True,
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
            rows = _all_at_once(flat, live, seeds)
    if rows is None:
        rows, sizes = _one_by_one(flat, live, owned, seeds, last=last)
    found = iter(rows)
    return [next(found) if held.requires_grad else None for held in helds], sizes


def _one_by_one(
    flat: Tensor, live: list[Tensor], owned: Sequence[Tensor], seeds: Seeds, *, last: bool
) -> tuple[list[Gradients], Float64[Tensor, "owned k"]]:
    sizes = torch.zeros(len(owned), seeds.count, dtype=torch.float64)
    kept = []
    for k in range(seeds.count):
        keep = not last or k < seeds.count - 1
        grads = torch.autograd.grad(
            flat, [*live, *owned], seeds.at(k, flat), retain_graph=keep, allow_unused=True
        )
        kept.append(grads[: len(live)])
        for place, g in enumerate(grads[len(live) :]):
            sizes[place, k] = 0.0 if g is None else sums.square_sum(g)
    per_site = zip(*kept, strict=True)
    return [None if any(g is None for g in site) else list(site) for site in per_site], sizes


def _all_at_once(flat: Tensor, helds: Sequence[Tensor], seeds: Seeds) -> list[Gradients]:
    """The same backward passes as one, with larger products.

    Twice as fast for layers of one position, half as fast for convolutions.
    """
    return list(
        torch.autograd.grad(
            flat,
            helds,
            torch.stack([seeds.at(k, flat) for k in range(seeds.count)]),
            retain_graph=True,
            allow_unused=True,
            is_grads_batched=True,
        )
    )
