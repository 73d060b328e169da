import pytest
import torch

from sigmascope.models.networks import resnet, resnet50


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(shape, samples=2):
    return torch.randn(samples, *shape, generator=generator(1))


def test_resnet_20_has_the_size_of_the_paper():
    count = sum(p.numel() for p in resnet(inputs=(3, 32, 32), outputs=10).parameters())
    assert count == 269_722  # "0.27M", He et al. 2016a, Table 6


def test_resnet_halves_the_image_twice():
    net = resnet(inputs=(3, 32, 32), outputs=10, depth=14, width=4)
    x = net.stem(images((3, 32, 32)))
    sizes = []
    for stage in net.stages:
        x = stage(x)
        sizes.append(tuple(x.shape[1:]))
    assert sizes == [(4, 32, 32), (8, 16, 16), (16, 8, 8)]


def test_a_residual_block_adds_its_input_padded_with_zero_channels():
    net = resnet(inputs=(1, 8, 8), outputs=3, depth=8, width=4, norm="none", activation="linear")
    x = images((4, 8, 8))
    block = net.stages[1][0]
    difference = block(x) - block.second(block.first(x))
    torch.testing.assert_close(difference[:, :4], x[:, :, ::2, ::2])
    torch.testing.assert_close(difference[:, 4:], torch.zeros(2, 4, 4, 4), atol=1e-6, rtol=0)


def test_resnet_refuses_a_depth_that_is_not_6n_plus_2(as_users_see_it):
    with pytest.raises(ValueError, match="6n \\+ 2"):
        resnet(inputs=(1, 8, 8), outputs=3, depth=18)


def test_resnet_without_skip_connections_is_a_plain_convolutional_network():
    build = lambda rho: resnet(
        inputs=(1, 8, 8), outputs=3, depth=8, width=4, residual=rho, generator=generator()
    ).eval()
    x = torch.randn(2, 1, 8, 8, generator=generator())
    plain, half = build(0.0), build(0.5)
    block = plain.stages[0][0]
    z = plain.stem(x)
    assert torch.equal(block(z), torch.relu(block.second(block.first(z))))
    same = half.stages[0][0]
    assert torch.equal(same(z), torch.relu(0.5 * z + same.second(same.first(z))))
    with pytest.raises(ValueError, match="`residual` must be a finite number, got nan"):
        build(float("nan"))


@pytest.mark.parametrize("depth", [8, 20])
def test_depth_counts_the_layers_with_a_weight(depth):
    net = resnet(inputs=(1, 8, 8), outputs=3, depth=depth, width=2)
    weights = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    assert len(weights) == depth


def test_modules_are_named_by_stage_block_and_place():
    named = dict(resnet(inputs=(1, 8, 8), outputs=3).named_modules())
    assert {"stem.conv", "stages.2.2.second.norm", "stages.0.0.activation"} <= set(named)


def test_resnet_50_has_the_parameters_that_are_known():
    net = resnet50(inputs=(3, 32, 32), outputs=10)
    assert sum(p.numel() for p in net.parameters()) == 23_520_842
    # torchvision's has 25 557 032: a stem of 7 x 7, and 1000 classes
    stem, readout = 64 * 3 * (7**2 - 3**2), 2048 * 990 + 990
    assert 23_520_842 + stem + readout == 25_557_032
    assert [len(stage) for stage in net.stages] == [3, 4, 6, 3]
    assert sum("shortcut" not in n and p.ndim > 1 for n, p in net.named_parameters()) == 50


def test_resnet_50_keeps_the_image_through_its_stem_and_halves_it_three_times():
    net = resnet50(inputs=(3, 32, 32), outputs=10, width=2)
    x = net.stem(images((3, 32, 32)))
    sizes = [tuple(x.shape[1:])]
    for stage in net.stages:
        x = stage(x)
        sizes.append(tuple(x.shape[1:]))
    assert sizes == [(2, 32, 32), (8, 32, 32), (16, 16, 16), (32, 8, 8), (64, 4, 4)]


def test_a_bottleneck_adds_its_projection_where_shapes_change_and_its_input_elsewhere():
    net = resnet50(inputs=(3, 32, 32), outputs=10, width=2, generator=generator()).eval()
    first, second = net.stages[1][0], net.stages[1][1]
    x = torch.randn(2, 8, 32, 32, generator=generator(1))
    z = torch.relu(first.third(first.second(first.first(x))) + first.shortcut(x))
    torch.testing.assert_close(first(x), z)
    for part, cut in ((first.first, 1), (first.second, 1), (first.third, 0), (first.shortcut, 0)):
        assert [*dict(part.named_children())] == ["conv", "norm", "activation"][: 2 + cut]
    assert not hasattr(second, "shortcut")
    expected = torch.relu(second.third(second.second(second.first(z))) + z)
    torch.testing.assert_close(second(z), expected)
