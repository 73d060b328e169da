import torch

from sigmascope.records import Verdict
from sigmascope.theory.riedi2022.random_weights import EdelmanLaw
from tests.theory.riedi2022.matrices import gaussian


def test_edelmans_law():
    right = EdelmanLaw.of(list(gaussian(600, 10, 10, seed=4)))
    assert right.check().verdict is Verdict.HOLDS
    orthogonal = EdelmanLaw.of([torch.linalg.qr(M)[0] for M in gaussian(600, 10, 10, seed=4)])
    assert orthogonal.check().verdict is Verdict.VIOLATED
    assert EdelmanLaw.of(list(gaussian(5, 10, 10, seed=4))).check().verdict is Verdict.INAPPLICABLE
