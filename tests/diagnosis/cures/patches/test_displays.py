"""What a source says of a program, read as syntax."""

import ast

import pytest

from sigmascope.diagnosis.cures.patches import (
    NoPlace,
    assigns,
    fields_of,
    imported,
    pair_in,
    place_of,
    with_imports,
)


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
