"""Matrices held against one another: of two checkpoints, of copies, where layers meet."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.checkpoints import Checkpoint, Stored
from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal, size_words
from sigmascope.core.records import Estimate, Item, Reading, SiteSpectrum, Skipped, Spectrum
from sigmascope.linalg import measure
from sigmascope.linalg.dense import EPS, tamed, times
from sigmascope.linalg.entries import PANEL, entries
from sigmascope.linalg.krylov import leading
from sigmascope.linalg.measures import NOISE, OF_SPECTRUM, TAIL
from sigmascope.linalg.norms import spectral_norm
from sigmascope.linalg.spectra import principal_angles, spectrum
from sigmascope.scanning.matrices import Cut
from sigmascope.scanning.measuring import MapEnds, Measured, in_unit, items, off, told
from sigmascope.scanning.planning import (
    RESTING,
    MatrixPair,
    Origin,
    PlannedWork,
    Product,
    Settings,
    Task,
    opened,
    planned,
    read,
    skip,
    work_of,
    worked_out,
)

# ------------------------------------------------------------------------------
# Which matrices may be copies of others, by their sketches.


ALIKE = 0.85  # cosine of two sketches, of which copies miss that by more than two deviations
ROWS = 1024  # of a table of cosines, or of a matrix, at a time


def candidates(
    tasks: Sequence[Task], sketches: Mapping[int, Tensor], *, start: int
) -> list[MatrixPair]:
    """Pairs whose sketches nearly agree, each matrix with the first that it is like.

    They are of one shape, or one of the other's turned; sketches do not tell a matrix from its
    transpose. Opposites are alike too.

    Args:
        tasks: The matrices.
        sketches: By place in the plan.
        start: Index of the first pair.
    """
    by_shape: dict[tuple[int, int], list[Task]] = defaultdict(list)
    for task in tasks:
        if task.index in sketches and isinstance(task.cut, Cut):
            rows, cols = task.matrix.shape
            by_shape[min(rows, cols), max(rows, cols)].append(task)
    found: list[MatrixPair] = []
    stride = max((task.index for task in tasks), default=0) + 1
    for some in by_shape.values():
        rows = torch.stack([sketches[task.index] for task in some])
        lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        units = rows / torch.where(lengths > 0, lengths, 1)
        for at in range(0, len(units), ROWS):
            block = units[at : at + ROWS]
            like = (block @ units[: at + len(block)].mT).abs() >= ALIKE  # those before it alone
            like &= torch.arange(at + len(block)) < torch.arange(at, at + len(block))[:, None]
            for i in like.any(1).nonzero()[:, 0].tolist():
                first, second = some[int(like[i].double().argmax())], some[at + i]
                site = f"{first.matrix.site} = {second.matrix.site}"
                work = 64.0 * first.matrix.rows * first.matrix.cols
                # the same whichever others there are, for a scan that is gone on with finds more
                index = start + first.index * stride + second.index
                both, wanted = (first, second), frozenset({q.COPY_COSINE})
                found.append(MatrixPair(index, "copy", site, both, wanted, work))
    return found


# ------------------------------------------------------------------------------
# Changes of low rank, `B A`, by their factors.


ENTRIES = "mean shift, largest entry, longest row, longest column"


def measure_product(task: Task, product: Product) -> Measured:
    """Norms and ranks of a product, from the triangular factors of both sides.

    Args:
        task: What is known of it.
        product: Its factors.
    """
    B, A = product.left.read().double(), product.right.read().double()
    matrix = task.matrix
    if not (bool(B.isfinite().all()) and bool(A.isfinite().all())):
        odd = float((~B.isfinite()).sum() + (~A.isfinite()).sum())
        found: list[Item] = [read(matrix, q.NON_FINITE_ENTRIES, Estimate.exactly(odd))]
        found.append(skip(matrix, "all else", "its factors are not finite"))
        return told(task, found)
    (B, left), (A, right) = tamed(B), tamed(A)
    # all singular values; those beyond the inner dimension are exactly zero
    scaling, shape = product.scaling, (B.shape[0], A.shape[1])
    L, R = torch.linalg.qr(B, mode="r")[1], torch.linalg.qr(A.mT, mode="r")[1]
    inner = scaling * torch.linalg.svdvals(L @ R.mT)
    size = float(torch.linalg.matrix_norm(L, 2) * torch.linalg.matrix_norm(R, 2))
    slack = 8 * max(*shape, 16) * EPS * abs(scaling) * size  # of both factorisations
    sigma: Float64[Tensor, " r"] = torch.zeros(min(shape), dtype=torch.float64)
    kept = min(len(inner), len(sigma))
    sigma[:kept] = inner.abs()[:kept]
    low, high = (sigma - slack).clamp_min(0), sigma.clone()
    high[:kept] += slack
    s = Spectrum(sigma, shape, "exact, of the factors", low, high)
    found = [SiteSpectrum(matrix.site, q.SCAN, matrix.form, s)]
    if float(s.sigma[0]) == 0:
        found += items(measure(s, (q.SPECTRAL_NORM, q.FROBENIUS_NORM)), matrix)
        found.append(skip(matrix, "all else", "it is exactly zero, as before training"))
        return told(task, found)
    found += items(measure(s, task.wanted & {*OF_SPECTRUM}), matrix)
    found.append(skip(matrix, ", ".join((*NOISE, *TAIL)), "a product of low rank: no bulk"))
    found.append(skip(matrix, ENTRIES, "the product of its factors is never formed"))
    return told(task, [in_unit(item, left + right) for item in found])


# ------------------------------------------------------------------------------
# An adapter on its base: each weight before and after the change of low rank is added.


TIMES = 6.0  # the work of leading values: of both versions and of their difference


def _flat(stored: Stored) -> tuple[int, ...]:
    """The shape of what a change of low rank is added to: kernels are flattened."""
    shape = stored.shape
    return (shape[0], math.prod(shape[1:])) if len(shape) > 2 else tuple(shape)


def merges(
    base: Checkpoint, own: Iterable[Task], changes: list[Task], wanted: frozenset[str]
) -> tuple[list[MatrixPair], list[Skipped]]:
    """Weights of a base, each with what an adapter makes of it.

    An adapter says once for all its layers whether they are stored transposed; where kinds of
    layers are mixed, the base knows better.

    Args:
        base: Whose weights are adapted.
        own: The tasks of its matrices.
        changes: The products of low rank, one for each adapted weight.
        wanted: Names of quantities.

    Returns:
        Pairs of versions, and what cannot be paired with the reason.
    """
    known = {stored.name: stored for stored in base.tensors}
    turned = {task.cut.stored.name for task in own if isinstance(task.cut, Cut) and task.cut.turned}
    pairs: list[MatrixPair] = []
    out: list[Skipped] = []
    for task in changes:
        stored = _named(known, task.matrix.site)
        if stored is not None and task.note:
            out.append(Skipped(task.matrix.site, "tensor", task.note))
            continue
        if stored is not None:
            # the change transposed, where only so it fits, or where the base stores that layer so;
            # where the base stores none so, the adapter's settings stand
            product, (rows, cols) = task.cut, task.matrix.shape
            assert isinstance(product, Product)
            if rows != cols:
                flip = _flat(stored) == (cols, rows)
            else:
                flip = product.turned is not None and bool(turned)
                flip = flip and (stored.name in turned) != product.turned
            if flip:
                left, right = (
                    replace(c, turned=not c.turned) for c in (product.right, product.left)
                )
                cut = replace(product, left=left, right=right)
                task = replace(task, matrix=replace(task.matrix, rows=cols, cols=rows), cut=cut)
        if stored is None or _flat(stored) != task.matrix.shape:
            shape = "no weight of that name" if stored is None else f"shape {list(stored.shape)}"
            why = f"the base has {shape}, where the adapter changes {list(task.matrix.shape)}"
            out.append(Skipped(task.matrix.site, "tensor", why))
            continue
        assert isinstance(task.cut, Product)
        base_cut = Cut(stored, 0, stored.shape[0], rows=stored.shape[0])
        matrix = replace(
            task.matrix,
            kind="linear",
            dtype=stored.dtype,
            tensors=stored.tensors,
            bytes=stored.bytes + task.matrix.bytes,
            effort="leading",
            form="matrix",
        )
        before = replace(task, index=len(pairs), matrix=matrix, cut=base_cut)
        after = replace(before, cut=replace(task.cut, base=base_cut))
        work = TIMES * work_of(matrix.shape, "leading")
        pairs.append(MatrixPair(len(pairs), "change", matrix.site, (before, after), wanted, work))
    meant = {s.name for task in changes if (s := _named(known, task.matrix.site))}
    rest = [s for s in base.tensors if s.name not in meant and len(s.shape) > 1]
    out += [Skipped(s.name, "tensor", "the adapter leaves it as it is") for s in rest]
    return pairs, out


def _named(known: Mapping[str, Stored], name: str) -> Stored | None:
    """A tensor of this name, or the only one that ends so, as prefixes of wrappers differ."""
    if name in known:
        return known[name]
    ends = [s for n, s in known.items() if n.endswith(f".{name}") or name.endswith(f".{n}")]
    return ends[0] if len(ends) == 1 else None


# ------------------------------------------------------------------------------
# Two matrices held against one another: where layers meet, of copies, of two versions.


COMPARED = 10  # leading directions of two versions
OF_DIFFERENCE = (q.CHANGE_STABLE_RANK, q.CHANGE_SPIKES, q.CHANGE_IN_TOP_EIGHTH, q.CHANGE_RANK,
                 q.CHANGE_BY_ROUNDING)  # fmt: skip
OF_DIRECTIONS = (q.LARGEST_ANGLE, q.INTRUDERS, q.CHANGE_IN_LEADING)
INTRUDER = 0.6  # cosine below which a direction is none of the first version's
WHOLE_SIDE = 1024  # up to which all directions of the first version are known
COPY = 0.99  # cosine from which on two matrices are told as copies


def meet(pair: MatrixPair, one: MapEnds, other: MapEnds) -> Iterator[Item]:
    """Of two layers, the second of which reads what the first writes.

    Args:
        pair: What is wanted.
        one: The ends of the first.
        other: Those of the second.
    """
    if one.zero or other.zero:
        yield Skipped(pair.site, q.ALIGNMENT, "one of them is exactly zero, or not finite")
        return
    top = max(one.power, other.power)
    made, read = times(one.rows, 2 * (one.power - top)), times(other.cols, 2 * (other.power - top))
    total = float(made.sum() + read.sum())
    apart = float((made - read).abs().sum()) / total
    gap = (len(made) + len(one.reads) + len(other.writes) + 8) * EPS  # of each sum, of the total
    imbalance = Estimate.within(apart, 2 * gap).at_least(0.0).at_most(1.0)
    cosine = min(abs(float(one.writes @ other.reads)), 1.0)
    angle, off = math.acos(cosine), math.asin(one.off) + math.asin(other.off)
    least, most = max(angle - off, 0.0), min(angle + off, math.pi / 2)
    ends = sorted((math.cos(most) ** 2, cosine**2, math.cos(least) ** 2))
    how = "leading vectors by block krylov"
    alignment = Estimate(ends[1], ends[0], ends[2], how)
    for name, found in ((q.UNIT_IMBALANCE, imbalance), (q.ALIGNMENT, alignment)):
        if name in pair.wanted:
            yield _read(pair, name, found)


def hold(pair: MatrixPair, A: Float[Tensor, "_ _"], B: Float[Tensor, "_ _"]) -> Iterator[Item]:
    """What is wanted of two matrices that may be copies, or are two versions of one.

    Args:
        pair: What they are to each other.
        A: The first.
        B: The second.
    """
    if not (bool(A.isfinite().all()) and bool(B.isfinite().all())):
        yield Skipped(pair.site, "both together", "one of them has entries that are not finite")
        return
    power = max((tamed(M)[1] for M in _wide(A, B) if M.any()), default=0)
    A, B = (times(M, -power) for M in _wide(A, B)) if power else (A, B)
    found = _change(pair, A, B, power)
    if pair.kind == "copy":
        # as they lie, else with the second turned; of opposites the cosine is negative
        ways = [(form, M) for form, M in (("", B), ("turned", B.mT)) if A.shape == M.shape]
        seen = (_read(pair, q.COPY_COSINE, _cosine(A, M), form) for form, M in ways)
        found = islice((reading for reading in seen if abs(reading.estimate.value) >= COPY), 1)
    for item in found:
        if not isinstance(item, Reading) or item.quantity in pair.wanted:
            yield in_unit(item, power)


def _cosine(A: Tensor, B: Tensor) -> Estimate:
    inner, first, second, apart = _products(A, B)
    if inner < 0:
        return -_cosine(A, -B)
    cosine = inner / (math.sqrt(first) * math.sqrt(second)) if first and second else 0.0
    estimate = Estimate.rounded(min(cosine, 1.0), ulps=A.numel() + 16.0).at_most(1.0)
    # a multiple has a cosine of 1 up to rounding: of equal entries alone it is 1
    return estimate if apart or not first else Estimate.exactly(1.0)


def _products(A: Tensor, B: Tensor) -> tuple[float, ...]:
    """`⟨A, B⟩`, `‖A‖²`, `‖B‖²` and `‖B - A‖²` in float64, by panels."""
    found = torch.zeros(4, dtype=torch.float64)
    for one, other in _panels(A, B):
        found += torch.stack([one @ other, one @ one, other @ other, (other - one).square().sum()])
    return tuple(found.tolist())


def _panels(A: Tensor, B: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    rows = max(1, PANEL // A.shape[1])
    for P, Q in zip(A.split(rows), B.split(rows), strict=True):
        yield P.double().flatten(), Q.double().flatten()


def _wide(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Both in single precision at least."""
    wide = torch.float64 if torch.float64 in (A.dtype, B.dtype) else torch.float32
    return A.to(wide), B.to(wide)


def _change(pair: MatrixPair, A: Tensor, B: Tensor, power: int) -> Iterator[Item]:
    """Of two versions of one matrix, over `2^power`: how far it moved, and where to."""
    inner, first, second, apart = _products(A, B)
    if first == 0:
        yield Skipped(pair.site, "all else", "the first version is exactly zero")
        return
    rounding = A.numel() + 8.0
    size, moved = (Estimate.rounded(x, ulps=rounding).sqrt() for x in (first, apart))
    same = apart == 0 and all(torch.equal(one, other) for one, other in _panels(A, B))
    change = Estimate.exactly(0.0) if same else (moved / size).at_least(0.0)
    yield _read(pair, q.RELATIVE_CHANGE, change)
    lost = rounding * EPS * math.sqrt(second / first)  # of the scale, whatever cancels in it
    scale = inner / first
    yield _read(pair, q.BEST_SCALE, Estimate.within(scale, lost + abs(scale) * rounding * EPS))
    yield _read(pair, q.CHANGE_SIZE, Estimate.exactly(0.0) if same else moved)
    if apart == 0:
        for name in (q.TURNED_CHANGE, q.CHANGE_NORM, q.SPECTRAL_CHANGE):
            yield _read(pair, name, Estimate.exactly(0.0))
        names = (*OF_DIFFERENCE, *OF_DIRECTIONS)
        yield Skipped(pair.site, ", ".join(names), "nothing has changed")
        return
    turned = math.sqrt(
        sum(float((other - scale * one).square().sum()) for one, other in _panels(A, B)) / first
    )
    gap = 2 * lost + turned * rounding * EPS
    yield _read(pair, q.TURNED_CHANGE, Estimate.within(turned, gap).at_least(0.0))
    generator = torch.Generator().manual_seed(pair.tasks[0].seed)

    # norm, ranks and spikes of the difference, whose energy is known before it is rounded once
    first_wide, second_wide = _wide(A, B)
    whole = min(A.shape) <= WHOLE_SIDE
    D = second_wide.double() - first_wide.double() if whole else second_wide - first_wide
    seen = entries(D, "")
    if whole:
        s = spectrum(D, route="exact")  # what rounding leaves may be 1e-8 of the norm
    else:
        s = leading(D, energy=seen.energy.high, vectors=0, generator=generator).spectrum
    found = measure(D, (q.SPECTRAL_NORM, q.SPIKES), s=s, entries=seen, generator=generator)
    top = found.numbers[q.SPECTRAL_NORM]
    yield _read(pair, q.CHANGE_NORM, top)
    ratio = (moved**2 / top**2).at_least(1.0).at_most(float(min(s.shape)))
    yield _read(pair, q.CHANGE_STABLE_RANK, ratio)
    if q.SPIKES in found.numbers:
        yield _read(pair, q.CHANGE_SPIKES, found.numbers[q.SPIKES])
    else:
        yield Skipped(pair.site, q.CHANGE_SPIKES, found.undefined[q.SPIKES])
    yield _read(pair, q.CHANGE_IN_TOP_EIGHTH, _top_eighth(s, moved**2))
    noise = _rounding(pair, A, B, power)
    if noise is None:
        why = f"how numbers are rounded in {pair.tasks[1].matrix.dtype} is not known"
        yield Skipped(pair.site, f"{q.CHANGE_RANK}, {q.CHANGE_BY_ROUNDING}", why)
    else:
        yield _read(pair, q.CHANGE_BY_ROUNDING, noise.energy / moved**2)
        yield _read(pair, q.CHANGE_RANK, _rank_above(s, moved**2, noise))

    # angles between the leading directions, and those of the second that are none of the first
    k = min(COMPARED, min(A.shape) // 2)
    if k < 1:
        yield _read(pair, q.SPECTRAL_CHANGE, (top / size).at_least(0.0))  # one direction: one norm
        why = "of a single direction nothing can be compared"
        yield Skipped(pair.site, ", ".join(OF_DIRECTIONS), why)
        return
    one, other = (leading(M, count=k + 1, generator=generator) for M in (A, B))
    yield _read(pair, q.SPECTRAL_CHANGE, (top / spectral_norm(one.spectrum)).at_least(0.0))
    angle = max(
        float(principal_angles(first[:, :k], second[:, :k])[-1])
        for first, second in ((one.left, other.left), (one.right, other.right))
    )
    sines = off(one, A, k), off(other, B, k)
    slack = sum(map(math.asin, sines))
    ends = max(min(angle, math.pi / 2) - slack, 0.0), min(angle + slack, math.pi / 2)
    how = f"{k} leading directions by block krylov"
    risk = one.spectrum.risk + other.spectrum.risk
    form = f"{k} directions"
    yield _read(pair, q.LARGEST_ANGLE, Estimate(min(angle, ends[1]), *ends, how, risk), form)
    yield _read(pair, q.INTRUDERS, _intruders(A, other.left[:, :k].double(), generator), form)

    # each projector may be off by its sine, and so may what it leaves of the difference
    left, right = one.left[:, :k].double(), one.right[:, :k].double()
    parts = (d.double().mT @ u for d, u in zip(D.split(ROWS), left.split(ROWS), strict=True))
    held = float(torch.linalg.matrix_norm(right.mT @ sum(parts)))
    reach = held / moved.value
    far = 2 * sines[0] + rounding * EPS
    inside = [min(max(x, 0.0), 1.0) ** 2 for x in (reach, reach - far, reach + far)]
    estimate = Estimate(inside[0], inside[1], inside[2], how, one.spectrum.risk)
    yield _read(pair, q.CHANGE_IN_LEADING, estimate, form)


def _top_eighth(s: Spectrum, energy: Estimate) -> Estimate:
    """Share of the energy in the largest eighth of the directions; bounded where fewer are known.

    Args:
        s: Singular values of a matrix that is not zero.
        energy: The sum of the squares of all.
    """
    top = math.ceil(min(s.shape) / 8)
    low, value, high = (float(x[:top].square().sum()) for x in (s.low, s.sigma, s.high))
    high += max(top - len(s.sigma), 0) * float(s.high[-1]) ** 2
    share = min(value / energy.value, 1.0)
    ends = min(low / energy.high, share), max(min(high / energy.low, 1.0), share)
    return Estimate(share, *ends, s.how, s.risk)


@dataclass(frozen=True, slots=True)
class Rounding:
    """What rounding both versions to their formats makes of their difference.

    Attributes:
        energy: Its squared Frobenius norm, on the average.
        edge: What its spectral norm is hardly ever above.
    """

    energy: float
    edge: float


FORMATS = {"float64": torch.float64, "float32": torch.float32,
           "bfloat16": torch.bfloat16, "float16": torch.float16}  # fmt: skip
ABOVE = 1.1  # times what is usual of rounding: it strays, the less the larger the matrix


def _rounding(pair: MatrixPair, A: Tensor, B: Tensor, power: int) -> Rounding | None:
    """Rounding to nearest, of both, over `2^power`; None of a format that is not known.

    An error is spread evenly over a unit in the last place `u`, with variance `u² / 12`, and is
    independent of others. Such a matrix has a norm of at most about the root of the largest sum of
    variances in a row, with that in a column (Bandeira & van Handel 2016, Thm. 1.1).
    """
    formats = [FORMATS.get(task.matrix.dtype) for task in pair.tasks]
    if isinstance(pair.tasks[1].cut, Product):  # added here, to a base that is exact
        formats = [torch.float32, torch.float32]
    if None in formats:
        return None
    across, down = list[Tensor](), torch.zeros(A.shape[1], dtype=torch.float64)
    for rows in zip(A.split(ROWS), B.split(ROWS), strict=True):
        variance = torch.zeros(rows[0].shape, dtype=torch.float64)
        for M, dtype in zip(rows, formats, strict=True):
            assert dtype is not None
            info = torch.finfo(dtype)
            exponent = torch.where(M == 0, -2000, torch.frexp(M.double())[1])  # of zero: the least
            unit = info.eps * torch.exp2(exponent.double() - 1)
            least = times(torch.tensor(info.smallest_normal * info.eps).double(), -power)
            variance += unit.clamp_min(float(least)).square() / 12
        across.append(variance.sum(1))
        down += variance.sum(0)
    wide = torch.cat(across)
    edge = math.sqrt(float(wide.max())) + math.sqrt(float(down.max()))
    return Rounding(float(wide.sum()), ABOVE * edge)


def _rank_above(s: Spectrum, energy: Estimate, noise: Rounding) -> Estimate:
    """Singular values to be taken off until the rest is no more than rounding makes.

    The value counts those that surely are: in double precision the last ones are not known.
    """
    side, known = min(s.shape), len(s.sigma)

    def count(norms: Tensor, squares: Tensor) -> int | None:
        if s.complete:
            rest = squares.square().flip(0).cumsum(0).flip(0)  # small ones first: none cancels
            rest, norms = (torch.cat([x, x.new_zeros(1)]) for x in (rest, norms))
        else:
            rest = energy.value - squares.square().cumsum(0) + squares.square()
        enough = ((rest <= ABOVE * noise.energy) & (norms <= noise.edge)).nonzero()
        return int(enough[0]) if len(enough) else None

    fewest = count(s.low, s.low if s.complete else s.high)
    most = count(s.high, s.high if s.complete else s.low)
    low = known if fewest is None else fewest
    high = side if most is None else max(most, low)
    return Estimate(float(low), float(low), float(high), s.how, s.risk)


def _intruders(A: Tensor, Y: Float[Tensor, "m k"], generator: torch.Generator) -> Estimate:
    """Columns of `Y` whose cosine with each left singular vector of `A` is below the threshold."""
    m, n = A.shape
    if min(m, n) <= WHOLE_SIDE:
        U, sigma, _ = torch.linalg.svd(A.double(), full_matrices=False)
        U = U[:, sigma > max(m, n) * EPS * sigma[0]]  # the others may point anywhere
        known, how = U.mT @ Y, "all directions of the first"
        outside = torch.zeros(Y.shape[1], dtype=torch.float64)
    else:
        U = leading(A, generator=generator).left.double()
        known, how = U.mT @ Y, f"{U.shape[1]} leading directions of the first"
        outside = (1 - known.square().sum(0)).clamp_min(0).sqrt()
    far = known.abs().amax(0) < INTRUDER
    surely = far & (outside < INTRUDER)
    value, low = float(far.sum()), float(surely.sum())
    return Estimate(value, low, value, how)


def _read(pair: MatrixPair, name: str, estimate: Estimate, form: str = "") -> Reading:
    return Reading(pair.site, name, estimate, q.SCAN, form)


# ------------------------------------------------------------------------------
# Two checkpoints side by side: which matrices have a counterpart.


CHANGES = frozenset(
    {
        q.RELATIVE_CHANGE, q.BEST_SCALE, q.TURNED_CHANGE, q.CHANGE_NORM, q.CHANGE_SIZE,
        q.SPECTRAL_CHANGE, *OF_DIFFERENCE, *OF_DIRECTIONS,
    }
)  # fmt: skip


def require_meant(names: Iterable[str] | None, *, changes: bool) -> None:
    """Refuse names of quantities none of which would be read.

    Args:
        names: As they were asked for.
        changes: Whether there is a second version.

    Raises:
        Refusal: If one is of a change and there is none, or none is and there is one.
    """
    asked = frozenset(names or ())
    if not changes and (odd := sorted(asked & CHANGES)):
        raise Refusal(
            f"`{odd[0]}` says how a checkpoint moved: give its other version, `against`, or leave "
            "it out."
        )
    if changes and asked and not asked & CHANGES:
        raise Refusal(
            f"Of two versions one of {', '.join(sorted(CHANGES))} is read, got "
            f"{', '.join(sorted(asked))}: name some of these, or scan each version by itself."
        )


def versions(source: Origin, other: Origin, settings: Settings, *, workers: int = 1) -> PlannedWork:
    """What is to be done to say how a checkpoint moved.

    Args:
        source: The first version.
        other: The second version.
        settings: What is asked.
        workers: Processes that share the work.

    Raises:
        Refusal: If one cannot be opened.
    """
    first, second = opened(source), opened(other)
    quiet = replace(settings, wanted=frozenset())
    one, two = worked_out(first, quiet), worked_out(second, quiet)
    changes = [task for task in two.tasks if isinstance(task.cut, Product)]
    if changes:
        pairs, alone = merges(first, one.tasks, changes, settings.wanted & CHANGES)
    else:
        twins, pairs = {task.matrix.site: task for task in two.tasks}, list[MatrixPair]()
        for i, task in enumerate(one.tasks):
            twin = twins.get(task.matrix.site)
            if twin is not None and not _unlike(task, twin, settings):
                work = TIMES * work_of(task.matrix.shape, "leading")
                wanted, both = settings.wanted & CHANGES, (task, twin)
                pairs.append(MatrixPair(i, "change", task.matrix.site, both, wanted, work))
        # what has no counterpart that it could be held against, each once and with the reason
        alone, ones = list[Skipped](), {task.matrix.site: task for task in one.tasks}
        left, gone = _reasons(one), _reasons(two)
        for site, task in ones.items():
            why = _unlike(task, twins[site], settings) if site in twins else ""
            if site not in twins:
                reasons = [gone[name] for name in task.matrix.tensors if name in gone]
                why = f"in the second: {reasons[0]}" if reasons else "only in the first checkpoint"
            if why:
                alone.append(Skipped(site, "tensor", why))
        for site, task in twins.items():
            if site not in ones and not any(name in left for name in task.matrix.tensors):
                alone.append(Skipped(site, "tensor", "only in the second checkpoint"))
        known = {name for task in one.tasks for name in task.matrix.tensors} | left.keys()
        for name, why in gone.items():
            if name not in known:
                alone.append(Skipped(name, "tensor", f"only in the second checkpoint: {why}"))
    known = {s.site for s in one.plan.skipped}
    skipped = [*one.plan.skipped, *(s for s in alone if s.site not in known)]
    matrices = [pair.tasks[0].matrix for pair in pairs]
    placed = tuple(replace(pair, index=i) for i, pair in enumerate(pairs))
    work = sum(pair.work for pair in pairs)
    plan = planned(first, matrices, skipped, settings, work, workers)
    prints = f"{first.fingerprint} {second.fingerprint}"
    asked = {**plan.settings, "fingerprint": prints, "against": "yes"}
    about = {**plan.about, "against": second.name}
    memory = max((_memory(pair.tasks) for pair in pairs), default=0)
    return PlannedWork(replace(plan, about=about, settings=asked, memory=memory), (), placed)


def _reasons(work: PlannedWork) -> dict[str, str]:
    return {each.site: each.why for each in work.plan.skipped}


def _memory(tasks: tuple[Task, Task]) -> int:
    """Both as they are stored and in single precision; their difference, and what is made of it."""
    one, other = (task.matrix for task in tasks)
    each = 32 if min(one.shape) <= WHOLE_SIDE else 12  # in double precision, and its factors
    return RESTING + one.bytes + other.bytes + each * one.rows * one.cols + 2**26


def _unlike(task: Task, twin: Task, settings: Settings) -> str:
    """Why two matrices of one name are not compared; nothing where they are."""
    if isinstance(task.cut, Product) or isinstance(twin.cut, Product):
        return "changes of low rank are compared once they are merged into their weights"
    if task.matrix.shape != twin.matrix.shape:
        return f"of shape {list(task.matrix.shape)} in one, {list(twin.matrix.shape)} in the other"
    if (need := _memory((task, twin))) > settings.memory:
        return (
            f"comparing both takes {size_words(need)}, more than the "
            f"{size_words(settings.memory)} that a process may take (--memory)"
        )
    return ""
