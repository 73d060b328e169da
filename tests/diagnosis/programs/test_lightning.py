"""Programs of Lightning: what a step compares is taken out of it, or it is said that it was not."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import sigmascope as ss
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.programs import program_of
from tests.fingerprints import differences, fingerprint

G = torch.Generator().manual_seed(0)
X = torch.randn(64, 3, generator=G)
IDS = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()
LOADER = DataLoader(TensorDataset(X, IDS), batch_size=8)


def smoothed(z, y):
    return F.cross_entropy(z, y, label_smoothing=0.3)


@pytest.fixture
def module():
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self, step, attribute=None):
            super().__init__()
            torch.manual_seed(0)
            self.net, self.step = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3)), step
            if attribute is not None:
                self.criterion = attribute

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, _):
            return self.step(self, *batch)

        def configure_optimizers(self):
            by = torch.optim.AdamW(self.parameters(), lr=0.02)
            return {"optimizer": by, "lr_scheduler": None}

    return Module


def data(loader=LOADER):
    return SimpleNamespace(setup=lambda stage: None, train_dataloader=lambda: loader)


def logged(m, x, y):
    value = smoothed(m(x), y)
    m.log("loss", value)
    return {"loss": value, "more": 1}


READ = {
    "as it is": lambda m, x, y: smoothed(m(x), y),
    "in a mapping": logged,
    "of inputs in another shape": lambda m, x, y: smoothed(m(x.flatten(1)), y),
}


@pytest.mark.parametrize("how", READ)
def test_the_loss_of_a_step_is_read(module, how):
    mine = module(READ[how], attribute=nn.CrossEntropyLoss())  # which is not what the step takes
    before = fingerprint(model=mine)
    program = program_of((mine, data()))
    z, y = torch.randn(5, 3, generator=G), IDS[:5]
    assert program.unread == ""
    assert program.loss(z, y).item() == pytest.approx(smoothed(z, y).item())
    assert program.loss.__name__ == "training_step"
    assert not differences(before, fingerprint(model=mine))
    assert program.recipe().says() == "adamw at 0.02"
    many = torch.randn(200, 3, generator=G)  # more than a batch has
    assert program.loss(many, IDS.repeat(4)[:200]).isfinite()


UNREAD = {
    "past the module": (lambda m, x, y: smoothed(m.net(x), y), "calls the module 0 times"),
    "twice": (lambda m, x, y: smoothed(m(x), y) + m(2 * x).square().mean(), "2 times"),
    "of inputs too": (lambda m, x, y: smoothed(m(x), y) + x[0].square().sum(), "depends on more"),
    "of random targets": (lambda m, x, y: F.mse_loss(m(x), torch.rand(8, 3)), "depends on more"),
    "with a trainer": (lambda m, x, y: m.trainer.missing, "without a trainer"),
}


@pytest.mark.parametrize("how", UNREAD)
def test_what_was_not_read_is_said(module, how):
    step, why = UNREAD[how]
    program = program_of((module(step), data()))
    assert why in program.unread
    assert program.loss is None
    own = nn.CrossEntropyLoss()
    assert program_of((module(step, attribute=own), data())).loss is own


def test_what_was_not_read_is_listed_in_the_diagnosis(module):
    seen = ss.diagnose((module(UNREAD["past the module"][0]), data()))
    (gap,) = [s for s in seen.profile.skipped if s.site == "(loss)"]
    assert "training_step" in gap.why
    assert "one that fits the targets" in gap.why


def test_a_softmax_in_the_step_is_found(module):
    twice = lambda m, x, y: F.cross_entropy(m(x).softmax(-1), y)
    names = [f.name for f in ss.diagnose((module(twice), data())).findings]
    assert "softmax-in-the-loss" in names


def test_without_an_optimizer_it_is_refused(module):
    class Without(module):
        def configure_optimizers(self):
            return []

    with pytest.raises(Refusal, match="must give an optimizer"):
        program_of((Without(READ["as it is"]), data()))
