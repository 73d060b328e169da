"""Lower ranks: exact losses, kept promises, and models of the same function."""

import pytest
import torch
from torch import nn

from sigmascope.diagnosis.compression import compression
from sigmascope.gate import Refusal
from sigmascope.networks import mlp
from sigmascope.probes import Subject
from sigmascope.probes.samples import chosen, sample_count
from tests.diagnosis.compression.images import images
from tests.models_zoo import MODELS
from tests.sampling import some


def relative(a, b):
    return float((a - b).square().mean().sqrt() / (b - b.mean(0)).square().mean().sqrt())


@pytest.mark.parametrize("tolerance", [0.01, 0.05, 0.2])
def test_the_promise_holds_on_samples_that_were_never_seen(trained, tolerance):
    model, x, y = trained
    model = model.float()
    found = compression(model, x[:1000], tolerance=tolerance, targets=y[:1000])
    assert found.layers
    assert found.change.value <= tolerance
    with torch.no_grad():
        old, new = model(x[1000:]), found.model(x[1000:])
    assert relative(new, old) <= 1.3 * tolerance
    before, after = ((out.argmax(1) == y[1000:]).float().mean() for out in (old, new))
    assert float(after) >= float(before) - tolerance
    assert found.right is not None
    assert "right in the place of" in found.says


def test_the_new_model_has_as_many_parameters_as_it_says_and_the_same_function(trained):
    model, x, _ = trained
    model = model.float()
    found = compression(model, x[:800], tolerance=0.05)
    assert sum(p.numel() for p in found.model.parameters()) == found.parameters[1]
    assert found.parameters[1] < found.parameters[0]
    again = mlp(inputs=64, outputs=10, depth=3, width=96, generator=torch.Generator())
    scope = {"model": again, "nn": nn}
    exec(found.patch(), scope)  # what the user is told to paste
    again.load_state_dict(found.model.state_dict())
    assert torch.equal(again(x[:50]), found.model(x[:50]))


def test_convolutions_become_two():
    model, g = images(), torch.Generator().manual_seed(1)
    x = torch.randn(60, 1, 8, 8, generator=g, dtype=torch.float64).expand(-1, 2, -1, -1)
    with torch.no_grad():
        model[0].weight[6:] = model[0].weight[:6] * 2  # six directions in twelve channels
        model[0].bias.copy_(torch.arange(12) / 10)
    found = compression(model, x, tolerance=0.02)
    assert "0" in {t.site for t in found.layers}
    assert isinstance(found.model[0], nn.Sequential)
    with torch.no_grad():
        assert relative(found.model(x), model(x)) < 0.03


def test_nothing_is_advised_where_nothing_is_saved():
    model = nn.Linear(8, 8).double()
    with torch.no_grad():
        model.weight.copy_(torch.eye(8))
    found = compression(model, torch.randn(40, 8, dtype=torch.float64), tolerance=0.01)
    assert found.layers == ()
    assert found.parameters[0] == found.parameters[1]
    assert found.says.startswith("0 of 1 layers")


@pytest.mark.usefixtures("as_users_see_it")
def test_refusals(trained):
    model, x, y = trained
    model = model.float()
    with pytest.raises(Refusal, match="between 0 and 1"):
        compression(model, x, tolerance=2)
    with pytest.raises(Refusal, match="four samples or more"):
        compression(model, x[:3])
    with pytest.raises(Refusal, match="must vary between samples"):
        compression(model, x[:1].expand(20, *x.shape[1:]))
    with pytest.raises(Refusal, match="one class for each row"):
        compression(model, x[:100], targets=y[:100].float())


REFUSED = "four samples|must vary between samples|got none. Take"


@pytest.mark.parametrize("name", some(MODELS))
def test_every_model_of_the_zoo_keeps_its_function_or_is_refused(name):
    model, batch = MODELS[name]()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    dims = 1 if "batch-second" in name or "time-first" in name else 0
    count = sample_count(batch, batch_dim=dims)
    many = chosen(batch, torch.arange(count).repeat(3), batch_dim=dims)
    try:
        found = compression(model, many, tolerance=0.3, batch_dim=dims)
    except Refusal as reason:
        if not any(part in str(reason) for part in REFUSED.split("|")):
            raise
    else:
        assert found.change.value <= 0.3
        assert Subject(found.model, many, batch_dim=dims).output.isfinite().all()
    for k, v in model.state_dict().items():
        assert torch.equal(v, before[k])


def test_halves_are_dealt_alike_every_time_and_nothing_global_is_drawn():
    model = nn.Sequential(nn.Linear(6, 12), nn.Linear(12, 3))
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    before = torch.get_rng_state()
    one, other = (compression(model, x, tolerance=0.3) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert one.change == other.change
