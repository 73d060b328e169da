import itertools
import threading

import pytest
import torch
from torch import nn

from sigmascope.probes.execution.layers import _last_state, is_repeated, module_name, recording


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize(
    ("first", "both", "batched"), list(itertools.product([True, False], repeat=3))
)
def test_the_last_state_is_read_off_the_sequence(kind, first, both, batched):
    """Whichever axis is time, and from both ends where it is read both ways."""
    net = kind(3, 4, num_layers=2, batch_first=first, bidirectional=both)
    g = torch.Generator().manual_seed(0)
    sequence, state = net(torch.randn(*((5, 7, 3) if batched else (7, 3)), generator=g))
    found = _last_state(net, 2 * sequence, state)
    h, last = (s[0] if isinstance(s, tuple) else s for s in (state, found))
    ends = 2 if both else 1
    assert torch.equal(last[:-ends], h[:-ends])
    assert torch.allclose(last[-ends:], 2 * h[-ends:])


def test_calls_of_another_thread_are_not_recorded():
    net, x = nn.Linear(3, 3), torch.randn(2, 3)
    with recording({"it": net}) as tape:
        net(x)
        other = threading.Thread(target=lambda: [net(x + 1) for _ in range(5)])
        other.start()
        other.join()
    assert len(tape.calls) == 1


@pytest.mark.parametrize(
    ("site", "name", "repeated"),
    [("a", "a", False), ("a#2", "a", True), ("a#1", "a", False), ("a#2#1", "a#2", False)],
)
def test_a_site_is_a_module_and_the_number_of_its_call(site, name, repeated):
    assert (module_name(site), is_repeated(site)) == (name, repeated)


def test_calls_are_numbered_also_of_modules_whose_names_look_so():
    net = nn.ModuleDict({"a": nn.Linear(3, 3), "a#2": nn.Linear(3, 3)})
    with recording(dict(net.items())) as tape:
        x = torch.ones(2, 3)
        for module in (net["a"], net["a#2"], net["a"]):
            x = module(x)
    assert [c.site for c in tape.calls] == ["a", "a#2#1", "a#2"]
    assert [c.module for c in tape.calls] == [net["a"], net["a#2"], net["a"]]


def test_what_was_written_survives_an_activation_in_place():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    with recording({"0": net[0]}) as tape, torch.no_grad():
        out = net(torch.linspace(-9, 9, 27).view(9, 3))
    assert bool((tape.calls[0].output < 0).any())
    assert torch.equal(out, tape.calls[0].output.relu())


def test_an_input_that_was_overwritten_is_known():
    layer, x = nn.Linear(3, 3), torch.ones(2, 3)
    with recording({"it": layer}) as held, recording({"it": layer}, copy=True) as copied:
        layer(x)
    assert not held.calls[0].spoiled
    x.zero_()
    assert held.calls[0].spoiled
    assert not copied.calls[0].spoiled
    assert copied.calls[0].input.tolist() == [[1, 1, 1]] * 2


def test_an_output_may_be_rewritten_and_no_hook_stays():
    layer = nn.Linear(3, 3)
    with recording({"it": layer}, rewrite=lambda m, x, y: 0 * y + 7) as tape, torch.no_grad():
        assert layer(torch.ones(2, 3)).tolist() == [[7, 7, 7]] * 2
        tape.listening = False
        layer(torch.ones(2, 3))
    assert len(tape.calls) == 1
    with pytest.raises(RuntimeError, match="mat1"), recording({"it": layer}):
        layer(torch.ones(2, 4))
    assert not layer._forward_hooks


def test_keywords_and_tuples_are_read():
    attention = nn.MultiheadAttention(4, 1, batch_first=True)
    q = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    with recording({"it": attention}) as tape, torch.no_grad():
        out, weights = attention(query=q, key=q + 1, value=q)
    assert torch.equal(tape.calls[0].input, q)
    assert torch.equal(tape.calls[0].output, out)
    assert weights.shape == (2, 5, 5)
