"""What a scan will do, from headers alone."""

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from torch import nn

from sigmascope import gate
from sigmascope.gate import Refusal
from sigmascope.quantities import SCAN, in_view
from sigmascope.records import Skipped
from sigmascope.records.scans import Effort, Matrix, ScanPlan
from sigmascope.scanning.costs import effort_of, memory_of, rate, work_of
from sigmascope.scanning.cuts import Cut, Piece
from sigmascope.scanning.matrices import depth_of, distinct, found_in
from sigmascope.scanning.pairs import meeting
from sigmascope.scanning.rules import Rule
from sigmascope.scanning.tasks import Pair, Product, Task
from sigmascope.sources.stored import Adapter, Checkpoint, Stored, open_checkpoint

Asked = Literal["auto", "full", "leading"]
Origin = str | os.PathLike[str] | nn.Module | Mapping[str, Any] | Checkpoint
Draft = tuple[Matrix, Cut | Product, str]  # with what has to be said of it
MEETINGS = frozenset({"alignment", "unit imbalance"})


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked of a scan.

    Attributes:
        only: Patterns of names.
        skip: Patterns of names that are left out.
        wanted: Names of quantities.
        effort: How many singular values are computed.
        heads: Whether attention is split into heads.
        rules: A user's own.
        seed: Of everything that is drawn.
        spectra: Whether singular values are kept.
        memory: Bytes for one process.
    """

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    wanted: frozenset[str] = frozenset()
    effort: Asked = "auto"
    heads: bool = False
    rules: tuple[Rule, ...] = ()
    seed: int = 0
    spectra: bool = True
    memory: int = 2**62

    def words(self) -> dict[str, str]:
        """As a run file keeps them, to know whether another scan is the same."""
        names = ("only", "skip", "effort", "heads", "seed", "spectra", "rules")
        return {
            **{name: repr(getattr(self, name)) for name in names},
            "quantities": ", ".join(sorted(self.wanted)),
        }


@dataclass(frozen=True, slots=True)
class Work:
    """A plan, and what carries it out.

    Attributes:
        plan: As it is shown.
        tasks: One for each matrix.
        pairs: Of matrices that meet.
    """

    plan: ScanPlan
    tasks: tuple[Task, ...]
    pairs: tuple[Pair, ...]


def quantities_named(names: Iterable[str] | None) -> frozenset[str]:
    """Names of quantities of a scan; all of them if none are given.

    Raises:
        Refusal: If one is not read of checkpoints.
    """
    known = {q.name for q in in_view(SCAN)}
    asked = frozenset(names) if names is not None else frozenset(known)
    if odd := sorted(asked - known):
        raise Refusal(
            f"A quantity of a scan must be one of {', '.join(sorted(known))}; got {odd[0]!r}."
        )
    return asked


def opened(source: Origin) -> Checkpoint:
    """A checkpoint by its headers.

    Raises:
        Refusal: If it cannot be opened.
    """
    return source if isinstance(source, Checkpoint) else open_checkpoint(source)


def worked_out(source: Origin, settings: Settings, *, workers: int = 1) -> Work:
    """Open a checkpoint by its headers and say what is to be done.

    Args:
        source: A checkpoint, or one that is open.
        settings: What is asked.
        workers: Processes that share the work.

    Raises:
        Refusal: If it cannot be opened.
    """
    checkpoint = opened(source)
    found, skipped = found_in(
        checkpoint,
        only=settings.only,
        skip=settings.skip,
        rules=settings.rules,
        heads=settings.heads,
    )
    drafts: list[Draft] = [
        (_matrix(stored, piece, settings), piece.cut, piece.note) for stored, piece in found
    ]
    drafts += [_adapted(adapter, settings) for adapter in checkpoint.adapters]
    fits = [d for d in drafts if _memory(d[0]) <= settings.memory]
    skipped += [
        _too_large(matrix, settings) for matrix, _, _ in drafts if _memory(matrix) > settings.memory
    ]
    tasks = tuple(_tasks(fits, settings))
    matrices = [task.matrix for task in tasks]
    tasks = _paired(tasks, _pairs(tasks, settings))
    pairs = _pairs(tasks, settings)
    work = sum(m.work for m in matrices) + sum(pair.work for pair in pairs)
    return Work(planned(checkpoint, matrices, skipped, settings, work, workers), tasks, pairs)


def _tasks(drafts: Sequence[Draft], settings: Settings) -> Iterator[Task]:
    names = distinct([matrix.site for matrix, _, _ in drafts])
    for i, (name, (matrix, cut, note)) in enumerate(zip(names, drafts, strict=True)):
        matrix = replace(matrix, site=name)
        exact = settings.effort == "full"
        yield Task(
            i, matrix, cut, _seed(name, settings), settings.wanted, settings.spectra, exact,
            note=note,
        )  # fmt: skip


def _matrix(stored: Stored, piece: Piece, settings: Settings) -> Matrix:
    site = f"{stored.name}[{piece.part}]" if piece.part else stored.name
    effort: Effort = effort_of(piece.shape, settings.effort)
    if effort == "full" and memory_of(piece.shape, piece.bytes, effort) > settings.memory:
        effort = "leading"  # which needs no Gram matrix
    rows, cols = piece.shape
    form = "kernel" if len(stored.shape) > 2 and piece.kind == "convolution" else "matrix"
    work = work_of(piece.shape, effort)
    return Matrix(
        site, piece.kind, depth_of(stored.name), rows, cols, stored.dtype, stored.tensors,
        piece.bytes, effort, work, form,
    )  # fmt: skip


def _adapted(adapter: Adapter, settings: Settings) -> Draft:
    """What an adapter adds to a weight, which is never written out."""
    A, B = adapter.A, adapter.B
    shape, rank = (B.shape[0], A.shape[1]), A.shape[0]
    cuts = Cut(B, 0, B.shape[0], rows=B.shape[0]), Cut(A, 0, rank, rows=rank)
    work = 4.0 * (shape[0] + shape[1]) * rank * rank + 1e6
    matrix = Matrix(
        adapter.name, "adapter", depth_of(adapter.name), *shape, B.dtype,
        (*B.tensors, *A.tensors), A.bytes + B.bytes, "full", work, "product",
    )  # fmt: skip
    return matrix, Product(*cuts, adapter.scaling), ""


def _memory(matrix: Matrix) -> int:
    if matrix.form == "product":
        return memory_of((1, 1), matrix.bytes, "leading")
    return memory_of(matrix.shape, matrix.bytes, matrix.effort)


def _too_large(matrix: Matrix, settings: Settings) -> Skipped:
    return Skipped(
        matrix.site,
        "tensor",
        f"measuring it takes {gate.size_words(_memory(matrix))}, more than the "
        f"{gate.size_words(settings.memory)} that a process may take (--memory)",
    )


def _seed(site: str, settings: Settings) -> int:
    """The same wherever and whenever the matrix is measured."""
    return (zlib.crc32(site.encode()) << 20) ^ settings.seed


def _pairs(tasks: Sequence[Task], settings: Settings) -> tuple[Pair, ...]:
    wanted = settings.wanted & MEETINGS
    if not wanted:
        return ()
    found = []
    for one, other in meeting([task.matrix for task in tasks]):
        both = tasks[one], tasks[other]
        if not any(isinstance(task.cut, Product) for task in both):
            site = f"{both[0].matrix.site} → {both[1].matrix.site}"
            work = sum(16.0 * m.rows * m.cols for m in (both[0].matrix, both[1].matrix))
            found.append(Pair(len(tasks) + len(found), "meet", site, both, wanted, work))
    return tuple(found)


def _paired(tasks: Sequence[Task], pairs: Sequence[Pair]) -> tuple[Task, ...]:
    """Tasks that know whether they meet another."""
    met = {task.index for pair in pairs for task in pair.tasks}
    return tuple(replace(task, paired=task.index in met) for task in tasks)


def planned(
    checkpoint: Checkpoint,
    matrices: Sequence[Matrix],
    skipped: Sequence[Skipped],
    settings: Settings,
    work: float,
    workers: int,
) -> ScanPlan:
    """A plan of so much work on these matrices of an open checkpoint."""
    about = {
        "format": checkpoint.format,
        "spikes": "flagged in noise with a chance of 1 % a matrix at most",
    }
    return ScanPlan(
        checkpoint.name,
        tuple(matrices),
        tuple(skipped),
        len(checkpoint.tensors) + len(checkpoint.left_out) + 2 * len(checkpoint.adapters),
        sum(m.bytes for m in matrices),
        work / rate() if matrices else 0.0,
        max((_memory(m) for m in matrices), default=0),
        workers,
        MappingProxyType(about),
        MappingProxyType({"fingerprint": checkpoint.fingerprint, **settings.words()}),
    )
