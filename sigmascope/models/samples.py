"""The batch, its samples and its targets, and matrices whose rows they are."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode

from sigmascope.core.guard import Refusal, random_states, require_dense, require_room
from sigmascope.core.records import Brief, Spectrum
from sigmascope.linalg import dense
from sigmascope.linalg.spectra import spectra

__all__ = [
    "IGNORED",
    "SQUARED",
    "Batch",
    "Loss",
    "Rows",
    "Spectra",
    "as_tensor",
    "beside",
    "chosen",
    "class_dim",
    "in_double",
    "loss_name",
    "mapped",
    "prepared",
    "require_compared",
    "require_finite_targets",
    "require_task",
    "run",
    "sample_count",
    "tensors",
]

# ------------------------------------------------------------------------------
# Batches and outputs of any structure, as one call and one tensor.


Batch = Tensor | tuple[Any, ...] | list[Any] | Mapping[str, Any]
# what holds nothing, and is met often
ATOMS = frozenset((int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.Size))
PREFERRED = ("logits", "last_hidden_state", "output", "out", "prediction_logits", "pred")


def tensors(value: object) -> Iterator[Tensor]:
    """Every tensor inside nested tuples, lists, mappings and dataclasses."""
    left = [value]  # watchers ask this of every operation: a generator in each part is too slow
    while left:
        one = left.pop()
        if isinstance(one, Tensor):
            yield one
        elif type(one) in (tuple, list):
            left += reversed(cast(Sequence[object], one))
        elif type(one) in ATOMS:
            continue
        elif isinstance(one, Mapping):
            left += reversed([*one.values()])
        elif _is_record(one):
            left += reversed([*_fields(one).values()])
        elif isinstance(one, tuple | list):
            left += reversed(one)


def mapped(value: Any, change: Any) -> Any:
    """The same structure with `change` applied to every tensor."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: mapped(part, change) for key, part in value.items()}
    if _is_record(value):
        other = copy(value)
        for name, part in _fields(value).items():
            object.__setattr__(other, name, mapped(part, change))  # frozen ones too
        return other
    if isinstance(value, tuple | list):
        parts = [mapped(part, change) for part in value]
        named = isinstance(value, tuple) and type(value) is not tuple
        return type(value)(*parts) if named else tuple(parts)
    return value


def _packs(value: object) -> bool:
    """Whether sequences are packed somewhere in it."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    packed = isinstance(value, PackedSequence)
    return packed or (isinstance(value, tuple | list) and any(map(_packs, value)))


def _is_record(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, type | nn.Module)


def _fields(record: Any) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in fields(record) if hasattr(record, f.name)}


def copied(batch: Batch) -> Batch:
    """The same with tensors of its own, still on the tape; one that comes twice comes twice."""
    made: dict[int, Tensor] = {}

    def own(t: Tensor) -> Tensor:
        if id(t) not in made:
            made[id(t)] = t.clone()
        return made[id(t)]

    return mapped(batch, own)


def prepared(model: nn.Module, batch: Batch) -> Batch:
    """The batch on the model's device, its floating tensors in the model's floating dtype.

    Raises:
        Refusal: If that dtype cannot hold a number of the batch, or sequences in it are packed.
    """
    if _packs(batch):
        raise Refusal(
            "`batch` must hold samples along a dimension, got a PackedSequence, of which rows are "
            "steps. Pass padded sequences and their lengths, and pack them inside of forward."
        )
    for tensor in tensors(batch):
        require_dense(tensor, "`batch`")
    # what was made in inference mode takes no gradient, but a copy of it does
    if any(t.is_inference() for t in tensors(batch)):
        batch = mapped(batch, Tensor.clone)
    like = _like(model)
    if like is None:
        return batch

    def moved(t: Tensor) -> Tensor:
        if not t.is_floating_point():
            return t.detach().to(like.device)
        cast = t.detach().to(like.device, like.dtype)
        if cast.dtype != t.dtype and bool((~cast.isfinite()).sum() > (~t.isfinite()).sum()):
            raise Refusal(
                f"`batch` must fit {like.dtype}, the precision of the model, got "
                f"{float(t.abs().max()):.3g}. Scale the data, or measure the model in {t.dtype}."
            )
        return cast

    return mapped(batch, moved)


def beside(model: nn.Module, targets: Any) -> Any:
    """The targets where the model lies, if it lies elsewhere than in the memory of the CPU.

    What lies on another device was put there by somebody who knows why.
    """
    like = _like(model)
    if like is None or like.device.type == "cpu":
        return targets
    if not any(t.device.type == "cpu" for t in tensors(targets)):
        return targets
    return mapped(targets, lambda t: t.to(like.device) if t.device.type == "cpu" else t)


def native(array: "np.ndarray[Any, Any]", place: str) -> "np.ndarray[Any, Any]":
    """The numbers of an array as torch takes them; a copy only where it takes them in no other way.

    It takes none that runs backwards, or in the order of bytes of another machine.

    Args:
        array: Of numbers.
        place: Its name in a refusal.

    Raises:
        Refusal: If a copy is needed, and more than fits the budget of memory.
    """
    if array.dtype.isnative and min(array.strides, default=0) >= 0:
        return array
    require_room(array.nbytes, place)
    return np.array(array, dtype=array.dtype.newbyteorder("="))


def _like(model: nn.Module) -> Tensor | None:
    """A parameter of the precision in which the model computes, where it computes."""
    # no operation takes numbers of eight bits, but for some products with weights of such
    return next((p for p in model.parameters() if p.is_floating_point() and p.itemsize > 1), None)


def sample_count(batch: Batch, *, batch_dim: int) -> int:
    """How many samples the batch holds: the size of dimension `batch_dim` of its first tensor."""
    first = next(tensors(batch), None)
    if first is None:
        inside: Any = batch
        while isinstance(inside, Mapping | tuple | list) and inside:
            inside = next(iter(inside.values() if isinstance(inside, Mapping) else inside))
        do = "Pass a tensor, a tuple of arguments or a mapping of keyword arguments."
        if isinstance(inside, str):
            do = 'Make numbers of texts: `tokenizer(texts, padding=True, return_tensors="pt")`.'
        elif hasattr(inside, "to_numpy"):
            do = "Make tensors of frames: `torch.tensor(frame.to_numpy())`."
        elif hasattr(inside, "__array__"):
            do = "Make tensors of arrays: `torch.as_tensor(array)`."
        elif isinstance(batch, tuple | list) and isinstance(inside, int | float):
            do = "Make a tensor of the numbers: `torch.tensor(numbers)`."
        elif isinstance(batch, Mapping) and any(isinstance(v, list) for v in batch.values()):
            do = (
                "Make a tensor of each list: `torch.tensor(numbers)`; a tokenizer does with "
                '`return_tensors="pt"`.'
            )
        kind = "a list or tuple" if isinstance(batch, tuple | list) else type(batch).__name__
        raise Refusal(f"`batch` must hold a tensor, got {kind} without any. {do}")
    if not 0 <= batch_dim < first.ndim:
        raise Refusal(
            f"`batch` must have its samples along dimension {batch_dim}, got a tensor of shape "
            f"{tuple(first.shape)}. Add the dimension with unsqueeze, or say "
            "`batch_dim=` (`--batch-dim`)."
        )
    return first.shape[batch_dim]


def pieces(batch: Batch, *, size: int, batch_dim: int) -> Iterator[tuple[Batch, slice]]:
    """The batch in pieces of at most `size` samples, each with the samples it holds.

    A tensor takes part if its dimension `batch_dim` is as long as the batch; any other value is
    passed whole to every piece.
    """
    count = sample_count(batch, batch_dim=batch_dim)
    for start in range(0, count, size):
        part = slice(start, min(start + size, count))

        def cut(t: Tensor, part: slice = part) -> Tensor:
            whole = t.ndim <= batch_dim or t.shape[batch_dim] != count
            return t if whole else t.narrow(batch_dim, part.start, part.stop - part.start)

        yield mapped(batch, cut), part


def chosen(batch: Batch, rows: Tensor, *, batch_dim: int = 0) -> Batch:
    """Some samples of a batch, in every tensor that is as long as it.

    Args:
        batch: A tensor, a tuple or a mapping.
        rows: Indices of the samples.
        batch_dim: Where the batch has them.
    """
    count = sample_count(batch, batch_dim=batch_dim)

    def pick(t: Tensor) -> Tensor:
        whole = t.ndim <= batch_dim or t.shape[batch_dim] != count
        return t if whole else t.index_select(batch_dim, rows.to(t.device))

    return mapped(batch, pick)


@dataclass(slots=True)
class RunCounter:
    """How often any model was run on a batch.

    Attributes:
        count: So often.
    """

    count: int = 0


RUNS = RunCounter()


def run(model: Callable[..., Any], batch: Batch) -> Any:
    """The model's output on a batch: one argument, a tuple of them, or keyword arguments.

    The model gets a copy, for it may work in place: no run may spoil the next one, or what the user
    passed. That is a small part of what a forward pass costs, and no counter tells of every write.
    """
    RUNS.count += 1
    with torch.set_grad_enabled(torch.is_grad_enabled()):  # which a forward pass may leave off
        own = copied(batch)
        if isinstance(own, Tensor):
            return model(own)
        if isinstance(own, Mapping):
            return model(**own)
        return model(*own)


WHOLE = "the output tensor"  # the rule where there is nothing to choose from


def as_tensor(output: Any) -> tuple[Tensor, str]:
    """The one tensor of an output that is studied, and the rule that chose it.

    A tensor is itself; of a mapping (or a Hugging Face output) or a dataclass the first of
    `PREFERRED` that it holds, else its first floating tensor; of a tuple its first floating tensor.
    """
    output = _fields(output) if _is_record(output) and not isinstance(output, Mapping) else output
    if isinstance(output, Tensor):
        chosen, rule = output, WHOLE
    elif isinstance(output, Mapping):
        floating = {k: v for k, v in output.items() if isinstance(v, Tensor) and _floating(v)}
        key = next((k for k in PREFERRED if k in floating), next(iter(floating), None))
        chosen, rule = (None, "") if key is None else (floating[key], f"output[{key!r}]")
    else:
        chosen = next((t for t in tensors(output) if _floating(t)), None)
        rule = "the first floating tensor of the output"
    if chosen is None or not _floating(chosen):
        other = output if chosen is None else chosen
        seen = "None" if other is None else type(other).__name__
        if isinstance(other, Tensor):
            seen = f"a {other.dtype} tensor of shape {tuple(other.shape)}"
        raise Refusal(
            f"The model must return a floating tensor, or a tuple or mapping that holds one, got "
            f"{seen}. "
            "Return the logits or predictions from forward."
        )
    return chosen, rule


def _floating(t: Tensor) -> bool:
    return t.is_floating_point() and t.numel() > 0


# ------------------------------------------------------------------------------
# What a layer reads or writes, as matrices whose rows are samples or positions.


TOGETHER = 2**18  # numbers of matrices that are solved together: two megabytes in float64


@dataclass(frozen=True, repr=False)
class Rows(Brief):
    """One tensor `[batch, ...]` as the matrices that are measured.

    Attributes:
        samples: One row per sample, everything else in the columns. None where the tensor cannot
            be split into samples.
        channels: One row per position of every sample (a pixel, a token, a window), one column per
            channel. None where each sample has one position only: the two would be the same.
    """

    samples: Float[Tensor, "n d"] | None
    channels: Float[Tensor, "p c"] | None

    def forms(self) -> dict[str, Float[Tensor, "rows cols"]]:
        """The matrices that exist, by name."""
        both = {"samples": self.samples, "channels": self.channels}
        return {form: rows for form, rows in both.items() if rows is not None and rows.numel()}

    @cached_property
    def are_finite(self) -> bool:
        """Whether all entries are, which both hold."""
        return all(map(dense.is_finite, [*self.forms().values()][:1]))


def rows(value: Tensor, *, channels: int, count: int, batch_dim: int = 0) -> Rows:
    """The two views of a tensor.

    Args:
        value: What was read or written.
        channels: The dimension that counts channels.
        count: Samples in the batch.
        batch_dim: Where the batch has its samples; looked for elsewhere if the length is not there.
    """
    by_sample = samples_first(value, count=count, batch_dim=batch_dim)
    flat = None if by_sample is None else by_sample.reshape(count, -1)
    positions = None if value.ndim <= 2 else value.movedim(channels, -1).flatten(0, -2)
    return Rows(flat, positions)


def samples_first(value: Tensor, *, count: int, batch_dim: int = 0) -> Tensor | None:
    """The tensor as `[samples, ...]`: samples moved first, or windows of a sample gathered."""
    lengths = list(value.shape)
    if value.ndim > batch_dim and lengths[batch_dim] == count:
        return value.movedim(batch_dim, 0)
    if value.ndim and lengths[0] == count:
        return value
    outer = lengths[:-1] if value.ndim > 2 else lengths  # the last one counts features
    if outer.count(count) == 1:
        return value.movedim(outer.index(count), 0)
    if value.ndim > 1 and lengths[0] % count == 0:  # positions folded into the batch, sample-major
        return value.unflatten(0, (count, -1))
    return None


@dataclass(frozen=True, slots=True)
class Spectra:
    """Singular values of one representation.

    Attributes:
        raw: Of the rows as they are.
        centred: Of the rows less their mean.
        mean_square: Mean of the squared entries.
        precision: Unit roundoff of the arithmetic that made the rows.
    """

    raw: Spectrum
    centred: Spectrum
    mean_square: float
    precision: float


def spectra_of(matrices: Sequence[Float[Tensor, "_ _"]]) -> tuple[Spectra, ...]:
    """Singular values of the rows of each matrix, as they are and centred, in float64."""
    found: list[Spectra] = []
    for _, group in groupby(matrices, key=lambda m: m.shape):
        same = [*group]
        size = max(1, TOGETHER // same[0].numel())
        for i in range(0, len(same), size):  # neighbours, as long as their copies are small
            some = same[i : i + size]
            wide = [matrix.double() for matrix in some]
            centred = [A - A.mean(0) for A in wide]
            both = spectra([*wide, *centred], route="gram")
            for matrix, A, *pair in zip(some, wide, both, both[len(some) :], strict=False):
                scale = dense.largest(A) or 1.0  # so that squares neither overflow nor vanish
                mean_square = float((A / scale).square().mean()) * scale * scale
                raw, middle = (_widened(s, matrix.dtype) for s in pair)
                eps = torch.finfo(matrix.dtype).eps
                found.append(Spectra(raw, middle, mean_square, eps))
    return tuple(found)


def _widened(s: Spectrum, dtype: torch.dtype) -> Spectrum:
    """Ends that hold what half precision rounded off when the rows were written.

    Each entry by half an `eps` of itself at most, and singular values by no more than all together
    (Weyl 1912). In wider formats that is far below whatever is counted.
    """
    eps = torch.finfo(dtype).eps
    if eps <= torch.finfo(torch.float32).eps:
        return s
    off = eps / 2 * float(s.sigma.norm())
    how = f"{s.how}, rounded to {str(dtype).removeprefix('torch.')}"
    return Spectrum(s.sigma, s.shape, how, (s.low - off).clamp_min(0), s.high + off, s.risk)


# ------------------------------------------------------------------------------
# Whether targets suit the outputs that a loss compares them with.
#
# A loss takes much that was not meant: numbers of other shapes are broadcast against one another,
# and NaN or values that are no probabilities go through to a number of its own. What it is asked to
# do is watched once, on the first output.


Loss = Callable[[Tensor, Any], Tensor]
SAME_SHAPE = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)
CLASSES = (F.cross_entropy, F.nll_loss)
SHARES = (F.binary_cross_entropy, F.binary_cross_entropy_with_logits)
SQUARED = "squared error"
IGNORED = -100  # the class that torch's losses leave out unless told otherwise
ARITHMETIC = {
    "add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide",
    "pow", "eq", "ne", "gt", "ge", "lt", "le", "maximum", "minimum",
}  # fmt: skip


def loss_name(loss: Loss | None, targets: Any) -> str:
    """What a loss is called in a sentence; squared error is meant where there is none to take."""
    if loss is None or targets is None:
        return SQUARED
    name = getattr(loss, "__name__", type(loss).__name__)
    return "the loss given" if name == "<lambda>" else name


def class_dim(output: Tensor, classes: Tensor) -> int | None:
    """The dimension of scores that counts classes: the last, or the second, as of segmentations.

    Args:
        output: Scores.
        classes: One for each row of them.

    Returns:
        None where there is not one class for each row either way.
    """
    if classes.shape == output.shape[:-1]:
        return -1
    if output.ndim > 1 and classes.shape == (*output.shape[:1], *output.shape[2:]):
        return 1
    return None


def require_compared(targets: Any, loss: Loss | None) -> None:
    """Targets where there is a loss: without them another would be measured, or none.

    Raises:
        Refusal: If there is a loss and no targets.
    """
    if loss is not None and targets is None:
        raise Refusal(
            f"A loss must have targets that it compares outputs with, got {loss_name(loss, 0)} and "
            "no targets. Pass some (`targets=`, or `y` of a file; an autoencoder's are its "
            "inputs), or leave the loss out."
        )


def require_finite_targets(targets: Any) -> None:
    """Raise if a tensor among the targets is empty, or holds NaN or an infinity."""
    for tensor in tensors(targets):
        require_dense(tensor, "`targets`")
        shape = tuple(tensor.shape)
        if tensor.numel() == 0:
            raise Refusal(
                f"`targets` must hold one target for each sample, got shape {shape}. Pass those of "
                "the batch."
            )
        whole = not (tensor.is_floating_point() or tensor.is_complex())
        bad = 0 if whole else int((~tensor.isfinite()).sum())
        if bad:
            first = tuple((~tensor.isfinite()).nonzero()[0].tolist())
            raise Refusal(
                f"`targets` must be finite, got {bad} of {tensor.numel()} values that are not, the "
                f"first at {first} of shape {shape}. Leave these samples out, or fill the values."
            )


class Unread(AttributeError):
    """A loss reads of an output what is not studied."""


class Chosen:
    """What stands for a structured output where only its studied tensor is at hand.

    It is read as the output would be: `out.logits`, `out["logits"]`, `out[0]`, `first, *_ = out`.

    Args:
        tensor: The one that was chosen of it.
        rule: By which, as `as_tensor` says.
    """

    def __init__(self, tensor: Tensor, rule: str) -> None:
        self._tensor, self._rule = tensor, rule

    def __getattr__(self, name: str) -> Tensor:
        if self._rule == f"output[{name!r}]":
            return self._tensor
        said = f"the loss reads `.{name}` of the output, of which {self._rule} alone is studied"
        raise Unread(said, name=name)

    def __getitem__(self, key: object) -> Tensor:
        if isinstance(key, str):
            return self.__getattr__(key)
        if isinstance(key, int) and key == 0:
            return self._tensor
        raise TypeError(f"of the output, {self._rule} is studied, and nothing at {key!r}")

    def __iter__(self) -> Iterator[Tensor]:
        yield self._tensor


def of_output(loss: Loss, output: Tensor, rule: str, targets: Any) -> Loss:
    """The loss as a function of the studied tensor, where it may be one of the whole output.

    A loss that is written on what the model returns (`out.logits`) is asked with that tensor in
    its place. Of an output with several parts, `out[0]` is its first part, not its first sample.

    Args:
        loss: The user's.
        output: The tensor that is studied.
        rule: By which it was chosen.
        targets: What the loss compares with.
    """
    if rule == WHOLE:
        return loss
    whole = lambda out, wanted: loss(cast("Tensor", Chosen(out, rule)), wanted)
    held = output.detach().clone()
    for asked in (whole, loss):  # one of a tensor fails on what stands for an output
        try:
            with random_states(0), torch.no_grad():
                float(asked(held, targets))
        except Unread as error:
            if not hasattr(held, str(error.name)):
                return whole  # which says, wherever it is asked, what it reads
        except (Exception, SystemExit):  # noqa: BLE001 (a user's loss raises anything)
            pass
        else:
            return asked
    return loss


def scalar_loss(loss: Loss, out: Tensor, targets: Any) -> Tensor:
    """The loss, which is refused if it does not accept the targets or is not one number."""
    try:
        value = loss(out, targets)
    except Refusal:
        raise
    except (Exception, SystemExit) as error:  # a user's loss raises anything
        shape = tuple(targets.shape) if isinstance(targets, Tensor) else type(targets).__name__
        words = str(error).rstrip(".")
        raise Refusal(
            f"`loss` must accept the output {tuple(out.shape)} and the targets {shape}, got "
            f"{type(error).__name__}: {words}. {_fitting(loss, out.detach(), targets)}"
        ) from error
    if not isinstance(value, Tensor):
        advice = "Return the tensor, as it is before `.item()` or `float()`"
        if isinstance(value, Mapping | tuple | list):
            advice = "Return the loss alone, as in `lambda output, targets: loss(…)[0]`"
        raise Refusal(
            f"`loss` must return a tensor of one number, got a value of type "
            f"{type(value).__name__}. {advice}."
        )
    if value.numel() != 1:
        raise Refusal(
            f"`loss` must return a scalar, got {tuple(value.shape)}. Reduce it with .mean()."
        )
    return value.squeeze()


def _fitting(loss: Loss, out: Tensor, targets: Any) -> str:
    """What to do about a loss that does not take the targets, tried before it is said."""
    if isinstance(loss, type):
        return f"Pass one of that class: `{loss.__name__}()`."
    said = "targets" if isinstance(targets, Tensor) else "torch.as_tensor(targets)"
    forms: dict[str, Callable[[Tensor], Tensor]] = {
        said: lambda t: t,
        f"{said}.squeeze(-1)": lambda t: t.squeeze(-1),
        f"{said}.long()": lambda t: t.long(),
        f"{said}.squeeze(-1).long()": lambda t: t.squeeze(-1).long(),
        f"{said}.float()": lambda t: t.to(out.dtype),
    }
    for line, form in forms.items():
        with suppress(Exception, SystemExit), random_states(), torch.no_grad():
            held = torch.as_tensor(targets).to(out.device)
            made = form(held.clone())  # which a loss may write over
            apart = made.is_floating_point() and made.shape != out.shape  # would be spread
            if apart or bool((made.flatten() != held.flatten()).any()):
                continue
            value = loss(out.clone(), made)
            if isinstance(value, Tensor) and value.numel() == 1:
                return f"It takes `{line}`: pass that."
    return "Pass targets and a loss that fit the output."


def in_double(loss: Loss) -> Loss:
    """A loss that takes outputs in double precision, whatever the numbers of its own are in.

    Weights of classes are in single precision, as in `nn.CrossEntropyLoss(weight=w)`, and torch
    joins no others to an output in double.
    """

    def widened(out: Tensor, targets: Any) -> Tensor:
        try:
            return loss(out, targets)
        except RuntimeError:
            with _Widening():
                return loss(out, targets)

    return widened


class _Widening(TorchFunctionMode):
    """Functions that are given a tensor in double precision are given no floats in a lesser one."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given: Any = (args, kwargs or {})
        floats = {t.dtype for t in tensors(given) if t.is_floating_point()}
        if len(floats) > 1 and torch.float64 in floats and not func.__name__.endswith("_"):
            given = mapped(given, lambda t: t.double() if t.is_floating_point() else t)
        return func(*given[0], **given[1])


def require_task(output: Tensor, targets: Any, loss: Loss, *, count: int, batch_dim: int) -> None:
    """Raise unless a loss compares each output with the target that belongs to it.

    Args:
        output: Of the model on the batch.
        targets: What the loss compares it with.
        loss: Called once, on numbers that are not kept.
        count: Samples in the batch.
        batch_dim: Where the batch has them.

    Raises:
        Refusal: If there are more or fewer targets than samples, if the loss raises or is no
            scalar, if it sets every output against the targets of other samples, or if targets are
            classes that there is no output for, or no probabilities where these are meant.
    """
    if isinstance(targets, Tensor):
        # as many targets as samples, or as rows of the output; scores in rows count as rows
        ends = {0, batch_dim}
        rows = {count, output.numel()}
        rows |= {output.shape[:-1].numel()} if output.ndim > 1 else set()
        rows |= {output.shape[d] for d in ends if d < output.ndim}
        found = [targets.shape[d] for d in sorted(ends) if d < targets.ndim]
        if not rows.intersection(found):
            raise Refusal(
                f"`targets` must have one row for each of the {count} samples, got shape "
                f"{tuple(targets.shape)} for an output of shape {tuple(output.shape)}. Pass the "
                "targets of these samples, in their order."
            )
    held = output.detach().clone()
    with random_states(), torch.no_grad(), _Watch(held, targets):
        scalar_loss(loss, held, targets)


class _Watch(TorchFunctionMode):
    """Looks at every operation of a loss that joins what comes from outputs and from targets."""

    def __init__(self, output: Tensor, targets: Any) -> None:
        super().__init__()
        self._shape = output.shape
        self._sides = [{id(output): output}, {id(t): t for t in tensors(targets)}]

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        read = [*tensors((args, kwargs))]
        of = [any(id(t) in side for t in read) for side in self._sides]
        if all(of):
            _require_suited(func, args, kwargs)
        found = func(*args, **kwargs)
        wrote = [*tensors(found)]
        if all(of) and func.__name__.strip("_") in ARITHMETIC and len(wrote) == 1:
            # Neither side may be spread over the other: (n) against (n, 1) makes n times n. Nor may
            # the outputs as they are be spread over more targets than there are outputs; a loss
            # that means to does so by a shape of its own.
            outputs, targets = (
                [t for t in read if id(t) in mine and id(t) not in other]
                for mine, other in (self._sides, self._sides[::-1])
            )
            size = wrote[0].numel()
            wider = outputs and targets and size > outputs[0].numel()
            if wider and (size > targets[0].numel() or outputs[0].shape == self._shape):
                raise _spread(outputs[0], targets[0])
        for side, mine in zip(self._sides, of, strict=True):
            if mine:
                side.update({id(t): t for t in wrote})  # kept, so that no id is used again
        return found


def _require_suited(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> None:
    """What torch's own losses take without a word, or in words that name no remedy."""
    named = dict(zip(("input", "target"), args, strict=False)) | kwargs
    output, target = named.get("input"), named.get("target")
    if not (isinstance(output, Tensor) and isinstance(target, Tensor)):
        return
    if func in SAME_SHAPE and output.shape != target.shape:
        raise _spread(output, target)
    if func in SHARES and bool(((target < 0) | (target > 1)).any()):
        raise Refusal(
            "`targets` of a binary cross-entropy must be between 0 and 1, got values from "
            f"{float(target.min()):.3g} to {float(target.max()):.3g}. Pass 0 and 1 for the classes."
        )
    if func in CLASSES:
        ignored = int(kwargs.get("ignore_index", IGNORED))
        count = output.shape[1 if output.ndim > 1 else 0]
        if target.is_floating_point():
            if target.shape == output.shape and bool((target < 0).any()):
                raise Refusal(
                    "Floating `targets` of a cross-entropy are probabilities of the classes, got "
                    f"{float(target.min()):.3g}. Pass classes as whole numbers, or a loss for "
                    "values."
                )
            return
        bad = target[((target < 0) | (target >= count)) & (target != ignored)]
        if len(bad):
            raise Refusal(
                f"`targets` must be classes from 0 to {count - 1}, for there are {count} outputs, "
                f"got {int(bad.flatten()[0])}. Renumber them, or widen the last layer."
            )
        if not bool((target != ignored).any()):
            raise Refusal(
                f"`targets` must hold a class that counts, got {ignored}, which the loss leaves "
                "out, for every sample. Pass samples with labels."
            )


def _spread(output: Tensor, target: Tensor) -> Refusal:
    shapes = tuple(output.shape), tuple(target.shape)
    return Refusal(
        f"`loss` must compare each output with its own target, got shapes {shapes[0]} and "
        f"{shapes[1]}, which are broadcast against one another. Give both one shape, e.g. "
        "`targets.view_as(output)`."
    )
