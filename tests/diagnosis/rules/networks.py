"""What is found in small networks on digits."""

import torch
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.core import quantities
from sigmascope.diagnosis import judge
from sigmascope.models import networks


def found(model, data, views=quantities.ALL):
    measured = survey.profile(
        model, data.inputs, targets=data.targets, loss=F.cross_entropy, views=views
    )
    return {f.name: f for f in judge(measured)}


def mlp(depth=3, seed=0, width=64, **options):
    g = torch.Generator().manual_seed(seed)
    return networks.mlp(inputs=64, outputs=10, depth=depth, width=width, generator=g, **options)
