import weakref

import pytest
import torch
from torch import nn

from sigmascope.gate import Refusal, memory
from sigmascope.probes import Subject
from sigmascope.probes.tape import (
    at_once,
    gradient_turns,
    held,
    large,
    require_gradients,
    tape_size,
)


def subject(samples: int = 8) -> Subject:
    model = nn.Sequential(nn.Linear(10, 1000), nn.Tanh(), nn.Linear(1000, 10))
    return Subject(model, torch.ones(samples, 10))


def test_what_is_held_is_what_layers_read_and_write():
    # 10 read and 1000 written, 1000 read and 10 written, in float32
    assert held(subject().calls) == 8 * 4 * (10 + 1000 + 1000 + 10)


def test_a_tape_grows_with_the_samples_and_leaves_weights_out():
    one, eight = (tape_size(subject(n).scene) for n in (1, 8))
    assert eight == 8 * one
    assert one >= held(subject(1).calls)


def test_as_many_samples_as_fit_are_put_on_a_tape():
    s = subject()
    assert at_once(s.scene, s.calls) == 8
    one = tape_size(subject(1).scene)
    with memory(13 * one):  # a quarter of it, for three of eight
        assert at_once(s.scene, s.calls) == 3


def test_one_sample_that_does_not_fit_is_refused(as_users_see_it):
    s = subject()
    with memory(1000), pytest.raises(Refusal, match=r"for one sample, .* allow more by `memory="):
        at_once(s.scene, s.calls)


@pytest.mark.parametrize(("times", "weighed"), [(63, 1), (65, 0)])
def test_a_tape_is_weighed_where_layers_write_a_64th_of_the_memory(monkeypatch, times, weighed):
    s, seen = subject(), []

    def weigh(scene):
        seen.append(scene.count)
        return 1

    monkeypatch.setattr("sigmascope.probes.tape.tape_size", weigh)
    with memory(times * held(s.calls)):
        assert at_once(s.scene, s.calls) == 8
    assert seen == [1] * weighed


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [(8 * 24, [[3, 3], [6], [1]]), (8 * 28, [[3, 3], [6, 1]]), (1, [[3], [3], [6], [1]])],
)
def test_gradients_come_as_many_at_a_time_as_an_eighth_of_the_memory_holds(limit, sizes):
    parameters = [torch.zeros(n) for n in (3, 3, 6, 1)]  # of four bytes
    with memory(limit):
        found = [*gradient_turns(parameters)]
    assert [[len(p) for p in some] for some, _ in found] == sizes
    assert [last for _, last in found] == [False] * (len(sizes) - 1) + [True]


def test_without_parameters_there_are_no_turns():
    assert not [*gradient_turns([])]


def test_a_tape_that_is_weighed_is_let_go_of():
    scene, seen = subject().scene, []

    def watch(module, args, out):
        seen.append(weakref.ref(out))

    for layer in scene.model:
        layer.register_forward_hook(watch)
    tape_size(scene)
    assert len(seen) == 3
    assert not [one for one in seen if one() is not None]


def test_the_gradient_of_the_largest_parameter_must_fit_twice(as_users_see_it):
    s = subject()
    largest = 4 * 1000 * 10
    needed = 1.2 * (held(s.calls) + tape_size(subject(1).scene) + 2 * largest)
    with memory(int(needed) + 2):
        require_gradients(s.scene, s.calls, do="wait")
    words = r"gradient of `0\.weight`, which is held twice, got .* takes .* `memory=`.*, or wait\."
    with memory(int(needed) - 2), pytest.raises(Refusal, match=words):
        require_gradients(s.scene, s.calls, do="wait")
    with memory(int(needed) - 2):  # only what is trained has a gradient
        s.model.requires_grad_(False)
        require_gradients(s.scene, s.calls, do="wait")


def test_a_model_that_takes_batches_of_one_size_is_weighed_without_its_tape():
    class Four(nn.Linear):
        def forward(self, x):
            return super().forward(x.reshape(4, 10))

    s = Subject(Four(10, 10), torch.ones(4, 10))
    with memory(4 * 10 * (4 + 4) + 2 * 400 + 300):
        require_gradients(s.scene, s.calls, do="wait")


def test_from_a_32nd_of_the_memory_a_gradient_is_large():
    with memory(3200):
        assert large() == 100


def test_the_memory_of_a_tape_that_was_weighed_goes_back(monkeypatch):
    s, trimmed = subject(), []
    monkeypatch.setattr("sigmascope.probes.tape.trim", lambda: trimmed.append(1))
    require_gradients(s.scene, s.calls, do="wait")
    assert not trimmed  # there was none
    with memory(200_000):
        require_gradients(s.scene, s.calls, do="wait")
    assert trimmed == [1]
