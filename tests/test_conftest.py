"""Shapes are checked where they are annotated."""

import runpy
from pathlib import Path

import pytest
import torch
from jaxtyping import TypeCheckError

from sigmascope.linalg import ranks


def test_every_module_that_annotates_shapes_is_checked():
    found = runpy.run_path(str(Path(__file__).parents[1] / "conftest.py"))["annotated"]()
    assert len(found) > 50
    assert {"sigmascope.linalg.ranks", "sigmascope.probes.jacobian.adjoints"} <= {*found}
    assert "sigmascope.cli.apps" not in found


def test_a_wrong_shape_is_caught(pytestconfig):
    if pytestconfig.getoption("--no-shapes"):
        pytest.skip("shapes are not checked in this run")
    with pytest.raises(TypeCheckError):
        ranks.stable_rank(torch.ones(3, 3, dtype=torch.int64))
