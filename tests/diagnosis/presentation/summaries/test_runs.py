import pytest

from sigmascope.diagnosis.presentation.summaries import COLUMNS, YOURS, chances, facts, runs
from sigmascope.quantities import quantities
from sigmascope.records import Estimate, Profile


def test_a_run_has_what_was_read_of_it(trained):
    first, second, third = runs(trained)
    assert (first.form, second.form, third.form) == ("as planned", "rate x 10", "rate x 100")
    assert {q: e.value for q, e in first.numbers.items()} == {"rate": 1e-4, "loss left": 0.98}
    assert second.numbers["loss left by then"].value == 0.99
    assert {q: e.value for q, e in third.numbers.items()} == {"broke at step": 7.0}


def test_nothing_of_training_is_told_twice(trained):
    told = [r.quantity for r in facts(trained)]
    assert told == ["steps tried", "planned steps", "score"]
    assert not {*told} & {*COLUMNS, YOURS}


def test_both_probabilities_say_of_what(trained):
    usual, yours = chances(trained)
    assert (usual.name, usual.estimate.value) == ("probability of fitting", 0.8)
    assert "usual learning rates" in usual.says
    assert (yours.name, yours.estimate) == (YOURS, Estimate.exactly(0.02))
    assert yours.says == quantities()[YOURS].says


@pytest.mark.parametrize("read", [runs, facts, chances])
def test_without_training_there_is_nothing(read, profile):
    assert read(profile) == read(Profile(readings=())) == ()


def test_every_column_is_a_quantity_of_training():
    assert all("training" in quantities()[name].views for name in (*COLUMNS, YOURS))
