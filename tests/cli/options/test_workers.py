import contextlib

import pytest
import torch

from sigmascope.cli.options import How, hired, mapper_of, workers_for
from sigmascope.core import guard
from sigmascope.integrations.processes import WorkerProcesses
from sigmascope.scanning import plan


def test_small_work_is_not_worth_a_process():
    small = plan({"a.weight": torch.ones(9, 9)})
    assert workers_for(small, How()) == 1
    assert mapper_of(1, How()) is map
    assert mapper_of(3, How()) == WorkerProcesses(3)


def test_processes_are_as_many_as_fit_the_memory(monkeypatch):
    monkeypatch.setattr("sigmascope.cli.options._cores", lambda: 64)
    large = plan({f"{i}.weight": torch.empty(1).expand(4000, 4000) for i in range(900)})
    with guard.memory(3 * large.memory):
        assert workers_for(large, How()) == 3
        assert workers_for(large, How(workers=2)) == 2
        with pytest.raises(guard.Refusal, match=r"do not fit .* take 3, or more `--memory`"):
            workers_for(large, How(workers=4))
    assert workers_for(plan({}), How(workers=9)) == 9  # there is nothing to fit


def test_processes_are_hired_where_their_number_was_said_and_is_no_more_than_the_cores(monkeypatch):
    modules = []

    @contextlib.contextmanager
    def crew_of(one, module):  # real ones: tests/integrations/test_processes.py
        modules.append(module)
        yield one

    monkeypatch.setattr(WorkerProcesses, "hired", crew_of)
    monkeypatch.setattr("sigmascope.cli.options._cores", lambda: 2)
    many, few = How(workers=1024), How(workers=2)
    for how, wanted in ((How(), True), (How(workers=1), True), (few, False), (many, True)):
        with hired(how, wanted=wanted) as crew:
            assert crew is None
    with hired(How(workers=2, ray="local"), wanted=True) as crew:
        assert crew is None
    with hired(How(workers=2), wanted=True) as crew:
        assert crew == WorkerProcesses(2)
        assert mapper_of(2, How(workers=2), crew) is crew
    assert modules == ["sigmascope.scanning"]
