import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.models.networks import MLP, UncentredBatchNorm, mlp


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(*shape):
    return torch.randn(*shape, generator=generator(1))


def names(model):
    return [name for name, module in model.named_modules() if not list(module.children())]


def test_is_linear_norm_activation_and_a_readout():
    net = mlp(inputs=6, outputs=3, depth=2, width=5, norm="batch", generator=generator())
    parts = ("linear", "norm", "activation")
    assert names(net) == [f"hidden.{i}.{part}" for i in (0, 1) for part in parts] + ["readout"]
    x = rows(7, 6)
    expected = x
    for block in net.hidden:
        pre = F.linear(expected, block.linear.weight, block.linear.bias)
        expected = F.relu((pre - pre.mean(0)) / (pre.var(0, correction=0) + 1e-5).sqrt())
    expected = F.linear(expected, net.readout.weight, net.readout.bias)
    torch.testing.assert_close(net(x), expected)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("relu", F.relu),
        ("leaky", F.leaky_relu),
        ("abs", torch.abs),
        ("tanh", torch.tanh),
        ("gelu", F.gelu),
        ("linear", lambda x: x),
    ],
)
def test_activations_are_what_they_are_called(activation, function):
    net = mlp(inputs=6, outputs=3, depth=1, width=5, activation=activation, generator=generator())
    x = rows(7, 6)
    torch.testing.assert_close(net(x), net.readout(function(net.hidden[0].linear(x))))


@pytest.mark.parametrize(
    ("norm", "kind"),
    [("batch", nn.BatchNorm1d), ("batch-uncentred", UncentredBatchNorm), ("layer", nn.LayerNorm)],
)
def test_norms_are_what_they_are_called(norm, kind):
    net = mlp(inputs=6, outputs=3, depth=1, width=5, norm=norm, eps=1e-3)
    assert type(net.hidden[0].norm) is kind
    assert net.hidden[0].norm.eps == 1e-3


def test_what_is_not_there_is_no_module():
    net = mlp(inputs=6, outputs=3, depth=1, width=5, activation="linear", bias=False)
    assert names(net) == ["hidden.0.linear", "readout"]
    assert all(p.ndim == 2 for p in net.parameters())


def test_residual_adds_gamma_times_the_block():
    net = mlp(inputs=5, outputs=3, depth=1, width=5, residual=0.25, generator=generator())
    x = rows(7, 5)
    torch.testing.assert_close(net.hidden(x), x + 0.25 * F.relu(net.hidden[0].linear(x)))
    assert "input" not in dict(net.named_children())


def test_residual_of_another_width_has_an_input_layer():
    net = mlp(inputs=6, outputs=3, depth=2, width=5, residual=0.0, generator=generator())
    x = rows(7, 6)
    torch.testing.assert_close(net(x), net.readout(net.input(x)))
    assert names(net)[0] == "input"


def test_depth_zero_is_a_linear_model():
    assert [n for n, _ in mlp(inputs=6, outputs=3, depth=0).named_parameters()] == [
        "readout.weight",
        "readout.bias",
    ]
    assert mlp(inputs=6, outputs=3, depth=0, width=4, residual=1.0)(rows(7, 6)).shape == (7, 3)


def test_images_are_flattened():
    net = mlp(inputs=(1, 4, 4), outputs=3, depth=1, width=5)
    assert isinstance(net, MLP)
    assert net(rows(7, 1, 4, 4)).shape == (7, 3)


def test_a_generator_decides_everything_and_leaves_the_global_one_alone():
    before = torch.get_rng_state()
    first, second, other = (
        mlp(inputs=6, outputs=3, residual=0.5, generator=generator(s)) for s in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )
    assert not torch.equal(first.readout.weight, other.readout.weight)


def test_can_be_exported_copied_and_traced_in_eval_mode():
    import copy

    net = mlp(inputs=6, outputs=3, norm="batch-uncentred", residual=0.5).eval()
    x = rows(7, 6)
    program = torch.export.export(net, (x,))
    torch.testing.assert_close(program.module()(x), net(x))
    torch.testing.assert_close(copy.deepcopy(net)(x), net(x))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"width": 0}, "`width` must be a whole number, 1 or more, got 0"),
        ({"outputs": -1}, "`outputs` must be"),
        ({"inputs": 0}, "inputs"),
        ({"inputs": (1, 0, 4)}, "inputs"),
        ({"depth": -1}, "`depth` must be a whole number, 0 or more"),
        ({"depth": 2.5}, "`depth` must be a whole number"),
        ({"depth": True}, "`depth` must be a whole number"),
        ({"activation": "rleu"}, "Did you mean `relu`"),
        ({"norm": "bacth"}, "Did you mean `batch`"),
        ({"init": "glorot"}, "torch, he, xavier, orthogonal, asymmetric"),
        ({"eps": -1.0}, "`eps` must be"),
        ({"residual": float("nan")}, "`residual` must be"),
    ],
)
def test_refuses_options_that_make_no_network(as_users_see_it, options, says):
    with pytest.raises(ValueError, match=says):
        mlp(**{"inputs": 6, "outputs": 3, **options})
