import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.probes.execution.refusals import require_finite_batch


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_one_value_that_is_not_finite_is_enough_to_refuse_a_batch(bad):
    x = torch.ones(3, 4)
    x[1, 2] = bad
    with pytest.raises(
        Refusal, match=r"`batch` must be finite, got a value that is not at \(1, 2\)"
    ):
        require_finite_batch(iter([torch.ones(2), x]))
    require_finite_batch(iter([torch.ones(2, 3)]))
