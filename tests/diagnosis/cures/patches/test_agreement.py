"""A changed source makes the program that was tried, or another one."""

from dataclasses import replace

import pytest
from torch import nn

from sigmascope.diagnosis.cures import agrees
from tests.diagnosis.cures.patches.test_sources import HEAD, WAYS, cure_of, run


@pytest.mark.parametrize(
    "other",
    [
        lambda p: replace(p, lr=0.51),
        lambda p: replace(p, optimizer="adam"),
        lambda p: replace(p, epochs=5),
        lambda p: replace(p, batch_size=4),
        lambda p: replace(p, loss="mse"),
        lambda p: replace(p, data=(p.data[0], 1 - p.data[1])),
        lambda p: replace(p, data=(p.data[0], p.data[1].double())),
        lambda p: replace(p, model=nn.Sequential(*p.model[:3], nn.Tanh())),
        lambda p: replace(p, optimizer=None),
        lambda p: replace(p, data=(p.data[0], p.data[1][:, 0])),
    ],
)
def test_another_program_does_not_agree(other):
    program = run(HEAD + WAYS["mapping"])
    assert agrees(run(HEAD + WAYS["nothing named"]), cure_of((), program), samples=16)
    assert not agrees(other(program), cure_of((), program), samples=16)
