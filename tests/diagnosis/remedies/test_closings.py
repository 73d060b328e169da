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
from tests.models_zoo import Net

X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))


def named(last=None):
    run = lambda self, x: self.last(self.head(self.body(x)))
    body = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    return Net(run, body=body, head=nn.Linear(3, 2), last=last or nn.Identity())


def sequential(*last):
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), *last)


@pytest.mark.parametrize("make", [sequential, named])
@pytest.mark.parametrize("last", [nn.Softmax(-1), nn.Tanh(), nn.ReLU()])
def test_the_old_end_is_replaced(make, last):
    torch.manual_seed(0)
    model = make(last)
    before = model(X)
    for name, end in (("end-in-sigmoid", torch.sigmoid), ("end-in-linear", lambda z: z)):
        fresh = remedy(name).apply(model, X)
        bare = model.head(model.body(X)) if make is named else model[:3](X)
        assert torch.allclose(fresh(X), end(bare))
        assert fresh.state_dict().keys() == model.state_dict().keys()  # it loads in the old code
    assert torch.equal(model(X), before)


@pytest.mark.parametrize("make", [sequential, named])
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
    written = Net(lambda self, x: self.head(x).softmax(-1), head=nn.Linear(4, 2))
    with pytest.raises(Inapplicable, match="written in `forward`"):
        remedy("end-in-sigmoid").apply(written, X)


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
        ("standardise-targets", None, 1, F.mse_loss, "unscaled-targets"),
    ],
)
def test_what_they_claim_is_cured(name, last, outputs, loss, cause):
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    classes = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    targets = classes if outputs == 3 else (classes > 0).float()[:, None]
    targets = 50 + x[:, :1] if loss is F.mse_loss else targets
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, outputs))
    model = model if last is None else model.append(last)
    tried = diagnosis.treat(model, x, remedy(name), targets=targets, loss=loss, budget=1e-3)
    assert cause in {f.name for f in tried.found_before}
    assert cause in tried.cured
    assert loss is F.mse_loss or not {f.name for f in tried.found_after if f.severity != "note"}


@pytest.mark.parametrize("kind", [EndInLinear, EndInSigmoid])
def test_a_softmax_that_attention_uses_too_is_left_alone(kind):
    mixed = lambda self, x: self.softmax(self.keys(x) @ x.mT) @ x
    run = lambda self, x: self.softmax(self.last(mixed(self, x).mean(1)))
    attends = Net(run, keys=nn.Linear(4, 4), last=nn.Linear(4, 3), softmax=nn.Softmax(-1))
    with pytest.raises(Inapplicable, match="`softmax` makes the output and is called 2 times"):
        kind().apply(attends, torch.randn(6, 5, 4))
