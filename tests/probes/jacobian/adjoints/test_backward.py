import pytest
import torch
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from sigmascope.probes.jacobian import adjoints
from tests.models_zoo import MODELS
from tests.probes.jacobian.cases import build


def test_pieces_and_the_whole_give_the_same(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double()
    batch = torch.randn(9, 4).double()
    whole = Subject(model, batch).adjoints
    monkeypatch.setattr("sigmascope.probes.tape.Scene.fitting", lambda *_, **__: 1)
    split = Subject(model, batch).adjoints
    for site, adjoint in whole.adjoints.items():
        torch.testing.assert_close(split.adjoints[site].sigma, adjoint.sigma)
        torch.testing.assert_close(split.adjoints[site].share_sq, adjoint.share_sq)


@pytest.mark.parametrize("outputs", [None, 2, [2, 0]])
@pytest.mark.parametrize("name", ["mlp", "conv", "custom", "tokens"])
def test_layers_that_are_too_many_for_the_memory_take_turns(monkeypatch, name, outputs):
    """Of all outputs, mixtures and named ones; what no formula covers is sketched once."""
    model, batch = build(name)

    def swept():
        g = torch.Generator().manual_seed(3)
        return Subject(model, batch, outputs=outputs, generator=g).adjoints

    whole = swept()
    monkeypatch.setattr("sigmascope.probes.tape.Scene.fitting", lambda *_, **__: len(batch))
    passes, plain = [], adjoints._passes

    def counted(flat, calls, *rest, **named):
        passes.append(len(calls))
        return plain(flat, calls, *rest, **named)

    monkeypatch.setattr(adjoints, "_passes", counted)
    monkeypatch.setattr(adjoints, "most_held", lambda: 1)
    split = swept()
    assert passes.count(1) == len(whole.adjoints) > 1
    for site, adjoint in whole.adjoints.items():
        torch.testing.assert_close(split.adjoints[site].sigma, adjoint.sigma)
        torch.testing.assert_close(split.adjoints[site].share_sq, adjoint.share_sq)
    torch.testing.assert_close(split.sketches, whole.sketches)


def test_batch_statistics_are_held_constant():
    """In training mode the network of one sample is the one with this batch's mean and variance."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double()
    batch = torch.randn(9, 4).double()
    live = Subject(model, batch)
    with torch.no_grad():
        z = model[0](batch)
    model[1].running_mean, model[1].running_var = z.mean(0), z.var(0, correction=0)
    held = Subject(model.eval(), batch)
    torch.testing.assert_close(live.output, held.output)
    for site, adjoint in held.adjoints.adjoints.items():
        torch.testing.assert_close(live.adjoints.adjoints[site].sigma, adjoint.sigma)
        torch.testing.assert_close(live.adjoints.adjoints[site].share_sq, adjoint.share_sq)


def test_named_and_sampled_outputs():
    model, batch = build("mlp")
    whole = Subject(model, batch).adjoints.adjoints["0"]
    named = Subject(model, batch, outputs=[2, 0]).adjoints
    assert named.outputs == (2, 0)
    torch.testing.assert_close(named.adjoints["0"].norm_sq, whole.norm_sq[:, [2, 0]])
    sampled = Subject(model, batch, outputs=2, generator=torch.Generator().manual_seed(5)).adjoints
    assert len(sampled.outputs) == 2
    assert sampled.total == 3
    with pytest.raises(Refusal, match="columns of the output, from 0 to 2, got \\[3\\]"):
        _ = Subject(model, batch, outputs=[3]).adjoints


def test_a_layer_that_the_output_ignores_is_named():
    class Ignores(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.ignored = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x):
            self.ignored(x)
            return self.used(x)

    swept = Subject(Ignores(), torch.randn(5, 4)).adjoints
    assert set(swept.adjoints) == {"used"}
    assert "does not depend" in swept.silent["ignored"]


def test_a_layer_that_reads_some_of_the_samples_is_silent_and_the_others_are_not():
    """All seeds at once, or one by one: of experts nothing is known, of what follows all."""
    swept = Subject(*MODELS["mixture-of-experts"]()).adjoints
    assert "readout" in swept.adjoints
    assert {s for s, why in swept.silent.items() if "not split by sample" in why} >= {"experts.0"}
