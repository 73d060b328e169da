import sys

import pytest
import torch
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.sources.programs import open_program

FILE = """
import torch
from torch import nn

def program(): return {"model": nn.Linear(3, 2), "data": torch.randn(4, 3)}
def needs(rate): return {"lr": rate}
def raises(): raise KeyError("lost")
def nothing(): pass

class Named:
    lr = 0.1

model = nn.Linear(3, 2)
kept = {"lr": 0.5}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(FILE)
    return path


def test_a_function_is_called(file):
    made = open_program(f"{file}:program")
    assert isinstance(made["model"], nn.Linear)
    assert made["data"].shape == (4, 3)


def test_a_function_is_given_back_where_it_is_not_to_be_called(file):
    assert open_program(f"{file}:program", called=False)()["data"].shape == (4, 3)
    assert open_program(f"{file}:raises", called=False).__name__ == "raises"


def test_what_is_made_is_not_called(file):
    assert isinstance(open_program(f"{file}:model"), nn.Linear)
    assert open_program(f"{file}:kept") == {"lr": 0.5}


def test_a_class_is_made_into_an_object(file):
    assert open_program(f"{file}:Named").lr == 0.1


def test_a_function_of_a_module_is_found_from_here(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert open_program("train:kept") == {"lr": 0.5}
    assert "train" not in sys.modules


def test_its_chances_come_from_the_generator_and_those_of_torch_stay(file):
    state = torch.get_rng_state()
    made = [
        open_program(f"{file}:program", generator=torch.Generator().manual_seed(seed))["data"]
        for seed in (0, 0, 1)
    ]
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone.py:program", "There is no file `gone.py`"),
        ("train.py", r"named `file.py:function` .* `train.py` has `program`, `needs`"),
        ("train.py:", r"named `file.py:function`"),
        ("mlp?depth=2", r"named `file.py:function` or `package.module:function`, got `mlp"),
        ("train.py:progam", "progam"),
        ("train.py:raises", r"`train.py:raises` raised .*lost"),
        ("train.py:needs", "`train.py:needs` needs the argument"),
    ],
)
def test_refusals(file, monkeypatch, name, says):
    monkeypatch.chdir(file.parent)
    with pytest.raises(Refusal, match=says):
        open_program(name)


def test_what_returns_nothing_is_for_the_reader_of_programs_to_refuse(file):
    assert open_program(f"{file}:nothing") is None
