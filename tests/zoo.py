"""Hostile matrices for every room's tests: each has broken an implementation somewhere."""

import torch
from torch import Tensor


def _random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * shape[0] + shape[-1] + seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def _orthogonal(n: int) -> Tensor:
    return torch.linalg.qr(_random(n, n, seed=7))[0]


def _graded(n: int, decades: float) -> Tensor:
    values = torch.logspace(0, -decades, n, dtype=torch.float64)
    return _orthogonal(n) @ torch.diag(values) @ _orthogonal(n).mT


MATRICES: dict[str, Tensor] = {
    "one by one": torch.tensor([[-2.0]]),
    "zero": torch.zeros(5, 3),
    "zero one by one": torch.zeros(1, 1),
    "row": _random(1, 9),
    "column": _random(9, 1, dtype=torch.float32),
    "indefinite": torch.diag(torch.tensor([-10.0, 1.0, 2.0, 3.0])),
    "wide": _random(3, 40, dtype=torch.float32),
    "tall": _random(40, 3, dtype=torch.float32),
    "square": _random(30, 30, dtype=torch.float32),
    "rank one": _random(30, 1) @ _random(1, 20),
    "rank one in float32": (_random(30, 1) @ _random(1, 20)).float(),
    "constant": torch.full((600, 12), 0.1),
    "identity": torch.eye(16),
    "orthogonal": _orthogonal(24),
    "nilpotent": torch.diag(torch.ones(11), 1),
    "clustered": torch.diag(torch.linspace(1, 1 + 1e-6, 30, dtype=torch.float64)),
    "two clusters": torch.diag(torch.tensor([1.0] * 8 + [1e-3] * 8)),
    "nearly singular": _graded(16, 12),
    "graded over 30 decades": _graded(31, 30),
    "graded columns": _random(20, 31) * torch.logspace(0, -30, 31, dtype=torch.float64),
    "graded diagonal": torch.diag(torch.logspace(0, -30, 31)),
    "tiny": 1e-20 * _random(8, 8, dtype=torch.float32),
    "huge": 1e20 * _random(8, 8, dtype=torch.float32),
    "float64 at 1e-200": 1e-200 * _random(12, 7),
    "float64 at 1e200": 1e200 * _random(7, 12),
    "float64 over 400 decades": torch.diag(torch.tensor([1e200, 1.0, 1e-200], dtype=torch.float64)),
    "subnormal": 1e-310 * torch.ones(3, 2, dtype=torch.float64),
    "large mean": 1e4 + _random(50, 10, dtype=torch.float32),
    "duplicated rows": _random(6, 10).repeat(4, 1),
    "duplicated columns": _random(40, 3, dtype=torch.float32).repeat(1, 5),
    "dead columns": _random(40, 12, dtype=torch.float32) * (torch.arange(12) % 3 > 0),
    "integers": torch.arange(20.0).reshape(4, 5),
    "float16": _random(20, 30, dtype=torch.float16),
    "bfloat16": _random(30, 20, dtype=torch.bfloat16),
    "not contiguous": _random(30, 40, dtype=torch.float32)[::2, ::3].mT,
}

SYMMETRIC: dict[str, Tensor] = {
    "one by one": torch.tensor([[-2.0]]),
    "zero": torch.zeros(4, 4),
    "identity": torch.eye(12),
    "minus identity": -torch.eye(5, dtype=torch.float64),
    "swap": torch.tensor([[0.0, 1.0], [1.0, 0.0]]),  # no pivot of size 1 exists
    "swaps": torch.block_diag(*[torch.tensor([[0.0, 2.0], [2.0, 0.0]])] * 5),
    "indefinite": torch.diag(torch.tensor([-10.0, 1.0, 2.0, 3.0])),
    "random": _random(30, 30) + _random(30, 30).mT,
    "hollow": (_random(21, 21) + _random(21, 21).mT) * (1 - torch.eye(21)),
    "gram": _random(40, 15).mT @ _random(40, 15) / 40,
    "gram of few samples": _random(15, 40, dtype=torch.float32).mT
    @ _random(15, 40, dtype=torch.float32),
    "rank one": torch.ones(9, 9),
    "tiny": 1e-20 * (_random(8, 8) + _random(8, 8).mT),
    "huge": 1e200 * (_random(8, 8) + _random(8, 8).mT),
    "graded": torch.diag(torch.logspace(0, -30, 31, dtype=torch.float64)),
}

NOT_FINITE: dict[str, Tensor] = {
    "nan": torch.tensor([[1.0, 2.0], [float("nan"), 4.0]]),
    "inf": torch.tensor([[1.0, 2.0], [float("inf"), 4.0]]),
    "minus inf": torch.tensor([[1.0, 2.0], [-float("inf"), 4.0]], dtype=torch.float64),
    "half nan": torch.tensor([[1.0, 2.0], [float("nan"), 4.0]], dtype=torch.bfloat16),
}


def fresh(seed: int = 0) -> torch.Generator:
    """A fresh generator, for the doors that draw."""
    return torch.Generator().manual_seed(seed)
