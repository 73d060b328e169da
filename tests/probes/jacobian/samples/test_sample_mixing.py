"""Models that mix samples are told from those that do not; single samples are not spoken of."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import probes, survey
from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from sigmascope.theory import piecewise_affine
from tests.models_zoo import MODELS, subject_of


class Mixes(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.how = how

    def forward(self, x):
        return self.head(self.how(self, x))


WAYS = {
    "transposed": lambda m, x: m.a(x).t().reshape(len(x), -1).tanh(),
    "products": lambda m, x: (m.a(x) @ m.b(x).mT / 5) @ x,
    "softmax": lambda m, x: (m.a(x) @ m.b(x).mT).softmax(1) @ m.b(x),
    "softmax over the batch": lambda m, x: m.a(x).softmax(0),
    "centred": lambda m, x: m.a(x) - m.a(x).mean(0),
    "centred, detached": lambda m, x: m.a(x) - m.a(x).mean(0).detach(),
    "gradient only": lambda m, x: m.a(x) + (y := m.b(x).mean(0)) - y.detach(),
    "sorted": lambda m, x: m.a(x).sort(0).values,
    "rolled": lambda m, x: m.a(x).roll(1, 0),
    "cumulative": lambda m, x: m.a(x).cumsum(0) / 8,
    "normalised by hand": lambda m, x: F.batch_norm(m.a(x), None, None, training=True),
    "largest of all": lambda m, x: m.a(x) / m.a(x).abs().amax(),
    "count": lambda m, x: m.a(x) / len(x),
    "later ones, detached": lambda m, x: m.a(x) + (x.flip(0).cumsum(0).flip(0) - x).detach(),
    "earlier ones, detached": lambda m, x: m.a(x) + (x.cumsum(0) - x).detach(),
    "the first alone, detached": lambda m, x: (
        m.a(x) + (x[1] * (torch.arange(len(x)) == 0)[:, None]).detach() if len(x) > 1 else m.a(x)
    ),
    "by place": lambda m, x: m.a(x) * (1 + torch.arange(len(x)))[:, None],
    "weakly": lambda m, x: m.a(x) + 1e-3 * x.mean(0),
}
ASKED = {
    "ntk_trace": lambda s: s.ntk_trace,
    "adjoints": lambda s: s.adjoints,
    "jacobians": lambda s: s.jacobians,
    "conditioning": lambda s: s.conditioning,
    "tangent_kernel": lambda s: s.tangent_kernel(),
    "local_affine": piecewise_affine.sample_affine,
}


def mixed(way, *, seed=0, samples=8):
    torch.manual_seed(seed)
    return Mixes(WAYS[way]), torch.randn(samples, 5)


@pytest.mark.parametrize("way", WAYS)
def test_mixing_is_found(way):
    for seed, samples in enumerate((2, 3, 8)):
        assert Subject(*mixed(way, seed=seed, samples=samples)).mixing, samples


BRANCHES = {
    "sum": lambda x: x.sum() > 0,
    "mean": lambda x: x.mean().item() < 0.0,
    "largest": lambda x: bool(x.abs().amax() > 2.0),
    "norm": lambda x: float(x.norm()) > 4.0,
    "count": lambda x: int((x > 0).sum()) % 100 > 20,
}


@pytest.mark.parametrize("way", BRANCHES)
@pytest.mark.parametrize("samples", [8, 24])
def test_a_branch_by_a_number_of_all_is_mixing(way, samples):
    """Where any half goes the other way than all do, of the halves that are most unlike."""
    for seed in range(4):
        torch.manual_seed(seed)
        model = Mixes(lambda m, x: (m.a if BRANCHES[way](x) else m.b)(x))
        x = torch.randn(samples, 5)
        rows = x.sum(1).argsort(), x.square().sum(1).argsort()
        half = (samples + 1) // 2
        parts = [x[o[:half]] for o in rows] + [x[o[-half:]] for o in rows]
        if any(bool(BRANCHES[way](p)) != bool(BRANCHES[way](x)) for p in parts):
            assert Subject(model, x).mixing, seed


def test_asking_for_numbers_that_decide_nothing_is_not_mixing():
    torch.manual_seed(0)
    model = Mixes(lambda m, x: m.a(x) if x.sum().isfinite() else m.b(x))
    assert Subject(model, torch.randn(9, 5)).mixing == ""


@pytest.mark.parametrize("name", MODELS)
def test_the_zoo_does_not_mix(name):
    assert subject_of(name).mixing == ""


def test_one_sample_cannot_mix_and_its_own_positions_may():
    assert Subject(*mixed("sorted", samples=1)).mixing == ""
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
    assert Subject(model, torch.randn(4, 7, 6)).mixing == ""
    assert "exchanged" in Subject(nn.TransformerEncoderLayer(6, 2, 8), torch.randn(4, 7, 6)).mixing
    other = Subject(nn.TransformerEncoderLayer(6, 2, 8), torch.randn(4, 7, 6), batch_dim=1)
    assert other.mixing == ""


def test_batch_normalisation_with_held_statistics_does_not_mix():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).train()
    assert Subject(model, torch.randn(9, 5)).mixing == ""


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_asked_of_single_samples_is_refused_by_name(asked, as_users_see_it):
    with pytest.raises(Refusal, match=f"`{asked}` must be asked of a model that treats every"):
        ASKED[asked](Subject(*mixed("centred")))


def test_gradients_are_left_out_with_the_reason():
    model, x = mixed("softmax")
    subject = Subject(model, x, torch.arange(8) % 3, F.cross_entropy)
    assert subject.gradients is None
    assert "exchanged" in subject.unsplit


def test_the_rest_is_measured_and_the_model_left_as_found():
    model, x = mixed("transposed")
    before = {k: v.clone() for k, v in model.state_dict().items()}
    measured = survey.profile(model, x, targets=torch.arange(8) % 3, loss=F.cross_entropy)
    views = {r.view for r in measured.readings}
    assert {"representations", "weights"} <= views
    assert not {"features", "gradients"} & views
    why = {s.what: s.why for s in measured.skipped}
    assert "treats every sample by itself" in why["features"]
    assert "treats every sample by itself" in why["gradients"]
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_the_trace_that_was_wrong_is_refused(as_users_see_it):
    torch.manual_seed(0)

    class Turns(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Linear(4, 6), nn.Linear(6, 2)

        def forward(self, x):
            return self.head(self.first(x).t().reshape(len(x), -1))

    with pytest.raises(Refusal, match="exchanged"):
        _ = probes.Subject(Turns(), torch.randn(5, 4)).ntk_trace


def test_how_much_samples_mix_is_that_of_two_runs():
    model, x = mixed("centred", samples=8)
    subject = Subject(model, x)
    found = subject.mixed
    assert found is not None
    assert not found.compares
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    other = x.clone()
    other[order[4:]] = x[order[:4]]
    with torch.no_grad():
        a, b = model(x).double(), model(other).double()
    moved = (a - b)[order[:4]].square().mean().sqrt()
    expected = float(moved / (a - a.mean(0)).square().mean().sqrt())
    assert found.change == pytest.approx(expected, rel=1e-4)


def test_an_output_for_every_pair_compares_samples():
    torch.manual_seed(0)
    model = Mixes(lambda m, x: m.a(x) @ m.b(x).mT)
    model.head = nn.Identity()
    found = Subject(model, torch.randn(8, 5)).mixed
    assert found is not None
    assert found.compares
    alone = Mixes(lambda m, x: m.a(x).relu())
    assert Subject(alone, torch.randn(8, 5)).mixed is None
