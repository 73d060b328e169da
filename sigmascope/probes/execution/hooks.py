"""What layers read and write while a model runs."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor

from sigmascope.probes.samples.batches import mapped, tensors


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one module.

    Attributes:
        site: Name of the module; its second call is `"name#2"`. See `module_name`.
        module: The module.
        input: The first tensor it read.
        output: The first floating tensor it wrote; on the autograd tape while gradients are on.
        version: In-place changes that `input` had seen when it was read.
    """

    site: str
    module: nn.Module
    input: Tensor
    output: Tensor
    version: int

    @property
    def spoiled(self) -> bool:
        """Whether the input was overwritten in place after it was read."""
        return _version(self.input) != self.version


SECOND = re.compile(r"#(\d+)$")


def module_name(site: str) -> str:
    """Name of the module that is called at a site; its own may end in `#2` as well."""
    return SECOND.sub("", site)


def is_repeated(site: str) -> bool:
    """Whether it is not the first call of its module."""
    found = SECOND.search(site)
    return found is not None and int(found[1]) > 1


def _site(name: str, count: int) -> str:
    return name if count == 1 and not SECOND.search(name) else f"{name}#{count}"


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # which count none


@dataclass(slots=True)
class Tape:
    """Calls in the order in which they end; deaf once `listening` is false.

    Another thread that runs the model meanwhile, as in training, is not listened to.
    """

    calls: list[Call] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    listening: bool = True
    thread: int = field(default_factory=threading.get_ident)

    @property
    def foreign(self) -> bool:
        """Whether this is a call of somebody else: not of our thread, nor of a backward pass."""
        # torch tells a backward pass, which may run in threads of its own, in no other way
        inside = torch._C._current_graph_task_id() != -1
        return threading.get_ident() != self.thread and not inside


Rewrite = Callable[[nn.Module, Tensor, Tensor], Tensor]


@contextmanager
def recording(
    modules: Mapping[str, nn.Module], *, copy: bool = False, rewrite: Rewrite | None = None
) -> Iterator[Tape]:
    """Record the calls of some modules while the block runs; no hook outlives the block.

    Args:
        modules: What to listen to, by name.
        copy: Keep copies of the inputs, for models that overwrite them in place.
        rewrite: Replaces the output of a module, from the module, its input and its output.
    """
    tape = Tape()
    with ExitStack() as hooks:
        for name, module in modules.items():
            hook = partial(_keep, tape, name, copy, rewrite)
            handle = module.register_forward_hook(hook, with_kwargs=True)
            hooks.callback(handle.remove)
        yield tape


def _keep(
    tape: Tape,
    name: str,
    copy: bool,
    rewrite: Rewrite | None,
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    output: Any,
) -> Any:
    if tape.foreign:
        return None
    read = next(tensors((args, kwargs)), None)
    wrote = next((t for t in tensors(output) if t.is_floating_point()), None)
    if read is None or wrote is None or is_functorch_wrapped_tensor(wrote):
        return None  # the last inside of torch.vmap, where one sample stands for all
    held = wrote if rewrite is None else rewrite(module, read, wrote)
    if torch.is_grad_enabled() and not held.requires_grad:
        held = held.detach().requires_grad_()
    if tape.listening:
        tape.counts[name] += 1
        count = tape.counts[name]
        kept = read.detach().clone() if copy else read.detach()
        tape.calls.append(Call(_site(name, count), module, kept, held, _version(kept)))
    # the model goes on with a copy, so that an in-place activation cannot overwrite what was read
    passed_on = held.clone()
    if isinstance(module, nn.RNNBase) and type(output) is tuple and output[0] is wrote:
        return passed_on, _last_state(module, passed_on, output[1])
    return (
        passed_on if output is wrote else mapped(output, lambda t: passed_on if t is wrote else t)
    )


def _last_state(module: nn.RNNBase, sequence: Tensor, state: Any) -> Any:
    """The last layer's final state taken from the sequence, where it is the same numbers.

    A fused recurrent layer returns it as an output of its own; a model that goes on with the state
    alone would otherwise seem not to depend on what the layer wrote.
    """
    h = state[0] if isinstance(state, tuple) else state
    steps = sequence if not module.batch_first or sequence.ndim == 2 else sequence.transpose(0, 1)
    ends = [steps[-1]] if not module.bidirectional else [*_both_ends(steps)]
    final = torch.cat([h[: -len(ends)], torch.stack(ends)])
    return (final, *state[1:]) if isinstance(state, tuple) else final


def _both_ends(steps: Tensor) -> tuple[Tensor, Tensor]:
    """Forward direction after the last step, backward direction after the first."""
    half = steps.shape[-1] // 2
    return steps[-1][..., :half], steps[0][..., half:]
