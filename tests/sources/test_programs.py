import sys

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.sources.programs import open_changed, open_program, source_of

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


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("program", lambda found: found["data"].shape == (4, 3)),
        ("model", lambda found: isinstance(found, nn.Linear)),
        ("kept", lambda found: found == {"lr": 0.5}),
        ("Named", lambda found: found.lr == 0.1),
        ("nothing", lambda found: found is None),  # for the reader of programs to refuse
    ],
)
def test_functions_and_classes_are_called_and_what_is_made_is_not(file, name, made):
    assert made(open_program(f"{file}:{name}"))


def test_a_function_is_given_back_where_it_is_not_to_be_called(file):
    assert open_program(f"{file}:program", called=False)()["data"].shape == (4, 3)
    assert open_program(f"{file}:raises", called=False).__name__ == "raises"


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
    again = open_changed(f"{file}:program", FILE, generator=torch.Generator().manual_seed(0))
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[0], again["data"])
    assert not torch.equal(made[0], made[2])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone.py:program", "There is no file `gone.py`"),
        ("train.py", r"named `file.py:function` .* `train.py` has `program`, `needs`"),
        ("train.py:", r"named `file.py:function`"),
        ("mlp?depth=2", r"named `file.py:function` or `package.module:function`, got `mlp"),
        (
            "weights.pt",
            r"got `weights.pt`\. Weights alone are measured by `sigmascope scan",
        ),
        ("lab.ipynb", "is a notebook"),
        ("lab.ipynb:program", "is a notebook"),
        ("train.py:progam", "progam"),
        ("train.py:raises", r"`train.py:raises` raised .*lost"),
        ("train.py:needs", "`train.py:needs` needs the argument"),
    ],
)
def test_refusals(file, monkeypatch, name, says):
    monkeypatch.chdir(file.parent)
    with pytest.raises(Refusal, match=says):
        open_program(name)


def test_the_file_that_a_spec_leads_to(file, monkeypatch):
    assert source_of(f"{file}:program") == (file, "program")
    monkeypatch.chdir(file.parent)
    assert source_of("train:kept") == (file, "kept")
    assert source_of("math:pi") is None  # it is built in, and no file of Python


def test_a_changed_text_is_run_in_the_place_of_the_file(file):
    (file.parent / "beside.py").write_text("RATE = 0.25\n")
    text = (
        f"from beside import RATE\n{FILE}\ndef program(): return {{'lr': RATE, 'at': __file__}}\n"
    )
    before, modules = file.read_bytes(), {*sys.modules}
    made = open_changed(f"{file}:program", text)
    assert made == {"lr": 0.25, "at": str(file.resolve())}
    assert open_changed(f"{file}:kept", FILE.replace("0.5", "0.75")) == {"lr": 0.75}
    assert file.read_bytes() == before
    assert {*sys.modules} == modules


def test_a_text_that_raises_is_refused(file):
    with pytest.raises(Refusal, match="raised ZeroDivisionError"):
        open_changed(f"{file}:program", "1 / 0")
    with pytest.raises(Refusal, match="must lie in a file"):
        open_changed("math:pi", "pi = 3")
