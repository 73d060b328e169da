import pytest
import torch
from torch.nn import functional as F

from sigmascope.models.networks import vgg, vgg19


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("depth", "stages"), [(3, [1, 1, 1]), (4, [2, 1, 1]), (5, [2, 2, 1]), (6, [2, 2, 2])]
)
def test_convolutions_are_spread_over_the_stages_the_first_ones_first(depth, stages):
    net = vgg(inputs=(1, 8, 8), outputs=3, depth=depth, width=2)
    assert [len(stage) for stage in net.stages] == stages
    convolutions = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == depth
    assert [stage[-1].conv.out_channels for stage in net.stages] == [2, 4, 8]


def test_it_is_convolutions_pooled_between_stages_and_averaged():
    net = vgg(inputs=(2, 9, 8), outputs=3, depth=3, width=4, generator=generator())
    x = torch.randn(5, 2, 9, 8, generator=generator(1))
    z = x
    for k, stage in enumerate(net.stages):
        conv = stage[0].conv
        assert (conv.kernel_size, conv.padding) == ((3, 3), (1, 1))
        z = F.max_pool2d(z, 2) if k else z
        z = F.relu(F.conv2d(z, conv.weight, conv.bias, padding=1))
    assert z.shape == (5, 16, 2, 2)
    expected = z.mean((2, 3)) @ net.readout.weight.mT + net.readout.bias
    torch.testing.assert_close(net(x), expected)


def test_modules_are_named_by_stage_and_block():
    named = dict(vgg(inputs=(1, 8, 8), outputs=3, norm="batch").named_modules())
    assert {"stages.0.0.conv", "stages.2.1.norm", "stages.0.0.activation", "readout"} <= set(named)


def test_refuse_fewer_layers_than_stages(as_users_see_it):
    with pytest.raises(ValueError, match="`depth` must be a whole number, 3 or more, got 2"):
        vgg(inputs=(1, 8, 8), outputs=3, depth=2)


@pytest.mark.parametrize(("norm", "parameters"), [("none", 20_029_514), ("batch", 20_035_018)])
def test_vgg19_has_the_parameters_that_are_known(norm, parameters):
    net = vgg19(inputs=(3, 32, 32), outputs=10, norm=norm)
    assert sum(p.numel() for p in net.parameters()) == parameters
    convolutions = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d)]
    # of torchvision's `vgg19().features`: 20 024 384, biases included
    assert sum(m.weight.numel() + m.out_channels for m in convolutions) == 20_024_384


def test_vgg19_is_pooled_five_times_to_one_pixel():
    net = vgg19(inputs=(3, 32, 32), outputs=10, width=2, generator=generator())
    x = torch.randn(3, 3, 32, 32, generator=generator(1))
    z = x
    for stage in net.stages:
        z = F.max_pool2d(stage(z), 2)
    assert z.shape == (3, 16, 1, 1)
    torch.testing.assert_close(net(x), net.readout(z.flatten(1)))


def test_vgg19_refuses_images_that_it_would_halve_to_nothing(as_users_see_it):
    with pytest.raises(ValueError, match=r"32 x 32 pixels or more, got 28 x 28.*use `vgg`"):
        vgg19(inputs=(1, 28, 28), outputs=10)
