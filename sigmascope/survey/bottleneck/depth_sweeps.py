"""Training one task at several depths, and reading off which dimension it needs."""

import hashlib
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal, Rows
from sigmascope.probes import Subject
from sigmascope.probes.execution import apart, called
from sigmascope.survey.bottleneck.inner_dimensions import inner_dimension
from sigmascope.survey.bottleneck.noise_fit import fit_of
from sigmascope.survey.bottleneck.penalised_training import settle
from sigmascope.survey.bottleneck.symmetry_coordinates import coordinates
from sigmascope.survey.bottleneck.trained_depths import DepthSweep, Trained, read_sweep
from sigmascope.survey.profiling import Progress
from sigmascope.survey.views.bottleneck import THRESHOLD, counted
from sigmascope.theory import jacot2023

Recipe = dict[str, Any]
Place = tuple[int, float, int]  # depth, penalty, seed
Factory = Callable[[int, torch.Generator], nn.Module]
FIRST = (2, 0)  # depth and seed of the network that tells one factory from another
SAMPLES = 64  # at which Jacobians and tangent kernels are read
MOST = 500  # samples whose coordinates are kept


def depth_sweep(
    factory: Factory,
    inputs: Tensor,
    targets: Tensor,
    *,
    depths: Collection[int],
    ridge: float | Collection[float] = 1e-3,
    steps: int = 8000,
    rate: float = 2e-3,
    seeds: Collection[int] = (0,),
    file: Path | None = None,
    mapper: Callable[[Callable[[Any], Trained], Iterable[Any]], Iterable[Trained]] = map,
    progress: Progress | None = None,
) -> DepthSweep:
    """Train a task at several depths with a penalty on the weights, and read off its dimension.

    As depth grows, the rank of the narrowest layers falls to the least that the task needs, and the
    squared norm grows by that rank for each layer. Networks that are too deep may fall into minima
    of too low a rank, which do not fit and have a large tangent kernel.

    Args:
        factory: `factory(depth, generator)` -> a plain stack of that many layers.
        inputs: A row a sample.
        targets: The same.
        depths: Which to train.
        ridge: `λ` of the penalty `λ ‖θ‖²`, biases included; or several.
        steps: Of Adam on all samples, with a cosine decay of the rate.
        rate: At the beginning.
        seeds: Of the networks at each depth.
        file: Where finished networks are kept, one a line; a sweep that was cut goes on there.
        mapper: `map`, or one that shares the work among processes or machines.
        progress: Called with a word, the networks done and their number.

    Raises:
        Refusal: If the data do not fit together, or the file belongs to another sweep.

    Source:
        Jacot 2023, Sec. 3 and Appendix E, with the rate, decay and scale of targets that converge.
    """
    inputs, targets = _require(inputs, targets, depths)
    ridges = sorted(set(ridge)) if isinstance(ridge, Collection) else [ridge]
    recipe = {"steps": steps, "rate": rate, "data": _digest(inputs, targets)}
    wanted = [(d, r, s) for d in sorted(set(depths)) for r in ridges for s in seeds]
    with ExitStack() as files:
        kept = None if file is None else files.enter_context(_opened(file, recipe, factory))
        known = {} if kept is None else {_place(one): one for one in map(_network, kept.rows)}
        todo = [one for one in wanted if one not in known]
        tell = progress or (lambda *_: None)
        tell("training", len(wanted) - len(todo), len(wanted))
        train = partial(_trained, factory, inputs, targets, recipe)
        for done, found in enumerate(mapper(train, todo), start=len(wanted) - len(todo) + 1):
            known[_place(found)] = found
            if kept is not None:
                kept.add(asdict(found))
            tell(f"depth {found.depth}", done, len(wanted))
    return read_sweep([known[one] for one in wanted])


def _opened(file: Path, recipe: Recipe, factory: Factory) -> Rows:
    """The networks that are kept in a file; what the factory makes belongs to their recipe."""
    first = _fresh(factory, *FIRST)
    network = hashlib.sha256(str(first).encode())
    for name, t in first.state_dict().items():
        network.update(name.encode() + t.contiguous().cpu().numpy().tobytes())
    return Rows(Path(file), kind="sweep", recipe=recipe | {"network": network.hexdigest()[:16]})


def _fresh(factory: Factory, depth: int, seed: int) -> nn.Module:
    with apart():  # what a factory draws from the global generators is none of their business
        made = factory(depth, torch.Generator().manual_seed(1_000_003 * depth + seed))
    if not isinstance(made, nn.Module):
        raise Refusal(
            f"`factory` must return a torch.nn.Module, got {type(made).__name__}: does it end in "
            "`return model`?"
        )
    return made.float()


def _place(network: Trained) -> Place:
    return network.depth, network.ridge, network.seed


def _network(row: dict[str, Any]) -> Trained:
    row |= {key: tuple(row[key]) for key in ("rank", "dimension")}
    row["coordinates"] = tuple(map(tuple, row["coordinates"]))
    return Trained(**row)


def _require(inputs: Tensor, targets: Tensor, depths: Collection[int]) -> tuple[Tensor, Tensor]:
    if not isinstance(inputs, Tensor) or not isinstance(targets, Tensor):
        raise Refusal(
            f"`inputs` and `targets` must be tensors, got {type(inputs).__name__} and "
            f"{type(targets).__name__}. Wrap arrays with torch.from_numpy."
        )
    if not isinstance(depths, Collection) or not all(isinstance(d, int) for d in depths):
        raise Refusal(f"`depths` must be a list of whole numbers, got {depths!r}: write [6, 8].")
    if inputs.ndim != 2 or targets.ndim != 2 or len(inputs) != len(targets):
        raise Refusal(
            f"`inputs` and `targets` must be matrices with a row for each sample, got "
            f"{tuple(inputs.shape)} and {tuple(targets.shape)}. Flatten images, and give one-hot "
            "rows for classes."
        )
    if not depths or min(depths) < 2:
        raise Refusal(f"`depths` must be 2 or more, got {sorted(depths)}. Name a few, up to 20.")
    return inputs.float(), targets.float()


def _digest(*data: Tensor) -> str:
    """Tells one data set from another."""
    found = hashlib.sha256()
    for t in data:
        found.update(t.contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def _trained(factory: Factory, x: Tensor, y: Tensor, recipe: Recipe, place: Place) -> Trained:
    """One network, from its own seed: the same wherever and whenever it is trained."""
    depth, ridge, seed = place
    model = _fresh(factory, depth, seed)
    with torch.no_grad():
        called(model, x[:1])  # refused in words where they do not fit
    settle(model, x, y, ridge=ridge, **{k: recipe[k] for k in ("steps", "rate")})
    return _read(model, x, y, place)


def _read(model: nn.Module, x: Tensor, y: Tensor, place: Place) -> Trained:
    with torch.no_grad():
        cost = float((model(x) - y).square().mean())
    subject = Subject(model, x[:SAMPLES])
    stack = subject.stack
    if isinstance(stack, str):
        raise Refusal(
            f"`factory` must give plain stacks of layers, but {stack}. Use linear layers with one "
            "activation between."
        )
    counts = [counted(torch.linalg.svdvals(W), THRESHOLD, "") for W in stack.weights]
    narrowest = lambda end: int(min(getattr(c, end) for c in counts))
    used = inner_dimension(subject.jacobians.sigma)
    points = [stack.at(row) for row in x.double()[:SAMPLES]]
    tangent = sum(sum(jacot2023.ntk_trace(p)) for p in points) / len(points) / stack.depth
    fits = fit_of(Subject(model, x), y).fits
    rank = narrowest("value"), narrowest("low"), narrowest("high")
    dimension = int(used.value), int(used.low), int(used.high)
    return Trained(*place, cost, stack.norm, rank, dimension, tangent, fits, _drawn(model, x))


def _drawn(model: nn.Module, x: Tensor) -> tuple[tuple[float, float], ...]:
    try:
        found = coordinates(model, x[:MOST])
    except Refusal:  # no layer has two
        return ()
    return tuple((round(a, 6), round(b, 6)) for a, b in found.values.tolist())
