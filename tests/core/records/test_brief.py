"""What holds tensors and models is told in a line, by shapes and names, and is shown."""

import re
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import sigmascope as ss
from sigmascope import report
from sigmascope.core.records import Brief, Profile, Shown, Spectrum, brief
from sigmascope.sources import Data

PUBLIC = re.compile(r"autoclass:: (\S+)\.(\w+)")
HOLDS = ("Tensor", "ndarray", "Module", "Batch")


def public():
    pages = Path(__file__).parents[3].joinpath("docs/reference").glob("*.md")
    named = sorted({pair for page in pages for pair in PUBLIC.findall(page.read_text("utf-8"))})
    return [getattr(import_module(room), name) for room, name in named]


def test_no_public_record_writes_out_its_tensors():
    held = [
        kind
        for kind in public()
        if is_dataclass(kind)
        and any(f.repr and any(word in str(f.type) for word in HOLDS) for f in fields(kind))
    ]
    assert len(held) > 30
    assert [kind for kind in held if kind.__repr__ not in (Brief.__repr__, Shown.__repr__)] == []


def test_tensors_are_shapes_models_names_and_long_lists_their_beginning():
    @dataclass
    class Theirs:
        inside: torch.Tensor
        apart: int = field(default=3, repr=False)

    assert brief(torch.ones(2, 3)) == "float32 [2, 3]"
    assert brief(torch.ones(2).numpy()) == "float32 [2]"
    assert (
        brief({"a": (torch.ones(2),), 3: [None, True]}) == "{'a': (float32 [2],), 3: [None, True]}"
    )
    assert brief([*range(9)]) == "[0, 1, 2, 3, 4, 5, … 3 more]"
    assert brief(dict.fromkeys(range(7), 0.5)).endswith("5: 0.5, … 1 more}")
    assert brief(F.mse_loss) == "mse_loss"
    assert brief(nn.Linear) == "Linear"
    assert brief(nn.Linear(2, 2)) == "<Linear>"
    assert brief(partial(F.mse_loss)) == "<partial>"
    assert brief(Theirs(torch.ones(4))) == "Theirs(inside=float32 [4])"
    assert brief([Profile(readings=())]) == "[<Profile>]"  # which shows itself by pages
    assert brief("x" * 81) == repr("x" * 80) + "…"
    assert brief("\x1b[31m") == r"'\x1b[31m'"


def test_what_is_given_to_a_door_is_told_in_a_line_and_shown():
    model, x, y = nn.Linear(4, 2), torch.ones(8, 4), torch.ones(8, 2)
    data = Data(x, y, "ours", 2)
    given = [
        ss.Program(model, (x, y), F.mse_loss, torch.optim.SGD(model.parameters(), 0.1)),
        ss.Subject(model, x, y, F.mse_loss),
        data,
        Spectrum(torch.ones(4), (4, 4), "told"),
    ]
    for one in given:
        assert "\n" not in repr(one)
        assert "tensor(" not in repr(one)
        assert "float32 [" in report.text(one)
        assert len({len(column) for column in report.table(one).values()}) == 1
    assert repr(data) == (
        "Data(inputs=float32 [8, 4], targets=float32 [8, 2], name='ours', outputs=2, total=None)"
    )
    assert data == Data(x.clone(), y.clone(), "ours", 2)
    assert report.text(ss.Estimate.exactly(3.0)) == "3  exact"
    said = report.text(ss.remedy("batch-norm"))
    assert said.startswith("batch-norm  Normalise the output")
    assert report.json_form(ss.remedy("batch-norm"))["name"] == "batch-norm"
    assert report.table(ss.remedy("batch-norm"))["name"] == ["batch-norm"]
