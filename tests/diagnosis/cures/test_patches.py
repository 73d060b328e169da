"""Cures are put into a source, or are not: what was put there makes the program that was tried.

The grid is the searcher: every way to hand a program over beside every line that a cure prints.
"""

import ast
import itertools
import subprocess
from dataclasses import replace

import pytest
import torch
from torch import nn

from sigmascope.diagnosis.cures import Cure, agrees, diff_of, patched
from sigmascope.diagnosis.cures.patches import (
    NoPlace,
    assigns,
    fields_of,
    imported,
    pair_in,
    place_of,
    with_imports,
)
from sigmascope.diagnosis.programs import program_of

HEAD = '''"""Trains."""

import torch
from torch import nn
from sigmascope import Program

X = torch.linspace(-1, 1, 48).reshape(16, 3)
Y = torch.arange(16).remainder(2).float()[:, None]
'''
NET = "nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1), nn.Sigmoid())"
WAYS = {  # to hand over the same program
    "mapping": f"""
def program():
    net = {NET}
    return {{"model": net, "data": (X, Y), "loss": "bce", "optimizer": "sgd", "lr": 0.5,
            "epochs": 4, "batch_size": 8}}
""",
    "nothing named": f"""
def program():
    return dict(model={NET}, data=(X, Y), loss=nn.BCELoss(), optimizer="sgd",
                learning_rate=0.5, epochs=4, batch=8)
""",
    "made before": f"""
def program():
    # ünïcode counts as more than one byte
    net = {NET}
    data, by = (X, Y), torch.optim.SGD(net.parameters(), lr=0.5)
    by = by
    optimiser = torch.optim.SGD(net.parameters(), lr=0.5)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=8)
    made = {{"model": net, "data": loader, "loss": "bce", "optimiser": optimiser, "epochs": 4}}
    return made
""",
    "record": f"""
def program():
    model = {NET}
    return Program(model, (X, Y), "bce", torch.optim.SGD(model.parameters(), 0.5),
                   batch_size=8, epochs=4)
""",
    "not in a function": f"""
program = {{"model": {NET}, "data": (X, Y), "loss": "bce", "optimizer": "sgd", "lr": 0.5,
           "epochs": 4, "batch_size": 8}}
""",
}


def cross(p, **more):
    return replace(p, loss="cross_entropy", **more)


def widened(p):
    x, y = p.data if isinstance(p.data, tuple) else p.data.dataset.tensors
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Identity())
    by = p.recipe()
    data = (x, y.flatten().long())
    if not isinstance(p.data, tuple):
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data), batch_size=8)
    return cross(p, model=net, data=data, optimizer=by, lr=None)


def opened_end(p):
    net = nn.Sequential(*p.model[:3], nn.Identity())
    name = "binary_cross_entropy_with_logits"
    return replace(p, model=net, loss=name, optimizer=p.recipe(), lr=None)


CURES = {  # lines of a cure, and the program that they mean
    "rate": (("lr=0.05  # in place of 0.5",), lambda p: replace(p, optimizer=p.recipe().at(0.1))),
    "epochs": (("epochs = 40  # in place of 4",), lambda p: replace(p, epochs=40)),
    "optimiser": (
        ("optimizer = torch.optim.Adam(model.parameters(), lr=0.001)",),
        lambda p: replace(p, optimizer="adam", lr=0.001),
    ),
    "loss": (
        (
            "# Leave out the last operation: end in the linear layer.",
            "model[3] = nn.Identity()",
            "loss = F.binary_cross_entropy_with_logits",
        ),
        opened_end,
    ),
    "classes": (
        (
            "model[3] = nn.Identity()",
            "model[2] = nn.Linear(4, 2)",
            "targets = targets.flatten().long()",
            "loss = F.cross_entropy",
        ),
        widened,
    ),
    "two": (
        ("lr=0.05  # in place of 0.5", "epochs = 40  # in place of 4"),
        lambda p: replace(p, optimizer=p.recipe().at(0.1), epochs=40),
    ),
}


def run(source):
    scope = {"__name__": "train"}
    exec(compile(source, "train.py", "exec"), scope)
    made = scope["program"]
    return program_of(made() if callable(made) else made)


def cure_of(patch, program):
    return Cure("cure", "cause", patch, program, 0.1, 0.9, 10)


@pytest.mark.parametrize(("way", "name"), [*itertools.product(WAYS, CURES)])
def test_the_changed_source_makes_the_cured_program(way, name):
    source, (lines, meant) = HEAD + WAYS[way], CURES[name]
    changed = patched(lines, source, "program")
    assert changed is not None
    theirs, made = run(source), run(changed)
    cure = cure_of(lines, meant(theirs))
    assert agrees(made, cure, samples=16)
    assert not agrees(theirs, cure, samples=16)


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_size_is_changed_or_added(way):
    changed = patched(("batch_size = 4  # in place of 8",), HEAD + WAYS[way], "program")
    assert run(changed).batch_size == 4


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def program():\n    return make()\n", "epochs = 3"),
        ("def program():\n    return {**base, 'model': net}\n", "epochs = 3"),
        ("def other():\n    return {'model': net}\n", "epochs = 3"),
        ("def program():\n    yield 1\n", "epochs = 3"),
        ("def program(:\n", "epochs = 3"),
        ("def program():\n    return {'model': net, 'data': d}\n", "lr=0.1"),
        ("def program():\n    return {'model': net, 'data': d}\n", "targets = targets.long()"),
        ("def program():\n    return net, d\n", "epochs = 3"),
        ("def program():\n    return {'model': net, 'optimizer': by}\n", "lr=0.1"),
        ("def program():\n    a = b = Adam(p)\n    return {'model': n, 'optimizer': a}", "lr=0.1"),
        ("def program():\n    return {'model': net}\n", "# at the end of `forward`: return x"),
        ("def program():\n    return {'model': net}\n",
         "model = remedy('centre').apply(model, batch)"),
        ("def program():\n    return {'model': net}\n", "from a import b"),
    ],
)  # fmt: skip
def test_what_has_no_place_is_not_put_anywhere(source, line):
    cure = cure_of((line,), run(HEAD + WAYS["mapping"]))
    assert patched((line,), source, "program") is None
    assert diff_of(cure, source, "program", "train.py") == ""


def test_the_last_of_two_values_counts_and_none_lies_within_another():
    source = HEAD + WAYS["record"]
    twice = patched(("lr=0.1", "lr=0.2"), source, "program")
    assert "SGD(model.parameters(), 0.2)" in twice
    other = "optimizer = torch.optim.Adam(model.parameters(), lr=0.001)"
    assert patched((other, "lr=0.1"), source, "program") is None


def test_imports_that_are_missing_are_added_once():
    bare = '"""Says."""\nprogram = {"model": net, "loss": "mse"}\n'
    changed = patched(("model[1] = nn.Identity()", "loss = F.cross_entropy"), bare, "program")
    tree = ast.parse(changed)
    assert ast.get_docstring(tree) == "Says."
    assert changed.count("from torch import nn\n") == 1
    assert changed.count("from torch.nn import functional as F\n") == 1


@pytest.mark.parametrize("way", WAYS)
def test_the_diff_can_be_applied(way, tmp_path):
    source, (lines, _) = HEAD + WAYS[way], CURES["classes"]
    file = tmp_path / "train.py"
    file.write_text(source.rstrip("\n"), encoding="utf-8")  # without a last line feed
    text = file.read_text(encoding="utf-8")
    diff = diff_of(cure_of(lines, run(source)), text, "program", "train.py")
    assert diff.startswith("--- train.py\n+++ train.py\n@@ ")
    asked = ["git", "apply", "-p0", "--unsafe-paths", "-"]
    subprocess.run(asked, cwd=tmp_path, input=diff.encode(), check=True)
    wanted = patched(lines, text, "program")
    assert file.read_text(encoding="utf-8").rstrip("\n") == wanted.rstrip("\n")


def expression(text):
    return ast.parse(text, mode="eval").body


def names(text):
    return {k: ast.unparse(v) for k, v in fields_of(expression(text)).items()}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("{'model': m, 'learning_rate': 1}", {"model": "m", "lr": "1"}),
        ("{'model': m, 'batch': 2}", {"model": "m", "batch_size": "2"}),
        ("dict(model=m, optimiser=o)", {"model": "m", "optimizer": "o"}),
        ("dict(model=m, momentum=0.9)", {"model": "m", "momentum": "0.9"}),
        ("ss.Program(m, d, epochs=3)", {"model": "m", "data": "d", "epochs": "3"}),
        ("(m, d, f, by)", {"model": "m", "data": "d", "loss": "f", "optimizer": "by"}),
    ],
)  # fmt: skip
def test_fields_by_the_names_that_users_give_them(text, fields):
    assert names(text) == fields


@pytest.mark.parametrize(
    "text",
    ["{**base, 'model': m}", "dict(model=m, **rest)", "make(m, d)", "{'data': d}", "m",
     "{'model': m, 'colour': 1}"],
)  # fmt: skip
def test_what_may_hold_anything_has_no_fields(text):
    with pytest.raises(NoPlace):
        fields_of(expression(text))


def test_the_display_is_what_is_handed_over():
    tree = ast.parse("def program():\n    a = 1\n    made = {'model': a}\n    return made\n")
    body, statement, display = place_of(tree, "program")
    assert (len(body), statement.lineno, ast.unparse(display)) == (3, 3, "{'model': a}")


@pytest.mark.parametrize(
    "text",
    [
        "def program():\n    made = a\n    made = b\n    return made\n",  # which of both?
        "def program():\n    if c:\n        return a\n",
        "class program: pass\n",
        "",
    ],
)
def test_a_place_that_is_in_doubt_is_none(text):
    with pytest.raises(NoPlace):
        place_of(ast.parse(text), "program")


def test_who_assigns_what():
    statements = ast.parse("a = b = 1\n(c, d) = 2\ne: int = 3\nf += 4\nprint(g)\n").body
    found = [{n for n in "abcdefg" if assigns(s, n)} for s in statements]
    assert found == [{"a", "b"}, {"c", "d"}, {"e"}, {"f"}, set()]


def test_the_pair_of_one_data_set():
    one = "DataLoader(data.TensorDataset(X, Y), 8)"
    assert [ast.unparse(p) for p in pair_in(expression(one))] == ["X", "Y"]
    assert pair_in(expression(f"[{one}, {one}]")) is None
    assert pair_in(expression("loader")) is None
    assert pair_in(None) is None


def test_imports():
    tree = ast.parse("import torch.nn\nfrom torch import nn as n\nimport numpy as np\n")
    assert imported(tree) == {"torch", "n", "np"}
    assert with_imports("x = 1\n", ()) == "x = 1\n"
    assert with_imports("x = 1\n", ("import a",)) == "import a\nx = 1\n"
    assert with_imports("import b\nx = 1\n", ("import a",)) == "import b\nimport a\nx = 1\n"
    long = '"""Says\nmore."""\nx = 1\n'
    assert ast.get_docstring(ast.parse(with_imports(long, ("import a",)))) == "Says\nmore."


@pytest.mark.parametrize(
    "other",
    [
        lambda p: replace(p, lr=0.51),
        lambda p: replace(p, optimizer="adam"),
        lambda p: replace(p, epochs=5),
        lambda p: replace(p, batch_size=4),
        lambda p: replace(p, loss="mse"),
        lambda p: replace(p, data=(p.data[0], 1 - p.data[1])),
        lambda p: replace(p, data=(p.data[0], p.data[1].double())),
        lambda p: replace(p, model=nn.Sequential(*p.model[:3], nn.Tanh())),
        lambda p: replace(p, optimizer=None),
        lambda p: replace(p, data=(p.data[0], p.data[1][:, 0])),
    ],
)
def test_another_program_does_not_agree(other):
    program = run(HEAD + WAYS["mapping"])
    assert agrees(run(HEAD + WAYS["nothing named"]), cure_of((), program), samples=16)
    assert not agrees(other(program), cure_of((), program), samples=16)


@pytest.mark.parametrize(
    ("made", "line", "becomes"),
    [
        ('"optimizer": "sgd", "momentum": 0.99', "momentum=0.9", '"momentum": 0.9}'),
        ('"optimizer": Adam(p, 0.1, betas=(0.1, 0.2), eps=1.0)', "betas=(0.9, 0.999)",
         "Adam(p, 0.1, betas=(0.9, 0.999), eps=1.0)"),
        ('"optimizer": Adam(p, 0.1)', "eps=1e-08", None),
        ('"optimizer": made', "eps=1e-08", None),
        ('"loss": "mse"', "eps=1e-08", None),
    ],
)  # fmt: skip
def test_a_setting_is_changed_where_it_is_given(made, line, becomes):
    source = f'def program():\n    return {{"model": net, {made}}}\n'
    changed = patched((line,), source, "program")
    assert (changed is None) == (becomes is None)
    assert becomes is None or becomes in (changed or "")


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("model.a = nn.Sequential(model.a, nn.ReLU())", "net.a = nn.Sequential(net.a, nn.ReLU())"),
        ("model[0].p = 0.1", "net[0].p = 0.1"),
        ("setattr(model, 'my-model.a', nn.ReLU())", "setattr(net, 'my-model.a', nn.ReLU())"),
        ("setattr(model.b, 'model.a', 1)", "setattr(net.b, 'model.a', 1)"),
    ],
)
def test_a_model_of_another_name_is_changed_by_that(line, becomes):
    source = 'def program():\n    net = made()\n    return {"model": net, "loss": "mse"}\n'
    assert f"    net = made()\n    {becomes}\n" in (patched((line,), source, "program") or "")
