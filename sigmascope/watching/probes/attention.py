"""How many keys the queries of attention look at, of the samples of a training step.

Fused attention hands out no probabilities. Its queries and keys pass by on their way into it, so
that the probabilities of some queries of each sample are made once more, from copies.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from sigmascope.core import quantities as q
from sigmascope.watching.hooks import hears, in_backward, made_silent, removed, silent, transformed
from sigmascope.watching.probes.base import Found, Layout, Probe, Sharing
from sigmascope.watching.processes import entries, is_cut, sharded_kind
from sigmascope.watching.sinks import Column

# ------------------------------------------------------------------------------
# Entropies of attention, from the arguments of the functions that make it.
#
# Over the entropy of as many equal keys as are in sight, so that 1 is attention to all alike and 0
# to one alone.


QUERIES = 8  # of a sample, evenly spaced
HIDDEN = -6e4  # scores below it are those of masks, in half precision too


def of_products(
    out: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    **_: Any,
) -> Tensor | None:
    """Of `scaled_dot_product_attention`, whose arguments these are; some queries of each sample."""
    if query.ndim != 4 or key.shape[-2] < 2:
        return None
    q, k = query.detach().float(), key.detach().float()
    if enable_gqa:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    at = _some(q.shape[-2], q.device)
    scores = q[:, :, at] @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        later = torch.arange(k.shape[-2], device=q.device) > at[:, None]
        scores = scores.masked_fill(later, -math.inf)
    if attn_mask is not None:
        added = _added(attn_mask.detach(), hidden=False)
        scores = scores + (added[..., at, :] if added.shape[-2] > 1 else added)
    return _entropy(scores.softmax(-1), scores > HIDDEN)


def of_heads(
    out: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    *_: Any,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    **__: Any,
) -> Tensor | None:
    """Of `multi_head_attention_forward`, as `nn.MultiheadAttention` calls it, with one weight."""
    if in_proj_weight is None or query.ndim != 3:
        return None
    d = embed_dim_to_check
    biases = (None, None) if in_proj_bias is None else (in_proj_bias[:d], in_proj_bias[d : 2 * d])
    weights = (in_proj_weight[:d], in_proj_weight[d : 2 * d])
    pairs = zip((query, key), weights, biases, strict=True)
    q, k = (
        F.linear(x, w, b).unflatten(-1, (num_heads, -1)).permute(1, 2, 0, 3) for x, w, b in pairs
    )
    mask = None
    if attn_mask is not None:
        mask = _added(attn_mask, hidden=True)
        mask = mask.unflatten(0, (-1, num_heads)) if mask.ndim == 3 else mask
    if key_padding_mask is not None:
        padding = _added(key_padding_mask, hidden=True)[:, None, None]
        mask = padding if mask is None else mask + padding
    return of_products(out, q, k, k, mask)


def _added(mask: Tensor, *, hidden: bool) -> Tensor:
    """What is added to scores; a mask of yes and no is true where keys are hidden, or where not."""
    if mask.dtype != torch.bool:
        return mask.float()
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill(mask == hidden, -math.inf)


def of_softmax(
    out: Tensor, input: Tensor, dim: int | None = None, *_: Any, **__: Any
) -> Tensor | None:
    """Of a softmax over the keys of `[batch, heads, queries, keys]`."""
    scores = input
    if out.ndim != 4 or dim not in (-1, 3) or out.shape[-1] < 2:
        return None
    at = _some(out.shape[-2], out.device)
    scores = scores.detach().float()[:, :, at]
    return _entropy(out.detach().float()[:, :, at], scores > HIDDEN)


def _entropy(p: Tensor, seen: Tensor) -> Tensor:
    """Over that of as many equal keys as are in sight; nan where that is one, or none."""
    keys = seen.expand_as(p).sum(-1).float()
    entropy = -(p * p.clamp_min(1e-38).log()).sum(-1)
    return torch.where(keys > 1, entropy / keys.log(), math.nan)


def _some(count: int, device: torch.device) -> Tensor:
    return torch.linspace(0, count - 1, min(QUERIES, count), device=device).round().long()


ENTROPIES: Mapping[Any, Callable[..., Tensor | None]] = MappingProxyType(
    {
        F.scaled_dot_product_attention: of_products,
        F.multi_head_attention_forward: of_heads,
        F.softmax: of_softmax,
        torch.softmax: of_softmax,
        Tensor.softmax: of_softmax,
    }
)


SILENT = 3  # turns without any attention: there is none


# ------------------------------------------------------------------------------
# The probe that listens to a model for them.


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
        self._layout = Layout()
        self._silent = 0

    def open(self) -> None:
        self._sums = {}
        self.inside = []
        modules = [self._model, *self._inner.values()]
        if len(self.audible(self._model, modules)) < len(modules):
            self.deaf = modules if self.deaf else ()
            return  # calls are heard wherever they are made, so that they would be compiled
        self._listen()

    def listen(self) -> None:
        self._listen()

    def _listen(self) -> None:
        for name, module in (("", self._model), *self._inner.items()):
            enter, leave = (_Border(self, t, name, module) for t in (self.enter, self.leave))
            self._handles.append(module.register_forward_pre_hook(enter))
            self._handles.append(module.register_forward_hook(leave, always_call=True))

    def agree(self) -> Sharing:
        self.close()
        yield from self._layout.agree(self._sums, ["", *self._inner])

    def local(self) -> Tensor:
        return self._layout.part(self._sums)

    def read(self, total: Tensor) -> Iterator[Found]:
        self._silent = 0 if self._layout.sizes else self._silent + 1
        self.idle = self.idle or self._silent >= SILENT
        means, least = {}, {}
        for site, sums in self._layout.split(total).items():
            count = float(sums[-1])
            if count:
                heads = (sums[:-1] / count).tolist()
                means[site], least[site] = sum(heads) / len(heads), min(heads)
        for form, found in (("", means), ("least head", least)):
            if found:
                yield Column(q.ATTENTION_ENTROPY, [*found], [*found.values()], 1e-4, form)

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
        # which share of its heads a module has in this process, of how many (tensor parallelism);
        # while it runs, weights that are sharded for memory only are whole
        kind, weights = sharded_kind(), self._inner.get(site, self._model).parameters()
        held: list[Any] = [p for p in weights if kind is not None and isinstance(p, kind)]
        cuts = (
            (p.device_mesh, d) for p in held for d, how in enumerate(p.placements) if is_cut(how)
        )
        mesh, dim = next(cuts, (None, 0))
        place, parts = (0, 1) if mesh is None else (mesh.get_local_rank(dim), mesh.size(dim))
        heads = sums.new_zeros(parts, len(sums))
        heads[place] = sums
        count = known[:, :1].sum().double()[None] / parts
        both = torch.cat([heads.flatten(), count])
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
        if torch.compiler.is_compiling():
            return out
        if func in ENTROPIES and _inside():
            start = self._probe.clock()
            try:
                with torch.no_grad():
                    mine = [_mine(value) for value in (out, *args)]
                    more = {name: _mine(value) for name, value in kwargs.items()}
                    entropy = ENTROPIES[func](*mine, **more)
                if entropy is not None:
                    self._probe.hear(entropy)
            except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
                self._probe.failed(error)
            self._probe.spent(self._probe.clock() - start)
        return out


def _inside() -> bool:
    """Whether this is the first run of what a pass of training calls, with gradients or not."""
    return not (torch.compiler.is_compiling() or in_backward() or transformed())


def _mine(value: Any) -> Any:
    return entries(value) if isinstance(value, Tensor) else value


class _Border:
    """A hook where one module's pass begins or ends; in copies and in files it does nothing."""

    def __init__(
        self, probe: Attention, tell: Callable[[str], None], name: str, module: nn.Module
    ) -> None:
        self._probe, self._tell, self._name, self._module = probe, tell, name, module

    def __call__(self, module: nn.Module, *_: Any) -> None:
        if torch.compiler.is_compiling():
            self._probe.compiled = True
        elif module is self._module and (
            _inside() if self._probe.inside else hears(by=self._probe)
        ):
            self._tell(self._name)

    def __deepcopy__(self, memo: Any) -> Any:
        return silent()

    def __reduce__(self) -> Any:
        return made_silent()
