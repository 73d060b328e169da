"""Small checkpoints that hold one of everything."""

import torch
from safetensors.torch import save_file


def _small():
    draw = torch.Generator().manual_seed(3)
    random = lambda *shape: torch.randn(*shape, generator=draw)
    same = random(20, 16)
    return {
        "layers.0.mlp.up_proj.weight": random(24, 16),
        "layers.0.mlp.down_proj.weight": random(16, 24).bfloat16(),
        "layers.1.mlp.up_proj.weight": same,
        "layers.2.mlp.up_proj.weight": same.clone(),
        "layers.1.self_attn.v_proj.weight": random(16, 16),
        "layers.1.self_attn.o_proj.weight": random(16, 16),
        "zero.weight": torch.zeros(9, 9),
        "nan.weight": torch.full((9, 9), float("nan")),
        "norm.bias": random(5),
    }


SMALL = _small()


def stored(folder, state=None, name="small.safetensors"):
    file = folder / name
    save_file(SMALL if state is None else state, file)
    return str(file)


def numbers(found):
    """Everything of a scan that must not depend on how it was done."""
    return (
        found.readings,
        found.skipped,
        [(s.site, s.spectrum.sigma.tolist(), s.spectrum.low.tolist()) for s in found.spectra],
    )
