import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.probes.execution.layers import Statisticians
from sigmascope.probes.tape import MEMORY_FLOOR, Scene


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def scene(net=None, n=6, **more):
    net = nn.Linear(3, 2) if net is None else net
    return Scene(net, drawn(n, 3), **more)


def test_pieces_and_choices_keep_all_else():
    whole = scene(targets=7, loss=F.mse_loss)
    parts = list(whole.pieces(4))
    assert [(p.count, where) for p, where in parts] == [(4, slice(0, 4)), (2, slice(4, 6))]
    assert all((p.model, p.targets, p.loss) == (whole.model, 7, F.mse_loss) for p, _ in parts)
    picked = whole.chosen(torch.tensor([5, 1]))
    assert torch.equal(picked.batch, whole.batch[[5, 1]])


def test_as_many_samples_as_memory_allows():
    one = scene(n=8)
    assert one.fitting(entries=8, columns=10) == 8
    # as many parameters and entries as may be held twice, each with 6 derivatives: in 3 rounds
    entries = MEMORY_FLOOR
    assert one.fitting(entries=entries, columns=6) == 3
    assert one.fitting(entries=entries, columns=10**6) == 1


def test_without_a_loss_it_is_squared_error():
    out = drawn(6, 2)
    assert float(scene().value(out)) == pytest.approx(float(out.square().sum()) / 6)
    assert float(scene(targets=out + 1, loss=F.mse_loss).value(out)) == pytest.approx(1)


def test_losses_are_those_of_the_samples_alone():
    y = torch.tensor([0, 1, 1, 0, 0, 1])
    one = scene(targets=y, loss=F.cross_entropy)
    expected = F.cross_entropy(one.model(one.batch), y, reduction="none")
    torch.testing.assert_close(one.losses(), expected)
    for bad in (scene(), scene(targets=1.0, loss=lambda o, t: (o - t).square().mean())):
        with pytest.raises(Refusal, match="needs one loss per sample"):
            bad.losses()


def test_a_run_on_tape_records_layers_and_normalisers_apart():
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    listened = {"0": net[0], "1": net[1], "2": net[2]}
    with Scene(net, drawn(5, 3), listened=listened).on_tape() as run:
        assert [c.site for c in run.calls] == ["0", "1", "2"]
        assert [c.site for c in run.layers] == ["0", "2"]
        assert run.flat.shape == (5, 2)
        (by,) = torch.autograd.grad(run.flat.sum(), run.calls[0].output)
    assert by.shape == (5, 4)
    with Scene(net, drawn(5, 3), listened=listened).on_tape(grad=False) as run:
        assert not run.output.requires_grad


def test_batch_normalisers_are_held_at_what_they_saw():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).train()
    frozen, x = Statisticians(), drawn(6, 3)
    with torch.no_grad():
        z = net[0](x)
        frozen.rewrite(net[1], z, z)
        expected = net(x)
    before = net[1].running_mean.clone()
    whole = Scene(net, x, listened={"1": net[1]}, frozen=frozen)
    for piece, where in whole.pieces(1):  # a single sample has no statistics
        with piece.on_tape() as run:
            torch.testing.assert_close(run.output.detach(), expected[where])
    assert net[1].training
    assert torch.equal(net[1].running_mean, before)


def test_samples_may_lie_along_another_dimension():
    turned = Scene(nn.Identity(), drawn(3, 6, 2), batch_dim=1)
    assert turned.count == 6
    assert turned.split(drawn(3, 6, 2)).shape == (6, 3, 2)
    assert turned.split(drawn(5)) is None
    with (
        Scene(nn.Linear(2, 5), drawn(5, 2), batch_dim=1).on_tape() as run,
        pytest.raises(Refusal, match="must have one row per sample"),
    ):
        _ = run.flat
