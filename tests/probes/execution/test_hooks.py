import itertools
import threading

import pytest
import torch
from torch import nn

from sigmascope.probes.execution.hooks import _last_state, recording


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
