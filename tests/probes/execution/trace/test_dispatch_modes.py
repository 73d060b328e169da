"""A mode sees every operation, and the compiler stays unloaded."""

import subprocess
import sys

import torch

from sigmascope.probes.execution.trace import DispatchMode

LOADED = """
import sys
import torch
from sigmascope.survey import profile
from sigmascope.networks import build
model = build("mlp?depth=2&width=4", inputs=(3,), outputs=2)
found = profile(model, torch.randn(8, 3), targets=torch.arange(8) % 2)
assert found.readings
print(*(m for m in ("torch._dynamo", "scipy.stats", "sklearn", "pandas") if m in sys.modules))
"""


class Counting(DispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_every_operation_is_seen_with_its_arguments():
    x = torch.ones(2, 2)
    with Counting() as mode:
        y = torch.add(x, x, alpha=2)
    assert mode.seen == ["aten.add.Tensor"]
    assert torch.equal(y, torch.full((2, 2), 3.0))


def test_a_function_compiled_before_is_still_passed_by():
    import torch._dynamo

    with Counting() as mode:
        torch.ones(2).add(1)
    assert "aten.add.Tensor" in mode.seen


def test_a_profile_loads_neither_the_compiler_nor_what_only_others_need():
    run = [sys.executable, "-c", LOADED]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == []
