import contextlib
import gc
import io
import logging
import os
import random
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from sigmascope.models import Subject
from sigmascope.models.state import apart, still


def snapshot(model):
    return (
        {k: v.clone() for k, v in model.state_dict().items()},
        {k: id(v) for k, v in model._buffers.items()},
        [m.training for m in model.modules()],
        [p.requires_grad for p in model.parameters()],
        [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        [
            len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks)
            for m in model.modules()
        ],
    )


def assert_same(model, before):
    state, buffers, *rest = before
    now, now_buffers, *now_rest = snapshot(model)
    assert state.keys() == now.keys()
    assert all(torch.equal(state[k], now[k]) for k in state)
    assert buffers == now_buffers
    assert str(rest) == str(now_rest)


def noisy():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.ReLU(), nn.Linear(6, 3)
    )
    model[0].weight.requires_grad_(False)
    model[4].weight.grad = torch.ones(3, 6)
    model[3].eval()
    return model


def test_nothing_is_left_behind(as_users_see_it):  # beartype draws from `random` itself
    model = noisy()
    before = snapshot(model)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    fast = torch.backends.mha.get_fastpath_enabled()
    subject = Subject(model, torch.randn(8, 4), torch.arange(8) % 3, nn.functional.cross_entropy)
    states = torch.get_rng_state(), *states[1:]
    assert subject.spectra
    assert subject.adjoints.adjoints
    assert subject.gradients is not None
    assert subject.weights
    assert_same(model, before)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert (np.random.get_state()[1] == states[2]).all()
    assert torch.backends.mha.get_fastpath_enabled() == fast


def test_everything_is_put_back_after_a_failure():
    model = noisy()
    before = snapshot(model)
    with pytest.raises(ValueError, match="mat1 and mat2"):
        _ = Subject(model, torch.randn(8, 5)).calls
    with pytest.raises(ZeroDivisionError):
        _fail_in_the_middle(model)
    assert_same(model, before)


def _fail_in_the_middle(model):
    with still(model):
        model[1].running_mean.add_(1)
        model[1].register_buffer("new", torch.ones(1))
        raise ZeroDivisionError


def test_dropout_is_off_and_batch_statistics_are_on():
    model = noisy()
    x = torch.randn(8, 4)
    with still(model), torch.no_grad():
        assert model[1].training
        assert not model[2].training
        first, second = model(x), model(x)
    assert torch.equal(first, second)
    with still(model.eval()):
        assert not model[1].training


def test_a_model_that_draws_random_numbers_draws_the_same_in_every_pass():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return self.inner(x + torch.randn_like(x))

    torch.manual_seed(3)
    subject = Subject(Noisy(), torch.zeros(5, 4))
    first = subject.calls[0].input
    with still(subject.model), torch.no_grad():
        again = torch.randn_like(first)
    assert torch.equal(first, again)


def test_a_compiled_call_is_suspended_and_kept():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model.compile(backend="eager")
    compiled = model._compiled_call_impl
    assert set(Subject(model, torch.randn(3, 4)).activations) == {"0", "(output)"}
    assert model._compiled_call_impl is compiled
    wrapped = torch.compile(model, backend="eager")
    assert Subject(wrapped, torch.randn(3, 4)).model is model


def test_the_fast_path_of_attention_is_back_after_many_threads_and_failures():
    layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True).eval()

    def measure(length):
        width = 6 if length % 3 else 5  # a third of them cannot be run
        try:
            return Subject(layer, torch.randn(2, length, width)).calls
        except ValueError:
            return None

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(measure, range(1, 25)))
    assert torch.backends.mha.get_fastpath_enabled()


def test_random_states_and_settings_are_left_apart(as_users_see_it):
    state = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    with apart():
        torch.rand(3), random.random(), np.random.rand()
        torch.set_default_dtype(torch.float64)
    assert torch.get_default_dtype() == torch.float32
    assert torch.equal(torch.random.get_rng_state(), state[0])
    assert random.getstate() == state[1]
    assert (np.random.get_state()[1] == state[2]).all()


PROCESS = {
    "the working directory": (os.getcwd, lambda: os.chdir("/")),
    "a variable": (lambda: dict(os.environ), lambda: os.environ.update(SIGMA_ODD="1")),
    "a variable that is gone": (lambda: dict(os.environ), lambda: os.environ.pop("PATH")),
    "where modules are found": (lambda: [*sys.path], lambda: sys.path.insert(0, "/odd")),
    "the list of places": (lambda: id(sys.path), lambda: setattr(sys, "path", ["/odd"])),
    "arguments": (lambda: [*sys.argv], lambda: sys.argv.append("--odd")),
    "what hears of errors": (lambda: sys.excepthook, lambda: setattr(sys, "excepthook", print)),
    "what shows values": (lambda: sys.displayhook, lambda: setattr(sys, "displayhook", print)),
    "standard output": (lambda: sys.stdout, lambda: setattr(sys, "stdout", io.StringIO())),
    "how tensors are printed": (
        lambda: str(torch.tensor([1 / 3])),
        lambda: torch.set_printoptions(precision=9),
    ),
    "how arrays are printed": (
        lambda: str(np.array([1 / 3])),
        lambda: np.set_printoptions(precision=2),
    ),
    "which warnings are shown": (
        lambda: [*warnings.filters],
        lambda: warnings.simplefilter("ignore", UserWarning),
    ),
    "the depth of calls": (sys.getrecursionlimit, lambda: sys.setrecursionlimit(1234)),
    "the collector": (gc.isenabled, gc.disable),
    "the level of logs": (
        logging.root.getEffectiveLevel,
        lambda: logging.root.setLevel(logging.DEBUG),
    ),
}


@pytest.mark.parametrize("what", PROCESS)
@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_what_a_forward_pass_sets_of_the_process_is_set_back(what, error):
    get, change = PROCESS[what]

    class Sets(nn.Linear):
        def forward(self, x):
            change()
            if error is not None:
                raise error
            return super().forward(x)

    before = get()
    with contextlib.suppress(ValueError, KeyboardInterrupt), still(net := Sets(2, 2)):
        net(torch.ones(1, 2))
    assert get() == before


@pytest.mark.parametrize("warns", [True, False])
def test_algorithms_that_had_to_repeat_have_to_again(warns):
    torch.use_deterministic_algorithms(True, warn_only=warns)
    try:
        with still(nn.Linear(2, 2)):
            torch.use_deterministic_algorithms(False)
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled() == warns
    finally:
        torch.use_deterministic_algorithms(False)
