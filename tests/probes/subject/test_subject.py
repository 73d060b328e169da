"""What is asked of single samples, and why it may not be answered."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from sigmascope.theory.piecewise_affine import sample_affine


def drawn(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64)


class Twice(nn.Module):
    """One layer, used in a way that its calls do not tell."""

    def __init__(self, use):
        super().__init__()
        self.layer, self.use = nn.Linear(3, 3), use

    def forward(self, x):
        return self.use(self.layer, x)


def task(net, **more):
    return Subject(net.double(), drawn(5, 3), drawn(5, 3, seed=1), F.mse_loss, **more)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda f, x: f(f(x).tanh()), "the last layer `layer` is called more than once"),
        (lambda f, x: f(x @ f.weight), "`layer.weight`, of the last layer, is used outside of it"),
        (lambda f, x: f(x) - f(x).mean(0), "`gradients` must be asked of a model that treats"),
    ],
)
def test_gradients_of_single_samples_are_left_out_with_a_reason(use, says):
    subject = task(Twice(use))
    assert subject.gradients is None
    assert says in subject.unsplit


def test_gradients_need_targets_and_a_loss():
    for known in ({}, {"targets": drawn(5, 3)}, {"loss": F.mse_loss}):
        subject = Subject(nn.Linear(3, 3).double(), drawn(5, 3), **known)
        assert subject.gradients is None
        assert subject.unsplit == "no targets and loss were given"
    whole = task(nn.Linear(3, 3))
    assert whole.gradients.site == ""
    assert whole.unsplit == ""


def test_the_trace_of_the_kernel_is_that_of_its_blocks():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    subject = Subject(net, drawn(5, 3))
    blocks = subject.tangent_kernel().dense().diagonal().view(5, 2).sum(1)
    torch.testing.assert_close(subject.ntk_trace, blocks)
    layers = [subject.tangent_kernel(layers=[name]).dense() for name in ("0", "2")]
    torch.testing.assert_close(sum(layers), subject.tangent_kernel().dense())


@pytest.mark.parametrize("asked", ["ntk_trace", "jacobians", "conditioning", "adjoints"])
def test_what_mixes_samples_is_asked_nothing_of_single_ones(asked):
    subject = task(Twice(lambda f, x: f(x) - f(x).mean(0)))
    with pytest.raises(Refusal, match=f"`{asked}` must be asked of a model that treats every"):
        getattr(subject, asked)


def test_the_map_around_a_sample_needs_a_batch_of_one_tensor():
    net, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double(), drawn(5, 3)
    with pytest.raises(Refusal, match="got sample 0 of 5 in a tuple"):
        sample_affine(Subject(net, (x,)))
    with pytest.raises(Refusal, match="got sample -1 of 5 in a Tensor"):
        sample_affine(Subject(net, x), -1)
    found = sample_affine(Subject(net, x), 2, stop="0")
    assert torch.equal(found.matrix.dense(), net[0].weight)


def test_what_was_read_is_read_once():
    subject = task(nn.Linear(3, 3))
    assert subject.self_check is subject.self_check
    assert subject.gradients is subject.gradients
    assert subject.jacobians is subject.jacobians
