"""The table of rules against PyTorch's own: a name that is misspelt would never be met."""

import pytest
import torch

from sigmascope.theory.symmetry.operations import AVERAGES, MADE, MOVES, RULES

SINCE = {"_fused_rms_norm": "2.9"}  # with torch.__version__, which compares itself by its numbers


@pytest.mark.parametrize("name", sorted({*RULES, *MOVES, *MADE}))
def test_every_name_is_one_of_the_dispatchers(name):
    if torch.__version__ < SINCE.get(name, "0"):
        pytest.skip(f"the operation is there since torch {SINCE[name]}")
    assert hasattr(torch.ops.aten, name)


def test_no_operation_has_two_rules():
    assert not set(RULES) & MOVES
    assert not (set(RULES) | MOVES) & MADE


@pytest.mark.parametrize(
    ("axes", "name"), [(axes, name) for axes, many in AVERAGES.items() for name in many]
)
def test_averages_act_on_as_many_axes_as_their_name_says(axes, name):
    assert name.endswith(f"{axes}d")


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_is_found_whether_in_place_or_not(name):
    """They are looked up without the underscore at the end."""
    assert not name.endswith("_")
