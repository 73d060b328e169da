"""What is zero, and whether training moves it: units, samples, weights.

A zero is no proof of death. It may be that of a state before its first step, that of a weight which
is zero when training begins, or have a slope that somebody made up. Dead is what stays zero on all
samples in all calls of its layer, and has no derivative by any weight.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.models import Subject
from sigmascope.models.gradients import reduced_gradients
from sigmascope.models.layers import module_name
from sigmascope.models.samples import Batch, tensors
from sigmascope.models.state import ALONE
from sigmascope.models.tape import backward

BEHIND_ZEROS = "behind zeros"  # of what a weight that starts at zero, and moves, holds at zero
OFF_TAPE = "off the tape"  # of every weight, where none was on the way to the loss by autograd
BESIDE = "other outputs"  # of a weight that acts on outputs beside the one that is studied alone
TEACHABLE = "with a slope"  # of units that are zero on every sample and learn
MOSTLY = 0.5  # of the units, that are zero before it is asked whether they learn all the same
SLOPE = 1e-6  # of a zero by a weight, above which it learns; one that is off has none
NUDGE = 0.02  # standard deviation of what takes the place of zeros

# ------------------------------------------------------------------------------
# Units and samples.


def dead_units(subject: Subject) -> dict[str, float]:
    """Share of the units at each site that are zero on every sample, in all calls of its layer."""
    units = {s: b.samples if b.channels is None else b.channels
             for s, b in subject.activations.items()}  # fmt: skip
    zero = {s: (u == 0).all(0) for s, u in units.items() if u is not None}
    return {s: float(off.double().mean()) for s, off in _in_every_call(zero).items()}


def silent_samples(subject: Subject) -> dict[str, float]:
    """Share of the samples that reach each site as zeros, in all calls of its layer."""
    zero = {
        s: (both.samples == 0).all(1)
        for s, both in subject.activations.items()
        if both.samples is not None and both.samples.numel()
    }
    return {s: float(off.double().mean()) for s, off in _in_every_call(zero).items()}


def _in_every_call(holds: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """By site, where something holds in all calls of the site's layer.

    A state that starts at zero is zero in the first of them alone.
    """
    found: dict[tuple[str, tuple[int, ...]], Tensor] = {}
    key = lambda site: (module_name(site), tuple(holds[site].shape))
    for site, mask in holds.items():
        found[key(site)] = found[key(site)] & mask if key(site) in found else mask
    return {site: found[key(site)] for site in holds}


def revived(subject: Subject, dead: Mapping[str, float]) -> set[str]:
    """Sites with fewer dead units once weights that start at zero, and move, have moved.

    Cost: a few forward and backward passes, where units are dead and a weight is zero.
    """
    zero = zero_weights(subject.model)
    if not zero or not any(dead.values()):
        return set()
    batch, first = subject.part.batch, subject.scene.batch_dim
    moved = moving_zeros(subject.model, batch, zero)  # by a sum of outputs
    with filled([zero[name] for name in moved]):
        now = dead_units(Subject(subject.model, batch, outputs=1, batch_dim=first))
    return {site for site, share in dead.items() if now.get(site, share) < share}


def teachable(subject: Subject, dead: Mapping[str, float]) -> set[str]:
    """Sites that read mostly zeros, with a derivative by weights, as spikes with a made-up slope.

    Cost: a forward and a backward pass where there are such layers, and a backward pass for each of
    them where any has one.
    """
    silent = subject.once(silent_samples)
    names = {module_name(s) for s, share in dead.items() if share > MOSTLY or silent.get(s)}
    weights = [p for p in subject.model.parameters() if p.requires_grad]
    if not names or not weights:
        return set()
    read: dict[str, list[Tensor]] = {name: [] for name in names}
    found: set[str] = set()

    def learn(some: Iterable[Tensor]) -> bool:
        slopes = [0.0]
        note = lambda _, g: slopes.append(float(g.abs().amax()))
        zeros = [(x * (x == 0)).sum() for x in some if x.requires_grad]
        if zeros:
            backward(sum(zeros, torch.zeros(())), None, weights, note, again=True)
        return max(slopes) > SLOPE

    with ExitStack() as undo, suppress(RuntimeError, Refusal):  # of what has no derivative
        for name in names:
            keep = lambda _, args, named, name=name: read[name].extend(
                islice(tensors((args, named)), 1)
            )
            hooked = subject.modules[name].register_forward_pre_hook(keep, with_kwargs=True)
            undo.callback(hooked.remove)
        with subject.part.on_tape(listen=False):
            if learn(chain(*read.values())):  # mostly none does
                found = {name for name, some in read.items() if learn(some)}
    return {site for site in dead if module_name(site) in found}


# ------------------------------------------------------------------------------
# Weights.


def moving_zeros(
    model: nn.Module,
    batch: Batch,
    zero: Mapping[str, nn.Parameter],
    first: Collection[str] = (),
    **task: Any,
) -> frozenset[str]:
    """Which weights that start at zero move, at once or when those before them have moved.

    As a diffusion transformer begins: a last layer of zeros holds the gradient of the zeros in its
    blocks at zero for one step. The rest keep one another there for ever.

    Args:
        model: The model.
        batch: Of samples.
        zero: Its weights that are zero.
        first: Those that are known to move at once.
        task: Targets and loss; a sum of the outputs if not given.

    Cost: one forward and backward pass for each round, of which there are as many as zeros stand
    behind one another, and one.
    """
    found = frozenset(first)
    while left := zero.keys() - found:
        moves = lambda name, gradient, left=left: name in left and bool(gradient.any())
        with filled([zero[name] for name in found]):
            moved = reduced_gradients(model, batch, moves, **task, fused=True)
        new = {name for name, is_moved in moved.items() if is_moved}
        if not new:
            break
        found |= new
    return found


def zero_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """Weights to be trained that are zero, as the last scale of a residual branch may start."""
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    return {n: p for n, p in named.items() if not bool(p.any()) and not n.endswith("bias")}


@contextmanager
def filled(parameters: list[nn.Parameter]) -> Iterator[None]:
    """Small random numbers in the place of what parameters hold, inside of the block.

    Where their numbers lie is exchanged, and not the parameters: an LSTM holds a list of its own of
    these, which `functional_call` does not see.
    """
    g = torch.Generator().manual_seed(0)
    with ALONE, ExitStack() as undo:  # not while another thread holds the model still
        for p in parameters:
            values = torch.randn(p.shape, generator=g).mul_(NUDGE).to(p.detach())
            undo.callback(setattr, p, "data", p.data)
            p.data = values
            del values
        yield
