"""The adjoints of every layer, in one sweep."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.probes.execution.forward import called
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.hooks import Tape, recording
from sigmascope.probes.execution.layers import Statisticians
from sigmascope.probes.jacobian.adjoints import Adjoint, Gradients, Sums, reduce_piece
from sigmascope.probes.samples.batches import Batch, as_tensor, pieces
from sigmascope.probes.samples.matrices import samples_first

MEMORY_FLOOR = 2**16  # adjoint entries that are always held at once: half a megabyte in float64
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


def sweep(
    model: nn.Module,
    batch: Batch,
    modules: dict[str, nn.Module],
    frozen: Statisticians,
    *,
    outputs: int | Sequence[int],
    count: int,
    entries: int,
    columns: int,
    batch_dim: int,
    uncovered: Mapping[str, Sequence[Tensor]] = MappingProxyType({}),
    grams: bool = True,
    generator: torch.Generator,
) -> Sweep:
    """One forward and one backward pass per output, over the batch in pieces that fit in memory.

    With `uncovered` parameters, 16 backward passes more, to those alone, unless mixtures of the
    outputs are differentiated anyway.

    Args:
        model: Measured with the statistics in `frozen` held constant.
        batch: All samples.
        modules: Layers and normalisers to read at, by name.
        frozen: Statistics of the batch normalisers on the whole batch.
        outputs: How many outputs to differentiate, or which.
        count: Samples in the batch.
        entries: What the modules write on the whole batch, for choosing the size of a piece.
        columns: How many outputs will be differentiated, for the same.
        batch_dim: Where the batch has its samples.
        uncovered: Parameters whose share of the tangent kernel is to be sketched, by their module.
        grams: Whether to keep `J Jᵀ` of every layer; without, only shares of the kernel.
        generator: Draws the mixtures of outputs.
    """
    size = fitting(model, entries=entries, columns=columns, count=count)
    sums: dict[str, Sums] = {}
    silent: dict[str, str] = {}
    owned = [p for group in uncovered.values() for p in group]
    sketches: dict[str, list[Tensor]] = {name: [] for name in uncovered}
    seeds: Seeds | None = None
    total, rounding = 0, 0.0
    for piece, part in pieces(batch, size=size, batch_dim=batch_dim):
        with on_tape(model, modules, frozen) as tape:
            here = part.stop - part.start
            flat = flat_output(model, piece, count=here, batch_dim=batch_dim)
            tape.listening = False
            total, rounding = flat.shape[1], torch.finfo(flat.dtype).eps
            seeds = seeds or seeds_for(total, outputs, generator)
            flat_layers = all(type(c.module) in FLAT and c.input.ndim == 2 for c in tape.calls)
            extra = owned and seeds.columns is not None
            helds = [c.output for c in tape.calls]
            rows, sizes = _passes(
                flat, helds, () if extra else owned, seeds, stacked=flat_layers, last=not extra
            )
            if extra:
                sizes = _passes(flat, [], owned, Seeds(None, DRAWS, generator), stacked=False)[1]
            for place, one in enumerate(tape.calls):
                J, rows[place] = rows[place], None  # let go of it once it is reduced
                reduce_piece(
                    sums,
                    silent,
                    one,
                    J,
                    count=here,
                    batch_dim=batch_dim,
                    frozen=frozen,
                    grams=grams,
                )
            at = 0
            for name, group in uncovered.items():
                sketches[name].append(sizes[at : at + len(group)].sum(0))
                at += len(group)
    found = {site: s.whole(site) for site, s in sums.items() if site not in silent}
    stacked = {name: torch.stack(parts) for name, parts in sketches.items()}
    chosen = () if seeds is None else seeds.columns or tuple(range(seeds.count))
    mixed = seeds is not None and seeds.columns is None
    return Sweep(found, chosen, total, silent, stacked, mixed, rounding)


@contextmanager
def on_tape(
    model: nn.Module, modules: dict[str, nn.Module], frozen: Statisticians
) -> Iterator[Tape]:
    """The model held still and recorded, its batch normalisers with constant statistics.

    Args:
        model: The model.
        modules: What to record, the batch normalisers among them.
        frozen: Their statistics, taken on the whole batch.
    """
    frozen.rewind()
    with (
        still(model),
        torch.enable_grad(),
        _quiet(frozen),
        recording(modules, rewrite=frozen.rewrite) as tape,
    ):
        yield tape


def fitting(model: nn.Module, *, entries: int, columns: int, count: int) -> int:
    """How many samples to take at once, so that memory stays near that of a training step."""
    parameters = sum(p.numel() for p in model.parameters())
    budget = max(MEMORY_FLOOR, 2 * (parameters + entries))
    rounds = math.ceil(entries * columns / budget)
    return max(1, math.ceil(count / max(1, rounds)))


def flat_output(model: nn.Module, piece: Batch, *, count: int, batch_dim: int) -> Tensor:
    """The output `[samples, columns]` of a piece of the batch."""
    out = samples_first(as_tensor(called(model, piece))[0], count=count, batch_dim=batch_dim)
    if out is None:
        raise Refusal(
            "The output must have one row per sample to be differentiated sample by sample. "
            "Return it with the batch dimension, or say `batch_dim=` (`--batch-dim`)."
        )
    return out.reshape(len(out), -1)


def _quiet(frozen: Statisticians) -> "_Evaluating":
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


def _passes(
    flat: Tensor,
    helds: Sequence[Tensor],
    owned: Sequence[Tensor],
    seeds: Seeds,
    *,
    stacked: bool,
    last: bool = True,
) -> tuple[list[Gradients], Float64[Tensor, "owned k"]]:
    """One backward pass from every seed.

    Args:
        flat: The output.
        helds: Tensors whose gradients are kept; None where the output ignores one.
        owned: Parameters of whose gradients the squared norms are kept.
        seeds: Where to start.
        stacked: Whether to try all at once.
        last: Whether the tape may go.
    """
    sizes = torch.zeros(len(owned), seeds.count, dtype=torch.float64)
    if not flat.requires_grad or not (helds or owned):
        return [None] * len(helds), sizes
    dead = [k for k, held in enumerate(helds) if not held.requires_grad]
    if dead:  # layers that ran inside of torch.no_grad
        live = [held for held in helds if held.requires_grad]
        found, sizes = _passes(flat, live, owned, seeds, stacked=stacked, last=last)
        for k in dead:
            found.insert(k, None)
        return found, sizes
    if stacked and not owned and flat.numel() * seeds.count <= STACKED:
        try:
            return _all_at_once(flat, helds, seeds), sizes
        except RuntimeError:  # an operation between the layers cannot be batched
            pass
    kept = []
    for k in range(seeds.count):
        found = torch.autograd.grad(
            flat,
            [*helds, *owned],
            seeds.at(k, flat),
            retain_graph=not last or k < seeds.count - 1,
            allow_unused=True,
        )
        kept.append(found[: len(helds)])
        for place, g in enumerate(found[len(helds) :]):
            sizes[place, k] = 0.0 if g is None else _square(g)
    per_site = zip(*kept, strict=True)
    return [None if any(g is None for g in site) else list(site) for site in per_site], sizes


def _square(t: Tensor) -> float:
    """`Σ |t|²` in float64, of real numbers or complex ones."""
    real = torch.view_as_real(t) if t.is_complex() else t
    return float(real.double().square().sum())


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
