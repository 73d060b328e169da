import math
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.gate import memory
from sigmascope.probes import Subject
from sigmascope.survey.views.gradients import Gradient, OwnModes, alike


@pytest.mark.parametrize("layout", ["strided", "sparse"])
def test_of_a_gradient_its_sizes_are_kept(layout):
    dense = torch.tensor([[3.0, 0.0], [0.0, -4.0]])
    given = dense if layout == "strided" else dense.to_sparse()
    kept = Gradient.of(given, whole=False)
    assert kept == Gradient(25.0, 4.0, 0, None)
    assert torch.equal(Gradient.of(given, whole=True).entries, dense)


@pytest.mark.parametrize(("odd", "bad"), [(math.inf, 1), (-math.inf, 1), (math.nan, 1)])
def test_entries_that_are_not_finite_are_counted(odd, bad):
    kept = Gradient.of(torch.tensor([1.0, odd]), whole=False)
    assert kept.bad == bad
    assert kept.largest != 0  # something is there


def test_of_complex_gradients_the_larger_part_counts(as_users_see_it):
    found = Gradient.of(torch.tensor([1 - 4j, 2 + 1j]), whole=False)
    assert (found.largest, found.square, found.bad) == (4, 22, 0)


def test_the_smallest_numbers_are_not_nothing():
    """Their squares are zero in float64 too."""
    kept = Gradient.of(torch.tensor([1e-200], dtype=torch.float64), whole=False)
    assert kept.square == 0
    assert kept.largest == 1e-200
    assert Gradient.of(torch.zeros(0, 3), whole=False).largest == 0


def networks():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 400), nn.Tanh(), nn.Linear(400, 3))
    nn.init.constant_(model[2].weight, 0.5)
    return model, torch.randn(40, 6), torch.randint(0, 3, (40,))


def test_weights_whose_rows_are_all_the_same_are_found_and_kept():
    model, x, y = networks()
    subject = Subject(model, x, y, F.cross_entropy)
    assert list(alike(subject)) == [("2.weight", 3)]
    nn.init.zeros_(model[2].weight)
    assert not [*alike(subject)]
    nn.init.constant_(model[2].weight, 0.5)
    kept = OwnModes(subject).gradients()
    F.cross_entropy(model(x), y).backward()
    torch.testing.assert_close(kept["2.weight"].entries, model[2].weight.grad)
    assert {n for n, g in kept.items() if g.entries is not None} == {"2.weight"}
    for name, p in model.named_parameters():
        assert math.isclose(kept[name].square, float(p.grad.double().square().sum()), rel_tol=1e-6)


def test_pieces_of_the_batch_add_up_to_the_same():
    model, x, y = networks()
    model.eval()
    whole = OwnModes(Subject(model, x, y, F.cross_entropy)).gradients()
    with memory(200_000):  # a few samples at a time, and a few parameters
        subject = Subject(model, x, y, F.cross_entropy)
        assert subject.part.count < subject.count
        found = OwnModes(subject).gradients()
    assert list(found) == list(whole)
    for name, g in whole.items():
        assert math.isclose(found[name].square, g.square, rel_tol=1e-5)


def test_dropout_is_counted_on_as_few_samples_as_tell_it():
    """A model that takes batches of one size alone is run on all."""
    runs = []

    class Wide(nn.Sequential):
        def forward(self, x):
            runs.append(len(x))
            if self.fixed and len(x) != self.fixed:
                raise ValueError("another size")
            return super().forward(x)

    for fixed, least in ((0, 41), (64, 64)):
        model = Wide(nn.Linear(6, 400), nn.Dropout(0.3), nn.Linear(400, 400)).eval()
        model.fixed = fixed
        subject = Subject(model, torch.randn(64, 6))
        _ = subject.calls
        runs.clear()
        (place,) = OwnModes(subject).dropped()
        assert runs[-1] == least
        assert place.before == least * 400
        assert place.share == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("limit", [None, 100_000])
def test_a_weight_that_is_used_twice_has_the_sum_of_its_gradients(limit):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(400, 8)
            self.head = nn.Linear(8, 400, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids):
            return self.head(self.table(ids))

    torch.manual_seed(0)
    model, ids = Tied(), torch.arange(6)
    (want,) = torch.autograd.grad(F.cross_entropy(model(ids), ids), model.table.weight)
    with memory(limit):
        (found,) = OwnModes(Subject(model, ids, ids, F.cross_entropy)).gradients().values()
    assert math.isclose(found.square, float(want.double().square().sum()), rel_tol=1e-6)
    assert math.isclose(found.largest, float(want.abs().max()), rel_tol=1e-6)


def test_no_gradient_is_held_while_the_next_ones_are_made(monkeypatch):
    model, x, y = networks()
    held = []

    def one_by_one(_):
        last = None
        for name, p in model.named_parameters():
            held.append(last is not None and last() is not None)
            gradient = torch.ones_like(p)
            last = weakref.ref(gradient)
            yield name, gradient
            del gradient

    monkeypatch.setattr(Subject, "loss_gradients", one_by_one)
    found = OwnModes(Subject(model, x, y, F.cross_entropy)).gradients()
    assert len(found) == len(held) > 1
    assert not any(held)
