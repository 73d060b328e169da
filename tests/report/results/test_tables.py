import io

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.nn import functional as F

from sigmascope import diagnosis, theory
from sigmascope.core.records import Estimate, Profile, Reading
from sigmascope.report import table
from sigmascope.report.results import ruled
from sigmascope.theory import le2022

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def test_columns_hold_every_reading(profile):
    columns = table(profile)
    assert list(columns) == [
        "site", "depth", "view", "form", "quantity", "value", "low", "high", "how", "risk",
    ]  # fmt: skip
    assert {len(column) for column in columns.values()} == {len(profile.readings)}
    assert columns["value"] == [r.estimate.value for r in profile.readings]


def test_depth_is_that_of_the_layer_that_is_or_applies_the_site(profile):
    columns = table(profile)
    depth = dict(zip(columns["site"], columns["depth"], strict=True))
    assert depth["hidden.3.linear"] == depth["hidden.3.linear.weight"] == 3
    assert depth["(output)"] == 33


def test_a_site_of_no_layer_has_no_depth(profile):
    stray = Reading("stray", "mean square", Estimate.exactly(1.0), "representations")
    assert table(Profile((stray,), layers=profile.layers))["depth"] == [None]


def test_sites_without_layers_are_numbered_as_they_come():
    rows = [Reading(s, "stable rank", Estimate.exactly(1.0), "weights") for s in "abca"]
    assert table(Profile(tuple(rows)))["depth"] == [0, 1, 2, 0]


def curved():
    y = torch.zeros(16, dtype=torch.long)
    return theory.landscape.curvature(net(), X, targets=y, loss=F.cross_entropy)


def treated():
    return diagnosis.treat(net(), X, diagnosis.remedies.remedy("batch-norm"))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: theory.landscape.landscape(net(), X), {"site", "condition_value", "floor"}),
        (curved, {"site", "parameters", "top_high"}),
        (lambda: le2022.conservation.conserved(net(), X), {"kind", "tensors", "formula", "rate"}),
        (lambda: theory.compare(net(), net(), batch=X), {"site", "before_value", "after_risk"}),
        (
            lambda: theory.bottleneck.bottleneck(net(), X),
            {"name", "site", "estimate_value", "says"},
        ),
        (treated, {"site", "quantity", "before_value", "after_value"}),
        (
            lambda: theory.bottleneck.predict(8, 4, layers=100, chains=2),
            {"width", "gap_value", "chain_soft_rank_low"},
        ),
    ],
    ids=["landscape", "curvature", "balances", "comparison", "bottleneck", "treatment", "design"],
)
def test_every_result_has_rows(make, expected):
    found = table(make())
    assert expected <= set(found)
    (count,) = {len(column) for column in found.values()}
    assert count > 0


def test_a_table_with_a_line_under_its_head_begins_and_ends_with_its_columns():
    made = ruled()
    made.add_column("name")
    made.add_column("norm", justify="right")
    made.add_row("first", "1.25")
    console = Console(width=40, record=True, file=io.StringIO())
    console.print(made)
    assert console.export_text().splitlines() == ["name   norm", "─" * 11, "first  1.25"]
