import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.probes import OUTPUT, Subject
from sigmascope.theory.symmetry import symmetries_of


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.first, self.last = nn.Embedding(9, 4), nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, ids):
        return self.last(self.first(self.words(ids)).relu()).mean(1)


def test_what_layers_read_and_write_by_site():
    net, ids = Words(), torch.arange(10).view(2, 5) % 9
    subject = Subject(net, ids)
    with torch.no_grad():
        h = net.first(net.words(ids))
    assert list(subject.activations) == ["first", "last", OUTPUT]  # ids are no representation
    assert list(subject.preactivations) == ["words", "first", "last"]
    torch.testing.assert_close(subject.activations["last"].channels, h.relu().flatten(0, 1))
    torch.testing.assert_close(subject.preactivations["first"].samples, h.flatten(1))
    torch.testing.assert_close(subject.activations[OUTPUT].samples, net(ids).detach())
    assert subject.activations[OUTPUT].channels is None
    assert {w.site for w in subject.weights} == {"words.weight", "first.weight", "last.weight"}
    assert (subject.count, subject.output_rule) == (2, "the output tensor")


def test_spectra_are_of_what_is_finite():
    class Blows(nn.Sequential):
        def forward(self, x):
            return self[1](self[0](x) * 1e38 * 1e38)

    subject = Subject(Blows(nn.Linear(3, 4), nn.Linear(4, 2)), drawn(5, 3))
    assert set(subject.spectra) == {("0", "samples")}
    sigma = torch.linalg.svdvals(drawn(5, 3).double())
    torch.testing.assert_close(subject.spectra["0", "samples"].raw.sigma, sigma)


def test_targets_are_the_subjects_own():
    y = torch.zeros(5, 2)

    def spoils(out, targets):
        return targets.sub_(out).square().mean()

    subject = Subject(nn.Linear(3, 2), drawn(5, 3), y, spoils)
    assert subject.calls
    assert not y.any()


def test_a_wrapped_model_is_measured_itself():
    inner = nn.Linear(3, 2)

    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self._orig_mod = inner

    assert Subject(Wrapper(), drawn(5, 3)).model is inner


def test_refusals_of_what_is_asked(as_users_see_it):
    with pytest.raises(Refusal, match="`outputs` must be 1 or more, got 0"):
        Subject(nn.Linear(3, 2), drawn(5, 3), outputs=0)
    with pytest.raises(Refusal, match=r"must have a layer .* got PReLU with none"):
        _ = Subject(nn.PReLU(), drawn(5, 3)).modules
    with pytest.raises(Refusal, match="`targets` must be finite, got 1 of 5"):
        Subject(nn.Linear(3, 2), drawn(5, 3), torch.tensor([0, 1, 0, 0, float("nan")]))


def test_samples_may_lie_along_another_dimension():
    net = nn.RNN(3, 4)
    subject = Subject(net, drawn(7, 5, 3), batch_dim=1)
    assert subject.count == 5
    assert subject.activations[""].samples.shape == (5, 21)
    assert subject.preactivations[""].channels.shape == (35, 4)


def test_a_plain_stack_is_told_from_what_is_none():
    x = drawn(5, 3)
    net = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.25), nn.Linear(4, 2))
    assert Subject(net, x).stack.slope == 0.25
    assert (
        "neither a linear layer nor a convolution"
        in Subject(Words(), torch.ones(2, 5).long()).stack
    )
    subject = Subject(net, x, drawn(5, 2), F.mse_loss)
    assert [s.units for s in symmetries_of(subject).scalings] == [4]
