"""Adjoints and NTK shares against per-sample Jacobians over parameters, one sample at a time."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev

from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from tests.models_zoo import MODELS


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6, padding_idx=0)
        self.up, self.norm, self.down = nn.Linear(6, 9), nn.LayerNorm(9), nn.Linear(9, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, ids):
        x = self.embed(ids)
        return self.head((x + self.down(self.norm(self.up(x)).tanh())).mean(1))


class HalfTransposed(nn.Module):
    """Stores its weight as `[in, out]`, like the linear layers of GPT-2."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 7)), nn.Parameter(torch.randn(7))

    def forward(self, x):
        return x @ self.weight + self.bias


def images(*layers):
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3)), torch.randn(5, 4, 6, 6)


CASES = {
    "mlp": lambda: (nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), torch.randn(5, 4)),
    "no bias": lambda: (
        nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 3)),
        torch.randn(5, 4),
    ),
    "custom": lambda: (
        nn.Sequential(HalfTransposed(), nn.Tanh(), nn.Linear(7, 3)),
        torch.randn(5, 4),
    ),
    "tokens": lambda: (Tokens(), torch.randint(0, 11, (5, 7))),
    "many tokens": lambda: (Tokens(), torch.randint(0, 11, (2, 40))),
    "conv": lambda: images(nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.Tanh()),
    "circular": lambda: images(nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), nn.Tanh()),
    "same": lambda: images(nn.Conv2d(4, 6, 4, padding="same", dilation=2), nn.Tanh()),
    "grouped": lambda: images(nn.Conv2d(4, 6, (3, 1), groups=2, dilation=2), nn.Tanh()),
    "transposed": lambda: images(
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), nn.Tanh()
    ),
    "conv1d": lambda: (
        nn.Sequential(nn.Conv1d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.LazyLinear(2)),
        torch.randn(4, 3, 9),
    ),
    "group norm": lambda: images(nn.Conv2d(4, 6, 3), nn.GroupNorm(2, 6), nn.Tanh()),
    "instance norm": lambda: images(
        nn.Conv2d(4, 6, 3), nn.InstanceNorm2d(6, affine=True), nn.Tanh()
    ),
    "batch norm, eval": lambda: images(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6).eval(), nn.Tanh()),
    "rms norm": lambda: (
        nn.Sequential(nn.Linear(4, 6), nn.RMSNorm(6), nn.Tanh(), nn.Linear(6, 3)),
        torch.randn(5, 4),
    ),
}


def build(case):
    torch.manual_seed(0)
    model, batch = CASES[case]()
    model(batch)  # lazy layers take their shape
    model = model.double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    return model, batch.double() if batch.is_floating_point() else batch


def truth(model, batch):
    """`Σ_k ‖∂ f_k(x_i)/∂ p‖²` per sample, for every parameter."""
    parameters = dict(model.named_parameters())
    rows = []
    for i in range(len(batch)):
        J = jacrev(lambda p, i=i: functional_call(model, p, batch[i : i + 1])[0])(parameters)
        rows.append({k: j.detach().square().sum().item() for k, j in J.items()})
    return {k: torch.tensor([r[k] for r in rows], dtype=torch.float64) for k in parameters}


@pytest.mark.parametrize("case", CASES)
def test_ntk_shares_equal_per_sample_jacobians(case):
    model, batch = build(case)
    expected = truth(model, batch)
    swept = Subject(model, batch).adjoints
    assert not swept.silent
    for site, adjoint in swept.adjoints.items():
        owned = [v for k, v in expected.items() if k.rsplit(".", 1)[0] == site]
        assert adjoint.share_sq is not None, site
        torch.testing.assert_close(adjoint.share_sq.sum(1), sum(owned), rtol=1e-10, atol=1e-14)
    owners = {k.rsplit(".", 1)[0] for k in expected}
    assert owners == set(swept.adjoints)


@pytest.mark.parametrize("case", ["mlp", "conv", "tokens"])
def test_singular_values_equal_those_of_the_jacobian(case):
    model, batch = build(case)
    swept = Subject(model, batch).adjoints
    first = next(s for s, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d))
    module, kept = model.get_submodule(first), {}
    for i in range(len(batch)):
        with torch.no_grad():
            handle = module.register_forward_hook(lambda _m, _i, y: kept.update(y=y))
            model(batch[i : i + 1])
            handle.remove()

        def rest(z, i=i):
            handle = module.register_forward_hook(lambda _m, _i, _y: z)
            out = model(batch[i : i + 1])[0]
            handle.remove()
            return out

        J = torch.autograd.functional.jacobian(rest, kept["y"]).flatten(1)
        sigma = torch.linalg.svdvals(J)
        torch.testing.assert_close(swept.adjoints[first].sigma[i], sigma, rtol=1e-8, atol=1e-8)


def test_pieces_and_the_whole_give_the_same(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double()
    batch = torch.randn(9, 4).double()
    whole = Subject(model, batch).adjoints
    monkeypatch.setattr("sigmascope.probes.scene.Scene.fitting", lambda *_, **__: 1)
    split = Subject(model, batch).adjoints
    for site, adjoint in whole.adjoints.items():
        torch.testing.assert_close(split.adjoints[site].sigma, adjoint.sigma)
        torch.testing.assert_close(split.adjoints[site].share_sq, adjoint.share_sq)


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


def test_a_frozen_weight_has_no_share():
    model, batch = build("mlp")
    model[0].weight.requires_grad_(False)
    share = Subject(model, batch).adjoints.adjoints["0"].share_sq
    expected = truth(model, batch)["0.bias"]
    torch.testing.assert_close(share.sum(1), expected)


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
