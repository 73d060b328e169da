"""Rules on sequences: each next to its threshold, and on models that have the fault or not."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.diagnosis.rules import diagnose
from sigmascope.diagnosis.rules.sequences import copied_targets, counted_padding, later_inputs_seen
from tests.diagnosis.readings import ABOVE, BELOW, profile, reading, said

N, T, V, D = 16, 12, 20, 24
HERE = {"site": "(input ids)"}


@pytest.mark.parametrize(("change", "found"), [
    (1e-3 * ABOVE, {"later-inputs-seen": "error"}), (1e-3, {}), (0.0, {}),
])  # fmt: skip
def test_later_inputs(change, found):
    both = (
        reading("next inputs", 1.0, **HERE),
        reading("dependence on later inputs", change, **HERE),
    )
    assert said(later_inputs_seen, *both, count=3) == found


@pytest.mark.parametrize(("same", "after", "chance", "found"), [
    (0.99 * ABOVE, 0.1, 0.1, {"copied-targets": "warning"}),
    (0.99, 0.1, 0.1, {}),
    (1.0, 0.1, 0.5, {}),  # rows that are all alike
    (1.0, 0.1, 0.5 * BELOW, {"copied-targets": "warning"}),
    (1.0, 0.99 * ABOVE, 0.1, {}),
])  # fmt: skip
def test_copies(same, after, chance, found):
    values = {"targets that are inputs": same, "next inputs": after, "chance copies": chance}
    readings = [reading(q, v, **HERE) for q, v in values.items()]
    assert said(copied_targets, *readings, count=3) == found


def test_another_input_that_holds_the_targets_is_no_copy():
    """As in translation, where the decoder reads the targets one place late."""
    rows = [reading("targets that are inputs", 1.0, "(input a)"),
            reading("chance copies", 0.1, "(input a)"),
            reading("next inputs", 1.0, "(input b)")]  # fmt: skip
    assert said(copied_targets, *rows, count=3) == {}


@pytest.mark.parametrize(
    ("share", "found"), [(0.05 * ABOVE, {"counted-padding": "warning"}), (0.05, {})]
)
def test_padding(share, found):
    r = reading("counted padding", share, "(targets)", form="id 3")
    assert said(counted_padding, r, count=3) == found
    if found:
        (finding,) = counted_padding(profile(r, count=3))
        assert "ignore_index=3" in finding.remedies[0]


class Model(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.read, self.places = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D))
        self.block = nn.TransformerEncoderLayer(D, 2, 2 * D, batch_first=True)
        self.write, self.causal = nn.Linear(D, V), causal

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(T) if self.causal else None
        return self.write(self.block(self.read(ids) + self.places, src_mask=mask))


def told(causal, x, t, **options):
    torch.manual_seed(0)
    loss = lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten(), **options)
    measured = survey.profile(Model(causal), x, targets=t, loss=loss, views=["setup"])
    names = {"later-inputs-seen", "copied-targets", "counted-padding"}
    return {f.name for f in diagnose(measured)} & names


def test_transformers_with_each_fault_and_without():
    rows = torch.randint(1, V, (N, T + 1), generator=torch.Generator().manual_seed(0))
    x, t = rows[:, :-1], rows[:, 1:]
    assert told(True, x, t) == set()
    assert told(False, x, t) == {"later-inputs-seen"}
    assert told(True, x, x) == {"copied-targets"}
    hidden = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.2
    assert told(False, x.masked_fill(hidden, 0), x.masked_fill(~hidden, -100)) == set()
    for row, length in enumerate(torch.arange(3, 11).repeat(2).tolist()):
        rows[row, length:] = 0
    assert told(True, rows[:, :-1], rows[:, 1:]) == {"counted-padding"}
    assert told(True, rows[:, :-1], rows[:, 1:], ignore_index=0) == set()
