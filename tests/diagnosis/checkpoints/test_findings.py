"""What all rules say together: the worst first, and nothing of a sound checkpoint."""

import pytest
import torch

from sigmascope.diagnosis.checkpoints import RULES, Facts, scan_findings
from sigmascope.scanning import scan
from tests.diagnosis.checkpoints.made import THREE, scan_of


def test_errors_come_first():
    found = scan_findings(
        scan_of(
            THREE,
            ("a", "saturated entries", 0.1),
            ("b", "non-finite entries", 2),
            ("c", "zero rows", 0.5),
        )
    )
    assert [f.severity for f in found] == ["error", "warning", "warning"]
    assert found[0].site == "b"


def trained(generator, shape=(96, 64)):
    A = 0.02 * torch.randn(shape, generator=generator)
    u, v = (torch.randn(side, generator=generator) for side in shape)
    return A + (u / u.norm())[:, None] * (v / v.norm())


def test_of_a_sound_checkpoint_nothing_is_said():
    generator = torch.Generator().manual_seed(0)
    sound = {f"layers.{i}.mlp.up_proj.weight": trained(generator) for i in range(4)}
    assert scan_findings(scan(sound)) == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_scan_without_readings_has_no_findings(rule):
    assert not list(rule(Facts(scan_of(THREE))))
