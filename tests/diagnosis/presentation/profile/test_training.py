from dataclasses import replace

from sigmascope.diagnosis.presentation.profile import chances_grid, training_parts
from sigmascope.records import Estimate, Profile, Reading
from sigmascope.report import text
from sigmascope.report.console import rendered


def said(profile, width=100):
    return rendered(training_parts(profile), width=width, colour=False)


def test_a_row_for_each_run(trained):
    head, first, second, third, scale, *rest = said(trained).splitlines()
    titles = ("run", "rate", "loss left", "left by then at your settings", "broke at step")
    assert " ".join(head.split()) == " ".join(titles)
    assert first.split() == ["as", "planned", "1e-4", "0.98", "–", "–"]
    assert second.split() == ["rate", "x", "10", "0.001", "0.31", "0.99", "–"]
    assert third.split() == ["rate", "x", "100", "–", "–", "–", "7"]
    assert scale.startswith("Loss left: 0 at the least loss")
    assert [line.split()[-1] for line in rest[2:]] == ["40", "400", "0.25"]


def test_without_training_there_is_no_section(profile):
    assert [*training_parts(profile)] == [*training_parts(Profile(()))] == []
    assert chances_grid(profile) is None
    assert "Training" not in text(profile, ())


def test_what_was_read_without_runs_is_told(trained):
    only = Reading("(training)", "planned steps", Estimate.exactly(9.0), "training", "as planned")
    lines = said(replace(trained, readings=(only,))).splitlines()
    assert lines == ["At your settings:", "planned steps  9"]


def test_each_probability_says_of_what(trained):
    words = " ".join(rendered([chances_grid(trained)], width=300, colour=False).split())
    assert "Probability of fitting 0.8 that plain training fits these data" in words
    yours = "Probability at your settings 0.02 that training as planned on the samples measured"
    assert yours in words


def test_it_stands_before_the_curves(trained):
    whole = text(trained, ())
    assert whole.index("\nTraining\n") < whole.index("\nOver depth\n")
    assert max(map(len, text(trained, (), width=60).splitlines())) <= 60


def test_names_of_runs_never_act(trained):
    odd = Reading("(training)", "loss left", Estimate.exactly(1.0), "training", "\x1b[31m[red]")
    words = said(replace(trained, readings=(odd,)))
    assert "\x1b" not in words
    assert "[red]" in words
