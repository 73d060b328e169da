"""A causal model does not change at earlier places when later ones do; others do."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.probes import Subject
from sigmascope.probes.sequences import later_inputs

N, T, V, D = 6, 9, 12, 16


class Attends(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.read, self.qkv = nn.Embedding(V, D), nn.Linear(D, 3 * D)
        self.write, self.causal = nn.Linear(D, V), causal

    def forward(self, ids):
        q, k, v = self.qkv(self.read(ids)).chunk(3, -1)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.write(seen)


class Recurs(nn.Module):
    def __init__(self, both):
        super().__init__()
        self.read = nn.Embedding(V, D)
        self.cell = nn.GRU(D, D, batch_first=True, bidirectional=both)
        self.write = nn.Linear(D * (1 + both), V)

    def forward(self, ids):
        return self.write(self.cell(self.read(ids))[0])


class Convolves(nn.Module):
    def __init__(self, left):
        super().__init__()
        self.read, self.conv = nn.Embedding(V, D), nn.Conv1d(D, V, 3)
        self.pad = (2, 0) if left else (1, 1)

    def forward(self, ids):
        return self.conv(F.pad(self.read(ids).mT, self.pad)).mT


class Averages(nn.Module):
    """Instance normalisation over places, which sees them all."""

    def __init__(self):
        super().__init__()
        self.read, self.norm, self.write = nn.Embedding(V, D), nn.InstanceNorm1d(D), nn.Linear(D, V)

    def forward(self, ids):
        return self.write(self.norm(self.read(ids).mT).mT)


CAUSAL = {"attention": lambda: Attends(True), "recurrent": lambda: Recurs(False),
          "convolution": lambda: Convolves(True)}  # fmt: skip
SEEING = {"attention": lambda: Attends(False), "recurrent": lambda: Recurs(True),
          "convolution": lambda: Convolves(False), "statistics": Averages}  # fmt: skip


def measured(make, batch=None, name=""):
    torch.manual_seed(0)
    model, x = make(), torch.randint(V, (N, T))
    subject = Subject(model, x if batch is None else batch(x))
    return later_inputs(subject.scene, subject.output, name=name)


PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])


@PRECISIONS
@pytest.mark.parametrize("kind", CAUSAL)
def test_causal_models_do_not_change(kind, dtype):
    assert measured(lambda: CAUSAL[kind]().to(dtype)) == 0.0


@PRECISIONS
@pytest.mark.parametrize("kind", SEEING)
def test_models_that_see_what_is_later_do(kind, dtype):
    found = measured(lambda: SEEING[kind]().to(dtype))
    assert found is not None
    assert found > 1e-2


def test_the_change_is_that_of_two_runs():
    torch.manual_seed(0)
    model, x = Attends(False), torch.randint(V, (N, T))
    other = torch.cat([x[:, : T // 2], x[:, T // 2 :].roll(1, 0)], 1)
    with torch.no_grad():
        a, b = (model(t)[:, : T // 2].double() for t in (x, other))
    expected = (a - b).square().mean().sqrt() / (a - a.mean(0)).square().mean().sqrt()
    subject = Subject(model, x)
    found = later_inputs(subject.scene, subject.output)
    assert found == pytest.approx(float(expected), rel=1e-5)


def test_one_input_is_changed_by_its_name():
    class Two(Attends):
        def forward(self, ids, other):
            return super().forward(ids) + self.write(self.read(other).mean(1, keepdim=True))

    batch = lambda x: {"ids": x, "other": x.flip(0)}
    assert measured(lambda: Two(True), batch, "ids") == 0.0
    assert measured(lambda: Two(True), batch, "other") > 1e-2
    assert measured(lambda: Two(True), lambda x: (x, x.flip(0)), "1") > 1e-2


def test_one_sample_and_one_place_tell_nothing():
    torch.manual_seed(0)
    model = Attends(False)
    for x in (torch.randint(V, (1, T)), torch.randint(V, (N, 1))):
        subject = Subject(model, x)
        assert later_inputs(subject.scene, subject.output) is None
