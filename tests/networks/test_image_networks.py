import pytest
import torch

from sigmascope.networks import UncentredBatchNorm, resnet, vgg

SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32), (5, 32, 28)]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(shape, samples=2):
    return torch.randn(samples, *shape, generator=generator(1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("norm", ["none", "batch", "batch-uncentred", "layer"])
def test_take_digits_fashion_and_cifar(shape, norm):
    for net in (
        vgg(inputs=shape, outputs=7, depth=4, width=4, norm=norm),
        resnet(inputs=shape, outputs=7, depth=8, width=4, norm=norm),
    ):
        assert net(images(shape)).shape == (2, 7)


def test_depth_counts_the_convolutions():
    for depth in (3, 4, 5, 6, 16):
        net = vgg(inputs=(1, 8, 8), outputs=3, depth=depth, width=2)
        convolutions = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d)]
        assert len(convolutions) == depth
    net = resnet(inputs=(1, 8, 8), outputs=3, depth=20, width=2)
    weights = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    assert len(weights) == 20


def test_names_read_well():
    plain = dict(vgg(inputs=(1, 8, 8), outputs=3, norm="batch").named_modules())
    assert {"stages.0.0.conv", "stages.2.1.norm", "stages.0.0.activation", "readout"} <= set(plain)
    residual = dict(resnet(inputs=(1, 8, 8), outputs=3).named_modules())
    assert {"stem.conv", "stages.2.2.second.norm", "stages.0.0.activation"} <= set(residual)


def test_a_bias_is_where_no_norm_follows():
    assert vgg(inputs=(1, 8, 8), outputs=3).stages[0][0].conv.bias is not None
    assert resnet(inputs=(1, 8, 8), outputs=3).stem.conv.bias is None
    uncentred = resnet(inputs=(1, 8, 8), outputs=3, norm="batch-uncentred")
    assert isinstance(uncentred.stem.norm, UncentredBatchNorm)


@pytest.mark.parametrize("network", [vgg, resnet])
def test_a_generator_decides_everything(network):
    before = torch.get_rng_state()
    first, second = (network(inputs=(1, 8, 8), outputs=3, generator=generator()) for _ in "ab")
    assert torch.equal(torch.get_rng_state(), before)
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )


@pytest.mark.parametrize("network", [vgg, resnet])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"inputs": (64,)}, "For data that are not images use `mlp`"),
        ({"inputs": (1, 3, 3)}, "4 x 4 pixels"),
        ({"inputs": (0, 8, 8)}, "`channels` must be"),
        ({"width": 0}, "`width` must be"),
        ({"depth": 2}, "`depth` must be"),
        ({"norm": "bacth"}, "Did you mean `batch`"),
    ],
)
def test_refuse_what_makes_no_network(as_users_see_it, network, options, says):
    with pytest.raises(ValueError, match=says):
        network(**{"inputs": (1, 8, 8), "outputs": 3, **options})
