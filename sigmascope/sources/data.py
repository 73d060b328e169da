"""The door to data."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from urllib.parse import parse_qsl

import torch
from torch import Tensor, nn

from sigmascope import gate
from sigmascope.gate import Refusal
from sigmascope.sources.batches import Batch, as_batch, changed, count, parts, split, take
from sigmascope.sources.callables import call, is_callable_spec, named
from sigmascope.sources.datasets import DATASETS, Sample, cifar10, digits, fashion_mnist, gaussian
from sigmascope.sources.files import KINDS, existing, read
from sigmascope.sources.limits import DIGITS
from sigmascope.sources.loaders import gather, matched
from sigmascope.sources.refusals import listed, nearest
from sigmascope.sources.seeds import lent
from sigmascope.sources.subsets import choose, classes, described


@dataclass(frozen=True, slots=True)
class Data:
    """A batch to measure a model on.

    Attributes:
        inputs: A tensor, or a tuple or a mapping of tensors, one row a sample.
        targets: Class labels or values, one row a sample; nothing where there are none.
        name: What it is and which samples were taken, in words.
        outputs: Outputs a model of these targets has: the number of classes, or of values a sample.
    """

    inputs: Batch
    targets: Tensor | None
    name: str
    outputs: int | None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one sample; nothing where a sample is not one tensor."""
        return tuple(self.inputs.shape[1:]) if isinstance(self.inputs, Tensor) else None


def open_data(
    spec: str,
    *,
    samples: int | None = 128,
    folder: str | Path | None = None,
    shape: tuple[int, ...] | None = None,
    takes: Collection[str] = (),
    generator: torch.Generator | None = None,
) -> Data:
    """Data by name, from a file, or from Python code.

    - `digits`: scikit-learn's 1797 images `[n, 1, 8, 8]`, pixels divided by 16.
    - `fashion-mnist`, `cifar10`: pixels divided by 255; the training split unless
      `?split=test` follows. They are looked for in `folder`, else in `$SIGMASCOPE_DATA`, `data`,
      `../shared/data`, `/usr/share/datasets` and the cache folder; Fashion-MNIST is then fetched.
    - `gaussian?shape=3x32x32`: independent standard normal numbers, no targets.
    - `.npy`, `.npz`, `.pt`, `.safetensors`: one array, or inputs and targets told by their names.
    - `file.py:loader`, `package.module:loader`: an object, or a function without arguments that
      returns one: (inputs, targets), a mapping, a tensor, a data set or an iterable of batches.

    Where there are more samples than asked for, a random choice is taken, the classes as equal as
    they can be; the name says so. No number is changed beyond the divisions above.

    Args:
        spec: One of the above.
        samples: How many samples; all of them where nothing is said.
        folder: The only place to look for named data sets.
        shape: Of one sample of `gaussian`, where the spec does not say.
        takes: Arguments of the model: a mapping that has several of them and nothing else beside
            its targets is passed to it by name.
        generator: Source of the choice and of `gaussian`; seed 0 when there is none.

    Raises:
        Refusal: If the spec leads nowhere, or to something that is not data.
    """
    if samples is not None and samples < 1:
        raise Refusal(f"`samples` must be 1 or more, got {samples}.")
    name, _, query = spec.partition("?")
    if name in DATASETS:
        options = _query(name, query)
        where = None if folder is None else Path(folder).expanduser()
        return _known(name, options, samples, where, shape, generator)
    if is_callable_spec(spec):
        return _from_python(spec, samples, generator, takes)
    path = Path(spec).expanduser()
    if path.suffix == ".py":
        raise Refusal(f"`{spec}` must be followed by the name of a loader in it: `{spec}:NAME`.")
    if path.suffix.lower() in KINDS or (spec and path.exists()):
        return _from_file(path, samples, generator, takes)
    raise Refusal(
        f"There is no data set `{spec}`; there are {listed(DATASETS)}, files ({', '.join(KINDS)}) "
        f"and `file.py:loader`.{nearest(name, DATASETS)}"
    )


def fitted(data: Data, module: nn.Module) -> Data:
    """The data with floating inputs in the precision of the model's first floating parameter.

    The name says so where anything was converted.

    Raises:
        Refusal: If a number of the data is beyond that precision.
    """
    dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), None)
    old = {p.dtype for p in parts(data.inputs) if p.is_floating_point()}
    if dtype is None or old <= {dtype}:
        return data

    inputs = changed(data.inputs, lambda t: t.to(dtype) if t.is_floating_point() else t)
    for before, after in zip(parts(data.inputs), parts(inputs), strict=True):
        if int((~after.isfinite()).sum()) > int((~before.isfinite()).sum()):
            raise Refusal(
                f"{data.name} must fit the model's {str(dtype).removeprefix('torch.')}, got "
                f"{float(before.abs().max()):.3g}: scale the data, or build the model in "
                f"{str(before.dtype).removeprefix('torch.')}."
            )
    return replace(data, inputs=inputs, name=f"{data.name}, as {str(dtype).removeprefix('torch.')}")


def turned(data: Data, batch_dim: int) -> Data:
    """The data with its samples, which come first, moved to dimension `batch_dim` of each tensor.

    Raises:
        Refusal: If no tensor has such a dimension.
    """
    most = max(part.ndim for part in parts(data.inputs))
    if not 0 <= batch_dim < most:
        raise Refusal(
            f"`batch_dim` must be from 0 to {most - 1}, for the data have {most} dimensions, got "
            f"{batch_dim}. Leave it out unless the model wants its samples elsewhere than first."
        )
    move: Callable[[Tensor], Tensor]
    move = lambda t: t.movedim(0, batch_dim) if t.ndim > batch_dim else t
    return replace(data, inputs=changed(data.inputs, move)) if batch_dim else data


def halves(data: Data) -> tuple[Data, Data]:
    """Two data sets of different samples, chosen at random (seed 0); samples come first.

    Raises:
        Refusal: If there are fewer than two samples.
    """
    total = count(data.inputs)
    if total < 2:
        raise Refusal(f"{data.name} must hold two samples or more to be halved, got {total}.")
    order = torch.randperm(total, generator=torch.Generator().manual_seed(0))
    first, second = (
        replace(
            data,
            inputs=take(data.inputs, rows),
            targets=None if data.targets is None else data.targets[rows],
            name=f"{data.name}, {len(rows)} of them",
        )
        for rows in (order[: (total + 1) // 2], order[(total + 1) // 2 :])
    )
    return first, second


def outputs_for(targets: Tensor | None) -> int | None:
    """Outputs of a model of these targets; nothing where there are none."""
    if targets is None:
        return None
    if targets.is_floating_point() or targets.is_complex():
        return 1 if targets.ndim == 1 else int(targets[0].numel())
    labels = targets.long()
    return int(labels.max()) + 1 if int(labels.min()) >= 0 else len(labels.unique())


def _known(
    name: str,
    options: dict[str, str],
    samples: int | None,
    folder: Path | None,
    shape: tuple[int, ...] | None,
    generator: torch.Generator | None,
) -> Data:
    if name == "gaussian":
        size = _shape(options["shape"]) if "shape" in options else shape
        if size is None:
            raise Refusal(
                "`gaussian` needs the shape of one sample: write `gaussian?shape=64` or "
                "`gaussian?shape=3x32x32`."
            )
        gate.require_room(4 * prod(size) * (samples or 1), f"`{name}` of this shape")
        sample = gaussian(shape=size, samples=samples, generator=generator)
    elif name == "digits":
        sample = digits(samples=samples, generator=generator)
    else:
        sample = _images(name, options.get("split", "train"), samples, folder, generator)
    inputs, targets, words = sample
    return Data(inputs, targets, words, None if targets is None else 10)


def _images(
    name: str,
    split: str,
    samples: int | None,
    folder: Path | None,
    generator: torch.Generator | None,
) -> Sample:
    if split not in ("train", "test"):
        raise Refusal(f"`split` of `{name}` must be train or test, got `{split}`.")
    read_set = fashion_mnist if name == "fashion-mnist" else cifar10
    return read_set(split=split, folder=folder, samples=samples, generator=generator)


def _query(name: str, query: str) -> dict[str, str]:
    allowed = {"gaussian": ("shape",), "digits": ()}.get(name, ("split",))
    try:
        pairs = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise Refusal(f"`{name}?{query}` must read `{name}?key=value`.") from error
    for key in pairs:
        if key not in allowed:
            has = f"it has {listed(allowed)}" if allowed else "it has none"
            raise Refusal(f"`{name}` has no option `{key}`; {has}.{nearest(key, allowed)}")
    return pairs


def _shape(text: str) -> tuple[int, ...]:
    sizes = text.replace(",", "x").split("x")
    if not all(len(s) <= DIGITS and s.isdecimal() and int(s) > 0 for s in sizes):
        raise Refusal(
            f"`shape` must read like 64 or 3x32x32, got `{text[:80]}`: name sizes of one sample."
        )
    return tuple(int(size) for size in sizes)


def _from_file(
    path: Path, samples: int | None, generator: torch.Generator | None, takes: Collection[str]
) -> Data:
    content, place = read(existing(path)), f"`{path}`"
    if isinstance(content, Mapping):
        inputs, targets = split(content, place=place, strict=True, takes=takes)
    elif isinstance(content, tuple | list) and len(content) == 2:
        inputs, targets = content
    else:
        inputs, targets = content, None
    batch = as_batch(inputs, place=f"The inputs of {place}")
    return _chosen(path.name, batch, matched(batch, targets, place=place), samples, generator)


def _from_python(
    spec: str, samples: int | None, generator: torch.Generator | None, takes: Collection[str]
) -> Data:
    with lent(generator), named(spec) as found:  # what it draws repeats with the seed
        value = call(found, spec) if callable(found) else found
        inputs, targets = gather(value, samples=samples, place=f"`{spec}`", takes=takes)
    return _chosen(spec, inputs, targets, samples, generator)


def _chosen(
    name: str,
    inputs: Batch,
    targets: Tensor | None,
    samples: int | None,
    generator: torch.Generator | None,
) -> Data:
    total, labels = count(inputs), classes(targets)
    rows = choose(total, labels, samples=samples, generator=generator)
    taken = None if targets is None else targets[rows]
    if taken is not None:
        _require_known(taken, rows, name)
    words = described(name, len(rows), total, balanced=labels is not None, generator=generator)
    return Data(take(inputs, rows), taken, words, outputs_for(targets))


def _require_known(targets: Tensor, rows: Tensor, name: str) -> None:
    """Refuse targets of chosen samples that are no numbers."""
    bad = (~targets.flatten(1).isfinite()).any(1) if targets.ndim > 1 else ~targets.isfinite()
    if bool(bad.any()):
        raise Refusal(
            f"The targets of {name} must be finite, got {int(bad.sum())} of {len(targets)} samples "
            f"with NaN or an infinity, the first in row {int(rows[bad][0])}: leave these samples "
            "out, or fill the values."
        )
