"""What a network does with its input, operation by operation, as the dispatcher runs them.

Below autograd every spelling of an operation is one name of `aten`, and a tensor is known by its
storage, so that nothing that depends on the input is lost: not behind `detach()` or `.data`, not
in place, not in a function with a derivative of its own. Each storage that depends on the input
either varies with it or is the same throughout a region (Booleans, indices, signs). What varies
must go through operations that are known, and must stay on the tape of autograd, by which slopes
are taken; everything else is noted by name.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from sigmascope.probes.execution.dispatch_modes import DispatchMode
from sigmascope.probes.piecewise_affine.breakpoints import STEPS, Kink, allowed, kink_on_tape
from sigmascope.probes.piecewise_affine.operations import SHAPED, Call, spelled, why_not
from sigmascope.probes.samples.batches import tensors

# what hands numbers to the world outside PyTorch, where nobody follows them
LEAVING = frozenset(
    {"numpy", "tolist", "__array__", "__dlpack__", "__deepcopy__", "__reduce_ex__", "storage"}
    | {"untyped_storage", "__cuda_array_interface__", "map_", "apply_"}
)
FINITE = frozenset({"isnan", "isinf", "isfinite"})  # the same wherever a network has finite values
OUTSIDE = "numbers that leave PyTorch (`{}`)"
HELD = "`detach`, `.data` or `no_grad`"


_real = lambda t: t.is_floating_point() or t.is_complex()
_place = lambda t: t.untyped_storage()._cdata if t.layout is torch.strided else id(t)


class Step(NamedTuple):
    """One operation on something that depends on the input.

    Attributes:
        name: As the dispatcher knows it.
        after: Steps that wrote what it reads, by their place.
        constant: Whether what it writes is the same throughout a region.
        why: What keeps it from being piecewise affine; empty if nothing does.
        cut: Whether autograd has no derivative of it.
        kink: Where it bends.
    """

    name: str
    after: frozenset[int]
    constant: bool = False
    why: str = ""
    cut: bool = False
    kink: Kink | None = None


@dataclass(slots=True)
class Trace:
    """The steps of one run.

    Attributes:
        steps: In their order.
        eps: Rounding of the least precise numbers that depend on the input.
        size: Largest finite of those numbers.
        read: Steps whose results Python read: all that follows may depend on them.
        strangers: Nodes of autograd that were computed out of sight, or from weights.
    """

    steps: list[Step] = field(default_factory=list)
    eps: float = 0.0
    size: float = 0.0
    read: list[int] = field(default_factory=list)
    strangers: list[Any] = field(default_factory=list)
    _writers: dict[int, tuple[int, bool]] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)
    _deaf: bool = False

    def source(self, z: Tensor) -> None:
        """Follow what depends on this tensor."""
        with torch._C.DisableTorchFunction(), self.deaf():
            self._write([z], Step("input", frozenset()))

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Follow nothing that is computed while the block runs."""
        before, self._deaf = self._deaf, True
        try:
            yield
        finally:
            self._deaf = before

    def behind(self, out: Tensor) -> list[Step] | None:
        """The steps that a tensor depends on; None if it does not depend on the input."""
        with torch._C.DisableTorchFunction():
            at = self._writers.get(_place(out))
        if at is None and not self.read:
            return None
        waiting, seen = [*self.read, *([] if at is None else [at[0]])], set()
        while waiting:
            if (i := waiting.pop()) not in seen:
                seen.add(i)
                waiting += self.steps[i].after
        return [self.steps[i] for i in sorted(seen)]

    def constant(self, out: Tensor) -> bool:
        """Whether a tensor is the same throughout a region."""
        with torch._C.DisableTorchFunction():
            at = self._writers.get(_place(out))
        return at is None or at[1]

    def _write(self, outputs: Iterable[Tensor], step: Step) -> None:
        self.steps.append(step)
        for t in outputs:
            place, varies = _place(t), not step.constant and _real(t)
            before = self._writers.get(place)
            self._writers[place] = (len(self.steps) - 1, not varies and (before or (0, True))[1])
            self._kept.append(t.untyped_storage() if t.layout is torch.strided else t)
            if varies and t.numel():
                self.eps = max(self.eps, torch.finfo(t.dtype).eps)
                self.size = max(self.size, _largest(t))

    def note(self, call: Call) -> Step | None:
        """The step that a call is about to be; None if nothing in it depends on the input."""
        if self._deaf:
            return None
        at = {
            n: [w for t in ts if (w := self._writers.get(_place(t)))]
            for n, ts in call.reads.items()
        }
        unseen = (t for ts in call.reads.values() for t in ts if _place(t) not in self._writers)
        self.strangers += [t.grad_fn for t in unseen if t.grad_fn]
        if call.random:
            return Step(call.name, frozenset(), why=f"random numbers (`{spelled(call.name)}`)")
        after = frozenset(i for ws in at.values() for i, _ in ws)
        if not after or call.name in SHAPED:
            return None
        varying = {n for n, ws in at.items() if not all(constant for _, constant in ws)}
        if call.looks:  # the same storage goes on
            return None
        if not varying:
            return Step(call.name, after, constant=True)
        off_tape = not torch.is_grad_enabled() or not all(
            t.requires_grad
            for n in varying
            for t in call.reads[n]
            if (w := self._writers.get(_place(t))) and not w[1]
        )
        return self._judged(call, after, varying, off_tape=off_tape)

    def _judged(
        self, call: Call, after: frozenset[int], varying: set[str], *, off_tape: bool
    ) -> Step:
        name = call.name
        if name == "_local_scalar_dense":
            return Step(name, after, why=OUTSIDE.format("item"), cut=True)
        if call.odd:
            return Step(name, after, why=f"complex numbers or bits (`{spelled(name)}`)")
        kink = kink_on_tape(name, call.given) if allowed(call.given, varying) else None
        step = kink is not None and (name in STEPS or kink.name == "bool")
        if off_tape and not step:
            says = f"something cut off from the derivative ({HELD}), which `{spelled(name)}` reads"
            return Step(name, after, why=says, cut=True, kink=kink)
        why = "" if kink is not None else why_not(name, call.given, varying)
        if not why and not step and not call.real:
            why = f"numbers that are rounded to integers (`{spelled(name)}`)"
        return Step(name, after, constant=step, why=why, kink=kink)

    def ran(self, step: Step, call: Call, out: Any) -> None:
        """Enter a step that has been made."""
        written = [t for t in (*tensors(out), *call.writes) if isinstance(t, Tensor)]
        earlier = frozenset(w[0] for t in written if (w := self._writers.get(_place(t))))
        self._write(written, step._replace(after=step.after | earlier))
        if not written or call.shapes:  # Python has read it
            self.read.append(len(self.steps) - 1)

    def leaves(self, name: str, value: Any) -> None:
        """Note that numbers are handed to the world outside, if they depend on the input."""
        after = frozenset(w[0] for t in tensors(value) if (w := self._writers.get(_place(t))))
        if after:
            why = OUTSIDE.format(name.strip("_"))
            self._write([], Step(name, after, why=why, cut=True))
            self.read.append(len(self.steps) - 1)


@contextmanager
def tracing() -> Iterator[Trace]:
    """Follow everything that is computed while the block runs, from what is made a source."""
    trace = Trace()
    with ExitStack() as modes:
        modes.enter_context(_Spelled(trace))
        modes.enter_context(_Dispatched(trace))
        yield trace


class _Dispatched(DispatchMode):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            call = Call(func, args, kwargs)
            step = self.trace.note(call)
            out = func(*args, **kwargs)
            if step is not None:
                self.trace.ran(step, call, out)
            return out


class _Spelled(TorchFunctionMode):
    """Sees what never reaches the dispatcher."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in LEAVING:
            with torch._C.DisableTorchFunction():
                self.trace.leaves(name, args)
        with self.trace.deaf() if name in FINITE else nullcontext():
            return func(*args, **(kwargs or {}))


def _largest(t: Tensor) -> float:
    sizes = t.detach().abs()
    top = float(sizes.amax())
    return top if top < float("inf") else float(sizes.nan_to_num(0.0, 0.0, 0.0).amax())
