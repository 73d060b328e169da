"""What a scan will do, from headers alone."""

import hashlib
import itertools
import os
import re
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import nn

from sigmascope.checkpoints import Checkpoint, open_checkpoint
from sigmascope.core import guard, quantities as q
from sigmascope.core.guard import Refusal
from sigmascope.core.quantities import SCAN, in_view
from sigmascope.core.records import Effort, Estimate, Matrix, Reading, ScanPlan, Skipped
from sigmascope.scanning.matrices import (
    Cut,
    NameRule,
    blocks,
    depth_of,
    distinct,
    found_in,
    require_named,
    unasked,
)

# ------------------------------------------------------------------------------
# What is asked of a scan.


Asked = Literal["auto", "full", "leading"]
Origin = str | os.PathLike[str] | nn.Module | Mapping[str, Any] | Checkpoint


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked of a scan.

    Attributes:
        only: Patterns of names.
        skip: Patterns of names that are left out.
        wanted: Names of quantities.
        effort: How many singular values are computed.
        heads: Whether attention is split into heads.
        grid: Points along each side on which convolutions are operators too; 0 for their kernels.
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
    grid: int = 0
    rules: tuple[NameRule, ...] = ()
    seed: int = 0
    spectra: bool = True
    memory: int = 2**62

    def words(self) -> dict[str, str]:
        """As a run file keeps them, to know whether another scan is the same."""
        names = ("only", "skip", "effort", "heads", "grid", "seed", "spectra", "rules")
        return {
            **{name: repr(getattr(self, name)) for name in names},
            "quantities": ", ".join(sorted(self.wanted)),
        }


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


# ------------------------------------------------------------------------------
# What it costs to measure a matrix: multiplications, seconds of one core, memory.


FULL_SIDE = 4096  # of the smaller side, up to which all singular values are computed
SMALL_SIDE = 256  # up to which all are computed whatever is asked: it costs no more
SKINNY = 1170.0  # multiplications for each entry, by the time that blocks of 16 vectors take
SOLVING = 3.0  # times the cube of the smaller side: the eigensolver is slower than products
RESTING = 300 * 2**20  # of a process with torch in it


def effort_of(shape: tuple[int, int], asked: str) -> Effort:
    """Whether all singular values are computed, or the leading ones.

    Args:
        shape: Of the matrix.
        asked: `"auto"`, `"full"` or `"leading"`.
    """
    side = min(shape)
    if asked == "full" or side <= SMALL_SIDE:
        return "full"
    return "leading" if asked == "leading" or side > FULL_SIDE else "full"


def work_of(shape: tuple[int, int], effort: Effort) -> float:
    """Multiplications, those of the eigensolver counted by the time they take."""
    m, n = shape
    side = min(m, n)
    reading = 64.0 * m * n + 1e6
    if effort == "leading":
        return reading + SKINNY * m * n
    return reading + 0.45 * SKINNY * m * n + 0.6 * m * n * side + SOLVING * side**3


def memory_of(shape: tuple[int, int], stored: int, effort: Effort) -> int:
    """Peak of a process in bytes: the numbers as stored and in single precision, and the solver."""
    m, n = shape
    side = min(m, n)
    solver = 16 * side * side if effort == "full" else 8 * (m + n) * 192 * 2
    return RESTING + stored + max(solver, 4 * m * n) + 2**26


@cache
def rate() -> float:
    """Multiplications in a second of one core, measured here on a matrix of a moderate size."""
    side = 512
    A = torch.randn(side, side, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with one_thread():
        best = min(_seconds(A) for _ in range(3))
    return work_of((side, side), "full") / best


def _seconds(A: torch.Tensor) -> float:
    began = time.perf_counter()
    torch.linalg.eigvalsh(A.mT @ A)
    return time.perf_counter() - began


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch's while the block runs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# ------------------------------------------------------------------------------
# What there is to do, piece by piece: small values that any process can run.


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix `scaling * left @ right` that is never formed.

    Attributes:
        left: Tall.
        right: Wide.
        scaling: Factor.
        turned: Whether the adapter's settings say that the weight is stored as `[in, out]`; None
            for an embedding, of which they say nothing.
        base: What it is added to; None for the product alone.
    """

    left: Cut
    right: Cut
    scaling: float
    turned: bool | None = False
    base: Cut | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One matrix to measure.

    Attributes:
        index: Its place in the plan.
        matrix: What is known of it.
        cut: Where it lies.
        seed: Of the generator for everything that is drawn for it.
        wanted: Names of the quantities that are read.
        spectra: Whether its singular values are kept.
        exact: Whether small singular values are computed to full precision.
        grid: Points along each side on which a convolution is an operator too; 0 for none.
        paired: Whether it meets another matrix, so that its leading vectors are needed too.
        note: What has to be said of it, as why it was not split.
    """

    index: int
    matrix: Matrix
    cut: Cut | Product
    seed: int
    wanted: frozenset[str]
    spectra: bool = True
    exact: bool = False
    grid: int = 0
    paired: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class MatrixPair:
    """Two matrices to hold against one another.

    Attributes:
        index: Its place among the steps of the run.
        kind: `"meet"` where the second reads what the first writes, `"copy"` where they may be
            the same, `"change"` where they are two versions of one.
        site: Of the readings.
        tasks: The two matrices.
        wanted: Names of the quantities that are read.
        work: Expected multiplications.
    """

    index: int
    kind: str
    site: str
    tasks: tuple[Task, Task]
    wanted: frozenset[str]
    work: float


def read(matrix: Matrix, name: str, estimate: Estimate) -> Reading:
    """A number of this matrix."""
    return Reading(matrix.site, name, estimate, SCAN, matrix.form)


def skip(matrix: Matrix, what: str, why: str) -> Skipped:
    """What is not measured of this matrix."""
    return Skipped(matrix.site, what, why)


# ------------------------------------------------------------------------------
# Matrices that are held against one another: layers that meet, copies, two versions of one.


MEETING = (  # what the second reads is what the first writes, within one block
    ("attention value", "attention output"),
    ("feed-forward in", "feed-forward out"),
    ("feed-forward gate", "feed-forward out"),
    ("expert in", "expert out"),
    ("expert gate", "expert out"),
)
NUMBERED = re.compile(r"^(.*?)(\d+)\.weight$")


def meeting(matrices: Sequence[Matrix]) -> Iterator[tuple[int, int]]:
    """Places of two matrices of which the second reads what the first writes."""
    by_block: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, (matrix, block) in enumerate(
        zip(matrices, blocks(m.site for m in matrices), strict=True)
    ):
        by_block[block][matrix.kind].append(i)
    for kinds in by_block.values():
        for first, second in MEETING:
            if len(kinds[first]) == len(kinds[second]) == 1:
                yield from _fitting(matrices, kinds[first][0], kinds[second][0])
    # neighbours of a plain stack: `net.0.weight`, `net.2.weight`, …
    stacks: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for i, matrix in enumerate(matrices):
        found = NUMBERED.match(matrix.site)
        if found and matrix.kind == "linear":
            stacks[found[1]].append((int(found[2]), i))
    for stack in stacks.values():
        ordered = [i for _, i in sorted(stack)]
        for one, other in itertools.pairwise(ordered):
            yield from _fitting(matrices, one, other)


def _fitting(matrices: Sequence[Matrix], one: int, other: int) -> Iterator[tuple[int, int]]:
    if matrices[one].rows == matrices[other].cols:
        yield one, other


Draft = tuple[Matrix, Cut | Product, str]  # with what has to be said of it
MEETINGS = frozenset({q.ALIGNMENT, q.UNIT_IMBALANCE})


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """A plan, and what carries it out.

    Attributes:
        plan: As it is shown.
        tasks: One for each matrix.
        pairs: Of matrices that meet.
    """

    plan: ScanPlan
    tasks: tuple[Task, ...]
    pairs: tuple[MatrixPair, ...]


def worked_out(source: Origin, settings: Settings, *, workers: int = 1) -> PlannedWork:
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
    found, skipped = found_in(
        checkpoint,
        only=settings.only,
        skip=settings.skip,
        rules=settings.rules,
        heads=settings.heads,
    )
    drafts: list[Draft] = []
    for stored, piece in found:
        site = f"{stored.name}[{piece.part}]" if piece.part else stored.name
        effort: Effort = effort_of(piece.shape, settings.effort)
        if effort == "full" and memory_of(piece.shape, piece.bytes, effort) > settings.memory:
            effort = "leading"  # which needs no Gram matrix
        form = "kernel" if len(stored.shape) > 2 and piece.kind == "convolution" else "matrix"
        matrix = Matrix(
            site, piece.kind, depth_of(stored.name), *piece.shape, stored.dtype, stored.tensors,
            piece.bytes, effort, work_of(piece.shape, effort), form,
        )  # fmt: skip
        drafts.append((matrix, piece.cut, piece.note))
    for adapter in checkpoint.adapters:
        A, B = adapter.A, adapter.B
        tensors = (*B.tensors, *A.tensors)
        if why := unasked(adapter.name, settings.only, settings.skip):
            skipped += [Skipped(name, "tensor", why) for name in tensors]
            continue
        # what an adapter adds to a weight, which is never written out
        shape, rank = (B.shape[0], A.shape[1]), A.shape[0]
        cuts = Cut(B, 0, B.shape[0], rows=B.shape[0]), Cut(A, 0, rank, rows=rank)
        work = 4.0 * (shape[0] + shape[1]) * rank * rank + 1e6
        matrix = Matrix(
            adapter.name, "adapter", depth_of(adapter.name), *shape, B.dtype, tensors,
            A.bytes + B.bytes, "full", work, "product",
        )  # fmt: skip
        product = Product(*cuts, adapter.scaling, adapter.turned)
        drafts.append((matrix, product, adapter.shifted))
    too_large = lambda matrix: _memory(matrix) > settings.memory
    fits = [draft for draft in drafts if not too_large(draft[0])]
    skipped += [
        Skipped(
            matrix.site,
            "tensor",
            f"measuring it takes {guard.size_words(_memory(matrix))}, more than the "
            f"{guard.size_words(settings.memory)} that a process may take (--memory)",
        )
        for matrix, _, _ in drafts
        if too_large(matrix)
    ]
    made: list[Task] = []
    names = distinct([matrix.site for matrix, _, _ in fits])
    for i, (name, (matrix, cut, note)) in enumerate(zip(names, fits, strict=True)):
        # the same wherever and whenever the matrix is measured
        seed = (zlib.crc32(name.encode()) << 20) ^ settings.seed
        made.append(Task(
            i, replace(matrix, site=name), cut, seed, settings.wanted, settings.spectra,
            settings.effort == "full", settings.grid, note=note,
        ))  # fmt: skip
    matrices = [task.matrix for task in made]
    # each knows whether it meets another
    met = {task.index for pair in _pairs(made, settings) for task in pair.tasks}
    tasks = tuple(replace(task, paired=task.index in met) for task in made)
    pairs = _pairs(tasks, settings)
    work = sum(m.work for m in matrices) + sum(pair.work for pair in pairs)
    return PlannedWork(
        planned(checkpoint, matrices, skipped, settings, work, workers), tasks, pairs
    )


def _memory(matrix: Matrix) -> int:
    if matrix.form == "product":
        return memory_of((1, 1), matrix.bytes, "leading")
    return memory_of(matrix.shape, matrix.bytes, matrix.effort)


def _pairs(tasks: Sequence[Task], settings: Settings) -> tuple[MatrixPair, ...]:
    wanted = settings.wanted & MEETINGS
    if not wanted:
        return ()
    found = []
    for one, other in meeting([task.matrix for task in tasks]):
        both = tasks[one], tasks[other]
        if not any(isinstance(task.cut, Product) for task in both):
            site = f"{both[0].matrix.site} → {both[1].matrix.site}"
            work = sum(16.0 * m.rows * m.cols for m in (both[0].matrix, both[1].matrix))
            found.append(MatrixPair(len(tasks) + len(found), "meet", site, both, wanted, work))
    return tuple(found)


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
    # changes when results would mean something else, or be numbered otherwise
    words = (f"{m.site} {m.kind} {m.shape} {m.effort}" for m in matrices)
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
                "matrices": hashlib.sha256(
                    "\n".join(words).encode(errors="surrogatepass")
                ).hexdigest(),
                "copies": "turned or opposite too",  # sketches of another kind do not compare
            }
        ),
    )
