"""The adjoints of every layer, in one sweep."""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.probes.adjoints import Adjoint, Gradients, Sums, reduce_piece
from sigmascope.probes.batches import Batch, as_tensor, call, pieces
from sigmascope.probes.normalisers import Statisticians
from sigmascope.probes.refusals import Refusal
from sigmascope.probes.rows import samples_first
from sigmascope.probes.stillness import still
from sigmascope.probes.tapes import Tape, recording

MEMORY_FLOOR = 2**16  # adjoint entries that are always held at once: half a megabyte in float64
FLAT = (nn.Linear, nn.BatchNorm1d, nn.LayerNorm, nn.RMSNorm)


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
    columns: int,
    batch_dim: int,
    uncovered: Collection[str] = (),
    grams: bool = True,
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
        columns: How many outputs will be differentiated, for the same.
        batch_dim: Where the batch has its samples.
        uncovered: Modules whose share of the tangent kernel is to be sketched with random signs.
        grams: Whether to keep `J Jᵀ` of every layer; without, only shares of the kernel.
        generator: Draws the sample of outputs, and the signs.
    """
    size = fitting(model, entries=entries, columns=columns, count=count)
    sums: dict[str, Sums] = {}
    silent: dict[str, str] = {}
    sketched = {name: list(_trained(modules[name])) for name in uncovered}
    sketches: dict[str, list[Tensor]] = {name: [] for name, owned in sketched.items() if owned}
    chosen: tuple[int, ...] = ()
    total = 0
    for piece, part in pieces(batch, size=size, batch_dim=batch_dim):
        with on_tape(model, modules, frozen) as tape:
            here = part.stop - part.start
            flat = flat_output(model, piece, count=here, batch_dim=batch_dim)
            tape.listening = False
            chosen = chosen or chosen_outputs(flat.shape[1], outputs, generator)
            total = flat.shape[1]
            signs = torch.randint(0, 2, (len(flat), len(chosen)), generator=generator) * 2 - 1
            signed = flat[:, list(chosen)] * signs.to(flat)  # no square below sees the signs
            owned = [p for name in sketches for p in sketched[name]]
            flat_layers = all(type(c.module) in FLAT and c.input.ndim == 2 for c in tape.calls)
            helds = [*(c.output for c in tape.calls), *owned]
            rows = _backward(signed, helds, stacked=flat_layers)
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
            left = iter(rows[len(tape.calls) :])
            for name, parts in sketches.items():
                parts.append(_sketch([next(left) for _ in sketched[name]], len(chosen)))
    found = {site: s.whole(site) for site, s in sums.items() if site not in silent}
    stacked = {name: torch.stack(parts) for name, parts in sketches.items()}
    return Sweep(found, chosen, total, silent, stacked)


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
    out = samples_first(as_tensor(call(model, piece))[0], count=count, batch_dim=batch_dim)
    if out is None:
        raise Refusal(
            "The output must have one row per sample to be differentiated sample by sample. "
            "Return it with the batch dimension, or say `batch_dim=` (`--batch-dim`)."
        )
    return out.reshape(len(out), -1)


def _trained(module: nn.Module) -> Iterator[Tensor]:
    return (p for p in module.parameters() if p.requires_grad)


def _sketch(grads: list[Gradients], k: int) -> Tensor:
    """Squared norm over all the parameters of a module, per output."""
    total = torch.zeros(k, dtype=torch.float64)
    for per_output in grads:
        if per_output is not None:
            total += torch.stack([g.double().square().sum().cpu() for g in per_output])
    return total


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


def _backward(columns: Tensor, helds: list[Tensor], *, stacked: bool) -> list[Gradients]:
    """For every tensor, the gradients of each column; None where the output ignores it."""
    if not columns.requires_grad:
        return [None] * len(helds)
    if stacked:
        try:
            return _all_at_once(columns, helds)
        except RuntimeError:  # an operation between the layers cannot be batched
            pass
    k = columns.shape[1]
    grads = [
        torch.autograd.grad(columns[:, c].sum(), helds, retain_graph=c < k - 1, allow_unused=True)
        for c in range(k)
    ]
    per_site = zip(*grads, strict=True)
    return [None if any(g is None for g in site) else list(site) for site in per_site]


def _all_at_once(columns: Tensor, helds: list[Tensor]) -> list[Gradients]:
    """The same backward passes as one, with larger products.

    Twice as fast for layers of one position, half as fast for convolutions.
    """
    n, k = columns.shape
    seeds = torch.eye(k, dtype=columns.dtype, device=columns.device)[:, None].expand(k, n, k)
    return list(
        torch.autograd.grad(
            columns,
            helds,
            seeds,
            retain_graph=True,
            allow_unused=True,
            is_grads_batched=True,
        )
    )
