"""The linear layers at the end of a network."""

from sigmascope.probes import Subject
from sigmascope.theory import le2022


def tail_of(net, x):
    return le2022.LinearTail.of(Subject(net, x))


def test_tails_of_the_four_kinds_have_the_constants_of_the_theory():
    from sigmascope_experiments.le2022.nets import KINDS as NETS, separable, tailed

    expected = ([1, 1, 1], [1, 1], [2, 1, 1], [16, 4, 1])
    printed = ([1, 1, 1], [1, 1], [8, 1, 1], [16, 4, 1])
    for kind, S, P in zip(NETS, expected, printed, strict=True):
        tail = tail_of(tailed(kind, 0), separable(kind, 0)[0])
        bounds = le2022.rank_one_bound(tail.layers, tail.last)
        assert [b.S for b in bounds] == S
        wide = le2022.rank_one_bound(tail.layers, tail.last, block_cost=8)
        assert [b.S for b in wide] == P
