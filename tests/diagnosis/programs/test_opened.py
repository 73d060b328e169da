"""A program's samples, targets and loss."""

import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.diagnosis.programs import Program, fitting_loss
from sigmascope.diagnosis.programs.opened import opened

X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(11, 4), nn.Linear(4, 11)

    def forward(self, input_ids, attention_mask=None):
        return self.head(self.words(input_ids))


IDS = torch.randint(11, (6, 5), generator=torch.Generator().manual_seed(1))


def test_samples_are_taken_and_the_loss_fits_them():
    known = opened(Program(nn.Linear(3, 4), (X, torch.arange(20) % 4)), samples=8)
    assert (len(known.batch), known.size, known.unfit) == (8, 20, "")
    assert known.loss is fitting_loss
    assert set(known.task) == {"targets", "loss", "batch_dim"}


def test_language_models_get_the_next_tokens():
    for data in (IDS, {"input_ids": IDS, "labels": IDS.clone()}):
        known = opened(Program(Language(), data), samples=8)
        assert torch.equal(known.targets[:, :-1], IDS[:, 1:])
        assert bool((known.targets[:, -1] == -100).all())
    masked = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}
    masked["attention_mask"][:, 3:] = 0
    known = opened(Program(Language(), masked), samples=8)
    assert int((known.targets != -100).sum()) == 6 * 2


def test_targets_that_a_user_gives_are_taken_as_they_are():
    known = opened(Program(Language(), (IDS, IDS)), samples=8)
    assert torch.equal(known.targets, IDS)  # which a rule may have a word on


def test_why_targets_do_not_fit():
    known = opened(Program(nn.Linear(3, 4), (X, torch.arange(20)), F.cross_entropy), samples=20)
    assert "classes from 0 to 3" in known.unfit
    assert set(known.task) == {"batch_dim"}
    known = opened(Program(nn.Linear(3, 1), (X, X[:, 0]), F.mse_loss), samples=20)
    assert "broadcast" in known.unfit
