"""One residual layer between activations, measured."""

import pytest
import torch

from sigmascope.theory.riedi2022.random_weights import ResidualLayer


def test_sizes_are_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`W` must be square"):
        ResidualLayer.of(torch.eye(3), torch.ones(2), torch.ones(3), r=2.0)
