"""Looks in a run file."""

import torch

from sigmascope.records import Estimate, Reading
from sigmascope.store import Run
from sigmascope.watching import LOSS, Look
from sigmascope.watching.run_files import RunFile, about_of
from tests.watching.made import stack


def look(step, value=1.0):
    return Look(step, (Reading(LOSS, "loss", Estimate.exactly(value), "watch"),))


def test_looks_come_back_with_layers_and_circumstances(tmp_path):
    model = stack(3, 4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    about = about_of(model, [optimizer], budget=0.02, processes=1)
    file = RunFile(tmp_path / "a.run", model, about)
    file.write(look(3))
    file.write(look(7, 2.0))
    file.close()
    with Run(tmp_path / "a.run", write=False) as run:
        assert run.steps() == (3, 7)
        assert [(r.step, r.estimate.value) for r in run.readings()] == [(3, 1.0), (7, 2.0)]
        assert [(x.site, x.parameters) for x in run.layers()] == [
            ("0", ("0.weight", "0.bias")),
            ("2", ("2.weight", "2.bias")),
        ]
        words = {w.name: w.value for w in run.about()}
    assert words["model"] == "Sequential, 26 parameters"
    assert "lr=0.25" in words["optimizer"]


def test_a_file_that_exists_goes_on_and_names_its_layers_once(tmp_path):
    model = stack(3, 2)
    for step in (4, 9):
        file = RunFile(tmp_path / "a.run", model, {})
        assert file.last == (0 if step == 4 else 4)
        file.write(look(step))
        file.close()
    with Run(tmp_path / "a.run", write=False) as run:
        assert run.steps() == (4, 9)
        assert len(list(run.layers())) == 1
