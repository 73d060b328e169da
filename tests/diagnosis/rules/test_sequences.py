"""Rules on sequences: each next to its threshold, and on models that have the fault or not."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.core.records import Estimate, Profile, Skipped
from sigmascope.diagnosis import judge
from sigmascope.diagnosis.rules.sequences import (
    COUNTED,
    copied_targets,
    counted_padding,
    exploding_through_time,
    later_inputs_seen,
    skipped_inputs,
    unseen_order,
    vanishing_through_time,
)
from tests.diagnosis.readings import ABOVE, BELOW, profile, reading, said
from tests.diagnosis.rules.test_training import runs

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


@pytest.mark.parametrize(("change", "found"), [
    (0.0, {"unseen-order": "warning"}), (1e-6, {}),
])  # fmt: skip
def test_an_order_that_nobody_sees(change, found):
    assert said(unseen_order, reading("dependence on order", change), count=3) == found


@pytest.mark.parametrize("kind", ["pooled", "of the first", "of places"])
@pytest.mark.parametrize("told", [True, False])
def test_attention_sees_no_order_where_it_is_told_no_positions(told, kind):
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(V, D)
            self.places = nn.Parameter(torch.randn(T, D))
            layer = nn.TransformerEncoderLayer(D, 2, D, batch_first=True, dropout=0.0)
            self.encode = nn.TransformerEncoder(layer, 2)
            self.write = nn.Linear(D, 3)

        def forward(self, ids):
            h = self.encode(self.embed(ids) + (self.places if told else 0))
            out = h.mean(1) if kind == "pooled" else h[:, 0] if kind == "of the first" else h
            return self.write(out)

    torch.manual_seed(0)
    found = judge(survey.profile(Attends(), torch.randint(V, (N, T)), views=("setup",)))
    assert ("unseen-order" in [f.name for f in found]) is not told


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


@pytest.mark.parametrize(("share", "speaks"), [(0.99 * ABOVE, True), (0.99 * BELOW, False)])
def test_targets_that_are_shifted_twice(share, speaks):
    told = said(skipped_inputs, reading("skipped inputs", share, **HERE), count=3)
    assert told == ({"skipped-inputs": "warning"} if speaks else {})


def test_where_the_program_draws_what_counts_a_copy_may_be_hidden():
    """As in a masked autoencoder, whose forward hides places and gives the mask."""
    rows = [reading("targets that are inputs", 1.0, **HERE), reading("chance copies", 0.1, **HERE)]
    drawn = Skipped("(loss)", COUNTED, "the model draws it")
    assert [*copied_targets(Profile(tuple(rows)))]
    assert not [*copied_targets(Profile(tuple(rows), skipped=(drawn,)))]


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
    return {f.name for f in judge(measured)} & names


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


def over_steps(total, steps=11):
    """Of a recurrent layer in which a gradient grows by `total` from the last step to the first."""
    return reading("steps", steps), reading("step factor", total ** (1 / (steps - 1)))


@pytest.mark.parametrize(("total", "found"), [
    (1e3 * ABOVE, {"exploding-through-time": "warning"}), (1e3 * BELOW, {}), (1e-6 * ABOVE, {}),
    *((t, {"vanishing-through-time": "note"}) for t in (1e-6 * BELOW, 1e-300, 0.0)),
])  # fmt: skip
def test_gradients_over_steps(total, found):
    facts = over_steps(total)
    told = said(exploding_through_time, *facts) | said(vanishing_through_time, *facts)
    assert told == found


def test_the_interval_decides_and_large_numbers_are_said():
    at = lambda steps, factor: (reading("steps", steps), reading("step factor", factor))
    assert said(exploding_through_time, *at(11, Estimate(1.999, 1.9, 2.2, "wide"))) == {}
    assert said(vanishing_through_time, *at(11, Estimate(0.2511, 0.2, 0.2513, "wide"))) == {}
    (finding,) = exploding_through_time(profile(*at(3001, 2.0)))
    assert "1e903 times over the 3001 steps" in finding.says
    (finding,) = vanishing_through_time(profile(*at(100, 0.5)))
    assert "those more than 10 before the last" in finding.says  # 0.5^10 is a thousandth


@pytest.mark.parametrize(
    ("left", "longer", "severity"),
    [
        (1.0, 0.7 * BELOW, "warning"),
        (1.0, 0.7, "note"),
        (1.0, 0.9 * ABOVE, "note"),
        (0.6, 0.5, "note"),
        (1.0, None, "note"),
    ],
)
def test_a_longer_memory_that_helps_makes_it_a_warning(left, longer, severity):
    others = () if longer is None else (("longer memory", longer, None),)
    (finding,) = vanishing_through_time(profile(*over_steps(1e-9), *runs(left, *others)))
    assert finding.severity == severity
    assert ("nothing else changed" in finding.says) is (severity == "warning")


@pytest.mark.parametrize(
    ("left", "longer", "severity", "told"),
    [
        (math.inf, 1.0, "error", True),
        (math.inf, math.inf, "warning", False),
        (math.inf, None, "warning", False),
        (5.0, BELOW, "error", True),
        (5.0, 1.0, "warning", False),
        (0.94, 0.7 * 0.94 * BELOW, "warning", True),
        (0.94, 0.7 * 0.94, "warning", False),
    ],
)
def test_an_explosion_on_which_training_breaks(left, longer, severity, told):
    others = () if longer is None else (("longer memory", longer, None),)
    (finding,) = exploding_through_time(profile(*over_steps(1e9), *runs(left, *others)))
    assert finding.severity == severity
    assert ("nothing else changed" in finding.says) is told


class Unrolled(nn.Module):
    """A recurrence written as a loop, from a state that nothing of the batch has made."""

    def __init__(self, kind, state):
        super().__init__()
        self.kind, self.state = kind, state
        if kind == "by hand":
            self.inner, self.outer = nn.Linear(D, D), nn.Linear(3, D)
        else:
            self.cell = getattr(nn, kind)(3, D)
        self.last = nn.Linear(D, 4)
        self.learned = nn.Parameter(torch.randn(1, D)) if state == "learned" else None

    def forward(self, x):
        h = x.new_zeros(len(x), D) if self.learned is None else self.learned.expand(len(x), -1)
        h = torch.ones_like(h) if self.state == "ones" else h
        c = torch.zeros_like(h)
        for t in range(x.shape[1]):
            if self.kind == "by hand":
                h = (self.outer(x[:, t]) + self.inner(h)).relu()
            elif self.kind == "LSTMCell":
                h, c = self.cell(x[:, t], (h, c))
            else:
                h = self.cell(x[:, t], h)
        return self.last(h)


@pytest.mark.parametrize("kind", ["by hand", "RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("state", ["zeros", "ones", "learned"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_a_first_state_is_no_fault(kind, state, seed):
    """Nothing is dead, lost, alike or out of scale because a state begins somewhere."""
    torch.manual_seed(seed)
    model, x = Unrolled(kind, state), torch.randn(32, 6, 3)
    y = (x[:, -1].sum(1) > 0).long()
    names = {f.name for f in judge(survey.profile(model, x, targets=y, loss=F.cross_entropy))}
    assert not names & {
        "dead-units", "silent-samples", "lost-inputs", "alike-inputs", "unscaled-inputs",
        "repeated-inputs", "rank-collapse", "saturated-units",
    }  # fmt: skip
