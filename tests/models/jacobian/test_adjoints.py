"""Adjoints and NTK shares against per-sample Jacobians over parameters, one sample at a time."""

import itertools

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from sigmascope.core.guard import Refusal
from sigmascope.models import Subject
from sigmascope.models.jacobian import adjoints
from tests.models.jacobian.cases import CASES, build, truth
from tests.models_zoo import MODELS


@pytest.mark.parametrize("wide", [3, 2**12])
@pytest.mark.parametrize("case", ["mlp", "conv", "tokens"])
def test_singular_values_equal_those_of_the_jacobian(case, wide, monkeypatch):
    monkeypatch.setattr(adjoints, "WIDE", wide)
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


def test_wide_derivatives_come_to_double_precision_in_parts_that_a_cache_holds(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2**14), nn.ReLU(), nn.Linear(2**14, 2))
    double, parts = torch.Tensor.double, []
    monkeypatch.setattr(torch.Tensor, "double", lambda t: parts.append(t.shape) or double(t))
    assert Subject(model, torch.randn(5, 3)).adjoints.adjoints["0"].width == 2**14
    assert parts.count((5, 2, 2**12)) == 4


# ------------------------------------------------------------------------------
# Pieces, turns and mixtures give what all at once do.


def test_pieces_and_the_whole_give_the_same(monkeypatch):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double()
    batch = torch.randn(9, 4).double()
    whole = Subject(model, batch).adjoints
    monkeypatch.setattr("sigmascope.models.tape.Scene.fitting", lambda *_, **__: 1)
    split = Subject(model, batch).adjoints
    for site, adjoint in whole.adjoints.items():
        torch.testing.assert_close(split.adjoints[site].sigma, adjoint.sigma)
        torch.testing.assert_close(split.adjoints[site].share_sq, adjoint.share_sq)


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("name", ["mlp", "conv", "custom", "tokens"])
def test_pieces_are_run_once_for_all_that_is_asked_of_them(monkeypatch, name, size):
    """Adjoints of their own, of the same pieces and draws, are the same to the last bit."""
    model, batch = build(name)
    monkeypatch.setattr("sigmascope.models.tape.Scene.fitting", lambda *_, **__: size)
    monkeypatch.setattr("sigmascope.models.subject.SMALL", 0)
    asked = lambda: Subject(model, batch, outputs=2, generator=torch.Generator().manual_seed(3))
    alone, common, runs = asked(), asked(), []
    assert not alone.mixing
    found = alone._swept(2, alone.leftovers)
    with torch.no_grad():
        _ = common.output
    handle = model.register_forward_pre_hook(lambda *_: runs.append(torch.is_grad_enabled()))
    swept = common.adjoints
    handle.remove()
    assert runs.count(True) == -(-len(batch) // min(size, len(batch)))
    for site, adjoint in found.adjoints.items():
        assert torch.equal(swept.adjoints[site].gram, adjoint.gram)
        assert torch.equal(swept.adjoints[site].share_sq, adjoint.share_sq)
    for of, sketch in found.sketches.items():
        assert torch.equal(swept.sketches[of], sketch)


def test_a_parameter_that_later_pieces_alone_use_in_another_way_is_sketched(monkeypatch):
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)
            self.shift = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return self.last(self.first(x).tanh()) + self.shift * (x[:, :1] > 5)

    torch.manual_seed(0)
    model, x = Late(), torch.randn(6, 4)
    x[4:, 0] = 9.0
    monkeypatch.setattr("sigmascope.models.tape.Scene.fitting", lambda *_, **__: 2)
    monkeypatch.setattr("sigmascope.models.subject.SMALL", 0)
    found = Subject(model, x).adjoints.sketches
    assert {*found} == {*Subject(model, x).leftovers} == {""}
    assert found[""][:2].abs().max() == 0  # of the pieces that do not use it
    assert found[""][2].min() > 0


@pytest.mark.parametrize("cancel", [0.0, 0.5, 0.999, 1 - 1e-5])
def test_positions_that_cancel_cost_no_accuracy(cancel):
    """Of the sum of products over positions, of which little may be left."""
    g = torch.Generator().manual_seed(0)
    read, moved = torch.randn(2, 6, 40, generator=g), torch.randn(2, 3, 6, 40, generator=g)
    read[:, 1::2], moved[:, :, 1::2] = read[:, ::2], -cancel * moved[:, :, ::2]
    layer = nn.Linear(40, 40, bias=False)
    wanted = torch.einsum("npi,nkpo->nkoi", read.double(), moved.double()).square().sum((2, 3))
    found = adjoints.share(layer, read, [moved])
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)


KINDS = {
    "one position": (nn.Linear(3, 4), (2, 3), (4,)),
    "positions": (nn.Linear(3, 4), (2, 9, 3), (9, 4)),
    "wide": (nn.Linear(30, 40), (2, 3, 30), (3, 40)),
    "no bias": (nn.Linear(30, 40, bias=False), (2, 3, 30), (3, 40)),
    "convolution": (nn.Conv1d(3, 4, 3, padding=1), (2, 3, 9), (4, 9)),
    "normaliser": (nn.LayerNorm(3), (2, 9, 3), (9, 3)),
    "tokens": (nn.Embedding(5, 4), (2, 9), (9, 4)),
}


@pytest.mark.parametrize("name", KINDS)
def test_outputs_one_after_the_other_are_those_side_by_side(name):
    """And both are squared norms of autograd's gradients, of what is trained alone."""
    layer, reads, writes = KINDS[name]
    g = torch.Generator().manual_seed(0)
    tokens = isinstance(layer, nn.Embedding)
    x = torch.randint(5, reads, generator=g) if tokens else torch.randn(reads, generator=g)
    J = torch.randn(2, 3, *writes, generator=g)
    normal = (layer(x) - layer.bias) / layer.weight if isinstance(layer, nn.LayerNorm) else None
    own = [*layer.parameters()]
    for trained in (own, own[1:], []):
        for p in own:
            p.requires_grad_(any(p is t for t in trained))
        wanted = torch.zeros(2, 3, dtype=torch.float64)
        for i, k in itertools.product(range(2), range(3)) if trained else ():
            grads = torch.autograd.grad(layer(x[i : i + 1]), trained, J[i, k][None])
            wanted[i, k] = sum(grad.double().square().sum() for grad in grads)
        for parts in ([J], J.split(1, 1), J.split(2, 1)):
            found = adjoints.share(layer, x, parts, normal=normal)
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0)


class Bent(nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(3))

    def forward(self, x):
        return (x @ self.matrix).relu()


def test_of_a_matrix_that_is_not_all_of_a_layer_nothing_is_known():
    swept = Subject(
        nn.Sequential(Bent(), nn.Linear(3, 2)), torch.tensor([[1.0, -1.0, 2.0]])
    ).adjoints
    assert swept.adjoints["0"].share_sq is None
    assert swept.adjoints["1"].share_sq is not None


def test_of_a_layer_that_writes_other_positions_nothing_is_known():
    assert adjoints.share(nn.Linear(3, 4), torch.ones(2, 5, 3), [torch.ones(2, 1, 4)]) is None
    assert adjoints.share(nn.ReLU(), torch.ones(2, 5, 3), [torch.ones(2, 1, 5, 3)]) is None


@pytest.mark.parametrize(("positions", "pairs"), [(2, True), (3, False), (4, False)])
def test_pairs_of_positions_are_taken_where_they_are_fewer_than_entries_of_the_weight(
    positions, pairs
):
    made = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten.bmm.default:
                made.append(tuple(out.shape[1:]))
            return out

    x, J = torch.ones(2, positions, 6), torch.ones(2, 1, positions, 6)
    with torch.no_grad(), Watch():
        adjoints.share(nn.Linear(6, 6, bias=False), x, [J])
    assert ((positions, positions) in made) == pairs
    assert ((6, 6) in made) == (not pairs)


@pytest.mark.parametrize("outputs", [None, 2, [2, 0]])
@pytest.mark.parametrize("name", ["mlp", "conv", "custom", "tokens"])
def test_layers_that_are_too_many_for_the_memory_take_turns(monkeypatch, name, outputs):
    """Of all outputs, mixtures and named ones; what no formula covers is sketched once."""
    model, batch = build(name)

    def swept():
        g = torch.Generator().manual_seed(3)
        return Subject(model, batch, outputs=outputs, generator=g).adjoints

    whole = swept()
    monkeypatch.setattr("sigmascope.models.tape.Scene.fitting", lambda *_, **__: len(batch))
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


@pytest.mark.parametrize("outputs", [3, [0, 2]])
@pytest.mark.parametrize("act", [nn.Tanh, nn.PReLU])
def test_the_tape_of_a_run_goes_with_it_unless_others_need_it(act, outputs):
    """Also where parameters without a formula are differentiated by once more."""
    model = nn.Sequential(nn.Conv1d(2, 3, 3), act(), nn.Flatten(), nn.Linear(12, 3))
    subject = Subject(model, torch.randn(4, 2, 6))
    assert bool(subject.leftovers) is (act is nn.PReLU)
    how = (outputs, subject.leftovers, torch.Generator())
    with subject.scene.on_tape() as run:
        wanted, written = run.flat.sum(), [c.output for c in run.calls]
        adjoints.Sweeping(*how).add(run, keep=True)
        torch.autograd.grad(wanted, written, retain_graph=True, allow_unused=True)
        adjoints.Sweeping(*how).add(run)
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(wanted, written, allow_unused=True)


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


# ------------------------------------------------------------------------------
# Shares of the kernel, layer by layer.


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


def test_a_frozen_weight_has_no_share():
    model, batch = build("mlp")
    model[0].weight.requires_grad_(False)
    share = Subject(model, batch).adjoints.adjoints["0"].share_sq
    expected = truth(model, batch)["0.bias"]
    torch.testing.assert_close(share.sum(1), expected)
