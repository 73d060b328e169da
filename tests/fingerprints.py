"""Everything that can be told of a model, its inputs and the process, to compare before and after.

Written without the package's own walk (`models.state`), so that neither hides what the other
forgets.
"""

import random
import threading
from collections import deque
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn
from torch.nn.modules import module as every_module

SETTINGS = (
    torch.backends.mha.get_fastpath_enabled,
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.get_default_dtype,
    torch.get_default_device,
    torch.get_float32_matmul_precision,
    torch.get_num_threads,
    torch.is_anomaly_enabled,
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    torch.backends.cuda.flash_sdp_enabled,
    torch.backends.cuda.math_sdp_enabled,
    torch.backends.cuda.mem_efficient_sdp_enabled,
    torch._C._len_torch_function_stack,
    torch._C._len_torch_dispatch_stack,
    np.geterr,
)


def process():
    """Settings, random states and hooks of the whole process."""
    hooks = {k: list(v) for k, v in vars(every_module).items() if k.startswith("_global_") and v}
    found = {f.__name__: f() for f in SETTINGS}
    for kind in ("cpu", "cuda"):
        found[f"autocast {kind}"] = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    for name in ("enabled", "benchmark", "deterministic", "allow_tf32"):
        found[f"cudnn {name}"] = getattr(torch.backends.cudnn, name)
    found["torch state"] = torch.get_rng_state().numpy().tobytes()
    found["numpy state"] = repr(np.random.get_state(legacy=False))
    found["python state"] = random.getstate()
    found["hooks of all"] = str({k: len(v) for k, v in hooks.items()})
    return found


class Print:
    """A flat mapping from places to what is there; tensors as bytes, objects by identity."""

    def __init__(self):
        self.found = {}
        self.seen = {}

    def see(self, place, one):
        """Note a value and all that it holds."""
        if one is None or isinstance(one, bool | int | float | complex | str | bytes):
            self.found[place] = (type(one).__name__, repr(one))
            return
        self.found[place] = (type(one).__name__, id(one))
        if id(one) in self.seen:
            return
        self.seen[id(one)] = one
        if isinstance(one, torch.Tensor):
            self._tensor(place, one)
        elif isinstance(one, nn.Module):
            self._module(place, one)
        elif isinstance(one, Mapping):
            self.found[f"{place} keys"] = [repr(k) for k in one]
            for key, value in one.items():
                self.see(f"{place}[{key!r}]", value)
        elif isinstance(one, list | tuple | deque):
            self.found[f"{place} length"] = len(one)
            for number, value in enumerate(one):
                self.see(f"{place}[{number}]", value)
        elif isinstance(one, set | frozenset):
            self.found[f"{place} members"] = sorted(map(repr, one))
        elif isinstance(one, np.ndarray):
            self.found[f"{place} bytes"] = one.tobytes()
        else:
            self._object(place, one)

    def _tensor(self, place, t):
        strided = t.layout == torch.strided
        self.found[f"{place} form"] = (
            str(t.dtype), tuple(t.shape), str(t.device), t.requires_grad, t.is_leaf,
            (t.stride(), t.data_ptr()) if strided else None,
        )  # fmt: skip
        self.found[f"{place} values"] = _bytes(t)
        self.see(f"{place} attributes", vars(t))
        self.found[f"{place} hooks"] = [*(t._backward_hooks or ())]
        if t.is_leaf:
            self.see(f"{place} grad", t.grad)

    def _module(self, place, module):
        for name, value in vars(module).items():
            self.see(f"{place}.{name}", value)
        self.found[f"{place} attributes"] = [*vars(module)]
        for base in type(module).__mro__:
            if base.__module__.partition(".")[0] not in ("torch", "builtins", "transformers"):
                for name, value in vars(base).items():
                    if not callable(value) and not name.startswith("__"):
                        self.see(f"{base.__name__}.{name}", value)

    def _object(self, place, one):
        if isinstance(one, torch.Generator):
            self.found[f"{place} state"] = one.get_state().numpy().tobytes()
        elif isinstance(one, random.Random):
            self.found[f"{place} state"] = one.getstate()
        elif isinstance(one, np.random.Generator):
            self.found[f"{place} state"] = repr(one.bit_generator.state)
        elif type(one).__module__ in ("models_zoo", "odd_zoo") or isinstance(
            one, torch.optim.Optimizer | threading.local
        ):
            slots = getattr(type(one), "__slots__", ())
            held = {k: getattr(one, k) for k in slots if hasattr(one, k)}
            held |= getattr(one, "__dict__", {})
            self.found[f"{place} attributes"] = [*held]
            for name, value in held.items():
                self.see(f"{place}.{name}", value)


def _bytes(t):
    t = t.detach()
    if t.layout != torch.strided:
        t = t.to_dense()
    if t.is_complex():
        t = torch.view_as_real(t)
    return (
        t.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
    )


def fingerprint(**things):
    """Of a model, its inputs and what else is given by name."""
    found = Print()
    for name, one in things.items():
        found.see(name, one)
    return found


def differences(before, after):
    """Places where two fingerprints are not the same, in words."""
    places = dict.fromkeys((*before.found, *after.found))
    return [p for p in places if before.found.get(p) != after.found.get(p)]
