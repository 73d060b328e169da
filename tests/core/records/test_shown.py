"""Results print as their commands print them, and are cards in notebooks."""

import importlib
import sys

import pytest
import torch
from torch import nn

from sigmascope import report, survey
from sigmascope.core.records import Check, Estimate, Finding, Profile, Reading, Shown, Verdict

LINES = 32

READING = Reading("fc", "stable rank", Estimate.exactly(3.0), "weights", "matrix")
CHECK = Check(
    "t", "s", "a ≤ b", "fc", Estimate.exactly(1.0), Estimate.exactly(2.0), "at most", (),
    Verdict.HOLDS,
)  # fmt: skip
FINDING = Finding("rank-collapse", "<b>", "error", (READING,), "It collapses.", "x 2020", ())
CLASSES = {
    "sigmascope.theory": ("Comparison",),
    "sigmascope.theory.landscape": ("Landscape", "Bends", "Surface", "Regions"),
    "sigmascope.theory.bottleneck": ("Prediction", "DepthSweep", "Bottleneck"),
    "sigmascope.diagnosis": ("Treatment",),
    "sigmascope.diagnosis.compression": ("Compression",),
    "sigmascope.theory.le2022.conservation": ("Conserved",),
    "sigmascope.core.records": ("Profile", "Finding", "Check"),
}


@pytest.fixture(scope="module")
def profile():
    torch.manual_seed(0)
    model = nn.Sequential(*(m for _ in range(12) for m in (nn.Linear(4, 4), nn.ReLU())))
    return survey.profile(model, torch.randn(8, 4))


def test_a_result_prints_what_its_command_prints():
    assert repr(CHECK) == report.text(CHECK).rstrip()
    assert "holds" in str(CHECK)
    assert "rank-collapse" in repr(FINDING)


def test_a_long_result_is_cut_to_a_screen_and_says_how_to_see_all_of_it(profile):
    lines = repr(profile).splitlines()
    whole = report.text(profile).rstrip().split("\n")
    assert len(lines) == LINES < len(whole)
    assert lines[:-1] == whole[: LINES - 1]
    assert lines[-1] == f"… {len(whole) - LINES + 1} more lines: print(sigmascope.text(result))"


def test_a_profile_that_is_shown_without_findings_is_looked_at_first():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    for p in model.parameters():
        nn.init.zeros_(p)
    shown = repr(survey.profile(model, torch.randn(8, 4)))
    assert "ERROR" in shown or "WARNING" in shown


def test_what_cannot_be_shown_says_so_and_does_not_raise(as_users_see_it):
    broken = Check("t", "s", "a", "fc", None, None, "at most", None, Verdict.HOLDS)
    assert repr(broken).startswith("<Check that cannot be shown: TypeError: ")


def test_a_notebook_gets_one_element_in_which_names_are_text():
    card = FINDING._repr_html_()
    assert card.startswith("<pre ")
    assert card.endswith("</pre>")
    assert "&lt;b&gt;" in card
    assert "<b>" not in card
    assert len(card) < 10_000


def test_a_data_frame_has_the_columns_of_the_table(profile):
    pandas = pytest.importorskip("pandas")
    frame = profile.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == list(report.table(profile))
    assert len(frame) == len(profile.readings)
    assert list(FINDING.to_pandas()["value"]) == [3.0]


def test_without_pandas_it_is_said_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install pandas.*sigmascope.report.table"):
        Profile((READING,)).to_pandas()


@pytest.mark.parametrize(
    ("room", "name"), [(room, name) for room, names in CLASSES.items() for name in names]
)
def test_results_show_themselves_and_do_not_list_their_fields(room, name):
    kind = getattr(importlib.import_module(room), name)
    assert issubclass(kind, Shown)
    assert kind.__repr__ is Shown.__repr__
