"""Checkpoints of any size with faults that are known, in shards, written a tensor at a time."""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

SIDE, WIDE = 2048, 8192  # as in a model of a billion parameters
LAYER = {
    "self_attn.q_proj": (SIDE, SIDE),
    "self_attn.o_proj": (SIDE, SIDE),
    "mlp.gate_proj": (WIDE, SIDE),
    "mlp.up_proj": (WIDE, SIDE),
    "mlp.down_proj": (SIDE, WIDE),
}
SPIKES = 12  # planted in every matrix
LAYER_BYTES = 2 * sum(m * n for m, n in LAYER.values())


def drawn(m: int, n: int, generator: torch.Generator, spikes: int = SPIKES) -> Tensor:
    """Noise with a few directions above it, the weakest 1.6 times its edge."""
    A = 0.02 * torch.randn(m, n, generator=generator)
    edge = 0.02 * (m**0.5 + n**0.5)
    for i in range(spikes):
        u, v = torch.randn(m, generator=generator), torch.randn(n, generator=generator)
        A += (1.6 + 0.4 * i) * edge * (u / u.norm())[:, None] * (v / v.norm())
    return A.bfloat16()


def written(folder: Path, *, layers: int, shards: int, faults: bool, seed: int = 0) -> dict:
    """Write a checkpoint of so many layers; what was planted, by name of the finding.

    Args:
        folder: Where.
        layers: Transformer layers of 117 MB in bfloat16.
        shards: Files.
        faults: Whether some matrices are broken.
        seed: Of the numbers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    planted: dict[str, list[str]] = {}
    index: dict[str, str] = {}
    names = [
        (i, f"model.layers.{i}.{part}.weight", shape)
        for i in range(layers)
        for part, shape in LAYER.items()
    ]
    per = -(-len(names) // shards)
    copied: Tensor | None = None
    for shard in range(shards):
        tensors: dict[str, Tensor] = {}
        for i, name, shape in names[shard * per : (shard + 1) * per]:
            A = drawn(*shape, generator)
            for fault in _faults(i, name, layers) if faults else ():
                planted.setdefault(fault, []).append(name)
                A = _broken(fault, A, copied, generator)
            if name == "model.layers.1.self_attn.q_proj.weight":
                copied = A.clone()
            tensors[name] = A
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        index |= dict.fromkeys(tensors, file)
        save_file(tensors, folder / file)
    text = json.dumps({"metadata": {}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    (folder / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    return planted


def _faults(i: int, name: str, layers: int) -> Iterator[str]:
    at = {
        "copied-weights": (layers - 1, "q_proj"),
        "outlier-rows": (2 % layers, "up_proj"),
        "non-finite-weights": (3 % layers, "o_proj"),
        "zero-matrix": (4 % layers, "o_proj"),
        "noise-only": (5 % layers, "o_proj"),
        "exploding-weights": (6 % layers, "down_proj"),
        "low-rank": (7 % layers, "q_proj"),
        "dead-rows": (8 % layers, "gate_proj"),
    }
    yield from (fault for fault, (layer, part) in at.items() if layer == i and f".{part}." in name)


def _broken(fault: str, A: Tensor, copied: Tensor | None, generator: torch.Generator) -> Tensor:
    m, n = A.shape
    if fault == "copied-weights" and copied is not None:
        return copied.clone()
    if fault == "outlier-rows":  # a block of 128 by 128 multiplied by a wrong scale
        A[256:384, 256:384] *= 1000
    elif fault == "non-finite-weights":
        A[5, 7] = float("nan")
    elif fault == "zero-matrix":
        A.zero_()
    elif fault == "noise-only":
        return drawn(m, n, generator, spikes=0)
    elif fault == "exploding-weights":
        A *= 30
    elif fault == "low-rank":
        left, right = (
            torch.randn(m, 64, generator=generator),
            torch.randn(64, n, generator=generator),
        )
        return (0.01 * left @ right).bfloat16()
    elif fault == "dead-rows":
        A[: m // 4] = 0
    return A
