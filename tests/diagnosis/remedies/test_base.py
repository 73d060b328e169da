"""A remedy that does nothing says so, and so does one that is given no batch."""

import pytest

from sigmascope.diagnosis.remedies import (
    BatchNormalisation,
    Inapplicable,
    RankPretraining,
    RecentreWeights,
    RescaleResidual,
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
