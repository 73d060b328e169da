"""What four papers prove, as figures: both sides of a theorem, conditioning, planes and regions."""

import math
from itertools import pairwise

import pytest
import torch
from matplotlib.colors import to_rgb
from torch.nn import functional as F

from sigmascope import theory
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Change, Check, Estimate, Verdict
from sigmascope.models.networks import mlp
from sigmascope.report.figures import COLOURS
from sigmascope.theory.bottleneck.depths import Trained, read_sweep
from sigmascope.theory.presentation import Checks

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(16, 6, generator=GENERATOR)
Y = torch.randint(3, (16,), generator=GENERATOR)
NET = mlp(inputs=6, outputs=3, width=8, depth=2, generator=GENERATOR)
TASK = {"targets": Y, "loss": F.cross_entropy}


def check(verdict, value=1.0):
    sides = (Estimate.exactly(value), Estimate.exactly(2.0))
    return Check("name", "source", "a <= b", "layer", *sides, "at most", (), verdict)


def test_violated_theorems_stand_first_and_those_that_do_not_speak_are_left_out():
    silent = Check("x", "s", "a", "b", None, None, "at most", (), Verdict.INAPPLICABLE)
    figure = Checks((silent, check(Verdict.HOLDS, 1.5), check(Verdict.VIOLATED, 9.0))).plot()
    ax = figure.axes[0]
    assert len(ax.get_yticklabels()) == 2
    first = [drawn.get_xdata() for drawn in ax.lines if list(drawn.get_ydata()) == [0]]
    assert 9.0 in [float(x[0]) for x in first]
    with pytest.raises(Refusal, match="No theorem speaks"):
        Checks((silent,)).plot()


def test_what_moved_farthest_stands_first_and_what_stayed_is_left_out():
    """By its factor, up or down; what came from nothing, or went to it, before all others."""
    between = {"three": (1.0, 3.0), "half": (2.0, 1.0), "new": (0.0, 1.0), "tenth": (1.0, 0.1),
               "gone": (1.0, 0.0), "same": (1.0, 1.0)}  # fmt: skip
    moves = tuple(
        Change(site, "norm", "weights", "", *map(Estimate.exactly, ends))
        for site, ends in between.items()
    )
    ax = theory.comparing.Comparison(moves, (), {}, ()).plot().axes[0]
    drawn = [label.get_text().split()[-1] for label in ax.get_yticklabels()]
    assert drawn == ["new", "gone", "tenth", "three", "half"]
    (still,) = (c for c in moves if c.site == "same")
    ax = theory.comparing.Comparison((still,), (), {}, ()).plot().axes[0]
    assert len(ax.get_yticklabels()) == 1
    with pytest.raises(Refusal, match="no quantity in common"):
        theory.comparing.Comparison((), (), {}, ()).plot()


def test_conditioning_is_drawn_for_every_variant():
    found = theory.landscape.landscape(NET, X, **TASK)
    ax = found.plot((found,)).axes[0]
    assert [len(drawn.get_ydata()) for drawn in ax.lines] == [len(found.layers)] * 2
    values = [layer.condition.value for layer in found.layers]
    assert values == pytest.approx(list(ax.lines[0].get_ydata()))


def test_a_plane_is_drawn_with_level_lines_and_a_line_as_a_line():
    plane = theory.landscape.loss_surface(NET, X, **TASK, points=5, generator=GENERATOR)
    assert len(plane.plot().axes) == 2  # with the bar of colours
    other = {name: p + 0.1 for name, p in NET.state_dict().items()}
    ax = theory.landscape.loss_line(NET, other, X, **TASK, points=5).plot().axes[0]
    assert len(ax.lines[0].get_ydata()) == 5


def test_every_region_is_a_polygon():
    found = theory.landscape.input_regions(NET, X)
    shapes = found.plot().axes[0].collections[0]
    assert len(shapes.get_paths()) == len(found.partition.polygons)


def test_eigenvalues_are_drawn_as_the_share_that_is_at_least_as_large():
    bends = theory.landscape.curvature(NET, X, **TASK)
    ys = bends.plot().axes[0].lines[0].get_ydata()
    assert ys[0] == pytest.approx(1.0)
    assert all(a >= b for a, b in pairwise(ys))
    few = theory.landscape.curvature(NET, X, **TASK, only=["top"])
    assert len(few.plot().axes[0].get_yticklabels()) == 1


def test_a_prediction_falls_with_the_gap():
    found = theory.bottleneck.predict(width=8, depth=20)
    ax = found.plot().axes[0]
    xs, ys = ax.lines[1].get_data()
    slope = (math.log(ys[-1]) - math.log(ys[0])) / (xs[-1] - xs[0])
    assert slope == pytest.approx(-found.gap.value)


def test_the_balances_that_are_conserved_are_drawn():
    found = theory.le2022.conservation.conserved(NET, X, targets=Y, loss=F.cross_entropy)
    assert len(found.plot().axes[0].get_yticklabels()) == len(found.invariants)


@pytest.mark.parametrize("outputs", [3, 1])
def test_a_region_has_the_colour_of_what_is_answered_there(outputs):
    """The class of the largest score; of one score, its sign."""
    net = mlp(inputs=6, outputs=outputs, width=8, depth=2, generator=GENERATOR)
    with torch.no_grad():  # so that no answer is that of all samples
        net.readout.bias.sub_(net(X[:3]).mean(0))
    found = theory.landscape.input_regions(net, X)
    scores = found.partition.outputs
    answers = scores.argmax(1) if outputs > 1 else (scores[:, 0] > 0).long()
    faces = found.plot().axes[0].collections[0].get_facecolors()
    expected = [to_rgb(COLOURS[int(a)]) for a in answers]
    assert [tuple(face[:3]) for face in faces] == [pytest.approx(e) for e in expected]
    assert len(answers.unique()) > 1


def test_a_sweep_shows_what_each_network_uses_and_which_do_not_fit():
    """At two penalties: a mark and its interval on the left, the norm on the right."""
    networks = [
        Trained(depth, ridge, 0, 0.01, norm, (2, 2, 2), (2, 1, 3), 70.0, fits)
        for depth, ridge, norm, fits in ((4, 0.1, 20, True), (8, 0.1, 30, False), (4, 0.2, 9, True))
    ]
    left, right = read_sweep(networks).plot().axes
    ends, marks = left.lines[::2], left.lines[1::2]
    assert [[*map(float, e.get_xdata())] for e in ends] == [[4, 4], [8, 8], [4, 4]]
    assert [[*map(float, e.get_ydata())] for e in ends] == [[1, 3]] * 3
    assert [float(m.get_ydata()[0]) for m in marks] == [2, 2, 2]
    hollow = [m.get_markerfacecolor() == "white" for m in marks]
    assert hollow == [False, True, False]
    assert [float(d.get_ydata()[0]) for d in right.lines if len(d.get_ydata())] == [20, 30, 9]
    assert [t.get_text() for t in right.get_legend().get_texts()] == ["λ = 0.1", "λ = 0.2"]
