"""Readings of the task: whether inputs, outputs, targets and loss suit one another."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sigmascope.core import quantities as q
from sigmascope.core.quantities import View
from sigmascope.core.records import Estimate, Fact, Item, Reading, Skipped
from sigmascope.linalg import dense
from sigmascope.models import OUTPUT, Subject
from sigmascope.models.samples import as_tensor, mapped, run, tensors
from sigmascope.models.state import still
from sigmascope.models.structure.inputs import rows_of, varying_inputs
from sigmascope.survey.task import UNBOUNDED, TaskFit, fit_of, is_endless
from sigmascope.survey.task.fits import LARGEST
from sigmascope.survey.task.masks import misplaced_share
from sigmascope.survey.views.base import rough

VIEW: View = "setup"
NEIGHBOURS, PERMUTATIONS, RIDGE = 5, 200, 1e-2
FEWEST = 48  # samples with which chance can be told from a signal
MOST = 512  # samples that are compared with one another
EVENLY = "a constant that fits"  # what is not known of targets that are all the same
SAME = 1e-9  # relative: less is no difference between orders of the targets
KINDS = 64  # of one id a sample, that are told apart
CHANNELS = 8  # of what may be an image
ENDLESS = "faster than outputs grow"
ADRIFT = "by what is added to some columns"
LARGE_INPUT, SMALL_INPUT = 30.0, 0.01  # root mean square, beyond which inputs are tried scaled
FORGOTTEN = 0.01  # of the spread of outputs, by which inputs of unit size change them at most
UNPAIRED = "the same slope for every sample"  # of a loss that compares no sample with its target


def task_items(subject: Subject) -> Iterator[Item]:
    """Size of the inputs; targets that they tell, that the outputs can reach; the first loss."""
    # the first layer that anything of the batch reaches, and that of each other part of it
    fed = [c for c in subject.calls if c.site not in subject.unfed]
    found = [c.site for c in fed[:1]] or [""]
    parts = [t for t in tensors(subject.batch) if not any(_same(t, c.input) for c in fed[:1])]
    for call in fed[1:]:
        left = [t for t in parts if not _same(t, call.input)]
        found += [call.site] * (len(left) < len(parts))
        parts = left
    first, *others = found
    rows = None
    for site in (first, *others):
        own = subject.activations[site].samples if site in subject.activations else None
        rows = own if site == first else rows
        if own is not None and dense.is_finite(own):
            size = own.double().square().mean().sqrt().item()
            yield Reading(site, q.INPUT_SIZE, Estimate.rounded(size, ulps=64), VIEW)
            if (
                not SMALL_INPUT <= size <= LARGE_INPUT
                and size > 0
                and _forgets_scale(subject, size)
            ):
                yield Fact(site, q.FORGOTTEN_SCALE, VIEW)
            spread = own.double().std(0, correction=0).square().mean().sqrt().item()
            yield Reading(site, q.INPUT_SPREAD, rough(spread), VIEW)
    loss, targets = subject.loss, subject.targets
    if loss is not None and is_endless(loss, subject.output, targets):
        yield Fact("(loss)", q.UNBOUNDED_LOSS, VIEW, ENDLESS)
    if loss is None or not isinstance(targets, Tensor):
        return
    images = next((t for t in tensors(subject.batch) if t.ndim == 4), None)
    if images is not None and images.is_floating_point() and images.shape[1] <= CHANNELS:
        share = misplaced_share(images, targets)
        if share is not None:
            yield Reading("(targets)", q.MISPLACED_MASKS, Estimate.exactly(share), VIEW)
    wanted = target_rows(targets, subject.count)
    with still(subject.model):  # behind the last weight numbers may be written down, too
        fit = fit_of(subject, loss, targets)
    if targets.is_floating_point() and wanted is not None and not fit.unread:
        size = targets.double().square().mean().sqrt().item()
        yield Reading("(targets)", q.TARGET_SIZE, Estimate.rounded(size, ulps=64), VIEW)
    # what outputs, targets and loss ask of one another, and what no weights could reach
    output = subject.output
    alone = output.ndim > 0 and output.numel() == len(output)
    yield from _asked(fit, one=output.ndim < 2 or output.shape[-1] == 1, alone=alone)
    if math.isfinite(fit.over_constant) and math.isfinite(fit.same):
        ratio = Estimate.rounded(fit.over_constant, ulps=2**30)
        yield Reading("(loss)", q.FIRST_LOSS_OVER_A_CONSTANTS, ratio, VIEW)
    if math.isfinite(fit.silent):
        zeros = Estimate.rounded(fit.silent, ulps=2**30)
        yield Reading("(loss)", q.LOSS_OF_ZEROS, zeros, VIEW)
    if fit.known:
        # which outputs the model can have, whatever its weights, and how low the loss gets there
        form = fit.closing
        yield Fact(OUTPUT, q.LAST_OPERATION, VIEW, form or "none")
        for name, end in ((q.LEAST_OUTPUT, fit.least), (q.GREATEST_OUTPUT, fit.most)):
            if math.isfinite(end):
                yield Reading(OUTPUT, name, Estimate.rounded(end, ulps=2**30), VIEW, form)
        if fit.constant:
            yield Fact(OUTPUT, q.CONSTANT_OUTPUT, VIEW, form)
        if fit.shares:
            yield Fact(OUTPUT, q.ROWS_THAT_SUM_TO_ONE, VIEW, form)
        if fit.answered and math.isfinite(fit.beyond):
            how = "quasi-newton" + ("" if fit.alike else ", through a map between forms")
            beyond = Estimate.within(fit.beyond, 1e-3 * fit.beyond, how=how)
            yield Reading(OUTPUT, q.OUT_OF_REACH, beyond, VIEW, form)
            if fit.undecided > 0:
                wrong = Estimate.exactly(fit.undecided)
                yield Reading(OUTPUT, q.WRONG_AT_THE_BEST, wrong, VIEW, form)
    elif fit.large:
        why = (
            f"the output has {output.numel()} numbers, more than the {LARGEST} for which the best "
            "ones are searched for: a profile of fewer samples says more"
        )
        yield Skipped("(loss)", "least losses, and the range of the output", why)
    elif subject.tail is None:
        why = (
            "the operations behind the last weights cannot be run by themselves, or differ from "
            "one part of the output to the other"
        )
        yield Skipped(OUTPUT, "range of the output", why)
    elif fit.held:
        why = (
            "outputs lie between 0 and 1, and no operation behind the last weight holds them there"
        )
        yield Skipped(OUTPUT, "range of the output", why)
    elif fit.unheard:
        why = "the output is the same whatever the last weight writes, as where it is times zero"
        yield Skipped(OUTPUT, "range of the output", why)
    if not fit.closing and wanted is not None:
        # directions of the targets beyond the columns that the last layer reads
        last = [c for c in subject.calls if c.input.is_floating_point()][-1:]
        if targets.is_floating_point() and last and targets.shape == subject.output.shape:
            width = last[0].input.shape[-1]
            s = torch.linalg.svdvals(wanted).square()
            if type(last[0].module).__name__ == "Linear" and width < len(s):
                lost = Estimate.rounded((s[width:].sum() / s.sum()).item(), ulps=64)
                yield Reading(last[0].site, q.VARIANCE_OUT_OF_REACH, lost, VIEW)
    if wanted is None or fit.unread:
        return
    apart = fit.labels is None or fit.labels.wanted is None
    if apart and wanted.shape[1] > 1 and targets.numel() != subject.output.numel():
        return  # what was done and what it earned, say, which nothing says that inputs should tell
    if rows is not None and dense.is_finite(rows) and subject.count >= FEWEST:
        # what inputs tell of the targets, and layer by layer what representations do
        compared = subject.once(compared_inputs)
        if not compared:
            why = (
                "the batch holds rows of ids: neither neighbours nor linear fits say what they tell"
            )
            yield Skipped(first, q.TARGET_SIGNAL, why)
        for part in compared:
            signal = target_signal(part, wanted)
            if signal is None:
                why = "all rows are equal, or targets in any order are as good"
                yield Skipped(part.site, q.TARGET_SIGNAL, why)
            else:
                yield Reading(part.site, q.TARGET_SIGNAL, rough(signal), VIEW)
        for site, both in subject.activations.items():
            if both.samples is not None and both.are_finite:
                alignment = target_alignment(both.samples, wanted)
                if alignment is not None:
                    aligned = Estimate.rounded(alignment, ulps=64)
                    yield Reading(site, q.TARGET_ALIGNMENT, aligned, VIEW)


@dataclass(frozen=True, slots=True, eq=False)
class ComparedInput:
    """Something that may tell of the targets.

    Attributes:
        site: What it is.
        rows: One a sample, the first `MOST`, centred, the largest entry one; zero where all are
            equal.
        near: The five nearest others of each row, or all others where there are fewer.
    """

    site: str
    rows: Float64[Tensor, "n d"]
    near: Int64[Tensor, "n k"]

    @classmethod
    def of(cls, site: str, rows: Tensor) -> "ComparedInput":
        X = rows[:MOST].detach().double().cpu()
        X = X - X.mean(0)
        top = dense.largest(X)
        X = X / top if top > 0 else X
        apart = torch.cdist(X, X).fill_diagonal_(math.inf)
        return cls(site, X, apart.topk(min(NEIGHBOURS, len(X) - 1), largest=False).indices)


def compared_inputs(subject: Subject) -> list[ComparedInput]:
    """All that may tell of the targets, as rows: what the first layer reads, and other inputs.

    Nothing where the batch holds rows of ids, beside what the first layer reads or in its place:
    neither neighbours nor linear functions say what they tell.
    """
    first = next((c.site for c in subject.calls if c.site not in subject.unfed), "")
    both = subject.activations.get(first)
    if both is None or both.samples is None:
        return []
    found = [(first, both.samples)]
    dim = subject.batch_dim
    for name, t in varying_inputs(subject.batch, batch_dim=dim, count=subject.count):
        rows = rows_of(t, dim)
        if not t.is_floating_point() and t.dtype != torch.uint8:
            kinds = rows.unique()
            if rows.shape[1] > 1 and len(kinds) > 2:  # and no mask
                return []
            few = rows.shape[1] == 1 and len(kinds) <= KINDS
            rows = (rows == kinds).double() if few else rows
        if rows.shape != found[0][1].shape or not torch.equal(rows.to(found[0][1]), found[0][1]):
            found.append((f"(input {name})" if name else "(input)", rows))
    return [ComparedInput.of(site, rows) for site, rows in found if dense.is_finite(rows)]


def _same(part: Tensor, read: Tensor) -> bool:
    return part.shape == read.shape and part.dtype == read.dtype and torch.equal(part, read)


def target_rows(targets: Tensor, count: int) -> Float64[Tensor, "n k"] | None:
    """Targets as centred rows: one column for each class or value; None if they are neither."""
    if len(targets) != count or count < 2:
        return None
    if targets.is_floating_point():
        Y = targets.detach().double().reshape(count, -1).cpu()
    elif targets.ndim == 1:
        classes = targets.unique()
        Y = (targets.cpu()[:, None] == classes.cpu()).double()
    else:
        return None
    Y = Y - Y.mean(0)
    return Y if bool(Y.isfinite().all()) and bool(Y.any()) else None


def target_alignment(rows: Tensor, wanted: Float64[Tensor, "n k"]) -> float | None:
    """Centred alignment between the Gram matrix of some rows and that of the targets, less chance.

    Permuted targets have `tr K tr L / ((n - 1) |K| |L|)` on average, which is much where rows are
    many and wide; that is taken off, and what is left is divided by what could be left.

    Returns:
        1 for the targets themselves, about 0 for rows that have nothing to do with them; None if
        the rows are all the same.

    Source:
        Cortes, Mohri & Rostamizadeh 2012, Definition 4; the mean over permutations is arithmetic.
    """
    X = rows.detach().double().cpu()
    X = X - X.mean(0)
    largest = torch.linalg.vector_norm(X, math.inf).item()  # with no copy
    if not largest > 0:
        return None
    X /= largest
    if X.shape[1] > len(X):
        gram = X @ X.mT
        size, met = gram.trace(), (wanted * (gram @ wanted)).sum()
    else:
        gram = X.mT @ X
        size, met = gram.trace(), (X.mT @ wanted).square().sum()
    own, theirs = gram.norm().item(), (wanted.mT @ wanted).norm().item()
    chance = (size * wanted.square().sum()).item() / (len(X) - 1)
    room = own * theirs - chance
    if not room > 1e-9 * own * theirs:
        return None
    return min(1.0, (met.item() - chance) / room)


def target_signal(inputs: ComparedInput, wanted: Float64[Tensor, "n k"]) -> float | None:
    """How much more of the targets the inputs tell than chance would, in standard deviations.

    The larger of two: the agreement of a sample with its five nearest others, and what ridge
    regression predicts of samples left out. Each is compared with the same of permuted targets: the
    first with all orders that there are, the second with 200.

    Args:
        inputs: Of the samples.
        wanted: Targets, centred.

    Returns:
        About 0 where the targets have nothing to do with the inputs; None if all rows are equal, or
        the targets are as good in any order.
    """
    X, Y = inputs.rows, wanted[:MOST]
    if not bool(X.any()) or not bool(Y.any()):
        return None
    gram = X @ X.mT
    gram.diagonal().add_(RIDGE * gram.diagonal().mean())
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    left_out = inverse / inverse.diagonal()[:, None]  # of a sample, by all others
    # the squared error of rows as they are, then of each of some random orders of them
    n, k = Y.shape
    generator = torch.Generator().manual_seed(0)
    orders = [torch.arange(n)]
    orders += [torch.randperm(n, generator=generator) for _ in range(PERMUTATIONS)]
    if k > n // 4:  # sums over pairs of samples are fewer than over samples and columns
        G, K = left_out.mT @ left_out, Y @ Y.mT
        mixed = (K.index_select(0, order).index_select(1, order) for order in orders)
        error = torch.stack([G.flatten().dot(M.flatten()) for M in mixed])
    else:
        parts = torch.stack(orders).split(max(1, 2**20 // Y.numel()))  # as many as take 8 MB
        error = torch.cat([(left_out @ Y[some]).square().sum((1, 2)) for some in parts])
    left = -error.clamp(min=1e-304).log()
    found, chance = left[0], left[1:]
    mean, spread = chance_agreement(Y, inputs.near)
    tests = [  # what was found, its mean and spread over other orders, and its size
        (agreement(Y[None], inputs.near).item(), mean, spread, Y.square().sum().item()),
        (found.item(), chance.mean().item(), chance.std().item(), 1.0),
    ]
    # where all orders are as good, as of targets of which no two are alike, nothing is to be told
    return max(((v - m) / s for v, m, s, size in tests if s > SAME * size), default=None)


def agreement(Y: Float64[Tensor, "b n k"], near: Int64[Tensor, "n m"]) -> Float64[Tensor, " b"]:
    """Sum of the products of each row with its neighbours."""
    return torch.stack([(Y[:, others] * Y).sum((1, 2)) for others in near.unbind(1)]).sum(0)


def chance_agreement(Y: Float64[Tensor, "n k"], near: Int64[Tensor, "n m"]) -> tuple[float, float]:
    """Mean and standard deviation of `agreement` over all orders of the rows, exactly.

    Source:
        Mantel 1967, Cancer Research 27, the moments of his statistic; of four rows or more.
    """
    n, k = near.shape
    ones = torch.ones(n, k, dtype=Y.dtype)
    named = torch.zeros(n, dtype=Y.dtype).scatter_add_(0, near.flatten(), ones.flatten())
    mutual = (near[near] == torch.arange(n)[:, None, None]).sum().item()
    # of `(W + Wᵀ) / 2` with a one for each neighbour, and of `Y Yᵀ` without its diagonal: the sum
    # of the entries, of their squares, and of the squared sums of rows
    a, b, c = n * k, (n * k + mutual) / 2, ((k + named) / 2).square().sum().item()
    own = Y.square().sum(1)
    rows = Y @ Y.sum(0) - own
    d, f = rows.sum().item(), rows.square().sum().item()
    gram = Y.mT @ Y if Y.shape[1] < n else Y @ Y.mT
    e = (gram.square().sum() - own.square().sum()).item()
    pairs = n * (n - 1)
    mean = a * d / pairs
    square = (
        2 * b * e
        + 4 * (c - b) * (f - e) / (n - 2)
        + (a * a + 2 * b - 4 * c) * (d * d + 2 * e - 4 * f) / ((n - 2) * (n - 3))
    ) / pairs
    return mean, math.sqrt(max(square - mean * mean, 0.0))


def _forgets_scale(subject: Subject, size: float) -> bool:
    """Whether outputs are the same where every number of the batch is over its size.

    So it is before batch normalisation of a layer without a bias: gradients of its weights are the
    same, too.
    """
    try:
        scaled = mapped(subject.batch, lambda t: t / size if t.is_floating_point() else t)
        with still(subject.model), torch.no_grad():
            again = as_tensor(run(subject.model, scaled))[0].double()
    except Exception:  # noqa: BLE001 (a model may refuse such numbers: it is not known)
        return False
    own = subject.output.double()
    if again.shape != own.shape:
        return False
    return bool((again - own).square().mean() <= (FORGOTTEN * own.std()) ** 2)


def _asked(fit: TaskFit, *, one: bool, alone: bool) -> Iterator[Item]:
    """What targets are, what the loss asks of outputs, and how low it gets.

    Outputs are of `one` column, or even one number `alone` for each sample.
    """
    if fit.labels is not None:
        distinct = Estimate.exactly(fit.labels.distinct)
        yield Reading("(targets)", q.DISTINCT_TARGETS, distinct, VIEW)
        yield Fact("(targets)", q.KIND_OF_TARGETS, VIEW, fit.labels.kind)
        if fit.labels.distinct == 1 and not fit.evenly:
            why = (
                "nothing that the last weight could write for all samples alike is known to give "
                "them, as where the output is what an equation leaves over"
            )
            yield Skipped("(targets)", EVENLY, why)
    if fit.unread:
        yield Fact("(loss)", q.TARGETS_NOT_READ, VIEW)
    if fit.spread:
        yield Fact("(loss)", q.SPREAD_TARGETS, VIEW)
    for c, share in fit.omitted:
        yield Reading("(loss)", q.OMITTED_CLASS, Estimate.exactly(share), VIEW, f"class {c}")
    if fit.reversed is not None:
        right, wrong = (Estimate.rounded(v, ulps=64) for v in fit.reversed)
        form = "one number a sample" if alone else ""
        yield Reading("(loss)", q.LOSS_OF_RIGHT_ANSWERS, right, VIEW, form)
        yield Reading("(loss)", q.LOSS_OF_WRONG_ANSWERS, wrong, VIEW)
    if fit.needs is None:
        yield Skipped("(loss)", "what the loss asks", "it bears no outputs that are made up")
        return
    if fit.needs.indifferent:
        form = "constant, of one column" if one else "constant"
        form = "in steps" if fit.needs.stepped else form
        yield Fact("(loss)", q.INDIFFERENT_LOSS, VIEW, form)
    elif fit.unpaired:
        yield Fact("(loss)", q.INDIFFERENT_LOSS, VIEW, UNPAIRED)
    if fit.needs.logarithms:
        yield Fact("(loss)", q.LOSS_OF_LOGARITHMS, VIEW)
    taken = "probabilities" if fit.needs.probabilities else "any numbers"
    yield Fact("(loss)", q.TAKEN_BY_THE_LOSS, VIEW, taken)
    yield Fact("(loss)", q.COUNTED_BY_THE_LOSS, VIEW, fit.needs.coupling)
    for name, value in ((q.LEAST_LOSS, fit.free), (q.LEAST_LOSS_OF_A_CONSTANT, fit.same)):
        if math.isfinite(value):
            yield Reading("(loss)", name, Estimate.rounded(value, ulps=2**30), VIEW)
    if fit.labels_best:
        yield Fact("(loss)", q.LABELS_ARE_THE_BEST_OUTPUTS, VIEW)
    if fit.adrift:
        yield Fact("(loss)", q.UNBOUNDED_LOSS, VIEW, ADRIFT)
    elif fit.free < -UNBOUNDED * (1 + abs(fit.now)):
        yield Fact("(loss)", q.UNBOUNDED_LOSS, VIEW)
