"""A program's samples, targets and loss."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from sigmascope.diagnosis.programs import Program, fitting_loss
from sigmascope.diagnosis.programs.opened import opened, unseen

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


class Pair(Language):
    """Reads one text and tells another."""

    def forward(self, input_ids, decoder_input_ids, decoder_attention_mask=None):
        return self.head(self.words(decoder_input_ids) + self.words(input_ids).mean(1, True))


class LanguageForMaskedLM(Language):
    """One that fills in what is hidden, by a name of Hugging Face's kind."""


class Own(Language):
    """A user's own of Hugging Face's base class, which says so unless it is told how."""

    def can_generate(self):
        return False


def test_where_no_next_token_is_told_none_is_asked_for():
    pair = {"input_ids": IDS, "decoder_input_ids": IDS.flip(0)}
    known = opened(Program(Pair(), pair), samples=8)
    assert torch.equal(known.targets[:, :-1], IDS.flip(0)[:, 1:])
    counts = (torch.arange(5) < 3).long().expand_as(IDS)
    known = opened(Program(Pair(), {**pair, "decoder_attention_mask": counts}), samples=8)
    assert int((known.targets != -100).sum()) == 6 * 2
    assert opened(Program(LanguageForMaskedLM(), IDS), samples=8).targets is None
    labelled = {"input_ids": IDS, "labels": IDS.clone()}
    assert torch.equal(opened(Program(LanguageForMaskedLM(), labelled), samples=8).targets, IDS)
    for data in (IDS, labelled):
        assert torch.equal(opened(Program(Own(), data), samples=8).targets[:, :-1], IDS[:, 1:])


def test_targets_that_a_user_gives_are_taken_as_they_are():
    known = opened(Program(Language(), (IDS, IDS)), samples=8)
    assert torch.equal(known.targets, IDS)  # which a rule may have a word on


def test_why_targets_do_not_fit():
    known = opened(Program(nn.Linear(3, 4), (X, torch.arange(20)), F.cross_entropy), samples=20)
    assert "classes from 0 to 3" in known.unfit
    assert set(known.task) == {"batch_dim"}
    known = opened(Program(nn.Linear(3, 1), (X, X[:, 0]), F.mse_loss), samples=20)
    assert "broadcast" in known.unfit


def test_samples_that_were_not_taken_are_others():
    targets = torch.arange(20.0)[:, None]
    for data in (
        (X, targets),
        TensorDataset(X, targets),
        DataLoader(TensorDataset(X, targets), batch_size=4, shuffle=True),
    ):
        program = Program(nn.Linear(3, 1), data)
        known = opened(program, samples=8)
        more = unseen(program, known)
        assert more is not None
        own, others = set(known.targets.flatten().tolist()), set(more[1].flatten().tolist())
        assert len(others) == 8
        assert not own & others
        assert torch.equal(more[0], X[more[1].flatten().long()])


def test_where_there_are_no_others_that_is_known():
    program = Program(nn.Linear(3, 1), (X, torch.arange(20.0)[:, None]))
    assert unseen(program, opened(program, samples=20)) is None
    language = Program(Language(), IDS)  # targets were made, and are none of its data
    assert unseen(language, opened(language, samples=3)) is None
    noisy = [(torch.randn(3), torch.randn(1)) for _ in range(20)]

    class Drawn(TensorDataset):
        def __len__(self):
            return 20

        def __getitem__(self, index):
            noisy[index] = (noisy[index][0] + 1, noisy[index][1])
            return noisy[index]

    drawn = Program(nn.Linear(3, 1), Drawn(X))
    assert unseen(drawn, opened(drawn, samples=8)) is None


@pytest.mark.parametrize("hole", [torch.nan, torch.inf])
def test_targets_that_a_loss_leaves_out_are_no_error_of_the_program(hole):
    def known(out, y):
        there = y.isfinite()
        return (out - y.nan_to_num(0, 0, 0)).square()[there].mean()

    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 4, generator=g)
    y = x @ torch.randn(4, 3, generator=g)
    y[::5, 1] = hole
    found = opened(Program(nn.Linear(4, 3), (x, y), known, "adam"), samples=64)
    assert (found.unfit, found.targets) == ("", None)
    assert found.unread.startswith("13 targets")
    plain = opened(Program(nn.Linear(4, 3), (x, y), "mse_loss", "adam"), samples=64)
    assert "finite" in plain.unfit
