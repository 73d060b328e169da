"""Every result draws, or says why there is nothing to draw; nothing of matplotlib is moved."""

import math
import subprocess
import sys
from dataclasses import dataclass

import matplotlib as mpl
import pytest

from sigmascope import report
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Finding, Profile, Reading, Shown
from sigmascope.report.figures import Sheet, band, forest, line, places, plot, scaled, style
from tests.made_results import made, results

WITHOUT = {  # of the made ones, which hold no number of the kind that is drawn
    "Explanation": "words and no number",
    "Explanations": "words and no number",
    "RemedyTrials": "no number to draw",
    "Treatment": "no number to draw",
    "Scan": "Nothing was measured",
    "Widths": "no exponent to draw",
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
    with style():
        figure.draw_without_rendering()
    for suffix in ("pdf", "svg", "png") if kind is Profile else ():
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


def fresh(width=6.5):
    return Sheet(mpl.figure.Figure(), width)


@pytest.mark.parametrize(("count", "shown"), [(3, 3), (40, 40), (41, 40), (50, 40)])
def test_as_many_rows_are_drawn_as_a_figure_holds(count, shown):
    ax = forest(fresh(), [(f"row {i}", Estimate.exactly(1.0 + i)) for i in range(count)])
    assert [t.get_text() for t in ax.get_yticklabels()] == [f"row {i}" for i in range(shown)]
    assert [t.get_text() for t in ax.texts] == ([f"… {count - 40} more"] if count > 40 else [])
    bottom, top = ax.get_ylim()
    assert bottom > shown - 1 + (count > 40)  # all rows lie within, from top to bottom
    assert top < 0


def marks(ax):
    return {(m.get_marker(), float(m.get_xdata()[0])) for m in ax.lines if len(m.get_xdata()) == 1}


@pytest.mark.parametrize(
    ("ends", "drawn"),
    [
        ((math.inf, 1.0, math.inf), {(">", 1.0)}),
        ((-math.inf, -math.inf, 1.0), {("<", 0.0)}),
        ((2.0, 1.0, math.inf), {("o", 2.0), (">", 1.0)}),
        ((2.0, -math.inf, 3.0), {("o", 2.0), ("<", 0.0)}),
        ((2.0, 1.0, 3.0), {("o", 2.0)}),
    ],
)
def test_arrows_point_where_a_number_or_its_interval_has_no_end(ends, drawn):
    assert marks(forest(fresh(), [("row", Estimate(*ends, "made up"))])) == drawn


def test_a_second_number_is_joined_to_the_first_and_both_are_named():
    one, two = Estimate.exactly(1.0), Estimate.exactly(3.0)
    ax = forest(fresh(), [("row", one)], against=[two], names=("before", "after"))
    assert {("o", 1.0), ("s", 3.0)} <= marks(ax)
    assert any(tuple(each.get_xdata()) == (1.0, 3.0) for each in ax.lines)
    (box,) = ax.figure.legends
    assert [text.get_text() for text in box.get_texts()] == ["before", "after"]
    first, second = (
        {each.get_color() for each in ax.lines if each.get_marker() == mark} for mark in "os"
    )
    assert len(first) == len(second) == 1
    assert first != second
    toned = forest(fresh(), [("row", one)], against=[two], tones=["red"], names=("a", "b"))
    assert {each.get_color() for each in toned.lines if each.get_marker() in "os"} == {"red"}
    assert not forest(fresh(), [("row", one)], against=[two]).figure.legends


@pytest.mark.parametrize(
    ("low", "high", "drawn"),
    [
        (1.0, 2.0, (1.0, 2.0)),
        (-5.0, 2.0, (0.0, 2.0)),  # the axes stay as they are
        (1.0, 50.0, (1.0, 10.0)),
        (-5.0, 50.0, (0.0, 10.0)),
        (10.0, 12.0, None),
        (-3.0, 0.0, None),
        (1.0, math.inf, None),
        (-math.inf, 3.0, None),
    ],
)
def test_what_is_usual_is_a_band_within_the_axes(low, high, drawn):
    ax = fresh().rows(2)
    ax.set_ylim(0.0, 10.0)
    band(ax, low, high)
    assert ax.get_ylim() == (0.0, 10.0)
    boxes = [patch.get_bbox() for patch in ax.patches]
    assert [(box.y0, box.y1) for box in boxes] == ([drawn] if drawn else [])


@pytest.mark.parametrize(
    ("names", "written", "turned"),
    [
        (["a", "b", "c"], True, False),
        (["layer"] * 5, True, True),
        (["a"] * 12, True, False),
        (["a"] * 13, False, False),
        (["layer.attention"] * 5, False, False),
    ],
)
def test_names_stand_along_an_axis_where_they_are_few_and_short(names, written, turned):
    ax = fresh().rows(2)
    ax.set_xlim(0, len(names))
    places(ax, names, label="matrix")
    shown = [text.get_text() for text in ax.get_xticklabels()]
    assert (shown == names) is written
    assert ax.get_xlabel() == ("" if written else "matrix")
    assert (ax.get_xticklabels()[0].get_rotation() == 45) is turned


@pytest.mark.parametrize(
    ("count", "width", "across"), [(1, 6.5, 1), (3, 6.5, 3), (7, 6.5, 3), (4, 2.0, 1)]
)
def test_panels_stand_side_by_side_where_there_is_room(count, width, across):
    sheet = fresh(width)
    panels = sheet.panels(count)
    assert len(panels) == len(sheet.figure.axes) == count
    shapes = {ax.get_subplotspec().get_gridspec().get_geometry() for ax in panels}
    assert shapes == {(-(-count // across), across)}
    assert sheet.figure.get_figwidth() == width


def test_letters_at_axes_and_in_legends_are_of_one_size_and_headings_larger():
    with style():
        ax = fresh().rows(2)
        ax.plot([0, 1], [0, 1], label="line")
        ax.set(title="heading", xlabel="name", ylabel="name")
        legend = ax.legend()
    small = [*ax.get_xticklabels(), *ax.get_yticklabels(), *legend.get_texts()]
    large = [ax.title, ax.xaxis.label, ax.yaxis.label]
    (size,) = {text.get_fontsize() for text in small}
    (heading,) = {text.get_fontsize() for text in large}
    assert size < heading


@pytest.mark.parametrize(("count", "dots"), [(60, True), (61, False)])
def test_points_are_marked_where_they_are_few(count, dots):
    ax = fresh().rows(2)
    line(ax, range(count), [Estimate.exactly(1.0)] * count)
    assert (ax.lines[0].get_marker() == "o") is dots


def test_a_figure_of_rows_is_higher_by_the_same_for_each_but_holds_two():
    heights = []
    for count in (1, 2, 3, 10):
        sheet = fresh()
        sheet.rows(count)
        heights.append(sheet.figure.get_figheight())
    one, two, three, ten = heights
    assert one == two
    assert ten - three == pytest.approx(7 * (three - two))
    assert three > two


@dataclass(frozen=True)
class Own(Shown):
    """A result that a user derived."""

    value: float = 2.0
    low: float = 1.0
    high: float = 3.0


@dataclass(frozen=True)
class Wordy(Shown):
    value: float = 2.0
    low: float = 1.0


def test_whatever_has_a_number_with_its_ends_is_drawn():
    (ax,) = plot(Own()).axes
    assert (1.0, 3.0) in [tuple(each.get_xdata()) for each in ax.lines]
    with pytest.raises(Refusal, match="holds no numbers that could be drawn"):
        plot(Wordy())
