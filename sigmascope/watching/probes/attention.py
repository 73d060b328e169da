"""How many keys the queries of attention look at, of the samples of a training step.

Fused attention hands out no probabilities. Its queries and keys pass by on their way into it, so
that the probabilities of some queries of each sample are made once more, from copies.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.watching.columns import Column
from sigmascope.watching.entropies import ENTROPIES
from sigmascope.watching.hooks import hears, made_silent, removed, silent
from sigmascope.watching.probes.base import Found, Probe, nothing

SILENT = 3  # turns without any attention: there is none


class Attention(Probe):
    """Entropy of attention, over that of equal attention to all keys in sight.

    Of `scaled_dot_product_attention`, and of softmaxes over the keys of `[batch, heads, queries,
    keys]`, wherever in the model; named by the module around them.

    Args:
        model: The user's own module.
    """

    name = "attention"
    share = 0.08
    first = 2

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._inner = {
            n: m for n, m in model.named_modules() if n and any(True for _ in m.children())
        }
        self._handles: list[Any] = []
        self._mode = _Heard(self)
        self.inside: list[str] = []
        self._sums: dict[str, Tensor] = {}
        self._order: list[tuple[str, int]] = []
        self._silent = 0

    def open(self) -> None:
        self._sums = {}
        self.inside = []
        for name, module in (("", self._model), *self._inner.items()):
            self._handles.append(module.register_forward_pre_hook(_Enter(self, name, module)))
            leave = _Leave(self, name, module)
            self._handles.append(module.register_forward_hook(leave, always_call=True))

    def local(self) -> Tensor:
        self.close()
        self._order = [(site, len(sums)) for site, sums in self._sums.items()]
        return torch.cat([t.cpu() for t in self._sums.values()]) if self._sums else nothing()

    def read(self, total: Tensor) -> Iterator[Found]:
        self._silent = 0 if self._order else self._silent + 1
        self.idle = self._silent >= SILENT
        parts = total.split([size for _, size in self._order]) if self._order else ()
        means, least = {}, {}
        for (site, _), sums in zip(self._order, parts, strict=True):
            count = float(sums[-1])
            if count:
                heads = (sums[:-1] / count).tolist()
                means[site], least[site] = sum(heads) / len(heads), min(heads)
        for form, found in (("", means), ("least head", least)):
            if found:
                yield Column("attention entropy", [*found], [*found.values()], 1e-4, form)

    def close(self) -> None:
        removed(self._handles)
        self._mode.leave()

    def enter(self, name: str) -> None:
        """A module's forward pass begins."""
        self.inside.append(name)
        if not name:
            self._mode.begin()

    def leave(self, name: str) -> None:
        """And ends."""
        while self.inside and self.inside.pop() != name:
            pass
        if not name:
            self._mode.leave()

    def hear(self, entropy: Tensor) -> None:
        """Entropies `[batch, heads, queries]` of one attention; nan where one key is in sight."""
        site = self.inside[-1] if self.inside else ""
        known = ~entropy.isnan()
        sums = entropy.nan_to_num().double().sum((0, 2))
        count = known[:, :1].sum().double()[None]
        both = torch.cat([sums, count])
        before = self._sums.get(site)
        self._sums[site] = both if before is None or len(before) != len(both) else before + both


class _Heard(TorchFunctionMode):
    """Hears calls of attention while it is entered."""

    def __init__(self, probe: Attention) -> None:
        super().__init__()
        self._probe = probe
        self._on = False

    def begin(self) -> None:
        if not self._on:
            self._on = True
            self.__enter__()

    def leave(self) -> None:
        if self._on:
            self._on = False
            self.__exit__(None, None, None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in ENTROPIES and hears():
            with torch.no_grad():
                entropy = ENTROPIES[func](out, *args, **kwargs)
            if entropy is not None:
                self._probe.hear(entropy)
        return out


class _Enter:
    """A hook of one module; in copies of it and in files it does nothing."""

    def __init__(self, probe: Attention, name: str, module: nn.Module) -> None:
        self._probe, self._name, self._module = probe, name, module

    def __call__(self, module: nn.Module, *_: Any) -> None:
        if module is self._module and hears():
            self._tell()

    def _tell(self) -> None:
        self._probe.enter(self._name)

    def __deepcopy__(self, memo: Any) -> Any:
        return silent

    def __reduce__(self) -> Any:
        return made_silent, ()


class _Leave(_Enter):
    def _tell(self) -> None:
        self._probe.leave(self._name)
