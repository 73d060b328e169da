"""Small trainings that a callback watches."""

import pickle

import torch
from torch import nn

from sigmascope.core.store import Run
from sigmascope.watching import LOSS, MEANS


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))


def data(samples=24):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 6, generator=generator)
    return torch.utils.data.TensorDataset(x, x[:, :3].argmax(1))


def same(one, other):
    """Whether two states are the same bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def state(model):
    return {k: v.clone() for k, v in model.state_dict().items()}


def losses(path):
    """The loss by step, the last row of each, as the file says."""
    with Run(path, write=False) as run:
        return {
            r.step: r.record.estimate.value
            for r in run.readings()
            if r.site == LOSS and r.quantity == "loss" and r.record.form != MEANS
        }


def stopped():
    """A clock for `Watch`: nothing takes time, so that every step is looked at and filed."""
    return 0.0


def hooks(model):
    """How many hooks there are, on any layer."""
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def require_picklable(thing):
    pickle.loads(pickle.dumps(thing))


class Failing:
    """A sink that is broken."""

    def write(self, look):
        raise ValueError("no such server")

    def close(self):
        raise ValueError("no such server either")
