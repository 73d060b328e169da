import pytest
import torch

from sigmascope.sources.callables import lent


def generator(seed):
    return torch.Generator().manual_seed(seed)


def drawn(source):
    with lent(source):
        return torch.rand(3)


def test_the_global_generator_draws_from_the_one_that_was_lent():
    before = torch.get_rng_state()
    assert torch.equal(drawn(generator(3)), drawn(generator(3)))
    assert not torch.equal(drawn(generator(3)), drawn(generator(4)))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_moves_on_by_one_draw():
    source, other = generator(3), generator(3)
    first, second = drawn(source), drawn(source)
    assert not torch.equal(first, second)
    for _ in range(2):
        torch.randint(2**62, (), generator=other)
    assert torch.equal(source.get_state(), other.get_state())


def test_the_global_state_is_put_back_after_an_exception():
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError), lent(generator(3)):  # after its first number
        torch.rand(3) @ torch.rand(4)
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_generator_the_global_one_is_drawn_from():
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(5)
        first = drawn(None)
        torch.default_generator.manual_seed(5)
        assert torch.equal(first, torch.rand(3))
        assert not torch.equal(first, drawn(None))
