"""Which parameters are trained, and by whom."""

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.watching.parameters import places
from sigmascope.watching.sinks import WHOLE
from tests.watching.made import stack


def test_places_are_modules_with_trained_parameters_and_know_their_optimizer():
    model = stack(3, 4, 4, 2)
    one = torch.optim.SGD(model[0].parameters(), lr=0.1)
    other = torch.optim.Adam(model[4].parameters())
    found = [(p.site, len(p.parameters), p.optimizer) for p in places(model, [other, one])]
    assert found == [("0", 2, one), ("4", 2, other)]


def test_parameters_of_the_model_itself_are_at_the_model():
    model = nn.Linear(2, 2)
    found = places(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
    assert [p.site for p in found] == [WHOLE]


def test_an_optimizer_of_another_model_is_refused():
    optimizer = torch.optim.SGD(stack(3, 2).parameters(), lr=0.1)
    with pytest.raises(Refusal, match="2 parameters of others"):
        places(stack(3, 2), [optimizer])
