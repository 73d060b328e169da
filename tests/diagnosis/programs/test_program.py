"""Programs as users write them down."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sigmascope.diagnosis.programs import Program, program_of
from sigmascope.gate import Refusal

X, Y = torch.ones(40, 3), torch.zeros(40, 2)
MODEL = nn.Linear(3, 2)


@dataclass
class Mine:
    model: object = MODEL
    data: object = (X, Y)
    loss: str = "mse"
    optimiser: str = "sgd"
    learning_rate: float = 0.3
    batch: int = 8
    epochs: int = 4


@pytest.mark.parametrize(
    "made",
    [
        Mine(),
        {"model": MODEL, "data": (X, Y), "loss": "mse", "optimizer": "sgd", "lr": 0.3,
         "batch_size": 8, "epochs": 4},
        SimpleNamespace(model=MODEL, data=(X, Y), loss="mse", optimizer="sgd", lr=0.3,
                        batch=8, epochs=4),
        Program(MODEL, (X, Y), "mse", "sgd", 0.3, 8, 4),
    ],
)  # fmt: skip
def test_ways_to_say_the_same(made):
    program = program_of(made)
    assert (program.model, program.loss, program.batch_size) == (MODEL, "mse", 8)
    assert program.recipe().says() == "sgd at 0.3"
    assert program.planned(40, 8) == 20


def test_momentum_goes_to_the_optimiser():
    made = {"model": MODEL, "data": X, "optimizer": "sgd", "lr": 1, "momentum": 0.9}
    assert program_of(made).recipe().says() == "sgd at 1, momentum 0.9"


def test_tuples():
    assert program_of((MODEL, (X, Y), "mse")).loss == "mse"


@pytest.mark.parametrize(("epochs", "total", "steps"), [(3, 40, 15), (0.5, 40, 2), (3, None, None)])
def test_planned_steps(epochs, total, steps):
    assert Program(MODEL, X, epochs=epochs).planned(total, 8) == steps
    assert Program(MODEL, X).planned(total, 8) is None
    assert Program(MODEL, X, epochs=1, total=80).planned(total, 8) == 10


def test_a_lightning_module_with_its_data():
    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.criterion = nn.Linear(3, 2), nn.MSELoss()

        def forward(self, x):
            return self.net(x)

        def configure_optimizers(self):
            by = torch.optim.AdamW(self.parameters(), lr=0.02)
            return {"optimizer": by, "lr_scheduler": None}

    module = Module()
    data = SimpleNamespace(
        setup=lambda stage: None,
        train_dataloader=lambda: DataLoader(TensorDataset(X, Y), batch_size=8),
    )
    program = program_of((module, data))
    assert (program.model, program.loss) == (module, module.criterion)
    assert program.recipe().says() == "adamw at 0.02"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (7, "got int"),
        ({"model": MODEL}, "must be there"),
        ({"model": MODEL, "data": X, "lerning_rate": 1}, "A program has"),
    ],
)
def test_what_is_no_program_is_refused(made, why):
    with pytest.raises(Refusal, match=why):
        program_of(made)


@pytest.mark.parametrize("name", ["batch_size", "epochs", "clip", "total"])
def test_numbers_must_be_above_zero(name):
    with pytest.raises(Refusal, match=name):
        Program(MODEL, X, **{name: 0})
