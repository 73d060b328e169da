"""Weights with a mean, from their threshold on and not before it, as docs/findings.md has it."""

import pytest

from sigmascope.diagnosis.rules.initialisation import asymmetric_weights
from tests.diagnosis.readings import ABOVE, profile, reading


@pytest.mark.parametrize(
    ("values", "speaks"),
    [
        ((2 * ABOVE, 2 * ABOVE, 0.1), True),
        ((2.0, 2.0, 0.1), False),
        ((3.0, 3.0), False),  # three layers at least
        ((3.0, 3.0, 0.1, 0.1), False),  # most of them
    ],
)
def test_how_many_weights_may_have_a_mean(values, speaks):
    shifts = [
        reading("mean shift", v, f"layer {i}.weight", view="weights") for i, v in enumerate(values)
    ]
    found = list(asymmetric_weights(profile(*shifts, count=len(values))))
    assert bool(found) is speaks


def test_the_worst_weight_and_the_first_are_shown():
    def shown(*values):
        shifts = [
            reading("mean shift", v, f"layer {i}.weight", view="weights")
            for i, v in enumerate(values)
        ]
        (found,) = asymmetric_weights(profile(*shifts, count=len(values)))
        assert found.site == "layer 0.weight"
        return [r.site for r in found.evidence]

    assert shown(3.0, 5.0, 0.1) == ["layer 1.weight", "layer 0.weight"]
    assert shown(5.0, 3.0, 0.1) == ["layer 0.weight"]
