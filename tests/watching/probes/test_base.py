"""What every probe does."""

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.watching.probes import Losses
from sigmascope.watching.probes.base import Added, all_of_torch, alone, of_torch, places
from sigmascope.watching.sinks import WHOLE
from tests.watching.made import stack


def test_modules_that_are_compiled_are_not_heard_and_that_is_said():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].compile(backend="eager")
    probe = Losses()
    assert probe.audible(model, [*model]) == [model[0]]
    (said,) = probe.notes
    assert "1 of 2 modules run compiled" in said.why
    assert not probe.idle
    assert probe.audible(model, [model[1]]) == []
    assert probe.idle


def test_the_first_error_of_a_hook_is_kept():
    probe = Losses()
    first = ValueError("one")
    probe.failed(first)
    probe.failed(ValueError("other"))
    assert probe.error is first


def test_the_only_process_agrees_with_itself():
    sent = []

    def steps():
        sent.append((yield torch.ones(2)))
        sent.append((yield torch.zeros(1)))

    alone(steps())
    assert [t.tolist() for t in sent] == [[1.0, 1.0], [0.0]]


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


class Wrapped:
    def __init__(self, optimizer):
        self.optimizer = optimizer


def test_the_optimizer_inside_of_wrappers_is_found_once():
    one, other = (torch.optim.SGD(stack(3, 2).parameters(), lr=0.1) for _ in range(2))
    assert of_torch(Wrapped(one)) is one
    assert all_of_torch([Wrapped(one), one, other]) == (one, other)


@pytest.mark.parametrize("odd", [None, 3, Wrapped(None), Wrapped("adam")])
def test_what_is_no_optimizer_is_refused(odd):
    with pytest.raises(Refusal, match=type(odd).__name__):
        all_of_torch([odd])
    with pytest.raises(Refusal, match="at least one optimizer"):
        all_of_torch([])


def test_several_optimizers_are_not_one_list():
    one, other = (torch.optim.SGD(stack(3, 2).parameters(), lr=0.1) for _ in range(2))
    with pytest.raises(Refusal, match=r"as in `watch\(model, first, second\)`"):
        all_of_torch([[one, other]])


def test_a_weight_without_a_shape_is_refused():
    net = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(Refusal, match=r"`0\.weight` must have its shape.* before it is watched"):
        places(net, [optimizer])
    net(torch.ones(2, 4))
    assert [place.site for place in places(net, [optimizer])] == ["0", "2"]


def test_parameters_that_come_later_are_told_once():
    optimizer = torch.optim.SGD(stack(3, 2).parameters(), lr=0.1)
    added = Added([optimizer])
    assert [*added.since()] == []
    optimizer.add_param_group(
        {"params": [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))]}
    )
    (told,) = added.since()
    assert told.why.startswith("2 parameters")
    assert [*added.since()] == []


def test_whole_numbers_are_not_trained():
    model = stack(3, 2)
    model.register_parameter(
        "ids", nn.Parameter(torch.ones(2, dtype=torch.long), requires_grad=False)
    )
    optimizer = torch.optim.SGD([*model.parameters()], lr=0.1)
    assert [p.site for p in places(model, [optimizer])] == ["0"]
