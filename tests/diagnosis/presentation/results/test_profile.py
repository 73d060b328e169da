import re
from dataclasses import replace

import pytest

from sigmascope.core.quantities import EVERY
from sigmascope.core.records import Estimate, Fact, Layer, Profile, Reading, Skipped, Verdict
from sigmascope.diagnosis.presentation.results import (
    chances_grid,
    checks_grid,
    inapplicable,
    layers_grid,
    skipped_grid,
    sparklines_grid,
    training_parts,
    violations,
)
from sigmascope.report import text
from sigmascope.report.console import rendered
from sigmascope.report.results import Screen


def test_the_first_line_says_what_was_measured(profile, findings):
    first = text(profile, findings).splitlines()[0]
    assert first.startswith("Measured 33 of 33 layers (weights 33 of 33), 1 of them in part; ")
    assert first.endswith("; 2 measurements left out: see below.")
    unread = Layer("lost", "Linear", 33, ("lost.weight",))
    first = text(replace(profile, layers=(*profile.layers, unread)), ()).splitlines()[0]
    assert first.startswith("Measured 33 of 34 layers (weights 33 of 34)")


def test_findings_come_before_curves_and_layers(profile, findings):
    said = text(profile, findings)
    order = ["ERROR  rank-collapse", "WARNING", "NOTE", "Over depth", "Layers", "Theorems"]
    places = [said.index(word) for word in [*order, "Not measured"]]
    assert places == sorted(places)


def test_a_finding_has_evidence_source_and_remedy(profile, findings):
    said = text(profile, findings)
    assert "hidden.9.linear: participation ratio 3.362" in said
    assert "Daneshmand et al. 2020, Theorem 2" in said
    assert "Or use fewer than 9 layers." in said
    assert "adjoint norm 0.00234 [0.00187, 0.00292]" in said
    assert "the interval misses with chance at most 0.05" in said


def test_causes_are_counted_and_what_follows_is_under_its_cause(profile, findings):
    first, second, third = findings
    said = text(profile, (first, replace(second, follows=first.name), third))
    assert "2 causes: 1 error, 1 note; 1 finding follows from them; " in said
    assert "└ warning  vanishing-adjoints at hidden.2.linear  follows from rank-collapse" in said
    assert said.index("2 causes") < said.index("ERROR") < said.index("└ warning")
    assert said.index("└ warning") < said.index("NOTE")


def test_what_follows_from_nothing_that_is_shown_stands_alone(profile, findings):
    said = text(profile, (replace(findings[1], follows="rank-collapse"),))
    assert "1 cause: 1 warning; " in said
    assert "WARNING  vanishing-adjoints" in said
    assert "  follows   from rank-collapse" in said
    assert "└" not in said.partition("Over depth")[0]


def test_both_probabilities_stand_above_the_findings_and_say_of_what(trained, findings):
    said = text(trained, findings, width=300)
    places = [said.index(w) for w in ("Probability of fitting", "Probability at your", "3 causes")]
    assert places == sorted(places)
    words = " ".join(said.split())
    assert "Probability of fitting 0.8 that plain training fits these data" in words
    yours = "Probability at your settings 0.02 that training as planned on the samples measured"
    assert yours in words


def test_evidence_says_of_what_a_quantity_was_read(findings):
    read = Reading("(training)", "loss left", Estimate.exactly(0.3), "training", "rate x 10")
    said = text(replace(findings[0], evidence=(read,)))
    assert "(training): loss left, rate x 10: 0.3" in said


def test_no_findings_says_what_was_not_looked_at(profile):
    said = " ".join(text(profile, ()).split())
    assert "No findings in what was measured: no rule saw anything there" in said
    assert (
        "Not looked at: 2 entries listed as not measured; not asked for: `setup`, `balances`, "
        "`bottleneck`, `conditioning`."
    ) in said


def test_silence_means_that_every_rule_looked(profile):
    names = {
        "setup": "least loss",
        "balances": "alignment",
        "bottleneck": "balance defect",
        "conditioning": "condition of learning",
        "training": "steps tried",
    }
    more = (Reading("(model)", name, Estimate.exactly(1.0), v) for v, name in names.items())
    readings = (*profile.readings, *more)
    taken = Fact("(loss)", "taken by the loss", "setup", "any numbers")  # read of every task
    whole = replace(profile, readings=readings, skipped=(), views=EVERY, facts=(taken,))
    said = text(whole, ())
    assert "No findings: every rule looked, and saw nothing that hinders training." in said
    assert "Not looked at" not in said


@pytest.mark.parametrize("width", [60, 100, 180])
def test_no_line_is_wider_than_the_terminal(hostile, hostile_findings, width):
    assert max(map(len, text(hostile, hostile_findings, width=width).splitlines())) <= width


@pytest.mark.parametrize("colour", [False, True])
def test_names_are_shown_and_never_act(hostile, hostile_findings, colour):
    said = text(hostile, hostile_findings, colour=colour, width=200)
    assert "<script>alert(1)</script>" in said
    assert "[bold red]markup[/bold red] :smile: [/]" in said
    for acting in ("\x07", "\u2028", "\u202e", "\u200b", "\x1b[31mred"):
        assert acting not in said
    assert ("\x1b" in said) is colour


def test_colour_changes_no_word(profile, findings):
    coloured = re.sub(r"\x1b\[[0-9;]*m", "", text(profile, findings, colour=True))
    trimmed = "\n".join(line.rstrip() for line in coloured.splitlines())
    assert trimmed == text(profile, findings)


def test_the_environment_changes_nothing(profile, findings, monkeypatch):
    before = text(profile, findings)
    for name, value in {"COLUMNS": "40", "FORCE_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    assert text(profile, findings) == before


def deep(count):
    layers = tuple(Layer(f"block.{i}", "Linear", i) for i in range(count))
    readings = tuple(
        Reading(s.site, "participation ratio", Estimate.exactly(2.0), "representations", "samples")
        for s in layers
    )
    return Profile(readings=readings, layers=layers)


def test_long_names_lose_their_middle_and_not_their_end(profile):
    layers = tuple(Layer(f"encoder.stages.{i}.second.convolution", "Conv2d", i) for i in range(9))
    named = tuple(replace(r, site=layers[i].site) for i, r in enumerate(profile.readings[:9]))
    said = text(Profile(named, layers=layers), (), width=50).split("Layers")[-1]
    assert said.count("…") == said.count("volution") == 9


def test_the_middle_of_a_deep_net_is_left_out_unless_asked(profile):
    short, long = text(deep(200), ()), text(deep(200), (), whole=True)
    assert "… 172 more" in short
    assert "block.100" not in short
    assert "block.199" in short
    assert all(f"block.{i}" in long for i in range(200))
    assert all(layer.site in text(profile, ()) for layer in profile.layers)  # 33 are not deep


def test_where_a_finding_begins_is_never_left_out(findings):
    moved = replace(findings[0], site="block.100", evidence=())
    table = text(deep(200), (moved,)).split("Layers")[-1]
    assert "block.100" in table
    assert "… 86 more" in table


def test_sites_left_out_for_one_reason_share_a_row_unless_asked():
    skipped = tuple(Skipped(f"block.{i}", "centred", "one sample") for i in range(9))
    gone = replace(deep(9), skipped=skipped)
    assert "block.0 and 8 more" in text(gone, ())
    assert text(gone, ()).splitlines()[0].endswith("; 9 measurements left out: see below.")
    assert text(gone, (), whole=True).count("one sample") == 9


def test_a_violated_theorem_is_spelled_out_with_both_its_sides(profile):
    broken = replace(profile.checks[3], verdict=Verdict.VIOLATED, measured=Estimate.exactly(2.0))
    line = "rank-participation is violated at hidden.3.linear: 2 is not at least 16.29"
    assert line in text(replace(profile, checks=(broken,)), ())
    (line,) = violations(replace(profile, checks=(replace(broken, site="x\x1b"),)))
    assert "is violated at x" in line
    assert "\x1b" not in line


def test_an_empty_profile_has_a_report():
    said = text(Profile(readings=()), ())
    assert said.startswith("Measured 0 of 0 layers (weights 0 of 0); nothing left out.")


def test_fewer_quantities_are_shown_where_there_is_less_room(profile):
    wide, narrow = (layers_grid(profile, frozenset(), Screen(width)) for width in (160, 50))
    assert len(narrow.columns) < len(wide.columns)
    assert len(narrow.columns) >= 3


def test_curves_are_as_long_as_there_is_room(profile):
    wide, narrow = (sparklines_grid(profile, Screen(width)) for width in (160, 80))
    drawn = [max(len(str(cell)) for cell in table.columns[1].cells) for table in (wide, narrow)]
    assert drawn == [33, 12]


def test_of_nothing_there_are_no_tables():
    empty = Profile(())
    assert layers_grid(empty, frozenset(), Screen()) is sparklines_grid(empty, Screen()) is None
    assert checks_grid(empty) is skipped_grid((), Screen()) is None
    assert violations(empty) == ()
    assert inapplicable(empty) == ""


def test_a_row_a_theorem_that_said_something(profile):
    table = checks_grid(profile)
    assert [str(cell) for cell in table.columns[0].cells] == ["rank-participation"]
    assert [*table.columns[1].cells] == ["33"]
    assert inapplicable(profile) == "1 more does not apply here: gradient-collinearity."


def test_where_none_speaks_there_is_a_line_and_no_table(profile):
    silent = tuple(replace(c, verdict=Verdict.INAPPLICABLE) for c in profile.checks)
    quiet = replace(profile, checks=silent)
    assert checks_grid(quiet) is None
    names = "rank-participation, gradient-collinearity"
    assert inapplicable(quiet) == f"Of 2 that were looked at none applies here: {names}."


def test_a_theorem_that_was_violated_once_is_not_left_out(profile):
    mixed = tuple(replace(c, verdict=Verdict.INAPPLICABLE) for c in profile.checks[:9])
    broken = replace(profile.checks[9], verdict=Verdict.VIOLATED)
    table = checks_grid(replace(profile, checks=(*mixed, broken)))
    assert [[*column.cells] for column in table.columns[1:6]] == [["·"], ["·"], ["·"], ["1"], ["9"]]


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


def test_it_stands_before_the_curves(trained):
    whole = text(trained, ())
    assert whole.index("\nTraining\n") < whole.index("\nOver depth\n")
    assert max(map(len, text(trained, (), width=60).splitlines())) <= 60


def test_names_of_runs_never_act(trained):
    odd = Reading("(training)", "loss left", Estimate.exactly(1.0), "training", "\x1b[31m[red]")
    words = said(replace(trained, readings=(odd,)))
    assert "\x1b" not in words
    assert "[red]" in words


def test_of_several_weights_of_a_layer_the_table_has_the_least_and_the_most():
    one = lambda site, value: Reading(
        site, "stable rank", Estimate.exactly(value), "weights", "matrix"
    )
    weights = ("rnn.ih", "rnn.hh")
    layers = (Layer("rnn", "LSTM", 0, weights), Layer("out", "Linear", 1, ("out.weight",)))
    readings = (one("rnn.ih", 5.5), one("rnn.hh", 2.25), one("out.weight", 3.75))
    table = rendered(
        [layers_grid(Profile(readings=readings, layers=layers), frozenset(), Screen())],
        colour=False,
        width=100,
    )
    first, second = (line for line in table.splitlines() if re.match(r" ?[01] ", line))
    assert "2.25–5.5" in first
    assert second.split()[-1] == "3.75"
