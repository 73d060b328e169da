"""The door to data."""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from sigmascope.core.guard import Refusal, door, listed, nearest
from sigmascope.sources.batches import changed, count, parts, take
from sigmascope.sources.callables import is_callable_spec
from sigmascope.sources.datasets import DATASETS
from sigmascope.sources.files import KINDS
from sigmascope.sources.named_data import from_file, from_python, known, query_options
from sigmascope.sources.samples import Data


@door
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
        options = query_options(name, query)
        where = None if folder is None else Path(folder).expanduser()
        return known(name, options, samples, where, shape, generator)
    if is_callable_spec(spec):
        return from_python(spec, samples, generator, takes)
    path = Path(spec).expanduser()
    if path.suffix == ".py":
        raise Refusal(f"`{spec}` must be followed by the name of a loader in it: `{spec}:NAME`.")
    there = False
    with suppress(OSError):  # no name of a file at all
        there = bool(spec) and path.exists()
    if path.suffix.lower() in KINDS or there:
        return from_file(path, samples, generator, takes)
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
