"""The diagnosis of a script as a figure: its losses as it is, and with one thing changed."""

import pytest

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate
from sigmascope.diagnosis.scripts.diagnosing import Attempt, ScriptDiagnosis
from sigmascope.diagnosis.scripts.running import Script
from sigmascope.diagnosis.scripts.seen import LossSeen, ScriptRun


def test_losses_are_drawn_as_they_are_and_with_each_change():
    run = ScriptRun(steps=3, losses={None: LossSeen(None, [3.0, 2.0, float("nan")])})
    attempt = Attempt(
        "rate", "a tenth of the rate", (2.0,), (1.0,), 3.0, Estimate.exactly(0.3), (3.0, 2.0, 1.0)
    )
    found = ScriptDiagnosis(Script("train.py"), run, (), (attempt,))
    (ax,) = found.plot().axes
    assert [list(each.get_ydata())[:2] for each in ax.lines] == [[3.0, 2.0]] * 2
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["as it is", attempt.says]


def test_a_script_of_which_nothing_was_seen_has_no_figure():
    with pytest.raises(Refusal, match="No loss was seen"):
        ScriptDiagnosis(Script("train.py"), ScriptRun(), ()).plot()
