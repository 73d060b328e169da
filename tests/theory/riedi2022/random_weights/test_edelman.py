import math

import pytest
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


def test_edelmans_law_allows_sampling_and_a_finite_size():
    conditions = tuple(float(k) for k in range(2, 22))
    law = EdelmanLaw(10, conditions)
    # 20 matrices at a risk of 1e-6: √(ln(2e6) / 40), and 0.7 / 10 for the size
    assert law.limit().value == pytest.approx(math.sqrt(math.log(2e6) / 40) + 0.07)
    cdf = [math.exp(-2 / (k / 10) - 2 / (k / 10) ** 2) for k in conditions]
    gaps = [max((i + 1) / 20 - F, F - i / 20) for i, F in enumerate(cdf)]
    assert law.measured().value == pytest.approx(max(gaps))
    assert law.check().verdict is not Verdict.INAPPLICABLE
    assert EdelmanLaw(10, conditions[1:]).check().verdict is Verdict.INAPPLICABLE
    far = EdelmanLaw(10, tuple(1e6 for _ in range(20)))  # all above: the gap is F itself
    assert far.measured().value == pytest.approx(1.0, abs=1e-4)
