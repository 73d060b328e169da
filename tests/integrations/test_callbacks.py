"""What callbacks share."""

import copy
import logging
import pickle

import pytest
import torch

from sigmascope.core.guard import Refusal
from sigmascope.integrations.callbacks import LastLoss, Logged, Watching
from tests.integrations import trainings
from tests.integrations.looks import BEGINS, ENDS, look


def test_the_loss_of_a_step_is_the_mean_or_the_sum_of_its_batches():
    losses = LastLoss()
    assert losses.take() is None
    for value in (1.0, torch.tensor(3.0), None):
        losses.add(value)
    assert float(losses.take()) == 2.0
    assert losses.take() is None
    losses.summed = True
    for value in (1.0, 3.0):
        losses.add(value)
    assert float(losses.take()) == 4.0


def test_a_loss_is_kept_without_its_tape_and_as_it_was():
    losses, loss = LastLoss(), torch.tensor(2.0, requires_grad=True) * 1
    losses.add(loss)
    with torch.no_grad():
        loss *= 5  # as trainers do afterwards
    taken = losses.take()
    assert not taken.requires_grad
    assert float(taken) == 2.0


def test_a_copy_of_losses_is_empty():
    losses = LastLoss()
    losses.add(1.0)
    assert copy.deepcopy(losses).take() is None
    assert pickle.loads(pickle.dumps(losses)).take() is None


def test_alarms_alone_are_logged():
    got = []
    sink = Logged(lambda numbers, step: got.append((step, numbers)))
    for one in (look(1), BEGINS, ENDS):
        sink.write(one)
    sink.close()
    name = "alarm/rank-collapse/blocks.3"
    assert got == [(3, {name: 1.0}), (9, {name: 0.0})]


def test_an_error_while_it_watches_ends_it_and_is_told_once(caplog, monkeypatch):
    model = trainings.net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watching = Watching({}, ())
    watching.begin(model, [optimizer], start=3, ranks=1, log=lambda *_: None)
    assert watching.watch.steps == 3

    def fails(loss=None):
        raise ValueError("no\nway")

    monkeypatch.setattr(watching.watch, "step", fails)
    with caplog.at_level(logging.WARNING, logger="sigmascope"):
        for _ in range(2):
            model(torch.ones(2, 6)).square().mean().backward()
            optimizer.step()
            watching.losses.add(1.0)
            watching.step()
    assert [r.getMessage() for r in caplog.records] == [
        r"sigmascope watches this training no more: ValueError: no\nway"
    ]
    assert watching.watch is None
    assert trainings.hooks(model) == 0
    assert not optimizer._optimizer_step_post_hooks


def test_a_broken_sink_does_not_reach_the_training():
    model = trainings.net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watching = Watching({"sinks": (trainings.Failing(),)}, ())
    watching.begin(model, [optimizer], start=0, ranks=1, log=lambda *_: None)
    model(torch.ones(2, 6)).square().mean().backward()
    optimizer.step()
    watching.losses.add(1.0)
    watching.step()
    watching.end()


def test_an_alarm_that_there_is_not_is_refused():
    with pytest.raises(Refusal, match=r"must name alarms .*non-finite.*got 'loss spike'"):
        Watching({}, ["loss spike"])
