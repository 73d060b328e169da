"""Jacobians by the input against one sample at a time."""

import pytest
import torch
from torch import nn
from torch.func import jacrev
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.core.guard import Refusal
from sigmascope.models import OUTPUT, Subject
from sigmascope.models.jacobian.samples import LastGradients, collinearity
from sigmascope.theory import piecewise_affine
from tests.fingerprints import differences, fingerprint
from tests.models_zoo import MODELS, Net, call, subject_of

UNREADABLE = {"inplace-residual": "changed in place"}


def reference(model, x):
    """Singular values of `∂f(x_i)/∂x_i`, one sample after the other."""
    found = []
    for one in x:
        J = jacrev(lambda v: model(v[None])[0].flatten())(one)
        found.append(torch.linalg.svdvals(J.reshape(len(J), -1)))
    return torch.stack(found)


def images():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 4)), (2, 6, 6)


def plain():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)), (5,)


@pytest.mark.parametrize("build", [images, plain])
def test_they_agree_with_each_sample_alone(build):
    torch.default_generator.manual_seed(0)
    model, shape = build()
    model = model.double()
    x = torch.randn(7, *shape, dtype=torch.float64)
    found = Subject(model, x).jacobians
    assert found.by == "the input"
    assert found.mixtures is None
    assert torch.allclose(found.sigma, reference(model, x), atol=1e-12)


def test_batch_statistics_are_held_constant():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2)).double()
    x = torch.randn(9, 4, dtype=torch.float64)
    found = Subject(model, x).jacobians.sigma
    z = model[0](x).detach()
    with torch.no_grad():
        model[1].running_mean.copy_(z.mean(0))
        model[1].running_var.copy_(z.var(0, unbiased=False))
    assert torch.allclose(found, reference(model.eval(), x), atol=1e-12)


def test_many_outputs_are_mixed_without_losing_the_rank():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 300)).double()
    found = Subject(model, torch.randn(3, 6, dtype=torch.float64)).jacobians
    assert found.mixtures == 64
    assert bool((found.sigma[:, 1] > 1e-3).all())
    assert float(found.sigma[:, 2].max()) < 1e-12
    whole = torch.linalg.svdvals((model[1].weight @ model[0].weight).detach())[0]
    assert 0.5 < float(found.sigma[0, 0] / whole) < 2


def test_token_ids_are_replaced_by_what_the_first_layer_writes():
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 2))
    found = Subject(model, torch.randint(0, 9, (5, 3))).jacobians
    assert found.by == "what 0 writes"
    expected = torch.linalg.svdvals(model[2].weight.double())
    assert torch.allclose(found.sigma, expected.expand(5, 2), atol=1e-6)


@pytest.mark.usefixtures("as_users_see_it")
def test_an_output_that_ignores_the_input_is_refused():
    model = nn.Sequential(nn.Linear(3, 3))
    model.register_forward_hook(lambda *_: torch.zeros(4, 2))
    with pytest.raises(Refusal, match="must depend on the input"):
        _ = Subject(model, torch.randn(4, 3)).jacobians


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_zoo_is_read_or_refused(name):
    subject, (model, batch) = subject_of(name), MODELS[name]()
    if name in UNREADABLE:
        with pytest.raises(Refusal, match=UNREADABLE[name]):
            _ = subject.jacobians
    else:
        found = subject.jacobians.sigma
        assert len(found) == subject.count
        assert bool(found.isfinite().all())
        assert subject.output.numel() // subject.count >= 1
        assert OUTPUT in subject.activations
    for k, v in model.state_dict().items():
        assert torch.equal(v, subject.model.state_dict()[k])
    call(subject.model, batch)


# ------------------------------------------------------------------------------
# Gradients of single samples in the last layer, one backward pass at a time.


def slow_cosines(model, last, x, y, loss):
    """|cos| per row of the last weight matrix, one sample and one backward pass at a time."""
    grads = []
    for i in range(len(x)):
        model.zero_grad()
        loss(model(x[i : i + 1]), y[i : i + 1]).backward()
        grads.append(last.weight.grad.flatten(1).clone())
    G = F.normalize(torch.stack(grads, dim=1), dim=2)
    cos = (G @ G.mT).abs()
    i, j = torch.triu_indices(len(x), len(x), offset=1)
    model.zero_grad(set_to_none=True)
    return cos[:, i, j].flatten()


@pytest.mark.parametrize("kind", ["linear", "tokens", "conv"])
def test_cosines_equal_those_of_single_backward_passes(kind):
    torch.manual_seed(0)
    y = torch.randint(0, 3, (6,))
    if kind == "linear":
        last = nn.Linear(8, 3)
        model, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), last), torch.randn(6, 4)
    elif kind == "tokens":
        last = nn.Linear(8, 3)
        model, x = (
            nn.Sequential(nn.Linear(4, 8), nn.Tanh(), last, mean_over(1)),
            torch.randn(6, 5, 4),
        )
    else:
        last = nn.Conv2d(4, 3, 3)
        model, x = (
            nn.Sequential(nn.Conv2d(2, 4, 1), last, mean_over((2, 3))),
            torch.randn(6, 2, 5, 5),
        )
    model, x = model.double(), x.double()
    found = Subject(model, x, y, F.cross_entropy).gradients
    expected = slow_cosines(model, last, x, y, F.cross_entropy)
    assert found.pairs == len(expected)
    assert found.least == pytest.approx(float(expected.min()), rel=1e-9)
    assert found.mean == pytest.approx(float(expected.mean()), rel=1e-9)
    assert all(p.grad is None for p in model.parameters())


def mean_over(dims):
    return Net(lambda m, x: x.mean(dims))


def test_collapsed_network_has_parallel_gradients():
    """Sheet, section 6: min |cos| = 1 - 7e-16 for 32 default layers with biases."""
    torch.manual_seed(0)
    layers = [m for _ in range(32) for m in (nn.Linear(128, 128), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(128, 10)).double()
    y = torch.randint(0, 10, (64,))
    found = Subject(model, torch.randn(64, 128), y, F.cross_entropy).gradients
    assert 1 - found.least < 1e-14


def test_pairs_without_a_gradient_are_left_out():
    model = nn.Sequential(nn.ReLU(), nn.Linear(3, 2))
    x = torch.tensor([[1.0, 2, 3], [-1, -1, -1], [3, 2, 1]])
    found = Subject(model, x, torch.zeros(3, 2), F.mse_loss).gradients
    assert found.pairs == 2  # one pair, two rows
    assert found.zero == 4


def test_a_loss_that_does_not_fit_is_refused():
    model = nn.Linear(3, 2)
    with pytest.raises(Refusal, match=r"one row for each of the 4 samples, got shape \(5,\)"):
        _ = Subject(model, torch.ones(4, 3), torch.zeros(5).long(), F.cross_entropy).gradients
    with pytest.raises(Refusal, match=r"accept the output \(4, 2\) and the targets \(4, 3\)"):
        _ = Subject(model, torch.ones(4, 3), torch.zeros(4, 3), F.cross_entropy).gradients
    with pytest.raises(Refusal, match="must return a scalar, got \\(4, 2\\)"):
        _ = Subject(model, torch.ones(4, 3), torch.zeros(4, 2), lambda o, t: o - t).gradients


# ------------------------------------------------------------------------------
# Models that mix samples are told from those that do not; single samples are not spoken of.


def mixes(how):
    parts = {"a": nn.Linear(5, 5), "b": nn.Linear(5, 5), "head": nn.Linear(5, 3)}
    return Net(lambda m, x: m.head(how(m, x)), **parts)


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
    return mixes(WAYS[way]), torch.randn(samples, 5)


@pytest.mark.parametrize("way", WAYS)
def test_mixing_is_found(way):
    for seed, samples in enumerate((2, 3, 8)):
        assert Subject(*mixed(way, seed=seed, samples=samples)).mixing, samples


@pytest.mark.parametrize("fits", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_mixing_is_found_where_few_samples_fit_on_a_tape(way, fits, monkeypatch):
    """Of one by itself no gradient tells: then what is run again does."""
    if fits == 1 and way in ("gradient only", "normalised by hand"):
        return  # by a gradient alone; and not to be run on one
    monkeypatch.setattr("sigmascope.models.subject.at_once", lambda *_: fits)
    assert Subject(*mixed(way, samples=9)).mixing


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_adjoints_by_pieces_are_refused_of_samples_that_mix(way, size, monkeypatch):
    monkeypatch.setattr("sigmascope.models.tape.Scene.fitting", lambda *_, **__: size)
    monkeypatch.setattr("sigmascope.models.subject.SMALL", 0)
    with pytest.raises(Refusal, match="every sample by itself"):
        _ = Subject(*mixed(way, samples=9)).adjoints


BRANCHES = {
    "sum": lambda x: x.sum() > 0,
    "mean": lambda x: x.mean().item() < 0.0,
    "largest": lambda x: bool(x.abs().amax() > 2.0),
    "norm": lambda x: float(x.norm()) > 4.0,
    "count": lambda x: int((x > 0).sum()) % 100 > 20,
    "written into zeros": lambda x: bool(written(x, lambda t: t.__setitem__(0, x.sum())) > 0),
    "added to zeros": lambda x: bool(written(x, lambda t: t.__iadd__(x.sum())) > 0),
    "copied through a view": lambda x: bool(written(x, lambda t: t[:].copy_(x.sum(1))) > 0),
    "by `out`": lambda x: bool(written(x, lambda t: torch.add(t, x.detach().sum(1), out=t)) > 0),
    "by `data`": lambda x: bool(written(x, lambda t: setattr(t, "data", x.sum(1))) > 0),
    "chosen of two": lambda x: bool(torch.where(x.sum() > 0, torch.ones(1), -torch.ones(1)) > 0),
}


def written(x, write):
    """The sum of what was made of no sample, once something is written into it."""
    kept = torch.zeros(len(x))
    write(kept)
    return kept.sum()


@pytest.mark.parametrize("way", BRANCHES)
@pytest.mark.parametrize("samples", [8, 24])
def test_a_branch_by_a_number_of_all_is_mixing(way, samples):
    """Where any half goes the other way than all do, of the halves that are most unlike."""
    for seed in range(4):
        torch.manual_seed(seed)
        model = mixes(lambda m, x: (m.a if BRANCHES[way](x) else m.b)(x))
        x = torch.randn(samples, 5)
        rows = x.sum(1).argsort(), x.square().sum(1).argsort()
        half = (samples + 1) // 2
        parts = [x[o[:half]] for o in rows] + [x[o[-half:]] for o in rows]
        if any(bool(BRANCHES[way](p)) != bool(BRANCHES[way](x)) for p in parts):
            assert Subject(model, x).mixing, seed


def test_asking_for_numbers_that_decide_nothing_is_not_mixing():
    torch.manual_seed(0)
    model = mixes(lambda m, x: m.a(x) if x.sum().isfinite() else m.b(x))
    assert Subject(model, torch.randn(9, 5)).mixing == ""


POSITIONS = {
    "of none": lambda x: True,
    "of a range": lambda x: bool((torch.arange(x.shape[1]).diff() == 1).all()),
    "of its parts": lambda x: (torch.ones(3).cumsum(0)[-1:] - torch.zeros(1)).item() > 0,
    "of samples": lambda x: bool((x * 0 == 0).all()),
}


@pytest.mark.parametrize("asked", POSITIONS)
def test_to_ask_what_no_sample_has_a_part_in_costs_no_run(asked):
    """As the models of Hugging Face ask whether their positions follow one another."""
    torch.manual_seed(0)
    runs = []
    model = mixes(lambda m, x: (runs.append(len(x)), m.a(x) if POSITIONS[asked](x) else m.b(x))[1])
    subject = Subject(model, torch.randn(9, 5))
    _ = subject.calls
    runs.clear()
    assert subject.mixing == ""
    assert runs.count(5) == (1 + 4 if asked == "of samples" else 1)


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


def test_the_rest_is_measured_and_the_model_left_as_found():
    model, x = mixed("transposed")
    before = fingerprint(model=model)
    measured = survey.profile(model, x, targets=torch.arange(8) % 3, loss=F.cross_entropy)
    views = {r.view for r in measured.readings}
    assert {"representations", "weights"} <= views
    assert not {"features", "gradients"} & views
    why = {s.what: s.why for s in measured.skipped}
    assert "treats every sample by itself" in why["features"]
    assert "treats every sample by itself" in why["gradients"]
    assert not differences(before, fingerprint(model=model))


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
    model = mixes(lambda m, x: m.a(x) @ m.b(x).mT)
    model.head = nn.Identity()
    found = Subject(model, torch.randn(8, 5)).mixed
    assert found is not None
    assert found.compares
    alone = mixes(lambda m, x: m.a(x).relu())
    assert Subject(alone, torch.randn(8, 5)).mixed is None


def pairs_of(grads):
    """Absolute cosines of all pairs with a direction, one pair after the other."""
    found = []
    for unit in grads.unbind(1):
        rows = [row for row in unit if bool((row != 0).any()) and not bool(row.isnan().any())]
        found += [abs(float(F.cosine_similarity(a, b, dim=0)))
                  for i, a in enumerate(rows) for b in rows[i + 1 :]]  # fmt: skip
    return found


def of(grads):
    """Gradients of which no two rows share a line."""
    return LastGradients("last", grads, torch.ones_like(grads[:, :, :1]), None, 0.0)


@pytest.mark.parametrize("together", [1, 40, 10**6])
@pytest.mark.parametrize("lost", [None, 0.0, float("nan")])
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_cosines_are_those_of_all_pairs_that_have_a_direction(monkeypatch, together, lost, scale):
    monkeypatch.setattr("sigmascope.models.jacobian.samples.TOGETHER", together)
    g = torch.Generator().manual_seed(0)
    grads = torch.randn(7, 3, 5, generator=g, dtype=torch.float64)
    grads[4, 1] = -2 * grads[1, 1]
    if lost is not None:
        grads[2, 0] = grads[5, 0] = grads[3, 2] = lost
    wanted = pairs_of(grads)
    found = collinearity([of(part * scale) for part in grads.split(3)])
    assert found.pairs == len(wanted)
    assert found.zero == 3 * 21 - len(wanted)
    assert found.least == pytest.approx(min(wanted), rel=1e-12)
    assert found.mean == pytest.approx(sum(wanted) / len(wanted), rel=1e-12)


@pytest.mark.parametrize("lost", [1.0, 0.0, float("nan"), float("inf")])
def test_rows_that_share_a_line_are_as_rows_that_do_not(lost):
    g = torch.Generator().manual_seed(0)
    line, each = (torch.randn(6, k, generator=g, dtype=torch.float64) for k in (5, 3))
    line[4], each[1, 2], each[5] = 0.0, lost, 0.0
    apart = collinearity([of(each[:, :, None] * line[:, None])])
    one = collinearity([LastGradients("last", line[:, None], each[:, None], None, 0.0)])
    assert (one.pairs, one.zero) == (apart.pairs, apart.zero)
    for a, b in ((one.least, apart.least), (one.mean, apart.mean)):
        assert a == pytest.approx(b, rel=1e-12, nan_ok=True)


def test_without_two_directions_there_is_no_cosine():
    grads = torch.zeros(4, 2, 3, dtype=torch.float64)
    grads[1] = 1.0
    found = collinearity([of(grads)])
    assert (found.pairs, found.least, found.mean, found.zero) == (0, float("inf"), 0.0, 12)
