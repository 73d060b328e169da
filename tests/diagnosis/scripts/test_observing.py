import pytest
import torch
from torch import nn

import sigmascope as ss


def loop(*, steps=10, zero=True):
    net, x = nn.Linear(3, 1), torch.randn(8, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        if zero:
            optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()


def test_a_block_is_watched_and_says_what_speaks_against_it():
    with ss.observe() as seen:
        loop(zero=False)
    assert [f.name for f in seen.findings] == ["gradients-not-zeroed"]
    assert "SGD" in str(seen)
    assert "gradients-not-zeroed" in str(seen)


def test_a_healthy_block_is_said_to_be_one():
    with ss.observe() as seen:
        loop()
    assert seen.findings == ()
    assert "No findings" in str(seen)


def test_a_block_is_left_after_the_steps_that_were_asked_for():
    with ss.observe(steps=4) as seen:
        loop(steps=1000)
        raise AssertionError("never reached")
    assert seen.run.steps == 4


def test_what_goes_wrong_in_a_block_is_not_held_back():
    with pytest.raises(ZeroDivisionError), ss.observe():
        _ = 1 / 0


def test_a_block_that_could_see_nothing_is_refused_and_one_is_shown_as_it_prints():
    for limit in ({"steps": 1}, {"seconds": 0.5}):
        ss.observe(**limit)
    for limit in ({"steps": 0}, {"seconds": -1.0}, {"seconds": float("nan")}):
        with pytest.raises(ss.Refusal, match="must be above 0, got "):
            ss.observe(**limit)
    assert repr(ss.observe()) == str(ss.observe())
