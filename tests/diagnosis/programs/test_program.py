"""Programs as users write them down."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import sigmascope as ss
from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.programs import Program, program_of
from sigmascope.diagnosis.programs.opened import opened

X, Y = torch.ones(40, 3), torch.zeros(40, 2)
MODEL = nn.Linear(3, 2)


@dataclass
class Mine:
    model: object = MODEL
    data: object = (X, Y)
    loss: str = "mse"
    optimizer: str = "sgd"
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


def test_momentum_goes_to_the_optimizer_and_a_tuple_is_a_program():
    made = {"model": MODEL, "data": X, "optimizer": "sgd", "lr": 1, "momentum": 0.9}
    assert program_of(made).recipe().says() == "sgd at 1, momentum 0.9"
    assert program_of((MODEL, (X, Y), "mse")).loss == "mse"


@pytest.mark.parametrize(("epochs", "total", "steps"), [(3, 40, 15), (0.5, 40, 2), (3, None, None)])
def test_planned_steps(epochs, total, steps):
    assert Program(MODEL, X, epochs=epochs).planned(total, 8) == steps
    assert Program(MODEL, X).planned(total, 8) is None
    assert Program(MODEL, X, epochs=1, total=80).planned(total, 8) == 10


def text(width=16):
    """Rows of token ids in which a token tells the next one, as a data set of Hugging Face."""
    ids = torch.arange(24)[:, None] * 3 + torch.arange(width)
    return [{"input_ids": row, "labels": row.clone()} for row in ids.remainder(32)]


@pytest.fixture
def trainer(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    def made(model=None, **options):
        torch.manual_seed(0)
        sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16, "vocab_size": 32}
        config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
        model = model or transformers.GPT2LMHeadModel
        given = {"use_cpu": True, "report_to": [], "learning_rate": 0.01, **options}
        args = transformers.TrainingArguments(str(tmp_path / "trainer"), **given)
        return transformers.Trainer(model(config), args, train_dataset=text())

    return made


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"num_train_epochs": 5}, 30),
        ({"num_train_epochs": 5, "gradient_accumulation_steps": 2}, 15),
        ({"max_steps": 7}, 7),
        ({"max_steps": 7, "gradient_accumulation_steps": 2}, 7),
        ({"max_steps": -1, "num_train_epochs": 1}, 6),
    ],
)
def test_a_trainer(trainer, options, steps):
    program = program_of(
        trainer(per_device_train_batch_size=4, weight_decay=0.1, max_grad_norm=0.5, **options)
    )
    size = 4 * options.get("gradient_accumulation_steps", 1)
    assert (program.batch_size, program.clip) == (size, 0.5)
    assert program.planned(24, size) == steps
    recipe = program.recipe()
    assert (recipe.name, recipe.rate) == ("adamw", 0.01)
    assert recipe.make(program.model).param_groups[0]["weight_decay"] == 0.1


def test_a_trainer_is_diagnosed(trainer):
    seen = ss.diagnose(program_of(trainer(per_device_train_batch_size=8, num_train_epochs=40)))
    assert seen.findings == ()
    assert seen.profile.series("probability at your settings")[0].estimate.value > 0.9
    assert not [s for s in seen.profile.skipped if s.site == "(loss)"]


@pytest.mark.parametrize(("places", "told"), [(0, []), (-1, ["skipped-inputs"])])
def test_labels_are_what_the_model_makes_of_them(trainer, places, told):
    given = trainer(per_device_train_batch_size=8, num_train_epochs=1)
    given.train_dataset = [
        {**row, "labels": row["labels"].roll(places)} for row in given.train_dataset
    ]
    known = opened(program_of(given), samples=16)
    assert known.unread == ""
    found = ss.diagnose(program_of(given)).findings
    assert [f.name for f in found if f.name == "skipped-inputs"] == told


def test_a_model_with_a_loss_of_its_own_says_so(trainer):
    transformers = pytest.importorskip("transformers")

    class Smoothed(transformers.GPT2LMHeadModel):
        def forward(self, input_ids=None, labels=None, **rest):
            out = super().forward(input_ids=input_ids, labels=labels, **rest)
            return out if labels is None else {"loss": out.loss + 1, "logits": out.logits}

    known = opened(program_of(trainer(Smoothed, num_train_epochs=1)), samples=16)
    assert "computes a loss of" in known.unread
    assert opened(program_of(trainer(num_train_epochs=1)), samples=16).unread == ""


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (7, "got 7"),
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


@pytest.mark.parametrize(
    ("epochs", "own", "total", "size", "steps"),
    [
        (4, None, 40, 8, 20),
        (4, None, 41, 8, 24),
        (4, 80, 40, 8, 40),
        (0.5, None, 40, 8, 2),
        (0.01, None, 40, 8, 1),
        (None, None, 40, 8, None),
        (4, None, None, 8, None),
        (4, 80, None, 8, 40),
    ],
)
def test_a_plan_is_in_steps_of_all_samples(epochs, own, total, size, steps):
    assert Program(MODEL, (X, Y), epochs=epochs, total=own).planned(total, size) == steps


@pytest.mark.parametrize("name", ["batch_size", "epochs", "clip", "total"])
def test_sizes_are_above_zero_and_finite(name):
    for odd in (0, -1, *((float("inf"), float("nan")) if name in ("epochs", "clip") else ())):
        with pytest.raises(Refusal, match=f"`{name}` must be above 0"):
            Program(MODEL, (X, Y), **{name: odd})
    Program(MODEL, (X, Y), **{name: 1})
