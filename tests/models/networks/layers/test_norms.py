import pytest
import torch
from torch import nn

from sigmascope.models.networks import UncentredBatchNorm


def batch(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(7, 3), (7, 3, 4), (7, 3, 4, 5), (1, 3)])
def test_every_channel_has_mean_square_one(shape):
    y = UncentredBatchNorm(3, eps=0.0).double()(5 + 2 * batch(*shape))
    mean_square = y.square().transpose(0, 1).flatten(1).mean(1)
    torch.testing.assert_close(mean_square, torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-14)


def test_nothing_is_subtracted():
    x = 5 + batch(7, 3)
    y = UncentredBatchNorm(3, eps=0.0).double()(x)
    ratio = y / x
    torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))


def test_agrees_with_batchnorm_on_centred_batches():
    x = batch(7, 3)
    x = x - x.mean(0)
    expected = nn.BatchNorm1d(3).double()(x)
    torch.testing.assert_close(UncentredBatchNorm(3).double()(x), expected)


def test_statistics_are_those_that_normalise():
    norm, x = UncentredBatchNorm(3).double(), batch(7, 3, 2)
    mean, variance = norm.statistics(x)
    assert (mean == 0).all()
    expected = x / (variance + norm.eps).sqrt().view(1, 3, 1)
    torch.testing.assert_close(norm(x), expected)


def test_eval_uses_the_running_mean_square():
    norm, x = UncentredBatchNorm(3, momentum=0.25).double(), batch(7, 3)
    norm(x)
    expected = 0.75 + 0.25 * x.square().mean(0)
    torch.testing.assert_close(norm.running_var, expected)
    assert (norm.running_mean == 0).all()
    assert int(norm.num_batches_tracked) == 1
    norm.eval()
    torch.testing.assert_close(norm(x), x / (expected + norm.eps).sqrt())
    # The same numbers as PyTorch's own formula gives from the same buffers.
    reference = nn.functional.batch_norm(
        x, norm.running_mean, norm.running_var, norm.weight, norm.bias, False, 0.0, norm.eps
    )
    torch.testing.assert_close(norm(x), reference)
    assert int(norm.num_batches_tracked) == 1


def test_without_momentum_the_running_mean_square_is_the_average():
    norm = UncentredBatchNorm(3, momentum=None).double()
    batches = [batch(7, 3, seed=s) for s in range(4)]
    for x in batches:
        norm(x)
    average = torch.stack([x.square().mean(0) for x in batches]).mean(0)
    torch.testing.assert_close(norm.running_var, average)


def test_without_running_statistics_eval_uses_the_batch():
    norm, x = UncentredBatchNorm(3, track_running_stats=False).double(), batch(7, 3)
    torch.testing.assert_close(norm.eval()(x), norm.train()(x))


def test_weight_and_bias_apply_after():
    norm, x = UncentredBatchNorm(3, eps=0.0).double(), batch(7, 3)
    plain = norm(x)
    with torch.no_grad():
        norm.weight.fill_(2)
        norm.bias.fill_(1)
    torch.testing.assert_close(norm(x), 2 * plain + 1)


def test_derivatives_are_exact():
    norm, x = UncentredBatchNorm(3).double(), batch(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(norm, x)
    assert torch.autograd.gradgradcheck(norm, x)


def test_keeps_the_precision_of_its_input():
    assert UncentredBatchNorm(3).bfloat16()(batch(7, 3).bfloat16()).dtype == torch.bfloat16


def test_is_found_as_a_batchnorm_and_keeps_its_keys():
    norm = UncentredBatchNorm(3)
    assert isinstance(norm, nn.modules.batchnorm._BatchNorm)
    assert norm.state_dict().keys() == nn.BatchNorm1d(3).state_dict().keys()


def test_refuses_a_zero_channel_without_eps(as_users_see_it):
    x = batch(7, 3)
    x[:, 1] = 0
    with pytest.raises(ValueError, match="1 of 3 are zero, the first is channel 1"):
        UncentredBatchNorm(3, eps=0.0).double()(x)
    assert (UncentredBatchNorm(3).double()(x)[:, 1] == 0).all()


@pytest.mark.parametrize("shape", [(3,), (7, 4)])
def test_refuses_other_shapes(as_users_see_it, shape):
    with pytest.raises(ValueError, match=r"expected \[batch, 3, \.\.\.\]"):
        UncentredBatchNorm(3).double()(batch(*shape))
