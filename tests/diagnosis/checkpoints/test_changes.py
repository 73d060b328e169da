"""What moved between two versions, from real tensors."""

import pytest
import torch

from sigmascope.diagnosis.checkpoints import far_moved, intruders, scan_findings, unmoved
from sigmascope.records import Estimate
from sigmascope.scanning import scan
from tests.diagnosis.checkpoints.made import each, names


def weights(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {f"h.{i}.fc1.weight": torch.randn(80, 60, generator=generator) for i in range(4)}


def test_what_was_not_compared_is_not_spoken_of():
    names = {kind.name for rule in (unmoved, far_moved, intruders) for kind in rule.kinds}
    assert not names & {f.name for f in scan_findings(scan(weights()))}


def test_frozen_far_moved_and_overwritten_matrices_are_named():
    before, generator = weights(), torch.Generator().manual_seed(9)
    after = {n: W + 0.001 * torch.randn(80, 60, generator=generator) for n, W in before.items()}
    after["h.0.fc1.weight"] = before["h.0.fc1.weight"].clone()
    u, v = torch.randn(80, generator=generator), torch.randn(60, generator=generator)
    after["h.2.fc1.weight"] += 40 * (u / u.norm())[:, None] * (v / v.norm())
    found = {f.name: f for f in scan_findings(scan(before, against=after))}
    assert found["unmoved-weights"].site == "h.0.fc1.weight"
    assert "1 of 4" in found["unmoved-weights"].says
    assert found["far-moved-weights"].site == "h.2.fc1.weight"
    assert found["intruder-directions"].site == "h.2.fc1.weight"
    assert set(found) == {"unmoved-weights", "far-moved-weights", "intruder-directions"}


@pytest.mark.parametrize(
    ("name", "speaks", "silent"),
    [
        (
            "unmoved-weights",
            each("relative change", 0, 1, 1),
            each("relative change", 1e-9, 1, 1),
        ),
        (
            "far-moved-weights",
            each("relative change", 1, 1, 10),
            each("relative change", 1, 1, 9.9),
        ),
        (
            "intruder-directions",
            [("a", "relative change", 1), ("a", "intruders", Estimate(2, 1, 2, "x"))],
            [("a", "relative change", 1), ("a", "intruders", Estimate(2, 0, 2, "x"))],
        ),
    ],
)
def test_a_rule_speaks_from_its_threshold_on(name, speaks, silent):
    assert name in names(*speaks)
    assert name not in names(*silent)
