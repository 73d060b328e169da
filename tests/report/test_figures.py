"""Every result draws, or says why there is nothing to draw; nothing of matplotlib is moved."""

import math
import subprocess
import sys

import matplotlib as mpl
import pytest

from sigmascope import report
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Finding, Profile, Reading, Shown
from sigmascope.report.figures import Sheet, forest, line, plot, scaled, style
from tests.made_results import made, results

WITHOUT = {  # of the made ones, which hold no number of the kind that is drawn
    "Explanation": "words and no number",
    "Explanations": "words and no number",
    "RemedyTrials": "no number to draw",
    "Treatment": "no number to draw",
    "Scan": "Nothing was measured",
}


@pytest.mark.parametrize("kind", results(), ids=lambda kind: kind.__name__)
def test_every_result_is_a_figure_or_says_why_not(kind, tmp_path):
    result = made(kind)
    if kind.__name__ in WITHOUT:
        with pytest.raises(Refusal, match=WITHOUT[kind.__name__]):
            result.plot()
        return
    figure = result.plot()
    assert any(ax.has_data() for ax in figure.axes)
    for suffix in ("pdf", "svg", "png"):
        figure.savefig(tmp_path / f"figure.{suffix}")
        assert (tmp_path / f"figure.{suffix}").stat().st_size > 1000


def profile_of(*estimates, site="layer"):
    readings = [
        Reading(f"{site} {i}", "stable rank", e, "weights", "matrix")
        for i, e in enumerate(estimates)
    ]
    return Profile(readings=tuple(readings))


def test_nothing_of_the_users_matplotlib_is_touched_and_no_window_is_made(tmp_path):
    code = """
import sys, matplotlib as mpl
mpl.rcParams["font.size"] = 23
settings = lambda: {k: mpl.rcParams[k] for k in mpl.rcParams if k != "backend"}
before = settings()
from sigmascope.core.records import Estimate, Profile, Reading
from sigmascope import report
e = Estimate(2.0, 1.0, 3.0, "exact")
figure = Profile((Reading("a", "stable rank", e, "weights"),) * 2).plot()
figure.savefig(sys.argv[1])
assert settings() == before
assert "matplotlib.pyplot" not in sys.modules
"""
    call = [sys.executable, "-c", code, str(tmp_path / "figure.png")]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_names_from_outside_are_never_taken_for_mathematics_or_for_commands(tmp_path):
    odd = "$\\frac{1}{0$\x1b\udc80"
    estimate = Estimate(1.0, 0.5, 2.0, "exact")
    finding = Finding(odd, odd, "error", profile_of(estimate, site=odd).readings, odd, odd)
    for result in (profile_of(estimate, estimate, site=odd), finding):
        for suffix in ("svg", "pdf"):
            result.plot().savefig(tmp_path / f"odd.{suffix}")
        written = (tmp_path / "odd.svg").read_bytes()
        assert b"\\frac{1}{0" in written
        assert b"\x1b" not in written


def test_intervals_are_drawn_where_they_end_and_an_infinite_end_is_an_arrow():
    with style():
        figure = plot(profile_of(Estimate(2.0, 1.0, 4.0, "exact"))).figure
    (ax,) = figure.axes
    ends = [tuple(drawn.get_xdata()) for drawn in ax.lines]
    assert (1.0, 4.0) in ends
    marks = [drawn.get_marker() for drawn in plot(_endless()).axes[0].lines]
    assert ">" in marks
    assert "<" not in marks


def _endless():
    finding = made(Finding)
    reading = Reading("a", "stable rank", Estimate(1.0, 0.5, math.inf, "exact"), "weights")
    return Finding(finding.name, "a", "note", (reading,), finding.says, finding.source)


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1.0, 2.0], "linear"),
        ([1e-6, 2.0], "log"),
        ([0.0, 1e-6, 2.0], "symlog"),
        ([-3.0, 1e-6, 2.0], "symlog"),
        ([math.inf, 2.0], "linear"),
        ([], "linear"),
    ],
)
def test_decades_are_drawn_on_a_logarithmic_axis(values, scale):
    figure = mpl.figure.Figure()
    ax = figure.add_subplot()
    scaled(ax, values)
    assert ax.get_yscale() == scale


def test_a_line_has_a_gap_where_nothing_was_read():
    ax = mpl.figure.Figure().add_subplot()
    line(ax, [0, 1, 2], [Estimate.exactly(1.0), None, Estimate.exactly(2.0)])
    assert [math.isnan(v) for v in ax.lines[0].get_ydata()] == [False, True, False]


def test_of_very_many_rows_those_that_are_left_out_are_counted():
    sheet = Sheet(mpl.figure.Figure(), 6.5)
    ax = forest(sheet, [(f"row {i}", Estimate.exactly(1.0 + i)) for i in range(50)])
    assert any("10 more" in text.get_text() for text in ax.texts)


@pytest.mark.parametrize("width", [0.0, 1.0, 100.0, math.nan, math.inf, -3.0])
def test_a_width_that_is_none_is_refused(width):
    with pytest.raises(Refusal, match="inches"):
        made(Profile).plot(width=width)


def test_what_a_figure_does_not_take_is_named():
    with pytest.raises(TypeError, match=r"`colour=` says nothing.*`quantities=`"):
        made(Profile).plot(colour="red")


def test_what_is_no_result_is_refused():
    for odd in (3, "profile", None, object()):
        with pytest.raises(TypeError, match="result"):
            report.plot(odd)


def test_a_figure_shows_in_a_notebook_and_is_as_wide_as_asked():
    figure = profile_of(*[Estimate.exactly(1.0 + i) for i in range(5)]).plot(width=3.3)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert figure.get_figwidth() == 3.3


def test_the_same_result_is_the_same_file(tmp_path):
    content = []
    for name in ("a.svg", "b.svg"):
        made(Profile).plot().savefig(tmp_path / name, metadata={"Date": None})
        content.append((tmp_path / name).read_bytes())
    assert content[0] == content[1]


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"sigmascope\[figures\]"):
        made(Profile).plot()


def test_several_results_of_one_kind_are_one_figure():
    found = (made(Finding), made(Finding))
    assert report.plot(found).axes[0].has_data()
    assert issubclass(Finding, Shown)
