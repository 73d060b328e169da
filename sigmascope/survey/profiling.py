"""Measuring a model once: of what fits, in all views, whatever fails in one of them."""

import platform
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from sigmascope.core import guard, products, records
from sigmascope.core.guard import Progress, Refusal, allowed, door, size_words
from sigmascope.core.quantities import ALL, QUICK, View, wanted_views
from sigmascope.core.records import Fact, Item, Layer, Profile, Reading, SiteSpectrum, Skipped
from sigmascope.linalg.spectra import counted
from sigmascope.models import Subject, weights
from sigmascope.models.layers import in_words, is_matrix, module_name, multiply_adds, normalisers
from sigmascope.models.samples import Batch, Loss, chosen, mapped, tensors
from sigmascope.models.state import ALONE, apart, as_found, one_door, still
from sigmascope.survey.views.base import ProfileView

# ------------------------------------------------------------------------------
# Batches cut to the samples whose representations fit in the memory that is allowed.


ROWS = 0.4  # of the memory allowed, for what layers read and write on all samples
SURE = 1 / 64  # of it, below which nothing is weighed


def cut(
    model: nn.Module, batch: Batch, targets: Any, batch_dim: int
) -> tuple[Batch, Any, list[Skipped]]:
    """As many of the first samples as fit, with their targets; and which are left out.

    Args:
        model: What they are run through.
        batch: All samples.
        targets: Theirs; tensors that are as long as the batch, or a multiple, are cut.
        batch_dim: Where the batch has its samples.

    Raises:
        Refusal: If not even one sample fits, with what it needs and what is allowed.

    Cost: a forward pass of one sample, where the batch is large for the memory allowed.
    """
    first = next(tensors(batch), None)
    if first is None or first.ndim <= batch_dim or not first.numel():
        return batch, targets, []  # refused, with its words, by `Subject`
    count = first.shape[batch_dim]
    # at most what layers write, one row for each number of the batch, each as wide as all weights;
    # more only where a model makes more positions than it reads
    widths = (sum(p.shape[:2]) for p in model.parameters() if p.ndim > 1)
    if count < 2 or first.numel() * sum(widths) * 4 <= SURE * allowed():
        return batch, targets, []
    try:
        one = chosen(batch, torch.tensor([0]), batch_dim=batch_dim)
        held = Subject(model, one, batch_dim=batch_dim).rows_held
    except Refusal:  # one sample cannot be run by itself; all are run together, or refused
        return batch, targets, []
    # how many samples of so many bytes fit
    most = int(ROWS * allowed() / max(held, 1))
    if most < 1:
        raise Refusal(
            f"`memory` must allow for one sample, got {size_words(allowed())}: {_needs(held)}. "
            "Allow more by `memory=` (`--memory`), or pass smaller samples."
        )
    if most >= count:
        return batch, targets, []
    why = f"{_needs(held)}: the first {most} were measured; allow more by `memory=` (`--memory`)"
    told = Skipped("(samples)", f"{count - most} of {count} samples", why)
    kept = chosen(batch, torch.arange(most), batch_dim=batch_dim)
    long = lambda t: t.ndim and len(t) and len(t) % count == 0
    return kept, mapped(targets, lambda t: t[: len(t) // count * most] if long(t) else t), [told]


def _needs(held: int) -> str:
    return (
        f"what layers read and write takes {size_words(held)} for each sample, and "
        f"{size_words(int(ROWS * allowed()))} of the {size_words(allowed())} allowed are for that"
    )


# ------------------------------------------------------------------------------
# All views of a model in one pass.


@cache
def profile_views() -> Mapping[View, ProfileView]:
    """Every view that there is, by name."""
    declared = (module.VIEW for module in products.modules(products.VIEWS))
    return MappingProxyType({view.name: view for view in declared})


@door
def profile(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any = None,
    loss: Loss | None = None,
    views: Collection[View] = ALL,
    outputs: int | Sequence[int] | None = None,
    batch_dim: int = 0,
    generator: torch.Generator | None = None,
    memory: int | str | None = None,
    progress: Progress | None = None,
    early: Callable[[Profile], None] | None = None,
) -> Profile:
    """Measure a model on a batch, view by view, and check the theorems that apply.

    Args:
        model: Left bit for bit as it was found; see `models.Subject` for how it is held still.
        batch: A tensor (the argument), a tuple (the arguments) or a mapping (keyword arguments).
        targets: What `loss` compares the output with.
        loss: `loss(output, targets)` -> scalar; it needs targets. Without it the view `gradients`
            is skipped. What a module keeps in itself is as it was afterwards.
        views: Which of `quantities.View`, or of `quantities.EVERY`; the usual ones, `ALL`, if not
            given. The others are read on request, for they cost more.
        outputs: How many columns of the output to differentiate, or which; as many random mixtures
            of all where there are more. 16 if not given, or 8 mixtures, with wider intervals, where
            a sample has more than 65536 outputs, as vocabularies give.
        batch_dim: Where the batch has its samples.
        generator: Draws the mixtures.
        memory: How much measuring may take beside the model, the batch and what the process held
            before (Python and torch take some 0.4 GB), e.g. `"2GB"`, or bytes; half of the
            machine's if not given. Samples are put on tape as many at a time as fit;
            where what layers write for all of them does not, the first samples are measured, and
            the others are among what is skipped. Gradients are taken as each is made. The first
            run of a model of more than 256 MiB, or an eighth of this, needs a copy of its weights,
            so that nothing is lost if it changes them: beyond half of this it lies in a temporary
            file without a name (`TMPDIR`), as large as the weights. Theorems, and the views on
            request, may take more where models are as large as this.
        progress: Called with a word, the steps done and the steps in all.
        early: Called once, with a profile of what `quantities.QUICK` views say, as soon as they do;
            they are measured first then, for one forward pass more.

    Returns:
        Every reading, check and omission.

    Raises:
        Refusal: If the model or the batch cannot be measured; if not even the gradient of the
            largest parameter fits in `memory`, with what is needed; or if neither memory nor disk
            has room for the copy of the weights.

    Cost: the model is run forward four times. Once without gradients, watched (calls, output,
    weights outside of layers, saturated units); once on a tape of the whole batch, which is passed
    back twice to see whether samples mix, once for the parameters that layers do not account for,
    once for the loss, and once for each differentiated output; on half of the batch without
    gradients, for mixing again; and, by the view `"setup"`, once forward and back in the model's
    own modes for the loss, once forward in training mode for what dropout takes away, once forward
    with later inputs exchanged where targets are the next inputs, and once forward and back more
    where a weight has no gradient and another is zero; and twice forward and once back more
    where units are dead and a weight is zero. Where the differentiated outputs need more
    memory than a training step, they take passes of their own, forward and back, piece by piece.
    A batch that is large for the memory allowed costs a forward pass of one sample, and another one
    on tape. To these come 16 backward passes if layers do not account for some parameters; one run
    where a model overwrites what it has read, up to two where it bears no watcher; and four where
    half of the samples leaves doubts.
    """
    wanted = wanted_views(views)
    start = time.perf_counter()
    tell = progress or (lambda *_: None)
    with guard.memory(memory), one_door(), as_found(loss), counted() as work:
        batch, targets, left = cut(model, batch, targets, batch_dim)
        subject = Subject(model, batch, targets, loss, outputs, batch_dim, generator)
        tell("forward pass", 0, len(wanted) + 2)
        layers, absent = covered(subject)
        plain = {name for name, view in profile_views().items() if not view.differentiates}
        if not plain.issuperset(wanted):
            subject.require_gradients(do=f"ask for the views {' and '.join(sorted(plain))} alone")
        found: dict[View, list[Item]] = {}
        quick: list[View] = [v for v in wanted if v in QUICK and early is not None]
        order: list[View] = [*quick, *(v for v in wanted if v not in quick)]
        for done, view in enumerate(order, start=1):
            tell(view, done, len(wanted) + 2)
            # one that fails is told, and the rest goes on; buffers and modes too are read as they
            # are, not as another thread holds them, and a loss may draw random numbers
            with apart():
                found[view] = [*tried(profile_views()[view].items(subject), view)]
            guard.trim(short=True)
            if early is not None and done == len(quick):
                known = [*left, *absent, *(i for v in quick for i in found[v])]
                early(_profile(known, layers, quick))
        items: list[Item] = [*left, *absent, *(i for view in wanted for i in found[view])]
        tell("theorems", len(wanted) + 1, len(wanted) + 2)
        # each by itself, so that one that fails costs no other
        checks: list[records.Check] = []
        failed: list[Skipped] = []
        every = (t for m in products.modules(products.THEOREMS) for t in m.OF_MODELS)
        for theorem in (t for t in every if set(t.views) <= set(wanted)):
            try:
                with apart():
                    checks += [bound.check() for bound in theorem.facts(subject)]
            except Exception as error:  # noqa: BLE001 (models fail in every way; the line says which)
                why = in_words(error)
                failed.append(Skipped("(all layers)", f"theorem {theorem.name}", why))
        reasons = {f.why for f in failed}
        if len(failed) > 1 and len(reasons) == 1:  # one reason is one line
            failed = [Skipped("(all layers)", "theorems", reasons.pop())]
        tell("done", len(wanted) + 2, len(wanted) + 2)
        measured = subject.model
        with ALONE:  # not while another thread holds it still
            mode = "training" if measured.training else "evaluation"
        kinds = {str(p.dtype).removeprefix("torch.") for p in measured.parameters()}
        held = subject.batch
        shape = list(held.shape) if isinstance(held, Tensor) else type(held).__name__
        about = {
            "model": type(measured).__name__,
            "parameters": str(sum(p.numel() for p in measured.parameters())),
            "dtype": ", ".join(sorted(kinds)),
            "mode": mode,
            "batch": f"{subject.count} samples, {shape}",
            "output": f"{subject.output_rule}, {list(subject.output.shape)}",
            "seconds": f"{time.perf_counter() - start:.2f}",
            "spectra": f"{work.operations:.2g} operations in float64",
            "torch": torch.__version__,
            "python": platform.python_version(),
            "device": str(subject.output.device),
        }
    return _profile([*items, *failed], layers, wanted, checks, about)


def _profile(
    items: Sequence[Item],
    layers: tuple[Layer, ...],
    views: Sequence[View],
    checks: Sequence[records.Check] = (),
    about: Mapping[str, str] = MappingProxyType({}),
) -> Profile:
    return Profile(
        readings=tuple(i for i in items if isinstance(i, Reading)),
        checks=tuple(checks),
        skipped=tuple(i for i in items if isinstance(i, Skipped)),
        layers=layers,
        spectra=tuple(i for i in items if isinstance(i, SiteSpectrum)),
        facts=tuple(i for i in items if isinstance(i, Fact)),
        views=tuple(views),
        about=MappingProxyType(dict(about)),
    )


def named(measured: Profile, about: Mapping[str, str]) -> Profile:
    """The same profile, with other words about it."""
    return replace(measured, about=MappingProxyType(dict(about)))


# ------------------------------------------------------------------------------
# Measurements that may fail without the others.


def tried(items: Iterable[Item], what: str) -> Iterator[Item]:
    """The items up to the first failure, which is told in their place.

    Args:
        items: Measured one after the other, as they are asked for.
        what: They are, in words.
    """
    try:
        yield from items
    except Exception as error:  # noqa: BLE001 (models fail in every way; the line says which)
        yield Skipped("(all layers)", what, in_words(error))


LAYER, WEIGHT = "layer", "weight"  # what was not covered
UNCALLED = "the model does not call it on this batch"
OUTSIDE = "applied outside of any call of a layer: what it reads and writes there was not measured"
COMPLEX = "of complex numbers, which are not measured"
UNREAD = (
    "outputs depend on it, but no call of it can be read, as inside of `torch.vmap` or "
    "`torch.func.grad`: what it reads and writes was not measured"
)
UNOWNED = "no layer that was called owns it: what it reads and writes was not measured"


def covered(subject: Subject) -> tuple[tuple[Layer, ...], list[Skipped]]:
    """Layers in the order of calls; layers and weights of which no call was recorded."""
    # no code of the user's is run to read them, but where it computes them
    with still(subject.model, weights=is_parametrized(subject.model)):
        sites = sorted({w.site for w in weights(subject.model)})
    owned: dict[str, list[str]] = {name: [] for name in subject.modules}
    for site in sites:
        ends = [i for i, letter in enumerate(site) if letter == "."]
        for name in ("", *(site[:end] for end in ends)):
            if name in owned:
                owned[name].append(site)
    found = tuple(
        Layer(
            **{"site": c.site, "kind": type(c.module).__name__, "depth": depth},
            parameters=tuple(owned[module_name(c.site)]),
            reads=tuple(c.input.shape),
            writes=tuple(c.output.shape),
            numbers=sum(p.numel() for p in c.module.parameters()),
            multiply_adds=multiply_adds(c),
        )
        for depth, c in enumerate(subject.calls)
    )
    called = {module_name(layer.site) for layer in found}
    outside: frozenset[str] = frozenset()
    doubts: list[Skipped] = []
    try:
        outside = frozenset(subject.uses_outside)
    except Exception as error:  # noqa: BLE001 (operations of the user's may refuse to be watched)
        why = f"the model cannot be watched: {in_words(error)}"
        doubts.append(Skipped("(model)", "weights applied outside of layers", why))
    # layers that were never called, and whether their weights were applied all the same
    for name, module in subject.modules.items():
        if name not in called:
            mine = {f"{name}.{key}" for key, _ in module.named_parameters()}
            unread = not mine & outside and mine & differentiated(subject)
            doubts.append(
                Skipped(name, LAYER, OUTSIDE if mine & outside else UNREAD if unread else UNCALLED)
            )
    # weights that are applied, or could be, where nothing is recorded, layers' own aside
    absent = {id(p) for n, m in subject.modules.items() if n not in called for p in m.parameters()}
    recorded = [subject.modules[n] for n in called] + [*normalisers(subject.model).values()]
    reached = {id(p) for module in recorded for p in module.parameters()}
    own = dict(subject.model.named_parameters())
    for name in sorted(outside):
        if name not in own or id(own[name]) not in absent - reached:
            wide = name in own and own[name].is_complex()
            doubts.append(Skipped(name, WEIGHT, COMPLEX if wide else OUTSIDE))
    for name, p in own.items():
        matrix = is_matrix(p) and (p.is_floating_point() or p.is_complex())
        if matrix and name not in outside and id(p) not in absent | reached:
            doubts.append(Skipped(name, WEIGHT, UNOWNED))
    return found, doubts


def differentiated(subject: Subject) -> frozenset[str]:
    """Weights that outputs depend on and no call of a layer accounts for; none if unknown."""
    try:
        return subject.unaccounted
    except Exception:  # noqa: BLE001 (not differentiable: what is told without remains)
        return frozenset()
