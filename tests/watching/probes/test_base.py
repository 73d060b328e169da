"""What every probe does."""

import torch
from torch import nn

from sigmascope.watching.probes import Losses
from sigmascope.watching.probes.base import alone


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
