"""A pass of the model as it is written, for what no hook can hear in compiled code.

The batch of a step that is looked at is kept, and run once more behind the step without gradients.
The invariant: nothing of it is left. Weights, buffers, modes and random states are those of before,
and what was compiled is not compiled anew.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sigmascope.core.records import Skipped
from sigmascope.models.samples import prepared, run
from sigmascope.models.state import still
from sigmascope.watching.hooks import heard_by, hears, made_silent, silent
from sigmascope.watching.probes import Probe, ProbeBatch
from sigmascope.watching.processes import Processes, is_sharded
from sigmascope.watching.sinks import OWN, one_line

LOG = logging.getLogger("sigmascope")
MISSED = 3  # steps in which the model was not called
PLAIN = (str, bytes, bool, int, float, complex, type(None), torch.dtype, torch.device)


@dataclass(frozen=True, slots=True)
class _Call:
    """What the model was called with, and in which precision."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    device: str
    autocast: torch.dtype | None


class EagerPass:
    """Catches a call of a compiled model, and makes it once more without compiled code.

    Args:
        called: The model as it is called.
        model: The user's own module inside.
        probe: A batch that is taken where calls cannot be seen.
        processes: Those that train it.

    Attributes:
        why: Why there is no such pass; empty while there is.
    """

    def __init__(
        self, called: nn.Module, model: nn.Module, probe: ProbeBatch | None, processes: Processes
    ) -> None:
        self._called, self._model, self._probe = called, model, probe
        self._call: _Call | None = None
        self._undo: list[Callable[[], None]] = []
        self._missed = 0
        self.why = ""
        waits = any(isinstance(m, nn.SyncBatchNorm) for m in model.modules())
        if is_sharded(model) or (processes.count > 1 and waits):
            self.why = "one process alone cannot run it"

    @property
    def of(self) -> Literal["", "calls", "batch"]:
        """What can be run once more: calls of training, the probe batch besides, or nothing."""
        if self.why:
            return ""
        return "calls" if self._probe is None else "batch"

    def catch(self, *, compiled_around: bool) -> None:
        """The call of the step that follows is kept.

        Args:
            compiled_around: Whether hooks of the model itself were met in compiled code.
        """
        self._call = None
        compiled = vars(self._called).get("_compiled_call_impl")
        if compiled is not None:  # of a module that is compiled in place hooks are compiled too
            self._called._compiled_call_impl = _InFront(self, compiled)

            def put_back() -> None:
                now = vars(self._called).get("_compiled_call_impl")
                if isinstance(now, _InFront):  # else it was compiled anew meanwhile
                    self._called._compiled_call_impl = compiled

            self._undo.append(put_back)
        elif compiled_around and self._called is self._model:
            self._blind()
        elif self._missed < MISSED:
            keeper = _Keeper(self)
            handle = self._called.register_forward_pre_hook(keeper, with_kwargs=True)
            self._undo.append(handle.remove)

    def run(self, probes: Sequence[Probe]) -> tuple[Skipped, ...]:
        """Make the call once more, for some probes; what fails in it is the last.

        Returns:
            That no such pass is made any more, where it is none.
        """
        self.close()
        call, self._call = self._call, None
        self._missed = 0 if call else min(self._missed + 1, MISSED)
        if self._missed >= MISSED:
            self._blind()
        if not self.why and (call or self._probe):
            try:
                for probe in probes:
                    probe.listen()
                with (
                    still(self._model, weights=False),
                    torch.no_grad(),
                    heard_by(probes),
                    torch.compiler.set_stance("force_eager"),
                    ExitStack() as precision,
                ):
                    if call is None:
                        assert self._probe is not None
                        run(self._model, prepared(self._model, self._probe.batch))
                    else:
                        if call.autocast is not None:
                            precision.enter_context(torch.autocast(call.device, call.autocast))
                        self._model(*call.args, **call.kwargs)
            except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
                self.why = one_line(f"{type(error).__name__}: {error}")
        if not self.why:
            return ()
        LOG.warning("sigmascope makes no pass of compiled modules once more: %s", self.why)
        return (Skipped(OWN, "passes of compiled modules", self.why),)

    def close(self) -> None:
        """Nothing is kept any more."""
        for undo in self._undo:
            undo()
        self._undo.clear()

    def keep(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model is called; of one that is called again in a step the last counts."""
        if torch.compiler.is_compiling():
            self._missed = MISSED  # a hook here would be compiled each time
        if not hears():
            return
        device = next((p.device.type for p in self._model.parameters()), "cpu")
        on = torch.is_autocast_enabled(device)
        try:
            mine = _own(args), {name: _own(value) for name, value in kwargs.items()}
        except TypeError as error:
            self.why = one_line(error)
            return
        self._call = _Call(*mine, device, torch.get_autocast_dtype(device) if on else None)

    def _blind(self) -> None:
        if self._probe is None:
            self.why = "its calls are not seen; hand the watch what `torch.compile` has made of it"


class _Keeper:
    """A hook of a module's calls; in copies of it and in files it does nothing."""

    def __init__(self, again: EagerPass) -> None:
        self._again = again

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._again.keep(args, kwargs)

    def __deepcopy__(self, memo: Any) -> Any:
        return silent()

    def __reduce__(self) -> Any:
        return made_silent()


class _InFront:
    """Stands in front of a module's compiled call for one step."""

    def __init__(self, again: EagerPass, compiled: Any) -> None:
        self._again, self._compiled = again, compiled

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._again.keep(args, kwargs)
        return self._compiled(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> Any:
        return None  # as torch copies a module that is compiled in place

    def __reduce__(self) -> Any:
        return type(None), ()


def _own(value: Any) -> Any:
    """The same with tensors of its own.

    Raises:
        TypeError: If something may keep a state that is not known here.
    """
    if isinstance(value, Tensor):
        return value.detach().clone()
    if type(value) is dict:
        return {key: _own(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_own(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, PLAIN):
        return value
    raise TypeError(f"it is called with a {type(value).__name__}, which cannot be kept")
