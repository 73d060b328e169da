"""What a scan will do, from headers alone."""

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from sigmascope import gate, quantities as q
from sigmascope.records import Skipped
from sigmascope.records.scans import Effort, Matrix, ScanPlan
from sigmascope.scanning.costs import effort_of, memory_of, rate, work_of
from sigmascope.scanning.cuts import Cut, Piece
from sigmascope.scanning.matrices import depth_of, distinct, found_in, require_named, unasked
from sigmascope.scanning.pairs import meeting
from sigmascope.scanning.settings import Origin, Settings, opened
from sigmascope.scanning.tasks import Pair, Product, Task
from sigmascope.sources.stored import Adapter, Checkpoint, Stored

Draft = tuple[Matrix, Cut | Product, str]  # with what has to be said of it
MEETINGS = frozenset({q.ALIGNMENT, q.UNIT_IMBALANCE})


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
    require_named(checkpoint, settings.only)
    drafts, skipped = _drafts(checkpoint, settings)
    too_large = lambda matrix: _memory(matrix) > settings.memory
    fits = [draft for draft in drafts if not too_large(draft[0])]
    skipped += [_too_large(matrix, settings) for matrix, _, _ in drafts if too_large(matrix)]
    tasks = tuple(_tasks(fits, settings))
    matrices = [task.matrix for task in tasks]
    tasks = _paired(tasks, _pairs(tasks, settings))
    pairs = _pairs(tasks, settings)
    work = sum(m.work for m in matrices) + sum(pair.work for pair in pairs)
    return Work(planned(checkpoint, matrices, skipped, settings, work, workers), tasks, pairs)


def _drafts(checkpoint: Checkpoint, settings: Settings) -> tuple[list[Draft], list[Skipped]]:
    """What is there to measure, and what is left out."""
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
    for adapter in checkpoint.adapters:
        why = unasked(adapter.name, settings.only, settings.skip)
        names = (*adapter.B.tensors, *adapter.A.tensors)
        skipped += [Skipped(name, "tensor", why) for name in names if why]
        drafts += [] if why else [_adapted(adapter, settings)]
    return drafts, skipped


def _tasks(drafts: Sequence[Draft], settings: Settings) -> Iterator[Task]:
    names = distinct([matrix.site for matrix, _, _ in drafts])
    for i, (name, (matrix, cut, note)) in enumerate(zip(names, drafts, strict=True)):
        matrix = replace(matrix, site=name)
        exact = settings.effort == "full"
        yield Task(
            i, matrix, cut, _seed(name, settings), settings.wanted, settings.spectra, exact,
            settings.grid, note=note,
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
    return matrix, Product(*cuts, adapter.scaling, adapter.turned), adapter.shifted


def _digest(matrices: Sequence[Matrix]) -> str:
    """Changes when results would mean something else, or be numbered otherwise."""
    words = (f"{m.site} {m.kind} {m.shape} {m.effort}" for m in matrices)
    return hashlib.sha256("\n".join(words).encode(errors="surrogatepass")).hexdigest()


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
        q.SPIKES: "flagged in noise with a chance of 1 % a matrix at most",
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
        MappingProxyType(
            {
                "fingerprint": checkpoint.fingerprint,
                "against": "no",
                **settings.words(),
                "matrices": _digest(matrices),
                "copies": "turned or opposite too",  # sketches of another kind do not compare
            }
        ),
    )
