"""Deep networks on digits, and what remedies make of them."""

import torch
from torch.nn import functional as F

from sigmascope.diagnosis import treat
from sigmascope.models import networks


def network(depth=16, width=64, seed=0, **options):
    g = torch.Generator().manual_seed(seed)
    return networks.mlp(inputs=64, outputs=10, depth=depth, width=width, generator=g, **options)


def treated(model, data, remedy):
    """Before and after, measured; neither is trained, which `test_treatments.py` looks at."""
    task = {"targets": data.targets, "loss": F.cross_entropy, "budget": 1e-3}
    return treat(model, data.inputs, remedy, **task)
