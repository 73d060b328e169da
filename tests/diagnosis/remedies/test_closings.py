"""Another last operation, set where the old one was."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis
from sigmascope.diagnosis.remedies import Inapplicable, remedy
from sigmascope.diagnosis.remedies.closings import (
    EndInLinear,
    EndInSigmoid,
    StandardiseTargets,
    closing_site,
)

X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))


class Named(nn.Module):
    def __init__(self, last=None):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        self.head = nn.Linear(3, 2)
        self.last = last or nn.Identity()

    def forward(self, x):
        return self.last(self.head(self.body(x)))


def sequential(*last):
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), *last)


@pytest.mark.parametrize("make", [sequential, Named])
@pytest.mark.parametrize("last", [nn.Softmax(-1), nn.Tanh(), nn.ReLU()])
def test_the_old_end_is_replaced(make, last):
    torch.manual_seed(0)
    model = make(last)
    before = model(X)
    for name, end in (("end-in-sigmoid", torch.sigmoid), ("end-in-linear", lambda z: z)):
        fresh = remedy(name).apply(model, X)
        bare = model.head(model.body(X)) if make is Named else model[:3](X)
        assert torch.allclose(fresh(X), end(bare))
        assert fresh.state_dict().keys() == model.state_dict().keys()  # it loads in the old code
    assert torch.equal(model(X), before)


@pytest.mark.parametrize("make", [sequential, Named])
def test_an_end_is_put_behind(make):
    torch.manual_seed(0)
    model = make()
    assert torch.allclose(remedy("end-in-softmax").apply(model, X)(X), model(X).softmax(-1))


@pytest.mark.parametrize(
    ("model", "name", "why"),
    [
        (sequential(nn.Sigmoid()), "end-in-sigmoid", "already"),
        (sequential(), "end-in-linear", "already"),
        (nn.Sequential(nn.Linear(4, 1)), "end-in-softmax", "two outputs"),
    ],
)
def test_what_would_change_nothing_is_declined(model, name, why):
    with pytest.raises(Inapplicable, match=why):
        remedy(name).apply(model, X)


def test_what_is_written_in_forward_is_left_to_the_user():
    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 2)

        def forward(self, x):
            return self.head(x).softmax(-1)

    with pytest.raises(Inapplicable, match="written in `forward`"):
        remedy("end-in-sigmoid").apply(Written(), X)


def test_which_module_closes():
    assert closing_site(sequential(nn.Tanh()), X) == "3"
    assert closing_site(sequential(nn.Tanh(), nn.Dropout(0.5), nn.Flatten()), X) == "3"
    assert closing_site(sequential(), X) == ""
    assert closing_site(sequential(nn.Tanh(), nn.Linear(2, 2)), X) == ""


def test_targets_are_brought_to_unit_scale():
    torch.manual_seed(0)
    model, y = sequential(), 1000 + 50 * torch.randn(12, 2)
    fresh = StandardiseTargets(y).apply(model, X)
    mean, spread = y.mean(0), (y - y.mean(0)).square().mean(0).sqrt()
    assert torch.allclose(fresh(X), model(X) * spread + mean, rtol=1e-5)
    with pytest.raises(Inapplicable, match="targets that are values"):
        remedy("standardise-targets").apply(model, X)
    with pytest.raises(Inapplicable, match="ends in"):
        StandardiseTargets(y).apply(sequential(nn.Tanh()), X)


def lost(p, y):
    return -(F.one_hot(y, 3) * (p / p.sum(-1, keepdim=True)).clamp(1e-7, 1).log()).sum(-1).mean()


@pytest.mark.parametrize(
    ("name", "last", "outputs", "loss", "cause"),
    [
        ("end-in-linear", nn.Softmax(-1), 3, F.cross_entropy, "double-softmax"),
        ("end-in-sigmoid", nn.Softmax(-1), 1, F.binary_cross_entropy, "constant-output"),
        ("end-in-softmax", None, 3, lost, "raw-output"),
    ],
)
def test_what_they_claim_is_cured(name, last, outputs, loss, cause):
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    classes = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    targets = classes if outputs == 3 else (classes > 0).float()[:, None]
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, outputs))
    model = model if last is None else model.append(last)
    tried = diagnosis.treat(model, x, remedy(name), targets=targets, loss=loss, budget=1e-3)
    assert cause in {f.name for f in tried.found_before}
    assert cause in tried.cured
    assert not {f.name for f in tried.found_after if f.severity != "note"}


def test_targets_of_another_scale_are_no_longer_loud():
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    y = 50 + x[:, :1]
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    fresh = StandardiseTargets(y)
    tried = diagnosis.treat(model, x, fresh, targets=y, loss=F.mse_loss, budget=1e-3)
    assert "unscaled-targets" in {f.name for f in tried.found_before}
    assert "unscaled-targets" in tried.cured


@pytest.mark.parametrize("kind", [EndInLinear, EndInSigmoid])
def test_a_softmax_that_attention_uses_too_is_left_alone(kind):
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys, self.last, self.softmax = nn.Linear(4, 4), nn.Linear(4, 3), nn.Softmax(-1)

        def forward(self, x):
            mixed = self.softmax(self.keys(x) @ x.mT) @ x
            return self.softmax(self.last(mixed.mean(1)))

    with pytest.raises(Inapplicable, match="`softmax` makes the output and is called 2 times"):
        kind().apply(Attends(), torch.randn(6, 5, 4))
