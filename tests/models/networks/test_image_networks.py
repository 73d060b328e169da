"""What the convolutional networks have in common."""

import pytest
import torch

from sigmascope.models.networks import UncentredBatchNorm, resnet, vgg

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
