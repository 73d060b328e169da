"""Shapes are checked where they are annotated."""

import ast
import runpy
from pathlib import Path

import pytest
import torch
from jaxtyping import TypeCheckError
from jaxtyping._import_hook import Typechecker

from sigmascope.linalg import ranks

CONFTEST = str(Path(__file__).parents[1] / "conftest.py")


def test_every_module_that_annotates_shapes_is_checked():
    found = runpy.run_path(CONFTEST)["annotated"]()
    assert len(found) > 50
    assert {"sigmascope.linalg.ranks", "sigmascope.models.jacobian.adjoints"} <= {*found}
    assert "sigmascope.cli.apps" not in found


def test_a_wrong_shape_is_caught(pytestconfig):
    if pytestconfig.getoption("--no-shapes"):
        pytest.skip("shapes are not checked in this run")
    with pytest.raises(TypeCheckError):
        ranks.stable_rank(torch.ones(3, 3, dtype=torch.int64))


def test_what_is_made_in_each_call_is_checked_only_where_it_annotates_a_shape():
    code = """
def outer(x):
    def plain(t: Tensor): pass
    def shaped(t: Float[Tensor, "n"]): pass
"""
    made = runpy.run_path(CONFTEST)["Transformer"](typechecker=Typechecker("beartype.beartype"))
    outer = made.visit(ast.parse(code)).body[-1]
    assert [len(f.decorator_list) for f in (outer, *outer.body)] == [1, 0, 1]


def test_the_first_calls_of_a_function_in_each_test_are_checked():
    conftest, seen = runpy.run_path(CONFTEST), []

    def checking(plain, **_):
        return lambda x: seen.append(x) or plain(x)

    call = conftest["sparing"](checking)(typechecker=None)(lambda x: -x)
    for test in (1, 2):
        conftest["TESTS"][0] = test
        assert [call(test) for _ in range(60)] == [-test] * 60
    assert seen == [1] * conftest["ENOUGH"] + [2] * conftest["ENOUGH"]
