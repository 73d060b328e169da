import pytest
import torch

from sigmascope.checkpoints import open_checkpoint
from sigmascope.core.guard import Refusal
from sigmascope.core.quantities import SCAN, in_view
from sigmascope.scanning.planning import Settings, opened, quantities_named


def test_everything_is_read_where_nothing_is_named():
    assert quantities_named(None) == {q.name for q in in_view(SCAN)}
    assert quantities_named(["spikes"]) == {"spikes"}
    with pytest.raises(Refusal, match=r"must be one of .* got 'spike'"):
        quantities_named(["spike"])


def test_words_differ_where_results_would():
    one = Settings().words()
    others = ({"seed": 1}, {"heads": True}, {"only": ("a",)}, {"effort": "full"})
    for other in others:
        assert Settings(**other).words() != one
    assert Settings(memory=3).words() == one  # what it leaves out is in the plan


def test_what_is_open_is_not_opened_again():
    checkpoint = open_checkpoint({"a.weight": torch.ones(3, 3)})
    assert opened(checkpoint) is checkpoint
