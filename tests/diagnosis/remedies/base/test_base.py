"""A remedy that does nothing says so, and so does one that is given no batch."""

import pytest
import torch
from torch import nn

from sigmascope.diagnosis.remedies import (
    REMEDIES,
    BatchNormalisation,
    Inapplicable,
    RankPretraining,
    RecentreWeights,
    RescaleResidual,
    base,
    remedy,
)
from tests.diagnosis.remedies.networks import network


@pytest.mark.parametrize(
    ("remedy", "options", "words"),
    [
        (BatchNormalisation(), {"norm": "batch"}, "It is there already"),
        (RecentreWeights(), {}, "largest mean shift is 0"),
        (RescaleResidual(), {}, "needs residual branches"),
        (RankPretraining(), {"depth": 0}, "before the last"),
    ],
)
def test_each_says_when_it_does_nothing(digits, remedy, options, words):
    with pytest.raises(Inapplicable, match=words):
        remedy.apply(network(**options), digits.inputs)


@pytest.mark.parametrize(
    ("batches", "words"), [([], "gives none"), ([1, 2], "pairs \\(inputs, targets\\), got int")]
)
def test_useless_batches_are_refused(as_users_see_it, batches, words):
    with pytest.raises(ValueError, match=words):
        RankPretraining().apply(network(2), batches)


class Tied(nn.Module):
    """A language model whose last layer is its embedding, with a row for padding."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8, padding_idx=3)
        self.hidden = nn.Linear(8, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(self.hidden(self.words(ids)).relu().mean(1))


@pytest.mark.parametrize("kind", REMEDIES, ids=lambda kind: kind.name)
def test_no_remedy_lets_padding_speak(kind):
    torch.manual_seed(0)
    model, ids = Tied(), torch.arange(24).view(6, 4) % 11
    assert not model.words.weight[3].any()
    with torch.no_grad():
        model.hidden.weight.add_(9)  # so that re-centring has something to do
    try:
        new = kind().apply(model, ids)
    except (Inapplicable, TypeError):  # one asks for targets
        return
    assert not new.words.weight[3].any()
    assert new.head.weight is new.words.weight


def test_a_weight_in_common_is_found_under_its_other_name():
    model = Tied()
    assert base.sharing(model, model.head) == "words"
    assert base.sharing(model, model.words) == "head"
    assert base.sharing(model, model.hidden) == ""
    with torch.no_grad():
        model.head.weight.mul_(100)
    with pytest.raises(Inapplicable, match="its weight in common with words"):
        remedy("quiet-output").apply(model, torch.arange(24).view(6, 4) % 11)
