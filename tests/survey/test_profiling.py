import gc

import pytest
import torch
from models_zoo import MODELS
from torch import nn
from torch.nn import functional as F

from sigmascope import records, survey
from sigmascope.gate import Refusal
from sigmascope.networks import mlp, resnet
from tests.probes.execution.test_freeze import assert_same, snapshot


@pytest.mark.parametrize("name", MODELS)
def test_the_whole_zoo_is_profiled_and_left_as_it_was(name):
    model, batch = MODELS[name]()
    before = snapshot(model)
    measured = survey.profile(model, batch)
    assert_same(model, before)
    assert measured.layers
    sites = {r.site.split("#")[0] for r in measured.readings} | {s.site for s in measured.skipped}
    for layer in measured.layers:
        owns = {layer.site.split("#")[0], *layer.parameters}
        assert owns & sites, f"{layer.site} has neither a reading nor a reason"
    for r in measured.readings:
        assert r.estimate.low <= r.estimate.value <= r.estimate.high


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), torch.randn(8, 4)


def test_every_view_has_its_quantities():
    model, x = small()
    measured = survey.profile(model, x, targets=torch.arange(8) % 3, loss=F.cross_entropy)
    quantities = {(r.view, r.quantity) for r in measured.readings}
    expected = {
        "representations": {
            "matrix rank",
            "soft rank",
            "participation ratio",
            "centred participation ratio",
            "effective rank",
            "mean square",
            "relative variation",
            "dead units",
        },
        "weights": {
            "spectral norm",
            "Frobenius norm",
            "stable rank",
            "effective rank",
            "condition number",
            "mean shift",
        },
        "features": {"adjoint norm", "adjoint rank", "adjoint log pseudo-determinant", "NTK trace"},
        "gradients": {"minimum |cos|", "mean |cos|"},
        "setup": {
            "gain",
            "written variation",
            "distinct units",
            "relative gradient",
            "input size",
            "first loss over a constant's",
        },
    }
    assert quantities == {(v, q) for v, qs in expected.items() for q in qs}
    assert not measured.skipped


def test_readings_equal_a_direct_computation():
    model, x = small()
    measured = survey.profile(model, x)
    value = {(r.site, r.quantity): r.estimate for r in measured.readings}
    with torch.no_grad():
        H = model[1](model[0](x)).double()
    sigma = torch.linalg.svdvals(H)
    r = float(sigma.square().sum() ** 2 / (sigma**4).sum())
    assert value["2", "participation ratio"].value == pytest.approx(r, rel=1e-12)
    C = torch.linalg.svdvals(H - H.mean(0))
    variation = float(C.norm() / sigma.norm())
    assert value["2", "relative variation"].value == pytest.approx(variation, rel=1e-12)
    assert value["2", "dead units"].value == float((H == 0).all(0).double().mean())
    W = torch.linalg.svdvals(model[0].weight.detach().double())
    assert value["0.weight", "spectral norm"].value == pytest.approx(float(W[0]), rel=1e-12)
    J = model[2].weight.detach().double()[None] * (H > 0).double()[:, None]  # d output / d z
    assert value["0", "adjoint norm"].value == pytest.approx(
        float(J.square().sum((1, 2)).mean() ** 0.5)
    )
    volumes = torch.linalg.svdvals(J)
    ranks = (volumes > 1e-6).sum(1).double()
    assert value["0", "adjoint rank"].value == pytest.approx(float(ranks.mean()))
    alive = volumes[volumes.sum(1) > 0]
    logs = torch.where(alive > 1e-6, alive, 1.0).log().sum(1).mean()
    assert value["0", "adjoint log pseudo-determinant"].value == pytest.approx(
        float(logs), rel=1e-5
    )


def test_views_are_measured_only_when_asked_for(as_users_see_it):
    model, x = small()
    measured = survey.profile(model, x, views=["weights"])
    assert {r.view for r in measured.readings} == {"weights"}
    assert not measured.checks
    with pytest.raises(
        Refusal, match=r"setup, balances, bottleneck, conditioning, got \['wights'\]"
    ):
        survey.profile(model, x, views=["wights"])


def test_the_float32_formula_underflows_and_ours_does_not():
    """32 default layers without bias on normal input: 1.02-1.03, where float32 has nan."""
    model = mlp(
        inputs=128,
        outputs=10,
        depth=32,
        width=128,
        bias=False,
        generator=torch.Generator().manual_seed(1),
    )
    x = torch.randn(128, 128, generator=torch.Generator().manual_seed(2))
    H = x
    with torch.no_grad():
        for block in model.hidden:
            H = block(H)
    M = H.T @ H / len(H)
    assert not (M.trace() ** 2 / M.square().sum()).isfinite()
    measured = survey.profile(model, x, views=["representations"])
    last = next(r for r in measured.series("participation ratio") if r.site == "readout")
    assert 1.01 < last.estimate.value < 1.04
    assert last.estimate.high - last.estimate.low < 1e-9


def test_sampled_outputs_have_an_interval_that_covers_the_whole():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 200)), torch.randn(6, 5)
    whole = survey.profile(model, x, views=["features"], outputs=200)
    exact = {r.site: r.estimate for r in whole.readings if r.quantity == "NTK trace"}
    misses = 0
    for seed in range(40):
        g = torch.Generator().manual_seed(seed)
        part = survey.profile(model, x, views=["features"], outputs=12, generator=g)
        for r in part.readings:
            if r.quantity == "NTK trace":
                assert r.estimate.risk > 0
                misses += not r.estimate.low <= exact[r.site].value <= r.estimate.high
    assert misses <= 4  # 80 intervals at risk 0.01
    assert any("16 of" in s.why or "12 of" in s.why for s in part.skipped)


def test_mixtures_cover_the_share_of_fused_layers():
    """The recurrent layer's share, against one backward pass per sample and output."""
    torch.manual_seed(0)

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 6)

        def forward(self, x):
            return self.head(self.rnn(x)[1][0][-1])

    model, x = Reads().double(), torch.randn(5, 7, 3).double()
    total = 0.0
    for i in range(5):
        for k in range(6):
            grads = torch.autograd.grad(model(x[i : i + 1])[0, k], list(model.rnn.parameters()))
            total += sum(float(g.square().sum()) for g in grads) / 5
    misses = 0
    for seed in range(40):
        g = torch.Generator().manual_seed(seed)
        measured = survey.profile(model, x, views=["features"], generator=g)
        found = next(r.estimate for r in measured.series("NTK trace") if r.site == "rnn")
        misses += not found.low <= total <= found.high
    assert misses <= 2  # 40 intervals at risk 0.01: more with a chance of 1 %
    assert "normal mixtures" in found.how


def test_tied_uses_lie_between_opposed_and_aligned_gradients():
    torch.manual_seed(0)
    layer = nn.Linear(5, 5)
    model, x = (
        nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(5, 2)).double(),
        torch.randn(4, 5).double(),
    )
    total = 0.0
    for i in range(4):
        for k in range(2):
            grads = torch.autograd.grad(model(x[i : i + 1])[0, k], list(layer.parameters()))
            total += sum(float(g.square().sum()) for g in grads) / 4
    measured = survey.profile(model, x, views=["features"])
    found = next(r.estimate for r in measured.series("NTK trace") if r.site == "0")
    assert found.low <= total <= found.high
    assert "2 uses" in found.how


def test_operator_and_kernel_are_both_read():
    model = resnet(inputs=(1, 8, 8), outputs=3, depth=8, width=4)
    measured = survey.profile(model, torch.randn(4, 1, 8, 8), views=["weights"])
    forms = {r.form for r in measured.readings}
    assert forms == {"matrix", "kernel", "operator"}
    norms = {(r.site, r.form): r.estimate.value for r in measured.series("spectral norm")}
    bigger = [norms[s, "operator"] / norms[s, "kernel"] for s, f in norms if f == "operator"]
    assert max(bigger) > 1.3


def test_a_dead_network_is_profiled_with_reasons():
    model, x = small()
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.fill_(-1)
    measured = survey.profile(model, x)
    reasons = {(s.site, s.why) for s in measured.skipped}
    assert ("2", "it is exactly zero") in reasons
    assert ("0.weight", "it is exactly zero") in reasons
    assert ("0", "the derivative is exactly zero for every sample") in reasons


def test_overflow_inside_is_read_not_raised():
    model, x = small()
    with torch.no_grad():
        model[0].weight.fill_(3e38)
    measured = survey.profile(model, x.abs() + 1)
    assert measured.series("non-finite entries")[0].site == "2"


def test_progress_is_told_to_the_end():
    model, x = small()
    told = []
    survey.profile(model, x, progress=lambda *step: told.append(step))
    assert [t[0] for t in told] == ["forward pass", *records.ALL, "theorems", "done"]
    assert all(0 <= done <= total for _, done, total in told)
    assert told[-1][1] == told[-1][2]


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")  # lazy attributes of torch
def test_nothing_leaks():
    """A quick guard; benchmarks/leaks.py repeats it 200 times and reads the process's memory."""
    model, x = small()
    for _ in range(3):
        survey.profile(model, x)
    gc.collect()
    before = sum(isinstance(o, torch.Tensor) for o in gc.get_objects())
    for _ in range(10):
        survey.profile(model, x)
    gc.collect()
    assert sum(isinstance(o, torch.Tensor) for o in gc.get_objects()) <= before
